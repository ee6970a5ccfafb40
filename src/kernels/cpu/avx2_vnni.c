// avx2_vnni.c - block types with AVX-VNNI: the VPDPBUSD of AVX-512 VNNI, on registers of 256 bits.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec256.h"

typedef vb vq_w;

static inline vq_w vq_codes(vb v, bool wide)
{
    (void)wide;
    return v;
}

static inline vq vq_dot(vq acc, vq_w w, int32_t x, bool wide)
{
    (void)wide;
    __m256i q = _mm256_set1_epi32(x);
    return (vq){_mm256_dpbusd_avx_epi32(acc.lo, w.lo, q), _mm256_dpbusd_avx_epi32(acc.hi, w.hi, q)};
}

// The integer sums of six tokens take 12 of 16 registers. The float sums are kept in memory between
// runs, which costs less than fewer chains would: with 3 tokens it is a tenth slower.
#define Q_TOK              6
#define Q_PANELS           1
#define Q_SMALL_MAX_TOK    4
#define Q_SMALL_SUMS       4
#define Q_SMALL_MAX_PANELS 4
#define Q_CASES(X)         X(1) X(2) X(3) X(4) X(5) X(6)
#define Q8_ZERO_LEFT       128
#define LINEAR_QUANT       fxi_avx2_vnni_linear_quant
#include "kernels/cpu/body/body_quant.h"

// Ten sums of integers in registers; those of floats are kept in memory between runs.
#define PROBE_SUMS 5
#include "kernels/cpu/int8_loops.h"

const fxi_probe_int8 fxi_avx2_vnni_probe[FXI_PROBE_N_RUN] = PROBE_INT8;
