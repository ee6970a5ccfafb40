// cuda_mma.h - what the kernels of attention by tensor cores share; attention_mma.cu states their
// order.
#ifndef FXI_KERNELS_CUDA_MMA_H
#define FXI_KERNELS_CUDA_MMA_H

#include "kernels/cuda/cuda_tile.h"

enum { PART_TOK = 64, N_PART = ATTN_SEGMENT / PART_TOK };

// A head's pieces of 8 numbers: 4 of them in two steps of a score, 8 in eight sums of values, of
// which all pieces are summed at a time or, of large heads, 8.
template <int HEAD> struct head_pieces {
    static constexpr int n = HEAD / 8, n_score = (n + 3) / 4;
    static constexpr int n_at_a_time = n <= 16 ? n : 8, n_value = (n_at_a_time + 7) / 8;
    static constexpr bool is_large = n > 16;
};

template <bool B16> FXI_DEVICE uint32_t half_pair(float lo, float hi)
{
    return B16 ? ptx_bf16x2_of_f32(lo, hi) : ptx_f16x2_of_f32(lo, hi);
}

FXI_DEVICE int clamp_pos(int pos, const seg_range &r)
{
    return min(max(pos, r.from), r.end - 1);
}

// ---- queries -----------------------------------------------------------------------------------

// Pieces c + 4 i of rows row0 + g and row0 + g + 8 of the tile, as the operands of two steps.
template <bool B16, int HEAD>
FXI_DEVICE void query_pieces(const fxi_cuda_attn_args &a, const tile_job &j, int row0, int i,
                             uint32_t (*q)[4])
{
    typedef head_pieces<HEAD> pieces;
    const int lane = (int)threadIdx.x % 32, g = lane / 4, c = lane % 4;
    for (int r = 0; r < 2; r++) {
        const int row = row0 + g + 8 * r;
        const bool is_there = row < j.n_row && c + 4 * i < pieces::n;
        const float *src = a.q + query_at(a, j, row < j.n_row ? row : 0) + (c + 4 * i) * 8;
        float4 lo = {0, 0, 0, 0}, hi = {0, 0, 0, 0};
        if (is_there) lo = ptx_load_f32x4(src);
        if (is_there) hi = ptx_load_f32x4(src + 4);
        q[0][r] = half_pair<B16>(lo.x * a.scale, lo.y * a.scale);
        q[0][r + 2] = half_pair<B16>(lo.z * a.scale, lo.w * a.scale);
        q[1][r] = half_pair<B16>(hi.x * a.scale, hi.y * a.scale);
        q[1][r + 2] = half_pair<B16>(hi.z * a.scale, hi.w * a.scale);
    }
}

// ---- weights -----------------------------------------------------------------------------------

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

// Scores of the positions from `first` on become weights, 0 where a row does not attend. row: what
// rows g and g + 8 attend to; m, l: of these
FXI_DEVICE void part_weigh(int first, const seg_range row[2], float cap, float (*s)[4], float m[2],
                           float l[2])
{
    const int c = (int)threadIdx.x % 4;
    m[0] = m[1] = minus_inf();
    l[0] = l[1] = 0;
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int pos = first + 8 * n + 2 * c + i % 2;
            if (cap != 0) s[n][i] = cap * mathf_tanh(s[n][i] * (1 / cap));
            if (pos < row[i / 2].from || pos >= row[i / 2].end) s[n][i] = minus_inf();
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

// Weights of a part as the first operands of four steps of 16 positions.
template <bool B16> FXI_DEVICE void weights_round(const float (*s)[4], uint32_t (*w)[4])
{
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float *of = s[2 * n + i / 2] + i % 2 * 2;
            w[n][i] = half_pair<B16>(of[0], of[1]);
        }
}

#endif
