// int8_loops.h - the loops that measure integer products alone, and with the roundings that the
// runs of a block need. Written once for every vector unit with VPDPBUSD (cpu.h).
// Needs: what body_quant.h does, included before; PROBE_SUMS, how many sums hide a product's
// latency.
//
// All is done in registers and no code is unpacked, so no layer is faster on the same machine. The
// codes are zeros, which the compiler does not know: each sum stays where it starts, near the float
// F of body_quant.h and where no other one does, however many rounds there are.
#include "kernels/probe.h"

// n_round runs of n_dot products and n_float roundings for PROBE_SUMS sums. n_dot and n_float are
// constants at every call. zero: 0
static inline __attribute__((always_inline)) float probe_runs(const int n_dot, const int n_float,
                                                              int zero, int n_round)
{
    const v16 scale = v16_set1(1.0f + (float)zero), back = v16_set1(-Q_MAGIC);
    const uint8_t bytes[64] = {(uint8_t)zero};
    const vq_w codes = vq_codes(vb_load(bytes), false);
    vq sum[PROBE_SUMS];
    v16 acc[PROBE_SUMS];
#pragma GCC unroll 12
    for (int t = 0; t < PROBE_SUMS; t++) {
        const int32_t start = Q_MAGIC_BITS + t;
        sum[t] = vq_set1(&start);
        acc[t] = v16_zero();
    }
    for (int r = 0; r < n_round; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < n_dot; i++)
#pragma GCC unroll 12
            for (int t = 0; t < PROBE_SUMS; t++) sum[t] = vq_dot(sum[t], codes, 1, false);
#pragma GCC unroll 12
        for (int t = 0; t < PROBE_SUMS && n_float; t++) {
            acc[t] = v16_fma(v16_fma(vq_as_f32(sum[t]), scale, back), scale, acc[t]);
            if (n_float == 3) acc[t] = v16_fma(scale, scale, acc[t]);
        }
    }
    v16 all = v16_zero();
    for (int t = 0; t < PROBE_SUMS; t++) all = v16_add(all, v16_add(acc[t], vq_as_f32(sum[t])));
    return v16_fold(all);
}

#define PROBE_RUN(name, n_dot, n_float)                   \
    static float probe_##name(int zero, int n_round)      \
    {                                                     \
        return probe_runs(n_dot, n_float, zero, n_round); \
    }
PROBE_RUN(products, 8, 0)
PROBE_RUN(run_32, 8, 2)
PROBE_RUN(run_32_offset, 8, 3)
PROBE_RUN(run_16, 4, 2)
#undef PROBE_RUN

#define PROBE_OP(n_dot) (2.0 * 64 * (n_dot)*PROBE_SUMS)
#define PROBE_INT8                                                      \
    {                                                                   \
        [FXI_PROBE_PRODUCTS] = {probe_products, PROBE_OP(8)},           \
        [FXI_PROBE_RUN_32] = {probe_run_32, PROBE_OP(8)},               \
        [FXI_PROBE_RUN_32_OFFSET] = {probe_run_32_offset, PROBE_OP(8)}, \
        [FXI_PROBE_RUN_16] = {probe_run_16, PROBE_OP(4)},               \
    }
