// ptx.h - what CUDA kernels use beyond CUDA C: PTX by function. nvcc compiles them to the one
// instruction; a build without nvcc (the tests) to twins with the same result.
//
// Fragments are those of PTX's mma (m16n8): lane 4 g + c of the warp holds of d the rows g and
// g + 8, columns 2c and 2c + 1. Every lane of the warp takes part in mma and ldmatrix.
#ifndef FXI_CUDA_PTX_H
#define FXI_CUDA_PTX_H

#include <stdint.h>

#ifdef __CUDACC__
#    define FXI_DEVICE static __device__ __forceinline__
// Enters a kernel into the list of those that can be launched, where the compiler does not.
#    define FXI_CUDA_KERNEL(name)
// `name` points to the dynamic shared memory of the launch, aligned to 16 bytes.
#    define FXI_DYNAMIC_SHARED(name)                                              \
        extern __shared__ __align__(16) unsigned char fxi_dynamic_shared_bytes[]; \
        unsigned char *const name = fxi_dynamic_shared_bytes
#    define FXI_PTX_HERE // the line of the call, for messages of the twins
#    define FXI_PTX_LINE
#else
#    define FXI_DEVICE               static inline __attribute__((always_inline, unused))
#    define FXI_CUDA_KERNEL(name)    EMU_KERNEL(name)
#    define FXI_DYNAMIC_SHARED(name) unsigned char *const name = emu_dynamic_shared()
#    define FXI_PTX_HERE             , EMU_HERE
#    define FXI_PTX_LINE             , file, line
#endif

// ---- numbers of 16 bits, by their bits; rounded to nearest even

FXI_DEVICE float ptx_f32_of_bf16(uint16_t bits)
{
    return __uint_as_float((uint32_t)bits << 16);
}

FXI_DEVICE float ptx_f32_of_f16(uint16_t bits)
{
#ifdef __CUDACC__
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(bits));
    return f;
#else
    return emu_f32_of_f16(bits);
#endif
}

FXI_DEVICE uint16_t ptx_f16_of_f32(float f)
{
#ifdef __CUDACC__
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(f));
    return bits;
#else
    return emu_f16_of_f32(f);
#endif
}

FXI_DEVICE uint16_t ptx_bf16_of_f32(float f)
{
#ifdef __CUDACC__
    uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(f));
    return bits;
#else
    return emu_bf16_of_f32(f);
#endif
}

// Two of them, lo in the low half.
FXI_DEVICE uint32_t ptx_f16x2_of_f32(float lo, float hi)
{
    return ptx_f16_of_f32(lo) | (uint32_t)ptx_f16_of_f32(hi) << 16;
}

FXI_DEVICE uint32_t ptx_bf16x2_of_f32(float lo, float hi)
{
    return ptx_bf16_of_f32(lo) | (uint32_t)ptx_bf16_of_f32(hi) << 16;
}

// ---- registers

// v itself, but the compiler does not know that: what follows from it is computed after this call
// and not kept in registers from before, as what does not change in a loop otherwise is.
FXI_DEVICE int ptx_anew(int v)
{
#ifdef __CUDACC__
    asm volatile("" : "+r"(v));
#endif
    return v;
}

// ---- loads and stores of 16 bytes, aligned to 16, as one access

// Global memory that no kernel of the launch writes and that is read once: it takes no place in L1.
FXI_DEVICE uint4 ptx_load16_once(const void *at)
{
#ifdef __CUDACC__
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(at));
    return v;
#else
    return emu_load16(at);
#endif
}

// The same, but never earlier than a barrier that stands before it.
FXI_DEVICE uint4 ptx_load16_here(const void *at)
{
#ifdef __CUDACC__
    uint4 v;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(at)
                 : "memory");
    return v;
#else
    return emu_load16(at);
#endif
}

// Any memory.
FXI_DEVICE uint4 ptx_load16(const void *at)
{
#ifdef __CUDACC__
    return *(const uint4 *)at;
#else
    return ptx_load16_once(at);
#endif
}

FXI_DEVICE void ptx_store16(void *at, uint4 v)
{
#ifdef __CUDACC__
    *(uint4 *)at = v;
#else
    emu_store16(at, v);
#endif
}

FXI_DEVICE float4 ptx_load_f32x4(const void *at)
{
#ifdef __CUDACC__
    return *(const float4 *)at;
#else
    const uint4 v = ptx_load16_once(at);
    return float4{__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z),
                  __uint_as_float(v.w)};
#endif
}

FXI_DEVICE void ptx_store_f32x4(void *at, float4 v)
{
#ifdef __CUDACC__
    *(float4 *)at = v;
#else
    ptx_store16(at, uint4{__float_as_uint(v.x), __float_as_uint(v.y), __float_as_uint(v.z),
                          __float_as_uint(v.w)});
#endif
}

// ---- mma: d += a b

#ifdef __CUDACC__
#    define FXI_PTX_MMA_16816(type)                                                 \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 " \
                     "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"        \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])               \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#endif

FXI_DEVICE void ptx_mma_f16(float d[4], const uint32_t a[4], const uint32_t b[2] FXI_PTX_HERE)
{
#ifdef __CUDACC__
    FXI_PTX_MMA_16816("f16");
#else
    emu_mma_16816<emu_widen_f16>(d, a, b FXI_PTX_LINE);
#endif
}

FXI_DEVICE void ptx_mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2] FXI_PTX_HERE)
{
#ifdef __CUDACC__
    FXI_PTX_MMA_16816("bf16");
#else
    emu_mma_16816<emu_widen_bf16>(d, a, b FXI_PTX_LINE);
#endif
}

// m16n8k32 of int8: exact.
FXI_DEVICE void ptx_mma_s8(int d[4], const uint32_t a[4], const uint32_t b[2] FXI_PTX_HERE)
{
#ifdef __CUDACC__
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    emu_imma_16832(d, a, b FXI_PTX_LINE);
#endif
}

// ---- ldmatrix of four transposed matrices of 8 x 8 numbers of 16 bits: lanes 8 i .. 8 i + 7 name
// the rows (16 bytes of shared memory) of the i-th; lane 4 g + c gets column g, rows 2c and 2c + 1
// of each

#ifdef __CUDACC__
#    define FXI_PTX_SHARED(at) ((uint32_t)__cvta_generic_to_shared(at))
#endif

FXI_DEVICE void ptx_ldmatrix_x4_trans(uint32_t r[4], const void *row FXI_PTX_HERE)
{
#ifdef __CUDACC__
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(FXI_PTX_SHARED(row))
                 : "memory");
#else
    emu_ldmatrix(r, row FXI_PTX_LINE);
#endif
}

// ---- cp.async: 16 bytes from global to shared memory, both aligned to 16

FXI_DEVICE void ptx_async_copy16(void *dst, const void *src FXI_PTX_HERE)
{
#ifdef __CUDACC__
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(FXI_PTX_SHARED(dst)), "l"(src)
                 : "memory");
#else
    emu_async_copy16(dst, src FXI_PTX_LINE);
#endif
}

FXI_DEVICE void ptx_async_commit(void)
{
#ifdef __CUDACC__
    asm volatile("cp.async.commit_group;" ::: "memory");
#else
    emu_async_commit();
#endif
}

// Until at most N groups of this thread's copies are not done. What other threads copied is there
// after a barrier that follows their wait.
template <int N> FXI_DEVICE void ptx_async_wait(void)
{
#ifdef __CUDACC__
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#else
    emu_async_wait(N);
#endif
}

#endif
