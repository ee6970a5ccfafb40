// emu_warp.h - shuffles, votes and reductions of a warp.
#pragma once
#include "emu_thread.h"

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

EMU_NOT_CHECKED static inline int emu_from_up(unsigned by, int width)
{
    int lane = emu_lane();
    return lane % width < (int)by ? lane : lane - (int)by;
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

template <class T> T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32, EMU_HERE)
{
    return emu_shuffle_from(mask, v, emu_from_up(by, width), file, line);
}

template <class T> T __shfl_sync(unsigned mask, T v, int lane, int width = 32, EMU_HERE)
{
    return emu_shuffle_from(mask, v, emu_from_index(lane, width), file, line);
}

// What every lane gets from the values of all: `Fold` of them, in the order of the lanes.
template <class T> struct emu_folded {
    T value, got;
};

template <class T, class Fold>
EMU_NOT_CHECKED void emu_fold_run(void *const args[32], unsigned mask)
{
    T all = T();
    bool any = false;
    for (int lane = 0; lane < 32; lane++) {
        if (!(mask >> lane & 1)) continue;
        T v = ((emu_folded<T> *)args[lane])->value;
        all = any ? Fold::of(all, v) : v;
        any = true;
    }
    for (int lane = 0; lane < 32; lane++)
        if (mask >> lane & 1) ((emu_folded<T> *)args[lane])->got = all;
}

template <class Fold, class T>
EMU_NOT_CHECKED T emu_fold(unsigned mask, T value, const char *file, int line)
{
    emu_folded<T> f = {value, value};
    emu_warp_meet(mask, emu_fold_run<T, Fold>, &f, file, line);
    return f.got;
}

#define EMU_FOLD(name, expression)                                         \
    struct name {                                                          \
        template <class T> EMU_ATTRIBUTE_NOT_CHECKED static T of(T a, T b) \
        {                                                                  \
            return expression;                                             \
        }                                                                  \
    };
EMU_FOLD(emu_fold_or, a | b)
EMU_FOLD(emu_fold_and, a &b)
EMU_FOLD(emu_fold_xor, a ^ b)
EMU_FOLD(emu_fold_add, a + b)
EMU_FOLD(emu_fold_min, b < a ? b : a)
EMU_FOLD(emu_fold_max, a < b ? b : a)

static inline unsigned __ballot_sync(unsigned mask, int predicate, EMU_HERE)
{
    return emu_fold<emu_fold_or>(mask, predicate ? 1u << emu_lane() : 0u, file, line);
}

static inline int __any_sync(unsigned mask, int predicate, EMU_HERE)
{
    return __ballot_sync(mask, predicate, file, line) != 0;
}

static inline int __all_sync(unsigned mask, int predicate, EMU_HERE)
{
    return __ballot_sync(mask, predicate, file, line) == mask;
}

// Of int and unsigned, as on the device.
#define EMU_REDUCE(name, T, fold)                          \
    static inline T name(unsigned mask, T value, EMU_HERE) \
    {                                                      \
        return emu_fold<fold>(mask, value, file, line);    \
    }
EMU_REDUCE(__reduce_add_sync, unsigned, emu_fold_add)
EMU_REDUCE(__reduce_add_sync, int, emu_fold_add)
EMU_REDUCE(__reduce_min_sync, unsigned, emu_fold_min)
EMU_REDUCE(__reduce_min_sync, int, emu_fold_min)
EMU_REDUCE(__reduce_max_sync, unsigned, emu_fold_max)
EMU_REDUCE(__reduce_max_sync, int, emu_fold_max)
EMU_REDUCE(__reduce_and_sync, unsigned, emu_fold_and)
EMU_REDUCE(__reduce_or_sync, unsigned, emu_fold_or)
EMU_REDUCE(__reduce_xor_sync, unsigned, emu_fold_xor)
