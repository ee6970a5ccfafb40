// gpu_load.c - memory on the device for a model, and its weights on their way there.
#include "gpu/device/gpu_impl.h"
#include "kernels/cuda/cuda_pack.h"

fx_status fxi_gpu_take(fxi_device *d, size_t size_bytes, uint64_t more_bytes, void **out,
                       fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    *out = NULL;
    FX_TRY(fxi_cu_enter(&g->cu, err));
    fx_status st = fxi_gpu_heap_take(&g->cu, &g->weights, size_bytes, more_bytes, out, err);
    fxi_cu_leave(&g->cu);
    return st;
}

fx_status fxi_gpu_take_host(fxi_device *d, size_t size_bytes, void **out, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    *out = NULL;
    FX_TRY(fxi_cu_enter(&g->cu, err));
    fx_status st = fxi_gpu_pinned_take(&g->cu, &g->pinned, size_bytes, out, err);
    fxi_cu_leave(&g->cu);
    return st;
}

fx_status fxi_gpu_upload(fxi_device *d, void *dst, const void *src, size_t size_bytes,
                         fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    FX_TRY(fxi_cu_enter(&g->cu, err));
    fx_status st = fxi_gpu_stage_upload(&g->cu, &g->stage, dst, src, size_bytes, err);
    fxi_cu_leave(&g->cu);
    return st;
}

bool fxi_gpu_is_plain(const fxi_gpu *g, fxi_dtype type)
{
    return fxi_lt_is_open(&g->lt) && fxi_lt_has_type(type);
}

static size_t plain_row_bytes(const fxi_linear *w)
{
    return (size_t)w->n_in * fxi_dtype_find(w->type)->block_bytes; // of one number
}

static fx_status take_plain(fxi_gpu *g, fxi_linear *w, uint64_t more_bytes, fx_error *err)
{
    const size_t size_bytes = (size_t)w->n_out * plain_row_bytes(w);
    FX_TRY(fxi_lt_announce(&g->lt, w->type, w->n_in, w->n_out, err));
    return fxi_gpu_take(&g->device, size_bytes, more_bytes, &w->data, err);
}

fx_status fxi_gpu_take_linear(fxi_device *d, fxi_linear *w, int n, uint64_t more_bytes,
                              fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    const size_t each = fxi_cuda_matrix_bytes(w->type, w->n_in, w->n_out);
    g->takes_plain = n == 1 && fxi_gpu_is_plain(g, w->type);
    if (g->takes_plain) return take_plain(g, w, more_bytes, err);
    if (!g->kernels.function[fxi_cuda_linear_find(w->type, g->math, 1)])
        return fxi_fail(err, FX_EINVAL, "%s: no kernel for weights of type %s", g->cu.label,
                        fxi_dtype_find(w->type)->name);
    void *at;
    FX_TRY(fxi_gpu_take(d, (size_t)n * each, more_bytes, &at, err));
    for (int i = 0; i < n; i++) w[i].data = (char *)at + (size_t)i * each;
    return FX_OK;
}

// A part is a shape of its own to cuBLASLt.
fx_status fxi_gpu_view_rows(fxi_device *d, const fxi_linear *w, int row0, int n_row,
                            fxi_linear *out, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    const bool is_plain = fxi_gpu_is_plain(g, w->type);
    const size_t from_bytes =
        is_plain ? (size_t)row0 * plain_row_bytes(w)
                 : (size_t)(row0 / FXI_PANEL) * fxi_cuda_panel_bytes(w->type, w->n_in);
    *out = *w;
    out->n_out = n_row;
    out->data = (char *)w->data + from_bytes;
    return is_plain ? fxi_lt_announce(&g->lt, w->type, w->n_in, n_row, err) : FX_OK;
}

fx_status fxi_gpu_put_linear(fxi_device *d, const fxi_linear *w, int row0, int n_row,
                             const void *rows, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    const size_t panel = (size_t)(row0 / FXI_PANEL), row_bytes = plain_row_bytes(w);
    if (g->takes_plain)
        return fxi_gpu_upload(d, (char *)w->data + (size_t)row0 * row_bytes, rows,
                              (size_t)n_row * row_bytes, err);
    char *dst = (char *)w->data + panel * fxi_cuda_panel_bytes(w->type, w->n_in);
    FX_TRY(fxi_cu_enter(&g->cu, err));
    fx_status st =
        fxi_gpu_stage_pack(&g->cu, &g->stage, g->pool, w->type, w->n_in, n_row, rows, dst, err);
    fxi_cu_leave(&g->cu);
    return st;
}
