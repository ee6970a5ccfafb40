// emu_shadow.h - memory that kernels may touch, with a cell for each byte of it: the last write and
// the last read, and when they were made.
#pragma once
#include "emu_run.h"

// Of a thread: what it does between two synchronisations. `serial` is the block's number over all
// launches.
struct emu_stamp {
    uint32_t serial; // 0: nobody
    uint32_t thread; // thread: 10 bits, flags: 2, clock: 20
};

enum { EMU_MAX_CLOCK = (1 << 20) - 1 };

// Flags of the stamp of a read: which others have read meanwhile.
enum { EMU_ONE, EMU_LANES, EMU_WARPS, EMU_BLOCKS };

static inline emu_stamp emu_stamp_make(uint32_t serial, unsigned thread, unsigned flags,
                                       uint32_t clock)
{
    return {serial, thread | flags << 10 | clock << 12};
}

static inline unsigned emu_stamp_thread(emu_stamp s)
{
    return s.thread & 1023;
}

static inline unsigned emu_stamp_flags(emu_stamp s)
{
    return s.thread >> 10 & 3;
}

static inline uint32_t emu_stamp_clock(emu_stamp s)
{
    return s.thread >> 12;
}

struct emu_cell {
    emu_stamp write, read;
};

struct emu_region {
    uintptr_t at;
    size_t n_byte;
    emu_cell *cells;
    unsigned char *written; // [n_byte / 8] bits: by the host or a copy; NULL: shared memory
    size_t cells_bytes, written_bytes;
    const char *name;
};

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
