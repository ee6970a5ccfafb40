// kernels_bench.h - what the parts of bench_kernels share.
#ifndef KERNELS_BENCH_H
#define KERNELS_BENCH_H

#include "base/pool.h"
#include "kernels/kernels.h"
#include "kernels/probe.h"

typedef struct bench {
    const fxi_kernels *k;
    fxi_pool *pool;
    fxi_probe limit;
    const char *only_type;  // NULL: all
    int n_in, n_out, n_tok; // n_tok 0: a list
} bench;

void *bench_lines(size_t n_bytes);     // at a multiple of 64; exits where there is no memory
float *bench_random_floats(size_t n);  // in [-0.5, 0.5)
double bench_median(double *t, int n); // sorts t
// A row of the CSV, with the ratio of the limit that binds to what was measured.
void bench_print_row(const bench *b, const char *op, const char *type, int n_in, int n_out,
                     int n_tok, double s, double n_byte, double n_op, double peak_gop);

void bench_attention_all(const bench *b); // kernels_attention.c

#endif
