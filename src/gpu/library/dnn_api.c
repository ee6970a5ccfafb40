// dnn_api.c - finds cuDNN and its functions; see dnn_api.h.
#include "gpu/library/dnn_api.h"

#include <dlfcn.h>
#include <string.h>

#include "gpu/driver/dl_import.h"

#define IMPORT(member, result, symbol, parameters) {#symbol, offsetof(fxi_dnn_api, member)},
static const fxi_dl_function dnn_imports[] = {FXI_DNN_FUNCTIONS(IMPORT)};
#undef IMPORT

fx_status fxi_dnn_api_load(fxi_dnn_api *dnn, fx_error *err)
{
    memset(dnn, 0, sizeof *dnn);
    dnn->library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    if (!dnn->library)
        return fxi_fail(err, FX_EINVAL, "NVIDIA's cuDNN, libcudnn.so.9, cannot be loaded");
    const char *missing =
        fxi_dl_import(dnn->library, dnn_imports, sizeof dnn_imports / sizeof *dnn_imports, dnn);
    if (!missing) return FX_OK;
    fxi_dnn_api_unload(dnn);
    return fxi_fail(err, FX_EINVAL, "NVIDIA's cuDNN has no function %s", missing);
}

void fxi_dnn_api_unload(fxi_dnn_api *dnn)
{
    if (dnn->library) dlclose(dnn->library);
    dnn->library = NULL;
}
