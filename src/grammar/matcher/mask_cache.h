// mask_cache.h - which tokens may come next, by the state of an automaton.
//
// A mask has a bit for each token, set if all of its bytes may come next. The end of an answer is
// no byte and has no bit: an end token is allowed where fxi_auto_is_final says so. Masks are
// computed by a walk (mask_walk.h) and kept by state: one for all states that no token
// distinguishes (fxi_auto_normalize), and equal masks once. When the cache is full, a mask that was
// not used lately is replaced.
//
// One thread at a time, the one that steps the automaton.
#ifndef FXI_GRAMMAR_MASK_CACHE_H
#define FXI_GRAMMAR_MASK_CACHE_H

#include "grammar/matcher/mask_walk.h"

typedef struct fxi_gram_masks fxi_gram_masks;

// `tokens` and `a` outlive it; at most max_mask >= 1 masks are kept, of n_vocab / 8 bytes each.
// Errors: FX_ENOMEM.
fx_status fxi_gram_masks_make(const fxi_gram_tokens *tokens, fxi_auto *a, size_t max_mask,
                              fxi_gram_masks **out, fx_error *err);
void fxi_gram_masks_free(fxi_gram_masks *m); // NULL is allowed

// *out: the normalized state, which has the same mask and by which it is kept; perhaps this state.
// Errors: as fxi_auto_step.
fx_status fxi_gram_masks_normalize(fxi_gram_masks *m, uint32_t state, uint32_t *out, fx_error *err);
// [n_vocab / 64 + 1], bit id % 64 of word id / 64; valid until the next call. NULL: not kept.
const uint64_t *fxi_gram_masks_find(fxi_gram_masks *m, uint32_t state);
// Keeps a mask that was computed, of a normalized state. Errors: FX_ENOMEM.
fx_status fxi_gram_masks_keep(fxi_gram_masks *m, uint32_t state, const uint64_t *mask,
                              fx_error *err);
// Finds the mask, or computes and keeps it. *left: the budget for that, and what is left of it
// afterwards (mask_walk.h). Errors: those of fxi_auto_step; FX_ENOSPACE: it takes more.
fx_status fxi_gram_masks_of(fxi_gram_masks *m, uint32_t state, size_t *left, const uint64_t **mask,
                            fx_error *err);
fxi_slice_moves *fxi_gram_masks_moves(fxi_gram_masks *m); // for other walks over the automaton
size_t fxi_gram_masks_n_kept(const fxi_gram_masks *m);
size_t fxi_gram_masks_n_made(const fxi_gram_masks *m);  // how many were computed and kept
size_t fxi_gram_masks_n_bytes(const fxi_gram_masks *m); // memory that it holds

static inline bool fxi_gram_mask_has(const uint64_t *mask, uint32_t id)
{
    return mask[id / 64] >> (id % 64) & 1;
}

#endif
