// preempts.h - when requests were preempted and for how long: what spans tell of it, picked from
// the flight recorder. One thread's own.
#ifndef FXI_SERVER_PREEMPTS_H
#define FXI_SERVER_PREEMPTS_H

#include "flexinfer/flexinfer.h"

enum { FXI_N_PREEMPT = 1024 }; // the last ones that are known

typedef struct fxi_preempt {
    uint64_t request;
    uint64_t from_us, to_us; // by the engine's clock; to_us 0: it has not run again
    uint32_t n_tok;          // in its caches when it was preempted
    bool is_swap;            // to the swap; false: its caches are computed again
} fxi_preempt;

typedef struct fxi_preempts { // all zero: none
    fxi_preempt at[FXI_N_PREEMPT];
    uint64_t n;    // number k lies in at[k % FXI_N_PREEMPT]
    uint64_t next; // the event of the recorder that comes next
} fxi_preempts;

// Takes in what the recorder got since the last call. What it lost meanwhile is missing.
void fxi_preempts_follow(fxi_preempts *p, const fx_engine *eng);
// The one after number *from of this request, and *from moves behind it; NULL: there are no more.
// *from begins at 0.
const fxi_preempt *fxi_preempts_next(const fxi_preempts *p, uint64_t request, uint64_t *from);

#endif
