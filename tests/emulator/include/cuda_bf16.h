// cuda_bf16.h - bfloat16 for kernels on the CPU; see cuda_fp16.h.
#pragma once
#include "emu_types.h"

struct __nv_bfloat16 {
    uint16_t bits;
};
typedef __nv_bfloat16 nv_bfloat16;
struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};
typedef __nv_bfloat162 nv_bfloat162;

EMU_INLINE float __bfloat162float(__nv_bfloat16 b)
{
    return emu_f32_of_bf16(b.bits);
}

EMU_INLINE __nv_bfloat16 __float2bfloat16_rn(float f)
{
    return __nv_bfloat16{emu_bf16_of_f32(f)};
}

EMU_INLINE __nv_bfloat16 __float2bfloat16(float f)
{
    return __float2bfloat16_rn(f);
}

EMU_INLINE uint16_t __bfloat16_as_ushort(__nv_bfloat16 b)
{
    return b.bits;
}

EMU_INLINE __nv_bfloat16 __ushort_as_bfloat16(uint16_t bits)
{
    return __nv_bfloat16{bits};
}

EMU_INLINE __nv_bfloat162 __floats2bfloat162_rn(float lo, float hi)
{
    return __nv_bfloat162{__float2bfloat16_rn(lo), __float2bfloat16_rn(hi)};
}

EMU_INLINE __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 lo, __nv_bfloat16 hi)
{
    return __nv_bfloat162{lo, hi};
}

EMU_INLINE float2 __bfloat1622float2(__nv_bfloat162 v)
{
    return make_float2(__bfloat162float(v.x), __bfloat162float(v.y));
}
