// float_loops.h - the loops that measure what memory and float arithmetic can do at most. Written
// once for every vector unit (cpu.h).
// Needs: a vec*.h; PROBE_CHAINS, the number of sums that fit in registers and hide the latency of a
// fused multiply-add.
#include "kernels/probe.h"

#define PROBE_PREFETCH 1024 // floats

// Four streams, as a tile of panels reads them: several read faster than one.
static float probe_read(const float *p, size_t n)
{
    v16 sum[4] = {v16_zero(), v16_zero(), v16_zero(), v16_zero()};
    for (size_t i = 0; i < n / 4; i += 16)
        for (size_t s = 0; s < 4; s++) {
            const float *at = p + s * (n / 4) + i;
            __builtin_prefetch(at + PROBE_PREFETCH);
            sum[s] = v16_add(sum[s], v16_load(at));
        }
    return v16_fold(v16_add(v16_add(sum[0], sum[1]), v16_add(sum[2], sum[3])));
}

static float probe_fma(float seed, int n_round)
{
    v16 acc[PROBE_CHAINS], half = v16_set1(seed / 2);
#pragma GCC unroll 16
    for (int i = 0; i < PROBE_CHAINS; i++) acc[i] = v16_set1((float)i);
    for (int r = 0; r < n_round; r++)
#pragma GCC unroll 16
        for (int i = 0; i < PROBE_CHAINS; i++) acc[i] = v16_fma(acc[i], half, half);
    v16 sum = acc[0];
    for (int i = 1; i < PROBE_CHAINS; i++) sum = v16_add(sum, acc[i]);
    return v16_fold(sum);
}
