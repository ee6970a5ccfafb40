// The path for AVX2 with FMA and F16C: a vector of 16 lanes is two registers.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec256.h"

#include "kernels/cpu/body_ops.h"

#define TILE_TOK      6
#define TILE_PANELS   1
#define TILE_CASES(X) X(1) X(2) X(3) X(4) X(5) X(6)
#include "kernels/cpu/body_tile.h"

#define FEW_TOK      3
#define FEW_PANELS   2
#define FEW_CASES(X) X(1) X(2) X(3)
#include "kernels/cpu/body_attention.h"
#include "kernels/cpu/body_linear.h"

// Integer products: VPMADDUBSW wants an unsigned and a signed side and saturates at 16 bits: |w| <=
// 128 times the activation with w's sign, at most 127, in pairs: 2 x 128 x 127 fits.
typedef struct vq {
    __m256i lo, hi;
} vq;

typedef struct vq_w {
    __m256i lo, hi; // signed
} vq_w;

static inline vq vq_start(int32_t sum)
{
    (void)sum; // the weights are signed here
    return (vq){_mm256_setzero_si256(), _mm256_setzero_si256()};
}

static inline vq_w vq_load(const uint8_t *p)
{
    const __m256i flip = _mm256_set1_epi8(-128), *w = (const __m256i *)p;
    return (vq_w){_mm256_xor_si256(_mm256_loadu_si256(w), flip),
                  _mm256_xor_si256(_mm256_loadu_si256(w + 1), flip)};
}

static inline __m256i dot_half(__m256i acc, __m256i w, __m256i q)
{
    __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(q, w));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

static inline vq vq_dot(vq acc, vq_w w, int32_t x)
{
    __m256i q = _mm256_set1_epi32(x);
    return (vq){dot_half(acc.lo, w.lo, q), dot_half(acc.hi, w.hi, q)};
}

static inline v16 vq_to_f32(vq acc)
{
    return (v16){_mm256_cvtepi32_ps(acc.lo), _mm256_cvtepi32_ps(acc.hi)};
}

#define Q8_TOK    2
#define Q8_PANELS 1
#define Q8_CASES  Q8_CASE(1) Q8_CASE(2)
#include "kernels/cpu/body_q8.h"

#define PROBE_CHAINS 6
#include "kernels/cpu/body_probe.h"

#include "kernels/cpu/table.h"

PATH_TABLE(avx2, "avx2", q8_linear);

const fxi_probe_loops fxi_probe_loops_avx2 = {probe_read, probe_fma, PROBE_CHAINS * 32.0, NULL, 0};
