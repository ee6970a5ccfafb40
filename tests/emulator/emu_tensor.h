// emu_tensor.h - what tensor cores do, over the fragments of a whole warp: the twins of mma and
// ldmatrix. Layouts are those of PTX: lane 4 g + c holds
//
//   m16n8k16 (16 bits)   a: rows g, g + 8 x columns 2c, 2c + 1, then the same 8 columns further
//                        b: rows (k) 2c, 2c + 1, 2c + 8, 2c + 9 of column g
//   m16n8k32 (s8)        a: rows g, g + 8 x columns 4c .. 4c + 3, then 16 columns further
//                        b: rows (k) 4c .. 4c + 3, then 16 further, of column g
//   d                    rows g, g + 8 x columns 2c, 2c + 1
//
// Integer sums are exact. Sums of f16 and bf16 follow a model of Hopper's units: products are
// exact; they and the accumulator are aligned to the largest exponent among them and cut off two
// bits below the last of f32, added, and the sum is cut to f32.
#pragma once
#include "emu_thread.h"

enum { EMU_TENSOR_EXTRA_BITS = 2 };

EMU_ATTRIBUTE_NOT_CHECKED static inline int emu_exponent(double v)
{
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return (int)(u >> 52 & 2047) - 1023; // of 0: -1023
}

EMU_ATTRIBUTE_NOT_CHECKED static inline double emu_power_of_2(int e)
{
    uint64_t u = (uint64_t)(e + 1023) << 52;
    double v;
    memcpy(&v, &u, sizeof v);
    return v;
}

EMU_ATTRIBUTE_NOT_CHECKED static inline float emu_cut_to_f32(double v)
{
    float f = (float)v;
    if (__builtin_fabs((double)f) > __builtin_fabs(v)) // was rounded away from zero
        f = __uint_as_float(__float_as_uint(f) - 1);
    return f;
}

EMU_ATTRIBUTE_NOT_CHECKED static inline float emu_tensor_sum(const double *product, int n,
                                                             float acc)
{
    double plain = acc;
    int top = emu_exponent(acc);
    for (int i = 0; i < n; i++) {
        int e = emu_exponent(product[i]);
        top = e > top ? e : top;
        plain += product[i];
    }
    if (top == -1023) return (float)plain;                    // zeros alone
    if (plain - plain != 0 || top > 127) return (float)plain; // not finite, or beyond f32
    // Multiples of `unit` add exactly: there are at most 2^26 x 17 of them.
    const double unit = emu_power_of_2(top - 23 - EMU_TENSOR_EXTRA_BITS);
    const double per_unit = emu_power_of_2(-(top - 23 - EMU_TENSOR_EXTRA_BITS));
    int64_t sum = (int64_t)((double)acc * per_unit);
    for (int i = 0; i < n; i++) sum += (int64_t)(product[i] * per_unit);
    return emu_cut_to_f32((double)sum * unit);
}

struct emu_mma_arg {
    float *d;
    const uint32_t *a, *b;
};

typedef float emu_widen(uint16_t bits);

EMU_ATTRIBUTE_NOT_CHECKED static inline bool emu_all_finite(const float *x, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] - x[i];
    return sum == 0;
}

// Columns of zeros, such as those of rows that a batch does not have, add nothing to numbers.
template <emu_widen *WIDEN> EMU_NOT_CHECKED void emu_mma_run(void *const args[32], unsigned)
{
    float a[16][16], b[8][16]; // b by columns
    bool is_finite[16], is_zero[8] = {true, true, true, true, true, true, true, true};
    for (int lane = 0; lane < 32; lane++) {
        const emu_mma_arg *m = (const emu_mma_arg *)args[lane];
        const int g = lane / 4, c = lane % 4;
        for (int i = 0; i < 8; i++)
            a[g + 8 * (i / 2 % 2)][2 * c + 8 * (i / 4) + i % 2] =
                WIDEN((uint16_t)(m->a[i / 2] >> 16 * (i % 2)));
        for (int i = 0; i < 4; i++)
            b[g][2 * c + 8 * (i / 2) + i % 2] = WIDEN((uint16_t)(m->b[i / 2] >> 16 * (i % 2)));
        is_zero[g] &= ((m->b[0] | m->b[1]) & 0x7FFF7FFFu) == 0;
    }
    for (int i = 0; i < 16; i++) is_finite[i] = emu_all_finite(a[i], 16);
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            const int of_row = lane / 4 + 8 * (i / 2), of_col = 2 * (lane % 4) + i % 2;
            float *d = ((const emu_mma_arg *)args[lane])->d + i;
            if (is_zero[of_col] && is_finite[of_row] && (*d != 0 || __float_as_uint(*d) == 0))
                continue;
            double product[16];
            for (int k = 0; k < 16; k++) product[k] = (double)a[of_row][k] * b[of_col][k];
            *d = emu_tensor_sum(product, 16, *d);
        }
}

EMU_ATTRIBUTE_NOT_CHECKED static float emu_widen_f16(uint16_t bits)
{
    return emu_f32_of_f16(bits);
}

EMU_ATTRIBUTE_NOT_CHECKED static float emu_widen_bf16(uint16_t bits)
{
    return emu_f32_of_bf16(bits);
}

template <emu_widen *WIDEN>
EMU_NOT_CHECKED void emu_mma_16816(float *d, const uint32_t *a, const uint32_t *b, EMU_HERE)
{
    emu_mma_arg arg = {d, a, b};
    emu_warp_meet(0xFFFFFFFFu, emu_mma_run<WIDEN>, &arg, file, line);
}

struct emu_imma_arg {
    int *d;
    const uint32_t *a, *b;
};

EMU_NOT_CHECKED static inline void emu_imma_run(void *const args[32], unsigned)
{
    signed char a[16][32], b[8][32]; // b by columns
    for (int lane = 0; lane < 32; lane++) {
        const emu_imma_arg *m = (const emu_imma_arg *)args[lane];
        const int g = lane / 4, c = lane % 4;
        for (int i = 0; i < 4; i++) memcpy(&a[g + 8 * (i % 2)][4 * c + 16 * (i / 2)], &m->a[i], 4);
        for (int i = 0; i < 2; i++) memcpy(&b[g][4 * c + 16 * i], &m->b[i], 4);
    }
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            const signed char *row = a[lane / 4 + 8 * (i / 2)], *col = b[2 * (lane % 4) + i % 2];
            int sum = 0;
            for (int k = 0; k < 32; k++) sum += row[k] * col[k];
            int *d = ((const emu_imma_arg *)args[lane])->d + i;
            *d = (int)((unsigned)*d + (unsigned)sum); // wraps
        }
}

EMU_NOT_CHECKED static inline void emu_imma_16832(int *d, const uint32_t *a, const uint32_t *b,
                                                  EMU_HERE)
{
    emu_imma_arg arg = {d, a, b};
    emu_warp_meet(0xFFFFFFFFu, emu_imma_run, &arg, file, line);
}

// Of four transposed matrices of 8 x 8 numbers of 16 bits: lanes 8 i .. 8 i + 7 name the rows (16
// bytes) of the i-th.
struct emu_ldmatrix_arg {
    const void *row;
    uint32_t *r;
};

EMU_NOT_CHECKED static inline void emu_ldmatrix_run(void *const args[32], unsigned)
{
    uint16_t m[4][8][8];
    for (int i = 0; i < 32; i++)
        memcpy(m[i / 8][i % 8], ((const emu_ldmatrix_arg *)args[i])->row, 16);
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            const int g = lane / 4, c = 2 * (lane % 4);
            ((const emu_ldmatrix_arg *)args[lane])->r[i] = m[i][c][g] | (unsigned)m[i][c + 1][g]
                                                                            << 16;
        }
}

EMU_NOT_CHECKED static inline void emu_ldmatrix(uint32_t *r, const void *row, EMU_HERE)
{
    emu_look_access(row, 16, EMU_READ, file, line);
    emu_ldmatrix_arg arg = {row, r};
    emu_warp_meet(0xFFFFFFFFu, emu_ldmatrix_run, &arg, file, line);
}
