// avx2.c - the path for AVX2 with FMA and F16C: a vector of 16 lanes is two registers. Also holds
// the table for machines with AVX-VNNI, which differs in one function.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec256.h"

#include "kernels/cpu/body/body_act.h"
#include "kernels/cpu/body/body_ops.h"

#define TILE_TOK      6
#define TILE_PANELS   1
#define TILE_CASES(X) X(1) X(2) X(3) X(4) X(5) X(6)
#include "kernels/cpu/body/body_tile.h"

#define SMALL_TOK      3
#define SMALL_PANELS   2
#define SMALL_CASES(X) X(1) X(2) X(3)
#define WIDE_TOK       6
#include "kernels/cpu/body/body_attention.h"
#include "kernels/cpu/body/body_linear.h"

// Integer products without VNNI. VPMADDUBSW multiplies unsigned by signed bytes, adds pairs and
// saturates at 16 bits. Wide codes: |w| <= 128 times the activation with w's sign, at most 127, so
// a pair is at most 2 x 128 x 127, which fits. Other codes have 6 bits at most.
typedef struct vq {
    __m256i lo, hi;
} vq;

typedef struct vq_w {
    __m256i lo, hi; // wide: signed
} vq_w;

static inline vq vq_set1(const int32_t *p)
{
    return (vq){_mm256_set1_epi32(*p), _mm256_set1_epi32(*p)};
}

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

static inline v16 vq_as_f32(vq acc)
{
    return (v16){_mm256_castsi256_ps(acc.lo), _mm256_castsi256_ps(acc.hi)};
}

#define Q_TOK              2
#define Q_PANELS           1
#define Q_SMALL_MAX_TOK    4
#define Q_SMALL_SUMS       2
#define Q_SMALL_MAX_PANELS 2
#define Q_CASES(X)         X(1) X(2)
#define Q8_ZERO_LEFT       0
#include "kernels/cpu/body/body_quant.h"

#define PROBE_CHAINS 6
#include "kernels/cpu/probe/float_loops.h"

#include "kernels/cpu/path_table.h"

PATH_TABLE(avx2, "avx2", linear_quant);
PATH_TABLE(avx2_vnni, "avx2-vnni", fxi_avx2_vnni_linear_quant);

const fxi_probe_loops fxi_probe_loops_avx2 = {probe_read, probe_fma, PROBE_CHAINS * 32.0, NULL};
const fxi_probe_loops fxi_probe_loops_avx2_vnni = {probe_read, probe_fma, PROBE_CHAINS * 32.0,
                                                   fxi_avx2_vnni_probe};
