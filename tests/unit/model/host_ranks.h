// host_ranks.h - several hosts that compute one model together (fxi_device_ranks), for tests: the
// plain reference of devices that do. Each is a host with weights, operands and a cache of its own;
// they add up in plain C, in the order of the ranks.
#ifndef TESTS_MODEL_HOST_RANKS_H
#define TESTS_MODEL_HOST_RANKS_H

#include "unit/model/runner.h"

typedef struct host_ranks {
    fxi_device dev; // first
    fxi_device_ranks set;
    fxi_device *rank[FXI_MAX_RANK];
    int n_sum;
} host_ranks;

// Its close closes all; `r` itself is the caller's. kernel_path: NULL: the best
void host_ranks_open(host_ranks *r, int n, fxi_pool *pool, const char *kernel_path);

// The logits after the last of n_tok tokens of a model in n parts, as run_plain; NULL: they cannot
// share it out, and *err says why.
float *host_ranks_run(runner_model m, int n, const variant *v, int n_tok, int *n_out,
                      fx_error *err);

#endif
