// gram_mask.c - the kept masks, and forced text.
//
// Many states have the same mask: the same can follow, in another place. It is kept once. Where a
// mask has made way, the states that had it see that from its turn.
#include "grammar/mask/gram_mask.h"

#include <stdlib.h>
#include <string.h>

#include "base/keyed/secret.h"
#include "base/system/grow.h"
#include "grammar/run/gram_near.h"

typedef struct kept_mask {
    uint64_t *mask; // [n_word]
    uint64_t hash;
    uint32_t turn;  // how often this place was given away
    bool is_wanted; // it was asked for since the hand last came by
} kept_mask;

typedef struct mask_place {
    uint32_t at, turn; // among those kept; it is still there if the turn is the same
    bool is_set;
} mask_place;

struct fxi_gram_masks {
    fxi_slice_moves moves;
    fxi_mask_walk walk;
    fxi_gram_near near;
    mask_place *place; // [n_place] of a state
    kept_mask *kept;   // [n_kept]
    uint32_t *slot;    // [n_slot] by hash, of two or more per mask: 1 + a kept one; 0: free
    size_t n_place, cap_place, n_kept, cap_kept, n_slot, max_mask, n_word, n_made;
    size_t hand; // the kept mask that makes way next
    fxi_secret secret;
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
        m->secret = fxi_secret_make();
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
    for (size_t i = 0; i < m->n_kept; i++) free(m->kept[i].mask);
    free(m->kept);
    free(m->slot);
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
           m->cap_kept * sizeof *m->kept + m->n_slot * sizeof *m->slot +
           m->n_kept * m->n_word * sizeof *m->kept->mask;
}

// ---- equal masks --------------------------------------------------------------------------------

static uint64_t hash_mask(const fxi_gram_masks *m, const uint64_t *mask)
{
    uint64_t h[4] = {1, 2, 3, 4};
    for (size_t i = 0; i < m->n_word; i++) h[i % 4] = fxi_secret_mix(m->secret, h[i % 4], mask[i]);
    return fxi_secret_mix(m->secret, h[0] + h[1], h[2] - h[3]);
}

static uint32_t *slot_of_mask(const fxi_gram_masks *m, uint64_t hash, const uint64_t *mask)
{
    size_t i = (size_t)(hash >> 20) & (m->n_slot - 1);
    for (; m->slot[i]; i = (i + 1) & (m->n_slot - 1)) {
        const kept_mask *k = &m->kept[m->slot[i] - 1];
        if (k->hash == hash && !memcmp(k->mask, mask, m->n_word * sizeof *mask)) break;
    }
    return &m->slot[i];
}

// Enters all that are kept anew.
static void enter_kept(fxi_gram_masks *m)
{
    memset(m->slot, 0, m->n_slot * sizeof *m->slot);
    for (size_t i = 0; i < m->n_kept; i++)
        if (m->kept[i].mask) *slot_of_mask(m, m->kept[i].hash, m->kept[i].mask) = (uint32_t)i + 1;
}

static bool make_mask_slots(fxi_gram_masks *m)
{
    size_t n = 64;
    while (n < 2 * m->max_mask) n *= 2;
    m->slot = calloc(n, sizeof *m->slot);
    m->n_slot = m->slot ? n : 0;
    return m->slot != NULL;
}

// ---- room ---------------------------------------------------------------------------------------

// The next place whose mask was not asked for since the hand last came by.
static kept_mask *clear_place(fxi_gram_masks *m)
{
    for (; m->kept[m->hand].is_wanted; m->hand = (m->hand + 1) % m->max_mask)
        m->kept[m->hand].is_wanted = false;
    kept_mask *k = &m->kept[m->hand];
    m->hand = (m->hand + 1) % m->max_mask;
    k->turn++;
    return k;
}

// A place for one more mask. NULL: out of memory.
static kept_mask *take_place(fxi_gram_masks *m)
{
    if (m->n_kept == m->max_mask) return clear_place(m);
    if (!fxi_grow(&m->kept, sizeof *m->kept, m->n_kept, &m->cap_kept)) return NULL;
    m->kept[m->n_kept] = (kept_mask){.mask = calloc(m->n_word, sizeof *m->kept->mask)};
    return m->kept[m->n_kept].mask ? &m->kept[m->n_kept++] : NULL;
}

// The place of this mask among those kept; NULL: out of memory.
static kept_mask *keep_mask(fxi_gram_masks *m, const uint64_t *mask)
{
    const uint64_t hash = hash_mask(m, mask);
    const uint32_t known = *slot_of_mask(m, hash, mask);
    if (known) return &m->kept[known - 1];
    const bool is_full = m->n_kept == m->max_mask;
    kept_mask *k = take_place(m);
    if (!k) return NULL;
    memcpy(k->mask, mask, m->n_word * sizeof *mask);
    k->hash = hash;
    k->is_wanted = false;
    if (is_full)
        enter_kept(m); // without the one that made way
    else
        *slot_of_mask(m, hash, mask) = (uint32_t)(k - m->kept) + 1;
    return k;
}

static bool reach_state(fxi_gram_masks *m, uint32_t state)
{
    while (m->n_place <= state) {
        if (!fxi_grow(&m->place, sizeof *m->place, m->n_place, &m->cap_place)) return false;
        m->place[m->n_place++] = (mask_place){.is_set = false};
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
    if (state >= m->n_place || !m->place[state].is_set) return NULL;
    kept_mask *k = &m->kept[m->place[state].at];
    if (k->turn != m->place[state].turn) return NULL;
    k->is_wanted = true;
    return k->mask;
}

fx_status fxi_gram_masks_keep(fxi_gram_masks *m, uint32_t state, const uint64_t *mask,
                              fx_error *err)
{
    if (fxi_gram_masks_find(m, state)) return FX_OK;
    if (!m->n_slot && !make_mask_slots(m)) return fxi_fail(err, FX_ENOMEM, "out of memory");
    const kept_mask *k = reach_state(m, state) ? keep_mask(m, mask) : NULL;
    if (!k) return fxi_fail(err, FX_ENOMEM, "out of memory");
    m->place[state] = (mask_place){(uint32_t)(k - m->kept), k->turn, true};
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
