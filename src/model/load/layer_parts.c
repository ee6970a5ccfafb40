// layer_parts.c - what layers and experts are made of: matrices with biases, feed-forward blocks.
#include "model/load/loading.h"

fxi_tensor_key fxi_weight_key(const char *name, int layer)
{
    return (fxi_tensor_key){name, layer, false};
}

bool fxi_loading_has(const fxi_loading *l, const char *name, int layer)
{
    return fxi_loader_find(l->ld, fxi_weight_key(name, layer)) != NULL;
}

// A bias, where the file has one. m: the matrix it belongs to
fx_status fxi_bias_load(fxi_loading *l, const fxi_part_of *m, float **out, fx_error *err)
{
    fxi_part_of b = *m;
    b.key.is_bias = true;
    b.n_in = b.n_col = b.col0 = 0;
    *out = NULL;
    return fxi_loader_find(l->ld, b.key) ? fxi_load_vector(l->ld, &b, out, err) : FX_OK;
}

fx_status fxi_affine_load(fxi_loading *l, const fxi_part_of *m, fxi_affine *out, fx_error *err)
{
    FX_TRY(fxi_load_linear(l->ld, m, &out->w, err));
    return fxi_bias_load(l, m, &out->b, err);
}

fx_status fxi_ffn_cut(const fxi_loading *l, fxi_tensor_key down, int n_ffn, int *first, int *count,
                      fx_error *err)
{
    enum { EVEN_UNIT = 32 }; // of floats, where there are enough
    const fxi_gguf_tensor *t = fxi_loader_find(l->ld, down);
    int unit = t ? (int)t->type->block_elems : 1;
    if (unit == 1 && n_ffn / l->ld->cut.n_rank >= EVEN_UNIT) unit = EVEN_UNIT;
    fxi_cut_range(l->ld->cut, n_ffn, unit, first, count);
    if (*count > 0) return FX_OK;
    return fxi_fail(err, FX_EINVAL,
                    "%s: %d devices cannot share out the %d numbers of a feed-forward block",
                    fxi_gguf_name(l->ld->g), l->ld->cut.n_rank, n_ffn);
}

fx_status fxi_ffn_load(fxi_loading *l, int layer, const char *const name[3], int n_ffn,
                       fxi_ffn *out, fx_error *err)
{
    const int dim = l->m->model.shape.dim;
    const bool gated = l->family->flags & FXI_GATED, fused = !fxi_loading_has(l, name[0], layer);
    const fxi_tensor_key down = fxi_weight_key(name[2], layer);
    int first, n;
    FX_TRY(fxi_ffn_cut(l, down, n_ffn, &first, &n, err));
    fxi_part_of m = {.key = fxi_weight_key(name[gated && !fused ? 0 : 1], layer),
                     .n_in = dim,
                     .n_out = n,
                     .n_row = gated && fused ? 2 * n_ffn : n_ffn,
                     .row0 = first};
    if (gated) FX_TRY(fxi_affine_load(l, &m, &out->gate, err));
    m.key.name = name[1];
    if (gated && fused) m.row0 += n_ffn;
    FX_TRY(fxi_affine_load(l, &m, &out->up, err));
    m = (fxi_part_of){
        .key = down, .n_in = n, .n_out = dim, .n_col = n < n_ffn ? n_ffn : 0, .col0 = first};
    return fxi_affine_load(l, &m, &out->down, err);
}
