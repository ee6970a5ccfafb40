// gpu_fused.c - attention by cuDNN, over the caches as they lie there; see library/sdpa.h for what
// the library is given.
//
// Sequences that decode are one call of the library, those that bring several tokens another, so
// that few shapes are planned. A pass takes this way if the caches are contiguous, of 16-bit
// numbers and laid out alike, and the layer has neither window, sinks nor cap; otherwise, and where
// the library does not support a shape, law's kernels do it. Theirs is also the last layer of a
// pass with prompts, where few rows of a prompt are wanted.
#include "gpu/device/gpu_impl.h"

// ---- arrays ------------------------------------------------------------------------------------

enum { MIN_PROMPT_TOK = 16 }; // shapes of prompts are powers of two from here on

// Where the arrays of a call with n sequences begin, in bytes. Groups of caches have offsets of
// their own.
typedef struct fused_layout {
    size_t q_at, kv_at[FXI_KV_MAX_GROUP], n_q, n_kv;
    size_t size_bytes; // where they end
} fused_layout;

static fused_layout lay_fused(int n_group, int n_seq, size_t begin)
{
    const size_t n = (size_t)n_seq, at_bytes = ((n + 1) * sizeof(int64_t) + 15) / 16 * 16,
                 count_bytes = (n * sizeof(int32_t) + 15) / 16 * 16;
    fused_layout l = {.q_at = begin, .size_bytes = begin + at_bytes};
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
    return FXI_GPU_FUSED_CALLS * lay_fused(s->kv.n_group, g->most.max_tok, 0).size_bytes;
}

// ---- the batch ---------------------------------------------------------------------------------

// Whether every row is wanted, one of each sequence.
static bool decodes_alone(const fxi_batch *b)
{
    for (int i = 0; i < b->n_seq; i++)
        if (b->seq[i].n_tok != 1 || b->seq[i].n_logit != 1 || b->seq[i].embeds) return false;
    return true;
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
    if (!m->shape.is_causal || g->plan->rules.attn_cap != 0) return false;
    for (int k = 0; k < m->shape.kv.n_group; k++)
        if (!are_alike(b, k)) return false;
    return b->n_seq > 0;
}

// Offsets of caches count from the lowest of them.
static void find_caches(fxi_gpu_fused *f, const fxi_batch *b, int group)
{
    const fxi_kv_view *first = &b->seq[0].views.group[group];
    const char *lowest = first->base;
    for (int i = 1; i < b->n_seq; i++)
        if (b->seq[i].views.group[group].base < lowest) lowest = b->seq[i].views.group[group].base;
    f->group[group] = (fxi_gpu_fused_group){.base = lowest,
                                            .plane_stride_bytes = first->plane_stride_bytes,
                                            .tok_stride_bytes = first->tok_stride_bytes};
}

static bool is_of_call(const fxi_batch_seq *seq, int call)
{
    return (seq->n_tok > 1) == (call == FXI_GPU_FUSED_PROMPT);
}

static int round_tokens(int n_tok)
{
    int n = n_tok > 1 ? MIN_PROMPT_TOK : 1;
    while (n < n_tok) n *= 2;
    return n;
}

// Counts the sequences of a call and the tokens of its longest.
static void size_call(fxi_gpu_fused_call *c, const fxi_batch *b, int call)
{
    int most = 1;
    *c = (fxi_gpu_fused_call){0};
    for (int i = 0; i < b->n_seq; i++) {
        if (!is_of_call(&b->seq[i], call)) continue;
        c->n_seq++;
        if (b->seq[i].n_tok > most) most = b->seq[i].n_tok;
    }
    c->max_q_tok = round_tokens(most);
}

// The arrays of a call: rows of queries follow each other in the order of the batch. One offset
// more than there are sequences is an end that nobody needs.
static void fill_call(fxi_gpu *g, const fxi_batch *b, int call, const fused_layout *l)
{
    const fxi_model_shape *s = &g->plan->model.shape;
    char *host = g->fused.host;
    int64_t *q_at = (int64_t *)(void *)(host + l->q_at), row = 0;
    int32_t *n_q = (int32_t *)(void *)(host + l->n_q), *n_kv = (int32_t *)(void *)(host + l->n_kv);
    int n = 0;
    for (int i = 0; i < b->n_seq; row += b->seq[i++].n_tok) {
        const fxi_batch_seq *seq = &b->seq[i];
        if (!is_of_call(seq, call)) continue;
        n_q[n] = seq->n_tok;
        n_kv[n] = seq->pos + seq->n_tok;
        for (int k = 0; k < s->kv.n_group; k++) {
            int64_t *kv_at = (int64_t *)(void *)(host + l->kv_at[k]);
            kv_at[n] =
                (seq->views.group[k].base - g->fused.group[k].base) / (int64_t)sizeof *g->fused.q;
            kv_at[n + 1] = kv_at[n];
        }
        q_at[n++] = row * s->n_head * s->head_dim;
        q_at[n] = q_at[n - 1] + (int64_t)seq->n_tok * s->n_head * s->head_dim;
    }
}

fx_status fxi_gpu_fused_begin(fxi_gpu *g, const fxi_batch *b, fx_error *err)
{
    fxi_gpu_fused *f = &g->fused;
    const int n_group = g->plan->model.shape.kv.n_group;
    size_t end = 0;
    f->n_seq = 0;
    if (!fits_fused(g, b)) return FX_OK;
    for (int k = 0; k < n_group; k++) find_caches(f, b, k);
    for (int call = 0; call < FXI_GPU_FUSED_CALLS; call++) {
        fxi_gpu_fused_call *c = &f->call[call];
        size_call(c, b, call);
        c->begin = end;
        if (!c->n_seq) continue;
        const fused_layout l = lay_fused(n_group, c->n_seq, end);
        fill_call(g, b, call, &l);
        end = l.size_bytes;
    }
    FX_TRY(fxi_cu_upload(&g->cu, g->cu.compute, f->at, f->host, end, err));
    f->n_seq = b->n_seq;
    f->wants_all = decodes_alone(b);
    return FX_OK;
}

// ---- attention ---------------------------------------------------------------------------------

// The plan of a call; *out NULL: the library does not support its shape.
static fx_status find_plan(fxi_gpu *g, const fxi_layer *l, const fxi_gpu_fused_call *c,
                           const fxi_sdpa **out, fx_error *err)
{
    const fxi_model *m = &g->plan->model;
    const fxi_sdpa_shape shape = {
        .type = m->kv_type,
        .n_seq = c->n_seq,
        .n_head = m->shape.n_head,
        .n_kv_head = m->shape.n_kv_head,
        .head_dim = m->shape.head_dim,
        .max_q_tok = c->max_q_tok,
        .max_kv_tok = g->plan->ctx_tok,
        .token_step = (int64_t)(g->fused.group[l->kv_group].tok_stride_bytes / sizeof(uint16_t))};
    return fxi_dnn_find(&g->fused.dnn, &shape, out, err);
}

// Of every call with sequences; *found: all of them are there.
static fx_status find_plans(fxi_gpu *g, const fxi_layer *l, const fxi_sdpa **plan, bool *found,
                            fx_error *err)
{
    const fxi_gpu_fused *f = &g->fused;
    *found = f->n_seq && !l->is_windowed && !l->sink && (f->wants_all || !g->pass.kept);
    for (int i = 0; i < FXI_GPU_FUSED_CALLS && *found; i++) {
        if (!f->call[i].n_seq) continue;
        FX_TRY(find_plan(g, l, &f->call[i], &plan[i], err));
        *found = plan[i] != NULL;
    }
    return FX_OK;
}

static fx_status run_library(fxi_gpu *g, const fxi_layer *l, const fxi_gpu_fused_call *call,
                             const fxi_sdpa *s, fx_error *err)
{
    fxi_gpu_fused *f = &g->fused;
    const fxi_gpu_fused_group *c = &f->group[l->kv_group];
    const fused_layout at = lay_fused(g->plan->model.shape.kv.n_group, call->n_seq, call->begin);
    const char *keys = c->base + (size_t)(2 * l->kv_layer) * c->plane_stride_bytes;
    float scale = g->plan->rules.attn_scale;
    void *const data[FXI_SDPA_N_DATA] = {
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
                                     .n_row = g->pass.batch->n_tok,
                                     .n = m->shape.n_head * m->shape.head_dim,
                                     .out = {.f16 = m->kv_type == FXI_F16 ? g->fused.q : NULL,
                                             .b16 = m->kv_type == FXI_F16 ? NULL : g->fused.q}};
    return fxi_gpu_launch(g, FXI_CUDA_ROWS, &args, err);
}

static fx_status run_calls(fxi_gpu *g, const fxi_layer *l, bool *done, fx_error *err)
{
    const fxi_sdpa *plan[FXI_GPU_FUSED_CALLS] = {NULL};
    FX_TRY(find_plans(g, l, plan, done, err));
    if (!*done) return FX_OK;
    FX_TRY(round_queries(g, err));
    for (int i = 0; i < FXI_GPU_FUSED_CALLS; i++)
        if (plan[i]) FX_TRY(run_library(g, l, &g->fused.call[i], plan[i], err));
    return FX_OK;
}

fx_status fxi_gpu_fused_attention(fxi_gpu *g, const fxi_layer *l, bool *done, fx_error *err)
{
    *done = false;
    if (!g->fused.n_seq) return FX_OK;
    FX_TRY(fxi_cu_enter(&g->cu, err));
    const fx_status st = run_calls(g, l, done, err);
    fxi_cu_leave(&g->cu);
    return fxi_gpu_failed(g, st, err);
}
