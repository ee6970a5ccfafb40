// bench_kernels.h - shared by the parts of bench_kernels.
#ifndef BENCH_KERNELS_H
#define BENCH_KERNELS_H

#include "base/system/pool.h"
#include "figures.h"
#include "kernels/kernels.h"
#include "kernels/probe.h"

enum { BENCH_MAX_GOAL = 24 };

// What changes while rows are measured.
typedef struct bench_state {
    fxi_probe before, limit;      // the machine before the row's runs, and as measured last
    double limit_s;               // time of the last measurement
    double share[BENCH_MAX_GOAL]; // smallest share so far for each goal; NaN: none
} bench_state;

typedef struct kernel_bench {
    const fxi_kernels *k;
    fxi_pool *pool;
    bench_state *state;
    double (*now_s)(void);  // the clock of runs and limits
    double row_s;           // seconds for the runs of a row
    const char *only;       // a part; NULL: all
    const char *only_type;  // of weights; NULL: all
    int n_in, n_out, n_tok; // of linear layers; n_tok 0: several
    int group;              // of layers of floats
    bool cached;            // the weights of linear layers come from a cache if they fit
} kernel_bench;

typedef enum bench_peak {
    BENCH_FMA,
    BENCH_INT8
} bench_peak; // the peak that a row is compared with

// ---- tools.c ---------------------------------------------------------------------------

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
void bench_time(const kernel_bench *b, bench_timed *t, int n, double *s);
// Ends the program with a line and status 1 if n bytes of a result differ from ref's.
void bench_same_bits(const kernel_bench *b, const char *op, const char *type, const void *got,
                     const void *ref, size_t n);

// ---- limits.c --------------------------------------------------------------------------

// Measures the limits unless that was just done. To be called before a row's runs.
void bench_limits_before(const kernel_bench *b);
void bench_print_head(void);
// Prints a row of the CSV. Measures the limits again; the larger ones of before and now count.
void bench_print_row(const kernel_bench *b, const char *op, const char *type, int n_in, int n_out,
                     int n_tok, double s, double n_byte, double n_op, bench_peak by);
void bench_print_plain(const kernel_bench *b, const char *op, const char *type, int n_in, int n_out,
                       double s, double n_byte); // a row without a limit
void bench_print_goals(const kernel_bench *b);   // on stderr

// ---- the parts ---------------------------------------------------------------------------------

void bench_linear_all(const kernel_bench *b);    // linear.c
void bench_linear_sweep(const kernel_bench *b);  //
void bench_order_all(const kernel_bench *b);     // order.c
void bench_attention_all(const kernel_bench *b); // attention.c
void bench_planes_all(const kernel_bench *b);    // planes.c
void bench_rows_all(const kernel_bench *b);      // rows.c
void bench_pack_all(const kernel_bench *b);      // pack.c

#endif
