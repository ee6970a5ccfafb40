// sample.cu - kernels that use what the emulator has, each for a test of its own.
#include "kernels/cuda/ptx.h"
#include "sample.h"

#define SAMPLE(name)                                      \
    extern "C" __global__ void name(const sample_args v); \
    FXI_CUDA_KERNEL(name);                                \
    extern "C" __global__ void name([[maybe_unused]] const sample_args v)

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

// v.n floats; sums of blocks as float and as int
SAMPLE(sample_sum)
{
    const float *x = (const float *)v.a;
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    const float s = block_sum(i < v.n ? x[i] : 0.0f);
    const int t = block_sum(i < v.n ? (int)x[i] : 0);
    if (threadIdx.x == 0) ((float *)v.out)[blockIdx.x] = s, ((int *)v.more)[blockIdx.x] = t;
}

// ---- tensor cores, one warp: a (16 x K) and b (8 x K) by rows, out (16 x 8)

// v.n: they are bf16
SAMPLE(sample_mma)
{
    const uint16_t(*a)[16] = (const uint16_t(*)[16])v.a, (*b)[16] = (const uint16_t(*)[16])v.b;
    const int lane = (int)threadIdx.x, g = lane / 4, c = lane % 4;
    uint32_t fa[4], fb[2];
    for (int i = 0; i < 4; i++) fa[i] = *(const uint32_t *)&a[g + i % 2 * 8][2 * c + i / 2 * 8];
    for (int i = 0; i < 2; i++) fb[i] = *(const uint32_t *)&b[g][2 * c + i * 8];
    float d[4] = {0, 0, 0, 0};
    if (v.n)
        ptx_mma_bf16(d, fa, fb);
    else
        ptx_mma_f16(d, fa, fb);
    for (int i = 0; i < 4; i++) ((float *)v.out)[(g + i / 2 * 8) * 8 + 2 * c + i % 2] = d[i];
}

SAMPLE(sample_mma_s8)
{
    const int8_t *a = (const int8_t *)v.a, *b = (const int8_t *)v.b;
    const int g = (int)threadIdx.x / 4, c = (int)threadIdx.x % 4;
    uint32_t fa[4], fb[2];
    int sum[4] = {0, 0, 0, 0};
    for (int i = 0; i < 4; i++)
        fa[i] = *(const uint32_t *)(a + (g + i % 2 * 8) * 32 + i / 2 * 16 + 4 * c);
    for (int i = 0; i < 2; i++) fb[i] = *(const uint32_t *)(b + g * 32 + i * 16 + 4 * c);
    ptx_mma_s8(sum, fa, fb);
    for (int i = 0; i < 4; i++) ((int *)v.out)[(g + i / 2 * 8) * 8 + 2 * c + i % 2] = sum[i];
}

// ---- transposes four times 8 x 8 numbers of 16 bits, which come by cp.async; out: [32][4]

SAMPLE(sample_ldmatrix)
{
    FXI_DYNAMIC_SHARED(bytes);
    const int lane = (int)threadIdx.x;
    uint32_t r[4];
    ptx_async_copy16(bytes + lane * 16, (const char *)v.a + lane * 16);
    ptx_async_commit();
    ptx_async_wait<0>();
    __syncwarp();
    ptx_ldmatrix_x4_trans(r, bytes + lane * 16);
    for (int i = 0; i < 4; i++) ((uint32_t *)v.out)[lane * 4 + i] = r[i];
}

// ---- shuffles of each kind; out: [4][32]

SAMPLE(sample_shuffle)
{
    int *out = (int *)v.out;
    const int lane = (int)threadIdx.x, x = ((const int *)v.a)[lane];
    out[lane] = __shfl_sync(0xFFFFFFFFu, x, 5);
    out[32 + lane] = __shfl_down_sync(0xFFFFFFFFu, x, 3, 8);
    out[64 + lane] = __shfl_xor_sync(0xFFFFFFFFu, x, 1);
    out[96 + lane] = lane < 16 ? __shfl_sync(0xFFFFu, x, 15 - lane) : -1;
}

// ---- plain ones, for launches one after the other

SAMPLE(sample_scale)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < v.n) ((float *)v.out)[i] *= v.by;
}

// Appends v.n to the list in `out`, whose first word is its length.
SAMPLE(sample_append)
{
    int *at = (int *)v.out;
    at[++at[0]] = v.n;
}
