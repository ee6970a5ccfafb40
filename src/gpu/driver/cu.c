// cu.c - a GPU by its driver: finding and opening a device, its memory, its streams, and kernels in
// modules and graphs; see cu.h.
//
// A graph is made node by node. No stream is captured for it, so other threads' calls of the driver
// are not restricted meanwhile.
#include "gpu/driver/cu.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LEAST_CC = 80 };

// ---- errors ------------------------------------------------------------------------------------

fx_status fxi_cu_done(const fxi_cu *cu, vti_cu_result r, fx_error *err, const char *fmt, ...)
{
    char what[160];
    const char *name = NULL;
    if (r == VTI_CU_SUCCESS) return FX_OK;
    const bool is_known = cu->api.get_error_name(r, &name) == VTI_CU_SUCCESS && name;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return fxi_fail(err, r == VTI_CU_OUT_OF_MEMORY ? FX_ENOMEM : FX_EINTERNAL, "%s: %s: %s",
                    cu->label, what, is_known ? name : "an unknown error");
}

// ---- the device --------------------------------------------------------------------------------

static fx_status pick_device(fxi_cu *cu, fx_error *err)
{
    int n = 0;
    const vti_cu_result r = cu->api.init(0);
    if (r == VTI_CU_NO_DEVICE)
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

static fx_status check_attributes(fxi_cu *cu, fx_error *err)
{
    int major = 0, minor = 0, vmm = 0;
    const struct {
        vti_cu_attribute which;
        int *value;
    } all[] = {{VTI_CU_ATTRIBUTE_CC_MAJOR, &major},
               {VTI_CU_ATTRIBUTE_CC_MINOR, &minor},
               {VTI_CU_ATTRIBUTE_N_SM, &cu->n_sm},
               {VTI_CU_ATTRIBUTE_SHARED, &cu->max_shared_bytes},
               {VTI_CU_ATTRIBUTE_VMM, &vmm}};
    FX_TRY(fxi_cu_done(cu, cu->api.device_get_name(cu->name, (int)sizeof cu->name - 1, cu->device),
                       err, "cuDeviceGetName"));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        FX_TRY(fxi_cu_done(cu, cu->api.device_get_attribute(all[i].value, all[i].which, cu->device),
                           err, "cuDeviceGetAttribute %d", all[i].which));
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

static fx_status open_context(fxi_cu *cu, fx_error *err)
{
    FX_TRY(fxi_cu_done(cu, cu->api.ctx_retain(&cu->context, cu->device), err,
                       "cuDevicePrimaryCtxRetain"));
    FX_TRY(fxi_cu_enter(cu, err));
    vti_cu_stream *const all[] = {&cu->compute, &cu->copy};
    fx_status st = FX_OK;
    for (int i = 0; i < 2 && st == FX_OK; i++)
        st = fxi_cu_done(cu, cu->api.stream_create(all[i], VTI_CU_STREAM_NON_BLOCKING), err,
                         "cuStreamCreate");
    return fxi_cu_leave(cu, st);
}

fx_status fxi_cu_open(fxi_cu *cu, int ordinal, fx_error *err)
{
    memset(cu, 0, sizeof *cu);
    cu->ordinal = ordinal;
    snprintf(cu->label, sizeof cu->label, "cuda:%d", ordinal);
    const char *why;
    fx_status st = FX_OK;
    if (vti_cu_load(&cu->api, true, &why) != VT_OK)
        st = fxi_fail(err, FX_EINVAL, "%s: %s", cu->label, why);
    if (st == FX_OK) st = pick_device(cu, err);
    if (st == FX_OK) st = check_attributes(cu, err);
    if (st == FX_OK) st = open_context(cu, err);
    if (st != FX_OK) fxi_cu_close(cu);
    return st;
}

void fxi_cu_close(fxi_cu *cu)
{
    if (cu->context && fxi_cu_enter(cu, NULL) == FX_OK) { // else the context's end frees them
        if (cu->compute) (void)cu->api.stream_destroy(cu->compute);
        if (cu->copy) (void)cu->api.stream_destroy(cu->copy);
        fxi_cu_leave(cu, FX_OK);
    }
    if (cu->context) (void)cu->api.ctx_release(cu->device);
    vti_cu_unload(&cu->api);
    cu->context = NULL;
    cu->compute = cu->copy = NULL;
}

fx_status fxi_cu_enter(fxi_cu *cu, fx_error *err)
{
    return fxi_cu_done(cu, cu->api.ctx_push_current(cu->context), err, "cuCtxPushCurrent");
}

fx_status fxi_cu_leave(fxi_cu *cu, fx_status st)
{
    vti_cu_context ours;
    (void)cu->api.ctx_pop_current(&ours);
    return st;
}

// ---- memory -------------------------------------------------------------------------------------

static vti_cu_ptr to_ptr(const void *at)
{
    return (vti_cu_ptr)(uintptr_t)at;
}

fx_status fxi_cu_memory(fxi_cu *cu, uint64_t *free_bytes, uint64_t *total_bytes, fx_error *err)
{
    size_t is_free = 0, total = 0;
    FX_TRY(fxi_cu_done(cu, cu->api.mem_get_info(&is_free, &total), err, "cuMemGetInfo"));
    *free_bytes = is_free;
    *total_bytes = total;
    return FX_OK;
}

fx_status fxi_cu_alloc(fxi_cu *cu, size_t size_bytes, void **at, fx_error *err)
{
    vti_cu_ptr p = 0;
    *at = NULL;
    FX_TRY(fxi_cu_done(cu, cu->api.mem_alloc(&p, size_bytes), err, "cuMemAlloc of %zu bytes",
                       size_bytes));
    *at = (void *)(uintptr_t)p;
    return FX_OK;
}

void fxi_cu_free(fxi_cu *cu, void *at)
{
    if (at) (void)cu->api.mem_free(to_ptr(at));
}

fx_status fxi_cu_pin(fxi_cu *cu, size_t size_bytes, void **bytes, fx_error *err)
{
    *bytes = NULL;
    return fxi_cu_done(cu, cu->api.mem_host_alloc(bytes, size_bytes, 0), err,
                       "cuMemHostAlloc of %zu bytes", size_bytes);
}

void fxi_cu_unpin(fxi_cu *cu, void *bytes)
{
    if (bytes) (void)cu->api.mem_free_host(bytes);
}

fx_status fxi_cu_upload(fxi_cu *cu, vti_cu_stream s, void *dst, const void *src, size_t size_bytes,
                        fx_error *err)
{
    if (!size_bytes) return FX_OK;
    return fxi_cu_done(cu, cu->api.memcpy_htod_async(to_ptr(dst), src, size_bytes, s), err,
                       "cuMemcpyHtoDAsync of %zu bytes", size_bytes);
}

fx_status fxi_cu_download(fxi_cu *cu, vti_cu_stream s, void *dst, const void *src,
                          size_t size_bytes, fx_error *err)
{
    if (!size_bytes) return FX_OK;
    return fxi_cu_done(cu, cu->api.memcpy_dtoh_async(dst, to_ptr(src), size_bytes, s), err,
                       "cuMemcpyDtoHAsync of %zu bytes", size_bytes);
}

fx_status fxi_cu_download_rows(fxi_cu *cu, vti_cu_stream s, void *dst, size_t pitch_bytes,
                               const void *src, size_t row_bytes, size_t n_row, fx_error *err)
{
    const vti_cu_copy_2d copy = {.src_type = VTI_CU_MEMORY_DEVICE,
                                 .src_device = to_ptr(src),
                                 .src_pitch = row_bytes,
                                 .dst_type = VTI_CU_MEMORY_HOST,
                                 .dst_host = dst,
                                 .dst_pitch = pitch_bytes,
                                 .width_bytes = row_bytes,
                                 .height = n_row};
    if (!row_bytes || !n_row) return FX_OK;
    return fxi_cu_done(cu, cu->api.memcpy_2d_async(&copy, s), err,
                       "cuMemcpy2DAsync of %zu x %zu bytes", n_row, row_bytes);
}

// ---- streams and events -------------------------------------------------------------------------

fx_status fxi_cu_wait(fxi_cu *cu, vti_cu_stream s, fx_error *err)
{
    return fxi_cu_done(cu, cu->api.stream_synchronize(s), err, "cuStreamSynchronize");
}

fx_status fxi_cu_is_idle(fxi_cu *cu, vti_cu_stream s, bool *is_idle, fx_error *err)
{
    const vti_cu_result r = cu->api.stream_query(s);
    *is_idle = r == VTI_CU_SUCCESS;
    return r == VTI_CU_NOT_READY ? FX_OK : fxi_cu_done(cu, r, err, "cuStreamQuery");
}

fx_status fxi_cu_event_make(fxi_cu *cu, vti_cu_event *event, fx_error *err)
{
    *event = NULL;
    return fxi_cu_done(
        cu, cu->api.event_create(event, VTI_CU_EVENT_BLOCKING_SYNC | VTI_CU_EVENT_DISABLE_TIMING),
        err, "cuEventCreate");
}

void fxi_cu_event_free(fxi_cu *cu, vti_cu_event event)
{
    if (event) (void)cu->api.event_destroy(event);
}

fx_status fxi_cu_event_mark(fxi_cu *cu, vti_cu_event event, vti_cu_stream s, fx_error *err)
{
    return fxi_cu_done(cu, cu->api.event_record(event, s), err, "cuEventRecord");
}

fx_status fxi_cu_event_wait(fxi_cu *cu, vti_cu_event event, fx_error *err)
{
    return fxi_cu_done(cu, cu->api.event_synchronize(event), err, "cuEventSynchronize");
}

// ---- modules and launches -----------------------------------------------------------------------

fx_status fxi_cu_module_load(fxi_cu *cu, const void *image, vti_cu_module *out, fx_error *err)
{
    *out = NULL;
    const vti_cu_result r = cu->api.module_load(out, image);
    if (r == VTI_CU_NO_BINARY)
        return fxi_fail(err, FX_EINVAL,
                        "%s: this build has no kernels for compute capability %d.%d (%s)",
                        cu->label, cu->cc / 10, cu->cc % 10, cu->name);
    if (r == VTI_CU_INVALID_IMAGE)
        return fxi_fail(err, FX_EINVAL,
                        "%s: NVIDIA's driver, which supports CUDA %d.%d, does not take the kernels "
                        "of this build",
                        cu->label, cu->driver_version / 1000, cu->driver_version % 1000 / 10);
    return fxi_cu_done(cu, r, err, "cuModuleLoadData");
}

void fxi_cu_module_free(fxi_cu *cu, vti_cu_module module)
{
    if (module) (void)cu->api.module_unload(module);
}

fx_status fxi_cu_module_find(fxi_cu *cu, vti_cu_module module, const char *name,
                             vti_cu_function *out, fx_error *err)
{
    *out = NULL;
    const vti_cu_result r = cu->api.module_get_function(out, module, name);
    if (r == VTI_CU_NOT_FOUND) return FX_OK;
    return fxi_cu_done(cu, r, err, "cuModuleGetFunction of %s", name);
}

fx_status fxi_cu_allow_shared(fxi_cu *cu, vti_cu_function f, int size_bytes, fx_error *err)
{
    return fxi_cu_done(cu, cu->api.func_set_attribute(f, VTI_CU_FUNC_DYNAMIC_SHARED, size_bytes),
                       err, "cuFuncSetAttribute of %d bytes of shared memory", size_bytes);
}

fx_status fxi_cu_run(fxi_cu *cu, const fxi_cu_launch *l, fx_error *err)
{
    void *params[] = {(void *)l->args};
    const vti_cu_result r =
        cu->api.launch_kernel(l->function, l->grid[0], l->grid[1], l->grid[2], l->block[0],
                              l->block[1], l->block[2], l->shared_bytes, cu->compute, params, NULL);
    return fxi_cu_done(cu, r, err, "cuLaunchKernel of %s, %u x %u x %u blocks", l->name, l->grid[0],
                       l->grid[1], l->grid[2]);
}

// ---- graphs -------------------------------------------------------------------------------------

fx_status fxi_cu_chain_begin(fxi_cu *cu, fxi_cu_chain *c, fx_error *err)
{
    memset(c, 0, sizeof *c);
    return fxi_cu_done(cu, cu->api.graph_create(&c->graph, 0), err, "cuGraphCreate");
}

fx_status fxi_cu_chain_add(fxi_cu *cu, fxi_cu_chain *c, const fxi_cu_launch *l, fx_error *err)
{
    void *params[] = {(void *)l->args};
    const vti_cu_kernel_node node = {.function = l->function,
                                     .grid = {l->grid[0], l->grid[1], l->grid[2]},
                                     .block = {l->block[0], l->block[1], l->block[2]},
                                     .shared_bytes = l->shared_bytes,
                                     .params = params};
    vti_cu_node added;
    const vti_cu_result r = cu->api.graph_add_kernel(&added, c->graph, c->last ? &c->last : NULL,
                                                     c->last != NULL, &node);
    FX_TRY(fxi_cu_done(cu, r, err, "cuGraphAddKernelNode of %s", l->name));
    c->last = added;
    c->n_node++;
    return FX_OK;
}

fx_status fxi_cu_chain_finish(fxi_cu *cu, fxi_cu_chain *c, fx_error *err)
{
    return fxi_cu_done(cu, cu->api.graph_instantiate(&c->exec, c->graph, 0), err,
                       "cuGraphInstantiate of %d nodes", c->n_node);
}

fx_status fxi_cu_chain_run(fxi_cu *cu, const fxi_cu_chain *c, fx_error *err)
{
    return fxi_cu_done(cu, cu->api.graph_launch(c->exec, cu->compute), err,
                       "cuGraphLaunch of %d nodes", c->n_node);
}

void fxi_cu_chain_free(fxi_cu *cu, fxi_cu_chain *c)
{
    if (c->exec) (void)cu->api.graph_exec_destroy(c->exec);
    if (c->graph) (void)cu->api.graph_destroy(c->graph);
    memset(c, 0, sizeof *c);
}
