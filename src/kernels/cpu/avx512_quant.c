// avx512_quant.c - block types with AVX-512, without VNNI.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec512.h"

// VPMADDUBSW multiplies unsigned by signed bytes, adds pairs and saturates at 16 bits. Wide codes:
// |w| <= 128 times the activation with w's sign, at most 127, so a pair is at most 2 x 128 x 127,
// which fits. Other codes have 6 bits at most.
typedef struct vq_w {
    __m512i mag;
    __mmask64 negative; // wide
} vq_w;

static inline vq_w vq_codes(vb v, bool wide)
{
    if (!wide) return (vq_w){v, 0};
    __m512i w = _mm512_xor_si512(v, _mm512_set1_epi8(-128));
    return (vq_w){_mm512_abs_epi8(w), _mm512_movepi8_mask(w)};
}

static inline vq vq_dot(vq acc, vq_w w, int32_t x, bool wide)
{
    __m512i q = _mm512_set1_epi32(x);
    if (wide) q = _mm512_mask_sub_epi8(q, w.negative, _mm512_setzero_si512(), q);
    __m512i pairs = _mm512_maddubs_epi16(w.mag, q);
    return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}

#define Q_TOK              4
#define Q_PANELS           2
#define Q_SMALL_MAX_TOK    4
#define Q_SMALL_SUMS       8
#define Q_SMALL_MAX_PANELS 4
#define Q_CASES(X)         X(1) X(2) X(3) X(4)
#define Q8_ZERO_LEFT       0
#define LINEAR_QUANT       fxi_avx512_linear_quant
#include "kernels/cpu/body/body_quant.h"
