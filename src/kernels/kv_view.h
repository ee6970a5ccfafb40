// kv_view.h - a sequence's cache as an attention kernel sees it: plain data, no manager.
//
// Plane 2 l holds the keys of layer l, plane 2 l + 1 its values. The row of token t in plane p,
// [n_kv_head][head_dim] numbers of the cache's type, begins at
//     base + p x plane_stride_bytes + t x tok_stride_bytes,
// or, if the cache consists of blocks of 2^block_shift tokens that a table lists, at
//     base + p x plane_stride_bytes + table[t / block] x block_stride_bytes
//          + t % block x tok_stride_bytes.
#ifndef FXI_KERNELS_KV_VIEW_H
#define FXI_KERNELS_KV_VIEW_H

#include <stddef.h>
#include <stdint.h>

typedef struct fxi_kv_view {
    char *base;
    size_t plane_stride_bytes;
    size_t tok_stride_bytes;
    const int32_t *table; // NULL: the sequence is contiguous
    int block_shift;      // 4 to 8
    size_t block_stride_bytes;
} fxi_kv_view;

// First byte of plane p.
static inline char *fxi_kv_plane(const fxi_kv_view *v, int p)
{
    return v->base + (size_t)p * v->plane_stride_bytes;
}

// Row of one token.
static inline char *fxi_kv_row(const fxi_kv_view *v, int p, int tok)
{
    char *plane = fxi_kv_plane(v, p);
    if (!v->table) return plane + (size_t)tok * v->tok_stride_bytes;
    size_t block = (size_t)v->table[tok >> v->block_shift];
    size_t in_block = (size_t)tok & (((size_t)1 << v->block_shift) - 1);
    return plane + block * v->block_stride_bytes + in_block * v->tok_stride_bytes;
}

#endif
