// cuda_layer.h - shared by the tests of linear layers: rows of a type, packed for a GPU.
#ifndef CUDA_LAYER_H
#define CUDA_LAYER_H

#include "cuda_test.h"
#include "linear_test.h"

static inline fxi_cuda_matrix packed(fxi_dtype type, int n_in, int n_out, const void *rows)
{
    fxi_cuda_matrix m = {.type = (int32_t)type, .n_in = n_in, .n_out = n_out};
    void *data = aligned_alloc(256, fxi_cuda_matrix_bytes(type, n_in, n_out));
    fxi_cuda_pack_rows(type, n_in, n_out, rows, data);
    m.data = data;
    return m;
}

static inline char *random_rows(fxi_dtype type, int n_in, int n_out, uint64_t stream)
{
    char *raw = malloc(row_bytes(type, n_in) * (size_t)n_out);
    for (int o = 0; o < n_out; o++) {
        float *x = random_floats((size_t)n_in, EVEN, stream + (uint64_t)o);
        fxi_row_from_f32(type, x, (size_t)n_in, raw + row_bytes(type, n_in) * (size_t)o);
        guarded_free(x);
    }
    return raw;
}

#endif
