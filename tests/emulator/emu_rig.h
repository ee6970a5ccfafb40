// emu_rig.h - launches kernels of a library of emulated kernels by name, for tests in C.
#ifndef EMU_RIG_H
#define EMU_RIG_H

#include "emu_library.h"

#include <dlfcn.h>

typedef struct emu_size {
    unsigned x, y, z;
} emu_size;

// The library's table; NULL: it cannot be loaded.
static inline const emu_library *emu_rig_open(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const emu_library *(*table)(void);
    if (!library) return NULL;
    *(void **)&table = dlsym(library, EMU_LIBRARY_SYMBOL);
    return table ? table() : NULL;
}

// EMU_FAULT_*; -1: there is no such kernel.
static inline int emu_rig_run(const emu_library *library, const char *name, emu_size grid,
                              emu_size block, size_t dynamic_bytes, const void *arg)
{
    const emu_kernel *kernel = library->find(name);
    if (!kernel) return -1;
    library->clear();
    emu_launch l = {.kernel = kernel,
                    .grid = {grid.x, grid.y, grid.z},
                    .block = {block.x, block.y, block.z},
                    .dynamic_bytes = dynamic_bytes,
                    .arg = arg};
    return library->launch(&l);
}

#endif
