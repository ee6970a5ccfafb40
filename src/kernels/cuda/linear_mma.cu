// linear_mma.cu - linear layers of f16 and bf16 weights by tensor cores, in one order whatever the
// number of rows.
//
// THE ORDER. Activations are rounded to the weights' type. k is taken in slices of 512. Within a
// slice, one chain of tensor-core steps from +0 adds 16 products at a time: of every 32 from k on
// those of k + 8 c + 0 .. 3 (c = 0 .. 3), then k + 8 c + 4 .. 7. y adds the slices from +0 on in
// ascending order, each sum rounded to f32.
//
// Weights and activations go from global memory into fragments as they lie there (cuda_pack.h), 16
// bytes at a time: lane 4 g + c has k + 8 c .. + 7 of rows g and g + 8, and of row g of the
// activations. For few and for some rows, 8 and 32 of a block, the slices of a panel are shared out
// among 8 warps; for many, each warp has a panel and 64 rows.
#include "kernels/cuda/cuda_device.h"

enum { SLICE = 512, PART_WARPS = 8, FEW = 1, SOME = 4, MANY_WARPS = 4, MANY = 8 }; // 8 rows

// One expert's share of a call, and the rows of a block.
typedef struct mma_job {
    const char *panel;   // of this warp's weights
    const uint16_t *act; // [row][n_in]
    int n_in, row0, row_end;
} mma_job;

// Numbers k .. k + 7 of a row of activations whose rows are not aligned, or end within 32 of them.
FXI_DEVICE uint4 odd_eight(const uint16_t *x, int k, int n_in)
{
    uint32_t word[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (k + i < n_in) word[i / 2] |= (uint32_t)x[k + i] << i % 2 * 16;
    return uint4{word[0], word[1], word[2], word[3]};
}

// The sums of one slice for 8 N rows: acc[n] as mma lays it out. Rows that do not exist are
// computed like the last one, and nobody takes them. EVEN: n_in is a multiple of 32.
template <bool B16, int N, bool EVEN>
FXI_DEVICE void slice_sums(const mma_job &j, int slice, float (*acc)[4])
{
    const int lane = (int)threadIdx.x % 32, g = lane / 4, c = lane % 4;
    const int k0 = slice * SLICE, k1 = min(k0 + (int)SLICE, j.n_in);
    const uint16_t *x[N];
#pragma unroll
    for (int n = 0; n < N; n++) {
        acc[n][0] = acc[n][1] = acc[n][2] = acc[n][3] = 0;
        x[n] = j.act + (size_t)min(j.row0 + 8 * n + g, j.row_end - 1) * (size_t)j.n_in;
    }
#pragma unroll(N == FEW ? 4 : N == SOME ? 2 : 1)
    for (int k = k0; k < k1; k += 32) {
        const char *tile = j.panel + (size_t)k * 32 + lane * 16; // 16 rows x 32 numbers of 2 bytes
        const uint4 w0 = ptx_load16_once(tile), w1 = ptx_load16_once(tile + 512);
        const uint32_t a0[4] = {w0.x, w1.x, w0.y, w1.y}, a1[4] = {w0.z, w1.z, w0.w, w1.w};
        uint4 v[N];
#pragma unroll
        for (int n = 0; n < N; n++)
            v[n] = EVEN ? ptx_load16(x[n] + k + 8 * c) : odd_eight(x[n], k + 8 * c, j.n_in);
#pragma unroll
        for (int n = 0; n < N; n++) {
            const uint32_t b0[2] = {v[n].x, v[n].y}, b1[2] = {v[n].z, v[n].w};
            tensor_step<B16>(acc[n], a0, b0);
            tensor_step<B16>(acc[n], a1, b1);
        }
    }
}

// The job of this block: row0 is the first row of its expert.
template <bool B16> FXI_DEVICE mma_job mma_job_of(const fxi_cuda_linear_args &a, int panel)
{
    const row_range rows = expert_rows(a);
    const size_t panel_bytes = (size_t)((a.w.n_in + 31) / 32) * 1024;
    const mma_job j = {(const char *)a.w.data + (size_t)blockIdx.z * a.expert_bytes +
                           (size_t)panel * panel_bytes,
                       B16 ? a.a.b16 : a.a.f16, a.w.n_in, rows.begin, rows.end};
    return j;
}

// ---- few and some rows -------------------------------------------------------------------------

// What the warps have summed up: [warp][output][row]. The padding spreads outputs over the banks.
template <int N> using mma_part = float[PART_WARPS][16][8 * N + (N > 1 ? 8 : 0)];

template <bool B16, int N, bool EVEN>
FXI_DEVICE void part_rows(const fxi_cuda_linear_args &a, const mma_job &j, mma_part<N> &part)
{
    enum { EACH = (N + 1) / 2, THREADS = PART_WARPS * 32 }; // sums of a thread
    const int tid = (int)threadIdx.x, warp = tid / 32, lane = tid % 32;
    const int n_slice = (j.n_in + SLICE - 1) / SLICE;
    float y[EACH] = {};
    for (int s0 = 0; s0 < n_slice; s0 += PART_WARPS) {
        if (s0 + warp < n_slice) {
            float acc[N][4];
            slice_sums<B16, N, EVEN>(j, s0 + warp, acc);
#pragma unroll
            for (int i = 0; i < 4 * N; i++)
                part[warp][lane / 4 + i % 4 / 2 * 8][i / 4 * 8 + lane % 4 * 2 + i % 2] =
                    acc[i / 4][i % 4];
        }
        __syncthreads();
        for (int s = 0; s < min((int)PART_WARPS, n_slice - s0); s++)
#pragma unroll
            for (int e = 0; e < EACH; e++)
                if (e * THREADS + tid < 128 * N)
                    y[e] += part[s][(e * THREADS + tid) / (8 * N)][tid % (8 * N)];
        __syncthreads();
    }
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int i = e * THREADS + tid, row = j.row0 + i % (8 * N);
        const int o = (int)blockIdx.x * 16 + i / (8 * N);
        if (i < 128 * N && row < j.row_end && o < a.w.n_out)
            a.y[(size_t)row * (size_t)a.w.n_out + (size_t)o] = y[e];
    }
}

template <bool B16, int N>
FXI_DEVICE void linear_part(const fxi_cuda_linear_args &a, mma_part<N> &part)
{
    mma_job j = mma_job_of<B16>(a, (int)blockIdx.x);
    for (j.row0 += (int)blockIdx.y * 8 * N; j.row0 < j.row_end; j.row0 += (int)gridDim.y * 8 * N)
        if (j.n_in % 32 == 0)
            part_rows<B16, N, true>(a, j, part);
        else
            part_rows<B16, N, false>(a, j, part);
}

// ---- many rows ---------------------------------------------------------------------------------

template <bool B16, bool EVEN>
FXI_DEVICE void many_rows(const fxi_cuda_linear_args &a, const mma_job &j, int panel)
{
    enum { N = MANY };
    const int lane = (int)threadIdx.x % 32;
    float y[N][4] = {}, acc[N][4];
    for (int s = 0; s < (j.n_in + SLICE - 1) / SLICE; s++) {
        slice_sums<B16, N, EVEN>(j, s, acc);
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
    mma_job j = mma_job_of<B16>(a, panel);
    for (j.row0 += (int)blockIdx.y * 8 * MANY; j.row0 < j.row_end; j.row0 += step * 8 * MANY)
        if (j.n_in % 32 == 0)
            many_rows<B16, true>(a, j, panel);
        else
            many_rows<B16, false>(a, j, panel);
}

#define LINEAR_PART(name, B16, N)                             \
    FXI_KERNEL_FOR(linear_##name, linear, PART_WARPS * 32, 2) \
    {                                                         \
        __shared__ mma_part<N> part;                          \
        linear_part<B16, N>(a, part);                         \
    }                                                         \
    FXI_CUDA_KERNEL(fxi_cuda_linear_##name)

#define LINEAR_MANY(name, B16)                                       \
    FXI_KERNEL_FOR(linear_##name##_many, linear, MANY_WARPS * 32, 3) \
    {                                                                \
        linear_many<B16>(a);                                         \
    }                                                                \
    FXI_CUDA_KERNEL(fxi_cuda_linear_##name##_many)

LINEAR_PART(f16_few, false, FEW);
LINEAR_PART(f16_some, false, SOME);
LINEAR_MANY(f16, false);
LINEAR_PART(bf16_few, true, FEW);
LINEAR_PART(bf16_some, true, SOME);
LINEAR_MANY(bf16, true);
