// cuda_tile.h - a block's share of attention: the query rows of a tile that read one KV head, the
// positions that they attend to, and the merging of segments (kernels.h).
//
// What computes a segment differs from kernel to kernel. It leaves in shared memory, for each row
// that attends to some of the segment: m and l, and acc.
#ifndef FXI_KERNELS_CUDA_TILE_H
#define FXI_KERNELS_CUDA_TILE_H

#include "kernels/cuda/cuda_cache.h"

enum { ATTN_THREAD = 128, ATTN_ROW = FXI_CUDA_TILE_ROW, ATTN_SEGMENT = FXI_ATTN_SEGMENT };

typedef struct row_state {
    float m[ATTN_ROW], l[ATTN_ROW];
} row_state;

// Row r is token r / n_head of the tile, head head0 + r % n_head.
typedef struct tile_job {
    fxi_kv_view view;
    fxi_cuda_tile tile;
    int pos, n_pos; // of the tile's first token, of its sequence
    int row;        // of its first token in the batch
    int kv_head, head0, n_head, n_row;
    float *acc;           // [n_row][head_dim] of this segment
    row_state *seg, *all; // of this segment; of those merged so far
} tile_job;

// The job of this block. Its buffers are left to the caller.
FXI_DEVICE tile_job tile_job_of(const fxi_cuda_attn_args &a, const fxi_cuda_tile &tile)
{
    const int group = a.n_head / a.n_kv_head, n_piece = (group + ATTN_ROW - 1) / ATTN_ROW;
    const int in_group = (int)blockIdx.y % n_piece * ATTN_ROW;
    const fxi_cuda_seq &seq = a.seq[tile.seq];
    tile_job j;
    j.view = seq.view[a.kv_group];
    j.tile = tile;
    j.pos = seq.pos + tile.tok0;
    j.n_pos = seq.n_pos;
    j.row = seq.row0 + tile.tok0;
    j.kv_head = (int)blockIdx.y / n_piece;
    j.head0 = j.kv_head * group + in_group;
    j.n_head = min(group - in_group, (int)ATTN_ROW);
    j.n_row = tile.n_tok * j.n_head;
    return j;
}

// A block's job lies in shared memory: its registers are better used otherwise.
typedef struct tile_share {
    tile_job job;
    row_state seg, all;
} tile_share;
static_assert(sizeof(tile_share) <= FXI_CUDA_OWN_SHARED_BYTES, "the host reckons with less");

// Has the job of this block ready, whose segments' sums go to acc. False: it has none.
FXI_DEVICE bool tile_begin(const fxi_cuda_attn_args &a, float *acc, tile_share *share)
{
    if ((int)blockIdx.z >= live_count(a.count)) return false;
    const fxi_cuda_tile &tile = a.tile[blockIdx.z];
    if ((int)blockIdx.x >= tile.n_range) return false;
    if (threadIdx.x == 0) {
        share->job = tile_job_of(a, tile);
        share->job.acc = acc;
        share->job.seg = &share->seg;
        share->job.all = &share->all;
    }
    __syncthreads();
    return true;
}

// ---- positions ---------------------------------------------------------------------------------

// Positions of a segment, from its first one on. There are none if from >= end.
typedef struct seg_range {
    int from, end;
} seg_range;

FXI_DEVICE seg_range token_range(const fxi_cuda_attn_args &a, const tile_job &j, int tok, int pos0)
{
    const int from = fxi_attn_first(j.pos + tok, a.window) - pos0;
    const int end = fxi_attn_end(j.pos + tok, j.n_pos, a.window) - pos0;
    const seg_range r = {from > 0 ? from : 0, end < ATTN_SEGMENT ? end : (int)ATTN_SEGMENT};
    return r;
}

FXI_DEVICE seg_range row_range_of(const fxi_cuda_attn_args &a, const tile_job &j, int row, int pos0)
{
    return token_range(a, j, row / j.n_head, pos0);
}

// Those that any of the tile's tokens attends to.
FXI_DEVICE seg_range tile_range(const fxi_cuda_attn_args &a, const tile_job &j, int pos0)
{
    const seg_range r = {token_range(a, j, 0, pos0).from,
                         token_range(a, j, j.tile.n_tok - 1, pos0).end};
    return r;
}

FXI_DEVICE bool row_sees(const fxi_cuda_attn_args &a, const tile_job &j, int row, int segment)
{
    const seg_range r = row_range_of(a, j, row, segment * ATTN_SEGMENT);
    return r.from < r.end;
}

// Where query row r is in q and out.
FXI_DEVICE size_t query_at(const fxi_cuda_attn_args &a, const tile_job &j, int row)
{
    const size_t tok = (size_t)(j.row + row / j.n_head);
    return (tok * (size_t)a.n_head + (size_t)(j.head0 + row % j.n_head)) * (size_t)a.head_dim;
}

// ---- merging -----------------------------------------------------------------------------------

// Merges a number of a segment into a row's: m and ms are the row's and the segment's, before.
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

FXI_DEVICE void sink_state(const fxi_cuda_attn_args &a, int head, float *m, float *l)
{
    *m = a.sink ? a.sink[head] : minus_inf();
    *l = a.sink ? 1 : 0;
}

// Pre: all threads see the segment's results.
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
    __syncthreads();
}

// ---- partial results ---------------------------------------------------------------------------

FXI_DEVICE size_t part_at(const fxi_cuda_attn_args &a, const fxi_cuda_tile &t, int segment, int tok,
                          int head)
{
    const int row = ((segment - t.seg0) * t.n_tok + tok) * a.n_head + head;
    return ((size_t)t.part0 + (size_t)row) * (size_t)(FXI_CUDA_PART_ACC + a.head_dim);
}

// Pre: all threads see the segment's results.
FXI_DEVICE void part_store(const fxi_cuda_attn_args &a, const tile_job &j, int segment)
{
    for (int i = (int)threadIdx.x; i < j.n_row * a.head_dim; i += ATTN_THREAD) {
        const int row = i / a.head_dim, d = i % a.head_dim;
        const int head = j.head0 + row % j.n_head;
        float *part = a.part + part_at(a, j.tile, segment, row / j.n_head, head);
        part[FXI_CUDA_PART_ACC + d] = j.acc[i];
        if (d == 0) part[0] = j.seg->m[row], part[1] = j.seg->l[row];
    }
}

// Walks the tile's segments, or computes the one that is this block's. attend(segment) computes
// one, and ends with a barrier.
template <class ATTEND>
FXI_DEVICE void attend_tile(const fxi_cuda_attn_args &a, const tile_job &j, ATTEND attend)
{
    const fxi_cuda_tile &t = j.tile;
    if (t.n_range > 1) {
        const int segment = t.seg0 + (int)blockIdx.x;
        attend(segment);
        part_store(a, j, segment);
        return;
    }
    const int row = (int)threadIdx.x; // before the first segment, out holds the sums on their way
    if (row < j.n_row) sink_state(a, j.head0 + row % j.n_head, &j.all->m[row], &j.all->l[row]);
    for (int i = (int)threadIdx.x; i < j.n_row * a.head_dim; i += ATTN_THREAD)
        a.out[query_at(a, j, i / a.head_dim) + i % a.head_dim] = 0;
    for (int s = t.seg0; s < t.seg0 + t.n_seg; s++) {
        attend(s);
        merge_segment(a, j, s);
    }
    for (int i = (int)threadIdx.x; i < j.n_row * a.head_dim; i += ATTN_THREAD)
        a.out[query_at(a, j, i / a.head_dim) + i % a.head_dim] *= 1 / j.all->l[i / a.head_dim];
}

#endif
