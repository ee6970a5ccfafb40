// gram_slice.h - where a state lets any characters of a slice follow.
#ifndef FXI_GRAMMAR_SLICE_H
#define FXI_GRAMMAR_SLICE_H

#include "grammar/mask/gram_pay.h"
#include "grammar/mask/gram_tokens.h"
#include "grammar/run/gram_auto.h"

typedef struct fxi_slice_moves { // of one automaton
    fxi_auto *a;
    uint32_t *move; // [n_state][FXI_SLICE_REST] the state after one character of the slice
    size_t n_state, cap;
} fxi_slice_moves;

typedef struct fxi_slice_run {
    int n;      // characters that may follow, whichever they are; none may follow these. At
                // most FXI_SLICE_CHARS. -1: it depends on the characters
    bool loops; // they lead back to the state where they began
    uint32_t state[FXI_SLICE_CHARS + 1]; // [n + 1] after 0, 1, .. of them
} fxi_slice_run;

void fxi_slice_moves_free(fxi_slice_moves *m);

// Errors: those of fxi_auto_step and fxi_mask_pay.
fx_status fxi_slice_find_run(fxi_slice_moves *m, fxi_mask_pay_book *pay, size_t slice,
                             uint32_t state, fxi_slice_run *out, fx_error *err);

#endif
