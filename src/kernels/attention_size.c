// attention_size.c - the sizes of attention's buffers.
#include "kernels/kernels.h"

static size_t whole_vectors(int head_dim)
{
    return ((size_t)head_dim + 15) / 16 * 16;
}

size_t fxi_kv_bytes(fxi_dtype type, int n)
{
    const fxi_dtype_info *t = fxi_dtype_find(type);
    return (size_t)n / t->block_elems * t->block_bytes;
}

int fxi_attn_n_segment(int n_pos)
{
    return n_pos / FXI_ATTN_SEGMENT + (n_pos % FXI_ATTN_SEGMENT != 0);
}

size_t fxi_attn_part_floats(int value_dim)
{
    return FXI_ATTN_PART_ACC + whole_vectors(value_dim);
}

// The most lines that one product prefetches (cpu/body/body_prefetch.h): those of a head in 256
// positions of 2 bytes per number, or in 64 of 4 bytes, plus 8 rows of 32 heads.
static size_t prefetch_lines(size_t head)
{
    return 20 * head + 272;
}

// A tile of keys or values as f32; the list of lines to prefetch; per query row its scores of a
// segment, two partial results and the scaled query.
size_t fxi_attn_scratch(int n_row, int head_dim, int value_dim)
{
    const size_t head = whole_vectors(head_dim);
    return FXI_ATTN_TILE * head + prefetch_lines(head) * sizeof(size_t) / sizeof(float) +
           (size_t)n_row * (FXI_ATTN_SEGMENT + 2 * fxi_attn_part_floats(value_dim) + head);
}
