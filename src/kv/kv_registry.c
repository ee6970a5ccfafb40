// kv_registry.c - KV managers by name. The first is the default.
#include "kv/kv.h"
#include "kv/kv_managers.h"
#include "vtensor/vmm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const fxi_kv_ops *const managers[] = {&fxi_kv_vtensor, &fxi_kv_vattention,
                                             &fxi_kv_vattention_mega, &fxi_kv_vattention_start,
                                             &fxi_kv_paged};

enum { N_MANAGER = sizeof managers / sizeof *managers };

const char *fxi_kv_manager_name(int i)
{
    return i >= 0 && i < N_MANAGER ? managers[i]->name : NULL;
}

fx_status fxi_kv_open_with(const fxi_kv_ops *ops, const fxi_kv_shape *shape, fxi_kv **out,
                           fx_error *err)
{
    *out = NULL;
    if (fxi_kv_state_bytes(&shape->layout) && !(ops->caps & FXI_KV_STATES))
        return fxi_fail(err, FX_EINVAL,
                        "the KV manager '%s' keeps no recurrent states; this model needs '%s'",
                        ops->name, managers[0]->name);
    for (int g = 0; shape->n_rank && g < shape->layout.n_group; g++)
        if (shape->layout.group[g].row_bytes % (size_t)shape->n_rank)
            return fxi_fail(err, FX_EINVAL,
                            "KV cache: %d devices cannot share out rows of %zu bytes",
                            shape->n_rank, shape->layout.group[g].row_bytes);
    fxi_kv *kv = calloc(1, ops->struct_bytes);
    if (!kv) return fxi_fail(err, FX_ENOMEM, "KV cache: out of memory");
    kv->ops = ops;
    const fx_status st = ops->open(kv, shape, err);
    if (st != FX_OK) {
        free(kv);
        return st;
    }
    for (int k = 0; k < fxi_kv_n_device(shape); k++) kv->given[k] = fxi_kv_given_memory(shape, k);
    *out = kv;
    return FX_OK;
}

void fxi_kv_close(fxi_kv *kv)
{
    if (!kv) return;
    kv->ops->close(kv);
    for (int k = 0; k < FXI_MAX_RANK; k++)
        if (kv->given[k]) kv->given[k]->ops->close(kv->given[k]);
    free(kv);
}

fx_status fxi_kv_open(const char *manager, const fxi_kv_shape *shape, fxi_kv **out, fx_error *err)
{
    *out = NULL;
    for (int i = 0; i < N_MANAGER; i++)
        if (!manager || strcmp(managers[i]->name, manager) == 0)
            return fxi_kv_open_with(managers[i], shape, out, err);
    char list[256] = "";
    size_t n = 0;
    for (int i = 0; i < N_MANAGER && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", managers[i]->name);
    return fxi_fail(err, FX_EINVAL, "unknown KV manager '%s'; managers: %s", manager, list);
}
