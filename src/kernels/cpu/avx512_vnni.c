// avx512_vnni.c - block types with AVX-512 VNNI. VPDPBUSD adds to each of 16 sums four products of
// an unsigned byte (a code) and a signed byte (an activation).
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec512.h"

typedef __m512i vq_w;

static inline vq_w vq_codes(vb v, bool wide)
{
    (void)wide;
    return v;
}

static inline vq vq_dot(vq acc, vq_w w, int32_t x, bool wide)
{
    (void)wide;
    return _mm512_dpbusd_epi32(acc, w, _mm512_set1_epi32(x));
}

#define Q_TOK              6
#define Q_PANELS           2
#define Q_SMALL_MAX_TOK    8
#define Q_SMALL_SUMS       8
#define Q_SMALL_MAX_PANELS 4
#define Q_CASES(X)         X(1) X(2) X(3) X(4) X(5) X(6)
#define Q8_ZERO_LEFT       128
#define LINEAR_QUANT       fxi_avx512_vnni_linear_quant
#include "kernels/cpu/body/body_quant.h"

#define PROBE_SUMS 12
#include "kernels/cpu/int8_loops.h"

const fxi_probe_int8 fxi_avx512_vnni_probe[FXI_PROBE_N_RUN] = PROBE_INT8;
