// cuda_driver.c - finds the driver's functions by name; see cuda_driver.h.
#include "cuda_driver.h"

#include <dlfcn.h>
#include <string.h>

typedef struct driver_import {
    const char *symbol;
    size_t at; // of the function's pointer in vti_cu_driver
    const char *missing;
} driver_import;

#define IMPORT(member, symbol, parameters)     \
    {#symbol, offsetof(vti_cu_driver, member), \
     "NVIDIA's driver is too old: libcuda.so.1 has no function " #symbol},
static const driver_import memory_imports[] = {VTI_CU_FUNCTIONS(IMPORT)};
static const driver_import kernel_imports[] = {VTI_CU_KERNEL_FUNCTIONS(IMPORT)};
#undef IMPORT

// A pointer to a function is copied as bytes: C has no cast to it from the void * of dlsym.
static const char *load_functions(vti_cu_driver *cu, const driver_import *imports, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        void *symbol = dlsym(cu->library, imports[i].symbol);
        if (!symbol) return imports[i].missing;
        memcpy((char *)cu + imports[i].at, &symbol, sizeof symbol);
    }
    return NULL;
}

vt_status vti_cu_load(vti_cu_driver *cu, bool kernels, const char **why)
{
    cu->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!cu->library) {
        *why = "libcuda.so.1, NVIDIA's driver, cannot be loaded";
        return VT_EDEVICE;
    }
    *why = load_functions(cu, memory_imports, sizeof memory_imports / sizeof *memory_imports);
    if (!*why && kernels)
        *why = load_functions(cu, kernel_imports, sizeof kernel_imports / sizeof *kernel_imports);
    return *why ? VT_EDEVICE : VT_OK;
}

void vti_cu_unload(vti_cu_driver *cu)
{
    if (cu->library) dlclose(cu->library);
    cu->library = NULL;
}
