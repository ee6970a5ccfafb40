// attention.cu - attention by the CPU's order (kernels.h), over contiguous and paged caches.
//
// A block computes the query rows of a tile that read one KV head: up to 16. It takes a segment of
// 256 positions at a time: scores, weights, sums of values, each number a chain of its own. Keys
// and values go through shared memory as f32, so that rows of the cache are read whole. Either a
// block walks all segments of its tile and merges them as it goes, or each block has one segment,
// and attn_merge does the rest: the same operations in the same order.
#include "kernels/cuda/cuda_tile.h"

// Shared memory, beside what the job has.
typedef struct exact_room {
    int n_kv;  // positions of a piece of the cache
    float *q;  // [n_row][head_dim] x scale
    float *kv; // [n_kv][head_dim + 1]
    float *p;  // [n_row][256]
} exact_room;

// The scores of positions k0 .. k0 + n - 1 of the segment, which are in shared memory.
FXI_DEVICE void score_piece(const fxi_cuda_attn_args &a, const tile_job &j, const exact_room &x,
                            int pos0, int k0, int n)
{
    for (int i = (int)threadIdx.x; i < j.n_row * n; i += ATTN_THREAD) {
        const int row = i / n, k = i % n;
        const seg_range r = row_range_of(a, j, row, pos0);
        if (k0 + k < r.from || k0 + k >= r.end) continue;
        const float *q = x.q + row * a.head_dim, *key = x.kv + k * (a.head_dim + 1);
        float s = 0;
        for (int d = 0; d < a.head_dim; d++) s = fmaf(q[d], key[d], s);
        if (a.softcap != 0) s = a.softcap * mathf_tanh(s * (1 / a.softcap));
        x.p[row * ATTN_SEGMENT + k0 + k] = s;
    }
}

// Scores become weights: 16 lanes for each row.
FXI_DEVICE void weigh_rows(const fxi_cuda_attn_args &a, const tile_job &j, const exact_room &x,
                           int pos0)
{
    const int lane = (int)threadIdx.x % 16;
    for (int row = (int)threadIdx.x / 16; row < ATTN_ROW; row += ATTN_THREAD / 16) {
        seg_range r = {0, 0};
        if (row < j.n_row) r = row_range_of(a, j, row, pos0);
        float *p = x.p + row * ATTN_SEGMENT, m = minus_inf(), l = 0;
        for (int k = lane; k < r.end; k += 16)
            if (k >= r.from) m = fmaxf(m, p[k]);
        for (int h = 8; h; h /= 2) m = fmaxf(m, __shfl_xor_sync(WHOLE_WARP, m, h));
        for (int k = lane; k < r.end; k += 16) {
            if (k < r.from) continue;
            p[k] = mathf_exp(p[k] - m);
            l += p[k];
        }
        l = fold_lanes(l);
        if (lane == 0) j.seg->m[row] = m, j.seg->l[row] = l;
    }
}

FXI_DEVICE void value_piece(const fxi_cuda_attn_args &a, const tile_job &j, const exact_room &x,
                            int pos0, int k0, int n)
{
    for (int i = (int)threadIdx.x; i < j.n_row * a.head_dim; i += ATTN_THREAD) {
        const int row = i / a.head_dim, d = i % a.head_dim;
        const seg_range r = row_range_of(a, j, row, pos0);
        const float *p = x.p + row * ATTN_SEGMENT + k0;
        float acc = j.acc[i];
        for (int k = max(r.from - k0, 0); k < min(r.end - k0, n); k++)
            acc = fmaf(p[k], x.kv[k * (a.head_dim + 1) + d], acc);
        j.acc[i] = acc;
    }
}

// The partial results of all rows: seg and acc.
FXI_DEVICE void attend_segment(const fxi_cuda_attn_args &a, const tile_job &j, const exact_room &x,
                               int segment)
{
    const int pos0 = segment * ATTN_SEGMENT;
    const seg_range all = tile_range(a, j, pos0);
    const size_t head = cache_bytes(a.kv_type, j.kv_head * a.head_dim);
    for (int plane = 0; plane < 2; plane++) {
        for (int k0 = all.from; k0 < all.end; k0 += x.n_kv) {
            const int n = min(x.n_kv, all.end - k0);
            __syncthreads(); // positions k0 .. k0 + n - 1 of a plane to shared memory, as f32
            for (int i = (int)threadIdx.x; i < n * a.head_dim; i += ATTN_THREAD) {
                const int k = i / a.head_dim, d = i % a.head_dim;
                const char *row = cache_place(j.view, 2 * a.kv_layer + plane, pos0 + k0 + k);
                x.kv[k * (a.head_dim + 1) + d] = cache_number(a.kv_type, row + head, d);
            }
            __syncthreads();
            if (plane)
                value_piece(a, j, x, pos0, k0, n);
            else
                score_piece(a, j, x, pos0, k0, n);
        }
        __syncthreads();
        if (plane) continue;
        weigh_rows(a, j, x, pos0);
        for (int i = (int)threadIdx.x; i < j.n_row * a.head_dim; i += ATTN_THREAD) j.acc[i] = 0;
    }
}

FXI_KERNEL(attention, attn, ATTN_THREAD)
{
    __shared__ tile_share share;
    FXI_DYNAMIC_SHARED(shared);
    exact_room x = {a.head_dim <= 256 ? 32 : 16, (float *)shared, NULL, NULL};
    float *const acc = x.q + ATTN_ROW * a.head_dim;
    x.kv = acc + ATTN_ROW * a.head_dim;
    x.p = x.kv + x.n_kv * (a.head_dim + 1);
    if (!tile_begin(a, acc, &share)) return;
    const tile_job &j = share.job;
    for (int i = (int)threadIdx.x; i < j.n_row * a.head_dim; i += ATTN_THREAD)
        x.q[i] = a.q[query_at(a, j, i / a.head_dim) + i % a.head_dim] * a.scale;
    attend_tile(a, j, [&](int segment) { attend_segment(a, j, x, segment); });
}
FXI_CUDA_KERNEL(fxi_cuda_attention);

FXI_DEVICE void merge_token(const fxi_cuda_attn_args &a, const fxi_cuda_tile &t, int tok, int head)
{
    const fxi_cuda_seq &seq = a.seq[t.seq];
    const int pos = seq.pos + t.tok0 + tok;
    const int seg0 = fxi_attn_first(pos, a.window) / ATTN_SEGMENT;
    const int seg1 = (fxi_attn_end(pos, seq.n_pos, a.window) + ATTN_SEGMENT - 1) / ATTN_SEGMENT;
    const size_t row = (size_t)(seq.row0 + t.tok0 + tok) * (size_t)a.n_head + (size_t)head;
    for (int d = (int)threadIdx.x; d < a.head_dim; d += ATTN_THREAD) {
        float m, l, acc = 0;
        sink_state(a, head, &m, &l);
        for (int s = seg0; s < seg1; s++) {
            const float *part = a.part + part_at(a, t, s, tok, head);
            acc = merge_number(m, part[0], part[FXI_CUDA_PART_ACC + d], acc);
            merge_state(part[0], part[1], &m, &l);
        }
        a.out[row * (size_t)a.head_dim + d] = acc * (1 / l);
    }
}

// Grid: heads, tokens of a tile (of wide ones those that are left, too), tiles.
FXI_KERNEL(attn_merge, attn, ATTN_THREAD)
{
    if ((int)blockIdx.z >= live_count(a.count)) return;
    const fxi_cuda_tile t = a.tile[blockIdx.z];
    if (t.n_range == 1) return;
    for (int tok = (int)blockIdx.y; tok < t.n_tok; tok += (int)gridDim.y)
        merge_token(a, t, tok, (int)blockIdx.x);
}
FXI_CUDA_KERNEL(fxi_cuda_attn_merge);
