// linear_blocks.cu - linear layers of block types: integer sums by the tensor cores, which are
// exact, then the CPU's chain of fused steps over the runs that share a scale.
//
// A block has a panel (16 outputs) x 8 rows. Its 8 warps share out tiles of 32 along k, 32 of them
// at a time, and leave their sums in shared memory; then 128 threads have an output of a row each.
#include "kernels/cuda/cuda_format.h"
#include "kernels/cuda/cuda_launch.h"

enum { TILES_AT_A_TIME = 32, TILES_OF_WARP = 4 };

typedef struct block_job {
    const uint8_t *panel;
    int row0, row_end; // of the activations: up to 8 of them
} block_job;

// The sums of a tile's runs: [run][16 outputs][8 rows].
template <int type>
FXI_DEVICE void tile_sums(const fxi_cuda_linear_args &a, const block_job &j, int tile,
                          int (*sum)[16][8])
{
    constexpr code_format f = format_of(type);
    const int lane = (int)threadIdx.x % 32, g = lane / 4, c = lane % 4, row = j.row0 + g;
    uint32_t w[4], x[2] = {0, 0}; // of the activations: row g of the job, 4c .. and 16 + 4c ..
    tile_load<type>(j.panel + (size_t)tile * (size_t)format_tile_bytes(f), lane, w);
    if (row < j.row_end) {
        const int8_t *q = a.a.q + (size_t)row * (size_t)a.w.n_in + (size_t)tile * 32 + c * 4;
        x[0] = *(const uint32_t *)q;
        x[1] = *(const uint32_t *)(q + 16);
    }
    constexpr int n_run = 32 / f.sub;
    for (int run = 0; run < n_run; run++) { // of two, each multiplies the other's half with 0
        const uint32_t half[4] = {w[2 * run], w[2 * run + 1], 0, 0}, of[2] = {x[run], 0};
        int d[4] = {0, 0, 0, 0};
        if (n_run == 1)
            ptx_mma_s8(d, w, x);
        else
            ptx_mma_s8(d, half, of);
        for (int i = 0; i < 4; i++) sum[run][g + i / 2 * 8][2 * c + i % 2] = d[i];
    }
}

// One step of an output's chain. run: of the whole row
template <int type>
FXI_DEVICE float chain_run(const fxi_cuda_linear_args &a, const block_job &j, int out, int row,
                           int run, int s, float acc)
{
    constexpr code_format f = format_of(type);
    const int k = run * f.sub, n_in = a.w.n_in;
    const uint8_t *scales = j.panel + (size_t)(n_in / 32) * (size_t)format_tile_bytes(f) +
                            (size_t)(k / f.n) * (size_t)format_scale_bytes(f);
    const run_scale r = scale_load(f, scales, out, k % f.n);
    const float dx = a.a.d[((size_t)row * (size_t)n_in + (size_t)k) / 32];
    acc = fmaf(r.scale * (float)s + 0.0f, dx, acc);
    if (!f.has_min) return acc;
    const int32_t *of = a.a.sum + ((size_t)row * (size_t)n_in + (size_t)k) / 16;
    return fmaf(r.min, dx * (float)(f.sub == 32 ? of[0] + of[1] : of[0]), acc);
}

template <int type>
FXI_DEVICE void block_rows(const fxi_cuda_linear_args &a, const block_job &j, int (*sum)[16][8])
{
    constexpr int n_run = 32 / format_of(type).sub; // of a tile
    const int tid = (int)threadIdx.x, warp = tid / 32, n_tile = a.w.n_in / 32;
    const int out = tid / 8, row = j.row0 + tid % 8, o = (int)blockIdx.x * 16 + out;
    const bool is_mine = tid < 128 && row < j.row_end && o < a.w.n_out;
    float acc = 0;
    for (int t0 = 0; t0 < n_tile; t0 += TILES_AT_A_TIME) {
        for (int i = warp * TILES_OF_WARP; i < (warp + 1) * TILES_OF_WARP && t0 + i < n_tile; i++)
            tile_sums<type>(a, j, t0 + i, sum + i * n_run);
        __syncthreads();
        const int n = min((int)TILES_AT_A_TIME, n_tile - t0) * n_run;
        for (int i = 0; is_mine && i < n; i++)
            acc = chain_run<type>(a, j, out, row, t0 * n_run + i, sum[i][out][tid % 8], acc);
        __syncthreads();
    }
    if (is_mine) a.y[(size_t)row * (size_t)a.w.n_out + (size_t)o] = acc;
}

template <int type> FXI_DEVICE void linear_blocks(const fxi_cuda_linear_args &a, int (*sum)[16][8])
{
    const row_range r = expert_rows(a);
    block_job j = {(const uint8_t *)a.w.data + (size_t)blockIdx.z * a.expert_bytes +
                       (size_t)blockIdx.x * format_panel_bytes(format_of(type), a.w.n_in),
                   0, r.end};
    for (j.row0 = r.begin + (int)blockIdx.y * 8; j.row0 < r.end; j.row0 += (int)gridDim.y * 8)
        block_rows<type>(a, j, sum);
}

#define BLOCK_LINEAR(id, name)                                                       \
    FXI_KERNEL(linear_##name, linear, 256)                                           \
    {                                                                                \
        __shared__ int sum[TILES_AT_A_TIME * (32 / format_of(FXI_##id).sub)][16][8]; \
        linear_blocks<FXI_##id>(a, sum);                                             \
    }                                                                                \
    FXI_CUDA_KERNEL(fxi_cuda_linear_##name);

FXI_CUDA_BLOCK_TYPES(BLOCK_LINEAR)
