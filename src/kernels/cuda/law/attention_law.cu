// attention_law.cu - attention by tensor cores, in one order whatever the batch, the tiles, the
// layout of the cache, and whether a block walks the segments or has one.
//
// THE ORDER. As kernels.h, but within a segment of 256 positions:
//   queries x scale are rounded to the cache's type (f16 or bf16), weights p, too
//   scores     one chain of tensor-core steps of 16 numbers of the head each: of every 32 from
//              d = 32 i on the numbers d + 8 c + 0 .. 3 (c = 0 .. 3), then d + 8 c + 4 .. 7
//   parts      the positions are taken 64 at a time: m, p and l of each part by itself. l: lane c
//              of 4 adds p of positions 8 n + 2c, 8 n + 2c + 1 for ascending n; (l0 + l1) +
//              (l2 + l3). acc: one chain of steps of 16 positions each, in ascending order
//   the parts that a row attends to are merged in ascending order, as segments are, from m = -inf,
//   l = 0, acc = +0
// A tensor-core step adds 16 exact products to a f32; how it rounds is the machine's.
//
// A block has 4 warps, a part each. Keys and values go from the cache into fragments as they lie
// there, 16 bytes at a time: which numbers of a head one step multiplies is free as long as both
// operands agree.
//   keys     lane 4 g + c reads pieces c, c + 4, .. (8 numbers each) of position g
//   values   lane 4 g + c reads pieces g, g + 8, .. of positions 2c, 2c + 1, 2c + 8, 2c + 9
// Positions beyond those that the tile attends to are not read: the nearest one is, with weight 0.
#include "kernels/cuda/body/cuda_tile.h"

enum { PART_TOK = 64, N_PART = ATTN_SEGMENT / PART_TOK };

template <int HEAD> struct part_sums {
    float acc[N_PART][ATTN_ROW][HEAD];
    float m[N_PART][ATTN_ROW], l[N_PART][ATTN_ROW];
};

// A head's pieces of 8 numbers, and the groups of 4 that a score's steps take two by two.
template <int HEAD> struct head_pieces {
    static constexpr int n = HEAD / 8, n_score = (n + 3) / 4, n_value = (n + 7) / 8;
};

template <bool B16> FXI_DEVICE uint32_t half_pair(float lo, float hi)
{
    return B16 ? ptx_bf16x2_of_f32(lo, hi) : ptx_f16x2_of_f32(lo, hi);
}

template <bool B16>
FXI_DEVICE void tensor_step(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    if (B16)
        ptx_mma_bf16(d, a, b);
    else
        ptx_mma_f16(d, a, b);
}

template <bool PAGED>
FXI_DEVICE const char *part_row(const fxi_kv_view &v, const char *plane, int tok)
{
    if (!PAGED) return plane + (size_t)tok * v.tok_stride_bytes;
    const size_t block = (size_t)v.table[tok >> v.block_shift];
    const size_t in_block = (size_t)tok & (((size_t)1 << v.block_shift) - 1);
    return plane + block * v.block_stride_bytes + in_block * v.tok_stride_bytes;
}

FXI_DEVICE int clamp_pos(int pos, const seg_range &r)
{
    return min(max(pos, r.from), r.end - 1);
}

// ---- queries -----------------------------------------------------------------------------------

// The first operand of a score's steps: rows g and g + 8 of the tile.
template <bool B16, int HEAD>
FXI_DEVICE void query_load(const fxi_cuda_attn_args &a, const tile_job &j,
                           uint32_t (*q)[4]) // [2 n_score]
{
    typedef head_pieces<HEAD> pieces;
    const int lane = (int)threadIdx.x % 32, g = lane / 4, c = lane % 4;
    for (int r = 0; r < 2; r++) {
        const int row = g + 8 * r;
        const float *src = a.q + query_at(a, j, row < j.n_row ? row : 0);
#pragma unroll
        for (int i = 0; i < pieces::n_score; i++) {
            const bool is_there = row < j.n_row && c + 4 * i < pieces::n;
            float4 lo = {0, 0, 0, 0}, hi = {0, 0, 0, 0};
            if (is_there) lo = ptx_load_f32x4(src + (c + 4 * i) * 8);
            if (is_there) hi = ptx_load_f32x4(src + (c + 4 * i) * 8 + 4);
            q[2 * i][r] = half_pair<B16>(lo.x * a.scale, lo.y * a.scale);
            q[2 * i][r + 2] = half_pair<B16>(lo.z * a.scale, lo.w * a.scale);
            q[2 * i + 1][r] = half_pair<B16>(hi.x * a.scale, hi.y * a.scale);
            q[2 * i + 1][r + 2] = half_pair<B16>(hi.z * a.scale, hi.w * a.scale);
        }
    }
}

// ---- a part ------------------------------------------------------------------------------------

// What one warp works on: positions pos0 + first .. + 63 of a segment that begins at pos0.
typedef struct part_job {
    fxi_kv_view view;
    const char *keys, *values; // this head in position 0
    int pos0, first;
    seg_range all;    // of the tile
    seg_range row[2]; // of rows g and g + 8
} part_job;

// Scores of 8 positions: s[i] is row g + 8 (i / 2), position 2c + i % 2 of them.
template <bool B16, int HEAD, bool PAGED>
FXI_DEVICE void score_eight(const part_job &p, uint32_t (*q)[4], int n, float s[4])
{
    typedef head_pieces<HEAD> pieces;
    const int lane = (int)threadIdx.x % 32, g = lane / 4, c = lane % 4;
    const char *row =
        part_row<PAGED>(p.view, p.keys, p.pos0 + clamp_pos(p.first + 8 * n + g, p.all));
    uint4 k[pieces::n_score];
#pragma unroll
    for (int i = 0; i < pieces::n_score; i++) {
        k[i] = uint4{0, 0, 0, 0};
        if (pieces::n % 4 == 0 || c + 4 * i < pieces::n)
            k[i] = ptx_load16_once(row + (c + 4 * i) * 16);
    }
    s[0] = s[1] = s[2] = s[3] = 0;
#pragma unroll
    for (int i = 0; i < pieces::n_score; i++) {
        const uint32_t b0[2] = {k[i].x, k[i].y}, b1[2] = {k[i].z, k[i].w};
        tensor_step<B16>(s, q[2 * i], b0);
        tensor_step<B16>(s, q[2 * i + 1], b1);
    }
}

FXI_DEVICE float quad_max(float v)
{
    v = fmaxf(v, __shfl_xor_sync(WHOLE_WARP, v, 1));
    return fmaxf(v, __shfl_xor_sync(WHOLE_WARP, v, 2));
}

FXI_DEVICE float quad_sum(float v)
{
    v += __shfl_xor_sync(WHOLE_WARP, v, 1);
    return v + __shfl_xor_sync(WHOLE_WARP, v, 2);
}

// Scores become weights, 0 where a row does not attend. m, l: of rows g and g + 8
FXI_DEVICE void part_weigh(const part_job &p, float cap, float (*s)[4], float m[2], float l[2])
{
    const int c = (int)threadIdx.x % 4;
    m[0] = m[1] = minus_inf();
    l[0] = l[1] = 0;
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int pos = p.first + 8 * n + 2 * c + i % 2;
            if (cap != 0) s[n][i] = cap * mathf_tanh(s[n][i] * (1 / cap));
            if (pos < p.row[i / 2].from || pos >= p.row[i / 2].end) s[n][i] = minus_inf();
            m[i / 2] = fmaxf(m[i / 2], s[n][i]);
        }
    m[0] = quad_max(m[0]), m[1] = quad_max(m[1]);
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[n][i] = s[n][i] == minus_inf() ? 0 : mathf_exp(s[n][i] - m[i / 2]);
            l[i / 2] += s[n][i];
        }
    l[0] = quad_sum(l[0]), l[1] = quad_sum(l[1]);
}

// Adds 16 positions x weights to acc. acc[8 i + e]: pieces 2c, 2c + 1 of group i, number e of each
template <bool B16, int HEAD, bool PAGED>
FXI_DEVICE void value_sixteen(const part_job &p, const uint32_t w[4], int n, float (*acc)[4])
{
    typedef head_pieces<HEAD> pieces;
    const int lane = (int)threadIdx.x % 32, g = lane / 4, c = lane % 4;
    uint4 v[4][pieces::n_value];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const int pos = p.first + 16 * n + 2 * c + (k & 1) + (k & 2) * 4;
        const char *row = part_row<PAGED>(p.view, p.values, p.pos0 + clamp_pos(pos, p.all));
#pragma unroll
        for (int i = 0; i < pieces::n_value; i++) {
            v[k][i] = uint4{0, 0, 0, 0};
            if (pieces::n % 8 == 0 || g + 8 * i < pieces::n)
                v[k][i] = ptx_load16_once(row + (g + 8 * i) * 16);
        }
    }
#pragma unroll
    for (int i = 0; i < pieces::n_value; i++)
#pragma unroll
        for (int e = 0; e < 8; e++) {
            const uint32_t pick =
                e % 2 ? 0x7632 : 0x5410; // the high or the low halves of two words
            const uint32_t *r0 = &v[0][i].x, *r1 = &v[1][i].x, *r2 = &v[2][i].x, *r3 = &v[3][i].x;
            const uint32_t b[2] = {__byte_perm(r0[e / 2], r1[e / 2], pick),
                                   __byte_perm(r2[e / 2], r3[e / 2], pick)};
            tensor_step<B16>(acc[8 * i + e], w, b);
        }
}

template <int HEAD>
FXI_DEVICE void part_put(const float (*acc)[4], const float m[2], const float l[2],
                         part_sums<HEAD> *to)
{
    typedef head_pieces<HEAD> pieces;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, g = lane / 4,
              c = lane % 4;
#pragma unroll
    for (int n = 0; n < 8 * pieces::n_value; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int piece = n / 8 * 8 + 2 * c + i % 2;
            if (piece < pieces::n) to->acc[warp][g + i / 2 * 8][piece * 8 + n % 8] = acc[n][i];
        }
    for (int r = 0; c == 0 && r < 2; r++) {
        to->m[warp][g + 8 * r] = m[r];
        to->l[warp][g + 8 * r] = l[r];
    }
}

template <bool B16, int HEAD, bool PAGED>
FXI_DEVICE void attend_part(const part_job &p, float cap, uint32_t (*q)[4], part_sums<HEAD> *to)
{
    float s[8][4], acc[8 * head_pieces<HEAD>::n_value][4], m[2], l[2];
#pragma unroll
    for (int n = 0; n < 8; n++) score_eight<B16, HEAD, PAGED>(p, q, n, s[n]);
    part_weigh(p, cap, s, m, l);
#pragma unroll
    for (int n = 0; n < 8 * head_pieces<HEAD>::n_value; n++)
        acc[n][0] = acc[n][1] = acc[n][2] = acc[n][3] = 0;
#pragma unroll
    for (int n = 0; n < 4; n++) {
        const uint32_t w[4] = {half_pair<B16>(s[2 * n][0], s[2 * n][1]),
                               half_pair<B16>(s[2 * n][2], s[2 * n][3]),
                               half_pair<B16>(s[2 * n + 1][0], s[2 * n + 1][1]),
                               half_pair<B16>(s[2 * n + 1][2], s[2 * n + 1][3])};
        value_sixteen<B16, HEAD, PAGED>(p, w, n, acc);
    }
    part_put<HEAD>(acc, m, l, to);
}

// ---- a segment ---------------------------------------------------------------------------------

// The parts of a row become the segment's result: acc of part 0 has it, then.
template <int HEAD> FXI_DEVICE void parts_merge(const tile_job &j, part_sums<HEAD> *s)
{
    for (int i = (int)threadIdx.x; i < j.n_row * HEAD; i += ATTN_THREAD) {
        const int row = i / HEAD, d = i % HEAD;
        float m = minus_inf(), l = 0, acc = 0;
        for (int p = 0; p < N_PART; p++) {
            const float mp = s->m[p][row];
            if (mp == minus_inf()) continue;
            acc = merge_number(m, mp, s->acc[p][row][d], acc);
            merge_state(mp, s->l[p][row], &m, &l);
        }
        s->acc[0][row][d] = acc;
        if (d == 0) j.seg->m[row] = m, j.seg->l[row] = l;
    }
}

template <bool B16, int HEAD>
FXI_DEVICE void attend_segment(const fxi_cuda_attn_args &a, const tile_job &j, uint32_t (*q)[4],
                               part_sums<HEAD> *s, int segment)
{
    const int g = (int)threadIdx.x % 32 / 4;
    part_job p;
    p.view = j.view;
    p.keys = j.view.base + (size_t)(2 * a.kv_layer) * j.view.plane_stride_bytes +
             (size_t)j.kv_head * HEAD * 2;
    p.values = p.keys + j.view.plane_stride_bytes;
    p.pos0 = segment * ATTN_SEGMENT;
    p.first = (int)threadIdx.x / 32 * PART_TOK;
    p.all = tile_range(a, j, p.pos0);
    for (int r = 0; r < 2; r++) {
        const int row = g + 8 * r;
        p.row[r] = row_range_of(a, j, row < j.n_row ? row : 0, p.pos0);
    }
    if (j.view.table)
        attend_part<B16, HEAD, true>(p, a.softcap, q, s);
    else
        attend_part<B16, HEAD, false>(p, a.softcap, q, s);
    __syncthreads();
    parts_merge<HEAD>(j, s);
    __syncthreads();
}

// Shared memory beside the sums. The job lies there, too: its registers are better used otherwise.
typedef struct law_room {
    tile_job job;
    row_state seg, all;
} law_room;

template <bool B16, int HEAD>
FXI_DEVICE void attention_law(const fxi_cuda_attn_args &a, unsigned char *shared, law_room *room)
{
    if ((int)blockIdx.z >= live_count(a.live, a.n_tile)) return;
    const fxi_cuda_tile &tile = a.tile[blockIdx.z];
    if ((int)blockIdx.x >= tile.n_range) return;
    part_sums<HEAD> *s = (part_sums<HEAD> *)shared;
    if (threadIdx.x == 0) {
        room->job = tile_job_of(a, tile);
        room->job.acc = &s->acc[0][0][0];
        room->job.seg = &room->seg;
        room->job.all = &room->all;
    }
    __syncthreads();
    const tile_job &j = room->job;
    uint32_t q[2 * head_pieces<HEAD>::n_score][4];
    query_load<B16, HEAD>(a, j, q);
    attend_tile(a, j, [&](int segment) { attend_segment<B16, HEAD>(a, j, q, s, segment); });
}

#define ATTENTION_LAW(name, B16, HEAD)                  \
    FXI_KERNEL(attn_##name##_##HEAD, attn, ATTN_THREAD) \
    {                                                   \
        __shared__ law_room room;                       \
        FXI_DYNAMIC_SHARED(shared);                     \
        attention_law<B16, HEAD>(a, shared, &room);     \
    }                                                   \
    FXI_CUDA_KERNEL(fxi_cuda_attn_##name##_##HEAD)

ATTENTION_LAW(f16, false, 64);
ATTENTION_LAW(f16, false, 80);
ATTENTION_LAW(f16, false, 96);
ATTENTION_LAW(f16, false, 128);
ATTENTION_LAW(bf16, true, 64);
ATTENTION_LAW(bf16, true, 80);
ATTENTION_LAW(bf16, true, 96);
ATTENTION_LAW(bf16, true, 128);
