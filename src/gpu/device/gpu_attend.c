// gpu_attend.c - linear layers and attention on the device.
#include "gpu/device/gpu_impl.h"

// ---- linear layers -----------------------------------------------------------------------------

// Where a step reads the rows that linear layers multiply.
static const fxi_cuda_act *operand_in(const fxi_gpu *g, fxi_operand a)
{
    const fxi_cuda_act *const rows[FXI_OPERAND_END] = {
        [FXI_OPERAND_H] = &g->s.h, [FXI_OPERAND_ATT] = &g->s.att_in, [FXI_OPERAND_MID] = &g->s.mid};
    return rows[a];
}

static float *operand_out(const fxi_gpu *g, fxi_operand y)
{
    float *const rows[FXI_OPERAND_END] = {[FXI_OPERAND_H] = g->s.h.x,
                                          [FXI_OPERAND_Q] = g->s.q,
                                          [FXI_OPERAND_K] = g->s.k,
                                          [FXI_OPERAND_V] = g->s.v};
    return rows[y];
}

fx_status fxi_gpu_linear(fxi_device *d, fxi_operand a, const fxi_device_linear *job, int n_job,
                         fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    for (int i = 0; i < n_job; i++)
        FX_TRY(fxi_gpu_matmul(g, job[i].w, operand_in(g, a), operand_out(g, job[i].y), err));
    return FX_OK;
}

// ---- queries, keys and values ------------------------------------------------------------------

fx_status fxi_gpu_rope_store(fxi_device *d, const fxi_layer *l, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    const fxi_model_shape *s = &g->plan->model.shape;
    const fxi_gpu_layout *at = &g->pass.at;
    const int r = l->rope == &g->plan->rope[1];
    const fxi_cuda_rope_store_args args = {
        .q = g->s.q,
        .k = g->s.k,
        .v = g->s.v,
        .q_bias = l->q.b,
        .k_bias = l->k.b,
        .v_bias = l->v.b,
        .q_norm = fxi_gpu_norm(g, &l->q_norm),
        .k_norm = fxi_gpu_norm(g, &l->k_norm),
        .cos = l->rope ? fxi_gpu_array(g, at->cos[r]) : NULL,
        .sin = l->rope ? fxi_gpu_array(g, at->sin[r]) : NULL,
        .q_scale = g->plan->rules.log_scale != 0 ? fxi_gpu_array(g, at->gain) : NULL,
        .seq = fxi_gpu_array(g, at->seq),
        .row_seq = fxi_gpu_array(g, at->row_seq),
        .pos = fxi_gpu_array(g, at->pos),
        .n_row = g->pass.n_row,
        .n_head = s->n_head,
        .n_kv_head = s->n_kv_head,
        .head_dim = s->head_dim,
        .n_pair = l->rope ? l->rope->n_pair : 0,
        .kv_type = (int32_t)g->plan->model.kv_type,
        .kv_group = l->kv_group,
        .kv_layer = l->kv_layer,
        .live = fxi_gpu_live_rows(g),
    };
    return fxi_gpu_launch(g, FXI_CUDA_ROPE_STORE, &args, err);
}

// ---- attention ---------------------------------------------------------------------------------

fx_status fxi_gpu_keep_rows(fxi_device *d, fx_error *err)
{
    (void)err;
    fxi_gpu_pass *p = &fxi_gpu_of(d)->pass;
    p->kept = true;
    if (!p->graph) p->n_row = p->n_kept;
    return FX_OK;
}

static const fxi_cuda_plan *attention_plan(const fxi_gpu_pass *p, const fxi_layer *l)
{
    return p->kept ? &p->last : &p->plan[l->is_windowed];
}

static fxi_cuda_attn_args attention_args(const fxi_gpu *g, const fxi_layer *l)
{
    const fxi_transformer *m = g->plan;
    const fxi_model_shape *s = &m->model.shape;
    const fxi_gpu_pass *p = &g->pass;
    const fxi_cuda_plan *plan = attention_plan(p, l);
    const fxi_gpu_count tiles = p->kept          ? FXI_GPU_LAST_TILES
                                : l->is_windowed ? FXI_GPU_WINDOW_TILES
                                                 : FXI_GPU_TILES;
    return (fxi_cuda_attn_args){
        .seq = fxi_gpu_array(g, p->at.seq),
        .tile = fxi_gpu_array(g, p->kept ? p->at.last : p->at.tile[l->is_windowed]),
        .n_tile = plan->n_tile,
        .max_range = plan->max_range,
        .live = fxi_gpu_live(g, tiles),
        .q = g->s.q,
        .out = g->s.att,
        .part = g->s.part,
        .sink = l->sink,
        .n_head = s->n_head,
        .n_kv_head = s->n_kv_head,
        .head_dim = s->head_dim,
        .kv_type = (int32_t)m->model.kv_type,
        .kv_group = l->kv_group,
        .kv_layer = l->kv_layer,
        .window = l->is_windowed ? m->rules.window : 0,
        .scale = m->rules.attn_scale,
        .softcap = m->rules.attn_cap,
    };
}

// The rows of the result that remain, in the form that o reads.
static fx_status form_rows(fxi_gpu *g, const fxi_linear *o, fx_error *err)
{
    const fxi_cuda_rows_args args = {
        .x = g->s.att,
        .from = g->pass.kept ? fxi_gpu_array(g, g->pass.at.wanted) : NULL,
        .n_row = g->pass.n_row,
        .live = fxi_gpu_live_rows(g),
        .n = o->n_in,
        .out = fxi_gpu_forms(g, &g->s.att_in, (uint64_t)1 << o->type),
    };
    return fxi_gpu_launch(g, FXI_CUDA_ROWS, &args, err);
}

// The tiles of the plan, of which the last n_wide are wide, by the kernel of each. Graphs, whose
// counts are on the device, have no wide ones.
static fx_status launch_tiles(fxi_gpu *g, const fxi_cuda_attn_args *all, int n_wide, fx_error *err)
{
    const fxi_dtype type = g->plan->model.kv_type;
    const int head_dim = g->plan->model.shape.head_dim;
    fxi_cuda_attn_args few = *all, wide = *all;
    few.n_tile -= n_wide;
    wide.tile += few.n_tile;
    wide.n_tile = n_wide;
    wide.live = NULL;
    FX_TRY(fxi_gpu_launch(g, fxi_cuda_attention_find(type, head_dim, g->math), &few, err));
    if (!n_wide) return FX_OK;
    return fxi_gpu_launch(g, fxi_cuda_attention_wide_find(type, head_dim, g->math), &wide, err);
}

fx_status fxi_gpu_attention(fxi_device *d, const fxi_layer *l, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    const fxi_cuda_attn_args args = attention_args(g, l);
    FX_TRY(launch_tiles(g, &args, attention_plan(&g->pass, l)->n_wide, err));
    if (args.max_range > 1) FX_TRY(fxi_gpu_launch(g, FXI_CUDA_ATTN_MERGE, &args, err));
    return form_rows(g, &l->o.w, err);
}
