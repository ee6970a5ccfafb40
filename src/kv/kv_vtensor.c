// kv_vtensor.c - the KV manager that is libvtensor: each sequence one contiguous range of
// addresses.
//
// Planes 2 l and 2 l + 1 are the keys and values of layer l. A sequence of ours is a vt_seq and
// nothing else.
#include "kv/managers.h"

#include "vtensor/vtensor.h"

#include <stdlib.h>

typedef struct kv_vtensor {
    fxi_kv kv;
    vt_manager *vt; // owned
} kv_vtensor;

static kv_vtensor *self(const fxi_kv *kv)
{
    return (kv_vtensor *)kv;
}

static vt_seq *vt_of(const fxi_kv_seq *s)
{
    return (vt_seq *)s;
}

static fx_status forward_status(vt_status st, const char *what, fx_error *err)
{
    static const fx_status map[] = {
        [VT_OK] = FX_OK,         [VT_NOSPACE] = FX_ENOSPACE, [VT_EDEVICE] = FX_EIO,
        [VT_EINVAL] = FX_EINVAL, [VT_ENOMEM] = FX_ENOMEM,
    };
    if (st == VT_OK) return FX_OK;
    return fxi_fail(err, map[st], "KV cache: %s: %s", what, vt_status_name(st));
}

static fx_status kvv_open(const fxi_kv_shape *shape, fxi_kv **out, fx_error *err)
{
    *out = NULL;
    kv_vtensor *k = calloc(1, sizeof *k);
    if (!k) return fxi_fail(err, FX_ENOMEM, "KV cache: no memory");
    vt_config cfg = vt_config_default();
    cfg.n_plane = 2 * (uint32_t)shape->n_layer;
    cfg.row_bytes = shape->row_bytes;
    cfg.max_tok = (uint32_t)shape->ctx_tok;
    cfg.max_seq = (uint32_t)shape->max_seq;
    cfg.budget_bytes = shape->budget_bytes;
    fx_status st = forward_status(vt_manager_create(&cfg, &k->vt), "manager", err);
    if (st != FX_OK) {
        free(k);
        return st;
    }
    k->kv.ops = &fxi_kv_vtensor;
    *out = &k->kv;
    return FX_OK;
}

static void kvv_close(fxi_kv *kv)
{
    vt_manager_destroy(self(kv)->vt);
    free(self(kv));
}

static fx_status kvv_seq_create(fxi_kv *kv, fxi_kv_seq **out, fx_error *err)
{
    vt_seq *s = NULL;
    fx_status st = forward_status(vt_seq_create(self(kv)->vt, 0, &s), "create", err);
    *out = (fxi_kv_seq *)s;
    return st;
}

static fx_status kvv_seq_extend(fxi_kv *kv, fxi_kv_seq *s, int len_tok, fx_error *err)
{
    (void)kv;
    return forward_status(vt_seq_extend(vt_of(s), (uint32_t)len_tok), "extend", err);
}

static void kvv_seq_release(fxi_kv *kv, fxi_kv_seq *s)
{
    (void)kv;
    vt_seq_release(vt_of(s));
}

static fxi_kv_view kvv_seq_view(const fxi_kv *kv, const fxi_kv_seq *s)
{
    (void)kv;
    return (fxi_kv_view){
        .base = vt_seq_plane(vt_of(s), 0),
        .plane_stride_bytes = vt_seq_plane_stride(vt_of(s)),
        .tok_stride_bytes = vt_seq_stride(vt_of(s)),
    };
}

static uint64_t kvv_bytes_for(const fxi_kv *kv, int len_tok)
{
    return vt_bytes_for(self(kv)->vt, (uint32_t)len_tok);
}

static fx_status kvv_trim(fxi_kv *kv, uint64_t keep_bytes, fx_error *err)
{
    return forward_status(vt_trim(self(kv)->vt, keep_bytes, NULL), "trim", err);
}

static void kvv_stats(const fxi_kv *kv, fxi_kv_stats *out)
{
    vt_stats st;
    vt_get_stats(self(kv)->vt, &st);
    *out = (fxi_kv_stats){
        .budget_bytes = st.budget_bytes,
        .mapped_bytes = st.mapped_bytes,
        .live_bytes = st.live_bytes,
        .peak_mapped_bytes = st.peak_mapped_bytes,
        .peak_live_bytes = st.peak_live_bytes,
    };
}

const fxi_kv_ops fxi_kv_vtensor = {
    .name = "vtensor",
    .caps = FXI_KV_CONTIGUOUS | FXI_KV_ELASTIC,
    .open = kvv_open,
    .close = kvv_close,
    .seq_create = kvv_seq_create,
    .seq_extend = kvv_seq_extend,
    .seq_release = kvv_seq_release,
    .seq_view = kvv_seq_view,
    .bytes_for = kvv_bytes_for,
    .trim = kvv_trim,
    .stats = kvv_stats,
};
