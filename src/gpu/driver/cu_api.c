// cu_api.c - finds the driver's functions by name; see cu_api.h.
#include "gpu/driver/cu_api.h"

#include <dlfcn.h>
#include <string.h>

#include "gpu/driver/dl_import.h"

#define IMPORT(member, symbol, parameters) {#symbol, offsetof(fxi_cu_api, member)},
static const fxi_dl_function api_imports[] = {FXI_CU_FUNCTIONS(IMPORT)};
#undef IMPORT

fx_status fxi_cu_api_load(fxi_cu_api *cu, fx_error *err)
{
    memset(cu, 0, sizeof *cu);
    cu->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!cu->library)
        return fxi_fail(err, FX_EINVAL, "libcuda.so.1, NVIDIA's driver, cannot be loaded");
    const char *missing =
        fxi_dl_import(cu->library, api_imports, sizeof api_imports / sizeof *api_imports, cu);
    if (!missing) return FX_OK;
    fxi_cu_api_unload(cu);
    return fxi_fail(err, FX_EINVAL, "NVIDIA's driver is too old: libcuda.so.1 has no function %s",
                    missing);
}

void fxi_cu_api_unload(fxi_cu_api *cu)
{
    if (cu->library) dlclose(cu->library);
    cu->library = NULL;
}
