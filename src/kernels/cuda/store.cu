// store.cu - queries, keys and values of a row made ready: biases, norms, rotation; keys and values
// go into the cache. A block per row.
#include "kernels/cuda/cuda_cache.h"

FXI_DEVICE void add_bias(float *x, const float *bias, int n)
{
    for (int i = (int)threadIdx.x; bias && i < n; i += 256) x[i] += bias[i];
}

// Normalises the runs of a row, a warp each.
FXI_DEVICE void norm_runs(const fxi_cuda_norm &w, float *x, int n)
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    for (int run = warp; w.w && run < n / w.n; run += 8) {
        float *at = x + run * w.n;
        const norm_stats s = norm_measure(w, at);
        __syncwarp(); // all have read
        for (int i = lane; i < w.n; i += 32) at[i] = norm_apply(w, s, run * w.step, i, at[i]);
    }
}

// Rotates the pairs of a row's heads.
FXI_DEVICE void rotate_heads(const fxi_cuda_rope_store_args &a, int row, float *x, int n_head)
{
    const size_t at = (size_t)row * (size_t)a.n_pair;
    for (int i = (int)threadIdx.x; a.cos && i < n_head * a.n_pair; i += 256) {
        const float c = a.cos[at + i % a.n_pair], s = a.sin[at + i % a.n_pair];
        float *pair = x + i / a.n_pair * a.head_dim + i % a.n_pair * 2;
        const float x0 = pair[0], x1 = pair[1];
        pair[0] = fmaf(x0, c, -(x1 * s));
        pair[1] = fmaf(x1, c, x0 * s);
    }
}

FXI_KERNEL(rope_store, rope_store, 256)
{
    const int row = (int)blockIdx.x, n_q = a.n_head * a.head_dim, n_kv = a.n_kv_head * a.head_dim;
    if (row >= live_count(a.count)) return;
    float *q = a.q + (size_t)row * n_q, *k = a.k + (size_t)row * n_kv,
          *v = a.v + (size_t)row * n_kv;
    add_bias(q, a.q_bias, n_q);
    add_bias(k, a.k_bias, n_kv);
    add_bias(v, a.v_bias, n_kv);
    __syncthreads();
    for (int step = 0; step < 2; step++) {
        if (step == a.rotates_first) {
            norm_runs(a.q_norm, q, n_q);
            norm_runs(a.k_norm, k, n_kv);
        } else {
            rotate_heads(a, row, q, a.n_head);
            rotate_heads(a, row, k, a.n_kv_head);
        }
        __syncthreads();
    }
    const float gain = a.q_scale ? a.q_scale[row] : 1;
    for (int i = (int)threadIdx.x; gain != 1 && i < n_q; i += 256) q[i] *= gain;
    const fxi_kv_view view = a.seq[a.row_seq[row]].view[a.kv_group];
    const int pos = a.pos[row];
    char *k_row = cache_place(view, 2 * a.kv_layer, pos);
    char *v_row = cache_place(view, 2 * a.kv_layer + 1, pos);
    for (int i = (int)threadIdx.x; i < n_kv; i += 256) {
        cache_put(a.kv_type, k_row, i, k[i]);
        cache_put(a.kv_type, v_row, i, v[i]);
    }
}
FXI_CUDA_KERNEL(fxi_cuda_rope_store);
