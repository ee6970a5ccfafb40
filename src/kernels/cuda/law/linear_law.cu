// linear_law.cu - linear layers of f16 and bf16 weights by tensor cores, in one order whatever the
// number of rows.
//
// THE ORDER. Activations are rounded to the weights' type. k is taken in slices of 512. Within a
// slice, one chain of tensor-core steps from +0 adds 16 products at a time: of every 32 from k on
// those of k + 8 c + 0 .. 3 (c = 0 .. 3), then k + 8 c + 4 .. 7. y adds the slices from +0 on in
// ascending order, each sum rounded to f32.
//
// Weights and activations go from global memory into fragments as they lie there (cuda_pack.h), 16
// bytes at a time: lane 4 g + c has k + 8 c .. + 7 of rows g and g + 8, and of row g of the
// activations. For few rows the slices of a panel are shared out among 8 warps; for many, each warp
// has a panel and 64 rows.
#include "kernels/cuda/body/cuda_device.h"

enum { SLICE = 512, FEW_WARPS = 8, MANY_WARPS = 4, MANY_ROWS = 64 };

// One expert's share of a call, and the rows of a block.
typedef struct law_job {
    const char *panel;   // of this warp's weights
    const uint16_t *act; // [row][n_in]
    int n_in, row0, row_end;
} law_job;

template <bool B16> FXI_DEVICE void law_step(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    if (B16)
        ptx_mma_bf16(d, a, b);
    else
        ptx_mma_f16(d, a, b);
}

// Numbers k .. k + 7 of a row of activations; 0 beyond its end, and of rows that do not exist.
FXI_DEVICE uint4 act_eight(const law_job &j, int row, int k)
{
    uint4 v = {0, 0, 0, 0};
    if (row >= j.row_end) return v;
    const uint16_t *x = j.act + (size_t)row * (size_t)j.n_in + (size_t)k;
    if (j.n_in % 8 == 0 && k + 8 <= j.n_in) return ptx_load16(x);
    uint32_t word[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (k + i < j.n_in) word[i / 2] |= (uint32_t)x[i] << i % 2 * 16;
    v = uint4{word[0], word[1], word[2], word[3]};
    return v;
}

// The sums of one slice for 8 N rows: acc[n] as mma lays it out.
template <bool B16, int N> FXI_DEVICE void slice_sums(const law_job &j, int slice, float (*acc)[4])
{
    const int lane = (int)threadIdx.x % 32, g = lane / 4, c = lane % 4;
    const int k0 = slice * SLICE, k1 = min(k0 + (int)SLICE, j.n_in);
#pragma unroll
    for (int n = 0; n < N; n++) acc[n][0] = acc[n][1] = acc[n][2] = acc[n][3] = 0;
#pragma unroll 2
    for (int k = k0; k < k1; k += 32) {
        const char *tile = j.panel + (size_t)k * 32 + lane * 16; // 16 rows x 32 numbers of 2 bytes
        const uint4 w0 = ptx_load16_once(tile), w1 = ptx_load16_once(tile + 512);
        const uint32_t a0[4] = {w0.x, w1.x, w0.y, w1.y}, a1[4] = {w0.z, w1.z, w0.w, w1.w};
#pragma unroll
        for (int n = 0; n < N; n++) {
            const uint4 x = act_eight(j, j.row0 + 8 * n + g, k + 8 * c);
            const uint32_t b0[2] = {x.x, x.y}, b1[2] = {x.z, x.w};
            law_step<B16>(acc[n], a0, b0);
            law_step<B16>(acc[n], a1, b1);
        }
    }
}

template <bool B16>
FXI_DEVICE law_job law_job_of(const fxi_cuda_linear_args &a, int panel, int *begin)
{
    const int expert = (int)blockIdx.z;
    const size_t panel_bytes = (size_t)((a.w.n_in + 31) / 32) * 1024;
    law_job j = {(const char *)a.w.data + (size_t)expert * a.expert_bytes +
                     (size_t)panel * panel_bytes,
                 B16 ? a.a.b16 : a.a.f16, a.w.n_in, 0,
                 a.range ? a.range[expert + 1] : live_count(a.live, a.n_row)};
    *begin = a.range ? a.range[expert] : 0;
    return j;
}

// ---- few rows ----------------------------------------------------------------------------------

template <bool B16>
FXI_DEVICE void few_rows(const fxi_cuda_linear_args &a, const law_job &j, float (*part)[16][8])
{
    const int tid = (int)threadIdx.x, warp = tid / 32, lane = tid % 32;
    const int n_slice = (j.n_in + SLICE - 1) / SLICE, out = tid / 8 % 16, row = tid % 8;
    float y = 0;
    for (int s0 = 0; s0 < n_slice; s0 += FEW_WARPS) {
        if (s0 + warp < n_slice) {
            float acc[1][4];
            slice_sums<B16, 1>(j, s0 + warp, acc);
            for (int i = 0; i < 4; i++)
                part[warp][lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2] = acc[0][i];
        }
        __syncthreads();
        for (int s = 0; tid < 128 && s < min((int)FEW_WARPS, n_slice - s0); s++)
            y += part[s][out][row];
        __syncthreads();
    }
    const int o = (int)blockIdx.x * 16 + out;
    if (tid < 128 && j.row0 + row < j.row_end && o < a.w.n_out)
        a.y[(size_t)(j.row0 + row) * (size_t)a.w.n_out + (size_t)o] = y;
}

template <bool B16> FXI_DEVICE void linear_few(const fxi_cuda_linear_args &a, float (*part)[16][8])
{
    int begin;
    law_job j = law_job_of<B16>(a, (int)blockIdx.x, &begin);
    for (j.row0 = begin + (int)blockIdx.y * 8; j.row0 < j.row_end; j.row0 += (int)gridDim.y * 8)
        few_rows<B16>(a, j, part);
}

// ---- many rows ---------------------------------------------------------------------------------

template <bool B16>
FXI_DEVICE void many_rows(const fxi_cuda_linear_args &a, const law_job &j, int panel)
{
    enum { N = MANY_ROWS / 8 };
    const int lane = (int)threadIdx.x % 32;
    float y[N][4] = {}, acc[N][4];
    for (int s = 0; s < (j.n_in + SLICE - 1) / SLICE; s++) {
        slice_sums<B16, N>(j, s, acc);
#pragma unroll
        for (int i = 0; i < 4 * N; i++) y[i / 4][i % 4] += acc[i / 4][i % 4];
    }
#pragma unroll
    for (int i = 0; i < 4 * N; i++) {
        const int row = j.row0 + i / 4 * 8 + lane % 4 * 2 + i % 2;
        const int o = panel * 16 + lane / 4 + i % 4 / 2 * 8;
        if (row < j.row_end && o < a.w.n_out)
            a.y[(size_t)row * (size_t)a.w.n_out + (size_t)o] = y[i / 4][i % 4];
    }
}

template <bool B16> FXI_DEVICE void linear_many(const fxi_cuda_linear_args &a)
{
    const int panel = (int)blockIdx.x * MANY_WARPS + (int)threadIdx.x / 32, step = (int)gridDim.y;
    if (panel * 16 >= a.w.n_out) return;
    int begin;
    law_job j = law_job_of<B16>(a, panel, &begin);
    for (j.row0 = begin + (int)blockIdx.y * MANY_ROWS; j.row0 < j.row_end;
         j.row0 += step * MANY_ROWS)
        many_rows<B16>(a, j, panel);
}

#define LINEAR_LAW(name, B16)                                        \
    FXI_KERNEL(linear_##name##_few, linear, FEW_WARPS * 32)          \
    {                                                                \
        __shared__ float part[FEW_WARPS][16][8];                     \
        linear_few<B16>(a, part);                                    \
    }                                                                \
    FXI_CUDA_KERNEL(fxi_cuda_linear_##name##_few);                   \
    FXI_KERNEL_FOR(linear_##name##_many, linear, MANY_WARPS * 32, 3) \
    {                                                                \
        linear_many<B16>(a);                                         \
    }                                                                \
    FXI_CUDA_KERNEL(fxi_cuda_linear_##name##_many)

LINEAR_LAW(f16, false);
LINEAR_LAW(bf16, true);
