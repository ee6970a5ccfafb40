// gram_stacks.h - sets of stacks, shared and hashed: equal sets have the same number.
//
// A frame says where in a node of the grammar a stack is (a byte of a text, a set, the next node of
// a sequence, the count of a repeat) and names the set of stacks that may lie below it. Within a
// set no two frames are at the same place, so stacks with the same top share one frame: an
// ambiguous grammar takes as many frames as there are places, not as there are stacks. Sets are
// numbered, never change, and are made after those below them.
#ifndef FXI_GRAMMAR_STACKS_H
#define FXI_GRAMMAR_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"
#include "base/keyed/hash.h"

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
    FXI_STACKS_MAX_DEPTH = 2000 // of a stack: sets are joined recursively
};

typedef struct fxi_gram_stacks {
    fxi_gram_stack_set *set; // [n_set]
    fxi_gram_frame *frame;   // [n_frame] of all sets
    fxi_hash_index index;    // sets by their contents
    struct fxi_gram_join {   // a cache: unions of two sets, the latest only
        uint32_t a, b, both;
    } * joined;
    size_t n_set, cap_set, n_frame, cap_frame;
    size_t max_set, max_frame;
    fxi_secret secret; // of the hashes: the grammar's author can choose how places are numbered
} fxi_gram_stacks;

// Errors of all: FX_ENOMEM, FX_EINVAL (more sets or frames than max_set allows, or deeper than
// FXI_STACKS_MAX_DEPTH); existing sets stay valid.

fx_status fxi_gram_stacks_make(fxi_gram_stacks *s, size_t max_set, fx_error *err);
void fxi_gram_stacks_free(fxi_gram_stacks *s);            // all zero is allowed
size_t fxi_gram_stacks_n_bytes(const fxi_gram_stacks *s); // memory that its arrays hold

// Finds or adds the set with frame[0..n), which it sorts; joins frames at the same place.
fx_status fxi_gram_stacks_put(fxi_gram_stacks *s, fxi_gram_frame *frame, size_t n, bool has_empty,
                              uint32_t *out, fx_error *err);

#endif
