// gpu_fused.c - attention of passes of decoding by cuDNN, over the caches as they lie there; see
// library/sdpa.h for what the library is given.
//
// The pass takes this way if every sequence brings one token and wants its row, the caches are
// contiguous, of 16-bit numbers and laid out alike, and the layer has neither window, sinks nor
// cap; otherwise, and where the library does not support the shape, law's kernels do it.
#include "gpu/device/gpu_impl.h"

// ---- arrays ------------------------------------------------------------------------------------

// Where the arrays of n sequences begin, in bytes. Groups of caches have offsets of their own.
typedef struct fused_layout {
    size_t q_at, kv_at[FXI_KV_MAX_GROUP], n_q, n_kv, size_bytes;
} fused_layout;

static fused_layout lay_fused(int n_group, int n_seq)
{
    const size_t n = (size_t)n_seq, at_bytes = ((n + 1) * sizeof(int64_t) + 15) / 16 * 16,
                 count_bytes = (n * sizeof(int32_t) + 15) / 16 * 16;
    fused_layout l = {.size_bytes = at_bytes};
    for (int k = 0; k < n_group; k++, l.size_bytes += at_bytes) l.kv_at[k] = l.size_bytes;
    l.n_q = l.size_bytes;
    l.n_kv = l.n_q + count_bytes;
    l.size_bytes = l.n_kv + count_bytes;
    return l;
}

size_t fxi_gpu_fused_bytes(const fxi_gpu *g)
{
    const fxi_model_shape *s = &g->plan->model.shape;
    if (!fxi_dnn_is_open(&g->fused.dnn) || !s->generates) return 0;
    return lay_fused(s->kv.n_group, g->most.max_logit).size_bytes;
}

// ---- the batch ---------------------------------------------------------------------------------

static bool decodes_alone(const fxi_batch *b)
{
    for (int i = 0; i < b->n_seq; i++)
        if (b->seq[i].n_tok != 1 || b->seq[i].n_logit != 1 || b->seq[i].embeds) return false;
    return b->n_seq > 0;
}

// Caches of a group: contiguous, with equal strides.
static bool are_alike(const fxi_batch *b, int group)
{
    const fxi_kv_view *first = &b->seq[0].views.group[group];
    for (int i = 0; i < b->n_seq; i++) {
        const fxi_kv_view *v = &b->seq[i].views.group[group];
        if (v->table || v->plane_stride_bytes != first->plane_stride_bytes ||
            v->tok_stride_bytes != first->tok_stride_bytes)
            return false;
    }
    return true;
}

static bool fits_fused(const fxi_gpu *g, const fxi_batch *b)
{
    const fxi_model *m = &g->plan->model;
    if (!g->fused.host || (m->kv_type != FXI_F16 && m->kv_type != FXI_BF16)) return false;
    if (b->n_seq > g->most.max_logit || !m->shape.is_causal || g->plan->rules.attn_cap != 0)
        return false;
    for (int k = 0; k < m->shape.kv.n_group; k++)
        if (!are_alike(b, k)) return false;
    return decodes_alone(b);
}

// Offsets of caches count from the lowest of them.
static void fill_caches(fxi_gpu_fused *f, const fxi_batch *b, int group, int64_t *at)
{
    const fxi_kv_view *first = &b->seq[0].views.group[group];
    const char *lowest = first->base;
    for (int i = 1; i < b->n_seq; i++)
        if (b->seq[i].views.group[group].base < lowest) lowest = b->seq[i].views.group[group].base;
    for (int i = 0; i < b->n_seq; i++)
        at[i] = (b->seq[i].views.group[group].base - lowest) / (int64_t)sizeof(uint16_t);
    at[b->n_seq] = at[b->n_seq - 1];
    f->group[group] = (fxi_gpu_fused_group){.base = lowest,
                                            .plane_stride_bytes = first->plane_stride_bytes,
                                            .tok_stride_bytes = first->tok_stride_bytes};
}

static void fill_fused(fxi_gpu *g, const fxi_batch *b, const fused_layout *l)
{
    fxi_gpu_fused *f = &g->fused;
    const fxi_model_shape *s = &g->plan->model.shape;
    int64_t *q_at = (int64_t *)(void *)(f->host + l->q_at);
    int32_t *n_q = (int32_t *)(void *)(f->host + l->n_q),
            *n_kv = (int32_t *)(void *)(f->host + l->n_kv);
    for (int i = 0; i <= b->n_seq; i++) q_at[i] = (int64_t)i * s->n_head * s->head_dim;
    for (int i = 0; i < b->n_seq; i++) n_q[i] = 1, n_kv[i] = b->seq[i].pos + 1;
    for (int k = 0; k < s->kv.n_group; k++)
        fill_caches(f, b, k, (int64_t *)(void *)(f->host + l->kv_at[k]));
}

fx_status fxi_gpu_fused_begin(fxi_gpu *g, const fxi_batch *b, fx_error *err)
{
    fxi_gpu_fused *f = &g->fused;
    f->n_seq = 0;
    if (!fits_fused(g, b)) return FX_OK;
    const fused_layout l = lay_fused(g->plan->model.shape.kv.n_group, b->n_seq);
    fill_fused(g, b, &l);
    FX_TRY(fxi_cu_upload(&g->cu, g->cu.compute, f->at, f->host, l.size_bytes, err));
    f->n_seq = b->n_seq;
    return FX_OK;
}

// ---- attention ---------------------------------------------------------------------------------

static fx_status find_shape_of(fxi_gpu *g, const fxi_layer *l, const fxi_sdpa **out, fx_error *err)
{
    const fxi_model *m = &g->plan->model;
    const fxi_sdpa_shape shape = {
        .type = m->kv_type,
        .n_seq = g->fused.n_seq,
        .n_head = m->shape.n_head,
        .n_kv_head = m->shape.n_kv_head,
        .head_dim = m->shape.head_dim,
        .max_kv_tok = g->plan->ctx_tok,
        .token_step = (int64_t)(g->fused.group[l->kv_group].tok_stride_bytes / sizeof(uint16_t))};
    *out = NULL;
    if (!g->fused.n_seq || l->is_windowed || l->sink) return FX_OK;
    return fxi_dnn_find(&g->fused.dnn, &shape, out, err);
}

static fx_status run_library(fxi_gpu *g, const fxi_layer *l, const fxi_sdpa *s, fx_error *err)
{
    fxi_gpu_fused *f = &g->fused;
    const fxi_gpu_fused_group *c = &f->group[l->kv_group];
    const fused_layout at = lay_fused(g->plan->model.shape.kv.n_group, f->n_seq);
    const char *keys = c->base + (size_t)(2 * l->kv_layer) * c->plane_stride_bytes;
    float scale = g->plan->rules.attn_scale;
    void *const data[FXI_SDPA_N_TENSOR] = {
        [FXI_SDPA_Q] = f->q,
        [FXI_SDPA_K] = (void *)(uintptr_t)keys,
        [FXI_SDPA_V] = (void *)(uintptr_t)(keys + c->plane_stride_bytes),
        [FXI_SDPA_OUT] = f->out,
        [FXI_SDPA_SCALE] = &scale,
        [FXI_SDPA_N_Q] = f->at + at.n_q,
        [FXI_SDPA_N_KV] = f->at + at.n_kv,
        [FXI_SDPA_Q_AT] = f->at + at.q_at,
        [FXI_SDPA_KV_AT] = f->at + at.kv_at[l->kv_group],
    };
    return fxi_dnn_run(&f->dnn, s, data, g->s.workspace, err);
}

// Queries are rounded to the type of the cache; the library scales them.
static fx_status round_queries(fxi_gpu *g, fx_error *err)
{
    const fxi_model *m = &g->plan->model;
    const fxi_cuda_rows_args args = {.x = g->s.q,
                                     .n_row = g->fused.n_seq,
                                     .n = m->shape.n_head * m->shape.head_dim,
                                     .out = {.f16 = m->kv_type == FXI_F16 ? g->fused.q : NULL,
                                             .b16 = m->kv_type == FXI_F16 ? NULL : g->fused.q}};
    return fxi_gpu_launch(g, FXI_CUDA_ROWS, &args, err);
}

fx_status fxi_gpu_fused_attention(fxi_gpu *g, const fxi_layer *l, bool *done, fx_error *err)
{
    const fxi_sdpa *s = NULL;
    *done = false;
    if (!g->fused.n_seq) return FX_OK;
    FX_TRY(fxi_cu_enter(&g->cu, err));
    fx_status st = find_shape_of(g, l, &s, err);
    if (st == FX_OK && s) st = round_queries(g, err);
    if (st == FX_OK && s) st = run_library(g, l, s, err);
    fxi_cu_leave(&g->cu);
    *done = s != NULL;
    return fxi_gpu_failed(g, st, err);
}
