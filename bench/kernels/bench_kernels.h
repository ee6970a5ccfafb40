// bench_kernels.h - shared by the parts of bench_kernels.
#ifndef BENCH_KERNELS_H
#define BENCH_KERNELS_H

#include "base/system/pool.h"
#include "bench_program.h"
#include "kernels/kernels.h"
#include "kernels/probe.h"

enum { BENCH_MAX_GOAL = 24 };

// What changes while rows are measured.
typedef struct bench_state {
    fxi_probe before, limit;      // the machine before the row's runs, and as measured last
    double limit_s;               // time of the last measurement
    double share[BENCH_MAX_GOAL]; // smallest share so far for each goal; NaN: none
} bench_state;

typedef struct bench {
    const fxi_kernels *k;
    fxi_pool *pool;
    bench_state *state;
    double (*now_s)(void);  // the clock of runs and limits
    double row_s;           // seconds for the runs of a row
    const char *only;       // a part; NULL: all
    const char *only_type;  // of weights; NULL: all
    int n_in, n_out, n_tok; // of linear layers; n_tok 0: several
    int group;              // of layers of floats; -1: what is fastest
    int n_thread, row_ms;
    const char *path;
    bool cpu_time, goals, sweep;
    bool cached; // the weights of linear layers come from a cache if they fit
} bench;

typedef enum bench_peak {
    BENCH_FMA,
    BENCH_INT8
} bench_peak; // the peak that a row is compared with

// ---- memory, time and comparison

// 64-byte aligned, large ones on huge pages, as a model's weights are. Ends the program if memory
// runs out.
void *bench_lines(size_t n_bytes);
float *bench_random_floats(size_t n); // in [-0.5, 0.5)

typedef struct bench_timed {
    void (*run)(void *arg);
    void *arg;
    samples s; // empty
} bench_timed;

// s[n]: the median time of each. They run in turn, so that all meet the same noise; about row_s
// each.
void bench_time(const bench *b, bench_timed *t, int n, double *s);
// Ends the program with a line and status 1 if n bytes of a result differ from ref's.
void bench_same_bits(const bench *b, const char *op, const char *type, const void *got,
                     const void *ref, size_t n);

// ---- limits and rows

// Measures the limits unless that was just done. To be called before a row's runs.
void bench_limits_before(const bench *b);
// Prints a row of the CSV. Measures the limits again; the larger ones of before and now count.
void bench_print_row(const bench *b, const char *op, const char *type, int n_in, int n_out,
                     int n_tok, double s, double n_byte, double n_op, bench_peak by);
void bench_print_plain(const bench *b, const char *op, const char *type, int n_in, int n_out,
                       double s, double n_byte); // a row without a limit

// ---- the parts

void bench_linear(bench *b);       // weight_ops.c
void bench_widths(bench *b);       //
void bench_linear_sweep(bench *b); //
void bench_order(bench *b);        //
void bench_pack(bench *b);         //
void bench_attention(bench *b);    // cache_ops.c
void bench_planes(bench *b);       //
void bench_rows(bench *b);         // row_ops.c
void bench_states(bench *b);       // state_ops.c

#endif
