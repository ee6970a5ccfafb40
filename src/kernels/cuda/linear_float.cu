// linear_float.cu - linear layers of float weights by the CPU's order: one chain of fused steps
// over k for each output.
//
// A block has 16 outputs x 8 rows, a thread each. Weights and activations go through shared memory,
// a tile of 32 along k at a time, so that loads from global memory are wide and each serves many.
#include "kernels/cuda/cuda_format.h"

typedef struct float_tile {
    float w[16][33], x[8][33]; // a column more, so that neighbours lie in different banks
} float_tile;

FXI_DEVICE void tile_fill(int type, const fxi_cuda_linear_args &a, const void *w, int row0,
                          int row_end, int k0, float_tile *t)
{
    const int tid = (int)threadIdx.x, panel = (int)blockIdx.x;
    for (int i = tid; i < 512; i += 128)
        t->w[i / 32][i % 32] =
            float_number(type, w, float_place(a.w.n_in, panel * 16 + i / 32, k0 + i % 32));
    for (int i = tid; i < 256; i += 128) {
        const int row = row0 + i / 32, k = k0 + i % 32;
        const bool is_there = row < row_end && k < a.w.n_in;
        t->x[i / 32][i % 32] = is_there ? a.a.x[(size_t)row * (size_t)a.w.n_in + (size_t)k] : 0;
    }
}

// Rows row0 to row0 + 7.
FXI_DEVICE void float_rows(int type, const fxi_cuda_linear_args &a, const void *w, int row0,
                           int row_end, float_tile *t)
{
    const int out = (int)threadIdx.x % 16, tok = (int)threadIdx.x / 16;
    const int o = (int)blockIdx.x * 16 + out;
    float acc = 0;
    for (int k0 = 0; k0 < a.w.n_in; k0 += 32) {
        const int n = min(32, a.w.n_in - k0);
        __syncthreads();
        tile_fill(type, a, w, row0, row_end, k0, t);
        __syncthreads();
        for (int k = 0; k < n; k++) acc = fmaf(t->w[out][k], t->x[tok][k], acc);
    }
    if (row0 + tok < row_end && o < a.w.n_out)
        a.y[(size_t)(row0 + tok) * (size_t)a.w.n_out + (size_t)o] = acc;
}

FXI_DEVICE void linear_float(int type, const fxi_cuda_linear_args &a, float_tile *t)
{
    const char *w = (const char *)a.w.data + (size_t)blockIdx.z * a.expert_bytes;
    const row_range r = expert_rows(a);
    for (int row = r.begin + (int)blockIdx.y * 8; row < r.end; row += (int)gridDim.y * 8)
        float_rows(type, a, w, row, r.end, t);
}

#define FLOAT_LINEAR(name, type)           \
    FXI_KERNEL(linear_##name, linear, 128) \
    {                                      \
        __shared__ float_tile tile;        \
        linear_float(type, a, &tile);      \
    }                                      \
    FXI_CUDA_KERNEL(fxi_cuda_linear_##name);

FLOAT_LINEAR(f32, FXI_F32)
FLOAT_LINEAR(f16, FXI_F16)
FLOAT_LINEAR(bf16, FXI_BF16)
