// layer_experts.c - the tensors of a mixture of experts.
//
// Files hold an expert's matrices in three ways: all experts in one tensor of slices, a tensor per
// expert, or gate and up together in one tensor of slices.
#include <stdio.h>

#include "model/load/loading.h"

typedef struct expert_part {
    const char *slices; // the tensor of slices
    const char *single; // a tensor per expert
    int gate_up;        // which part of "ffn_gate_up_exps" it is; -1: none, it is the second half
    fxi_expert_linear *dst;
} expert_part;

// This device's part [first, first + n) of the numbers between the halves of an expert.
typedef struct expert_cut {
    int first, n;
} expert_cut;

static fx_status cut_experts(const fxi_loading *l, int layer, expert_cut *out, fx_error *err)
{
    const bool slices = fxi_loading_has(l, "ffn_down_exps", layer);
    const fxi_tensor_key down = {slices ? "ffn_down_exps" : "ffn_down.0", layer, false};
    return fxi_ffn_cut(l, down, l->m->rules.n_expert_ffn, &out->first, &out->n, err);
}

// The rows of a first half, or the columns of a second one.
static fxi_part_of part_of_expert(const fxi_loading *l, const expert_part *e, expert_cut cut)
{
    const int dim = l->m->model.shape.dim, n_ffn = l->m->rules.n_expert_ffn;
    if (e->gate_up >= 0)
        return (fxi_part_of){.n_in = dim, .n_out = cut.n, .n_row = n_ffn, .row0 = cut.first};
    return (fxi_part_of){
        .n_in = cut.n, .n_out = dim, .n_col = cut.n < n_ffn ? n_ffn : 0, .col0 = cut.first};
}

// A bias behind the sum of a second half is the first device's: it is in the sum of all once.
static fx_status load_expert_part(fxi_loading *l, int layer, const expert_part *e, expert_cut cut,
                                  fx_error *err)
{
    const int n = l->m->rules.n_expert;
    const bool fused = e->gate_up >= 0 && fxi_loading_has(l, "ffn_gate_up_exps", layer);
    fxi_part_of m = part_of_expert(l, e, cut);
    char first[64];
    void *w;
    FX_TRY(fxi_load_zeros(l->ld, (size_t)n * sizeof *e->dst->w, &w, err));
    e->dst->w = w;
    snprintf(first, sizeof first, "%s.0", e->single);
    if (!fused && fxi_loading_has(l, first, layer)) {
        m.key = (fxi_tensor_key){e->single, layer, false};
        return fxi_load_singles(l->ld, &m, e->dst->w, n, err);
    }
    m.key = (fxi_tensor_key){fused ? "ffn_gate_up_exps" : e->slices, layer, false};
    m.n_slice = n;
    if (fused) m.row0 += e->gate_up * m.n_row, m.n_row *= 2;
    FX_TRY(fxi_load_linear(l->ld, &m, e->dst->w, err));
    return m.n_row || !l->ld->cut.rank ? fxi_bias_load(l, &m, &e->dst->b, err) : FX_OK;
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
    if (l->ld->cut.rank) out->shared.down.b = NULL;
    if (!fxi_loader_find(l->ld, gate)) return FX_OK;
    const fxi_part_of m = {.key = gate, .n_in = l->m->model.shape.dim, .n_out = 1};
    return fxi_load_linear(l->ld, &m, &out->sh_gate, err);
}

fx_status fxi_experts_load(fxi_loading *l, int layer, fxi_experts *out, fx_error *err)
{
    const expert_part parts[] = {{"ffn_gate_exps", "ffn_gate", 0, &out->gate},
                                 {"ffn_up_exps", "ffn_up", 1, &out->up},
                                 {"ffn_down_exps", "ffn_down", -1, &out->down}};
    const fxi_part_of router = {.key = {"ffn_gate_inp", layer, false},
                                .n_in = l->m->model.shape.dim,
                                .n_out = l->m->rules.n_expert};
    expert_cut cut;
    FX_TRY(cut_experts(l, layer, &cut, err));
    FX_TRY(fxi_affine_load(l, &router, &out->router, err));
    for (size_t i = l->family->flags & FXI_GATED ? 0 : 1; i < sizeof parts / sizeof *parts; i++)
        FX_TRY(load_expert_part(l, layer, &parts[i], cut, err));
    return load_shared(l, layer, out, err);
}
