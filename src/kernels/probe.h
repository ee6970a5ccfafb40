// probe.h - measures the machine's limits: memory read bandwidth, FMA peak and int8 peaks.
#ifndef FXI_KERNELS_PROBE_H
#define FXI_KERNELS_PROBE_H

#include "base/system/pool.h"
#include "kernels/probe_loops.h"

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
