// vocab_spec.c - a spec's memory: strings in blocks that never move, growing arrays; searching it.
#include "format/vocab/spec/vocab_spec.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/grow.h"
#include "base/text/utf8.h" // defines: fxi_utf8_vprint

enum { BLOCK_BYTES = 1 << 16 };

struct fxi_spec_block {
    struct fxi_spec_block *next;
    size_t used, size;
    char text[];
};

void fxi_vocab_spec_init(fxi_vocab_spec *s, const char *name)
{
    *s = (fxi_vocab_spec){.name = name, .bos = -1, .eos = -1, .unk = -1};
}

void fxi_vocab_spec_free(fxi_vocab_spec *s)
{
    for (struct fxi_spec_block *b = s->pool, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(s->tok);
    free(s->merge);
    free(s->norm);
    free(s->split);
    fxi_ids_free(&s->ends);
    fxi_vocab_spec_init(s, s->name);
}

fx_status fxi_spec_fail_memory(const fxi_vocab_spec *s, fx_error *err)
{
    return fxi_fail(err, FX_ENOMEM, "%s: no memory for the vocabulary", s->name);
}

bool fxi_spec_warn(fxi_vocab_spec *s, const char *fmt, ...)
{
    char text[FX_ERROR_TEXT_BYTES];
    va_list args;
    if (s->warning.n) return true;
    const int head = snprintf(text, sizeof text, "%s: ", s->name);
    const size_t n_head = (size_t)head < sizeof text ? (size_t)head : sizeof text - 1;
    va_start(args, fmt);
    fxi_utf8_vprint(text + n_head, sizeof text - n_head, fmt, args);
    va_end(args);
    return fxi_spec_str(s, text, strlen(text), &s->warning);
}

static bool add_pool_block(fxi_vocab_spec *s, size_t n)
{
    size_t size = n > BLOCK_BYTES ? n : BLOCK_BYTES;
    struct fxi_spec_block *b = malloc(sizeof *b + size);
    if (!b) return false;
    *b = (struct fxi_spec_block){.next = s->pool, .size = size};
    s->pool = b;
    return true;
}

bool fxi_spec_str(fxi_vocab_spec *s, const char *p, size_t n, fxi_str *out)
{
    if ((!s->pool || s->pool->size - s->pool->used < n) && !add_pool_block(s, n)) return false;
    char *at = s->pool->text + s->pool->used;
    if (n) memcpy(at, p, n);
    s->pool->used += n;
    *out = (fxi_str){at, n};
    return true;
}

bool fxi_spec_add_token(fxi_vocab_spec *s, fxi_spec_token t)
{
    bool ok = fxi_grow(&s->tok, sizeof *s->tok, s->n_tok, &s->cap_tok) &&
              fxi_spec_str(s, t.piece.p, t.piece.n, &t.piece);
    if (ok) s->tok[s->n_tok++] = t;
    return ok;
}

bool fxi_spec_add_merge(fxi_vocab_spec *s, fxi_spec_merge m)
{
    bool ok = fxi_grow(&s->merge, sizeof *s->merge, s->n_merge, &s->cap_merge);
    if (ok) s->merge[s->n_merge++] = m;
    return ok;
}

bool fxi_spec_add_norm(fxi_vocab_spec *s, fxi_norm n)
{
    bool ok = fxi_grow(&s->norm, sizeof *s->norm, s->n_norm, &s->cap_norm) &&
              fxi_spec_str(s, n.from.p, n.from.n, &n.from) &&
              fxi_spec_str(s, n.to.p, n.to.n, &n.to);
    if (ok) s->norm[s->n_norm++] = n;
    return ok;
}

bool fxi_spec_add_split(fxi_vocab_spec *s, fxi_split p)
{
    bool ok = fxi_grow(&s->split, sizeof *s->split, s->n_split, &s->cap_split) &&
              fxi_spec_str(s, p.pattern.p, p.pattern.n, &p.pattern) &&
              fxi_spec_str(s, p.change.from.p, p.change.from.n, &p.change.from) &&
              fxi_spec_str(s, p.change.to.p, p.change.to.n, &p.change.to);
    if (ok) s->split[s->n_split++] = p;
    return ok;
}

int32_t fxi_spec_find(const fxi_vocab_spec *s, fxi_str piece)
{
    for (size_t id = s->n_tok; id-- > 0;)
        if (s->tok[id].piece.n == piece.n && !memcmp(s->tok[id].piece.p, piece.p, piece.n))
            return (int32_t)id;
    return -1;
}

static fxi_str spec_piece(const void *of, int32_t id)
{
    return ((const fxi_vocab_spec *)of)->tok[id].piece;
}

bool fxi_spec_index(const fxi_vocab_spec *s, fxi_index *x)
{
    bool ok = fxi_index_make(x, s->n_tok, spec_piece, s);
    for (int normal = 0; normal < 2; normal++)
        for (size_t i = 0; ok && i < s->n_tok; i++) {
            uint8_t type = s->tok[i].type;
            if ((type != FXI_TOKEN_USER && type != FXI_TOKEN_CONTROL) == normal)
                ok = fxi_index_put(x, (int32_t)i);
        }
    if (!ok) fxi_index_free(x);
    return ok;
}

// ---- BERT's steps: what they do to a text, and how they cut it ----------------------------------

bool fxi_spec_add_bert_norms(fxi_vocab_spec *s, fxi_bert how)
{
    const struct {
        bool wanted;
        fxi_norm_kind kind;
    } steps[] = {
        {how.cleans, FXI_NORM_CLEAN},     {how.pads_han, FXI_NORM_PAD_HAN},
        {how.strips, FXI_NORM_NFD},       {how.strips, FXI_NORM_STRIP_MN},
        {how.lowers, FXI_NORM_LOWERCASE},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (steps[i].wanted && !fxi_spec_add_norm(s, (fxi_norm){.kind = steps[i].kind}))
            return false;
    return true;
}

bool fxi_spec_add_bert_splits(fxi_vocab_spec *s)
{
    const fxi_split spaces = {.pattern = fxi_str_of("\\p{White_Space}"), .how = FXI_SPLIT_REMOVED},
                    marks = {.pattern = fxi_str_of("[!-/:-@\\[-`{-~\\p{P}]")};
    return fxi_spec_add_split(s, spaces) && fxi_spec_add_split(s, marks);
}

bool fxi_spec_add_bert(fxi_vocab_spec *s, fxi_bert how)
{
    return fxi_spec_add_bert_norms(s, how) && fxi_spec_add_bert_splits(s);
}
