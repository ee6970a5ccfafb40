// model.c - what all families share: the type of the cache, and what a model reports about itself.
#include "model/arch.h"

fx_status fxi_model_kv_type(const char *name, int head_dim, fxi_dtype *out, fx_error *err)
{
    const fxi_dtype_info *t = fxi_dtype_by_name(name ? name : "f16");
    const bool known =
        t && (t->id == FXI_F16 || t->id == FXI_BF16 || t->id == FXI_F32 || t->id == FXI_Q8_0);
    if (!known)
        return fxi_fail(err, FX_EINVAL, "KV cache type '%s' is none of f16, bf16, f32, q8_0", name);
    if (head_dim % (int)t->block_elems)
        return fxi_fail(err, FX_EINVAL,
                        "a KV cache of q8_0 needs heads of a multiple of 32 numbers, not %d",
                        head_dim);
    *out = (fxi_dtype)t->id;
    return FX_OK;
}

const fxi_model_shape *fxi_model_get_shape(const fxi_model *m)
{
    return &m->shape;
}

const char *fxi_model_kernel_path(const fxi_model *m)
{
    return m->k->name;
}

const char *fxi_model_kv_type_name(const fxi_model *m)
{
    return fxi_dtype_find(m->kv_type)->name;
}

size_t fxi_model_kv_row_bytes(const fxi_model *m)
{
    return fxi_kv_bytes(m->kv_type, m->shape.n_kv_head * m->shape.head_dim);
}
