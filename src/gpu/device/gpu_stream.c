// gpu_stream.c - the residual stream on the device: embeddings, what branches add, norms, results.
#include "gpu/device/gpu_impl.h"

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

// Rows of a matrix by cuBLASLt. A pass without rows has nothing to do.
static fx_status multiply_plain(fxi_gpu *g, const fxi_linear *w, const fxi_cuda_act *a, float *y,
                                fx_error *err)
{
    const fxi_lt_job job = {.type = w->type,
                            .n_in = w->n_in,
                            .n_out = w->n_out,
                            .n_row = g->pass.n_row,
                            .w = w->data,
                            .a = w->type == FXI_F16 ? a->f16 : a->b16,
                            .y = y,
                            .workspace = g->s.workspace};
    if (!job.n_row) return FX_OK;
    FX_TRY(fxi_cu_enter(&g->cu, err));
    const fx_status st = fxi_lt_run(&g->lt, &job, err);
    fxi_cu_leave(&g->cu);
    return fxi_gpu_failed(g, st, err);
}

fx_status fxi_gpu_matmul(fxi_gpu *g, const fxi_linear *w, const fxi_cuda_act *a, float *y,
                         fx_error *err)
{
    if (fxi_gpu_is_plain(g, w->type)) return multiply_plain(g, w, a, y, err);
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

// The output's weights as a table.
static fxi_cuda_matrix tied_matrix(const fxi_gpu *g)
{
    const fxi_linear *w = &g->plan->tied;
    fxi_cuda_matrix m = fxi_gpu_matrix(w);
    if (fxi_gpu_is_plain(g, w->type))
        m.row_bytes = (size_t)w->n_in * fxi_dtype_find(w->type)->block_bytes;
    return m;
}

// Looks the tokens up, in x or, where embeddings are of another width, on their way to it.
static fx_status look_up(fxi_gpu *g, fx_error *err)
{
    const fxi_transformer *m = g->plan;
    const bool narrow = m->embd_in.data != NULL;
    const fxi_cuda_act to = narrow ? fxi_gpu_forms(g, &g->s.narrow, reads_bit(&m->embd_in))
                                   : (fxi_cuda_act){.x = g->s.x};
    const fxi_cuda_embed_args args = {
        .table = m->embd.data ? rows_matrix(&m->embd) : tied_matrix(g),
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
