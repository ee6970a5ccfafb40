// body_kv.h - rows of a cache, of every type it can have: how numbers are stored, and how the keys
// and values of 16 positions become panels of f32. Written once for every vector unit (cpu.h).
// Needs: a vec*.h, body_ops.h, body_product.h.
#ifndef FXI_KERNELS_BODY_KV_H
#define FXI_KERNELS_BODY_KV_H

#include <string.h>

#include "kernels/cpu/body/body_product.h"

#define KV_TILE FXI_ATTN_TILE

// ---- storing ------------------------------------------------------------------------------------

static void store_f32(const float *src, int n, void *dst)
{
    fxi_row_from_f32(FXI_F32, src, (size_t)n, dst);
}

#define STORE_HALVES(type)                                                    \
    static void store_##type(const float *src, int n, void *dst)              \
    {                                                                         \
        uint16_t *h = dst;                                                    \
        int i = 0;                                                            \
        for (; i + 16 <= n; i += 16) v16_to_##type(h + i, v16_load(src + i)); \
        v16_to_##type##_n(h + i, v16_load_n(src + i, n - i), n - i);          \
    }
STORE_HALVES(f16)
STORE_HALVES(bf16)
#undef STORE_HALVES

static void store_q8_0(const float *src, int n, void *dst)
{
    fxi_block_q8_0 *block = dst;
    for (; n > 0; n -= FXI_Q8_0_ELEMS, src += FXI_Q8_0_ELEMS, block++) {
        float d;
        int32_t sum[2];
        quant_q8(src, FXI_Q8_0_ELEMS, block->q, &d, sum);
        v16_to_f16_n(&block->d, v16_set1(d), 1);
    }
}

// ---- loading ------------------------------------------------------------------------------------

// Sixteen numbers of a head, from number i on; zeros beyond head_dim.
typedef v16 kv_load_fn(const char *row, int i, int head_dim);

ALWAYS_INLINE v16 kv_load_f32(const char *row, int i, int head_dim)
{
    const float *f = (const float *)(const void *)row + i;
    return i + 16 <= head_dim ? v16_load(f) : v16_load_n(f, head_dim - i);
}

#define KV_LOAD_HALVES(type)                                                                   \
    ALWAYS_INLINE v16 kv_load_##type(const char *row, int i, int head_dim)                     \
    {                                                                                          \
        const uint16_t *h = (const uint16_t *)(const void *)row + i;                           \
        return i + 16 <= head_dim ? v16_from_##type(h) : v16_from_##type##_n(h, head_dim - i); \
    }
KV_LOAD_HALVES(f16)
KV_LOAD_HALVES(bf16)
#undef KV_LOAD_HALVES

ALWAYS_INLINE v16 kv_load_q8_0(const char *row, int i, int head_dim)
{
    (void)head_dim; // a multiple of 32
    const fxi_block_q8_0 *b = (const fxi_block_q8_0 *)(const void *)row + i / FXI_Q8_0_ELEMS;
    return v16_mul(v16_from_i8(b->q + i % FXI_Q8_0_ELEMS), v16_set1_f16(b->d));
}

// Numbers i to i + 15 of the keys of n positions, transposed: lane j of dst[d] is position j. n is
// a constant at the call that matters, so that everything stays in registers.
ALWAYS_INLINE void key_square(kv_load_fn *load, const char *row, size_t stride, int i, int n,
                              int head_dim, v16 dst[16])
{
#pragma GCC unroll 16
    for (int j = 0; j < 16; j++)
        dst[j] = j < n ? load(row + (size_t)j * stride, i, head_dim) : v16_zero();
    v16_transpose(dst);
}

// The keys of n <= 16 positions, as [head_dim][16]; zeros in the lanes from n on.
ALWAYS_INLINE void key_panel(kv_load_fn *load, const char *row, size_t stride, int n, int head_dim,
                             float *dst)
{
    for (int i = 0; i < head_dim; i += 16, dst += 16 * 16) {
        v16 m[16];
        int n_d = head_dim - i;
        if (n == 16 && n_d >= 16) {
            key_square(load, row, stride, i, 16, i + 16, m);
#pragma GCC unroll 16
            for (int d = 0; d < 16; d++) v16_store(dst + d * 16, m[d]);
        } else {
            key_square(load, row, stride, i, n, head_dim, m);
            for (int d = 0; d < 16 && d < n_d; d++) v16_store(dst + d * 16, m[d]);
        }
    }
}

// Numbers i to i + 15 of the values of n positions: one vector per position.
ALWAYS_INLINE void value_panel(kv_load_fn *load, const char *row, size_t stride, int i, int n,
                               int head_dim, float *dst)
{
#pragma GCC unroll 16
    for (int j = 0; j < n; j++, row += stride, dst += 16) v16_store(dst, load(row, i, head_dim));
}

// The values of n <= 16 positions, as [KV_TILE][16] for each 16 numbers of a head.
ALWAYS_INLINE void value_panels(kv_load_fn *load, const char *row, size_t stride, int n,
                                int head_dim, float *dst)
{
    for (int i = 0; i < head_dim; i += 16, dst += KV_TILE * 16)
        if (n == 16 && i + 16 <= head_dim)
            value_panel(load, row, stride, i, 16, i + 16, dst);
        else
            value_panel(load, row, stride, i, n, head_dim, dst);
}

// halves_transpose of the first n_bytes (64 or 32) of n <= 16 rows, and of zeros after them.
static void halves_transpose_some(const char *row, size_t stride, int n, int n_bytes, uint16_t *dst)
{
    char some[16][64] = {{0}};
    if (n_bytes == 64)
        for (int j = 0; j < n; j++) memcpy(some[j], row + (size_t)j * stride, 64);
    else
        for (int j = 0; j < n; j++) memcpy(some[j], row + (size_t)j * stride, 32);
    halves_transpose(some[0], sizeof some[0], dst);
}

// The keys of n <= 16 positions of a 16-bit type, not widened, as [head_dim][16]; zeros in the
// lanes from n on. head_dim: a multiple of 16. Of an odd one, 16 more rows are written.
static void key_panel_halves(const char *row, size_t stride, int n, int head_dim, uint16_t *dst)
{
    for (int i = 0; i < head_dim; i += 32, row += 64, dst += 32 * 16) {
        const bool whole = i + 32 <= head_dim;
        if (n == 16 && whole)
            halves_transpose(row, stride, dst);
        else
            halves_transpose_some(row, stride, n, whole ? 64 : 32, dst);
    }
}

typedef void kv_panel_fn(const char *row, size_t stride, int n, int head_dim, float *dst);

typedef struct kv_kind {
    kv_panel_fn *key_panel, *value_panels;
    kv_product_fn *halves; // product with 16-bit numbers, widened on the way; NULL: other types
} kv_kind;

#define KV_KIND(type)                                                                             \
    static void key_panel_##type(const char *row, size_t stride, int n, int head_dim, float *dst) \
    {                                                                                             \
        key_panel(kv_load_##type, row, stride, n, head_dim, dst);                                 \
    }                                                                                             \
    static void value_panels_##type(const char *row, size_t stride, int n, int head_dim,          \
                                    float *dst)                                                   \
    {                                                                                             \
        value_panels(kv_load_##type, row, stride, n, head_dim, dst);                              \
    }

KV_KIND(f32)
KV_KIND(f16)
KV_KIND(bf16)
KV_KIND(q8_0)

static const kv_kind kv_kinds[FXI_DTYPE_END] = {
    [FXI_F32] = {key_panel_f32, value_panels_f32, NULL},
    [FXI_F16] = {key_panel_f16, value_panels_f16, product_f16},
    [FXI_BF16] = {key_panel_bf16, value_panels_bf16, product_bf16},
    [FXI_Q8_0] = {key_panel_q8_0, value_panels_q8_0, NULL}};

#endif
