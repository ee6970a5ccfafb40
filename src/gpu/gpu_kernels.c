// gpu_kernels.c - the kernels of the program on one device: found by name when it is opened,
// launched by id.
#include "gpu/gpu_image.h"
#include "gpu/gpu_impl.h"

#include <stdlib.h>

// More must be allowed; a kernel's own shared memory counts, too.
enum { PLAIN_SHARED_BYTES = (48 << 10) - FXI_CUDA_OWN_SHARED_BYTES };

fx_status fxi_gpu_kernels_load(fxi_gpu *g, fx_error *err)
{
    fxi_gpu_kernels *k = &g->kernels;
    size_t n = 0;
    while (fxi_gpu_images[n].name) n++;
    if (!n)
        return fxi_fail(err, FX_EINVAL, "%s: this build has no CUDA kernels (cmake --preset cuda)",
                        g->cu.label);
    k->module = calloc(n, sizeof *k->module);
    if (!k->module) return fxi_fail(err, FX_ENOMEM, "%s: no host memory", g->cu.label);
    for (; k->n_module < (int)n; k->n_module++)
        FX_TRY(fxi_cu_module_load(&g->cu, fxi_gpu_images[k->n_module].bytes,
                                  &k->module[k->n_module], err));
    for (int id = 0; id < FXI_CUDA_KERNEL_END; id++)
        for (int i = 0; i < k->n_module && !k->function[id]; i++)
            FX_TRY(fxi_cu_module_find(&g->cu, k->module[i],
                                      fxi_cuda_kernel_find((fxi_cuda_kernel_id)id)->name,
                                      &k->function[id], err));
    return FX_OK;
}

void fxi_gpu_kernels_free(fxi_gpu *g)
{
    for (int i = 0; i < g->kernels.n_module; i++) fxi_cu_module_free(&g->cu, g->kernels.module[i]);
    free(g->kernels.module);
    g->kernels = (fxi_gpu_kernels){0};
}

fx_status fxi_gpu_launch(fxi_gpu *g, fxi_cuda_kernel_id id, const void *args, fx_error *err)
{
    const fxi_cuda_kernel *k = fxi_cuda_kernel_find(id);
    fxi_cuda_grid at;
    if (g->pass.mode == FXI_GPU_REPLAY) return FX_OK;
    k->shape(args, &at);
    if (!at.grid[0] || !at.grid[1] || !at.grid[2]) return FX_OK;
    const fxi_cu_launch l = {.function = g->kernels.function[id],
                             .name = k->name,
                             .grid = {at.grid[0], at.grid[1], at.grid[2]},
                             .block = {at.block[0], at.block[1], at.block[2]},
                             .shared_bytes = at.shared_bytes,
                             .args = args};
    if (!l.function)
        return fxi_fail(err, FX_EINVAL, "%s: this build has no kernel %s", g->cu.label, k->name);
    FX_TRY(fxi_cu_enter(&g->cu, err));
    fx_status st = FX_OK;
    unsigned *allowed = &g->kernels.shared_bytes[id];
    if (l.shared_bytes > PLAIN_SHARED_BYTES && l.shared_bytes > *allowed) {
        st = fxi_cu_allow_shared(&g->cu, l.function, (int)l.shared_bytes, err);
        if (st == FX_OK) *allowed = l.shared_bytes;
    }
    if (st == FX_OK)
        st = g->pass.mode == FXI_GPU_RECORD ? fxi_gpu_graph_add(g, &l, err)
                                            : fxi_cu_run(&g->cu, &l, err);
    return fxi_gpu_failed(g, fxi_cu_leave(&g->cu, st), err);
}
