// mask_cache.c - the kept masks.
//
// Many states have the same mask: the same may follow, in another place. It is kept once. When a
// mask is replaced, its `turn` changes, which tells the states that had it.
#include "grammar/matcher/mask_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/keyed/hash_index.h"
#include "base/keyed/secret.h"
#include "base/system/grow.h"

typedef struct kept_mask {
    uint64_t *mask;      // [n_word]
    uint32_t hash, turn; // turn: how often it was replaced
    bool is_wanted;      // it was used since the hand last came by
} kept_mask;

typedef struct state_mask {
    uint32_t at, turn; // the kept mask at `at`, if it still has this turn
    bool is_set;
} state_mask;

struct fxi_gram_masks {
    fxi_slice_moves moves;
    fxi_mask_walk walk;
    fxi_auto_normals normals;
    state_mask *of;       // [n_of] by state
    kept_mask *kept;      // [n_kept]
    fxi_hash_index index; // 1 + a kept mask, by its contents
    size_t n_of, cap_of, n_kept, cap_kept, max_mask, n_word, n_made;
    size_t hand; // the kept mask that is replaced next, unless it is wanted
    fxi_secret secret;
};

fx_status fxi_gram_masks_make(const fxi_gram_tokens *tokens, fxi_auto *a, size_t max_mask,
                              fxi_gram_masks **out, fx_error *err)
{
    fxi_gram_masks *m = calloc(1, sizeof *m);
    *out = NULL;
    if (m && fxi_mask_walk_make(&m->walk, tokens)) {
        m->moves.a = m->walk.budget.a = a;
        m->walk.moves = &m->moves;
        m->normals.reach = (uint32_t)tokens->max_depth;
        m->max_mask = max_mask;
        m->n_word = tokens->n_word;
        m->secret = fxi_secret_make();
        *out = m;
        return FX_OK;
    }
    fxi_gram_masks_free(m);
    return fxi_fail_memory(err);
}

void fxi_gram_masks_free(fxi_gram_masks *m)
{
    if (!m) return;
    fxi_slice_moves_free(&m->moves);
    fxi_mask_walk_free(&m->walk);
    fxi_auto_normals_free(&m->normals);
    free(m->of);
    for (size_t i = 0; i < m->n_kept; i++) free(m->kept[i].mask);
    free(m->kept);
    fxi_hash_index_free(&m->index);
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
           m->normals.cap * sizeof *m->normals.of + m->cap_of * sizeof *m->of +
           m->cap_kept * sizeof *m->kept + fxi_hash_index_n_bytes(&m->index) +
           m->n_kept * m->n_word * sizeof *m->kept->mask;
}

// ---- keeping ------------------------------------------------------------------------------------

static uint32_t hash_mask(const fxi_gram_masks *m, const uint64_t *mask)
{
    uint64_t h[4] = {1, 2, 3, 4};
    for (size_t i = 0; i < m->n_word; i++) h[i % 4] = fxi_secret_mix(m->secret, h[i % 4], mask[i]);
    return (uint32_t)(fxi_secret_mix(m->secret, h[0] + h[1], h[2] - h[3]) >> 32);
}

// NULL: this mask is not kept.
static kept_mask *find_equal(const fxi_gram_masks *m, const uint64_t *mask, uint32_t hash)
{
    size_t probe = 0;
    uint32_t id;
    while ((id = fxi_hash_index_next(&m->index, hash, &probe)))
        if (!memcmp(m->kept[id - 1].mask, mask, m->n_word * sizeof *mask)) return &m->kept[id - 1];
    return NULL;
}

// Replaces the next mask that was not used since the hand last came by.
static kept_mask *replace_mask(fxi_gram_masks *m, const uint64_t *mask, uint32_t hash)
{
    for (; m->kept[m->hand].is_wanted; m->hand = (m->hand + 1) % m->max_mask)
        m->kept[m->hand].is_wanted = false;
    kept_mask *k = &m->kept[m->hand];
    m->hand = (m->hand + 1) % m->max_mask;
    memcpy(k->mask, mask, m->n_word * sizeof *mask);
    k->hash = hash;
    k->turn++;
    fxi_hash_index_clear(&m->index); // it cannot remove; it has room for all
    for (size_t i = 0; i < m->n_kept; i++)
        (void)fxi_hash_index_add(&m->index, (uint32_t)i + 1, m->kept[i].hash);
    return k;
}

// The kept copy of this mask; NULL: out of memory.
static kept_mask *keep_mask(fxi_gram_masks *m, const uint64_t *mask)
{
    const uint32_t hash = hash_mask(m, mask);
    kept_mask *known = find_equal(m, mask, hash);
    if (known) return known;
    if (m->n_kept == m->max_mask) return replace_mask(m, mask, hash);
    if (!fxi_grow(&m->kept, sizeof *m->kept, m->n_kept, &m->cap_kept)) return NULL;
    kept_mask *k = &m->kept[m->n_kept];
    *k = (kept_mask){.mask = malloc(m->n_word * sizeof *mask), .hash = hash};
    if (!k->mask || !fxi_hash_index_add(&m->index, (uint32_t)m->n_kept + 1, hash)) {
        free(k->mask);
        return NULL;
    }
    memcpy(k->mask, mask, m->n_word * sizeof *mask);
    m->n_kept++;
    return k;
}

fx_status fxi_gram_masks_normalize(fxi_gram_masks *m, uint32_t state, uint32_t *out, fx_error *err)
{
    return fxi_auto_normalize(m->moves.a, &m->normals, state, out, err);
}

const uint64_t *fxi_gram_masks_find(fxi_gram_masks *m, uint32_t state)
{
    state = fxi_auto_normal_known(&m->normals, state);
    if (state >= m->n_of || !m->of[state].is_set) return NULL;
    kept_mask *k = &m->kept[m->of[state].at];
    if (k->turn != m->of[state].turn) return NULL;
    k->is_wanted = true;
    return k->mask;
}

fx_status fxi_gram_masks_keep(fxi_gram_masks *m, uint32_t state, const uint64_t *mask,
                              fx_error *err)
{
    if (fxi_gram_masks_find(m, state)) return FX_OK;
    if (!fxi_grow_to(&m->of, sizeof *m->of, state, 0, &m->n_of, &m->cap_of))
        return fxi_fail_memory(err);
    const kept_mask *k = keep_mask(m, mask);
    if (!k) return fxi_fail_memory(err);
    m->of[state] = (state_mask){(uint32_t)(k - m->kept), k->turn, true};
    m->n_made++;
    return FX_OK;
}

fx_status fxi_gram_masks_of(fxi_gram_masks *m, uint32_t state, size_t *left, const uint64_t **mask,
                            fx_error *err)
{
    fxi_mask_walk *w = &m->walk;
    *mask = fxi_gram_masks_find(m, state);
    if (*mask) return FX_OK;
    FX_TRY(fxi_gram_masks_normalize(m, state, &state, err));
    *mask = fxi_gram_masks_find(m, state);
    if (*mask) return FX_OK;
    fxi_mask_budget_open(&w->budget, w->budget.a, *left);
    const fx_status st = fxi_mask_walk_run(w, state, err);
    *left = w->budget.left;
    if (st) return st;
    FX_TRY(fxi_gram_masks_keep(m, state, w->mask, err));
    *mask = fxi_gram_masks_find(m, state);
    return FX_OK;
}
