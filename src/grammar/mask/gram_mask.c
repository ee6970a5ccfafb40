// gram_mask.c - the kept masks, and forced text.
#include "grammar/mask/gram_mask.h"

#include <stdlib.h>
#include <string.h>

#include "base/system/grow.h"
#include "grammar/run/gram_near.h"

#define NOT_KEPT UINT32_MAX

typedef struct mask_owner {
    uint32_t state;
    bool is_wanted; // it was asked for since the hand last came by
} mask_owner;

struct fxi_gram_masks {
    fxi_slice_moves moves;
    fxi_mask_walk walk;
    fxi_gram_near near;
    uint32_t *place;   // [n_place] of a state: its mask among those kept, or NOT_KEPT
    mask_owner *owner; // [n_kept]
    uint64_t **mask;   // [n_kept][n_word]
    size_t n_place, cap_place, n_kept, cap_owner, cap_mask, max_mask, n_word, n_made;
    size_t hand; // the kept mask that makes way next
};

fx_status fxi_gram_masks_make(const fxi_gram_tokens *tokens, fxi_auto *a, size_t max_mask,
                              fxi_gram_masks **out, fx_error *err)
{
    fxi_gram_masks *m = calloc(1, sizeof *m);
    *out = NULL;
    if (m && fxi_mask_walk_make(&m->walk, tokens)) {
        m->moves.a = m->walk.pay.a = a;
        m->walk.moves = &m->moves;
        m->near.reach = (uint32_t)tokens->max_depth;
        m->max_mask = max_mask;
        m->n_word = tokens->n_word;
        *out = m;
        return FX_OK;
    }
    fxi_gram_masks_free(m);
    return fxi_fail(err, FX_ENOMEM, "out of memory");
}

void fxi_gram_masks_free(fxi_gram_masks *m)
{
    if (!m) return;
    fxi_slice_moves_free(&m->moves);
    fxi_mask_walk_free(&m->walk);
    fxi_gram_near_free(&m->near);
    free(m->place);
    free(m->owner);
    for (size_t i = 0; i < m->n_kept; i++) free(m->mask[i]);
    free(m->mask);
    free(m);
}

fxi_slice_moves *fxi_gram_masks_moves(fxi_gram_masks *m)
{
    return &m->moves;
}

size_t fxi_gram_masks_n_kept(const fxi_gram_masks *m)
{
    return m->n_kept;
}

size_t fxi_gram_masks_n_made(const fxi_gram_masks *m)
{
    return m->n_made;
}

size_t fxi_gram_masks_n_bytes(const fxi_gram_masks *m)
{
    return sizeof *m + fxi_mask_walk_n_bytes(m->walk.tokens) +
           m->moves.cap * FXI_SLICE_REST * sizeof *m->moves.move +
           m->near.cap * sizeof *m->near.of + m->cap_place * sizeof *m->place +
           m->cap_owner * sizeof *m->owner + m->cap_mask * sizeof *m->mask +
           m->n_kept * m->n_word * sizeof **m->mask;
}

// The next place whose mask was not asked for since the hand last came by.
static uint32_t clear_place(fxi_gram_masks *m)
{
    for (; m->owner[m->hand].is_wanted; m->hand = (m->hand + 1) % m->max_mask)
        m->owner[m->hand].is_wanted = false;
    const uint32_t place = (uint32_t)m->hand;
    m->hand = (m->hand + 1) % m->max_mask;
    m->place[m->owner[place].state] = NOT_KEPT;
    return place;
}

// A place for one more mask. False: out of memory.
static bool take_place(fxi_gram_masks *m, uint32_t *place)
{
    if (m->n_kept == m->max_mask) {
        *place = clear_place(m);
        return true;
    }
    if (!fxi_grow(&m->owner, sizeof *m->owner, m->n_kept, &m->cap_owner) ||
        !fxi_grow(&m->mask, sizeof *m->mask, m->n_kept, &m->cap_mask))
        return false;
    m->mask[m->n_kept] = calloc(m->n_word, sizeof **m->mask);
    if (!m->mask[m->n_kept]) return false;
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

fx_status fxi_gram_masks_near(fxi_gram_masks *m, uint32_t state, uint32_t *near, fx_error *err)
{
    return fxi_auto_near(m->moves.a, &m->near, state, near, err);
}

const uint64_t *fxi_gram_masks_find(fxi_gram_masks *m, uint32_t state)
{
    state = fxi_gram_near_known(&m->near, state);
    if (state >= m->n_place || m->place[state] == NOT_KEPT) return NULL;
    m->owner[m->place[state]].is_wanted = true;
    return m->mask[m->place[state]];
}

fx_status fxi_gram_masks_keep(fxi_gram_masks *m, uint32_t state, const uint64_t *mask,
                              fx_error *err)
{
    uint32_t place;
    if (fxi_gram_masks_find(m, state)) return FX_OK;
    if (!reach_state(m, state) || !take_place(m, &place))
        return fxi_fail(err, FX_ENOMEM, "out of memory");
    memcpy(m->mask[place], mask, m->n_word * sizeof *mask);
    m->owner[place] = (mask_owner){state, false};
    m->place[state] = place;
    m->n_made++;
    return FX_OK;
}

fx_status fxi_gram_masks_of(fxi_gram_masks *m, uint32_t state, size_t *left, const uint64_t **mask,
                            fx_error *err)
{
    fxi_mask_walk *w = &m->walk;
    *mask = fxi_gram_masks_find(m, state);
    if (*mask) return FX_OK;
    FX_TRY(fxi_gram_masks_near(m, state, &state, err));
    *mask = fxi_gram_masks_find(m, state);
    if (*mask) return FX_OK;
    fxi_mask_pay_open(&w->pay, w->pay.a, *left);
    const fx_status st = fxi_mask_walk_run(w, state, err);
    *left = w->pay.left;
    if (st) return st;
    FX_TRY(fxi_gram_masks_keep(m, state, w->mask, err));
    *mask = fxi_gram_masks_find(m, state);
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
