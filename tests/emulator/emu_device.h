// emu_device.h - CUDA's device functions: shuffles of a warp, and intrinsics. Only what the kernels
// use, and only functions whose result the device defines to the bit: a kernel with __expf or
// __fdividef does not compile.
#pragma once
#include "emu_thread.h"

// ---- shuffles

EMU_NOT_CHECKED static inline int emu_lane()
{
    return (int)(emu_now->i_thread & 31);
}

template <class T> struct emu_shuffle {
    T value, got;
    int from; // lane
    const char *file;
    int line;
};

template <class T> EMU_NOT_CHECKED void emu_shuffle_run(void *const args[32], unsigned mask)
{
    for (int lane = 0; lane < 32; lane++) {
        if (!(mask >> lane & 1)) continue;
        emu_shuffle<T> *mine = (emu_shuffle<T> *)args[lane];
        if (mask >> mine->from & 1)
            mine->got = ((emu_shuffle<T> *)args[mine->from])->value;
        else
            emu_fail_at(mine->file, mine->line,
                        "shuffle: lane %d reads lane %d, which the mask %08x does not name", lane,
                        mine->from, mask);
    }
}

template <class T>
EMU_NOT_CHECKED T emu_shuffle_from(unsigned mask, T value, int from, const char *file, int line)
{
    emu_shuffle<T> s = {value, value, from, file, line};
    emu_warp_meet(mask, emu_shuffle_run<T>, &s, file, line);
    return s.got;
}

// `width` lanes, a power of two, are a group by themselves. A source outside of it is the lane.
EMU_NOT_CHECKED static inline int emu_from_xor(int mask, int width)
{
    int lane = emu_lane(), from = lane ^ mask;
    return from / width > lane / width ? lane : from;
}

EMU_NOT_CHECKED static inline int emu_from_down(unsigned by, int width)
{
    int lane = emu_lane();
    return lane % width + (int)by >= width ? lane : lane + (int)by;
}

EMU_NOT_CHECKED static inline int emu_from_index(int i, int width)
{
    return emu_lane() / width * width + (i & (width - 1));
}

template <class T> T __shfl_xor_sync(unsigned mask, T v, int by, int width = 32, EMU_HERE)
{
    return emu_shuffle_from(mask, v, emu_from_xor(by, width), file, line);
}

template <class T> T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32, EMU_HERE)
{
    return emu_shuffle_from(mask, v, emu_from_down(by, width), file, line);
}

template <class T> T __shfl_sync(unsigned mask, T v, int lane, int width = 32, EMU_HERE)
{
    return emu_shuffle_from(mask, v, emu_from_index(lane, width), file, line);
}

// ---- intrinsics

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

EMU_INLINE int min(int a, int b)
{
    return b < a ? b : a;
}

EMU_INLINE int max(int a, int b)
{
    return a < b ? b : a;
}
