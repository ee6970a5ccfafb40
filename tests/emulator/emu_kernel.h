// emu_kernel.h - kernels by name: EMU_KERNEL(f) after the declaration of f enters it into
// the library's list, with the sizes of its arguments.
#pragma once
#include "emu_library.h"
#include "emu_thread.h"

extern "C" __attribute__((visibility("hidden"))) void emu_kernel_add(emu_kernel *k);

template <size_t... I> struct emu_indices {
};
template <size_t N, size_t... I> struct emu_count : emu_count<N - 1, N - 1, I...> {
};
template <size_t... I> struct emu_count<0, I...> {
    typedef emu_indices<I...> type;
};

template <class F, F *KERNEL> struct emu_call;
template <class... A, void (*KERNEL)(A...)> struct emu_call<void(A...), KERNEL> {
    template <size_t... I> EMU_NOT_CHECKED static void apply(void **args, emu_indices<I...>)
    {
        (void)args;
        KERNEL(*(A *)args[I]...);
    }
    EMU_NOT_CHECKED static void call(void **args)
    {
        apply(args, typename emu_count<sizeof...(A)>::type());
    }
    EMU_NOT_CHECKED static emu_kernel *row(const char *name)
    {
        static const size_t bytes[] = {sizeof(A)..., 0};
        static emu_kernel k = {name, call, (int)sizeof...(A), bytes, nullptr};
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
