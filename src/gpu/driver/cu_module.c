// cu_module.c - loads images of kernels, finds kernels in them and launches them; see cu.h.
#include "gpu/driver/cu.h"

fx_status fxi_cu_module_load(fxi_cu *cu, const void *image, fxi_cu_module *out, fx_error *err)
{
    *out = NULL;
    const fxi_cu_result r = cu->api.module_load_data(out, image);
    if (r == FXI_CU_NO_BINARY)
        return fxi_fail(err, FX_EINVAL,
                        "%s: this build has no kernels for compute capability %d.%d (%s)",
                        cu->label, cu->cc / 10, cu->cc % 10, cu->name);
    if (r == FXI_CU_INVALID_IMAGE)
        return fxi_fail(err, FX_EINVAL,
                        "%s: NVIDIA's driver, which supports CUDA %d.%d, does not take the kernels "
                        "of this build",
                        cu->label, cu->driver_version / 1000, cu->driver_version % 1000 / 10);
    return fxi_cu_done(cu, r, err, "cuModuleLoadData");
}

void fxi_cu_module_free(fxi_cu *cu, fxi_cu_module module)
{
    if (module) (void)cu->api.module_unload(module);
}

fx_status fxi_cu_module_find(fxi_cu *cu, fxi_cu_module module, const char *name,
                             fxi_cu_function *out, fx_error *err)
{
    *out = NULL;
    const fxi_cu_result r = cu->api.module_get_function(out, module, name);
    if (r == FXI_CU_NOT_FOUND) return FX_OK;
    return fxi_cu_done(cu, r, err, "cuModuleGetFunction of %s", name);
}

fx_status fxi_cu_allow_shared(fxi_cu *cu, fxi_cu_function f, int size_bytes, fx_error *err)
{
    return fxi_cu_done(cu, cu->api.func_set_attribute(f, FXI_CU_FUNC_DYNAMIC_SHARED, size_bytes),
                       err, "cuFuncSetAttribute of %d bytes of shared memory", size_bytes);
}

fx_status fxi_cu_run(fxi_cu *cu, const fxi_cu_launch *l, fx_error *err)
{
    void *params[] = {(void *)l->args};
    const fxi_cu_result r =
        cu->api.launch_kernel(l->function, l->grid[0], l->grid[1], l->grid[2], l->block[0],
                              l->block[1], l->block[2], l->shared_bytes, cu->compute, params, NULL);
    return fxi_cu_done(cu, r, err, "cuLaunchKernel of %s, %u x %u x %u blocks", l->name, l->grid[0],
                       l->grid[1], l->grid[2]);
}
