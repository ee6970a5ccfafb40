// gram_walk.c - slices whose characters may all follow are known; of others, the tries of their
// tails or of all their tokens are walked; where a state is like another one, what differs.
#include "grammar/mask/gram_walk.h"

#include <stdlib.h>
#include <string.h>

enum { NODES_PER_PAY = 256, COST_OF_ROOT = 10, WORDS_PER_NODE = 8 };

static void allow_ids(uint64_t *mask, const uint32_t *id, size_t n)
{
    for (const uint32_t *end = id + n; id < end; id++) mask[*id / 64] |= (uint64_t)1 << (*id % 64);
}

static void forbid_ids(uint64_t *mask, const uint32_t *id, size_t n)
{
    for (const uint32_t *end = id + n; id < end; id++)
        mask[*id / 64] &= ~((uint64_t)1 << (*id % 64));
}

// The table of moves goes elsewhere when moves are found, here or in a pause.
static void look_up_rows(fxi_mask_walk *w, uint16_t depth)
{
    for (uint16_t d = 0; d < depth; d++) w->row[d] = fxi_auto_moves(w->pay.a, w->path[d]);
}

// The nodes from i to end, of which the first is a root.
static fx_status walk_nodes(fxi_mask_walk *w, const fxi_token_trie *t, size_t i, size_t end,
                            fx_error *err)
{
    const uint8_t *class_of = fxi_auto_classes(w->pay.a);
    look_up_rows(w, 1);
    size_t n = 0;
    while (i < end) {
        const fxi_token_node *x = &t->node[i];
        const uint32_t *row = w->row[x->depth - 1];
        uint32_t next = row ? row[class_of[x->byte]] : FXI_AUTO_UNKNOWN;
        if (next == FXI_AUTO_UNKNOWN || ++n == NODES_PER_PAY) {
            FX_TRY(fxi_mask_pay(&w->pay, n, err));
            n = 0;
            FX_TRY(fxi_auto_step(w->pay.a, w->path[x->depth - 1], x->byte, &next, err));
            look_up_rows(w, x->depth);
        }
        if (next == FXI_AUTO_DEAD) {
            i = x->end;
            continue;
        }
        w->path[x->depth] = next;
        w->row[x->depth] = fxi_auto_moves(w->pay.a, next);
        allow_ids(w->mask, t->id + x->id, x->n_id);
        i++;
    }
    return fxi_mask_pay(&w->pay, n + COST_OF_ROOT, err);
}

static fx_status walk_trie(fxi_mask_walk *w, const fxi_token_trie *t, uint32_t state, fx_error *err)
{
    const fxi_byte_set may = fxi_auto_bytes(w->pay.a, state);
    w->path[0] = state;
    for (int i = 0; i < 4; i++)
        for (uint64_t bits = may.word[i]; bits; bits &= bits - 1) {
            const uint32_t root = t->root[64 * i + __builtin_ctzll(bits)];
            if (root != FXI_TRIE_NONE) FX_TRY(walk_nodes(w, t, root, t->node[root].end, err));
        }
    return FX_OK;
}

static fx_status walk_tails(fxi_mask_walk *w, const fxi_token_tails *t, const fxi_slice_run *run,
                            fx_error *err)
{
    if (run->loops) return walk_trie(w, &t->any, run->state[0], err);
    for (int i = 0; i <= run->n; i++) FX_TRY(walk_trie(w, &t->after[i], run->state[i], err));
    return FX_OK;
}

// known: of up to 1, 2, .. characters.
static fx_status allow_known(fxi_mask_walk *w, const uint64_t *known, int n_char, fx_error *err)
{
    if (n_char <= 0) return FX_OK;
    known += (size_t)(n_char - 1) * w->tokens->n_word;
    for (size_t i = 0; i < w->tokens->n_word; i++) w->mask[i] |= known[i];
    return fxi_mask_pay(&w->pay, w->tokens->n_word / WORDS_PER_NODE, err);
}

// A slice of which any characters may follow is known; of another, tails or all of it are walked.
static fx_status walk_slice(fxi_mask_walk *w, size_t slice, uint32_t state, fxi_slice_run *run,
                            fx_error *err)
{
    const fxi_gram_tokens *t = w->tokens;
    FX_TRY(fxi_slice_find_run(w->moves, &w->pay, slice, state, run, err));
    if (run->n < 0) return walk_trie(w, &t->slice[slice].trie, state, err);
    return allow_known(w, t->slice[slice].mask, run->n, err);
}

// Where words may follow a mark, the tokens of this mark are known by their length.
static fx_status walk_mark(fxi_mask_walk *w, uint32_t root, uint32_t state, fx_error *err)
{
    const fxi_gram_tokens *t = w->tokens;
    const fxi_token_trie *x = &t->slice[FXI_SLICE_MARKED].trie;
    const fxi_token_node *first = &x->node[root];
    uint32_t next;
    fxi_slice_run words;
    FX_TRY(fxi_auto_step(w->pay.a, state, first->byte, &next, err));
    if (!next) return FX_OK;
    FX_TRY(fxi_slice_find_run(w->moves, &w->pay, FXI_SLICE_WORDS, next, &words, err));
    w->path[0] = state;
    if (words.n < 0) return walk_nodes(w, x, root, first->end, err);
    const uint32_t *upto = t->marks.upto[first->byte];
    const int n = words.n + 1 < FXI_SLICE_CHARS ? words.n + 1 : FXI_SLICE_CHARS;
    FX_TRY(fxi_mask_pay(&w->pay, (upto[n] - upto[0]) / 4, err));
    allow_ids(w->mask, t->marks.id + upto[0], upto[n] - upto[0]);
    return FX_OK;
}

static fx_status walk_marked(fxi_mask_walk *w, uint32_t state, fx_error *err)
{
    const fxi_byte_set may = fxi_auto_bytes(w->pay.a, state);
    const uint32_t *root = w->tokens->slice[FXI_SLICE_MARKED].trie.root;
    for (int b = 0; b < 0x80; b++)
        if (root[b] != FXI_TRIE_NONE && fxi_byte_in(&may, (uint8_t)b))
            FX_TRY(walk_mark(w, root[b], state, err));
    return FX_OK;
}

// Tokens with characters of ASCII that are no words.
static fx_status walk_printed(fxi_mask_walk *w, uint32_t state, const fxi_slice_run *words,
                              fx_error *err)
{
    const fxi_gram_tokens *t = w->tokens;
    fxi_slice_run run;
    FX_TRY(fxi_slice_find_run(w->moves, &w->pay, FXI_SLICE_PRINTED, state, &run, err));
    FX_TRY(allow_known(w, t->slice[FXI_SLICE_MARKED].mask, run.n, err));
    FX_TRY(allow_known(w, t->slice[FXI_SLICE_PRINTED].mask, run.n, err));
    if (run.n >= 0) return FX_OK;
    FX_TRY(walk_marked(w, state, err));
    if (words->n >= 0) return walk_tails(w, &t->word_tails, words, err);
    return walk_trie(w, &t->slice[FXI_SLICE_PRINTED].trie, state, err);
}

// Where some characters may follow, but not any.
static fx_status walk_slices(fxi_mask_walk *w, uint32_t state, fx_error *err)
{
    const fxi_gram_tokens *t = w->tokens;
    fxi_slice_run words = {.n = -1};
    for (size_t k = 0; k <= FXI_SLICE_WORDS; k++) FX_TRY(walk_slice(w, k, state, &words, err));
    FX_TRY(walk_printed(w, state, &words, err));
    FX_TRY(walk_trie(w, &t->slice[FXI_SLICE_CHARS_ALL].trie, state, err));
    return walk_trie(w, &t->slice[FXI_SLICE_REST].trie, state, err);
}

static fx_status walk_tokens(fxi_mask_walk *w, uint32_t state, fx_error *err)
{
    const fxi_gram_tokens *t = w->tokens;
    fxi_slice_run run;
    FX_TRY(fxi_slice_find_run(w->moves, &w->pay, FXI_SLICE_CHARS_ALL, state, &run, err));
    if (run.n < 0) return walk_slices(w, state, err);
    FX_TRY(allow_known(w, t->chars_mask, run.n, err));
    return walk_tails(w, &t->char_tails, &run, err);
}

// ---- what differs from another state ------------------------------------------------------------
//
// Where a name begins that may be any but those of a few members, most tokens lead where they lead
// from the state behind a name that is none of them. What that state allows is known without a
// walk; then only those bytes are walked behind which the two states differ.

static fx_status step_pair(fxi_mask_walk *w, uint16_t depth, uint8_t byte, uint32_t *next,
                           uint32_t *like, fx_error *err)
{
    FX_TRY(fxi_mask_pay(&w->pay, 2, err));
    *next = *like = FXI_AUTO_DEAD;
    if (w->path[depth - 1]) FX_TRY(fxi_auto_step(w->pay.a, w->path[depth - 1], byte, next, err));
    if (w->like[depth - 1]) FX_TRY(fxi_auto_step(w->pay.a, w->like[depth - 1], byte, like, err));
    w->path[depth] = *next;
    w->like[depth] = *like;
    return FX_OK;
}

static fx_status walk_differing(fxi_mask_walk *w, const fxi_token_trie *t, size_t i, size_t end,
                                fx_error *err)
{
    while (i < end) {
        const fxi_token_node *x = &t->node[i];
        uint32_t next, like;
        FX_TRY(step_pair(w, x->depth, x->byte, &next, &like, err));
        if (next != like && next) {
            allow_ids(w->mask, t->id + x->id, x->n_id);
            i++;
            continue;
        }
        if (next != like) forbid_ids(w->mask, t->id + x->id, fxi_trie_ids_end(t, x) - x->id);
        i = x->end;
    }
    return FX_OK;
}

// `mask` is that of `like`.
static fx_status walk_difference(fxi_mask_walk *w, uint32_t state, uint32_t like, fx_error *err)
{
    w->path[0] = state;
    w->like[0] = like;
    for (int b = 0; b < 256; b++) {
        uint32_t x, y;
        FX_TRY(step_pair(w, 1, (uint8_t)b, &x, &y, err));
        for (size_t k = 0; x != y && k < FXI_N_SLICE; k++) {
            const fxi_token_trie *t = &w->tokens->slice[k].trie;
            const uint32_t root = t->root[b];
            if (root != FXI_TRIE_NONE) FX_TRY(walk_differing(w, t, root, t->node[root].end, err));
        }
    }
    return FX_OK;
}

// The state to compare with, *like: any characters lead from it back to it. FXI_AUTO_DEAD: none.
static fx_status find_like(fxi_mask_walk *w, uint32_t state, uint32_t *like, fx_error *err)
{
    fxi_slice_run run;
    *like = FXI_AUTO_DEAD;
    FX_TRY(fxi_slice_find_run(w->moves, &w->pay, FXI_SLICE_CHARS_ALL, state, &run, err));
    for (const char *probe = "~q"; run.n < 0 && *probe && !*like; probe++) {
        uint32_t next;
        FX_TRY(fxi_auto_step(w->pay.a, state, (uint8_t)*probe, &next, err));
        if (!next) continue;
        FX_TRY(fxi_slice_find_run(w->moves, &w->pay, FXI_SLICE_CHARS_ALL, next, &run, err));
        if (run.loops) *like = next;
        run.n = -1;
    }
    return FX_OK;
}

fx_status fxi_mask_walk_run(fxi_mask_walk *w, uint32_t state, fx_error *err)
{
    uint32_t like;
    memset(w->mask, 0, w->tokens->n_word * sizeof *w->mask);
    FX_TRY(fxi_mask_pay(&w->pay, w->tokens->n_word / WORDS_PER_NODE, err));
    FX_TRY(find_like(w, state, &like, err));
    if (!like) return walk_tokens(w, state, err);
    FX_TRY(walk_tokens(w, like, err));
    return walk_difference(w, state, like, err);
}

bool fxi_mask_walk_make(fxi_mask_walk *w, const fxi_gram_tokens *tokens)
{
    const size_t n = tokens->max_depth + 1;
    *w = (fxi_mask_walk){.tokens = tokens,
                         .path = calloc(n, sizeof *w->path),
                         .like = calloc(n, sizeof *w->like),
                         .row = calloc(n, sizeof *w->row),
                         .mask = calloc(tokens->n_word, sizeof *w->mask)};
    return w->path && w->like && w->row && w->mask;
}

void fxi_mask_walk_free(fxi_mask_walk *w)
{
    free(w->path);
    free(w->like);
    free(w->row);
    free(w->mask);
    *w = (fxi_mask_walk){0};
}

size_t fxi_mask_walk_n_bytes(const fxi_gram_tokens *tokens)
{
    const fxi_mask_walk *w = NULL;
    return (tokens->max_depth + 1) * (sizeof *w->path + sizeof *w->like + sizeof *w->row) +
           tokens->n_word * sizeof *w->mask;
}
