// emu_types.h - CUDA's keywords and types, for a compiler of C++; and the numbers of 16 bits.
//
// Shared memory is thread-local memory of the host thread that runs the block: block-local, and it
// works in templates and inline functions. Dynamic shared memory comes from FXI_DYNAMIC_SHARED of
// kernels/cuda/ptx.h.
#pragma once
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EMU_ATTRIBUTE_NOT_CHECKED __attribute__((no_sanitize("thread", "alignment", "undefined")))
// Code of the emulator in a kernel's translation unit, which the checked build does not look at.
#define EMU_NOT_CHECKED           EMU_ATTRIBUTE_NOT_CHECKED __attribute__((noinline))
#define EMU_INLINE                static inline __attribute__((always_inline, unused))

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__   thread_local
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__    __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned nx = 1, unsigned ny = 1, unsigned nz = 1) : x(nx), y(ny), z(nz)
    {
    }
};

#define EMU_VECTORS(T, name, align2, align4)              \
    struct alignas(align2) name##2                        \
    {                                                     \
        T x, y;                                           \
    };                                                    \
    struct name##3                                        \
    {                                                     \
        T x, y, z;                                        \
    };                                                    \
    struct alignas(align4) name##4                        \
    {                                                     \
        T x, y, z, w;                                     \
    };                                                    \
    EMU_INLINE name##2 make_##name##2(T x, T y)           \
    {                                                     \
        return name##2 {x, y};                            \
    }                                                     \
    EMU_INLINE name##3 make_##name##3(T x, T y, T z)      \
    {                                                     \
        return name##3 {x, y, z};                         \
    }                                                     \
    EMU_INLINE name##4 make_##name##4(T x, T y, T z, T w) \
    {                                                     \
        return name##4 {x, y, z, w};                      \
    }
EMU_VECTORS(float, float, 8, 16)
EMU_VECTORS(int, int, 8, 16)
EMU_VECTORS(short, short, 4, 8)
EMU_VECTORS(unsigned short, ushort, 4, 8)
EMU_VECTORS(signed char, char, 2, 4)
EMU_VECTORS(unsigned char, uchar, 2, 4)
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(16) longlong2 {
    long long x, y;
};
struct alignas(16) ulonglong2 {
    unsigned long long x, y;
};
struct alignas(16) double2 {
    double x, y;
};

EMU_INLINE uint3 make_uint3(unsigned x, unsigned y, unsigned z)
{
    return uint3{x, y, z};
}

EMU_INLINE uint2 make_uint2(unsigned x, unsigned y)
{
    return uint2{x, y};
}

EMU_INLINE uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return uint4{x, y, z, w};
}

EMU_INLINE float __uint_as_float(unsigned u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

EMU_INLINE unsigned __float_as_uint(float f)
{
    unsigned u;
    memcpy(&u, &f, sizeof u);
    return u;
}

EMU_INLINE float __int_as_float(int i)
{
    return __uint_as_float((unsigned)i);
}

EMU_INLINE int __float_as_int(float f)
{
    return (int)__float_as_uint(f);
}

EMU_INLINE float emu_f32_of_bf16(uint16_t bits)
{
    return __uint_as_float((unsigned)bits << 16);
}

// Rounds to nearest, ties to even; a NaN becomes the one that the hardware makes.
EMU_INLINE uint16_t emu_bf16_of_f32(float f)
{
    unsigned u = __float_as_uint(f);
    if (f != f) return 0x7FFF;
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

EMU_INLINE float emu_f32_of_f16(uint16_t bits)
{
    unsigned sign = (unsigned)(bits & 0x8000) << 16, e = bits >> 10 & 31, m = bits & 0x3FFu;
    if (e == 0) { // a multiple of 2^-24
        float f = (float)m * 0x1p-24f;
        return __uint_as_float(__float_as_uint(f) | sign);
    }
    if (e == 31) return __uint_as_float(sign | 0x7F800000u | m << 13);
    return __uint_as_float(sign | (e + 112) << 23 | m << 13);
}

EMU_INLINE uint16_t emu_f16_of_f32(float f)
{
    unsigned u = __float_as_uint(f), sign = u >> 16 & 0x8000u;
    u &= 0x7FFFFFFFu;
    if (u > 0x7F800000u) return 0x7FFF;
    if (u >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u); // rounds to infinity, or is it
    if (u < 0x38800000u) { // the addition rounds to a multiple of 2^-24
        float small = __uint_as_float(u) + 0.5f;
        return (uint16_t)(sign | (__float_as_uint(small) - 0x3F000000u));
    }
    return (uint16_t)(sign | (((u + 0xFFFu + (u >> 13 & 1)) >> 13) - (112u << 10)));
}

// 16 bytes as one access, so that the checked build sees what the device does.
typedef uint32_t emu_vector16 __attribute__((vector_size(16)));

EMU_INLINE uint4 emu_load16(const void *at)
{
    const emu_vector16 v = *(const emu_vector16 *)at;
    return uint4{v[0], v[1], v[2], v[3]};
}

EMU_INLINE void emu_store16(void *at, uint4 v)
{
    *(emu_vector16 *)at = emu_vector16{v.x, v.y, v.z, v.w};
}
