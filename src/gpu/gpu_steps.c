// gpu_steps.c - the steps of a pass as launches of kernels: the residual stream (embeddings, what
// branches add, norms, results), linear layers, attention, feed-forward blocks, experts.
#include "gpu/gpu_impl.h"

// ---- shared by all steps -----------------------------------------------------------------------

fxi_cuda_matrix fxi_gpu_matrix(const fxi_linear *w)
{
    return (fxi_cuda_matrix){
        .data = w->data, .type = (int32_t)w->type, .n_in = w->n_in, .n_out = w->n_out};
}

static bool any_reads(const fxi_gpu *g, uint64_t read_by, fxi_cuda_form form)
{
    for (int t = 0; t < FXI_DTYPE_END; t++)
        if (read_by >> t & 1 && fxi_cuda_linear_form((fxi_dtype)t, g->math) == form) return true;
    return false;
}

fxi_cuda_act fxi_gpu_forms(const fxi_gpu *g, const fxi_cuda_act *all, uint64_t read_by)
{
    fxi_cuda_act a = {.x = all->x};
    if (any_reads(g, read_by, FXI_CUDA_FORM_F16)) a.f16 = all->f16;
    if (any_reads(g, read_by, FXI_CUDA_FORM_B16)) a.b16 = all->b16;
    if (!any_reads(g, read_by, FXI_CUDA_FORM_Q8)) return a;
    a.q = all->q;
    a.d = all->d;
    a.sum = all->sum;
    return a;
}

fx_status fxi_gpu_matmul(fxi_gpu *g, const fxi_linear *w, const fxi_cuda_act *a, float *y,
                         fx_error *err)
{
    const fxi_cuda_linear_args args = {.w = fxi_gpu_matrix(w),
                                       .n_expert = 1,
                                       .a = *a,
                                       .n_row = g->pass.n_row,
                                       .live = fxi_gpu_live_rows(g),
                                       .y = y};
    return fxi_gpu_launch(g, fxi_cuda_linear_find(w->type, g->math, g->pass.n_row), &args, err);
}

// The bit of read_by of a layer's type.
static uint64_t reads_bit(const fxi_linear *w)
{
    return (uint64_t)1 << w->type;
}

fxi_cuda_norm fxi_gpu_norm(const fxi_gpu *g, const fxi_rownorm *n)
{
    const fxi_rules *r = &g->plan->rules;
    if (!n) return (fxi_cuda_norm){0};
    return (fxi_cuda_norm){.w = n->w,
                           .b = n->b,
                           .n = n->n,
                           .step = n->step,
                           .is_rms = r->norm == FXI_NORM_RMS,
                           .eps = r->eps};
}

// ---- embeddings --------------------------------------------------------------------------------

// A table in the file's layout.
static fxi_cuda_matrix rows_matrix(const fxi_rows *r)
{
    return (fxi_cuda_matrix){.data = r->data,
                             .type = (int32_t)r->type,
                             .n_in = r->n_elem,
                             .n_out = r->n_row,
                             .row_bytes = r->row_bytes};
}

// Looks the tokens up, in x or, where embeddings are of another width, on their way to it.
static fx_status look_up(fxi_gpu *g, fx_error *err)
{
    const fxi_transformer *m = g->plan;
    const bool narrow = m->embd_in.data != NULL;
    const fxi_cuda_act to = narrow ? fxi_gpu_forms(g, &g->s.narrow, reads_bit(&m->embd_in))
                                   : (fxi_cuda_act){.x = g->s.x};
    const fxi_cuda_embed_args args = {
        .table = m->embd.data ? rows_matrix(&m->embd) : fxi_gpu_matrix(&m->tied),
        .token = fxi_gpu_array(g, g->pass.at.token),
        .out = to,
        .n_row = g->pass.n_row,
        .live = fxi_gpu_live_rows(g),
    };
    FX_TRY(fxi_gpu_launch(g, FXI_CUDA_EMBED, &args, err));
    return narrow ? fxi_gpu_matmul(g, &m->embd_in, &to, g->s.x, err) : FX_OK;
}

// What all kinds of add_norm have in common.
static fxi_cuda_add_norm_args stream_args(fxi_gpu *g, fxi_cuda_stream kind,
                                          const fxi_next_norm *next)
{
    const fxi_transformer *m = g->plan;
    return (fxi_cuda_add_norm_args){
        .kind = kind,
        .n_row = g->pass.n_row,
        .dim = m->model.shape.dim,
        .live = fxi_gpu_live_rows(g),
        .x = g->s.x,
        .x_row = g->pass.kept ? fxi_gpu_array(g, g->pass.at.wanted) : NULL,
        .embd_scale = 1,
        .residual_scale = 1,
        .norm = fxi_gpu_norm(g, next->norm),
        .is_post = m->rules.is_post_norm,
        .out = fxi_gpu_forms(g, &g->s.h, next->read_by),
    };
}

fx_status fxi_gpu_embed(fxi_device *d, const fxi_next_norm *next, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    const fxi_transformer *m = g->plan;
    FX_TRY(look_up(g, err));
    fxi_cuda_add_norm_args args = stream_args(g, FXI_CUDA_STREAM_BEGIN, next);
    args.embd_scale = m->rules.embd_scale;
    args.token_type = m->token_type;
    if (m->positions.data) args.positions = rows_matrix(&m->positions);
    args.pos = fxi_gpu_array(g, g->pass.at.pos);
    return fxi_gpu_launch(g, FXI_CUDA_ADD_NORM, &args, err);
}

// ---- branches ----------------------------------------------------------------------------------

fx_status fxi_gpu_add_norm(fxi_device *d, const fxi_branch_end *end, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    fxi_cuda_add_norm_args args =
        stream_args(g, end->holds ? FXI_CUDA_STREAM_HOLD : FXI_CUDA_STREAM_ADD, &end->next);
    args.h = g->s.h.x;
    args.bias = end->bias;
    args.branch_norm = fxi_gpu_norm(g, end->norm);
    args.residual_scale = g->plan->rules.residual_scale;
    args.held = end->holds || g->pass.holds ? g->s.held : NULL;
    g->pass.holds = end->holds;
    return fxi_gpu_launch(g, FXI_CUDA_ADD_NORM, &args, err);
}

// ---- results -----------------------------------------------------------------------------------

fx_status fxi_gpu_rows(fxi_device *d, int n_row, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    (void)err;
    const size_t dim = (size_t)g->plan->model.shape.dim;
    const float *from = g->s.h.x + (size_t)(g->pass.n_row - n_row) * dim;
    fxi_gpu_return(g, g->pass.batch->rows, from, (size_t)n_row * dim * sizeof *from);
    return FX_OK;
}

// What the output reads: h, made as wide as embeddings.
static fx_status output_rows(fxi_gpu *g, fxi_cuda_act *out, fx_error *err)
{
    const fxi_transformer *m = g->plan;
    *out = g->s.h;
    if (!m->embd_out.data) return FX_OK;
    FX_TRY(fxi_gpu_matmul(g, &m->embd_out, &g->s.h, g->s.narrow.x, err));
    *out = fxi_gpu_forms(g, &g->s.narrow, reads_bit(&m->output.w));
    const fxi_cuda_rows_args args = {.x = g->s.narrow.x,
                                     .n_row = g->pass.n_row,
                                     .live = fxi_gpu_live_rows(g),
                                     .n = m->embd_out.n_out,
                                     .out = *out};
    return fxi_gpu_launch(g, FXI_CUDA_ROWS, &args, err);
}

// Bias, scale and cap of logits.
static fx_status limit_logits(fxi_gpu *g, fx_error *err)
{
    const fxi_transformer *m = g->plan;
    const fxi_cuda_logits_args args = {.y = g->s.logits,
                                       .bias = m->output.b,
                                       .scale = m->rules.logit_scale,
                                       .cap = m->rules.logit_cap,
                                       .n_row = g->pass.n_row,
                                       .n = m->output.w.n_out,
                                       .live = fxi_gpu_live_rows(g)};
    if (!args.bias && args.scale == 1 && args.cap == 0) return FX_OK;
    return fxi_gpu_launch(g, FXI_CUDA_LOGITS, &args, err);
}

fx_status fxi_gpu_logits(fxi_device *d, int n_row, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    const fxi_transformer *m = g->plan;
    const fxi_gpu_result rows = {.dst = g->pass.dst_logits,
                                 .src = g->s.logits,
                                 .n_row = (size_t)n_row,
                                 .row_bytes = (size_t)m->output.w.n_out * sizeof(float),
                                 .pitch_bytes = (size_t)m->model.shape.n_vocab * sizeof(float)};
    fxi_cuda_act a;
    g->pass.ended = true;
    if (!g->pass.graph) g->pass.n_row = n_row;
    FX_TRY(output_rows(g, &a, err));
    FX_TRY(fxi_gpu_matmul(g, &m->output.w, &a, g->s.logits, err));
    FX_TRY(limit_logits(g, err));
    fxi_gpu_return_rows(g, rows);
    return FX_OK;
}

fx_status fxi_gpu_best(fxi_device *d, int n_row, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    const fxi_cuda_argmax_args args = {.y = g->s.logits,
                                       .n_row = g->pass.n_row,
                                       .n = g->plan->output.w.n_out,
                                       .live = fxi_gpu_live_rows(g),
                                       .best = g->s.best,
                                       .value = g->s.best_logit};
    const fxi_batch *to = g->pass.batch;
    FX_TRY(fxi_gpu_launch(g, FXI_CUDA_ARGMAX, &args, err));
    fxi_gpu_return(g, to->best, g->s.best, (size_t)n_row * sizeof *to->best);
    fxi_gpu_return(g, to->best_logit, g->s.best_logit, (size_t)n_row * sizeof *to->best_logit);
    return FX_OK;
}

// ---- linear layers and attention ----------------------------------------------------------------

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

// ---- feed-forward blocks: the first half --------------------------------------------------------

fx_status fxi_gpu_ffn(fxi_device *d, const fxi_ffn *f, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    const bool gated = f->gate.w.data != NULL;
    if (gated) FX_TRY(fxi_gpu_matmul(g, &f->gate.w, &g->s.h, g->s.gate, err));
    FX_TRY(fxi_gpu_matmul(g, &f->up.w, &g->s.h, g->s.up, err));
    const fxi_cuda_join_args args = {
        .act = (int32_t)g->plan->rules.act,
        .gate = gated ? g->s.gate : NULL,
        .up = g->s.up,
        .gate_bias = f->gate.b,
        .up_bias = f->up.b,
        .n_row = g->pass.n_row,
        .live = fxi_gpu_live_rows(g),
        .n = f->up.w.n_out,
        .out = fxi_gpu_forms(g, &g->s.mid, (uint64_t)1 << f->down.w.type),
    };
    return fxi_gpu_launch(g, FXI_CUDA_JOIN, &args, err);
}

// ---- mixtures of experts ------------------------------------------------------------------------

// Which rows an expert gets is decided there,
// so that the host need not wait for the router.
//
//   route, place   each row's experts; places of all choices, expert after expert
//   gather         the rows to their places
//   linear, join   every expert over its range of places, in one launch per layer
//   combine        a row's places, and the shared expert's result, to one sum

static int count_places(const fxi_gpu *g)
{
    return g->pass.n_row * g->plan->rules.n_used;
}

static const int32_t *live_places(const fxi_gpu *g)
{
    return fxi_gpu_live(g, g->pass.kept ? FXI_GPU_KEPT_PLACES : FXI_GPU_PLACES);
}

static fx_status choose_experts(fxi_gpu *g, const fxi_experts *x, fx_error *err)
{
    const fxi_rules *r = &g->plan->rules;
    const fxi_cuda_route_args route = {.logits = g->s.router,
                                       .bias = x->router.b,
                                       .n_row = g->pass.n_row,
                                       .n_expert = r->n_expert,
                                       .n_used = r->n_used,
                                       .norm = (int32_t)r->route,
                                       .scale = r->expert_scale,
                                       .live = fxi_gpu_live_rows(g),
                                       .chosen = g->s.chosen,
                                       .share = g->s.share};
    const fxi_cuda_place_args place = {.chosen = g->s.chosen,
                                       .n_row = g->pass.n_row,
                                       .n_expert = r->n_expert,
                                       .n_used = r->n_used,
                                       .live = fxi_gpu_live_rows(g),
                                       .place = g->s.place,
                                       .place_row = g->s.place_row,
                                       .place_expert = g->s.place_expert,
                                       .range = g->s.range};
    FX_TRY(fxi_gpu_matmul(g, &x->router.w, &g->s.h, g->s.router, err));
    if (x->sh_gate.data) FX_TRY(fxi_gpu_matmul(g, &x->sh_gate, &g->s.h, g->s.sh_gate, err));
    FX_TRY(fxi_gpu_launch(g, FXI_CUDA_ROUTE, &route, err));
    return fxi_gpu_launch(g, FXI_CUDA_PLACE, &place, err);
}

static uint64_t reader_types(const fxi_experts *x)
{
    const uint64_t up = (uint64_t)1 << x->up.w[0].type;
    return x->gate.w ? up | (uint64_t)1 << x->gate.w[0].type : up;
}

static fx_status gather_rows(fxi_gpu *g, const fxi_experts *x, fx_error *err)
{
    const uint64_t types = reader_types(x);
    const fxi_cuda_gather_args args = {.from = fxi_gpu_forms(g, &g->s.h, types),
                                       .to = fxi_gpu_forms(g, &g->s.ex, types),
                                       .place_row = g->s.place_row,
                                       .n_place = count_places(g),
                                       .live = live_places(g),
                                       .n = g->plan->model.shape.dim};
    return fxi_gpu_launch(g, FXI_CUDA_GATHER, &args, err);
}

// The same layer of all experts, each over its own range of places.
static fx_status multiply_all(fxi_gpu *g, const fxi_linear *w, const fxi_cuda_act *a, float *y,
                              fx_error *err)
{
    const int n_expert = g->plan->rules.n_expert;
    if (n_expert == 1) return fxi_gpu_matmul(g, w, a, y, err); // each row has one place, its own
    const size_t apart = (size_t)((char *)w[1].data - (char *)w[0].data);
    const fxi_cuda_linear_args args = {.w = fxi_gpu_matrix(w),
                                       .n_expert = n_expert,
                                       .expert_bytes = apart,
                                       .range = g->s.range,
                                       .a = *a,
                                       .n_row = count_places(g),
                                       .live = live_places(g),
                                       .y = y};
    return fxi_gpu_launch(g, fxi_cuda_linear_find(w->type, g->math, args.n_row), &args, err);
}

static fx_status run_experts(fxi_gpu *g, const fxi_experts *x, fx_error *err)
{
    if (x->gate.w) FX_TRY(multiply_all(g, x->gate.w, &g->s.ex, g->s.gate, err));
    FX_TRY(multiply_all(g, x->up.w, &g->s.ex, g->s.up, err));
    const fxi_cuda_join_args args = {
        .act = (int32_t)g->plan->rules.act,
        .gate = x->gate.w ? g->s.gate : NULL,
        .up = g->s.up,
        .gate_bias = x->gate.b,
        .up_bias = x->up.b,
        .row_expert = g->s.place_expert,
        .n_row = count_places(g),
        .live = live_places(g),
        .n = x->up.w[0].n_out,
        .out = fxi_gpu_forms(g, &g->s.mid, (uint64_t)1 << x->down.w[0].type),
    };
    FX_TRY(fxi_gpu_launch(g, FXI_CUDA_JOIN, &args, err));
    return multiply_all(g, x->down.w, &g->s.mid, g->s.ex_out, err);
}

static fx_status combine_rows(fxi_gpu *g, const fxi_experts *x, fx_error *err)
{
    const bool shared = x->shared.up.w.data != NULL;
    const fxi_cuda_combine_args args = {
        .ex = g->s.ex_out,
        .bias = x->down.b,
        .chosen = g->s.chosen,
        .place = g->s.place,
        .share = g->s.share,
        .shared = shared ? g->s.sh_out : NULL,
        .shared_bias = shared ? x->shared.down.b : NULL,
        .shared_gate = shared && x->sh_gate.data ? g->s.sh_gate : NULL,
        .n_row = g->pass.n_row,
        .live = fxi_gpu_live_rows(g),
        .dim = g->plan->model.shape.dim,
        .n_used = g->plan->rules.n_used,
        .y = g->s.h.x,
    };
    return fxi_gpu_launch(g, FXI_CUDA_COMBINE, &args, err);
}

fx_status fxi_gpu_experts(fxi_device *d, const fxi_experts *x, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    FX_TRY(choose_experts(g, x, err));
    if (x->shared.up.w.data) {
        FX_TRY(fxi_gpu_ffn(d, &x->shared, err));
        FX_TRY(fxi_gpu_matmul(g, &x->shared.down.w, &g->s.mid, g->s.sh_out, err));
    }
    FX_TRY(gather_rows(g, x, err));
    FX_TRY(run_experts(g, x, err));
    return combine_rows(g, x, err);
}
