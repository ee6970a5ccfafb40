// layer_experts.c - the tensors of a mixture of experts.
//
// Files hold an expert's matrices in three ways: all experts in one tensor of slices, a tensor per
// expert, or gate and up together in one tensor of slices.
#include <stdio.h>

#include "model/load/loading.h"

typedef struct expert_part {
    const char *slices; // the tensor of slices
    const char *single; // a tensor per expert
    int gate_up;        // which part of "ffn_gate_up_exps" it is; -1: none
    int n_in, n_out;
    fxi_expert_linear *dst;
} expert_part;

static fx_status load_expert_part(fxi_loading *l, int layer, const expert_part *e, fx_error *err)
{
    const int n = l->m->rules.n_expert;
    const bool fused = e->gate_up >= 0 && fxi_loading_has(l, "ffn_gate_up_exps", layer);
    char first[64];
    void *w;
    FX_TRY(fxi_load_zeros(l->ld, (size_t)n * sizeof *e->dst->w, &w, err));
    e->dst->w = w;
    snprintf(first, sizeof first, "%s.0", e->single);
    if (!fused && fxi_loading_has(l, first, layer)) {
        const fxi_part_of each = {
            .key = {e->single, layer, false}, .n_in = e->n_in, .n_out = e->n_out};
        return fxi_load_singles(l->ld, &each, e->dst->w, n, err);
    }
    const fxi_part_of m = {.key = {fused ? "ffn_gate_up_exps" : e->slices, layer, false},
                           .n_in = e->n_in,
                           .n_out = e->n_out,
                           .n_row = fused ? 2 * e->n_out : 0,
                           .row0 = fused ? e->gate_up * e->n_out : 0,
                           .n_slice = n};
    FX_TRY(fxi_load_linear(l->ld, &m, e->dst->w, err));
    return fxi_bias_load(l, &m, &e->dst->b, err);
}

// The expert that every token goes through, where the file has one.
static fx_status load_shared(fxi_loading *l, int layer, fxi_experts *out, fx_error *err)
{
    static const char *const names[] = {"ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"};
    const fxi_gguf_tensor *up = fxi_loader_find(l->ld, (fxi_tensor_key){names[1], layer, false});
    const fxi_tensor_key gate = {"ffn_gate_inp_shexp", layer, false};
    if (!up) return FX_OK;
    if (up->ne[1] < 1 || up->ne[1] > 1 << 20)
        return fxi_loading_fail(l, "the shared expert has an implausible number of rows", err);
    const int n_ffn = (int)up->ne[1];
    if (n_ffn > l->m->rules.n_shared_ffn) l->m->rules.n_shared_ffn = n_ffn;
    FX_TRY(fxi_ffn_load(l, layer, names, n_ffn, &out->shared, err));
    if (!fxi_loader_find(l->ld, gate)) return FX_OK;
    const fxi_part_of m = {.key = gate, .n_in = l->m->model.shape.dim, .n_out = 1};
    return fxi_load_linear(l->ld, &m, &out->sh_gate, err);
}

fx_status fxi_experts_load(fxi_loading *l, int layer, fxi_experts *out, fx_error *err)
{
    const int dim = l->m->model.shape.dim, n_ffn = l->m->rules.n_expert_ffn;
    const expert_part parts[] = {{"ffn_gate_exps", "ffn_gate", 0, dim, n_ffn, &out->gate},
                                 {"ffn_up_exps", "ffn_up", 1, dim, n_ffn, &out->up},
                                 {"ffn_down_exps", "ffn_down", -1, n_ffn, dim, &out->down}};
    const fxi_part_of router = {
        .key = {"ffn_gate_inp", layer, false}, .n_in = dim, .n_out = l->m->rules.n_expert};
    FX_TRY(fxi_affine_load(l, &router, &out->router, err));
    for (size_t i = l->family->flags & FXI_GATED ? 0 : 1; i < sizeof parts / sizeof *parts; i++)
        FX_TRY(load_expert_part(l, layer, &parts[i], err));
    return load_shared(l, layer, out, err);
}
