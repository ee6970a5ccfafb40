// sample.cu - kernels that use what the emulator has, each for a test of its own.
#include "kernels/cuda/ptx.h"

// ---- a sum over a block: shuffles, shared memory in a template, barriers

template <class T> FXI_DEVICE T block_sum(T v)
{
    __shared__ T part[32];
    for (int by = 16; by > 0; by /= 2) v += __shfl_xor_sync(0xFFFFFFFFu, v, by);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    T sum = 0;
    for (unsigned i = 0; i < blockDim.x / 32; i++) sum += part[i];
    __syncthreads();
    return sum;
}

extern "C" __global__ void sample_sum(const float *x, int *whole, float *sum, int n)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    const float s = block_sum(i < n ? x[i] : 0.0f);
    const int t = block_sum(i < n ? (int)x[i] : 0);
    if (threadIdx.x == 0) sum[blockIdx.x] = s, whole[blockIdx.x] = t;
}
FXI_CUDA_KERNEL(sample_sum);

// ---- tensor cores, one warp: a (16 x K) and b (8 x K) by rows, d (16 x 8)

struct sample_mma_args {
    const uint16_t *a, *b;
    float *d;
    int bf16;
};

extern "C" __global__ void sample_mma(const sample_mma_args v)
{
    __shared__ __align__(16) uint16_t a[16][16], b[8][16];
    const int lane = (int)threadIdx.x, g = lane / 4, c = lane % 4;
    ptx_async_copy16(&a[lane / 2][lane % 2 * 8], v.a + lane * 8, 16);
    if (lane < 16) ptx_async_copy16(&b[lane / 2][lane % 2 * 8], v.b + lane * 8, 16);
    ptx_async_commit();
    ptx_async_wait<0>();
    __syncwarp();
    uint32_t fa[4], fb[2];
    ptx_ldmatrix_x4(fa, &a[lane % 16][lane / 16 * 8]);
    ptx_ldmatrix_x2(fb, &b[lane % 8][lane / 8 % 2 * 8]);
    float d[4] = {0, 0, 0, 0};
    if (v.bf16)
        ptx_mma_bf16(d, fa, fb);
    else
        ptx_mma_f16(d, fa, fb);
    for (int i = 0; i < 4; i++) v.d[(g + i / 2 * 8) * 8 + 2 * c + i % 2] = d[i];
}
FXI_CUDA_KERNEL(sample_mma);

extern "C" __global__ void sample_mma_s8(const int8_t *a, const int8_t *b, int *d)
{
    const int g = (int)threadIdx.x / 4, c = (int)threadIdx.x % 4;
    uint32_t fa[4], fb[2];
    int sum[4] = {0, 0, 0, 0};
    for (int i = 0; i < 4; i++)
        fa[i] = *(const uint32_t *)(a + (g + i % 2 * 8) * 32 + i / 2 * 16 + 4 * c);
    for (int i = 0; i < 2; i++) fb[i] = *(const uint32_t *)(b + g * 32 + i * 16 + 4 * c);
    ptx_mma_s8(sum, fa, fb);
    for (int i = 0; i < 4; i++) d[(g + i / 2 * 8) * 8 + 2 * c + i % 2] = sum[i];
}
FXI_CUDA_KERNEL(sample_mma_s8);

// ---- transposes 8 x 8 numbers of 16 bits in every way that ldmatrix has; out: [6][32][4]

extern "C" __global__ void sample_ldmatrix(const uint16_t *in, uint32_t *out)
{
    FXI_DYNAMIC_SHARED(bytes);
    uint16_t *m = (uint16_t *)bytes;
    const int lane = (int)threadIdx.x;
    for (int i = lane; i < 256; i += 32) m[i] = in[i];
    __syncwarp();
    uint32_t r[6][4] = {};
    const uint16_t *row = m + lane * 8;
    ptx_ldmatrix_x1(r[0], row);
    ptx_ldmatrix_x2(r[1], row);
    ptx_ldmatrix_x4(r[2], row);
    ptx_ldmatrix_x1_trans(r[3], row);
    ptx_ldmatrix_x2_trans(r[4], row);
    ptx_ldmatrix_x4_trans(r[5], row);
    for (int i = 0; i < 24; i++) out[(i / 4 * 32 + lane) * 4 + i % 4] = r[i / 4][i % 4];
}
FXI_CUDA_KERNEL(sample_ldmatrix);

// ---- shuffles of each kind; out: [4][32]

extern "C" __global__ void sample_shuffle(const int *in, int *out)
{
    const int lane = (int)threadIdx.x, v = in[lane];
    out[lane] = __shfl_sync(0xFFFFFFFFu, v, 5);
    out[32 + lane] = __shfl_down_sync(0xFFFFFFFFu, v, 3, 8);
    out[64 + lane] = __shfl_xor_sync(0xFFFFFFFFu, v, 1);
    out[96 + lane] = lane < 16 ? __shfl_sync(0xFFFFu, v, 15 - lane) : -1;
}
FXI_CUDA_KERNEL(sample_shuffle);

// ---- a part of a block by itself, with its own barrier

extern "C" __global__ void sample_parts(const int *in, int *out)
{
    __shared__ int row[128];
    const int i = (int)threadIdx.x, half = i / 64;
    row[i] = in[i];
    ptx_barrier(1 + half, 64);
    out[i] = row[half * 64 + (i + 1) % 64];
}
FXI_CUDA_KERNEL(sample_parts);

// ---- plain ones, for launches one after the other

struct sample_scale_args {
    float *x;
    float by;
    int n;
};

extern "C" __global__ void sample_scale(const sample_scale_args a)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < a.n) a.x[i] *= a.by;
}
FXI_CUDA_KERNEL(sample_scale);

// Appends `word` to the list at `at`, whose first word is its length.
extern "C" __global__ void sample_append(int *at, int word)
{
    at[++at[0]] = word;
}
FXI_CUDA_KERNEL(sample_append);

extern "C" __global__ void sample_nothing()
{
}
FXI_CUDA_KERNEL(sample_nothing);
