// emu_math.h - CUDA's arithmetic intrinsics. Only those whose result the device defines to the bit:
// __expf, __fdividef and the like are not here, so that a kernel with them does not compile.
#pragma once
#include "emu_types.h"

// ---- rounding to nearest even, never contracted (-ffp-contract=off)

EMU_INLINE float __fadd_rn(float a, float b)
{
    return a + b;
}

EMU_INLINE float __fsub_rn(float a, float b)
{
    return a - b;
}

EMU_INLINE float __fmul_rn(float a, float b)
{
    return a * b;
}

EMU_INLINE float __fmaf_rn(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}

EMU_INLINE float __fdiv_rn(float a, float b)
{
    return a / b;
}

EMU_INLINE float __frcp_rn(float a)
{
    return 1.0f / a;
}

EMU_INLINE float __fsqrt_rn(float a)
{
    return __builtin_sqrtf(a);
}

EMU_INLINE double __dadd_rn(double a, double b)
{
    return a + b;
}

EMU_INLINE double __dmul_rn(double a, double b)
{
    return a * b;
}

EMU_INLINE double __fma_rn(double a, double b, double c)
{
    return __builtin_fma(a, b, c);
}

EMU_INLINE float __saturatef(float a)
{
    return a > 0.0f ? (a < 1.0f ? a : 1.0f) : 0.0f;
}

// ---- conversions; what does not fit becomes the nearest integer that does, a NaN 0

EMU_INLINE int emu_int_of(float whole)
{
    if (whole != whole) return 0;
    if (whole >= 0x1p31f) return 0x7FFFFFFF;
    return whole <= -0x1p31f ? (int)0x80000000 : (int)whole;
}

EMU_INLINE int __float2int_rn(float a)
{
    return emu_int_of(__builtin_rintf(a));
}

EMU_INLINE int __float2int_rz(float a)
{
    return emu_int_of(__builtin_truncf(a));
}

EMU_INLINE int __float2int_rd(float a)
{
    return emu_int_of(__builtin_floorf(a));
}

EMU_INLINE int __float2int_ru(float a)
{
    return emu_int_of(__builtin_ceilf(a));
}

EMU_INLINE float __int2float_rn(int a)
{
    return (float)a;
}

EMU_INLINE float __uint2float_rn(unsigned a)
{
    return (float)a;
}

EMU_INLINE float __double2float_rn(double a)
{
    return (float)a;
}

// ---- bits

EMU_INLINE int __popc(unsigned a)
{
    return __builtin_popcount(a);
}

EMU_INLINE int __popcll(unsigned long long a)
{
    return __builtin_popcountll(a);
}

EMU_INLINE int __clz(int a)
{
    return a ? __builtin_clz((unsigned)a) : 32;
}

EMU_INLINE int __ffs(int a)
{
    return __builtin_ffs(a);
}

EMU_INLINE unsigned __brev(unsigned a)
{
    unsigned r = 0;
    for (int i = 0; i < 32; i++) r |= (a >> i & 1u) << (31 - i);
    return r;
}

EMU_INLINE unsigned __byte_perm(unsigned a, unsigned b, unsigned selector)
{
    unsigned long long both = (unsigned long long)b << 32 | a;
    unsigned r = 0;
    for (int i = 0; i < 4; i++) {
        unsigned s = selector >> 4 * i & 15u, byte = (unsigned)(both >> 8 * (s & 7)) & 255u;
        if (s & 8) byte = byte & 128u ? 255u : 0u; // the sign of the byte, eight times
        r |= byte << 8 * i;
    }
    return r;
}

EMU_INLINE unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned by)
{
    unsigned long long both = (unsigned long long)hi << 32 | lo;
    return (unsigned)(both << (by & 31) >> 32);
}

EMU_INLINE unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned by)
{
    unsigned long long both = (unsigned long long)hi << 32 | lo;
    return (unsigned)(both >> (by & 31));
}

EMU_INLINE unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((unsigned long long)a * b >> 32);
}

EMU_INLINE int __mulhi(int a, int b)
{
    return (int)((long long)a * b >> 32);
}

EMU_INLINE int __dp4a(int a, int b, int c)
{
    unsigned sum = (unsigned)c; // wraps
    for (int i = 0; i < 4; i++)
        sum += (unsigned)((int)(signed char)(a >> 8 * i) * (int)(signed char)(b >> 8 * i));
    return (int)sum;
}

EMU_INLINE unsigned __dp4a(unsigned a, unsigned b, unsigned c)
{
    for (int i = 0; i < 4; i++) c += (a >> 8 * i & 255u) * (b >> 8 * i & 255u);
    return c;
}

// ---- loads and stores with a hint

template <class T> EMU_INLINE T __ldg(const T *p)
{
    return *p;
}

template <class T> EMU_INLINE T __ldcg(const T *p)
{
    return *p;
}

template <class T> EMU_INLINE T __ldcs(const T *p)
{
    return *p;
}

template <class T> EMU_INLINE void __stcg(T *p, T v)
{
    *p = v;
}

template <class T> EMU_INLINE void __stcs(T *p, T v)
{
    *p = v;
}

#define EMU_MIN_MAX(T)         \
    EMU_INLINE T min(T a, T b) \
    {                          \
        return b < a ? b : a;  \
    }                          \
    EMU_INLINE T max(T a, T b) \
    {                          \
        return a < b ? b : a;  \
    }
EMU_MIN_MAX(int)
EMU_MIN_MAX(unsigned)
EMU_MIN_MAX(long)
EMU_MIN_MAX(unsigned long)
EMU_MIN_MAX(long long)
EMU_MIN_MAX(unsigned long long)

EMU_INLINE float min(float a, float b)
{
    return __builtin_fminf(a, b);
}

EMU_INLINE float max(float a, float b)
{
    return __builtin_fmaxf(a, b);
}
