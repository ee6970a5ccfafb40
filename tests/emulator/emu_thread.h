// emu_thread.h - a kernel's view of the emulator: CUDA's keywords and types, which thread runs, and
// the places where threads meet.
//
// Each CUDA thread of a block is a fiber. It runs until it has to wait for others: at a barrier, or
// in an operation of its warp. The last of the lanes to arrive does such an operation for all of
// them, so that the twins of mma and ldmatrix see whole fragments.
//
// Shared memory is thread-local memory of the host thread that runs the block, so it belongs to one
// block and works in templates and inline functions. FXI_DYNAMIC_SHARED of kernels/cuda/ptx.h gives
// dynamic shared memory.
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
#define __constant__    static
#define __shared__      thread_local
#define __forceinline__ inline __attribute__((always_inline))
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

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

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

// ---- threads

#define EMU_API __attribute__((visibility("hidden")))

// A line of a kernel. As a default argument, `EMU_HERE` is the line of the call.
#define EMU_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

struct emu_where {
    uint3 thread, block;
    dim3 block_dim, grid_dim;
    unsigned i_thread, i_block; // x first, then y, then z
};

extern __thread emu_where *emu_now
    EMU_API; // of the fiber that runs in this host thread; NULL: none

#define threadIdx (emu_now->thread)
#define blockIdx  (emu_now->block)
#define blockDim  (emu_now->block_dim)
#define gridDim   (emu_now->grid_dim)

EMU_API unsigned char *emu_dynamic_shared(void);

// A fault of the kernel: "FILE:LINE: what", with its block and thread. The kernel goes on.
EMU_API void emu_fail_at(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

EMU_API void emu_barrier(const char *file, int line); // of the whole block

// Calls run(args, mask) once, when every lane of the mask has come here with the same `run`:
// args[lane] is what that lane gave.
typedef void emu_warp_run(void *const args[32], unsigned mask);
EMU_API void emu_warp_meet(unsigned mask, emu_warp_run *run, void *arg, const char *file, int line);

// cp.async of 16 bytes, done as late as it may be: by the wait.
EMU_API void emu_async_copy16(void *dst, const void *src, const char *file, int line);
EMU_API void emu_async_commit(void);
EMU_API void emu_async_wait(int n_left); // until at most so many groups are not done

// What the checked runtime is told; without it these do nothing.
// EMU_AHEAD: a write that may begin here, and is made later: it must not race with what was before.
enum { EMU_READ = 0, EMU_WRITE = 1, EMU_AHEAD = 2 };
EMU_API void emu_look_access(const void *at, unsigned n_byte, int flags, const char *file,
                             int line);
EMU_API void emu_look_sync(
    unsigned mask); // the lanes of the running thread's warp have synchronised

static inline void __syncthreads(EMU_HERE)
{
    emu_barrier(file, line);
}

EMU_NOT_CHECKED static inline void emu_sync_lanes(void *const *, unsigned mask)
{
    emu_look_sync(mask);
}

static inline void __syncwarp(unsigned mask = 0xFFFFFFFFu, EMU_HERE)
{
    emu_warp_meet(mask, emu_sync_lanes, nullptr, file, line);
    __asm__ volatile("" ::: "memory");
}
