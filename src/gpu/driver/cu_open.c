// cu_open.c - finds a device, retains its primary context and makes its streams; see cu.h.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "gpu/driver/cu.h"

enum { LEAST_CC = 80 };

// ---- errors ------------------------------------------------------------------------------------

static const char *result_name(const fxi_cu *cu, fxi_cu_result r)
{
    const char *name = NULL;
    return cu->api.get_error_name(r, &name) == FXI_CU_SUCCESS && name ? name : "an unknown error";
}

fx_status fxi_cu_done(const fxi_cu *cu, fxi_cu_result r, fx_error *err, const char *fmt, ...)
{
    char what[160];
    if (r == FXI_CU_SUCCESS) return FX_OK;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return fxi_fail(err, r == FXI_CU_OUT_OF_MEMORY ? FX_ENOMEM : FX_EINTERNAL, "%s: %s: %s",
                    cu->label, what, result_name(cu, r));
}

// ---- the device --------------------------------------------------------------------------------

static fx_status pick_device(fxi_cu *cu, fx_error *err)
{
    int n = 0;
    const fxi_cu_result r = cu->api.init(0);
    if (r == FXI_CU_NO_DEVICE)
        return fxi_fail(err, FX_EINVAL, "%s: this machine has no NVIDIA GPU", cu->label);
    FX_TRY(fxi_cu_done(cu, r, err, "cuInit"));
    FX_TRY(fxi_cu_done(cu, cu->api.driver_get_version(&cu->driver_version), err,
                       "cuDriverGetVersion"));
    FX_TRY(fxi_cu_done(cu, cu->api.device_get_count(&n), err, "cuDeviceGetCount"));
    if (n == 0) return fxi_fail(err, FX_EINVAL, "%s: this machine has no NVIDIA GPU", cu->label);
    if (cu->ordinal < 0 || cu->ordinal >= n)
        return fxi_fail(err, FX_EINVAL, "%s: this machine has %d NVIDIA GPU%s: cuda:0%s", cu->label,
                        n, n > 1 ? "s" : "", n > 1 ? " and so on" : "");
    return fxi_cu_done(cu, cu->api.device_get(&cu->device, cu->ordinal), err, "cuDeviceGet");
}

static fx_status get_attribute(fxi_cu *cu, fxi_cu_attribute which, int *value, fx_error *err)
{
    return fxi_cu_done(cu, cu->api.device_get_attribute(value, which, cu->device), err,
                       "cuDeviceGetAttribute %d", which);
}

static fx_status check_attributes(fxi_cu *cu, fx_error *err)
{
    int major = 0, minor = 0, vmm = 0;
    FX_TRY(fxi_cu_done(cu, cu->api.device_get_name(cu->name, (int)sizeof cu->name - 1, cu->device),
                       err, "cuDeviceGetName"));
    FX_TRY(get_attribute(cu, FXI_CU_ATTRIBUTE_CC_MAJOR, &major, err));
    FX_TRY(get_attribute(cu, FXI_CU_ATTRIBUTE_CC_MINOR, &minor, err));
    FX_TRY(get_attribute(cu, FXI_CU_ATTRIBUTE_N_SM, &cu->n_sm, err));
    FX_TRY(get_attribute(cu, FXI_CU_ATTRIBUTE_SHARED, &cu->max_shared_bytes, err));
    FX_TRY(get_attribute(cu, FXI_CU_ATTRIBUTE_VMM, &vmm, err));
    cu->cc = 10 * major + minor;
    if (cu->cc < LEAST_CC)
        return fxi_fail(err, FX_EINVAL,
                        "%s: %s has compute capability %d.%d; the kernels need 8.0 or higher",
                        cu->label, cu->name, major, minor);
    if (!vmm)
        return fxi_fail(err, FX_EINVAL, "%s: %s has no virtual memory management", cu->label,
                        cu->name);
    return FX_OK;
}

static fx_status make_streams(fxi_cu *cu, fx_error *err)
{
    fxi_cu_stream *const all[] = {&cu->compute, &cu->copy};
    for (int i = 0; i < 2; i++)
        FX_TRY(fxi_cu_done(cu, cu->api.stream_create(all[i], FXI_CU_STREAM_NON_BLOCKING), err,
                           "cuStreamCreate"));
    return FX_OK;
}

static fx_status open_context(fxi_cu *cu, fx_error *err)
{
    FX_TRY(fxi_cu_done(cu, cu->api.ctx_retain(&cu->context, cu->device), err,
                       "cuDevicePrimaryCtxRetain"));
    FX_TRY(fxi_cu_enter(cu, err));
    fx_status st = make_streams(cu, err);
    fxi_cu_leave(cu);
    return st;
}

fx_status fxi_cu_open(fxi_cu *cu, int ordinal, fx_error *err)
{
    memset(cu, 0, sizeof *cu);
    cu->ordinal = ordinal;
    snprintf(cu->label, sizeof cu->label, "cuda:%d", ordinal);
    fx_status st = fxi_dl_load(&fxi_cu_source, &cu->api, err);
    if (st != FX_OK) return err ? fxi_fail_in(err, "%s", cu->label) : st;
    st = pick_device(cu, err);
    if (st == FX_OK) st = check_attributes(cu, err);
    if (st == FX_OK) st = open_context(cu, err);
    if (st != FX_OK) fxi_cu_close(cu);
    return st;
}

static void free_streams(fxi_cu *cu)
{
    if (fxi_cu_enter(cu, NULL) != FX_OK) return; // the context's end frees them
    if (cu->compute) (void)cu->api.stream_destroy(cu->compute);
    if (cu->copy) (void)cu->api.stream_destroy(cu->copy);
    fxi_cu_leave(cu);
}

void fxi_cu_close(fxi_cu *cu)
{
    if (cu->context) {
        free_streams(cu);
        (void)cu->api.ctx_release(cu->device);
    }
    fxi_dl_unload(&cu->api);
    cu->context = NULL;
    cu->compute = cu->copy = NULL;
}

fx_status fxi_cu_enter(fxi_cu *cu, fx_error *err)
{
    return fxi_cu_done(cu, cu->api.ctx_push(cu->context), err, "cuCtxPushCurrent");
}

void fxi_cu_leave(fxi_cu *cu)
{
    fxi_cu_context ours;
    (void)cu->api.ctx_pop(&ours);
}
