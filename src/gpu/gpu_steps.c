// gpu_steps.c - the steps of a pass as launches of kernels: the residual stream (embeddings, what
// branches add, norms, results), linear layers, attention, feed-forward blocks, experts.
#include "gpu/gpu_impl.h"

// ---- shared by all steps -----------------------------------------------------------------------

static void *device_array(const fxi_gpu *g, size_t at) // of the batch
{
    return g->block + at;
}

// Where kernels read how many rows, tiles or places there are now.
static const int32_t *live_number(const fxi_gpu *g, fxi_gpu_count which)
{
    return (const int32_t *)device_array(g, g->pass.at.count) + which;
}

static fxi_cuda_count count_rows(const fxi_gpu *g)
{
    const fxi_gpu_pass *p = &g->pass;
    const fxi_gpu_count which = p->ended ? FXI_GPU_LOGITS : p->kept ? FXI_GPU_KEPT : FXI_GPU_ROWS;
    return (fxi_cuda_count){p->n_row, live_number(g, which)};
}

static fxi_cuda_matrix matrix_of(const fxi_linear *w)
{
    return (fxi_cuda_matrix){
        .data = w->data, .type = (int32_t)w->type, .n_in = w->n_in, .n_out = w->n_out};
}

bool fxi_gpu_reads_form(const fxi_gpu *g, uint64_t types, fxi_cuda_form form)
{
    for (int t = 0; t < FXI_DTYPE_END; t++)
        if (types >> t & 1 && fxi_cuda_linear_form((fxi_dtype)t, g->math) == form) return true;
    return false;
}

// The forms of rows that layers with weights of these types read; `all` has room for each. The f32
// form is always there.
static fxi_cuda_act forms_read(const fxi_gpu *g, const fxi_cuda_act *all, uint64_t types)
{
    fxi_cuda_act a = {.x = all->x};
    if (fxi_gpu_reads_form(g, types, FXI_CUDA_FORM_F16)) a.f16 = all->f16;
    if (fxi_gpu_reads_form(g, types, FXI_CUDA_FORM_B16)) a.b16 = all->b16;
    if (!fxi_gpu_reads_form(g, types, FXI_CUDA_FORM_Q8)) return a;
    a.q = all->q;
    a.d = all->d;
    a.sum = all->sum;
    return a;
}

static uint64_t reads_bit(const fxi_linear *w)
{
    return (uint64_t)1 << w->type;
}

// y = a x w, for all rows of the pass.
static fx_status launch_linear(fxi_gpu *g, const fxi_linear *w, const fxi_cuda_act *a, float *y,
                               fx_error *err)
{
    const fxi_cuda_linear_args args = {
        .w = matrix_of(w), .n_expert = 1, .a = *a, .count = count_rows(g), .y = y};
    return fxi_gpu_launch(g, fxi_cuda_linear_find(w->type, g->math, g->pass.n_row), &args, err);
}

static fxi_cuda_norm norm_of(const fxi_gpu *g, const fxi_rownorm *n) // NULL: no norm
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

// ---- the residual stream -----------------------------------------------------------------------

// What all kinds of add_norm have in common.
static fxi_cuda_add_norm_args stream_args(fxi_gpu *g, fxi_cuda_stream kind,
                                          const fxi_next_norm *next)
{
    const fxi_transformer *m = g->plan;
    return (fxi_cuda_add_norm_args){
        .kind = kind,
        .count = count_rows(g),
        .dim = m->model.shape.dim,
        .x = g->s.x,
        .x_row = g->pass.kept ? device_array(g, g->pass.at.wanted) : NULL,
        .embd_scale = 1,
        .residual_scale = 1,
        .norm = norm_of(g, next->norm),
        .is_post = next->norm->replaces,
        .out = forms_read(g, &g->s.h, next->read_by),
    };
}

// Tokens are looked up in x or, where embeddings are of another width, on their way to it.
fx_status fxi_gpu_embed(fxi_device *d, const fxi_next_norm *next, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    const fxi_transformer *m = g->plan;
    const bool narrow = m->embd_in.data != NULL;
    const fxi_cuda_embed_args look_up = {
        .table = matrix_of(&m->embd),
        .token = device_array(g, g->pass.at.token),
        .out = narrow ? forms_read(g, &g->s.narrow, reads_bit(&m->embd_in))
                      : (fxi_cuda_act){.x = g->s.x},
        .count = count_rows(g),
    };
    FX_TRY(fxi_gpu_launch(g, FXI_CUDA_EMBED, &look_up, err));
    if (narrow) FX_TRY(launch_linear(g, &m->embd_in, &look_up.out, g->s.x, err));
    fxi_cuda_add_norm_args args = stream_args(g, FXI_CUDA_STREAM_BEGIN, next);
    args.embd_scale = m->rules.embd_scale;
    args.token_type = m->token_type;
    if (m->n_token_type > 1) args.type = device_array(g, g->pass.at.type);
    args.positions = matrix_of(&m->positions);
    args.pos = device_array(g, g->pass.at.pos);
    return fxi_gpu_launch(g, FXI_CUDA_ADD_NORM, &args, err);
}

fx_status fxi_gpu_add_norm(fxi_device *d, const fxi_branch_end *end, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    fxi_cuda_add_norm_args args =
        stream_args(g, end->holds ? FXI_CUDA_STREAM_HOLD : FXI_CUDA_STREAM_ADD, &end->next);
    args.h = g->s.h.x;
    args.bias = end->bias;
    args.branch_norm = norm_of(g, end->norm);
    args.residual_scale = g->plan->rules.residual_scale;
    args.held = end->holds || g->pass.holds ? g->s.held : NULL;
    g->pass.holds = end->holds;
    return fxi_gpu_launch(g, FXI_CUDA_ADD_NORM, &args, err);
}

// ---- results -----------------------------------------------------------------------------------

// The host is to get rows, which follow each other on the device: after the pass's kernels, or in
// `wait` if its memory is not pinned. dst NULL: it is not wanted.
static void return_rows(fxi_gpu *g, fxi_gpu_result rows)
{
    fxi_gpu_pass *p = &g->pass;
    if (rows.dst && rows.n_row && rows.row_bytes) p->result[p->n_result++] = rows;
}

fx_status fxi_gpu_rows(fxi_device *d, int n_row, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    (void)err;
    const size_t dim = (size_t)g->plan->model.shape.dim, row_bytes = dim * sizeof(float);
    const float *from = g->s.h.x + (size_t)(g->pass.n_row - n_row) * dim;
    return_rows(g,
                (fxi_gpu_result){g->pass.batch->rows, from, (size_t)n_row, row_bytes, row_bytes});
    return FX_OK;
}

// The output reads h, made as wide as embeddings.
fx_status fxi_gpu_logits(fxi_device *d, int n_row, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    const fxi_transformer *m = g->plan;
    fxi_cuda_act a = g->s.h;
    g->pass.ended = true;
    if (!g->pass.graph) g->pass.n_row = n_row;
    if (m->embd_out.data) {
        FX_TRY(launch_linear(g, &m->embd_out, &g->s.h, g->s.narrow.x, err));
        a = forms_read(g, &g->s.narrow, reads_bit(&m->output.w));
        const fxi_cuda_rows_args form = {
            .x = g->s.narrow.x, .count = count_rows(g), .n = m->embd_out.n_out, .out = a};
        FX_TRY(fxi_gpu_launch(g, FXI_CUDA_ROWS, &form, err));
    }
    FX_TRY(launch_linear(g, &m->output.w, &a, g->s.logits, err));
    const fxi_cuda_logits_args limit = {.y = g->s.logits,
                                        .bias = m->output.b,
                                        .scale = m->rules.logit_scale,
                                        .cap = m->rules.logit_cap,
                                        .count = count_rows(g),
                                        .n = m->output.w.n_out};
    if (limit.bias || limit.scale != 1 || limit.cap != 0)
        FX_TRY(fxi_gpu_launch(g, FXI_CUDA_LOGITS, &limit, err));
    return_rows(g, (fxi_gpu_result){.dst = g->pass.dst_logits,
                                    .src = g->s.logits,
                                    .n_row = (size_t)n_row,
                                    .row_bytes = (size_t)m->output.w.n_out * sizeof(float),
                                    .pitch_bytes = (size_t)m->model.shape.n_vocab * sizeof(float)});
    return FX_OK;
}

fx_status fxi_gpu_best(fxi_device *d, int n_row, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    const fxi_cuda_argmax_args args = {.y = g->s.logits,
                                       .count = count_rows(g),
                                       .n = g->plan->output.w.n_out,
                                       .best = g->s.best,
                                       .value = g->s.best_logit};
    const fxi_batch *to = g->pass.batch;
    FX_TRY(fxi_gpu_launch(g, FXI_CUDA_ARGMAX, &args, err));
    return_rows(g, (fxi_gpu_result){to->best, g->s.best, (size_t)n_row, sizeof *to->best,
                                    sizeof *to->best});
    return_rows(g, (fxi_gpu_result){to->best_logit, g->s.best_logit, (size_t)n_row,
                                    sizeof *to->best_logit, sizeof *to->best_logit});
    return FX_OK;
}

// ---- linear layers and attention ---------------------------------------------------------------

fx_status fxi_gpu_linear(fxi_device *d, fxi_operand a, const fxi_device_linear *job, int n_job,
                         fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    const fxi_cuda_act *const in[FXI_OPERAND_END] = {
        [FXI_OPERAND_H] = &g->s.h, [FXI_OPERAND_ATT] = &g->s.att_in, [FXI_OPERAND_MID] = &g->s.mid};
    float *const out[FXI_OPERAND_END] = {[FXI_OPERAND_H] = g->s.h.x,
                                         [FXI_OPERAND_Q] = g->s.q,
                                         [FXI_OPERAND_K] = g->s.k,
                                         [FXI_OPERAND_V] = g->s.v};
    for (int i = 0; i < n_job; i++) FX_TRY(launch_linear(g, job[i].w, in[a], out[job[i].y], err));
    return FX_OK;
}

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
        .q_norm = norm_of(g, &l->q_norm),
        .k_norm = norm_of(g, &l->k_norm),
        .cos = l->rope ? device_array(g, at->cos[r]) : NULL,
        .sin = l->rope ? device_array(g, at->sin[r]) : NULL,
        .q_scale = g->plan->rules.log_scale != 0 ? device_array(g, at->gain) : NULL,
        .seq = device_array(g, at->seq),
        .row_seq = device_array(g, at->row_seq),
        .pos = device_array(g, at->pos),
        .count = count_rows(g),
        .n_head = s->n_head,
        .n_kv_head = s->n_kv_head,
        .head_dim = s->head_dim,
        .n_pair = l->rope ? l->rope->n_pair : 0,
        .kv_type = (int32_t)g->plan->model.kv_type,
        .kv_group = l->kv_group,
        .kv_layer = l->kv_layer,
    };
    return fxi_gpu_launch(g, FXI_CUDA_ROPE_STORE, &args, err);
}

fx_status fxi_gpu_keep_rows(fxi_device *d, fx_error *err)
{
    (void)err;
    fxi_gpu_pass *p = &fxi_gpu_of(d)->pass;
    p->kept = true;
    if (!p->graph) p->n_row = p->n_kept;
    return FX_OK;
}

// The tiles of the plan, of which the last n_wide are wide, by the kernel of each. Graphs, whose
// counts are on the device, have no wide ones.
static fx_status launch_tiles(fxi_gpu *g, const fxi_cuda_attn_args *all, int n_wide, fx_error *err)
{
    const fxi_dtype type = g->plan->model.kv_type;
    const int head_dim = g->plan->model.shape.head_dim;
    fxi_cuda_attn_args few = *all, wide = *all;
    few.count.most -= n_wide;
    wide.tile += few.count.most;
    wide.count = (fxi_cuda_count){n_wide, NULL};
    FX_TRY(fxi_gpu_launch(g, fxi_cuda_attention_find(type, head_dim, g->math), &few, err));
    if (!n_wide) return FX_OK;
    return fxi_gpu_launch(g, fxi_cuda_attention_wide_find(type, head_dim, g->math), &wide, err);
}

fx_status fxi_gpu_attention(fxi_device *d, const fxi_layer *l, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    const fxi_transformer *m = g->plan;
    const fxi_model_shape *s = &m->model.shape;
    const fxi_gpu_pass *p = &g->pass;
    const bool w = l->is_windowed;
    const fxi_cuda_plan *plan = p->kept ? &p->last : &p->plan[w];
    const fxi_cuda_attn_args args = {
        .seq = device_array(g, p->at.seq),
        .tile = device_array(g, p->kept ? p->at.last : p->at.tile[w]),
        .count = {plan->n_tile, live_number(g, p->kept ? FXI_GPU_LAST_TILES
                                               : w     ? FXI_GPU_WINDOW_TILES
                                                       : FXI_GPU_TILES)},
        .max_range = plan->max_range,
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
        .window = w ? m->rules.window : 0,
        .scale = m->rules.attn_scale,
        .softcap = m->rules.attn_cap,
    };
    // The rows of the result that remain, in the form that o reads.
    const fxi_cuda_rows_args form = {
        .x = g->s.att,
        .from = p->kept ? device_array(g, p->at.wanted) : NULL,
        .count = count_rows(g),
        .n = l->o.w.n_in,
        .out = forms_read(g, &g->s.att_in, reads_bit(&l->o.w)),
    };
    FX_TRY(launch_tiles(g, &args, plan->n_wide, err));
    if (args.max_range > 1) FX_TRY(fxi_gpu_launch(g, FXI_CUDA_ATTN_MERGE, &args, err));
    return fxi_gpu_launch(g, FXI_CUDA_ROWS, &form, err);
}

// ---- feed-forward blocks: the first half -------------------------------------------------------

static fxi_cuda_join_args join_args(const fxi_gpu *g, const fxi_linear *gate, const fxi_linear *up,
                                    const fxi_linear *down)
{
    return (fxi_cuda_join_args){.act = (int32_t)g->plan->rules.act,
                                .gate = gate && gate->data ? g->s.gate : NULL,
                                .up = g->s.up,
                                .count = count_rows(g),
                                .n = up->n_out,
                                .out = forms_read(g, &g->s.mid, reads_bit(down))};
}

fx_status fxi_gpu_ffn(fxi_device *d, const fxi_ffn *f, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    fxi_cuda_join_args args = join_args(g, &f->gate.w, &f->up.w, &f->down.w);
    args.gate_bias = f->gate.b;
    args.up_bias = f->up.b;
    if (args.gate) FX_TRY(launch_linear(g, &f->gate.w, &g->s.h, g->s.gate, err));
    FX_TRY(launch_linear(g, &f->up.w, &g->s.h, g->s.up, err));
    return fxi_gpu_launch(g, FXI_CUDA_JOIN, &args, err);
}

// ---- mixtures of experts -----------------------------------------------------------------------

// Which rows an expert gets is decided on the device, so that the host need not wait for the
// router.
//
//   route, place   each row's experts; places of all choices, expert after expert
//   gather         the rows to their places
//   linear, join   every expert over its range of places, in one launch per layer
//   combine        a row's places, and the shared expert's result, to one sum

static fxi_cuda_count count_places(const fxi_gpu *g)
{
    return (fxi_cuda_count){g->pass.n_row * g->plan->rules.n_used,
                            live_number(g, g->pass.kept ? FXI_GPU_KEPT_PLACES : FXI_GPU_PLACES)};
}

static fx_status choose_experts(fxi_gpu *g, const fxi_experts *x, fx_error *err)
{
    const fxi_rules *r = &g->plan->rules;
    const fxi_cuda_route_args route = {.logits = g->s.router,
                                       .bias = x->router.b,
                                       .count = count_rows(g),
                                       .n_expert = r->n_expert,
                                       .n_used = r->n_used,
                                       .norm = (int32_t)r->route,
                                       .scale = r->expert_scale,
                                       .chosen = g->s.chosen,
                                       .share = g->s.share};
    const fxi_cuda_place_args place = {.chosen = g->s.chosen,
                                       .count = count_rows(g),
                                       .n_expert = r->n_expert,
                                       .n_used = r->n_used,
                                       .place = g->s.place,
                                       .place_row = g->s.place_row,
                                       .place_expert = g->s.place_expert,
                                       .range = g->s.range};
    FX_TRY(launch_linear(g, &x->router.w, &g->s.h, g->s.router, err));
    if (x->sh_gate.data) FX_TRY(launch_linear(g, &x->sh_gate, &g->s.h, g->s.sh_gate, err));
    FX_TRY(fxi_gpu_launch(g, FXI_CUDA_ROUTE, &route, err));
    return fxi_gpu_launch(g, FXI_CUDA_PLACE, &place, err);
}

// The same layer of all experts, each over its own range of places.
static fx_status multiply_all(fxi_gpu *g, const fxi_linear *w, const fxi_cuda_act *a, float *y,
                              fx_error *err)
{
    const int n_expert = g->plan->rules.n_expert;
    if (n_expert == 1) return launch_linear(g, w, a, y, err); // each row has one place, its own
    const fxi_cuda_linear_args args = {.w = matrix_of(w),
                                       .n_expert = n_expert,
                                       .expert_bytes =
                                           (size_t)((char *)w[1].data - (char *)w[0].data),
                                       .range = g->s.range,
                                       .a = *a,
                                       .count = count_places(g),
                                       .y = y};
    return fxi_gpu_launch(g, fxi_cuda_linear_find(w->type, g->math, args.count.most), &args, err);
}

static fx_status run_experts(fxi_gpu *g, const fxi_experts *x, fx_error *err)
{
    const uint64_t types = reads_bit(x->up.w) | (x->gate.w ? reads_bit(x->gate.w) : 0);
    const fxi_cuda_gather_args gather = {.from = forms_read(g, &g->s.h, types),
                                         .to = forms_read(g, &g->s.ex, types),
                                         .place_row = g->s.place_row,
                                         .count = count_places(g),
                                         .n = g->plan->model.shape.dim};
    fxi_cuda_join_args join = join_args(g, x->gate.w, x->up.w, x->down.w);
    join.gate_bias = x->gate.b;
    join.up_bias = x->up.b;
    join.row_expert = g->s.place_expert;
    join.count = count_places(g);
    FX_TRY(fxi_gpu_launch(g, FXI_CUDA_GATHER, &gather, err));
    if (x->gate.w) FX_TRY(multiply_all(g, x->gate.w, &g->s.ex, g->s.gate, err));
    FX_TRY(multiply_all(g, x->up.w, &g->s.ex, g->s.up, err));
    FX_TRY(fxi_gpu_launch(g, FXI_CUDA_JOIN, &join, err));
    return multiply_all(g, x->down.w, &g->s.mid, g->s.ex_out, err);
}

fx_status fxi_gpu_experts(fxi_device *d, const fxi_experts *x, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    const bool shared = x->shared.up.w.data != NULL;
    const fxi_cuda_combine_args combine = {
        .ex = g->s.ex_out,
        .bias = x->down.b,
        .chosen = g->s.chosen,
        .place = g->s.place,
        .share = g->s.share,
        .shared = shared ? g->s.sh_out : NULL,
        .shared_bias = shared ? x->shared.down.b : NULL,
        .shared_gate = shared && x->sh_gate.data ? g->s.sh_gate : NULL,
        .count = count_rows(g),
        .dim = g->plan->model.shape.dim,
        .n_used = g->plan->rules.n_used,
        .y = g->s.h.x,
    };
    FX_TRY(choose_experts(g, x, err));
    if (shared) {
        FX_TRY(fxi_gpu_ffn(d, &x->shared, err));
        FX_TRY(launch_linear(g, &x->shared.down.w, &g->s.mid, g->s.sh_out, err));
    }
    FX_TRY(run_experts(g, x, err));
    return fxi_gpu_launch(g, FXI_CUDA_COMBINE, &combine, err);
}
