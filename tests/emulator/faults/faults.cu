// faults.cu - kernels with one planted fault each. The line that must be found ends in a comment
// that names its kernel: "fault: KERNEL". Beside some of them stands the same without the fault,
// which must pass.
#include "kernels/cuda/ptx.h"

// ---- shared memory

extern "C" __global__ void no_barrier(const float *in, float *out)
{
    __shared__ float row[64];
    row[threadIdx.x] = in[threadIdx.x];
    out[threadIdx.x] = row[63 - threadIdx.x]; // fault: no_barrier
}
FXI_CUDA_KERNEL(no_barrier);

extern "C" __global__ void with_barrier(const float *in, float *out)
{
    __shared__ float row[64];
    row[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[64 * blockIdx.x + threadIdx.x] = row[63 - threadIdx.x];
}
FXI_CUDA_KERNEL(with_barrier);

// The first warp writes the next round's row while the second may still read this one's.
extern "C" __global__ void no_second_barrier(const float *in, float *out)
{
    __shared__ float sum;
    for (int i = 0; i < 2; i++) {
        if (threadIdx.x == 0) sum = in[i]; // fault: no_second_barrier
        __syncthreads();
        out[64 * i + threadIdx.x] = sum;
    }
}
FXI_CUDA_KERNEL(no_second_barrier);

extern "C" __global__ void no_syncwarp(const float *in, float *out)
{
    __shared__ float row[32];
    row[threadIdx.x] = in[threadIdx.x];
    const float other = __shfl_xor_sync(0xFFFFFFFFu, in[threadIdx.x], 1); // orders no memory
    out[threadIdx.x] = row[threadIdx.x ^ 1] + other;                      // fault: no_syncwarp
}
FXI_CUDA_KERNEL(no_syncwarp);

extern "C" __global__ void with_syncwarp(const float *in, float *out)
{
    __shared__ float row[32];
    row[threadIdx.x] = in[threadIdx.x];
    __syncwarp();
    out[threadIdx.x] = row[threadIdx.x ^ 1];
    __syncwarp();
    row[threadIdx.x] = 0;
}
FXI_CUDA_KERNEL(with_syncwarp);

extern "C" __global__ void unwritten_shared(const float *in, float *out)
{
    __shared__ float row[64];
    if (threadIdx.x % 2 == 0) row[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = row[threadIdx.x]; // fault: unwritten_shared
}
FXI_CUDA_KERNEL(unwritten_shared);

extern "C" __global__ void beyond_dynamic(float *out)
{
    FXI_DYNAMIC_SHARED(bytes);
    float *row = (float *)bytes;
    row[threadIdx.x + 1] = 1; // fault: beyond_dynamic
    __syncthreads();
    out[threadIdx.x] = row[threadIdx.x + 1];
}
FXI_CUDA_KERNEL(beyond_dynamic);

// ---- device memory

extern "C" __global__ void beyond_global(const float *in, float *out)
{
    out[threadIdx.x] = in[threadIdx.x + 1]; // fault: beyond_global
}
FXI_CUDA_KERNEL(beyond_global);

extern "C" __global__ void unwritten_global(const float *, float *out)
{
    out[threadIdx.x] += 1; // fault: unwritten_global
}
FXI_CUDA_KERNEL(unwritten_global);

extern "C" __global__ void race_of_blocks(const float *in, float *out)
{
    out[threadIdx.x] = in[threadIdx.x]; // fault: race_of_blocks
}
FXI_CUDA_KERNEL(race_of_blocks);

extern "C" __global__ void read_of_other_block(const float *in, float *out)
{
    out[blockIdx.x * 64 + threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    if (blockIdx.x == 1) out[64 + threadIdx.x] += out[threadIdx.x]; // fault: read_of_other_block
}
FXI_CUDA_KERNEL(read_of_other_block);

// The last block to come adds what the others have written, as the fence and the atomic allow.
extern "C" __global__ void last_block_adds(const float *in, float *out)
{
    __shared__ int last;
    out[blockIdx.x * 64 + threadIdx.x] = in[threadIdx.x];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicAdd((int *)out + 256, 1) == (int)gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    float sum = 0;
    for (unsigned i = 0; i < gridDim.x; i++) sum += out[i * 64 + threadIdx.x];
    out[128 + threadIdx.x] = sum;
}
FXI_CUDA_KERNEL(last_block_adds);

extern "C" __global__ void misaligned_float4(const float *in, float *out)
{
    const float4 v = ptx_load_f32x4(in + threadIdx.x); // fault: misaligned_float4
    out[threadIdx.x] = v.x + v.w;
}
FXI_CUDA_KERNEL(misaligned_float4);

extern "C" __global__ void misaligned_plain_float4(const float *in, float *out)
{
    const float4 v = *(const float4 *)(in + threadIdx.x); // fault: misaligned_plain_float4
    out[threadIdx.x] = v.x + v.w;
}
FXI_CUDA_KERNEL(misaligned_plain_float4);

// ---- how threads meet

extern "C" __global__ void divergent_barrier(const float *in, float *out)
{
    if (threadIdx.x < 32)
        __syncthreads(); // fault: divergent_barrier
    else
        __syncthreads(); // fault: divergent_barrier
    out[threadIdx.x] = in[threadIdx.x];
}
FXI_CUDA_KERNEL(divergent_barrier);

extern "C" __global__ void barrier_after_return(const float *in, float *out)
{
    if (threadIdx.x >= 40) return;
    __syncthreads(); // fault: barrier_after_return
    out[threadIdx.x] = in[threadIdx.x];
}
FXI_CUDA_KERNEL(barrier_after_return);

extern "C" __global__ void barrier_in_branch(const float *in, float *out)
{
    if (in[threadIdx.x] > 0) __syncthreads();                     // fault: barrier_in_branch
    const float v = __shfl_sync(0xFFFFFFFFu, in[threadIdx.x], 0); // fault: barrier_in_branch
    out[threadIdx.x] = v;
}
FXI_CUDA_KERNEL(barrier_in_branch);

extern "C" __global__ void shuffle_from_nobody(const float *in, float *out)
{
    float v = in[threadIdx.x];
    if (threadIdx.x % 32 < 16) {
        v = __shfl_down_sync(0xFFFFu, v, 8); // fault: shuffle_from_nobody
    }
    out[threadIdx.x] = v;
}
FXI_CUDA_KERNEL(shuffle_from_nobody);

extern "C" __global__ void shuffle_with_the_gone(const float *in, float *out)
{
    const float v = in[threadIdx.x];
    if (threadIdx.x == 7) return;
    out[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFFu, v, 1); // fault: shuffle_with_the_gone
}
FXI_CUDA_KERNEL(shuffle_with_the_gone);

extern "C" __global__ void uneven_mask(const float *in, float *out)
{
    const unsigned mask = threadIdx.x < 16 ? 0xFFFFu : 0xFFFFFFFFu;
    out[threadIdx.x] = __shfl_xor_sync(mask, in[threadIdx.x], 1); // fault: uneven_mask
}
FXI_CUDA_KERNEL(uneven_mask);

// ---- cp.async

// 16 threads copy 64 floats.
FXI_DEVICE bool copies()
{
    return threadIdx.x < 16;
}

extern "C" __global__ void no_async_wait(const float *in, float *out)
{
    __shared__ __align__(16) float row[64];
    const int at = 4 * (int)threadIdx.x;
    if (copies()) ptx_async_copy16(row + at, in + at, 16);
    ptx_async_commit();
    __syncthreads();
    out[threadIdx.x] = row[threadIdx.x]; // fault: no_async_wait
    ptx_async_wait<0>();
}
FXI_CUDA_KERNEL(no_async_wait);

extern "C" __global__ void async_wait_without_barrier(const float *in, float *out)
{
    __shared__ __align__(16) float row[64];
    const int at = 4 * (int)threadIdx.x;
    if (copies()) ptx_async_copy16(row + at, in + at, 16);
    ptx_async_commit();
    ptx_async_wait<0>();
    out[threadIdx.x] = row[threadIdx.x]; // fault: async_wait_without_barrier
}
FXI_CUDA_KERNEL(async_wait_without_barrier);

extern "C" __global__ void async_never_waited(const float *in, float *)
{
    __shared__ __align__(16) float row[64];
    const int at = 4 * (int)threadIdx.x;
    if (copies()) ptx_async_copy16(row + at, in + at, 16); // fault: async_never_waited
}
FXI_CUDA_KERNEL(async_never_waited);

extern "C" __global__ void async_overwrites_what_is_read(const float *in, float *out)
{
    __shared__ __align__(16) float row[64];
    const int at = 4 * (int)threadIdx.x;
    row[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = row[63 - threadIdx.x];
    if (copies()) ptx_async_copy16(row + at, in + at, 16); // fault: async_overwrites_what_is_read
    ptx_async_commit();
    __syncthreads();
    ptx_async_wait<0>();
}
FXI_CUDA_KERNEL(async_overwrites_what_is_read);

extern "C" __global__ void async_source_overwritten(const float *in, float *out)
{
    __shared__ __align__(16) float row[64];
    const int at = 4 * (int)threadIdx.x;
    out[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    if (copies()) ptx_async_copy16(row + at, out + at, 16); // fault: async_source_overwritten
    ptx_async_commit();
    out[63 - threadIdx.x] = 0; // fault: async_source_overwritten
    ptx_async_wait<0>();
}
FXI_CUDA_KERNEL(async_source_overwritten);

// ---- right, with everything that orders accesses

extern "C" __global__ void right_parts(const float *in, float *out)
{
    __shared__ float row[64];
    const int half = (int)threadIdx.x / 32;
    row[threadIdx.x] = in[threadIdx.x];
    __syncwarp();
    const float mine = row[threadIdx.x ^ 1];
    __syncwarp();
    row[threadIdx.x] = mine;
    ptx_barrier(1 + half, 32);
    out[threadIdx.x] = row[32 * half + 31 - (int)threadIdx.x % 32];
    ptx_barrier(3, 64);
    row[63 - threadIdx.x] = 0;
}
FXI_CUDA_KERNEL(right_parts);

// ---- for the profile: one access that is good and one that is not, of each memory

extern "C" __global__ void slow_strides(const float *in, float *out)
{
    __shared__ float tile[32][32];
    const int lane = (int)threadIdx.x;
    for (int i = 0; i < 32; i++) tile[i][lane] = in[32 * i + lane]; // good
    __syncwarp();
    for (int i = 0; i < 32; i++) out[32 * lane + i] = tile[lane][i]; // bad
}
FXI_CUDA_KERNEL(slow_strides);
