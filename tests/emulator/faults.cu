// faults.cu - kernels with one planted fault each. The line that must be found ends in a comment
// that names its kernel: "fault: KERNEL". Some have a twin without the fault, which must pass.
#include "kernels/cuda/ptx.h"

struct plant_args {
    const float *in;
    float *out;
};

#define PLANT(name)                                       \
    static void name##_body(const float *in, float *out); \
    extern "C" __global__ void name(const plant_args a)   \
    {                                                     \
        name##_body(a.in, a.out);                         \
    }                                                     \
    FXI_CUDA_KERNEL(name);                                \
    static void name##_body([[maybe_unused]] const float *in, [[maybe_unused]] float *out)

// ---- shared memory

PLANT(no_barrier)
{
    __shared__ float row[64];
    row[threadIdx.x] = in[threadIdx.x];
    out[threadIdx.x] = row[63 - threadIdx.x]; // fault: no_barrier
}

PLANT(with_barrier)
{
    __shared__ float row[64];
    row[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[64 * blockIdx.x + threadIdx.x] = row[63 - threadIdx.x];
}

// The first warp writes the next round's row while the second may still read this one's.
PLANT(no_second_barrier)
{
    __shared__ float sum;
    for (int i = 0; i < 2; i++) {
        if (threadIdx.x == 0) sum = in[i]; // fault: no_second_barrier
        __syncthreads();
        out[64 * i + threadIdx.x] = sum;
    }
}

PLANT(no_syncwarp)
{
    __shared__ float row[32];
    row[threadIdx.x] = in[threadIdx.x];
    const float other = __shfl_xor_sync(0xFFFFFFFFu, in[threadIdx.x], 1); // orders no memory
    out[threadIdx.x] = row[threadIdx.x ^ 1] + other;                      // fault: no_syncwarp
}

PLANT(with_syncwarp)
{
    __shared__ float row[32];
    row[threadIdx.x] = in[threadIdx.x];
    __syncwarp();
    out[threadIdx.x] = row[threadIdx.x ^ 1];
    __syncwarp();
    row[threadIdx.x] = 0;
}

PLANT(unwritten_shared)
{
    __shared__ float row[64];
    if (threadIdx.x % 2 == 0) row[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = row[threadIdx.x]; // fault: unwritten_shared
}

PLANT(beyond_dynamic)
{
    FXI_DYNAMIC_SHARED(bytes);
    float *row = (float *)bytes;
    row[threadIdx.x + 1] = 1; // fault: beyond_dynamic
    __syncthreads();
    out[threadIdx.x] = row[threadIdx.x + 1];
}

// ---- device memory

PLANT(beyond_global)
{
    out[threadIdx.x] = in[threadIdx.x + 1]; // fault: beyond_global
}

PLANT(unwritten_global)
{
    out[threadIdx.x] += 1; // fault: unwritten_global
}

PLANT(race_of_blocks)
{
    out[threadIdx.x] = in[threadIdx.x]; // fault: race_of_blocks
}

PLANT(read_of_other_block)
{
    out[blockIdx.x * 64 + threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    if (blockIdx.x == 1) out[64 + threadIdx.x] += out[threadIdx.x]; // fault: read_of_other_block
}

PLANT(misaligned_float4)
{
    const float4 v = ptx_load_f32x4(in + threadIdx.x); // fault: misaligned_float4
    out[threadIdx.x] = v.x + v.w;
}

PLANT(misaligned_plain_float4)
{
    const float4 v = *(const float4 *)(in + threadIdx.x); // fault: misaligned_plain_float4
    out[threadIdx.x] = v.x + v.w;
}

// ---- how threads meet

PLANT(divergent_barrier)
{
    if (threadIdx.x < 32)
        __syncthreads(); // fault: divergent_barrier
    else
        __syncthreads(); // fault: divergent_barrier
    out[threadIdx.x] = in[threadIdx.x];
}

PLANT(barrier_after_return)
{
    if (threadIdx.x >= 40) return;
    __syncthreads(); // fault: barrier_after_return
    out[threadIdx.x] = in[threadIdx.x];
}

PLANT(barrier_in_branch)
{
    if (in[threadIdx.x] > 0) __syncthreads();                     // fault: barrier_in_branch
    const float v = __shfl_sync(0xFFFFFFFFu, in[threadIdx.x], 0); // fault: barrier_in_branch
    out[threadIdx.x] = v;
}

PLANT(shuffle_from_nobody)
{
    float v = in[threadIdx.x];
    if (threadIdx.x % 32 < 16) {
        v = __shfl_down_sync(0xFFFFu, v, 8); // fault: shuffle_from_nobody
    }
    out[threadIdx.x] = v;
}

PLANT(shuffle_with_the_gone)
{
    const float v = in[threadIdx.x];
    if (threadIdx.x == 7) return;
    out[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFFu, v, 1); // fault: shuffle_with_the_gone
}

PLANT(uneven_mask)
{
    const unsigned mask = threadIdx.x < 16 ? 0xFFFFu : 0xFFFFFFFFu;
    out[threadIdx.x] = __shfl_xor_sync(mask, in[threadIdx.x], 1); // fault: uneven_mask
}

// ---- cp.async

// 16 threads copy 64 floats.
FXI_DEVICE bool copies()
{
    return threadIdx.x < 16;
}

PLANT(no_async_wait)
{
    __shared__ __align__(16) float row[64];
    const int at = 4 * (int)threadIdx.x;
    if (copies()) ptx_async_copy16(row + at, in + at);
    ptx_async_commit();
    __syncthreads();
    out[threadIdx.x] = row[threadIdx.x]; // fault: no_async_wait
    ptx_async_wait<0>();
}

PLANT(async_wait_without_barrier)
{
    __shared__ __align__(16) float row[64];
    const int at = 4 * (int)threadIdx.x;
    if (copies()) ptx_async_copy16(row + at, in + at);
    ptx_async_commit();
    ptx_async_wait<0>();
    out[threadIdx.x] = row[threadIdx.x]; // fault: async_wait_without_barrier
}

PLANT(async_never_waited)
{
    __shared__ __align__(16) float row[64];
    const int at = 4 * (int)threadIdx.x;
    if (copies()) ptx_async_copy16(row + at, in + at); // fault: async_never_waited
}

PLANT(async_overwrites_what_is_read)
{
    __shared__ __align__(16) float row[64];
    const int at = 4 * (int)threadIdx.x;
    row[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = row[63 - threadIdx.x];
    if (copies()) ptx_async_copy16(row + at, in + at); // fault: async_overwrites_what_is_read
    ptx_async_commit();
    __syncthreads();
    ptx_async_wait<0>();
}

PLANT(async_source_overwritten)
{
    __shared__ __align__(16) float row[64];
    const int at = 4 * (int)threadIdx.x;
    out[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    if (copies()) ptx_async_copy16(row + at, out + at); // fault: async_source_overwritten
    ptx_async_commit();
    out[63 - threadIdx.x] = 0; // fault: async_source_overwritten
    ptx_async_wait<0>();
}
