// emu_kernel.h - kernels by name: EMU_KERNEL(f) after the declaration of f enters it into the
// library's list, with the size of its argument, a struct.
#pragma once
#include "emu_library.h"
#include "emu_thread.h"

extern "C" __attribute__((visibility("hidden"))) void emu_kernel_add(emu_kernel *k);

template <class F, F *KERNEL> struct emu_call;
template <class A, void (*KERNEL)(A)> struct emu_call<void(A), KERNEL> {
    EMU_NOT_CHECKED static void call(const void *arg)
    {
        KERNEL(*(const A *)arg);
    }
    EMU_NOT_CHECKED static emu_kernel *row(const char *name)
    {
        static emu_kernel k = {name, call, sizeof(A), nullptr};
        return &k;
    }
};

struct emu_kernel_entry {
    explicit emu_kernel_entry(emu_kernel *k)
    {
        emu_kernel_add(k);
    }
};

#define EMU_KERNEL(f) static emu_kernel_entry emu_entry_of_##f(emu_call<decltype(f), f>::row(#f))
