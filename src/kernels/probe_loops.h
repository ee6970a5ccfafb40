// probe_loops.h - the inner loops of the probe, one set per path.
#ifndef FXI_KERNELS_PROBE_LOOPS_H
#define FXI_KERNELS_PROBE_LOOPS_H

#include <stddef.h>

typedef struct fxi_probe_loops {
    float (*read)(const float *p, size_t n); // reads n floats, a multiple of 64
    float (*fma)(float seed, int n_round);   // n_round x fma_flop operations; seed: 1
    double fma_flop;
    // The same with int8_op operations per round; NULL if the path has no VPDPBUSD.
    int (*int8)(int seed, int n_round);
    double int8_op;
} fxi_probe_loops;

const fxi_probe_loops *fxi_probe_loops_get(void); // those of this machine's best path

#endif
