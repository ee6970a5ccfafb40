// lt_api.c - finds cuBLASLt and its functions; see lt_api.h.
#include "gpu/library/lt_api.h"

#include <dlfcn.h>
#include <string.h>

#include "gpu/driver/dl_import.h"

#define IMPORT(member, result, symbol, parameters) {#symbol, offsetof(fxi_lt_api, member)},
static const fxi_dl_function lt_imports[] = {FXI_LT_FUNCTIONS(IMPORT)};
#undef IMPORT

fx_status fxi_lt_api_load(fxi_lt_api *lt, fx_error *err)
{
    memset(lt, 0, sizeof *lt);
    lt->library = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_LOCAL);
    if (!lt->library) lt->library = dlopen("libcublasLt.so.12", RTLD_NOW | RTLD_LOCAL);
    if (!lt->library)
        return fxi_fail(err, FX_EINVAL,
                        "GPU arithmetic 'fast' needs NVIDIA's cuBLASLt, and neither "
                        "libcublasLt.so.13 nor libcublasLt.so.12 can be loaded");
    const char *missing =
        fxi_dl_import(lt->library, lt_imports, sizeof lt_imports / sizeof *lt_imports, lt);
    if (!missing) return FX_OK;
    fxi_lt_api_unload(lt);
    return fxi_fail(err, FX_EINVAL, "NVIDIA's cuBLASLt has no function %s", missing);
}

void fxi_lt_api_unload(fxi_lt_api *lt)
{
    if (lt->library) dlclose(lt->library);
    lt->library = NULL;
}
