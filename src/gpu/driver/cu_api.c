// cu_api.c - finds the driver's functions by name; see cu_api.h.
#include "gpu/driver/cu_api.h"

#include <dlfcn.h>
#include <string.h>

typedef struct api_import {
    const char *symbol;
    size_t at; // of the function's pointer in fxi_cu_api
} api_import;

#define IMPORT(member, symbol, parameters) {#symbol, offsetof(fxi_cu_api, member)},
static const api_import api_imports[] = {FXI_CU_FUNCTIONS(IMPORT)};
#undef IMPORT

// A pointer to a function is copied as bytes: C has no cast to it from the void * of dlsym.
static fx_status import_all(fxi_cu_api *cu, fx_error *err)
{
    for (size_t i = 0; i < sizeof api_imports / sizeof *api_imports; i++) {
        void *symbol = dlsym(cu->library, api_imports[i].symbol);
        if (!symbol)
            return fxi_fail(err, FX_EINVAL,
                            "NVIDIA's driver is too old: libcuda.so.1 has no function %s",
                            api_imports[i].symbol);
        memcpy((char *)cu + api_imports[i].at, &symbol, sizeof symbol);
    }
    return FX_OK;
}

fx_status fxi_cu_api_load(fxi_cu_api *cu, fx_error *err)
{
    memset(cu, 0, sizeof *cu);
    cu->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!cu->library)
        return fxi_fail(err, FX_EINVAL, "libcuda.so.1, NVIDIA's driver, cannot be loaded");
    fx_status st = import_all(cu, err);
    if (st != FX_OK) fxi_cu_api_unload(cu);
    return st;
}

void fxi_cu_api_unload(fxi_cu_api *cu)
{
    if (cu->library) dlclose(cu->library);
    cu->library = NULL;
}
