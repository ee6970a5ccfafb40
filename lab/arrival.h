// arrival.h - from the rows of a trace to requests: when they come, what they ask for, and the
// tokens of their prompts.
#ifndef FXI_LAB_ARRIVAL_H
#define FXI_LAB_ARRIVAL_H

#include "flexinfer/flexinfer.h"
#include "lab/trace.h"

typedef struct fxi_load {
    double rate_per_s; // a Poisson process of this rate; 0: as the trace says, or all at once if it
                       // does not
    double speed;      // > 0: the trace's own times pass this many times as fast
    double shrink;     // at least 1: prompts and answers are this many times shorter
    size_t max_row;    // requests, from the trace's start; 0: all
    int n_choice;      // answers to each prompt, at least 1
    int beam_width;    // 0: sampling
    bool no_cache;     // requests share no prefixes, and none is recorded
    int prefix_tok;    // tokens before each prompt that all have in common
    uint64_t seed;     // of the times
} fxi_load;

// The whole trace as it is, one answer each.
fxi_load fxi_load_start(void);
// FX_EINVAL: a number that makes no sense.
fx_status fxi_load_check(const fxi_load *l, fx_error *err);

static inline size_t fxi_load_n_row(const fxi_load *l, const fxi_trace *t)
{
    return l->max_row && l->max_row < t->n_row ? l->max_row : t->n_row;
}

// When row i comes, in microseconds after the first; `before_us` is that of row i - 1.
double fxi_arrival_us(const fxi_load *l, const fxi_trace *t, size_t i, double before_us);

// What row i asks for, with a prompt of ids below n_vocab. *prompt [*cap] is a buffer, which grows
// as needed and is kept by reference; the caller frees it. FX_ENOMEM.
fx_status fxi_arrival_request(const fxi_load *l, const fxi_trace *t, size_t i, uint32_t n_vocab,
                              int32_t **prompt, size_t *cap, fx_request *out, fx_error *err);

#endif
