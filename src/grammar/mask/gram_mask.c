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
                              .row = calloc(tokens->max_depth + 1, sizeof *m->row)};
        if (m->path && m->row) {
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

// A move that is not known yet: the table of moves may go elsewhere.
static fx_status find_next(fxi_gram_masks *m, const fxi_token_node *x, uint32_t *next,
                           fx_error *err)
{
    FX_TRY(fxi_auto_step(m->a, m->path[x->depth - 1], x->byte, next, err));
    for (uint16_t d = 0; d < x->depth; d++) m->row[d] = fxi_auto_moves(m->a, m->path[d]);
    return FX_OK;
}

static fx_status walk_slice(fxi_gram_masks *m, const fxi_token_slice *t, uint32_t state,
                            uint64_t *mask, fx_error *err)
{
    const uint8_t *class_of = fxi_auto_classes(m->a);
    m->path[0] = state;
    m->row[0] = fxi_auto_moves(m->a, state);
    for (size_t i = 0; i < t->n_node;) {
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
        for (const uint32_t *id = t->id + x->id; id < t->id + x->id + x->n_id; id++)
            mask[*id / 64] |= (uint64_t)1 << (*id % 64);
        i++;
    }
    return FX_OK;
}

// Slices of which any characters may follow are known; the others are walked.
static fx_status walk_tokens(fxi_gram_masks *m, uint32_t state, uint64_t *mask, fx_error *err)
{
    const fxi_gram_tokens *t = m->tokens;
    for (size_t k = 0; k < FXI_N_SLICE; k++) {
        int n_char = -1;
        if (k != FXI_SLICE_REST) FX_TRY(fxi_slice_run(&m->moves, k, state, &n_char, err));
        if (n_char < 0) FX_TRY(walk_slice(m, &t->slice[k], state, mask, err));
        if (n_char <= 0) continue;
        const uint64_t *known = t->slice[k].mask + (size_t)(n_char - 1) * m->n_word;
        for (size_t w = 0; w < m->n_word; w++) mask[w] |= known[w];
    }
    return FX_OK;
}

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
        memset(m->word + place * m->n_word, 0, m->n_word * sizeof *m->word);
        FX_TRY(walk_tokens(m, state, m->word + place * m->n_word, err));
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
