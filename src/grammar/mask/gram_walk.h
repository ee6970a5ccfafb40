// gram_walk.h - the mask of a state: a walk over the tries of the vocabulary, with its own memory.
//
// Several walks over one automaton may be in progress, one at a time at work: in a pause
// (gram_pay.h) others may make moves.
#ifndef FXI_GRAMMAR_WALK_H
#define FXI_GRAMMAR_WALK_H

#include "grammar/mask/gram_pay.h"
#include "grammar/mask/gram_slice.h"
#include "grammar/mask/gram_tokens.h"

typedef struct fxi_mask_walk {
    const fxi_gram_tokens *tokens;
    fxi_slice_moves *moves; // of pay.a; set before it runs
    fxi_mask_pay_book pay;  // the same
    uint32_t *path;         // [max_depth + 1] the state at each depth of the walk,
    uint32_t *like;         // [max_depth + 1] that of a state to compare with,
    const uint32_t **row;   // [max_depth + 1] and its moves; NULL: none are known
    uint64_t *mask;         // [n_word] the result
} fxi_mask_walk;

bool fxi_mask_walk_make(fxi_mask_walk *w, const fxi_gram_tokens *tokens); // false: out of memory
void fxi_mask_walk_free(fxi_mask_walk *w);
size_t fxi_mask_walk_n_bytes(const fxi_gram_tokens *tokens); // memory that a walk holds

// w->mask: bit id % 64 of word id / 64: the text may go on with all bytes of token id. Errors:
// those of fxi_auto_step and fxi_mask_pay.
fx_status fxi_mask_walk_run(fxi_mask_walk *w, uint32_t state, fx_error *err);

#endif
