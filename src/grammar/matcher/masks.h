// masks.h - which tokens may come next, by the state of an automaton: computed by a walk, and kept.
#ifndef FXI_GRAMMAR_MASKS_H
#define FXI_GRAMMAR_MASKS_H

#include "base/keyed/hash.h"
#include "grammar/automaton/gram_auto.h"
#include "grammar/matcher/gram_tokens.h"

// ---- the budget ---------------------------------------------------------------------------------
//
// Work on masks is charged as it is done, so that it can be ended, or interrupted for others.

typedef struct fxi_mask_budget {
    fxi_auto *a;
    size_t left;                           // units of a trie node: 3 to 8 ns each
    size_t seen;                           // of fxi_auto_n_work: what was charged
    bool (*pause)(void *ud, size_t *left); // called when nothing is left: grants more, or ends the
    void *ud;                              // work, which then touches nothing. NULL: it ends
} fxi_mask_budget;

#define FXI_MASK_NO_LIMIT SIZE_MAX

static inline void fxi_mask_budget_open(fxi_mask_budget *b, fxi_auto *a, size_t left)
{
    b->a = a;
    b->left = left;
    b->seen = fxi_auto_n_work(a);
}

// ---- the walk -----------------------------------------------------------------------------------
//
// Computes the mask of a state by a walk over the tries of the vocabulary. A walk has its own
// memory. Several walks over one automaton may be in progress, one at a time at work: during a
// pause other threads may make moves.

typedef struct fxi_slice_moves { // of one automaton: where all characters of a slice lead
    fxi_auto *a;
    uint32_t *move; // [n_state][FXI_SLICE_REST] the state after one character of the slice
    size_t n_state, cap;
} fxi_slice_moves;

void fxi_slice_moves_free(fxi_slice_moves *m);

typedef struct fxi_mask_walk {
    const fxi_gram_tokens *tokens;
    fxi_slice_moves *moves; // of budget.a; set both before it runs
    fxi_mask_budget budget;
    uint32_t *path;       // [max_depth + 1] the state at each depth of the walk,
    uint32_t *like;       // [max_depth + 1] that of a state to compare with,
    const uint32_t **row; // [max_depth + 1] and its moves; NULL: none are known
    uint64_t *mask;       // [n_word] the result
} fxi_mask_walk;

bool fxi_mask_walk_make(fxi_mask_walk *w, const fxi_gram_tokens *tokens); // false: out of memory
void fxi_mask_walk_free(fxi_mask_walk *w);
size_t fxi_mask_walk_n_bytes(const fxi_gram_tokens *tokens); // memory that a walk holds

// Computes w->mask: bit id % 64 of word id / 64: all bytes of token id may come next. Errors: those
// of fxi_auto_step; FX_ENOSPACE: the budget ended the work.
fx_status fxi_mask_walk_run(fxi_mask_walk *w, uint32_t state, fx_error *err);

// ---- the kept masks -----------------------------------------------------------------------------
//
// A mask has a bit for each token, set if all of its bytes may come next. The end of an answer is
// no byte and has no bit: an end token is allowed where fxi_auto_is_final says so. Masks are kept
// by state: one for all states that no token distinguishes (fxi_auto_normalize), and equal masks
// once. When the cache is full, a mask that was not used lately is replaced; its `turn`
// changes, which tells the states that had it.
//
// One thread at a time, the one that steps the automaton.

typedef struct fxi_kept_mask {
    uint64_t *mask;      // [n_word]
    uint32_t hash, turn; // turn: how often it was replaced
    bool is_wanted;      // it was used since the hand last came by
} fxi_kept_mask;

typedef struct fxi_state_mask {
    uint32_t at, turn; // the kept mask at `at`, if it still has this turn
    bool is_set;
} fxi_state_mask;

typedef struct fxi_gram_masks {
    // Others use these:
    fxi_slice_moves moves; // of the automaton, for other walks over it
    size_t n_kept, n_made; // masks that are kept; that were computed and kept
    // Its own:
    fxi_mask_walk walk;
    fxi_auto_normals normals;
    fxi_state_mask *of;   // [n_of] by state
    fxi_kept_mask *kept;  // [n_kept]
    fxi_hash_index index; // 1 + a kept mask, by its contents
    size_t n_of, cap_of, cap_kept, max_mask, n_word;
    size_t hand; // the kept mask that is replaced next, unless it is wanted
    fxi_secret secret;
} fxi_gram_masks;

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
// afterwards. Errors: those of fxi_auto_step; FX_ENOSPACE: it takes more.
fx_status fxi_gram_masks_of(fxi_gram_masks *m, uint32_t state, size_t *left, const uint64_t **mask,
                            fx_error *err);
size_t fxi_gram_masks_n_bytes(const fxi_gram_masks *m); // memory that it holds

#endif
