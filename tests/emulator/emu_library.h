// emu_library.h - what a shared library of emulated kernels gives its users: the one symbol
// EMU_LIBRARY_SYMBOL, a function that returns this table. Plain C; the stand-in for the
// driver uses it through dlopen.
#ifndef EMU_LIBRARY_H
#define EMU_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EMU_LIBRARY_SYMBOL "emu_library_table"

typedef struct emu_kernel {
    const char *name;
    void (*call)(const void *arg);
    size_t arg_bytes; // of its one argument, a struct
    struct emu_kernel *next;
} emu_kernel;

typedef struct emu_launch {
    const emu_kernel *kernel;
    unsigned grid[3], block[3];
    size_t dynamic_bytes; // of shared memory
    const void *arg;
} emu_launch;

// What device memory is to the checked runtime.
enum {
    EMU_MEMORY_GONE = 0,
    EMU_MEMORY_NEW = 1,     // allocated; nobody has written there
    EMU_MEMORY_WRITTEN = 2, // by the host or a copy
};

enum { EMU_FAULT_NONE = 0, EMU_FAULT_LAUNCH = 1, EMU_FAULT_ADDRESS = 2, EMU_FAULT_CONFIG = 3 };

typedef struct emu_library {
    bool checked; // built to look at every access
    const emu_kernel *(*find)(const char *name);
    // Runs a grid, returns EMU_FAULT_*. A fault that is found ends the launch after the first few.
    // Several threads may call it; launches run one after the other.
    int (*launch)(const emu_launch *launch);
    // The lines that faults left since `clear`, each "kernel: FILE:LINE: what (block, thread)".
    // Valid until the next launch.
    const char *(*faults)(void);
    void (*clear)(void);
    void (*memory)(uintptr_t at, size_t n_byte, int state);
} emu_library;

#ifdef __cplusplus
}
#endif

#endif
