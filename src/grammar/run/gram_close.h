// gram_close.h - which places wait for a byte once others have been passed: the closure that makes
// a state.
#ifndef FXI_GRAMMAR_CLOSE_H
#define FXI_GRAMMAR_CLOSE_H

#include "grammar/form/gram_form.h"
#include "grammar/run/gram_stacks.h"

typedef struct fxi_gram_close { // memory that closures use one after the other
    const fxi_gram *form;
    fxi_gram_stacks *stacks;
    struct fxi_gram_work { // a node to be entered over a set, or a set to go on with
        uint32_t node, rest;
    } * work;
    fxi_gram_frame *top; // [n_top] what waits for a byte
    struct fxi_gram_seen {
        uint32_t node, rest, turn;
    } * seen; // [seen_mask + 1] work that was done in this turn
    size_t n_work, cap_work, n_top, cap_top, n_seen, seen_mask, n_step;
    size_t n_work_done; // steps of all closures
    size_t max_step;    // of one; 0: 2^18. More are FX_ENOSPACE then
    uint32_t turn;
    bool has_empty; // a stack was used up
} fxi_gram_close;

// All zero but for form and stacks is a closure that was never used.
void fxi_gram_close_free(fxi_gram_close *c);
size_t fxi_gram_close_n_bytes(const fxi_gram_close *c); // memory that its arrays hold

// Errors: FX_ENOMEM, FX_EINVAL (a limit of gram_stacks.h; more than 2^18 steps),
// FX_ENOSPACE (more than max_step).
void fxi_gram_close_begin(fxi_gram_close *c);
fx_status fxi_gram_close_enter(fxi_gram_close *c, uint32_t node, uint32_t rest, fx_error *err);
fx_status fxi_gram_close_resume(fxi_gram_close *c, uint32_t rest, fx_error *err);
// A place that waits for a byte; rest lies below it.
fx_status fxi_gram_close_top(fxi_gram_close *c, fxi_gram_frame top, fx_error *err);
// Does what was begun: *out is the set of all stacks, their tops waiting for a byte.
fx_status fxi_gram_close_end(fxi_gram_close *c, uint32_t *out, fx_error *err);

#endif
