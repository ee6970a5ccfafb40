// stream.cu - the residual stream: embeddings, what branches add to it, its norms; rows that are
// copied or rounded; logits. A block per row; number i of a row is always the same thread's.
#include "kernels/cuda/cuda_format.h"

// ---- embed -------------------------------------------------------------------------------------

FXI_KERNEL(embed, embed, 256)
{
    const int row = (int)blockIdx.x, n = a.table.n_in;
    if (row >= live_count(a.count)) return;
    const int token = a.token[row];
    for (int i = (int)threadIdx.x; i < n; i += 256)
        act_put(a.out, row, n, i, table_number(a.table, token, i));
}
FXI_CUDA_KERNEL(fxi_cuda_embed);

// ---- add_norm ----------------------------------------------------------------------------------

// The mean and scale of a run of numbers that the block has written; all threads get them.
FXI_DEVICE norm_stats block_measure(const fxi_cuda_norm &w, const float *x, norm_stats *shared)
{
    __syncthreads();
    if (threadIdx.x < 32) {
        const norm_stats s = norm_measure(w, x);
        if (threadIdx.x == 0) *shared = s;
    }
    __syncthreads();
    return *shared;
}

FXI_DEVICE void end_branch(const fxi_cuda_add_norm_args &a, int row, float *x, norm_stats *shared)
{
    float *h = a.h + (size_t)row * (size_t)a.dim;
    float *held = a.held ? a.held + (size_t)row * (size_t)a.dim : NULL;
    for (int i = (int)threadIdx.x; a.bias && i < a.dim; i += 256) h[i] += a.bias[i];
    norm_stats s = {0, 0};
    if (a.branch_norm.w) s = block_measure(a.branch_norm, h, shared);
    for (int i = (int)threadIdx.x; i < a.dim; i += 256) {
        const float of_h = a.branch_norm.w ? norm_apply(a.branch_norm, s, 0, i, h[i]) : h[i];
        const float v = of_h * a.residual_scale;
        if (a.kind == FXI_CUDA_STREAM_HOLD)
            held[i] = v;
        else
            x[i] = (held ? x[i] + held[i] : x[i]) + v;
    }
}

FXI_KERNEL(add_norm, add_norm, 256)
{
    __shared__ norm_stats shared;
    const int row = (int)blockIdx.x;
    if (row >= live_count(a.count)) return;
    float *x = a.x + (size_t)(a.x_row ? a.x_row[row] : row) * (size_t)a.dim;
    for (int i = (int)threadIdx.x; a.kind == FXI_CUDA_STREAM_BEGIN && i < a.dim; i += 256) {
        float v = x[i] * a.embd_scale;
        if (a.token_type) v += a.token_type[(a.type ? a.type[row] : 0) * a.dim + i];
        if (a.positions.data) v += table_number(a.positions, a.pos[row], i);
        x[i] = v;
    }
    if (a.kind != FXI_CUDA_STREAM_BEGIN) end_branch(a, row, x, &shared);
    norm_stats s = {0, 0};
    if (a.norm.w) s = block_measure(a.norm, x, &shared);
    for (int i = (int)threadIdx.x; i < a.dim; i += 256) {
        const float v = a.norm.w ? norm_apply(a.norm, s, 0, i, x[i]) : x[i];
        if (a.is_post) x[i] = v;
        act_put(a.out, row, a.dim, i, v);
    }
}
FXI_CUDA_KERNEL(fxi_cuda_add_norm);

// ---- rows, logits ------------------------------------------------------------------------------

FXI_KERNEL(rows, rows, 256)
{
    const int row = (int)blockIdx.x;
    if (row >= live_count(a.count)) return;
    const float *x = a.x + (size_t)(a.from ? a.from[row] : row) * (size_t)a.n;
    for (int i = (int)threadIdx.x; i < a.n; i += 256) act_put(a.out, row, a.n, i, x[i]);
}
FXI_CUDA_KERNEL(fxi_cuda_rows);

FXI_KERNEL(add_ranks, add_ranks, 256)
{
    const size_t n = (size_t)a.n, rank = (size_t)a.count.most * n, at = blockIdx.x * n;
    for (size_t i = threadIdx.x; i < n; i += 256) {
        float sum = a.from[at + i];
        for (size_t k = 1; k < (size_t)a.n_rank; k++) sum += a.from[k * rank + at + i];
        a.y[at + i] = sum;
    }
}
FXI_CUDA_KERNEL(fxi_cuda_add_ranks);

FXI_KERNEL(logits, logits, 256)
{
    const int row = (int)blockIdx.x;
    if (row >= live_count(a.count)) return;
    float *y = a.y + (size_t)row * (size_t)a.n;
    for (int i = (int)threadIdx.x; i < a.n; i += 256) {
        const float v = (a.bias ? y[i] + a.bias[i] : y[i]) * a.scale;
        y[i] = a.cap != 0 ? a.cap * mathf_tanh(v * (1 / a.cap)) : v;
    }
}
FXI_CUDA_KERNEL(fxi_cuda_logits);

// The larger of two numbers with their places; the first place among equals.
typedef struct best_number {
    float value;
    int at; // -1: not finite
} best_number;

FXI_DEVICE best_number best_of(const best_number &p, const best_number &q)
{
    if (p.at < 0 || q.at < 0) return p.at < 0 ? p : q;
    return q.value > p.value || (q.value == p.value && q.at < p.at) ? q : p;
}

FXI_DEVICE best_number warp_best(best_number b)
{
    for (int h = 16; h; h /= 2) {
        const best_number other = {__shfl_xor_sync(WHOLE_WARP, b.value, h),
                                   __shfl_xor_sync(WHOLE_WARP, b.at, h)};
        b = best_of(b, other);
    }
    return b;
}

FXI_KERNEL(argmax, argmax, 256)
{
    __shared__ best_number warps[8];
    const int row = (int)blockIdx.x, lane = (int)threadIdx.x % 32;
    if (row >= live_count(a.count)) return;
    const float *y = a.y + (size_t)row * (size_t)a.n;
    best_number best = {minus_inf(), a.n};
    for (int i = (int)threadIdx.x; i < a.n; i += 256) {
        const best_number b = {y[i], isfinite(y[i]) ? i : -1};
        best = best_of(best, b);
    }
    best = warp_best(best);
    if (lane == 0) warps[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    best = warp_best(warps[lane % 8]);
    if (lane != 0) return;
    a.best[row] = best.at;
    a.value[row] = best.value;
}
FXI_CUDA_KERNEL(fxi_cuda_argmax);
