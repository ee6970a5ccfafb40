// attention_mma.cu - attention by tensor cores, in one order whatever the batch, the tiles, the
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
// Heads of 256 have too many numbers for a thread's registers: their queries lie in shared memory,
// and values are summed 64 numbers at a time.
#include "kernels/cuda/cuda_launch.h"
#include "kernels/cuda/cuda_mma.h"

template <int HEAD> struct part_sums {
    float acc[N_PART][ATTN_ROW][HEAD];
    float m[N_PART][ATTN_ROW], l[N_PART][ATTN_ROW];
};

// The first operands of a score's steps: in registers or, of large heads, in shared memory.
template <int HEAD> struct query_steps {
    static constexpr int n = 2 * head_pieces<HEAD>::n_score;
    uint32_t own[head_pieces<HEAD>::is_large ? 1 : n][4];
    uint32_t (*shared)[32][4]; // [n][lane]
};

template <int HEAD> FXI_DEVICE void query_step(const query_steps<HEAD> &q, int i, uint32_t to[4])
{
    if constexpr (head_pieces<HEAD>::is_large) {
        const uint4 v = ptx_load16(q.shared[i][threadIdx.x % 32]);
        to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
    } else {
        for (int r = 0; r < 4; r++) to[r] = q.own[i][r];
    }
}

// 16 bytes of the cache. Those of large heads may not be loaded further ahead than a __syncwarp.
template <int HEAD> FXI_DEVICE uint4 piece_load(const char *at)
{
    return head_pieces<HEAD>::is_large ? ptx_load16_here(at) : ptx_load16_once(at);
}

// ---- queries -----------------------------------------------------------------------------------

// Large heads: the warps share out the pieces.
template <bool B16, int HEAD>
FXI_DEVICE void query_load(const fxi_cuda_attn_args &a, const tile_job &j, query_steps<HEAD> &q)
{
    typedef head_pieces<HEAD> pieces;
    if constexpr (!pieces::is_large) {
#pragma unroll
        for (int i = 0; i < pieces::n_score; i++)
            query_pieces<B16, HEAD>(a, j, 0, i, q.own + 2 * i);
    } else {
        for (int i = (int)threadIdx.x / 32; i < pieces::n_score; i += ATTN_THREAD / 32) {
            uint32_t two[2][4];
            query_pieces<B16, HEAD>(a, j, 0, i, two);
            for (int k = 0; k < 2; k++)
                ptx_store16(q.shared[2 * i + k][threadIdx.x % 32],
                            uint4{two[k][0], two[k][1], two[k][2], two[k][3]});
        }
        __syncthreads();
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
FXI_DEVICE void score_eight(const part_job &p, const query_steps<HEAD> &q, int n, float s[4])
{
    typedef head_pieces<HEAD> pieces;
    const int lane = (int)threadIdx.x % 32, g = lane / 4, c = lane % 4;
    const int pos = p.pos0 + clamp_pos(p.first + 8 * n + g, p.all);
    const char *row = p.keys + tok_bytes<PAGED>(p.view, pos);
    uint4 k[pieces::n_score];
#pragma unroll
    for (int i = 0; i < pieces::n_score; i++) {
        k[i] = uint4{0, 0, 0, 0};
        if (pieces::n % 4 == 0 || c + 4 * i < pieces::n)
            k[i] = piece_load<HEAD>(row + (c + 4 * i) * 16);
    }
    s[0] = s[1] = s[2] = s[3] = 0;
#pragma unroll
    for (int i = 0; i < pieces::n_score; i++) {
        const uint32_t b0[2] = {k[i].x, k[i].y}, b1[2] = {k[i].z, k[i].w};
        uint32_t a0[4], a1[4];
        query_step<HEAD>(q, 2 * i, a0);
        query_step<HEAD>(q, 2 * i + 1, a1);
        tensor_step<B16>(s, a0, b0);
        tensor_step<B16>(s, a1, b1);
    }
}

// Adds 16 positions x weights to acc, of the pieces from piece0 on. acc[8 i + e]: pieces 2c, 2c + 1
// of group i, number e of each
template <bool B16, int HEAD, bool PAGED>
FXI_DEVICE void value_sixteen(const part_job &p, const uint32_t w[4], int n, int piece0,
                              float (*acc)[4])
{
    typedef head_pieces<HEAD> pieces;
    const int lane = (int)threadIdx.x % 32, g = lane / 4, c = lane % 4;
    uint4 v[4][pieces::n_value];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const int pos = p.first + 16 * n + 2 * c + (k & 1) + (k & 2) * 4;
        const char *row = p.values + tok_bytes<PAGED>(p.view, p.pos0 + clamp_pos(pos, p.all));
#pragma unroll
        for (int i = 0; i < pieces::n_value; i++) {
            v[k][i] = uint4{0, 0, 0, 0};
            if (pieces::n % 8 == 0 || g + 8 * i < pieces::n)
                v[k][i] = piece_load<HEAD>(row + (piece0 + g + 8 * i) * 16);
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

template <int HEAD> FXI_DEVICE void part_put(const float (*acc)[4], int piece0, part_sums<HEAD> *to)
{
    typedef head_pieces<HEAD> pieces;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32, g = lane / 4,
              c = lane % 4;
#pragma unroll
    for (int n = 0; n < 8 * pieces::n_value; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int piece = piece0 + n / 8 * 8 + 2 * c + i % 2;
            if (piece < pieces::n) to->acc[warp][g + i / 2 * 8][piece * 8 + n % 8] = acc[n][i];
        }
}

template <bool B16, int HEAD, bool PAGED>
FXI_DEVICE void sum_values(const part_job &p, const uint32_t (*w)[4], int piece0,
                           part_sums<HEAD> *to)
{
    float acc[8 * head_pieces<HEAD>::n_value][4];
#pragma unroll
    for (int n = 0; n < 8 * head_pieces<HEAD>::n_value; n++)
        acc[n][0] = acc[n][1] = acc[n][2] = acc[n][3] = 0;
#pragma unroll
    for (int n = 0; n < 4; n++) {
        value_sixteen<B16, HEAD, PAGED>(p, w[n], n, piece0, acc);
        if constexpr (head_pieces<HEAD>::is_large) __syncwarp();
    }
    part_put<HEAD>(acc, piece0, to);
}

template <bool B16, int HEAD, bool PAGED>
FXI_DEVICE void attend_part(const part_job &p, float cap, const query_steps<HEAD> &q,
                            part_sums<HEAD> *to)
{
    typedef head_pieces<HEAD> pieces;
    const int warp = (int)threadIdx.x / 32, g = (int)threadIdx.x % 32 / 4;
    float s[8][4], m[2], l[2];
    uint32_t w[4][4];
#pragma unroll
    for (int n = 0; n < 8; n++) {
        score_eight<B16, HEAD, PAGED>(p, q, n, s[n]);
        if (pieces::is_large && n % 2) __syncwarp(); // loads do not run further ahead
    }
    part_weigh(p.first, p.row, cap, s, m, l);
    for (int r = 0; threadIdx.x % 4 == 0 && r < 2; r++) {
        to->m[warp][g + 8 * r] = m[r];
        to->l[warp][g + 8 * r] = l[r];
    }
    weights_round<B16>(s, w);
#pragma unroll 1
    for (int piece0 = 0; piece0 < pieces::n; piece0 += pieces::n_at_a_time) {
        part_job now = p;
        if constexpr (pieces::is_large) now.first = ptx_anew(p.first); // 16 addresses less to keep
        sum_values<B16, HEAD, PAGED>(now, w, piece0, to);
    }
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
FXI_DEVICE void attend_segment(const fxi_cuda_attn_args &a, const tile_job &j,
                               const query_steps<HEAD> &q, part_sums<HEAD> *s, int segment)
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

template <bool B16, int HEAD>
FXI_DEVICE void attention_mma(const fxi_cuda_attn_args &a, unsigned char *shared, tile_share *share)
{
    part_sums<HEAD> *s = (part_sums<HEAD> *)shared;
    if (!tile_begin(a, &s->acc[0][0][0], share)) return;
    const tile_job &j = share->job;
    query_steps<HEAD> q;
    q.shared = (uint32_t(*)[32][4])(s + 1);
    query_load<B16, HEAD>(a, j, q);
    attend_tile(a, j, [&](int segment) { attend_segment<B16, HEAD>(a, j, q, s, segment); });
}

#define ATTENTION_MMA(type, name, HEAD)                                 \
    FXI_KERNEL(attn_##name##_##HEAD, attn, ATTN_THREAD)                 \
    {                                                                   \
        __shared__ tile_share share;                                    \
        FXI_DYNAMIC_SHARED(shared);                                     \
        attention_mma<FXI_##type == FXI_BF16, HEAD>(a, shared, &share); \
    }                                                                   \
    FXI_CUDA_KERNEL(fxi_cuda_attn_##name##_##HEAD);

FXI_CUDA_MMA_HEADS(ATTENTION_MMA, F16, f16)
FXI_CUDA_MMA_HEADS(ATTENTION_MMA, BF16, bf16)
