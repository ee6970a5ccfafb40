// cuda_fp16.h - half precision for kernels on the CPU: the part of CUDA's header of this name that
// kernels use. It stands in for the toolkit's, also where there is one, so that a kernel compiles
// alike on every machine.
#pragma once
#include "emu_types.h"

struct __half {
    uint16_t bits;
};
typedef __half half;
struct alignas(4) __half2 {
    __half x, y;
};
typedef __half2 half2;

EMU_INLINE float __half2float(__half h)
{
    return emu_f32_of_f16(h.bits);
}

EMU_INLINE __half __float2half_rn(float f)
{
    return __half{emu_f16_of_f32(f)};
}

EMU_INLINE __half __float2half(float f)
{
    return __float2half_rn(f);
}

EMU_INLINE uint16_t __half_as_ushort(__half h)
{
    return h.bits;
}

EMU_INLINE __half __ushort_as_half(uint16_t bits)
{
    return __half{bits};
}

EMU_INLINE __half2 __floats2half2_rn(float lo, float hi)
{
    return __half2{__float2half_rn(lo), __float2half_rn(hi)};
}

EMU_INLINE __half2 __halves2half2(__half lo, __half hi)
{
    return __half2{lo, hi};
}

EMU_INLINE float2 __half22float2(__half2 v)
{
    return make_float2(__half2float(v.x), __half2float(v.y));
}

EMU_INLINE float __low2float(__half2 v)
{
    return __half2float(v.x);
}

EMU_INLINE float __high2float(__half2 v)
{
    return __half2float(v.y);
}
