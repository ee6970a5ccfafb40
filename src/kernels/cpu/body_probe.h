// body_probe.h - the loops that find a machine's limits, once for every vector unit (cpu.h).
// Needs: a vec*.h; PROBE_CHAINS, sums that fit in registers and hide the latency of a fused
// multiply-add.
#include "kernels/probe_loops.h"

// Four lines of 64 bytes at a time, each into a sum of its own.
static float probe_read(const float *p, size_t n)
{
    v16 a = v16_zero(), b = a, c = a, d = a;
    for (size_t i = 0; i + 64 <= n; i += 64) {
        a = v16_add(a, v16_load(p + i));
        b = v16_add(b, v16_load(p + i + 16));
        c = v16_add(c, v16_load(p + i + 32));
        d = v16_add(d, v16_load(p + i + 48));
    }
    return v16_fold(v16_add(v16_add(a, b), v16_add(c, d)));
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
