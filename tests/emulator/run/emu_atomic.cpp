// emu_atomic.cpp - atomic access by width. It is not part of kernels, where compilers tell the checked
// runtime of atomics in functions, too, that it does not look at.
#include "emu_atomic.h"

template <class T> static bool exchange(void *at, void *expected, const void *to)
{
    return __atomic_compare_exchange((T *)at, (T *)expected, (T *)to, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE);
}

void emu_atomic_load(const void *at, void *to, unsigned n_byte)
{
    if (n_byte == 2)
        __atomic_load((const uint16_t *)at, (uint16_t *)to, __ATOMIC_ACQUIRE);
    else if (n_byte == 4)
        __atomic_load((const uint32_t *)at, (uint32_t *)to, __ATOMIC_ACQUIRE);
    else
        __atomic_load((const uint64_t *)at, (uint64_t *)to, __ATOMIC_ACQUIRE);
}

bool emu_atomic_exchange(void *at, void *expected, const void *to, unsigned n_byte)
{
    if (n_byte == 2) return exchange<uint16_t>(at, expected, to);
    return n_byte == 4 ? exchange<uint32_t>(at, expected, to)
                       : exchange<uint64_t>(at, expected, to);
}
