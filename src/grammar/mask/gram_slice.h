// gram_slice.h - where a state lets any characters of a slice follow.
#ifndef FXI_GRAMMAR_SLICE_H
#define FXI_GRAMMAR_SLICE_H

#include "grammar/run/gram_auto.h"

typedef struct fxi_slice_moves { // of one automaton
    fxi_auto *a;
    uint32_t *move; // [n_state][FXI_SLICE_REST] the state after one character of the slice
    size_t n_state, cap;
} fxi_slice_moves;

void fxi_slice_moves_free(fxi_slice_moves *m);

// How many characters of the slice may follow, whichever they are, up to FXI_SLICE_CHARS; none may
// follow these. -1: it depends on the characters. Errors: those of fxi_auto_step.
fx_status fxi_slice_run(fxi_slice_moves *m, size_t slice, uint32_t state, int *out, fx_error *err);

#endif
