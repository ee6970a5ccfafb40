// gram_mask.h - which tokens may come next, by the state of an automaton.
//
// A mask has a bit for each token, set if the text may go on with all of its bytes. The end of an
// answer is no byte and has no bit: an end token is allowed where fxi_auto_is_final says so. Masks
// are computed by a walk over the tries of the vocabulary (gram_walk.h) and kept by state, one for
// all states that no token tells apart (gram_near.h), and once if they are equal; when the room for
// them is full, one that was not asked for lately makes way.
//
// One thread at a time, the one that steps the automaton.
#ifndef FXI_GRAMMAR_MASK_H
#define FXI_GRAMMAR_MASK_H

#include "base/text/buf.h"
#include "grammar/mask/gram_walk.h"

typedef struct fxi_gram_masks fxi_gram_masks;

// `tokens` and `a` outlive it; at most max_mask >= 1 masks are kept, of n_vocab / 8 bytes each.
// Errors: FX_ENOMEM.
fx_status fxi_gram_masks_make(const fxi_gram_tokens *tokens, fxi_auto *a, size_t max_mask,
                              fxi_gram_masks **out, fx_error *err);
void fxi_gram_masks_free(fxi_gram_masks *m); // NULL is allowed

// The state whose mask is that of this one, which may be itself: the mask is kept by it. Errors: as
// fxi_auto_step.
fx_status fxi_gram_masks_near(fxi_gram_masks *m, uint32_t state, uint32_t *near, fx_error *err);
// [n_vocab / 64 + 1], bit id % 64 of word id / 64; valid until the next call. NULL: it is not kept.
const uint64_t *fxi_gram_masks_find(fxi_gram_masks *m, uint32_t state);
// Keeps a mask that was computed, of a near state. Errors: FX_ENOMEM.
fx_status fxi_gram_masks_keep(fxi_gram_masks *m, uint32_t state, const uint64_t *mask,
                              fx_error *err);
// Finds it, or computes and keeps it. *left: what may be spent on that, and what is left of it
// afterwards (gram_pay.h). Errors: those of fxi_auto_step; FX_ENOSPACE: it takes more.
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

// Appends the bytes that must come next, at most max_bytes of them: none are left to choose. *state
// is the state behind them. Errors: those of fxi_auto_step; what was appended is in *out then, and
// *state is behind it.
fx_status fxi_gram_forced_text(fxi_auto *a, uint32_t *state, size_t max_bytes, fxi_buf *out,
                               fx_error *err);

#endif
