// dnn.c - see dnn.h.
#include "gpu/library/dnn.h"

#include <stddef.h>

static fx_status name_device(const fxi_dnn *dnn, fx_status st, fx_error *err)
{
    return st != FX_OK && err ? fxi_fail_in(err, "%s", dnn->cu->label) : st;
}

static fx_status check_handle(const fxi_dnn *dnn, fxi_dnn_status r, const char *what, fx_error *err)
{
    if (r == FXI_DNN_SUCCESS) return FX_OK;
    return fxi_fail(err, r == FXI_DNN_ALLOC_FAILED ? FX_ENOMEM : FX_EINTERNAL, "%s: %s", what,
                    dnn->api.get_error_name(r));
}

static fx_status open_handle(fxi_dnn *dnn, fx_error *err)
{
    FX_TRY(check_handle(dnn, dnn->api.open(&dnn->handle), "cudnnCreate", err));
    return check_handle(dnn, dnn->api.set_stream(dnn->handle, dnn->cu->compute), "cudnnSetStream",
                        err);
}

fx_status fxi_dnn_open(fxi_dnn *dnn, fxi_cu *cu, fx_error *err)
{
    *dnn = (fxi_dnn){.cu = cu};
    fx_status st = fxi_dl_load(&fxi_dnn_source, &dnn->api, err);
    if (st == FX_OK) st = open_handle(dnn, err);
    st = name_device(dnn, st, err);
    if (st != FX_OK) fxi_dnn_close(dnn);
    return st;
}

void fxi_dnn_close(fxi_dnn *dnn)
{
    for (int i = 0; i < FXI_DNN_MAX_SHAPE; i++) fxi_sdpa_close(&dnn->kept[i].sdpa);
    if (dnn->handle) (void)dnn->api.close(dnn->handle);
    fxi_dl_unload(&dnn->api);
    *dnn = (fxi_dnn){0};
}

bool fxi_dnn_is_open(const fxi_dnn *dnn)
{
    return dnn->handle != NULL;
}

static bool is_shape(const fxi_sdpa_shape *a, const fxi_sdpa_shape *b)
{
    return a->type == b->type && a->n_seq == b->n_seq && a->n_head == b->n_head &&
           a->n_kv_head == b->n_kv_head && a->head_dim == b->head_dim &&
           a->max_q_tok == b->max_q_tok && a->max_kv_tok == b->max_kv_tok &&
           a->token_step == b->token_step;
}

// The place of the shape, or the one that it takes.
static fxi_dnn_kept *kept_place(fxi_dnn *dnn, const fxi_sdpa_shape *shape)
{
    fxi_dnn_kept *oldest = &dnn->kept[0];
    for (int i = 0; i < FXI_DNN_MAX_SHAPE; i++) {
        fxi_dnn_kept *k = &dnn->kept[i];
        if (is_shape(&k->shape, shape)) return k;
        if (k->used < oldest->used) oldest = k;
    }
    fxi_sdpa_close(&oldest->sdpa);
    *oldest = (fxi_dnn_kept){0};
    return oldest;
}

static fx_status plan_shape(fxi_dnn *dnn, const fxi_sdpa_shape *shape, fxi_sdpa *out, fx_error *err)
{
    const fxi_sdpa_device device = {.handle = dnn->handle};
    FX_TRY(fxi_sdpa_open(out, &dnn->api, shape, &device, err));
    const fx_status st = fxi_sdpa_plan(out, FXI_DNN_WORKSPACE_BYTES, err);
    if (st != FX_OK) fxi_sdpa_close(out);
    return st;
}

fx_status fxi_dnn_find(fxi_dnn *dnn, const fxi_sdpa_shape *shape, const fxi_sdpa **out,
                       fx_error *err)
{
    fxi_dnn_kept *k = kept_place(dnn, shape);
    *out = NULL;
    if (!k->shape.n_seq) {
        const fx_status st = plan_shape(dnn, shape, &k->sdpa, err);
        if (st != FX_OK && st != FX_EINVAL) return name_device(dnn, st, err);
        k->shape = *shape;
    }
    k->used = ++dnn->n_use;
    if (k->sdpa.plan) *out = &k->sdpa;
    return FX_OK;
}

fx_status fxi_dnn_run(fxi_dnn *dnn, const fxi_sdpa *s, void *const *data, void *workspace,
                      fx_error *err)
{
    return name_device(dnn, fxi_sdpa_run(s, dnn->handle, data, workspace, err), err);
}
