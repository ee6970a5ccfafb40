// Q8_0 with AVX-512 VNNI. VPDPBUSD adds to each of 16 sums four products of an unsigned byte
// (weight + 128) and a signed one (activation), so a sum that starts from -128 x (sum of the
// block's activations) ends as the signed product.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec512.h"

typedef __m512i vq;
typedef __m512i vq_w;

static inline vq vq_start(int32_t sum)
{
    return _mm512_set1_epi32(-128 * sum);
}

static inline vq_w vq_load(const uint8_t *p)
{
    return _mm512_loadu_si512(p);
}

static inline vq vq_dot(vq acc, vq_w w, int32_t x)
{
    return _mm512_dpbusd_epi32(acc, w, _mm512_set1_epi32(x));
}

static inline v16 vq_to_f32(vq acc)
{
    return _mm512_cvtepi32_ps(acc);
}

#define Q8_TOK    6
#define Q8_PANELS 2
#define Q8_CASES  Q8_CASE(1) Q8_CASE(2) Q8_CASE(3) Q8_CASE(4) Q8_CASE(5) Q8_CASE(6)
#include "kernels/cpu/body_q8.h"

void fxi_avx512_vnni_linear_q8_0(const fxi_linear *w, const fxi_act *a, int n_tok, int panel0,
                                 int panel1, float *y, size_t ldy)
{
    q8_linear(w, a, n_tok, panel0, panel1, y, ldy);
}

int fxi_avx512_vnni_probe_int8(int seed, int n_round)
{
    __m512i acc[12], x = _mm512_set1_epi32(seed);
    for (int i = 0; i < 12; i++) acc[i] = _mm512_set1_epi32(i);
    for (int r = 0; r < n_round; r++)
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++) acc[i] = _mm512_dpbusd_epi32(acc[i], x, x);
    for (int i = 1; i < 12; i++) acc[0] = _mm512_add_epi32(acc[0], acc[i]);
    return _mm512_reduce_add_epi32(acc[0]);
}
