// device_open.c - the device that the options name: which room opens it, and the memory for caches.
#include "engine/device_open.h"

#include "gpu/gpu.h"
#include "vtensor/vmm.h"

#include <string.h>

// What caches get of the memory that is free, in tenths: on the host others live beside them.
enum { HOST_TENTHS = 5, DEVICE_TENTHS = 9 };

static bool is_host_name(const char *name)
{
    return !name || !strcmp(name, "cpu");
}

static fx_status open_host(const fx_engine *eng, fxi_device **out, fx_error *err)
{
    return fxi_host_device_open(eng->pool, NULL, out, err);
}

static fx_status open_gpu(const fx_engine *eng, fxi_device **out, fx_error *err)
{
    const fxi_gpu_options opt = {
        .name = eng->opt.device, .math = eng->opt.gpu_math, .pool = eng->pool};
    return (fxi_gpu_is_list(opt.name) ? fxi_gpu_ranks_open : fxi_gpu_open)(&opt, out, err);
}

// Kinds of devices, by their names.
static const struct {
    bool (*is_name)(const char *name);
    fx_status (*open)(const fx_engine *eng, fxi_device **out, fx_error *err);
} kinds[] = {{is_host_name, open_host}, {fxi_gpu_is_name, open_gpu}};

fx_status fxi_engine_open_device(fx_engine *eng, fx_error *err)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].is_name(eng->opt.device)) return kinds[i].open(eng, &eng->device, err);
    return fxi_fail(err, FX_EINVAL, "device '%.100s' is unknown (cpu, cuda:N, cuda:N,cuda:M)",
                    eng->opt.device);
}

bool fxi_engine_is_on_host(const fx_engine *eng)
{
    fxi_device_memory m = {0};
    eng->device->ops->memory(eng->device, &m);
    return m.is_host;
}

uint64_t fxi_engine_kv_bytes(const fx_engine *eng)
{
    fxi_device_memory m;
    eng->device->ops->memory(eng->device, &m);
    return m.free_bytes / 10 * (m.is_host ? HOST_TENTHS : DEVICE_TENTHS);
}

static void close_memory(struct vt_vmm *vmm)
{
    if (vmm) vmm->ops->close(vmm);
}

static fx_status open_manager(fx_engine *eng, const fxi_kv_shape *shape, fx_error *err)
{
    if (eng->opt.kv_ops) return fxi_kv_open_with(eng->opt.kv_ops, shape, &eng->kv, err);
    return fxi_kv_open(eng->opt.kv_manager, shape, &eng->kv, err);
}

static fx_status open_one_kv(fx_engine *eng, fxi_kv_shape *shape, fx_error *err)
{
    struct vt_vmm *opened = NULL;
    if (!shape->vmm) FX_TRY(eng->device->ops->open_vmm(eng->device, &opened, err));
    if (opened) shape->vmm = opened;
    const fx_status st = open_manager(eng, shape, err);
    if (st != FX_OK) close_memory(opened);
    return st;
}

// Memory of each device.
static fx_status open_ranks_kv(fx_engine *eng, fxi_kv_shape *shape, fx_error *err)
{
    const fxi_device_ranks *all = eng->device->ranks;
    fx_status st = FX_OK;
    for (int k = 0; k < all->n && st == FX_OK; k++)
        st = all->device[k]->ops->open_vmm(all->device[k], &shape->rank_vmm[k], err);
    shape->n_rank = all->n;
    if (st == FX_OK) st = open_manager(eng, shape, err);
    for (int k = 0; k < all->n && st != FX_OK; k++) close_memory(shape->rank_vmm[k]);
    return st;
}

fx_status fxi_engine_open_kv(fx_engine *eng, fxi_kv_shape *shape, fx_error *err)
{
    return (eng->device->ranks ? open_ranks_kv : open_one_kv)(eng, shape, err);
}
