// cuda_device.h - what all kernels share: how many rows there are, activations in the forms that
// linear layers read, sum16 by the lanes of a warp, norms.
//
// The bits are those of kernels.h only if products and sums are rounded one by one, as written:
// nvcc needs -fmad=false and its defaults for division and square root (-prec-div=true,
// -prec-sqrt=true, -ftz=false).
#ifndef FXI_KERNELS_CUDA_DEVICE_H
#define FXI_KERNELS_CUDA_DEVICE_H

#include "kernels/cuda/cuda_args.h"
#include "kernels/cuda/ptx.h"

#define FXI_MATH_FN FXI_DEVICE
#include "kernels/ref/mathf_text.h"

// A kernel of blocks of n threads: FXI_KERNEL(embed, embed, 256) { .. } FXI_CUDA_KERNEL(..)
#define FXI_KERNEL(name, args, n) \
    extern "C" __global__ void __launch_bounds__(n) fxi_cuda_##name(const fxi_cuda_##args##_args a)

// The same, of which at least n_block are to run on a multiprocessor at a time: registers are
// allotted for that, and no fewer.
#define FXI_KERNEL_FOR(name, args, n, n_block)               \
    extern "C" __global__ void __launch_bounds__(n, n_block) \
        fxi_cuda_##name(const fxi_cuda_##args##_args a)

#define WHOLE_WARP 0xffffffffu

FXI_DEVICE float minus_inf(void)
{
    return __int_as_float((int)0xff800000);
}

// How many rows, tiles or places count.
FXI_DEVICE int live_count(const fxi_cuda_count &c)
{
    return c.live ? *c.live : c.most;
}

// Number i of an array of a float type.
FXI_DEVICE float float_number(int type, const void *data, size_t i)
{
    if (type == FXI_F32) return ((const float *)data)[i];
    const uint16_t h = ((const uint16_t *)data)[i];
    return type == FXI_F16 ? ptx_f32_of_f16(h) : ptx_f32_of_bf16(h);
}

// d += a b, of numbers of 16 bits.
template <bool B16>
FXI_DEVICE void tensor_step(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    if (B16)
        ptx_mma_bf16(d, a, b);
    else
        ptx_mma_f16(d, a, b);
}

// The rows of this block's expert in a linear layer.
typedef struct row_range {
    int begin, end;
} row_range;

FXI_DEVICE row_range expert_rows(const fxi_cuda_linear_args &a)
{
    const row_range all = {0, a.range ? 0 : live_count(a.count)};
    if (!a.range) return all;
    const row_range some = {a.range[blockIdx.z], a.range[blockIdx.z + 1]};
    return some;
}

// ---- activations -------------------------------------------------------------------------------

// Rounds a block of 32 numbers to Q8, each lane of the warp with its own. Returns its integer.
FXI_DEVICE int quant_lane(float v, float *d)
{
    float amax = fabsf(v);
    for (int h = 16; h; h /= 2) amax = fmaxf(amax, __shfl_xor_sync(WHOLE_WARP, amax, h));
    const float inv = 1 / (amax / 127);
    const bool is_zero = isinf(inv);
    *d = is_zero ? 0 : amax / 127;
    const float r = is_zero ? 0 : rintf(v * inv);
    return (int)fminf(fmaxf(r, -127), 127);
}

// As part of act_put, where the row is wanted as Q8.
FXI_DEVICE void act_put_q8(const fxi_cuda_act &a, size_t at, float v)
{
    const int lane = (int)threadIdx.x % 32;
    float d;
    const int q = quant_lane(v, &d);
    int sum = q;
    for (int h = 8; h; h /= 2) sum += __shfl_xor_sync(WHOLE_WARP, sum, h);
    a.q[at] = (int8_t)q;
    if (lane == 0) a.d[at / 32] = d;
    if (lane % 16 == 0) a.sum[at / 16] = sum;
}

// Writes number i of a row of n in every form that is wanted. Rows that are wanted as Q8 have a
// multiple of 32 numbers, and the lanes of a warp write 32 neighbours of one block.
FXI_DEVICE void act_put(const fxi_cuda_act &a, int row, int n, int i, float v)
{
    const size_t at = (size_t)row * (size_t)n + (size_t)i;
    if (a.x) a.x[at] = v;
    if (a.f16) a.f16[at] = ptx_f16_of_f32(v);
    if (a.b16) a.b16[at] = ptx_bf16_of_f32(v);
    if (a.q) act_put_q8(a, at, v);
}

// ---- sum16 and norms ---------------------------------------------------------------------------

// The end of sum16: lanes 0 to 15 (16 to 31) of the warp have its 16 sums; all get the fold.
FXI_DEVICE float fold_lanes(float s)
{
    for (int h = 8; h; h /= 2) s += __shfl_down_sync(WHOLE_WARP, s, h, 16);
    return __shfl_sync(WHOLE_WARP, s, 0, 16);
}

typedef struct norm_stats {
    float mean, scale;
} norm_stats;

// Of n numbers at x; by a whole warp, whose halves compute the same.
FXI_DEVICE norm_stats norm_measure(const fxi_cuda_norm &w, const float *x)
{
    const int lane = (int)threadIdx.x % 16, n = w.n;
    float s = 0, mean = 0;
    if (!w.is_rms) {
        for (int i = lane; i < n; i += 16) s += x[i];
        mean = fold_lanes(s) / (float)n;
        s = 0;
    }
    for (int i = lane; i < n; i += 16) {
        const float c = w.is_rms ? x[i] : x[i] - mean;
        s = fmaf(c, c, s);
    }
    const norm_stats r = {mean, 1 / sqrtf(fold_lanes(s) / (float)n + w.eps)};
    return r;
}

// Number i of a run whose weights begin at number w0.
FXI_DEVICE float norm_apply(const fxi_cuda_norm &w, const norm_stats &s, int w0, int i, float x)
{
    if (w.is_rms) return x * s.scale * w.w[w0 + i];
    const float v = (x - s.mean) * s.scale;
    return w.b ? fmaf(v, w.w[w0 + i], w.b[w0 + i]) : v * w.w[w0 + i];
}

#endif
