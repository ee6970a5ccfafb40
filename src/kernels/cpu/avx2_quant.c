// avx2_quant.c - block types with AVX2, without VNNI.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec256.h"

// VPMADDUBSW multiplies unsigned by signed bytes, adds pairs and saturates at 16 bits. Wide codes:
// |w| <= 128 times the activation with w's sign, at most 127, so a pair is at most 2 x 128 x 127,
// which fits. Other codes have 6 bits at most.
typedef struct vq_w {
    __m256i lo, hi; // wide: signed
} vq_w;

static inline vq_w vq_codes(vb v, bool wide)
{
    const __m256i flip = _mm256_set1_epi8(wide ? -128 : 0);
    return (vq_w){_mm256_xor_si256(v.lo, flip), _mm256_xor_si256(v.hi, flip)};
}

static inline __m256i dot_half(__m256i acc, __m256i w, __m256i q, bool wide)
{
    __m256i pairs = wide ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(q, w))
                         : _mm256_maddubs_epi16(w, q);
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

static inline vq vq_dot(vq acc, vq_w w, int32_t x, bool wide)
{
    __m256i q = _mm256_set1_epi32(x);
    return (vq){dot_half(acc.lo, w.lo, q, wide), dot_half(acc.hi, w.hi, q, wide)};
}

#define Q_TOK              2
#define Q_PANELS           1
#define Q_SMALL_MAX_TOK    4
#define Q_SMALL_SUMS       2
#define Q_SMALL_MAX_PANELS 2
#define Q_CASES(X)         X(1) X(2)
#define Q8_ZERO_LEFT       0
#define LINEAR_QUANT       fxi_avx2_linear_quant
#include "kernels/cpu/body/body_quant.h"
