// gram_mask.c - the walk over the trie, the kept masks, and forced text.
#include "grammar/mask/gram_mask.h"

#include <stdlib.h>

#include "base/system/grow.h"
#include "grammar/mask/gram_slice.h"

#define NOT_KEPT UINT32_MAX

struct fxi_gram_masks {
    const fxi_gram_tokens *tokens;
    fxi_auto *a;
    fxi_slice_moves moves;
    uint32_t *path;       // [max_depth + 1] the state at each depth of the walk,
    uint32_t *like;       // [max_depth + 1] that of a state to compare with,
    const uint32_t **row; // [max_depth + 1] and its moves; NULL: none are known
    uint32_t *place;      // [n_place] of a state: its mask among those kept, or NOT_KEPT
    uint32_t *owner;      // [n_kept] the state of a kept mask
    uint64_t *word;       // [n_kept][n_word]
    size_t n_place, cap_place, n_kept, cap_owner, cap_mask, max_mask, n_word, n_made;
    size_t hand; // the kept mask that makes way next
};

fx_status fxi_gram_masks_make(const fxi_gram_tokens *tokens, fxi_auto *a, size_t max_mask,
                              fxi_gram_masks **out, fx_error *err)
{
    fxi_gram_masks *m = calloc(1, sizeof *m);
    *out = NULL;
    if (m) {
        *m = (fxi_gram_masks){.tokens = tokens,
                              .a = a,
                              .max_mask = max_mask,
                              .moves = {.a = a},
                              .n_word = tokens->n_word,
                              .path = calloc(tokens->max_depth + 1, sizeof *m->path),
                              .like = calloc(tokens->max_depth + 1, sizeof *m->like),
                              .row = calloc(tokens->max_depth + 1, sizeof *m->row)};
        if (m->path && m->like && m->row) {
            *out = m;
            return FX_OK;
        }
        fxi_gram_masks_free(m);
    }
    return fxi_fail(err, FX_ENOMEM, "out of memory");
}

void fxi_gram_masks_free(fxi_gram_masks *m)
{
    if (!m) return;
    fxi_slice_moves_free(&m->moves);
    free(m->path);
    free(m->like);
    free(m->row);
    free(m->place);
    free(m->owner);
    free(m->word);
    free(m);
}

size_t fxi_gram_masks_n_made(const fxi_gram_masks *m)
{
    return m->n_made;
}

// ---- walking ------------------------------------------------------------------------------------

// A move that is not known yet: the table of moves may go elsewhere.
static fx_status find_next(fxi_gram_masks *m, const fxi_token_node *x, uint32_t *next,
                           fx_error *err)
{
    FX_TRY(fxi_auto_step(m->a, m->path[x->depth - 1], x->byte, next, err));
    for (uint16_t d = 0; d < x->depth; d++) m->row[d] = fxi_auto_moves(m->a, m->path[d]);
    return FX_OK;
}

static void allow_ids(uint64_t *mask, const uint32_t *id, size_t n)
{
    for (const uint32_t *end = id + n; id < end; id++) mask[*id / 64] |= (uint64_t)1 << (*id % 64);
}

static void forbid_ids(uint64_t *mask, const uint32_t *id, size_t n)
{
    for (const uint32_t *end = id + n; id < end; id++)
        mask[*id / 64] &= ~((uint64_t)1 << (*id % 64));
}

// The nodes from i to end, of which the first is a root.
static fx_status walk_nodes(fxi_gram_masks *m, const fxi_token_trie *t, size_t i, size_t end,
                            uint64_t *mask, fx_error *err)
{
    const uint8_t *class_of = fxi_auto_classes(m->a);
    while (i < end) {
        const fxi_token_node *x = &t->node[i];
        const uint32_t *row = m->row[x->depth - 1];
        uint32_t next = row ? row[class_of[x->byte]] : FXI_AUTO_UNKNOWN;
        if (next == FXI_AUTO_UNKNOWN) FX_TRY(find_next(m, x, &next, err));
        if (next == FXI_AUTO_DEAD) {
            i = x->end;
            continue;
        }
        m->path[x->depth] = next;
        m->row[x->depth] = fxi_auto_moves(m->a, next);
        allow_ids(mask, t->id + x->id, x->n_id);
        i++;
    }
    return FX_OK;
}

static fx_status walk_trie(fxi_gram_masks *m, const fxi_token_trie *t, uint32_t state,
                           uint64_t *mask, fx_error *err)
{
    const fxi_byte_set may = fxi_auto_bytes(m->a, state);
    m->path[0] = state;
    m->row[0] = fxi_auto_moves(m->a, state);
    for (int w = 0; w < 4; w++)
        for (uint64_t bits = may.word[w]; bits; bits &= bits - 1) {
            const uint32_t root = t->root[64 * w + __builtin_ctzll(bits)];
            if (root != FXI_TRIE_NONE) FX_TRY(walk_nodes(m, t, root, t->node[root].end, mask, err));
        }
    return FX_OK;
}

static fx_status walk_tails(fxi_gram_masks *m, const fxi_token_tails *t, const fxi_slice_run *run,
                            uint64_t *mask, fx_error *err)
{
    if (run->loops) return walk_trie(m, &t->any, run->state[0], mask, err);
    for (int i = 0; i <= run->n; i++) FX_TRY(walk_trie(m, &t->after[i], run->state[i], mask, err));
    return FX_OK;
}

// known: of up to 1, 2, .. characters.
static void allow_known(const fxi_gram_masks *m, const uint64_t *known, int n_char, uint64_t *mask)
{
    if (n_char <= 0) return;
    known += (size_t)(n_char - 1) * m->n_word;
    for (size_t w = 0; w < m->n_word; w++) mask[w] |= known[w];
}

// A slice of which any characters may follow is known; of another, tails or all of it are walked.
static fx_status walk_slice(fxi_gram_masks *m, size_t slice, uint32_t state, uint64_t *mask,
                            fxi_slice_run *run, fx_error *err)
{
    const fxi_gram_tokens *t = m->tokens;
    FX_TRY(fxi_slice_find_run(&m->moves, slice, state, run, err));
    if (run->n < 0) return walk_trie(m, &t->slice[slice].trie, state, mask, err);
    allow_known(m, t->slice[slice].mask, run->n, mask);
    return FX_OK;
}

// Where words may follow a mark, all tokens of this mark are known but for their length.
static fx_status walk_mark(fxi_gram_masks *m, uint32_t root, uint32_t state, uint64_t *mask,
                           fx_error *err)
{
    const fxi_gram_tokens *t = m->tokens;
    const fxi_token_trie *x = &t->slice[FXI_SLICE_MARKED].trie;
    const fxi_token_node *first = &x->node[root];
    uint32_t next;
    fxi_slice_run words;
    FX_TRY(fxi_auto_step(m->a, state, first->byte, &next, err));
    if (!next) return FX_OK;
    FX_TRY(fxi_slice_find_run(&m->moves, FXI_SLICE_WORDS, next, &words, err));
    m->path[0] = state;
    m->row[0] = fxi_auto_moves(m->a, state);
    if (words.n < 0) return walk_nodes(m, x, root, first->end, mask, err);
    const uint32_t *id = x->id + first->id, *end = x->id + fxi_trie_ids_end(x, first);
    if (words.n + 1 >= FXI_SLICE_CHARS) allow_ids(mask, id, (size_t)(end - id));
    for (; words.n + 1 < FXI_SLICE_CHARS && id < end; id++)
        if (t->at[*id + 1] - t->at[*id] <= 1u + (unsigned)words.n) allow_ids(mask, id, 1);
    return FX_OK;
}

static fx_status walk_marked(fxi_gram_masks *m, uint32_t state, uint64_t *mask, fx_error *err)
{
    const fxi_byte_set may = fxi_auto_bytes(m->a, state);
    const uint32_t *root = m->tokens->slice[FXI_SLICE_MARKED].trie.root;
    for (int b = 0; b < 0x80; b++)
        if (root[b] != FXI_TRIE_NONE && fxi_byte_in(&may, (uint8_t)b))
            FX_TRY(walk_mark(m, root[b], state, mask, err));
    return FX_OK;
}

// Tokens with characters of ASCII that are no words.
static fx_status walk_printed(fxi_gram_masks *m, uint32_t state, const fxi_slice_run *words,
                              uint64_t *mask, fx_error *err)
{
    const fxi_gram_tokens *t = m->tokens;
    fxi_slice_run run;
    FX_TRY(fxi_slice_find_run(&m->moves, FXI_SLICE_PRINTED, state, &run, err));
    allow_known(m, t->slice[FXI_SLICE_MARKED].mask, run.n, mask);
    allow_known(m, t->slice[FXI_SLICE_PRINTED].mask, run.n, mask);
    if (run.n >= 0) return FX_OK;
    FX_TRY(walk_marked(m, state, mask, err));
    if (words->n >= 0) return walk_tails(m, &t->word_tails, words, mask, err);
    return walk_trie(m, &t->slice[FXI_SLICE_PRINTED].trie, state, mask, err);
}

// Where some characters may follow, but not any.
static fx_status walk_slices(fxi_gram_masks *m, uint32_t state, uint64_t *mask, fx_error *err)
{
    const fxi_gram_tokens *t = m->tokens;
    fxi_slice_run words = {.n = -1};
    for (size_t k = 0; k <= FXI_SLICE_WORDS; k++)
        FX_TRY(walk_slice(m, k, state, mask, &words, err));
    FX_TRY(walk_printed(m, state, &words, mask, err));
    FX_TRY(walk_trie(m, &t->slice[FXI_SLICE_CHARS_ALL].trie, state, mask, err));
    return walk_trie(m, &t->slice[FXI_SLICE_REST].trie, state, mask, err);
}

static fx_status walk_tokens(fxi_gram_masks *m, uint32_t state, uint64_t *mask, fx_error *err)
{
    const fxi_gram_tokens *t = m->tokens;
    fxi_slice_run run;
    FX_TRY(fxi_slice_find_run(&m->moves, FXI_SLICE_CHARS_ALL, state, &run, err));
    if (run.n < 0) return walk_slices(m, state, mask, err);
    allow_known(m, t->chars_mask, run.n, mask);
    return walk_tails(m, &t->char_tails, &run, mask, err);
}

// ---- what differs from another state ------------------------------------------------------------
//
// Where a name begins that may be any but those of a few members, most tokens lead where they lead
// from the state behind a name that is none of them. What that state allows is known without a
// walk; then only those bytes are walked behind which the two states differ.

static fx_status step_pair(fxi_gram_masks *m, uint16_t depth, uint8_t byte, uint32_t *next,
                           uint32_t *like, fx_error *err)
{
    *next = *like = FXI_AUTO_DEAD;
    if (m->path[depth - 1]) FX_TRY(fxi_auto_step(m->a, m->path[depth - 1], byte, next, err));
    if (m->like[depth - 1]) FX_TRY(fxi_auto_step(m->a, m->like[depth - 1], byte, like, err));
    m->path[depth] = *next;
    m->like[depth] = *like;
    return FX_OK;
}

static fx_status walk_differing(fxi_gram_masks *m, const fxi_token_trie *t, size_t i, size_t end,
                                uint64_t *mask, fx_error *err)
{
    while (i < end) {
        const fxi_token_node *x = &t->node[i];
        uint32_t next, like;
        FX_TRY(step_pair(m, x->depth, x->byte, &next, &like, err));
        if (next != like && next) {
            allow_ids(mask, t->id + x->id, x->n_id);
            i++;
            continue;
        }
        if (next != like) forbid_ids(mask, t->id + x->id, fxi_trie_ids_end(t, x) - x->id);
        i = x->end;
    }
    return FX_OK;
}

// `mask` is that of `like`.
static fx_status walk_difference(fxi_gram_masks *m, uint32_t state, uint32_t like, uint64_t *mask,
                                 fx_error *err)
{
    m->path[0] = state;
    m->like[0] = like;
    for (int b = 0; b < 256; b++) {
        uint32_t x, y;
        FX_TRY(step_pair(m, 1, (uint8_t)b, &x, &y, err));
        for (size_t k = 0; x != y && k < FXI_N_SLICE; k++) {
            const fxi_token_trie *t = &m->tokens->slice[k].trie;
            const uint32_t root = t->root[b];
            if (root != FXI_TRIE_NONE)
                FX_TRY(walk_differing(m, t, root, t->node[root].end, mask, err));
        }
    }
    return FX_OK;
}

// The state to compare with, *like: any characters lead from it back to it. FXI_AUTO_DEAD: none.
static fx_status find_like(fxi_gram_masks *m, uint32_t state, uint32_t *like, fx_error *err)
{
    fxi_slice_run run;
    *like = FXI_AUTO_DEAD;
    FX_TRY(fxi_slice_find_run(&m->moves, FXI_SLICE_CHARS_ALL, state, &run, err));
    for (const char *probe = "~q"; run.n < 0 && *probe && !*like; probe++) {
        uint32_t next;
        FX_TRY(fxi_auto_step(m->a, state, (uint8_t)*probe, &next, err));
        if (!next) continue;
        FX_TRY(fxi_slice_find_run(&m->moves, FXI_SLICE_CHARS_ALL, next, &run, err));
        if (run.loops) *like = next;
        run.n = -1;
    }
    return FX_OK;
}

static fx_status find_mask(fxi_gram_masks *m, uint32_t state, uint64_t *mask, fx_error *err)
{
    uint32_t like;
    memset(mask, 0, m->n_word * sizeof *mask);
    FX_TRY(find_like(m, state, &like, err));
    if (!like) return walk_tokens(m, state, mask, err);
    FX_TRY(walk_tokens(m, like, mask, err));
    return walk_difference(m, state, like, mask, err);
}

// ---- masks that are kept ------------------------------------------------------------------------

// A place for one more mask. False: out of memory.
static bool take_place(fxi_gram_masks *m, uint32_t *place)
{
    if (m->n_kept == m->max_mask) {
        *place = (uint32_t)m->hand;
        m->hand = (m->hand + 1) % m->max_mask;
        if (m->owner[*place] != NOT_KEPT) m->place[m->owner[*place]] = NOT_KEPT;
        m->owner[*place] = NOT_KEPT;
        return true;
    }
    if (!fxi_grow(&m->owner, sizeof *m->owner, m->n_kept, &m->cap_owner) ||
        !fxi_grow(&m->word, m->n_word * sizeof *m->word, m->n_kept, &m->cap_mask))
        return false;
    m->owner[m->n_kept] = NOT_KEPT;
    *place = (uint32_t)m->n_kept++;
    return true;
}

static bool reach_state(fxi_gram_masks *m, uint32_t state)
{
    while (m->n_place <= state) {
        if (!fxi_grow(&m->place, sizeof *m->place, m->n_place, &m->cap_place)) return false;
        m->place[m->n_place++] = NOT_KEPT;
    }
    return true;
}

fx_status fxi_gram_masks_of(fxi_gram_masks *m, uint32_t state, const uint64_t **mask, fx_error *err)
{
    uint32_t place;
    if (!reach_state(m, state)) return fxi_fail(err, FX_ENOMEM, "out of memory");
    if (m->place[state] == NOT_KEPT) {
        if (!take_place(m, &place)) return fxi_fail(err, FX_ENOMEM, "out of memory");
        FX_TRY(find_mask(m, state, m->word + place * m->n_word, err));
        m->owner[place] = state;
        m->place[state] = place;
        m->n_made++;
    }
    *mask = m->word + m->place[state] * m->n_word;
    return FX_OK;
}

fx_status fxi_gram_forced_text(fxi_auto *a, uint32_t *state, size_t max_bytes, fxi_buf *out,
                               fx_error *err)
{
    int forced;
    for (size_t n = 0; n < max_bytes && (forced = fxi_auto_forced(a, *state)) >= 0; n++) {
        const char byte = (char)forced;
        uint32_t next;
        FX_TRY(fxi_auto_step(a, *state, (uint8_t)forced, &next, err));
        if (!fxi_buf_add(out, &byte, 1)) return fxi_fail(err, FX_ENOMEM, "out of memory");
        *state = next;
    }
    return FX_OK;
}
