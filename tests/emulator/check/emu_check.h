// emu_check.h - what the files of the checked runtime share.
//
// The compiler calls __tsan_read4 and the like for every access of a kernel (-fsanitize=thread; no
// sanitizer's library is linked). Each byte of memory that kernels may touch has a cell: who wrote
// and who read it last, and when. Two accesses of one byte, one of them a write, that nothing
// orders are a race. Order is that of CUDA: barriers and __syncwarp order threads of a block;
// blocks of a launch are not ordered, unless one acts on an atomic after the other's fence and
// atomic; launches follow each other.
#pragma once
#include "emu_run.h"

// Of a thread: what it does between two synchronisations. `serial` is the block's number over all
// launches.
struct emu_stamp {
    uint32_t serial; // 0: nobody
    uint32_t who;    // thread: 10 bits, flags: 2, clock: 20
};

enum { EMU_MAX_CLOCK = (1 << 20) - 1 };

// Flags of a stamp: of a write, whether it was atomic; of a read, who else has read meanwhile.
enum { EMU_ONE = 0, EMU_BY_ATOMIC = 1, EMU_LANES = 1, EMU_WARPS = 2, EMU_BLOCKS = 3 };

static inline emu_stamp emu_stamp_make(uint32_t serial, unsigned thread, unsigned flags,
                                       uint32_t clock)
{
    return {serial, thread | flags << 10 | clock << 12};
}

static inline unsigned emu_stamp_thread(emu_stamp s)
{
    return s.who & 1023;
}

static inline unsigned emu_stamp_flags(emu_stamp s)
{
    return s.who >> 10 & 3;
}

static inline uint32_t emu_stamp_clock(emu_stamp s)
{
    return s.who >> 12;
}

struct emu_cell {
    emu_stamp write, read;
};

// ---- emu_clock.cpp: which of a block's accesses are ordered

EMU_API void emu_clock_launch(void);
EMU_API void emu_clock_block(unsigned n_thread);
EMU_API void emu_clock_barrier(const std::vector<unsigned> &joined, bool all);
EMU_API void emu_clock_warp(unsigned warp, unsigned mask, unsigned all_lanes);
EMU_API void emu_clock_fence(unsigned thread);
EMU_API void emu_clock_atomic(uintptr_t at, unsigned thread);
EMU_API uint32_t emu_clock_serial(void); // of the block that runs
EMU_API uint32_t emu_clock_now(unsigned thread);
// Whether what the stamp says happened before what `thread` does now. Reads: by several threads.
EMU_API bool emu_clock_before(emu_stamp s, unsigned thread);
EMU_API bool emu_clock_reads_before(emu_stamp s, unsigned thread);
EMU_API bool emu_clock_same_launch(emu_stamp s);

// ---- emu_shadow.cpp: memory and its cells

struct emu_region {
    uintptr_t at;
    size_t n_byte;
    emu_cell *cells;
    unsigned char *written; // [n_byte / 8] bits: by the host or a copy; NULL: shared memory
    size_t cells_bytes, written_bytes;
    const char *name;
};

EMU_API void emu_shadow_memory(uintptr_t at, size_t n_byte, int state);
EMU_API void emu_shadow_block(const emu_worker *w);
// The region that holds all of it; NULL: none. *near is then the one before it, if any. Where no
// memory of a device was made known, kernels run on the host's: then every address is in a piece,
// which may hold only the first of the bytes, unless AddressSanitizer, if it is there, says that
// they are bad.
EMU_API emu_region *emu_shadow_find(uintptr_t at, unsigned n_byte, const emu_region **near);
static inline bool emu_shadow_is_shared(const emu_region *r)
{
    return !r->written;
}
// Constants and variables of the library.
EMU_API bool emu_shadow_in_image(uintptr_t at);

// ---- emu_look.cpp

// Where an access stands in the source: an instruction, or a place that the caller knows.
struct emu_site {
    uintptr_t pc; // 0: file and line count
    const char *file;
    int line;
};

EMU_API void emu_look_at(uintptr_t at, unsigned n_byte, int flags, const emu_site &site);
EMU_API void emu_look_fault(const emu_site &site, int kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// ---- emu_profile.cpp: sectors and bank conflicts of one block, by line

EMU_API void emu_profile_launch(const char *kernel);
EMU_API void emu_profile_note(uintptr_t at, unsigned n_byte, bool writes, bool shared,
                              const emu_site &site);
EMU_API void emu_profile_end(void);
