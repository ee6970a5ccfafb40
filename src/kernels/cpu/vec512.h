// vec512.h - the 16-lane vector of f32 in AVX-512, with what body/ needs of it. Compiled only with
// the flags of its path, so all of it is static.
#ifndef FXI_KERNELS_VEC512_H
#define FXI_KERNELS_VEC512_H

#include <immintrin.h>
#include <stdint.h>

#include "kernels/ref/mathf.h"

typedef __m512 v16;

static inline __mmask16 v16_mask(int n)
{
    return (__mmask16)((1u << n) - 1);
}

static inline v16 v16_zero(void)
{
    return _mm512_setzero_ps();
}

static inline v16 v16_set1(float f)
{
    return _mm512_set1_ps(f);
}

static inline v16 v16_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

// The first n <= 16 numbers, then zeros; memory beyond them is not accessed.
static inline v16 v16_load_n(const float *p, int n)
{
    return _mm512_maskz_loadu_ps(v16_mask(n), p);
}

static inline void v16_store(float *p, v16 v)
{
    _mm512_storeu_ps(p, v);
}

static inline void v16_store_n(float *p, v16 v, int n)
{
    _mm512_mask_storeu_ps(p, v16_mask(n), v);
}

#define V16_TWO(name)                          \
    static inline v16 v16_##name(v16 a, v16 b) \
    {                                          \
        return _mm512_##name##_ps(a, b);       \
    }
V16_TWO(add)
V16_TWO(sub)
V16_TWO(mul)
V16_TWO(div)
V16_TWO(max)
V16_TWO(min)
#undef V16_TWO

// a * b + c, rounded once.
static inline v16 v16_fma(v16 a, v16 b, v16 c)
{
    return _mm512_fmadd_ps(a, b, c);
}

// a * b - c in even lanes, a * b + c in odd ones.
static inline v16 v16_fmaddsub(v16 a, v16 b, v16 c)
{
    return _mm512_fmaddsub_ps(a, b, c);
}

// Lanes below n from a, the others from b.
static inline v16 v16_first(int n, v16 a, v16 b)
{
    return _mm512_mask_mov_ps(b, v16_mask(n), a);
}

// Where a < b, x, elsewhere y.
static inline v16 v16_if_less(v16 a, v16 b, v16 x, v16 y)
{
    return _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), x);
}

// a >= 0 with the sign of s.
static inline v16 v16_with_sign(v16 a, v16 s)
{
    return _mm512_or_ps(a, _mm512_and_ps(s, _mm512_set1_ps(-0.0f)));
}

static inline float v16_lane0(v16 a)
{
    return _mm512_cvtss_f32(a);
}

static inline v16 v16_abs(v16 a)
{
    return _mm512_abs_ps(a);
}

static inline float v16_max_lane(v16 a)
{
    return _mm512_reduce_max_ps(a);
}

// The sum of all lanes, folded in halves: a[j] += a[j+8], +4, +2, +1.
static inline float v16_fold(v16 a)
{
    __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
    c = _mm_add_ps(c, _mm_movehl_ps(c, c));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

// Moves lane j of a[i] to lane i of a[j].
static inline __attribute__((always_inline)) void v16_transpose(v16 a[16])
{
    v16 b[16];
    for (int i = 0; i < 16; i += 2) { // pairs of rows, by single lanes
        b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) // by two lanes: a[i + c] has columns c, c + 4, .. of 4 rows
        for (int c = 0; c < 4; c += 2) {
            a[i + c] = _mm512_shuffle_ps(b[i + c / 2], b[i + 2 + c / 2], 0x44);
            a[i + c + 1] = _mm512_shuffle_ps(b[i + c / 2], b[i + 2 + c / 2], 0xee);
        }
    for (int c = 0; c < 4; c++) { // by four lanes: columns c, c + 8 | c + 4, c + 12 of 8 rows
        b[c] = _mm512_shuffle_f32x4(a[c], a[4 + c], 0x88);
        b[4 + c] = _mm512_shuffle_f32x4(a[c], a[4 + c], 0xdd);
        b[8 + c] = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0x88);
        b[12 + c] = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0xdd);
    }
    for (int c = 0; c < 8; c++) {
        a[c] = _mm512_shuffle_f32x4(b[c], b[8 + c], 0x88);
        a[8 + c] = _mm512_shuffle_f32x4(b[c], b[8 + c], 0xdd);
    }
}

// Eight 16-bit numbers of each of rows 0, 4, 8 and 12: one row per quarter of the vector.
static inline __attribute__((always_inline)) __m512i halves_of_four(const char *row,
                                                                    size_t stride_bytes)
{
    __m512i a = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)row));
#define ROW(i) _mm_loadu_si128((const __m128i *)(row + (size_t)(4 * (i)) * stride_bytes))
    a = _mm512_inserti64x2(a, ROW(1), 1);
    a = _mm512_inserti64x2(a, ROW(2), 2);
    return _mm512_inserti64x2(a, ROW(3), 3);
#undef ROW
}

// 16 rows of 32 numbers of 16 bits, transposed: dst is [32][16].
static inline __attribute__((always_inline)) void halves_transpose(const char *row,
                                                                   size_t stride_bytes,
                                                                   uint16_t *dst)
{
    const __m512i columns = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++, row += 16, dst += 8 * 16) {
        __m512i a[4], b[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            a[i] = halves_of_four(row + (size_t)i * stride_bytes, stride_bytes);
#pragma GCC unroll 2
        for (int i = 0; i < 4; i += 2) { // pairs of rows
            b[i] = _mm512_unpacklo_epi16(a[i], a[i + 1]);
            b[i + 1] = _mm512_unpackhi_epi16(a[i], a[i + 1]);
        }
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) { // columns 4 i to 4 i + 3 of four rows
            a[2 * i] = _mm512_unpacklo_epi32(b[i], b[2 + i]);
            a[2 * i + 1] = _mm512_unpackhi_epi32(b[i], b[2 + i]);
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            _mm512_storeu_si512(dst + 2 * i * 16, _mm512_permutexvar_epi64(columns, a[i]));
    }
}

// Lanes 2i and 2i+1 are p[i].
static inline v16 v16_load_twice(const float *p)
{
    const __m512i idx = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    return _mm512_permutexvar_ps(idx, _mm512_castps256_ps512(_mm256_loadu_ps(p)));
}

// Swaps lanes 2i and 2i+1.
static inline v16 v16_swap_pairs(v16 a)
{
    return _mm512_permute_ps(a, 0xb1);
}

static inline v16 v16_from_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

static inline v16 v16_from_f16_n(const uint16_t *p, int n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(v16_mask(n), p));
}

static inline v16 v16_from_bf16(const uint16_t *p)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

// Vectors of 64 bytes.
typedef __m512i vb;

static inline vb vb_load(const uint8_t *p)
{
    return _mm512_loadu_si512(p);
}

static inline void vb_store(uint8_t *p, vb v)
{
    _mm512_storeu_si512(p, v);
}

static inline vb vb_or(vb a, vb b)
{
    return _mm512_or_si512(a, b);
}

// Byte v of the table's 16, for each byte v of at most 15.
static inline vb vb_lookup(const uint8_t *table, vb v)
{
    __m128i t = _mm_loadu_si128((const __m128i *)table);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(t), v);
}

// Each byte shifted right (left if `right` is negative), then masked.
static inline vb vb_take(vb v, int right, int mask)
{
    if (right > 0) v = _mm512_srli_epi16(v, (unsigned)right);
    if (right < 0) v = _mm512_slli_epi16(v, (unsigned)-right);
    return _mm512_and_si512(v, _mm512_set1_epi8((char)mask));
}

static inline v16 v16_from_bf16_n(const uint16_t *p, int n)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(v16_mask(n), p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

static inline v16 v16_from_i8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

// The four bits of each byte from bit `shift` on, as f32.
static inline v16 v16_from_u4(const uint8_t *p, int shift)
{
    __m512i b = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm512_cvtepi32_ps(
        _mm512_and_si512(_mm512_srli_epi32(b, (unsigned)shift), _mm512_set1_epi32(15)));
}

static inline v16 v16_set1_f16(uint16_t h)
{
    return _mm512_cvtph_ps(_mm256_set1_epi16((short)h));
}

static inline void v16_to_f16(uint16_t *p, v16 v)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

static inline void v16_to_f16_n(uint16_t *p, v16 v, int n)
{
    __m256i h = _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT);
    _mm256_mask_storeu_epi16(p, v16_mask(n), h);
}

// Rounds to nearest even; NaN becomes a quiet NaN.
static inline __m256i bf16_round(v16 v)
{
    __m512i u = _mm512_castps_si512(v), one = _mm512_set1_epi32(1);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), one);
    __m512i up = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
    __m512i quiet = _mm512_or_si512(u, _mm512_set1_epi32(0x400000));
    __m512i r = _mm512_mask_mov_epi32(up, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), quiet);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16));
}

static inline void v16_to_bf16(uint16_t *p, v16 v)
{
    _mm256_storeu_si256((__m256i *)p, bf16_round(v));
}

static inline void v16_to_bf16_n(uint16_t *p, v16 v, int n)
{
    _mm256_mask_storeu_epi16(p, v16_mask(n), bf16_round(v));
}

// Stores numbers in [-127, 127] as bytes, rounded to nearest even; returns their sum.
static inline int32_t v16_to_i8(int8_t *p, v16 v)
{
    __m512i i = _mm512_cvtps_epi32(v);
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(i));
    return _mm512_reduce_add_epi32(i);
}

// fxi_expf of every lane.
static inline v16 v16_exp(v16 x)
{
    x = _mm512_max_ps(_mm512_set1_ps(FXI_EXP_LO_X), x); // in this order NaN stays
    x = _mm512_min_ps(_mm512_set1_ps(FXI_EXP_HI_X), x);
    v16 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(FXI_LOG2E)), 8);
    v16 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(FXI_LN2_HI), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(FXI_LN2_LO), r);
    v16 p = _mm512_set1_ps(FXI_EXP_P5);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(FXI_EXP_P4));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(FXI_EXP_P3));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(FXI_EXP_P2));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(FXI_EXP_P1));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(FXI_EXP_P0));
    v16 y = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r);
    return _mm512_scalef_ps(_mm512_add_ps(y, _mm512_set1_ps(1.0f)), n);
}

// Integer products (body_quant.h): 16 sums.
typedef __m512i vq;

static inline vq vq_set1(const int32_t *p)
{
    return _mm512_set1_epi32(*p);
}

static inline v16 vq_as_f32(vq acc)
{
    return _mm512_castsi512_ps(acc);
}

#endif
