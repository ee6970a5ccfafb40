// kv_view.h - what an attention kernel sees of a sequence's cache: plain data, never a manager.
//
// Plane 2 l holds the keys of layer l, plane 2 l + 1 its values. The row of token t in plane p,
// [n_kv_head, head_dim] numbers of f16, begins at
//     base + p x plane_stride_bytes + t x tok_stride_bytes.
#ifndef FXI_KERNELS_KV_VIEW_H
#define FXI_KERNELS_KV_VIEW_H

#include <stddef.h>

typedef struct fxi_kv_view {
    char *base;
    size_t plane_stride_bytes;
    size_t tok_stride_bytes;
} fxi_kv_view;

// First byte of plane p.
static inline char *fxi_kv_plane(const fxi_kv_view *v, int p)
{
    return v->base + (size_t)p * v->plane_stride_bytes;
}

#endif
