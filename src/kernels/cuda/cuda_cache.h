// cuda_cache.h - the cache as kernels see it (kv_view.h), and the positions that tokens attend to
// (attn_range.h).
#ifndef FXI_KERNELS_CUDA_CACHE_H
#define FXI_KERNELS_CUDA_CACHE_H

#include "kernels/cuda/cuda_device.h"

#define FXI_RANGE_FN FXI_DEVICE
#include "kernels/attn_range.h"

// Where the row of a token lies in its plane.
template <bool PAGED> FXI_DEVICE size_t tok_bytes(const fxi_kv_view &v, int tok)
{
    if (!PAGED) return (size_t)tok * v.tok_stride_bytes;
    const size_t block = (size_t)v.table[tok >> v.block_shift];
    const size_t in_block = (size_t)tok & (((size_t)1 << v.block_shift) - 1);
    return block * v.block_stride_bytes + in_block * v.tok_stride_bytes;
}

FXI_DEVICE char *cache_place(const fxi_kv_view &v, int plane, int tok)
{
    return v.base + (size_t)plane * v.plane_stride_bytes +
           (v.table ? tok_bytes<true>(v, tok) : tok_bytes<false>(v, tok));
}

FXI_DEVICE size_t cache_bytes(int type, int n)
{
    if (type == FXI_Q8_0) return (size_t)(n / 32) * sizeof(fxi_block_q8_0);
    return (size_t)n * (type == FXI_F32 ? 4 : 2);
}

// Number i of a row.
FXI_DEVICE float cache_number(int type, const char *row, int i)
{
    if (type != FXI_Q8_0) return float_number(type, row, (size_t)i);
    const fxi_block_q8_0 *b = (const fxi_block_q8_0 *)row + i / 32;
    return ptx_f32_of_f16(b->d) * (float)b->q[i % 32];
}

// Writes number i of a row; the lanes of a warp write 32 neighbours of one block of Q8_0.
FXI_DEVICE void cache_put(int type, char *row, int i, float v)
{
    if (type == FXI_F32) {
        ((float *)row)[i] = v;
    } else if (type == FXI_F16) {
        ((uint16_t *)row)[i] = ptx_f16_of_f32(v);
    } else if (type == FXI_BF16) {
        ((uint16_t *)row)[i] = ptx_bf16_of_f32(v);
    } else {
        fxi_block_q8_0 *b = (fxi_block_q8_0 *)row + i / 32;
        float d;
        b->q[i % 32] = (int8_t)quant_lane(v, &d);
        if (i % 32 == 0) b->d = ptx_f16_of_f32(d);
    }
}

#endif
