// gpu_model_rig.h - runs the fixed sequence of unit/model/runner.h through a model on a GPU: its
// weights, its cache and every step of a pass are the device's.
#ifndef TESTS_GPU_MODEL_RIG_H
#define TESTS_GPU_MODEL_RIG_H

#include "gpu/gpu.h"
#include "unit/model/runner.h"
#include "unit/model/small_model.h"

// A way to run the sequence that must not change its logits.
typedef struct gpu_way {
    const char *what;
    int n_prompt;      // tokens of the prompt; the rest is decoded, token by token
    int chunk;         // tokens of the prompt in one pass
    int n_other;       // other sequences in each pass
    const char *kv;    // manager; NULL: vtensor
    const char *math;  // NULL: exact
    const char *ranks; // a list of devices: they share the model out; NULL: cuda:0 has all of it
    bool no_graphs;
    bool unpinned; // results go to memory of the process
} gpu_way;

typedef struct gpu_model_rig {
    fxi_device *device;
    runner r;
    variant v;
    float *out; // [n_out]
    bool own_out;
} gpu_model_rig;

// After an error, too, what is open is closed by gpu_model_close.
fx_status gpu_model_try(gpu_model_rig *g, runner_model m, const gpu_way *way, fx_error *err);

// Fails the test unless all can be opened.
void gpu_model_open(gpu_model_rig *g, runner_model m, const gpu_way *way);
void gpu_model_close(gpu_model_rig *g);

// The logits after the last of n_tok tokens, [n_out], in g->out.
void gpu_model_run(gpu_model_rig *g, const gpu_way *way, int n_tok);

// The same of a rig that is opened and closed for it, allocated; *n_out of them.
float *gpu_model_logits(runner_model m, const gpu_way *way, int n_tok, int *n_out);

// Ways to run n_tok tokens, the first of them one pass over all. math: as in gpu_way. Ranks run in
// the first GPU_N_RANK_WAY, without pages.
enum { GPU_N_WAY = 7, GPU_N_RANK_WAY = 6 };
gpu_way gpu_model_way(int i, const char *math, int n_tok);

// A small model for it; callers change what they try.
small_model gpu_tiny_model(fxi_dtype type);

// Fails unless the logits in this way have the bits of `want`.
void check_gpu_model(runner_model m, const char *what, const gpu_way *way, int n_tok,
                     const float *want);

#endif
