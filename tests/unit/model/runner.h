// runner.h - runs one fixed sequence through a model, in every way that must not change its logits.
#ifndef TESTS_MODEL_RUNNER_H
#define TESTS_MODEL_RUNNER_H

#include "kv/kv.h"
#include "model/device.h"
#include "model/model.h"

#define RUNNER_MAX_TOK 90
#define RUNNER_OTHERS  3

// One way to run the sequence.
typedef struct variant {
    const char *what;
    int chunk, n_thread, n_other;
    const char *kernel_path, *kv_manager; // NULL: the best; the first one
} variant;

typedef struct runner {
    fxi_pool *pool;
    fxi_model *model;
    fxi_kv *kv;
    fxi_kv_seq *seq[1 + RUNNER_OTHERS];
    int n_vocab;
    bool embeds; // the model generates nothing: its rows stand for logits
    int n_out;   // numbers of a row or of its logits
} runner;

// A model file, and the type of its cache (NULL: f16).
typedef struct runner_model {
    const char *path, *kv_type;
} runner_model;

void runner_open(runner *r, runner_model m, const variant *v);
// The same on a device, which the caller opened with r->pool and closes; its cache is the host's.
// Returns false, with the line in *err and nothing open, if the model cannot be loaded on it.
bool runner_open_on(runner *r, fxi_device *device, runner_model m, const variant *v, fx_error *err);
void runner_close(runner *r);

// One pass: n tokens of sequence 0, starting at `from`, and as many of the other sequences, which
// come first in the batch. out: logits of the last n_row tokens of sequence 0, or their rows.
void runner_pass(runner *r, const variant *v, int from, int n, int n_row, float *out);

// Computes n_tok tokens of sequence 0 in the variant's chunks: the logits after the last of them,
// or its row, [n_out], freed with free().
float *runner_run(runner *r, const variant *v, int n_tok);

// The logits after the last of n_tok tokens of sequence 0, or its row, [n_out], freed with free().
// Models that are not causal get all of them in one pass, in every variant.
float *run_plain(runner_model m, int n_tok, int *n_out);

// Fails unless the model gives the same bits in every variant that this machine can run. with_ref:
// plain C too, which takes minutes with larger models.
void check_variants(runner_model m, const char *what, int n_tok, bool with_ref);

#endif
