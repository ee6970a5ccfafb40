// bench_kernels.h - what the parts of bench_kernels share.
#ifndef BENCH_KERNELS_H
#define BENCH_KERNELS_H

#include "base/pool.h"
#include "figures.h"
#include "kernels/kernels.h"
#include "kernels/probe.h"

enum { BENCH_MAX_GOAL = 24 };

// What changes while rows are measured.
typedef struct bench_state {
    fxi_probe before, limit;      // as measured before the row's runs, and last
    double limit_s;               // when that was
    double share[BENCH_MAX_GOAL]; // of each goal: the smallest so far; NAN: none
} bench_state;

typedef struct bench {
    const fxi_kernels *k;
    fxi_pool *pool;
    bench_state *state;
    double row_s;           // for the runs of a row
    const char *only;       // a part; NULL: all
    const char *only_type;  // of weights; NULL: all
    int n_in, n_out, n_tok; // of linear layers; n_tok 0: a list
} bench;

typedef enum bench_peak {
    BENCH_FMA,
    BENCH_INT8
} bench_peak; // what arithmetic a row is held against

// ---- tools.c ---------------------------------------------------------------------------

void *bench_lines(size_t n_bytes);    // at a multiple of 64; exits where there is no memory
float *bench_random_floats(size_t n); // in [-0.5, 0.5)

typedef struct bench_timed {
    void (*run)(void *arg);
    void *arg;
    samples s; // empty
} bench_timed;

// s[n]: the median time of each, by turns, so that all meet the same noise; about row_s for each.
void bench_time(const bench *b, bench_timed *t, int n, double *s);
// Ends the program with a line and status 1 where n bytes of a result are not ref's.
void bench_same_bits(const bench *b, const char *op, const char *type, const void *got,
                     const void *ref, size_t n);

// ---- limits.c --------------------------------------------------------------------------

// To be called before a row's runs: the limits are measured unless they just were.
void bench_limits_before(const bench *b);
void bench_print_head(void);
// A row of the CSV; the limits are measured again, and the larger ones of before and now count.
void bench_print_row(const bench *b, const char *op, const char *type, int n_in, int n_out,
                     int n_tok, double s, double n_byte, double n_op, bench_peak by);
void bench_print_plain(const bench *b, const char *op, const char *type, int n, double s,
                       double n_byte);  // a row that is held against no limit
void bench_print_goals(const bench *b); // on stderr

// ---- the parts ---------------------------------------------------------------------------------

void bench_linear_all(const bench *b);    // linear.c
void bench_linear_sweep(const bench *b);  //
void bench_attention_all(const bench *b); // attention.c
void bench_rows_all(const bench *b);      // rows.c

#endif
