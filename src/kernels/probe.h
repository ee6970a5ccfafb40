// probe.h - measures the machine's limits: memory read bandwidth, FMA peak and int8 peaks.
#ifndef FXI_KERNELS_PROBE_H
#define FXI_KERNELS_PROBE_H

#include "base/system/pool.h"

#include <stddef.h>

// ---- the inner loops, a set per path -----------------------------------------------------------

// Integer products in registers: alone, and in the runs of numbers that share a scale, whose sums
// are rounded as kernels.h says.
typedef enum fxi_probe_run {
    FXI_PROBE_PRODUCTS,      // VPDPBUSD alone
    FXI_PROBE_RUN_32,        // Q8_0, Q4_0, ..: two roundings
    FXI_PROBE_RUN_32_OFFSET, // Q4_1, Q4_K, ..: a third one
    FXI_PROBE_RUN_16,        // Q6_K, ..: two, for half as many numbers
    FXI_PROBE_N_RUN
} fxi_probe_run;

// All loops return a number above 0 that depends on all they computed: comparing it with 0 keeps
// the loop from being optimized away.
typedef struct fxi_probe_int8 {
    float (*run)(int zero, int n_round); // zero: 0
    double op;                           // products and sums of a round; roundings do not count
} fxi_probe_int8;

typedef struct fxi_probe_loops {
    float (*read)(const float *p, size_t n); // reads n floats, a multiple of 64
    float (*fma)(float seed, int n_round);   // n_round x fma_flop operations; seed: 1
    double fma_flop;
    const fxi_probe_int8 *int8; // [FXI_PROBE_N_RUN]; NULL if the path has no VPDPBUSD
} fxi_probe_loops;

const fxi_probe_loops *fxi_probe_loops_get(void); // those of this machine's best path

// ---- the machine -------------------------------------------------------------------------------

typedef struct fxi_probe {
    // Streaming reads of a buffer far larger than the caches, by all threads of the pool.
    double read_gb_s;
    double fma_gflop_s; // independent chains of f32 FMA in registers, widest vectors of the machine
    // VPDPBUSD in registers, alone and with the roundings of runs; 0 without VNNI.
    double int8_gop_s[FXI_PROBE_N_RUN];
} fxi_probe;

// now_s: the clock to measure with: fxi_now_s or, if the pool has no thread but the caller's,
// fxi_thread_cpu_s. Takes about a second. Errors: FX_ENOMEM.
fx_status fxi_probe_machine(fxi_pool *pool, double (*now_s)(void), fxi_probe *out, fx_error *err);

#endif
