// mask_walk.h - computes the mask of a state by a walk over the tries of the vocabulary.
//
// A walk has its own memory. Several walks over one automaton may be in progress, one at a time at
// work: during a pause other threads may make moves.
#ifndef FXI_GRAMMAR_MASK_WALK_H
#define FXI_GRAMMAR_MASK_WALK_H

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

// ---- slices -------------------------------------------------------------------------------------

typedef struct fxi_slice_moves { // of one automaton: where all characters of a slice lead
    fxi_auto *a;
    uint32_t *move; // [n_state][FXI_SLICE_REST] the state after one character of the slice
    size_t n_state, cap;
} fxi_slice_moves;

void fxi_slice_moves_free(fxi_slice_moves *m);

// ---- the walk -----------------------------------------------------------------------------------

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

#endif
