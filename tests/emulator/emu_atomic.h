// emu_atomic.h - atomic operations. The fibers of a block share a host thread, but blocks may run
// on several, so these are atomic for the host, too.
#pragma once
#include "emu_thread.h"

// n_byte: 2, 4 or 8. The exchange, where `at` holds *expected; otherwise *expected becomes what it
// holds.
EMU_API void emu_atomic_load(const void *at, void *to, unsigned n_byte);
EMU_API bool emu_atomic_exchange(void *at, void *expected, const void *to, unsigned n_byte);

template <class T>
struct emu_same { // an argument of this type is converted to the one of the pointer
    typedef T type;
};

template <class T, class Change>
EMU_NOT_CHECKED T emu_atomic_change(T *at, T by, Change change, const char *file, int line)
{
    static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8, "a width of the device");
    emu_look_access(at, sizeof *at, EMU_WRITE | EMU_ATOMIC, file, line);
    T was, to;
    emu_atomic_load(at, &was, sizeof was);
    do {
        to = change(was, by);
    } while (!emu_atomic_exchange(at, &was, &to, sizeof to));
    return was;
}

#define EMU_ATOMIC_OP(name, expression)                                                     \
    template <class T> T name(T *at, typename emu_same<T>::type by, EMU_HERE)               \
    {                                                                                       \
        auto change = [](T was, T v) EMU_ATTRIBUTE_NOT_CHECKED -> T { return expression; }; \
        return emu_atomic_change(at, by, change, file, line);                               \
    }
EMU_ATOMIC_OP(atomicAdd, was + v)
EMU_ATOMIC_OP(atomicSub, was - v)
EMU_ATOMIC_OP(atomicMax, was < v ? v : was)
EMU_ATOMIC_OP(atomicMin, v < was ? v : was)
EMU_ATOMIC_OP(atomicAnd, was &v)
EMU_ATOMIC_OP(atomicOr, was | v)
EMU_ATOMIC_OP(atomicXor, was ^ v)
EMU_ATOMIC_OP(atomicInc, was >= v ? 0 : was + 1)

template <class T> T atomicExch(T *at, typename emu_same<T>::type to, EMU_HERE)
{
    auto change = [](T, T v) EMU_ATTRIBUTE_NOT_CHECKED -> T { return v; };
    return emu_atomic_change(at, to, change, file, line);
}

template <class T>
EMU_NOT_CHECKED T atomicCAS(T *at, typename emu_same<T>::type expected,
                            typename emu_same<T>::type to, EMU_HERE)
{
    emu_look_access(at, sizeof *at, EMU_WRITE | EMU_ATOMIC, file, line);
    (void)emu_atomic_exchange(at, &expected, &to, sizeof to);
    return expected; // what was there, whether it was exchanged or not
}
