// vocab_pair.c - reads a vocabulary in two files, as GPT-2 was published: encoder.json (or
// vocab.json) has the pieces' ids, vocab.bpe (or merges.txt) one merge per line, in order of
// precedence. Pieces are spelled in ByteLevel's characters.
#include <stdio.h>
#include <string.h>

#include "format/vocab/read/hf/vocab_hf.h"
#include "format/vocab/read/vocab_ranks.h"

static fx_status take_merge_line(const fxi_hf *h, fxi_str line, fxi_buf *room, size_t number)
{
    fxi_hf_path path;
    snprintf(path.s, sizeof path.s, "line %zu of the merges", number);
    if (line.n && line.p[line.n - 1] == '\r') line.n--;
    if (!line.n) return FX_OK;
    if (number == 1 && line.n >= 8 && !memcmp(line.p, "#version", 8)) return FX_OK;
    return fxi_hf_add_merge_line(h, line, room, path.s);
}

static fx_status read_merges(const fxi_hf *h, fxi_str text)
{
    fxi_buf room = {0};
    fx_status st = FX_OK;
    const char *end = text.p + text.n;
    size_t number = 0;
    while (st == FX_OK && text.p < end) {
        const char *nl = memchr(text.p, '\n', (size_t)(end - text.p));
        const char *stop = nl ? nl : end;
        const fxi_str line = {text.p, (size_t)(stop - text.p)};
        st = take_merge_line(h, line, &room, ++number);
        text.p = nl ? nl + 1 : end;
    }
    fxi_buf_free(&room);
    return st;
}

fx_status fxi_vocab_read_pair(fxi_str vocab, fxi_str merges, const char *pre, bool complete,
                              fxi_vocab_spec *s, fx_error *err)
{
    json_t *root;
    fxi_hf h = {.s = s, .err = err};
    FX_TRY(fxi_hf_parse(&h, vocab.p, vocab.n, 0, &root));
    s->kind = FXI_VOCAB_MERGES;
    s->spelling = FXI_SPELL_PRINTABLE;
    fx_status st = fxi_hf_add_pieces(&h, root);
    if (st == FX_OK) st = read_merges(&h, merges);
    fxi_index_free(&h.pieces);
    json_decref(root);
    FX_TRY(st);
    if (!complete) return fxi_ranks_finish(s, pre, err);
    s->unit_bytes = true;
    return fxi_spec_add_pre(s, fxi_str_of(pre), err);
}
