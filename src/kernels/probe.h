// probe.h - measures what the machine can do at most: memory read bandwidth, FMA and int8 peaks.
#ifndef FXI_KERNELS_PROBE_H
#define FXI_KERNELS_PROBE_H

#include "base/pool.h"

typedef struct fxi_probe {
    double read_gb_s; // streaming reads of a buffer far larger than the caches, all threads of the
                      // pool
    double fma_gflop_s; // independent chains of f32 FMA in registers, widest vectors of the machine
    double int8_gop_s;  // VPDPBUSD in registers; 0 without VNNI
} fxi_probe;

// About a second. Errors: FX_ENOMEM.
fx_status fxi_probe_machine(fxi_pool *pool, fxi_probe *out, fx_error *err);

#endif
