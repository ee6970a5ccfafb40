// emu_thread.h - a kernel's view of the emulator: who it is, and the places where its threads meet.
//
// Each CUDA thread of a block is a fiber. It runs until it has to wait for others: at a barrier, or
// in an operation of its warp. Such an operation is done by the last of its lanes to arrive, for
// all of them, so that the twins of mma and ldmatrix see whole fragments.
#pragma once
#include "emu_types.h"

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
#define warpSize  32

EMU_API unsigned char *emu_dynamic_shared(void);

// A fault of the kernel: "FILE:LINE: what", with its block and thread. The kernel goes on.
EMU_API void emu_fail_at(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Barrier `id` of the block; n_thread 0: for all threads of the block.
EMU_API void emu_barrier(int id, int n_thread, const char *file, int line);

// Calls run(args, mask) once, when every lane of the mask has come here with the same `run`:
// args[lane] is what that lane gave.
typedef void emu_warp_run(void *const args[32], unsigned mask);
EMU_API void emu_warp_meet(unsigned mask, emu_warp_run *run, void *arg, const char *file, int line);
EMU_API unsigned emu_warp_active(void); // lanes that have not ended

EMU_API void emu_yield(void); // lets the others run: for loops that poll

// cp.async, done as late as it may be: by the wait. Of n_byte, n_read are read, the rest becomes 0.
EMU_API void emu_async_copy(void *dst, const void *src, int n_byte, int n_read, const char *file,
                            int line);
EMU_API void emu_async_commit(void);
EMU_API void emu_async_wait(int n_left); // until at most so many groups are not done

// What the checked runtime is told; without it these do nothing.
// EMU_AHEAD: a write that may begin here, and is made later: it must not race with what was before.
enum { EMU_READ = 0, EMU_WRITE = 1, EMU_ATOMIC = 2, EMU_AHEAD = 4 };
EMU_API void emu_look_access(const void *at, unsigned n_byte, int flags, const char *file,
                             int line);
EMU_API void emu_look_sync(
    unsigned mask); // the lanes of the running thread's warp have synchronised
EMU_API void emu_look_fence(void);

static inline void __syncthreads(EMU_HERE)
{
    emu_barrier(0, 0, file, line);
}

EMU_NOT_CHECKED static inline void emu_meet_only(void *const *, unsigned)
{
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

static inline unsigned __activemask()
{
    return emu_warp_active();
}

static inline void __threadfence()
{
    emu_look_fence();
}

static inline void __threadfence_block()
{
}

static inline void __nanosleep(unsigned)
{
    emu_yield();
}
