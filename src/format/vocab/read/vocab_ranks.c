// vocab_ranks.c - reads rank files, tiktoken's form: each line is a token's bytes in base64, a
// space and its rank, which is its id. The two neighbours that make the token of lowest rank are
// joined first: scores of -rank.
//
// A rank file says neither how text is cut into words nor which special tokens follow the ranks:
// the pre-tokenizer's name does.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/text/base64.h"
#include "format/show.h"
#include "format/vocab/read/vocab_read.h"

enum { MAX_RANKS = 1 << 24, MAX_TOKEN_BYTES = 65535 };

// ---- special tokens -----------------------------------------------------------------------------

typedef struct special_run {
    const char *piece; // if `to` is not 0, with "#" for each number from..to-1
    int from, to;
} special_run;

typedef struct rank_family {
    const char *pre[4]; // names of the pre-tokenizer; NULL after the last
    const special_run *run;
    size_t n_run;
    const char *bos, *eos; // pieces; NULL: none
} rank_family;

static const special_run gpt2_specials[] = {{.piece = "<|endoftext|>"}};

static const special_run llama3_specials[] = {
    {.piece = "<|begin_of_text|>"},
    {.piece = "<|end_of_text|>"},
    {.piece = "<|reserved_special_token_#|>", .from = 0, .to = 4},
    {.piece = "<|start_header_id|>"},
    {.piece = "<|end_header_id|>"},
    {.piece = "<|reserved_special_token_#|>", .from = 4, .to = 5},
    {.piece = "<|eot_id|>"},
    {.piece = "<|reserved_special_token_#|>", .from = 5, .to = 251},
};

static const special_run qwen_specials[] = {
    {.piece = "<|endoftext|>"},
    {.piece = "<|im_start|>"},
    {.piece = "<|im_end|>"},
    {.piece = "<|extra_#|>", .from = 0, .to = 205},
};

#define RUNS(list) list, sizeof list / sizeof *list
static const rank_family families[] = {
    {{"gpt-2", "gpt2"}, RUNS(gpt2_specials), NULL, "<|endoftext|>"},
    {{"llama-bpe", "llama3", "llama-v3"},
     RUNS(llama3_specials),
     "<|begin_of_text|>",
     "<|end_of_text|>"},
    {{"qwen2"}, RUNS(qwen_specials), NULL, "<|endoftext|>"},
};
#undef RUNS

// Makes the token with this piece a control token; a new one, unless the file has it.
static bool add_special(fxi_vocab_spec *s, const rank_family *f, const fxi_index *there,
                        const char *piece)
{
    const fxi_token t = {.piece = {piece, strlen(piece)}, .type = FXI_TOKEN_CONTROL};
    int32_t id = fxi_index_find(there, t.piece.p, t.piece.n);
    const bool known = id >= 0;
    if (!known) id = (int32_t)s->n_tok;
    if (known) s->tok[id].type = FXI_TOKEN_CONTROL;
    if (f->bos && !strcmp(piece, f->bos)) s->bos = id;
    if (f->eos && !strcmp(piece, f->eos)) s->eos = id;
    return known || fxi_spec_add_token(s, t);
}

static bool add_run(fxi_vocab_spec *s, const rank_family *f, const fxi_index *there,
                    const special_run *run)
{
    const char *hash = strchr(run->piece, '#');
    if (!run->to) return add_special(s, f, there, run->piece);
    for (int i = run->from; i < run->to; i++) {
        char piece[64];
        snprintf(piece, sizeof piece, "%.*s%d%s", (int)(hash - run->piece), run->piece, i,
                 hash + 1);
        if (!add_special(s, f, there, piece)) return false;
    }
    return true;
}

// What the pre-tokenizer's name implies: how text is cut into words, and the special tokens.
static fx_status apply_pre(fxi_vocab_spec *s, const char *pre, fx_error *err)
{
    if (!pre)
        return fxi_fail(
            err, FX_EFORMAT,
            "%s: a rank file does not name its pre-tokenizer: the name of a pre-tokenizer "
            "must be given (such as llama-bpe or qwen2)",
            s->name);
    s->unit_bytes = s->whole_words = true;
    FX_TRY(fxi_spec_add_pre(s, (fxi_str){pre, strlen(pre)}, err));
    const rank_family *f = NULL;
    for (size_t i = 0; !f && i < sizeof families / sizeof *families; i++)
        for (const char *const *name = families[i].pre; *name; name++)
            if (!strcmp(pre, *name)) f = &families[i];
    fxi_index there = {0};
    bool good = !f || fxi_spec_index(s, &there);
    for (size_t i = 0; f && good && i < f->n_run; i++) good = add_run(s, f, &there, &f->run[i]);
    fxi_index_free(&there);
    if (!good) return fxi_fail_memory(err);
    s->adds_bos = s->bos >= 0;
    return FX_OK;
}

// ---- lines --------------------------------------------------------------------------------------

// Cuts "BASE64 RANK"; false: the line is something else.
static bool cut_rank_line(fxi_str line, fxi_str *code, uint64_t *rank)
{
    const char *space = line.n ? memchr(line.p, ' ', line.n) : NULL;
    const size_t n_digit = space ? line.n - (size_t)(space + 1 - line.p) : 0;
    if (!n_digit || n_digit > 9) return false;
    *code = (fxi_str){line.p, (size_t)(space - line.p)};
    *rank = 0;
    for (size_t i = 1; i <= n_digit; i++) {
        if (space[i] < '0' || space[i] > '9') return false;
        *rank = 10 * *rank + (uint64_t)(space[i] - '0');
    }
    return code->n;
}

bool fxi_ranks_begin(fxi_str text)
{
    fxi_str line, code;
    uint64_t rank;
    return fxi_str_next_line(&text, &line) && cut_rank_line(line, &code, &rank);
}

// Makes room for the tokens, which the lines fill in any order: one for each line that is long
// enough.
static fx_status add_empty_tokens(fxi_vocab_spec *s, fxi_str text, fx_error *err)
{
    enum { SHORTEST = sizeof "YQ== 0" - 1 };
    fxi_str line;
    size_t n = 0;
    while (fxi_str_next_line(&text, &line)) n += line.n >= SHORTEST;
    if (!n || n > MAX_RANKS)
        return fxi_fail(err, FX_EFORMAT, "%s: %zu ranks (1 to %d allowed)", s->name, n, MAX_RANKS);
    for (size_t i = 0; i < n; i++) {
        const fxi_token t = {.score = -(float)i, .type = FXI_TOKEN_NORMAL};
        if (!fxi_spec_add_token(s, t)) return fxi_fail_memory(err);
    }
    return FX_OK;
}

static fx_status take_rank_line(fxi_vocab_spec *s, size_t number, fxi_str line, fxi_buf *room,
                                fx_error *err)
{
    fxi_str code;
    uint64_t rank;
    size_t n;
    if (!cut_rank_line(line, &code, &rank) || code.n > MAX_TOKEN_BYTES)
        return fxi_fail(err, FX_EFORMAT, "%s: line %zu is not a token in base64 and its rank",
                        s->name, number);
    if (rank >= s->n_tok)
        return fxi_fail(err, FX_EFORMAT, "%s: line %zu: rank %" PRIu64 ", but there are %zu tokens",
                        s->name, number, rank, s->n_tok);
    if (s->tok[rank].piece.n)
        return fxi_fail(err, FX_EFORMAT, "%s: line %zu: duplicate rank %" PRIu64, s->name, number,
                        rank);
    fxi_buf_clear(room);
    if (!fxi_buf_reserve(room, fxi_base64_room(code.n))) return fxi_fail_memory(err);
    if (!fxi_base64_decode(code.p, code.n, (unsigned char *)room->p, &n) || !n)
        return fxi_fail(err, FX_EFORMAT, "%s: line %zu: '%s' is not base64", s->name, number,
                        fxi_show_text(code).s);
    return fxi_spec_str(s, room->p, n, &s->tok[rank].piece) ? FX_OK : fxi_fail_memory(err);
}

// There are as many lines as ranks, and no rank comes twice, so none is missing.
fx_status fxi_vocab_read_ranks(fxi_str text, const char *pre, fxi_vocab_spec *s, fx_error *err)
{
    fxi_str line;
    fxi_buf room = {0};
    fx_status st = add_empty_tokens(s, text, err);
    for (size_t number = 1; st == FX_OK && fxi_str_next_line(&text, &line); number++)
        if (line.n) st = take_rank_line(s, number, line, &room, err);
    fxi_buf_free(&room);
    FX_TRY(st);
    s->kind = FXI_VOCAB_SCORES;
    s->spelling = FXI_SPELL_PLAIN;
    return apply_pre(s, pre, err);
}
