// gram_stacks.h - sets of stacks, shared and hashed: equal sets have the same number.
//
// A frame says where a node of the form is (a byte of a text, a set, the next node of a sequence,
// the count of a repeat) and has the set of stacks that may lie below it. In a set, frames differ
// in where they are, so that stacks with the same top share one frame: an ambiguous grammar takes
// as many frames as there are places, not as there are stacks. Sets are made once, never changed,
// and are named by numbers; a set is made after those below it.
#ifndef FXI_GRAMMAR_STACKS_H
#define FXI_GRAMMAR_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"
#include "base/keyed/secret.h"

typedef struct fxi_gram_frame {
    uint32_t node, at;
    uint32_t rest; // the set below
} fxi_gram_frame;

typedef struct fxi_gram_stack_set {
    uint32_t first, n; // frames, ascending by node, then at
    uint32_t depth;    // frames of its longest stack
    bool has_empty;    // the empty stack is one of the set
} fxi_gram_stack_set;

enum {
    FXI_STACKS_NONE = 0,        // the set without a stack
    FXI_STACKS_EMPTY = 1,       // the set of the empty stack
    FXI_STACKS_MAX_DEPTH = 2000 // the deepest stack: what is joined recursively
};

typedef struct fxi_gram_stacks {
    fxi_gram_stack_set *set; // [n_set]
    fxi_gram_frame *frame;   // [n_frame] of all sets
    struct fxi_gram_slot {
        uint32_t set, tag; // the upper half of its hash; set 0: free
    } * slot;              // [mask + 1] sets by hash of the contents
    struct fxi_gram_join { // unions of two sets that were made, the latest only
        uint32_t a, b, both;
    } * joined;
    size_t n_set, cap_set, n_frame, cap_frame;
    size_t mask;
    size_t max_set, max_frame;
    fxi_secret secret; // of the hashes: places and sets are numbered as the grammar's author likes
} fxi_gram_stacks;

// Errors of all: FX_ENOMEM, FX_EINVAL (more sets or frames than max_set, or deeper than
// FXI_STACKS_MAX_DEPTH); the sets that exist stay valid.

fx_status fxi_gram_stacks_make(fxi_gram_stacks *s, size_t max_set, fx_error *err);
void fxi_gram_stacks_free(fxi_gram_stacks *s);            // all zero is allowed
size_t fxi_gram_stacks_n_bytes(const fxi_gram_stacks *s); // memory that its arrays hold

// The number of the set with frame[0..n), which this sorts; frames at the same place are joined.
fx_status fxi_gram_stacks_put(fxi_gram_stacks *s, fxi_gram_frame *frame, size_t n, bool has_empty,
                              uint32_t *out, fx_error *err);

#endif
