// vec256.h - the 16-lane vector of f32 as two AVX2 registers, with what body/ needs of it. Compiled
// only with the flags of its path, so all of it is static.
#ifndef FXI_KERNELS_VEC256_H
#define FXI_KERNELS_VEC256_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "kernels/ref/mathf.h"

typedef struct v16 {
    __m256 lo, hi;
} v16;

static inline v16 v16_zero(void)
{
    return (v16){_mm256_setzero_ps(), _mm256_setzero_ps()};
}

static inline v16 v16_set1(float f)
{
    return (v16){_mm256_set1_ps(f), _mm256_set1_ps(f)};
}

static inline v16 v16_load(const float *p)
{
    return (v16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

static inline void v16_store(float *p, v16 v)
{
    _mm256_storeu_ps(p, v.lo);
    _mm256_storeu_ps(p + 8, v.hi);
}

// All ones in lanes below n.
static inline __m256i first_lanes(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

// The first n <= 16 numbers, then zeros; memory beyond them is not accessed.
static inline v16 v16_load_n(const float *p, int n)
{
    return (v16){_mm256_maskload_ps(p, first_lanes(n)),
                 _mm256_maskload_ps(p + 8, first_lanes(n - 8))};
}

static inline void v16_store_n(float *p, v16 v, int n)
{
    _mm256_maskstore_ps(p, first_lanes(n), v.lo);
    _mm256_maskstore_ps(p + 8, first_lanes(n - 8), v.hi);
}

#define V16_TWO(name)                                                                 \
    static inline v16 v16_##name(v16 a, v16 b)                                        \
    {                                                                                 \
        return (v16){_mm256_##name##_ps(a.lo, b.lo), _mm256_##name##_ps(a.hi, b.hi)}; \
    }
V16_TWO(add)
V16_TWO(sub)
V16_TWO(mul)
V16_TWO(div)
V16_TWO(max)
V16_TWO(min)
#undef V16_TWO

#define V16_THREE(name, fn)                                       \
    static inline v16 v16_##name(v16 a, v16 b, v16 c)             \
    {                                                             \
        return (v16){fn(a.lo, b.lo, c.lo), fn(a.hi, b.hi, c.hi)}; \
    }
V16_THREE(fma, _mm256_fmadd_ps)         // a * b + c, rounded once
V16_THREE(fmaddsub, _mm256_fmaddsub_ps) // a * b - c in even lanes, a * b + c in odd ones
#undef V16_THREE

// Lanes below n from a, the others from b.
static inline v16 v16_first(int n, v16 a, v16 b)
{
    __m256 lo = _mm256_castsi256_ps(first_lanes(n)), hi = _mm256_castsi256_ps(first_lanes(n - 8));
    return (v16){_mm256_blendv_ps(b.lo, a.lo, lo), _mm256_blendv_ps(b.hi, a.hi, hi)};
}

// Where a < b, x, elsewhere y.
static inline v16 v16_if_less(v16 a, v16 b, v16 x, v16 y)
{
    return (v16){_mm256_blendv_ps(y.lo, x.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
                 _mm256_blendv_ps(y.hi, x.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ))};
}

// a >= 0 with the sign of s.
static inline v16 v16_with_sign(v16 a, v16 s)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (v16){_mm256_or_ps(a.lo, _mm256_and_ps(s.lo, sign)),
                 _mm256_or_ps(a.hi, _mm256_and_ps(s.hi, sign))};
}

static inline float v16_lane0(v16 a)
{
    return _mm256_cvtss_f32(a.lo);
}

static inline v16 v16_abs(v16 a)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (v16){_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}

static inline float v16_max_lane(v16 a)
{
    __m256 b = _mm256_max_ps(a.lo, a.hi);
    __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_max_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_max_ss(c, _mm_movehdup_ps(c)));
}

// The sum of all lanes, folded in halves: a[j] += a[j+8], +4, +2, +1.
static inline float v16_fold(v16 a)
{
    __m256 b = _mm256_add_ps(a.lo, a.hi);
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

// Moves lane j of a[i] to lane i of a[j], for 8 lanes.
static inline void transpose_eight(__m256 a[8])
{
    __m256 b[8];
    for (int i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) // a[i + c] has columns c and c + 4 of 4 rows
        for (int c = 0; c < 4; c += 2) {
            a[i + c] = _mm256_shuffle_ps(b[i + c / 2], b[i + 2 + c / 2], 0x44);
            a[i + c + 1] = _mm256_shuffle_ps(b[i + c / 2], b[i + 2 + c / 2], 0xee);
        }
    for (int c = 0; c < 4; c++) {
        __m256 lo = a[c], hi = a[4 + c];
        a[c] = _mm256_permute2f128_ps(lo, hi, 0x20);
        a[4 + c] = _mm256_permute2f128_ps(lo, hi, 0x31);
    }
}

// Moves lane j of a[i] to lane i of a[j], as four squares.
static inline void v16_transpose(v16 a[16])
{
    __m256 s[2][2][8]; // [rows][columns]
    for (int i = 0; i < 16; i++) s[i / 8][0][i % 8] = a[i].lo, s[i / 8][1][i % 8] = a[i].hi;
    for (int i = 0; i < 4; i++) transpose_eight(s[i / 2][i % 2]);
    for (int i = 0; i < 16; i++) a[i] = (v16){s[0][i / 8][i % 8], s[1][i / 8][i % 8]};
}

// 16 rows of 16 numbers of 16 bits, transposed: dst is [16][16].
static inline void halves_square(const char *row, size_t stride_bytes, uint16_t *dst)
{
    __m256i a[16], b[16];
    for (int i = 0; i < 16; i++)
        a[i] = _mm256_loadu_si256((const __m256i *)(const void *)(row + (size_t)i * stride_bytes));
    for (int i = 0; i < 16; i += 2) { // pairs of rows
        b[i] = _mm256_unpacklo_epi16(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_epi16(a[i], a[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) // a[i + c] has columns 2c and 2c + 1, +8 of 4 rows
        for (int c = 0; c < 2; c++) {
            a[i + 2 * c] = _mm256_unpacklo_epi32(b[i + c], b[i + 2 + c]);
            a[i + 2 * c + 1] = _mm256_unpackhi_epi32(b[i + c], b[i + 2 + c]);
        }
    for (int i = 0; i < 16; i += 8) // b[i + c] has columns c and c + 8 of 8 rows
        for (int c = 0; c < 4; c++) {
            b[i + 2 * c] = _mm256_unpacklo_epi64(a[i + c], a[i + 4 + c]);
            b[i + 2 * c + 1] = _mm256_unpackhi_epi64(a[i + c], a[i + 4 + c]);
        }
    for (int c = 0; c < 8; c++) {
        _mm256_storeu_si256((__m256i *)(dst + c * 16),
                            _mm256_permute2x128_si256(b[c], b[8 + c], 0x20));
        _mm256_storeu_si256((__m256i *)(dst + (8 + c) * 16),
                            _mm256_permute2x128_si256(b[c], b[8 + c], 0x31));
    }
}

// 16 rows of 32 numbers of 16 bits, transposed: dst is [32][16].
static inline void halves_transpose(const char *row, size_t stride_bytes, uint16_t *dst)
{
    halves_square(row, stride_bytes, dst);
    halves_square(row + 32, stride_bytes, dst + 16 * 16);
}

// Lanes 2i and 2i+1 are p[i].
static inline v16 v16_load_twice(const float *p)
{
    __m256 a = _mm256_loadu_ps(p);
    const __m256i lo = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    const __m256i hi = _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7);
    return (v16){_mm256_permutevar8x32_ps(a, lo), _mm256_permutevar8x32_ps(a, hi)};
}

// Swaps lanes 2i and 2i+1.
static inline v16 v16_swap_pairs(v16 a)
{
    return (v16){_mm256_permute_ps(a.lo, 0xb1), _mm256_permute_ps(a.hi, 0xb1)};
}

static inline v16 v16_from_f16(const uint16_t *p)
{
    const __m128i *h = (const __m128i *)p;
    return (v16){_mm256_cvtph_ps(_mm_loadu_si128(h)), _mm256_cvtph_ps(_mm_loadu_si128(h + 1))};
}

// The first n < 16 numbers.
static inline v16 v16_from_f16_n(const uint16_t *p, int n)
{
    uint16_t all[16] = {0};
    memcpy(all, p, (size_t)(n & 15) * sizeof *p);
    return v16_from_f16(all);
}

static inline __m256 bf16_half(const uint16_t *p)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

static inline v16 v16_from_bf16(const uint16_t *p)
{
    return (v16){bf16_half(p), bf16_half(p + 8)};
}

// Vectors of 64 bytes.
typedef struct vb {
    __m256i lo, hi;
} vb;

static inline vb vb_load(const uint8_t *p)
{
    const __m256i *v = (const __m256i *)p;
    return (vb){_mm256_loadu_si256(v), _mm256_loadu_si256(v + 1)};
}

static inline void vb_store(uint8_t *p, vb v)
{
    _mm256_storeu_si256((__m256i *)p, v.lo);
    _mm256_storeu_si256((__m256i *)p + 1, v.hi);
}

static inline vb vb_or(vb a, vb b)
{
    return (vb){_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}

// Byte v of the table's 16, for each byte v of at most 15.
static inline vb vb_lookup(const uint8_t *table, vb v)
{
    __m256i t = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table));
    return (vb){_mm256_shuffle_epi8(t, v.lo), _mm256_shuffle_epi8(t, v.hi)};
}

static inline __m256i take_half(__m256i v, int right, int mask)
{
    if (right > 0) v = _mm256_srli_epi16(v, right);
    if (right < 0) v = _mm256_slli_epi16(v, -right);
    return _mm256_and_si256(v, _mm256_set1_epi8((char)mask));
}

// Each byte shifted right (left if `right` is negative), then masked.
static inline vb vb_take(vb v, int right, int mask)
{
    return (vb){take_half(v.lo, right, mask), take_half(v.hi, right, mask)};
}

// The first n < 16 numbers.
static inline v16 v16_from_bf16_n(const uint16_t *p, int n)
{
    uint16_t all[16] = {0};
    memcpy(all, p, (size_t)(n & 15) * sizeof *p);
    return v16_from_bf16(all);
}

static inline v16 v16_from_i8(const int8_t *p)
{
    __m128i b = _mm_loadu_si128((const __m128i *)p);
    return (v16){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(b)),
                 _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(b, 8)))};
}

// The four bits of each byte from bit `shift` on, as f32.
static inline v16 v16_from_u4(const uint8_t *p, int shift)
{
    __m128i b = _mm_srli_epi16(_mm_loadu_si128((const __m128i *)p), shift);
    b = _mm_and_si128(b, _mm_set1_epi8(15));
    return (v16){_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(b)),
                 _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(b, 8)))};
}

static inline v16 v16_set1_f16(uint16_t h)
{
    __m256 f = _mm256_cvtph_ps(_mm_set1_epi16((short)h));
    return (v16){f, f};
}

static inline void v16_to_f16(uint16_t *p, v16 v)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(v.lo, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)(p + 8), _mm256_cvtps_ph(v.hi, _MM_FROUND_TO_NEAREST_INT));
}

// The first n < 16 numbers.
static inline void v16_to_f16_n(uint16_t *p, v16 v, int n)
{
    uint16_t all[16];
    v16_to_f16(all, v);
    memcpy(p, all, (size_t)(n & 15) * sizeof *p);
}

// Rounds to nearest even, into the low half of each lane; NaN becomes a quiet NaN.
static inline __m256i bf16_round(__m256 v)
{
    __m256i u = _mm256_castps_si256(v), one = _mm256_set1_epi32(1);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), one);
    __m256i up = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
    __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_blendv_epi8(up, quiet, nan), 16);
}

static inline void v16_to_bf16(uint16_t *p, v16 v)
{
    __m256i all = _mm256_packus_epi32(bf16_round(v.lo), bf16_round(v.hi));
    _mm256_storeu_si256((__m256i *)p, _mm256_permute4x64_epi64(all, 0xd8));
}

static inline void v16_to_bf16_n(uint16_t *p, v16 v, int n)
{
    uint16_t all[16];
    v16_to_bf16(all, v);
    memcpy(p, all, (size_t)(n & 15) * sizeof *p);
}

// Stores numbers in [-127, 127] as bytes, rounded to nearest even; returns their sum.
static inline int32_t v16_to_i8(int8_t *p, v16 v)
{
    __m256i lo = _mm256_cvtps_epi32(v.lo), hi = _mm256_cvtps_epi32(v.hi);
    __m256i w = _mm256_permute4x64_epi64(_mm256_packs_epi32(lo, hi), 0xd8); // 16 x i16 in order
    __m128i b = _mm_packs_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));
    _mm_storeu_si128((__m128i *)p, b);
    __m256i s = _mm256_add_epi32(lo, hi);
    __m128i t = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    t = _mm_add_epi32(t, _mm_unpackhi_epi64(t, t));
    return _mm_cvtsi128_si32(_mm_add_epi32(t, _mm_shuffle_epi32(t, 0x55)));
}

// y * 2^n in two steps, the first exact, so that a subnormal result is rounded once. n: integers in
// [-150, 129].
static inline __m256 scale_half(__m256 y, __m256 n)
{
    __m256i i = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(i, 1);
    __m256i bias = _mm256_set1_epi32(127);
    __m256i s0 = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    __m256i s1 = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(i, half), bias), 23);
    y = _mm256_mul_ps(y, _mm256_castsi256_ps(s0));
    return _mm256_mul_ps(y, _mm256_castsi256_ps(s1));
}

static inline __m256 exp_half(__m256 x)
{
    x = _mm256_max_ps(_mm256_set1_ps(FXI_EXP_LO_X), x); // in this order NaN stays
    x = _mm256_min_ps(_mm256_set1_ps(FXI_EXP_HI_X), x);
    __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(FXI_LOG2E)), 8);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(FXI_LN2_HI), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(FXI_LN2_LO), r);
    __m256 p = _mm256_set1_ps(FXI_EXP_P5);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(FXI_EXP_P4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(FXI_EXP_P3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(FXI_EXP_P2));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(FXI_EXP_P1));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(FXI_EXP_P0));
    __m256 y = _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r);
    return scale_half(_mm256_add_ps(y, _mm256_set1_ps(1.0f)), n);
}

// fxi_expf of every lane.
static inline v16 v16_exp(v16 x)
{
    return (v16){exp_half(x.lo), exp_half(x.hi)};
}

// Integer products (body_quant.h): 16 sums.
typedef struct vq {
    __m256i lo, hi;
} vq;

static inline vq vq_set1(const int32_t *p)
{
    return (vq){_mm256_set1_epi32(*p), _mm256_set1_epi32(*p)};
}

static inline v16 vq_as_f32(vq acc)
{
    return (v16){_mm256_castsi256_ps(acc.lo), _mm256_castsi256_ps(acc.hi)};
}

#endif
