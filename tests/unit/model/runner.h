// runner.h - a model of a file fed with one fixed sequence, in every way that must not matter.
#ifndef TESTS_MODEL_RUNNER_H
#define TESTS_MODEL_RUNNER_H

#include "kv/kv.h"
#include "model/model.h"

#define RUNNER_MAX_TOK 90
#define RUNNER_OTHERS  3

// How one run differs from the plain one.
typedef struct variant {
    const char *what;
    int chunk, n_thread, n_other;
    const char *kernel_path;
} variant;

typedef struct runner {
    fxi_pool *pool;
    fxi_model *model;
    fxi_kv *kv;
    fxi_kv_seq *seq[1 + RUNNER_OTHERS];
    int n_vocab;
} runner;

void runner_open(runner *r, const char *path, const variant *v);
void runner_close(runner *r);

// One pass: `n` tokens of sequence 0 from `from`, and as many of the others; the others stand
// before it in the batch. logits: n_logit rows, of the last tokens of sequence 0.
void runner_pass(runner *r, const variant *v, int from, int n, int n_logit, float *logits);

// The logits after the last of n_tok tokens of sequence 0, [n_vocab], freed with free().
float *run_plain(const char *path, int n_tok, int *n_vocab);

// Fails unless the file gives the same bits in every variant this machine can run.
void check_variants(const char *path, const char *what, int n_tok);

#endif
