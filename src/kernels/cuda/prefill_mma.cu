// prefill_mma.cu - attention_mma.cu's attention, bit for bit, for tiles of up to 64 query rows.
//
// A block has 4 warps of 16 rows each. All of them need the same keys and values, which are copied
// to shared memory, a part of 64 positions at a time: keys of the next part while values are
// summed, values of this one while scores are. The numbers of a head that one step multiplies are
// those of attention_mma.cu, as are the order of parts within a segment, and of segments.
//
// A thread's sums never leave it: of the part in registers, of the segment in shared memory, of the
// row in a.out.
#include "kernels/cuda/cuda_launch.h"
#include "kernels/cuda/cuda_mma.h"

enum { MANY_ROW = FXI_CUDA_WIDE_ROW };

// How a position's row lies in shared memory, so that the lanes of a load meet in no bank: keys are
// read 64 bytes of two positions at a time, values 16 bytes of eight.
template <int HEAD> struct many_shape {
    static constexpr int n_piece = HEAD / 8;
    static constexpr int key_bytes = (HEAD * 2 + 63) / 128 * 128 + 64;
    static constexpr int value_bytes = HEAD * 2 + 16;
};

template <int HEAD> struct many_room {
    unsigned char *keys, *values;  // [PART_TOK] rows
    float (*sums)[ATTN_THREAD][4]; // [HEAD / 8] of the segment: as mma lays them out
};

// What a thread works on; positions are absolute.
typedef struct many_job {
    const char *keys, *values; // this head in position 0
    seg_range seen;            // by the tile, of what the block is to do
    int row0;                  // of this warp, in the tile
    seg_range row[2];          // seen by rows row0 + g and row0 + g + 8
} many_job;

// m and l of two rows.
typedef struct many_state {
    float m[2], l[2];
} many_state;

FXI_DEVICE many_state state_new(void)
{
    const many_state s = {{minus_inf(), minus_inf()}, {0, 0}};
    return s;
}

// ---- positions ---------------------------------------------------------------------------------

FXI_DEVICE seg_range seen_range(const fxi_cuda_attn_args &a, const tile_job &j, int tok0, int tok1)
{
    const seg_range r = {fxi_attn_first(j.pos + tok0, a.window),
                         fxi_attn_end(j.pos + tok1, j.n_pos, a.window)};
    return r;
}

template <int HEAD> FXI_DEVICE many_job many_job_of(const fxi_cuda_attn_args &a, const tile_job &j)
{
    const int g = (int)threadIdx.x % 32 / 4;
    many_job k;
    k.keys = j.view.base + (size_t)(2 * a.kv_layer) * j.view.plane_stride_bytes +
             (size_t)j.kv_head * HEAD * 2;
    k.values = k.keys + j.view.plane_stride_bytes;
    k.seen = seen_range(a, j, 0, j.tile.n_tok - 1);
    if (j.tile.n_range > 1) {
        const int pos0 = (j.tile.seg0 + (int)blockIdx.x) * ATTN_SEGMENT;
        k.seen.from = max(k.seen.from, pos0);
        k.seen.end = min(k.seen.end, pos0 + (int)ATTN_SEGMENT);
    }
    k.row0 = (int)threadIdx.x / 32 * 16;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int row = k.row0 + g + 8 * r, tok = row / j.n_head;
        k.row[r] = row < j.n_row ? seen_range(a, j, tok, tok) : seg_range{0, 0};
    }
    return k;
}

// ---- a part ------------------------------------------------------------------------------------

// The whole block copies 64 positions of a plane. Of those that the tile does not see the nearest
// one is copied: it counts with weight 0.
template <int HEAD>
FXI_DEVICE void part_copy(const fxi_kv_view &v, const char *plane, int first, const seg_range &seen,
                          unsigned char *to, int row_bytes)
{
    constexpr int n = many_shape<HEAD>::n_piece;
    const int thread = ptx_anew((int)threadIdx.x); // places are not kept from part to part
#pragma unroll
    for (int i = 0; i < n * PART_TOK / ATTN_THREAD; i++) {
        const int k = i * ATTN_THREAD + thread, row = k / n, piece = k % n;
        const int pos = clamp_pos(first + row, seen);
        const char *from = plane + (v.table ? tok_bytes<true>(v, pos) : tok_bytes<false>(v, pos));
        ptx_async_copy16(to + row * row_bytes + piece * 16, from + piece * 16);
    }
    ptx_async_commit();
}

// s[n][i]: row g + 8 (i / 2), position 8 n + 2c + i % 2.
template <bool B16, int HEAD>
FXI_DEVICE void score_part(const unsigned char *keys, const uint32_t (*q)[4], float (*s)[4])
{
    typedef head_pieces<HEAD> pieces;
    const int lane = (int)threadIdx.x % 32, g = lane / 4, c = lane % 4;
#pragma unroll
    for (int n = 0; n < 8; n++) {
        const unsigned char *row = keys + (8 * n + g) * many_shape<HEAD>::key_bytes;
        s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0;
#pragma unroll
        for (int i = 0; i < pieces::n_score; i++) {
            uint4 k = {0, 0, 0, 0};
            if (pieces::n % 4 == 0 || c + 4 * i < pieces::n) k = ptx_load16(row + (c + 4 * i) * 16);
            const uint32_t b0[2] = {k.x, k.y}, b1[2] = {k.z, k.w};
            tensor_step<B16>(s[n], q[2 * i], b0);
            tensor_step<B16>(s[n], q[2 * i + 1], b1);
        }
    }
}

// acc[n][i]: row g + 8 (i / 2), number 8 n + 2c + i % 2 of the head.
template <bool B16, int HEAD>
FXI_DEVICE void value_part(const unsigned char *values, const uint32_t (*w)[4], float (*acc)[4])
{
    constexpr int row_bytes = many_shape<HEAD>::value_bytes;
    const int lane = (int)threadIdx.x % 32;
    // of 16 positions x 16 numbers: the row that this lane names
    const unsigned char *at = values + lane % 16 * row_bytes + lane / 16 * 16;
#pragma unroll
    for (int n = 0; n < HEAD / 8; n++) acc[n][0] = acc[n][1] = acc[n][2] = acc[n][3] = 0;
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
        for (int n = 0; n < HEAD / 8; n += 2) {
            uint32_t v[4];
            ptx_ldmatrix_x4_trans(v, at + 16 * k * row_bytes + n * 16);
            tensor_step<B16>(acc[n], w[k], v);
            tensor_step<B16>(acc[n + 1], w[k], v + 2);
        }
}

// ---- sums of segments and rows -----------------------------------------------------------------

// What a merge multiplies old and new sums by, for two rows.
typedef struct merge_scale {
    float old[2], add[2];
} merge_scale;

FXI_DEVICE merge_scale scale_of(const many_state &old, const many_state &add)
{
    merge_scale s;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const float to = fmaxf(old.m[r], add.m[r]);
        s.old[r] = mathf_exp(old.m[r] - to), s.add[r] = mathf_exp(add.m[r] - to);
    }
    return s;
}

// Merges a part into the segment of the rows that see some of it. is_first: there are no sums yet
template <int HEAD>
FXI_DEVICE void merge_part(const float (*acc)[4], const many_state &part, bool is_first,
                           const many_room<HEAD> &room, many_state *seg)
{
    const merge_scale by = scale_of(*seg, part);
#pragma unroll
    for (int n = 0; n < HEAD / 8; n++) {
        float *at = room.sums[n][threadIdx.x];
        float4 was = {0, 0, 0, 0};
        if (!is_first) was = ptx_load_f32x4(at);
        float sum[4] = {was.x, was.y, was.z, was.w};
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (part.m[i / 2] != minus_inf())
                sum[i] = fmaf(acc[n][i] + 0, by.add[i / 2], sum[i] * by.old[i / 2]);
        ptx_store_f32x4(at, float4{sum[0], sum[1], sum[2], sum[3]});
    }
#pragma unroll
    for (int r = 0; r < 2; r++)
        if (part.m[r] != minus_inf()) merge_state(part.m[r], part.l[r], &seg->m[r], &seg->l[r]);
}

// Merges a segment into row r, whose sums are in a.out once some segment has been.
template <int HEAD>
FXI_DEVICE void merge_row(const many_room<HEAD> &room, int r, const many_state &seg, bool is_first,
                          float *out, many_state *all)
{
    const merge_scale by = scale_of(*all, seg);
    const int c = (int)threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < HEAD / 8; n++) {
        const float *sum = room.sums[n][threadIdx.x] + 2 * r;
        float2 *at = (float2 *)(out + 8 * n + 2 * c);
        const float2 old = is_first ? float2{0, 0} : *at;
        *at = float2{fmaf(sum[0] + 0, by.add[r], old.x * by.old[r]),
                     fmaf(sum[1] + 0, by.add[r], old.y * by.old[r])};
    }
    merge_state(seg.m[r], seg.l[r], &all->m[r], &all->l[r]);
}

// Leaves the segment of row r to attn_merge.
template <int HEAD>
FXI_DEVICE void store_row(const fxi_cuda_attn_args &a, const tile_job &j,
                          const many_room<HEAD> &room, int row, int r, const many_state &seg,
                          int segment)
{
    const int c = (int)threadIdx.x % 4, head = j.head0 + row % j.n_head;
    float *part = a.part + part_at(a, j.tile, segment, row / j.n_head, head);
#pragma unroll
    for (int n = 0; n < HEAD / 8; n++) {
        const float *sum = room.sums[n][threadIdx.x] + 2 * r;
        float *to = part + FXI_CUDA_PART_ACC + 8 * n + 2 * c;
        to[0] = sum[0], to[1] = sum[1];
    }
    if (c == 0) part[0] = seg.m[r], part[1] = seg.l[r];
}

// A segment is complete.
template <int HEAD>
FXI_DEVICE void segment_end(const fxi_cuda_attn_args &a, const tile_job &j, const many_job &k,
                            const many_room<HEAD> &room, const many_state &seg, int segment,
                            many_state *all)
{
    const int pos0 = segment * ATTN_SEGMENT, g = (int)threadIdx.x % 32 / 4;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int row = k.row0 + g + 8 * r;
        if (k.row[r].from >= pos0 + ATTN_SEGMENT || k.row[r].end <= pos0) continue;
        if (j.tile.n_range > 1)
            store_row<HEAD>(a, j, room, row, r, seg, segment);
        else
            merge_row<HEAD>(room, r, seg, k.row[r].from >= pos0, a.out + query_at(a, j, row), all);
    }
}

// ---- a tile ------------------------------------------------------------------------------------

template <int HEAD>
FXI_DEVICE void rows_end(const fxi_cuda_attn_args &a, const tile_job &j, const many_job &k,
                         const many_state &all)
{
    const int g = (int)threadIdx.x % 32 / 4, c = (int)threadIdx.x % 4;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int row = k.row0 + g + 8 * r;
        if (row >= j.n_row) continue;
        const float by = 1 / all.l[r];
        float2 *out = (float2 *)(a.out + query_at(a, j, row) + 2 * c);
        for (int n = 0; n < HEAD / 8; n++)
            out[4 * n] = float2{out[4 * n].x * by, out[4 * n].y * by};
    }
}

template <bool B16, int HEAD>
FXI_DEVICE void attend_parts(const fxi_cuda_attn_args &a, const tile_job &j, const many_job &k,
                             const many_room<HEAD> &room, const uint32_t (*q)[4], many_state *all)
{
    typedef many_shape<HEAD> shape;
    many_state seg = state_new();
    bool is_first = true;
    part_copy<HEAD>(j.view, k.keys, k.seen.from / PART_TOK * PART_TOK, k.seen, room.keys,
                    shape::key_bytes);
#pragma unroll 1
    for (int first = k.seen.from / PART_TOK * PART_TOK; first < k.seen.end; first += PART_TOK) {
        const int next = first + PART_TOK;
        float s[8][4], acc[HEAD / 8][4];
        uint32_t w[4][4];
        many_state part;
        part_copy<HEAD>(j.view, k.values, first, k.seen, room.values, shape::value_bytes);
        ptx_async_wait<1>();
        __syncthreads(); // the keys are there
        score_part<B16, HEAD>(room.keys, q, s);
        __syncthreads(); // nobody reads them any more
        if (next < k.seen.end)
            part_copy<HEAD>(j.view, k.keys, next, k.seen, room.keys, shape::key_bytes);
        else
            ptx_async_commit(); // nothing: what is waited for is counted in groups
        part_weigh(first, k.row, a.softcap, s, part.m, part.l);
        weights_round<B16>(s, w);
        ptx_async_wait<1>();
        __syncthreads(); // the values are there
        value_part<B16, HEAD>(room.values, w, acc);
        merge_part<HEAD>(acc, part, is_first, room, &seg);
        is_first = next % ATTN_SEGMENT == 0 || next >= k.seen.end; // the next one is, of a segment
        if (is_first) {
            segment_end<HEAD>(a, j, k, room, seg, first / ATTN_SEGMENT, all);
            seg = state_new();
        }
        __syncthreads(); // nobody reads the values any more
    }
}

template <bool B16, int HEAD>
FXI_DEVICE void attention_many(const fxi_cuda_attn_args &a, unsigned char *shared, tile_job *job)
{
    typedef many_shape<HEAD> shape;
    const fxi_cuda_tile &tile = a.tile[blockIdx.z];
    if ((int)blockIdx.x >= tile.n_range) return;
    if (threadIdx.x == 0) *job = tile_job_of(a, tile);
    __syncthreads();
    const tile_job &j = *job;
    const many_room<HEAD> room = {
        shared, shared + PART_TOK * shape::key_bytes,
        (float(*)[ATTN_THREAD][4])(shared + PART_TOK * (shape::key_bytes + shape::value_bytes))};
    const many_job k = many_job_of<HEAD>(a, j);
    uint32_t q[2 * head_pieces<HEAD>::n_score][4];
#pragma unroll
    for (int i = 0; i < head_pieces<HEAD>::n_score; i++)
        query_pieces<B16, HEAD>(a, j, k.row0, i, q + 2 * i);
    many_state all;
#pragma unroll
    for (int r = 0; r < 2; r++)
        sink_state(a, j.head0 + (k.row0 + (int)threadIdx.x % 32 / 4 + 8 * r) % j.n_head, &all.m[r],
                   &all.l[r]);
    attend_parts<B16, HEAD>(a, j, k, room, q, &all);
    if (tile.n_range == 1) rows_end<HEAD>(a, j, k, all);
}

#define PREFILL_MMA(type, name, HEAD)                                  \
    FXI_KERNEL_FOR(attn_##name##_##HEAD##_many, attn, ATTN_THREAD, 2)  \
    {                                                                  \
        __shared__ tile_job job;                                       \
        FXI_DYNAMIC_SHARED(shared);                                    \
        attention_many<FXI_##type == FXI_BF16, HEAD>(a, shared, &job); \
    }                                                                  \
    FXI_CUDA_KERNEL(fxi_cuda_attn_##name##_##HEAD##_many);

FXI_CUDA_WIDE_HEADS(PREFILL_MMA, F16, f16)
FXI_CUDA_WIDE_HEADS(PREFILL_MMA, BF16, bf16)
