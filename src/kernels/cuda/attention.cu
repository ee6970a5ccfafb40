// attention.cu - attention by the CPU's order (kernels.h), over contiguous and paged caches.
//
// A block computes the query rows of a tile that read one KV head: up to 16. It takes a segment of
// 256 positions at a time: scores, weights, sums of values, each number a chain of its own. Keys
// and values go through shared memory as f32, so that rows of the cache are read whole. Either a
// block walks all segments of its tile and merges them as it goes, or each block has one segment,
// and attn_merge does the rest: the same operations in the same order.
#include "kernels/cuda/body/cuda_cache.h"

enum { ATTN_THREAD = 128, ATTN_ROW = FXI_CUDA_TILE_ROW, ATTN_SEGMENT = FXI_ATTN_SEGMENT };

typedef struct row_state {
    float m[ATTN_ROW], l[ATTN_ROW];
} row_state;

// The query rows of a block, and where they are in shared memory. Row r is token r / n_head of the
// tile, head head0 + r % n_head.
typedef struct tile_job {
    fxi_kv_view view;
    fxi_cuda_tile tile;
    int pos, n_pos; // of the tile's first token, of its sequence
    int row;        // of its first token in the batch
    int kv_head, head0, n_head, n_row;
    int n_kv;             // positions of a piece of the cache
    float *q;             // [n_row][head_dim] x scale
    float *acc;           // [n_row][head_dim]
    float *kv;            // [n_kv][head_dim + 1]
    float *p;             // [n_row][256]
    row_state *seg, *all; // of this segment; of those merged so far
} tile_job;

// Positions of a segment, from its first one on.
typedef struct seg_range {
    int from, end;
} seg_range;

FXI_DEVICE seg_range token_range(const fxi_cuda_attn_args &a, const tile_job &j, int tok, int pos0)
{
    const int from = first_pos(j.pos + tok, a.window) - pos0;
    const int end = end_pos(j.pos + tok, j.n_pos, a.window) - pos0;
    const seg_range r = {from > 0 ? from : 0, end < ATTN_SEGMENT ? end : (int)ATTN_SEGMENT};
    return r;
}

FXI_DEVICE seg_range row_range_of(const fxi_cuda_attn_args &a, const tile_job &j, int row, int pos0)
{
    return token_range(a, j, row / j.n_head, pos0);
}

// Where query row r is in q and out.
FXI_DEVICE size_t query_at(const fxi_cuda_attn_args &a, const tile_job &j, int row)
{
    const size_t tok = (size_t)(j.row + row / j.n_head);
    return (tok * (size_t)a.n_head + (size_t)(j.head0 + row % j.n_head)) * (size_t)a.head_dim;
}

// Copies positions pos .. pos + n - 1 of a plane to shared memory, as f32.
FXI_DEVICE void cache_fill(const fxi_cuda_attn_args &a, const tile_job &j, int plane, int pos,
                           int n)
{
    const size_t head = cache_bytes(a.kv_type, j.kv_head * a.head_dim);
    for (int i = (int)threadIdx.x; i < n * a.head_dim; i += ATTN_THREAD) {
        const int k = i / a.head_dim, d = i % a.head_dim;
        j.kv[k * (a.head_dim + 1) + d] =
            cache_number(a.kv_type, cache_place(j.view, plane, pos + k) + head, d);
    }
}

// ---- a segment ---------------------------------------------------------------------------------

// The scores of positions k0 .. k0 + n - 1 of the segment, which are in shared memory.
FXI_DEVICE void score_piece(const fxi_cuda_attn_args &a, const tile_job &j, int pos0, int k0, int n)
{
    for (int i = (int)threadIdx.x; i < j.n_row * n; i += ATTN_THREAD) {
        const int row = i / n, k = i % n;
        const seg_range r = row_range_of(a, j, row, pos0);
        if (k0 + k < r.from || k0 + k >= r.end) continue;
        const float *q = j.q + row * a.head_dim, *key = j.kv + k * (a.head_dim + 1);
        float s = 0;
        for (int d = 0; d < a.head_dim; d++) s = fmaf(q[d], key[d], s);
        if (a.softcap != 0) s = a.softcap * mathf_tanh(s * (1 / a.softcap));
        j.p[row * ATTN_SEGMENT + k0 + k] = s;
    }
}

// Scores become weights: 16 lanes for each row.
FXI_DEVICE void weigh_rows(const fxi_cuda_attn_args &a, const tile_job &j, int pos0)
{
    const int lane = (int)threadIdx.x % 16;
    for (int row = (int)threadIdx.x / 16; row < ATTN_ROW; row += ATTN_THREAD / 16) {
        seg_range r = {0, 0};
        if (row < j.n_row) r = row_range_of(a, j, row, pos0);
        float *p = j.p + row * ATTN_SEGMENT, m = minus_inf(), l = 0;
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

FXI_DEVICE void value_piece(const fxi_cuda_attn_args &a, const tile_job &j, int pos0, int k0, int n)
{
    for (int i = (int)threadIdx.x; i < j.n_row * a.head_dim; i += ATTN_THREAD) {
        const int row = i / a.head_dim, d = i % a.head_dim;
        const seg_range r = row_range_of(a, j, row, pos0);
        const float *p = j.p + row * ATTN_SEGMENT + k0;
        float acc = j.acc[i];
        for (int k = max(r.from - k0, 0); k < min(r.end - k0, n); k++)
            acc = fmaf(p[k], j.kv[k * (a.head_dim + 1) + d], acc);
        j.acc[i] = acc;
    }
}

// The partial results of all rows: seg and acc.
FXI_DEVICE void attend_segment(const fxi_cuda_attn_args &a, const tile_job &j, int segment)
{
    const int pos0 = segment * ATTN_SEGMENT;
    const seg_range first = token_range(a, j, 0, pos0);
    const seg_range all = {first.from, token_range(a, j, j.tile.n_tok - 1, pos0).end};
    for (int plane = 0; plane < 2; plane++) {
        for (int k0 = all.from; k0 < all.end; k0 += j.n_kv) {
            const int n = min(j.n_kv, all.end - k0);
            __syncthreads();
            cache_fill(a, j, 2 * a.kv_layer + plane, pos0 + k0, n);
            __syncthreads();
            if (plane)
                value_piece(a, j, pos0, k0, n);
            else
                score_piece(a, j, pos0, k0, n);
        }
        __syncthreads();
        if (plane) continue;
        weigh_rows(a, j, pos0);
        for (int i = (int)threadIdx.x; i < j.n_row * a.head_dim; i += ATTN_THREAD) j.acc[i] = 0;
    }
}

// ---- merging -----------------------------------------------------------------------------------

// Merges a number of a segment into a row's: m and l are the row's, before.
FXI_DEVICE float merge_number(float m, float ms, float seg, float acc)
{
    const float to = fmaxf(m, ms);
    return fmaf(seg + 0, mathf_exp(ms - to), acc * mathf_exp(m - to));
}

FXI_DEVICE void merge_state(float ms, float ls, float *m, float *l)
{
    const float to = fmaxf(*m, ms);
    *l = fmaf(ls, mathf_exp(ms - to), *l * mathf_exp(*m - to));
    *m = to;
}

FXI_DEVICE bool row_sees(const fxi_cuda_attn_args &a, const tile_job &j, int row, int segment)
{
    const seg_range r = row_range_of(a, j, row, segment * ATTN_SEGMENT);
    return r.from < r.end;
}

// Merges the segment into out, where the sums are on their way, and `all`.
FXI_DEVICE void merge_segment(const fxi_cuda_attn_args &a, const tile_job &j, int segment)
{
    for (int i = (int)threadIdx.x; i < j.n_row * a.head_dim; i += ATTN_THREAD) {
        const int row = i / a.head_dim;
        if (!row_sees(a, j, row, segment)) continue;
        float *out = a.out + query_at(a, j, row) + i % a.head_dim;
        *out = merge_number(j.all->m[row], j.seg->m[row], j.acc[i], *out);
    }
    __syncthreads();
    const int row = (int)threadIdx.x;
    if (row < j.n_row && row_sees(a, j, row, segment))
        merge_state(j.seg->m[row], j.seg->l[row], &j.all->m[row], &j.all->l[row]);
}

FXI_DEVICE size_t part_at(const fxi_cuda_attn_args &a, const fxi_cuda_tile &t, int segment, int tok,
                          int head)
{
    const size_t row =
        (size_t)((segment - t.seg0) * t.n_tok + tok) * (size_t)a.n_head + (size_t)head;
    return ((size_t)t.part0 + row) * (size_t)(FXI_CUDA_PART_ACC + a.head_dim);
}

FXI_DEVICE void part_store(const fxi_cuda_attn_args &a, const tile_job &j, int segment)
{
    for (int i = (int)threadIdx.x; i < j.n_row * a.head_dim; i += ATTN_THREAD) {
        const int row = i / a.head_dim, d = i % a.head_dim;
        float *part =
            a.part + part_at(a, j.tile, segment, row / j.n_head, j.head0 + row % j.n_head);
        part[FXI_CUDA_PART_ACC + d] = j.acc[i];
        if (d == 0) part[0] = j.seg->m[row], part[1] = j.seg->l[row];
    }
}

// ---- the kernels -------------------------------------------------------------------------------

FXI_DEVICE void sink_state(const fxi_cuda_attn_args &a, int head, float *m, float *l)
{
    *m = a.sink ? a.sink[head] : minus_inf();
    *l = a.sink ? 1 : 0;
}

FXI_DEVICE void begin_rows(const fxi_cuda_attn_args &a, const tile_job &j)
{
    for (int i = (int)threadIdx.x; i < j.n_row * a.head_dim; i += ATTN_THREAD) {
        const size_t at = query_at(a, j, i / a.head_dim) + i % a.head_dim;
        j.q[i] = a.q[at] * a.scale;
        if (j.tile.n_range == 1) a.out[at] = 0;
    }
    const int row = (int)threadIdx.x;
    if (row < j.n_row) sink_state(a, j.head0 + row % j.n_head, &j.all->m[row], &j.all->l[row]);
}

FXI_DEVICE void attend_tile(const fxi_cuda_attn_args &a, const tile_job &j)
{
    const fxi_cuda_tile &t = j.tile;
    begin_rows(a, j);
    if (t.n_range > 1) {
        const int segment = t.seg0 + (int)blockIdx.x;
        attend_segment(a, j, segment);
        part_store(a, j, segment);
        return;
    }
    for (int s = t.seg0; s < t.seg0 + t.n_seg; s++) {
        attend_segment(a, j, s);
        merge_segment(a, j, s);
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < j.n_row * a.head_dim; i += ATTN_THREAD)
        a.out[query_at(a, j, i / a.head_dim) + i % a.head_dim] *= 1 / j.all->l[i / a.head_dim];
}

FXI_KERNEL(attention, attn, ATTN_THREAD)
{
    __shared__ row_state of_segment, of_all;
    FXI_DYNAMIC_SHARED(shared);
    if ((int)blockIdx.z >= live_count(a.live, a.n_tile)) return;
    const fxi_cuda_tile tile = a.tile[blockIdx.z];
    if ((int)blockIdx.x >= tile.n_range) return;
    const int group = a.n_head / a.n_kv_head, n_piece = (group + ATTN_ROW - 1) / ATTN_ROW;
    const int kv_head = (int)blockIdx.y / n_piece, in_group = (int)blockIdx.y % n_piece * ATTN_ROW;
    const fxi_cuda_seq &seq = a.seq[tile.seq];
    tile_job j;
    j.view = seq.view[a.kv_group];
    j.tile = tile;
    j.pos = seq.pos + tile.tok0;
    j.n_pos = seq.n_pos;
    j.row = seq.row0 + tile.tok0;
    j.kv_head = kv_head;
    j.head0 = kv_head * group + in_group;
    j.n_head = min(group - in_group, (int)ATTN_ROW);
    j.n_row = tile.n_tok * j.n_head;
    j.n_kv = a.head_dim <= 256 ? 32 : 16;
    j.q = (float *)shared;
    j.acc = j.q + ATTN_ROW * a.head_dim;
    j.kv = j.acc + ATTN_ROW * a.head_dim;
    j.p = j.kv + j.n_kv * (a.head_dim + 1);
    j.seg = &of_segment;
    j.all = &of_all;
    attend_tile(a, j);
}
FXI_CUDA_KERNEL(fxi_cuda_attention);

// Grid: heads, tokens of a tile, tiles.
FXI_KERNEL(attn_merge, attn, ATTN_THREAD)
{
    if ((int)blockIdx.z >= live_count(a.live, a.n_tile)) return;
    const fxi_cuda_tile t = a.tile[blockIdx.z];
    const fxi_cuda_seq &seq = a.seq[t.seq];
    const int head = (int)blockIdx.x, tok = (int)blockIdx.y;
    if (tok >= t.n_tok || t.n_range == 1) return;
    const int pos = seq.pos + t.tok0 + tok;
    const int seg0 = first_pos(pos, a.window) / ATTN_SEGMENT;
    const int seg1 = (end_pos(pos, seq.n_pos, a.window) + ATTN_SEGMENT - 1) / ATTN_SEGMENT;
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
FXI_CUDA_KERNEL(fxi_cuda_attn_merge);
