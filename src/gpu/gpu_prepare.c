// gpu_prepare.c - the operands of a pass: buffers on the device, sized once for the largest batch.
//
// First what the layers read is counted, then one allocation is cut into the buffers that some
// layer needs.
#include "gpu/gpu_impl.h"

enum { PART_BYTES = 128 << 20 }; // most of the partial results of attention

// Numbers of the widest row of a kind, and the types of the layers that read it.
typedef struct row_need {
    size_t n;
    uint64_t types;
} row_need;

typedef struct operand_needs {
    row_need h, narrow, att, mid, ex;
    size_t n_mid;           // numbers of gate, up and mid, all rows together
    bool holds, has_shared; // parallel layers, a shared expert
    bool mixes;             // experts
} operand_needs;

// ---- what the layers read ----------------------------------------------------------------------

static void need_reader(row_need *need, const fxi_linear *w)
{
    if (!w->data) return;
    need->types |= (uint64_t)1 << w->type;
    if ((size_t)w->n_in > need->n) need->n = (size_t)w->n_in;
}

static void need_block(operand_needs *n, const fxi_linear *up, const fxi_linear *down, size_t rows)
{
    if (!up->data) return;
    need_reader(&n->mid, down);
    if (rows * (size_t)down->n_in > n->n_mid) n->n_mid = rows * (size_t)down->n_in;
}

static void need_mixture(operand_needs *n, const fxi_transformer *m, const fxi_experts *x,
                         size_t n_tok)
{
    const fxi_linear *h[] = {&x->router.w, &x->sh_gate, &x->shared.gate.w, &x->shared.up.w};
    n->mixes = true;
    n->has_shared |= x->shared.up.w.data != NULL;
    for (size_t i = 0; i < sizeof h / sizeof *h; i++) need_reader(&n->h, h[i]);
    if (x->gate.w) need_reader(&n->ex, &x->gate.w[0]);
    need_reader(&n->ex, &x->up.w[0]);
    n->h.types |= n->ex.types; // gathered in the same form
    need_block(n, &x->up.w[0], &x->down.w[0], n_tok * (size_t)m->rules.n_used);
    need_block(n, &x->shared.up.w, &x->shared.down.w, n_tok);
}

static operand_needs count_operands(const fxi_transformer *m, size_t n_tok)
{
    operand_needs n = {.holds = m->rules.is_parallel};
    for (int i = 0; i < m->model.shape.n_layer; i++) {
        const fxi_layer *l = &m->layer[i];
        const fxi_linear *h[] = {&l->q.w, &l->k.w, &l->v.w, &l->ffn.gate.w, &l->ffn.up.w};
        for (size_t k = 0; k < sizeof h / sizeof *h; k++) need_reader(&n.h, h[k]);
        need_reader(&n.att, &l->o.w);
        need_block(&n, &l->ffn.up.w, &l->ffn.down.w, n_tok);
        if (l->experts) need_mixture(&n, m, l->experts, n_tok);
    }
    need_reader(&n.narrow, &m->embd_in);
    need_reader(m->embd_out.data ? &n.narrow : &n.h, &m->output.w);
    need_reader(&n.h, &m->embd_out);
    return n;
}

// ---- buffers -----------------------------------------------------------------------------------

typedef struct gpu_buffer {
    void **dst;
    size_t n, elem_bytes;
} gpu_buffer;

static fx_status cut_buffers(fxi_gpu *g, const gpu_buffer *list, int n, fx_error *err)
{
    for (int i = 0; i < n; i++) {
        const size_t size_bytes = list[i].n * list[i].elem_bytes;
        if (size_bytes)
            FX_TRY(fxi_gpu_heap_take(&g->cu, &g->scratch, size_bytes, 0, list[i].dst, err));
    }
    return FX_OK;
}

// Rows of n numbers in all, in the forms that layers of these types read, and as f32.
static fx_status cut_forms(fxi_gpu *g, fxi_cuda_act *a, size_t n, uint64_t types, fx_error *err)
{
    const size_t f16 = fxi_gpu_reads_form(g, types, FXI_CUDA_FORM_F16) ? n : 0;
    const size_t b16 = fxi_gpu_reads_form(g, types, FXI_CUDA_FORM_B16) ? n : 0;
    const size_t q8 = fxi_gpu_reads_form(g, types, FXI_CUDA_FORM_Q8) ? n : 0;
    const gpu_buffer list[] = {
        {(void **)&a->x, n, sizeof *a->x},       {(void **)&a->f16, f16, sizeof *a->f16},
        {(void **)&a->b16, b16, sizeof *a->b16}, {(void **)&a->q, q8, sizeof *a->q},
        {(void **)&a->d, q8 / 32, sizeof *a->d}, {(void **)&a->sum, q8 / 16, sizeof *a->sum},
    };
    return cut_buffers(g, list, (int)(sizeof list / sizeof *list), err);
}

// Room for the partial results of attention: for every segment of as many sequences as it takes to
// keep the device busy, but for PART_BYTES at most. Beyond that blocks walk several segments each,
// which changes no bit.
static size_t count_parts(fxi_gpu *g)
{
    const fxi_model_shape *s = &g->plan->model.shape;
    const size_t part_bytes = (size_t)(FXI_CUDA_PART_ACC + s->head_dim) * sizeof(float);
    const size_t most = PART_BYTES / part_bytes;
    const double all = (double)s->n_head * fxi_attn_n_segment(g->plan->ctx_tok) * g->most.max_tok;
    g->s.max_part = all < (double)most ? (int)all : (int)most;
    return (size_t)g->s.max_part * part_bytes;
}

static fx_status cut_operands(fxi_gpu *g, const operand_needs *need, fx_error *err)
{
    const fxi_model_shape *m = &g->plan->model.shape;
    fxi_gpu_operands *s = &g->s;
    const size_t n = (size_t)g->most.max_tok, dim = (size_t)m->dim,
                 n_q = (size_t)m->n_head * (size_t)m->head_dim,
                 n_kv = (size_t)m->n_kv_head * (size_t)m->head_dim,
                 n_vocab = (size_t)g->plan->output.w.n_out,
                 n_logit = n_vocab ? (size_t)g->most.max_logit : 0,
                 n_expert = (size_t)g->plan->rules.n_expert,
                 n_place = need->mixes ? n * (size_t)g->plan->rules.n_used : 0;
    const gpu_buffer list[] = {
        {(void **)&s->x, n * dim, sizeof(float)},
        {(void **)&s->addends, (size_t)g->n_addend * n * dim, sizeof(float)},
        {(void **)&s->held, need->holds ? n * dim : 0, sizeof(float)},
        {(void **)&s->q, n * n_q, sizeof(float)},
        {(void **)&s->att, n * n_q, sizeof(float)},
        {(void **)&s->k, n * n_kv, sizeof(float)},
        {(void **)&s->v, n * n_kv, sizeof(float)},
        {(void **)&s->gate, need->n_mid, sizeof(float)},
        {(void **)&s->up, need->n_mid, sizeof(float)},
        {(void **)&s->part, count_parts(g), 1},
        {(void **)&s->logits, n_logit * n_vocab, sizeof(float)},
        {(void **)&s->best, n_logit, sizeof(int32_t)},
        {(void **)&s->best_logit, n_logit, sizeof(float)},
        {(void **)&g->block, g->pass.at.size_bytes, 1},
        {(void **)&s->router, need->mixes ? n * n_expert : 0, sizeof(float)},
        {(void **)&s->share, n_place, sizeof(float)},
        {(void **)&s->chosen, n_place, sizeof(int32_t)},
        {(void **)&s->place, n_place, sizeof(int32_t)},
        {(void **)&s->place_row, n_place, sizeof(int32_t)},
        {(void **)&s->place_expert, n_place, sizeof(int32_t)},
        {(void **)&s->range, need->mixes ? n_expert + 1 : 0, sizeof(int32_t)},
        {(void **)&s->ex_out, n_place * dim, sizeof(float)},
        {(void **)&s->sh_out, need->has_shared ? n * dim : 0, sizeof(float)},
        {(void **)&s->sh_gate, need->has_shared ? n : 0, sizeof(float)},
    };
    FX_TRY(cut_buffers(g, list, (int)(sizeof list / sizeof *list), err));
    FX_TRY(cut_forms(g, &s->h, n * dim, need->h.types, err));
    FX_TRY(cut_forms(g, &s->narrow, n * need->narrow.n, need->narrow.types, err));
    FX_TRY(cut_forms(g, &s->att_in, n * n_q, need->att.types, err));
    FX_TRY(cut_forms(g, &s->mid, need->n_mid, need->mid.types, err));
    return cut_forms(g, &s->ex, n_place * dim, need->ex.types, err);
}

// ---- prepare -----------------------------------------------------------------------------------

// Shared memory of a block of attention.
static unsigned attention_bytes(const fxi_transformer *m, fxi_cuda_kernel_id id)
{
    fxi_cuda_grid at = {0};
    const fxi_cuda_attn_args args = {.n_head = m->model.shape.n_head,
                                     .n_kv_head = m->model.shape.n_kv_head,
                                     .head_dim = m->model.shape.head_dim,
                                     .max_range = 1,
                                     .n_tile = 1};
    fxi_cuda_kernel_find(id)->shape(&args, &at);
    return at.shared_bytes + FXI_CUDA_OWN_SHARED_BYTES;
}

static fx_status choose_attention(fxi_gpu *g, const fxi_transformer *m, fx_error *err)
{
    const unsigned most = (unsigned)g->cu.max_shared_bytes;
    const fxi_dtype type = m->model.kv_type;
    const int n = m->model.shape.head_dim;
    const unsigned need = attention_bytes(m, fxi_cuda_attention_find(type, n, g->math));
    const fxi_cuda_kernel_id wide = fxi_cuda_attention_wide_find(type, n, g->math);
    g->has_wide = wide != FXI_CUDA_KERNEL_END && attention_bytes(m, wide) <= most;
    if (need <= most) return FX_OK;
    return fxi_fail(err, FX_EINVAL,
                    "%s: attention with heads of %d numbers needs %u bytes of shared memory, "
                    "%s has %u",
                    g->cu.label, n, need, g->cu.name, most);
}

static fx_status alloc_operands(fxi_gpu *g, fx_error *err)
{
    const operand_needs need = count_operands(g->plan, (size_t)g->most.max_tok);
    void *block;
    g->scratch.counts = true;
    FX_TRY(cut_operands(g, &need, err));
    const uint64_t all = g->scratch.size_bytes;
    g->scratch = (fxi_gpu_heap){0};
    FX_TRY(fxi_gpu_heap_take(&g->cu, &g->scratch, 1, all, &block, err));
    FX_TRY(cut_operands(g, &need, err));
    FX_TRY(fxi_gpu_pinned_take(&g->cu, &g->pinned, g->pass.at.size_bytes, &block, err));
    g->block_host = block;
    return fxi_gpu_stage_drain(&g->cu, &g->stage, err);
}

fx_status fxi_gpu_prepare(fxi_device *d, const fxi_transformer *plan, const fxi_pass_limits *most,
                          fx_error *err)
{
    enum { MAX_GRID_Z = 65535 };
    fxi_gpu *g = fxi_gpu_of(d);
    // A tile of attention has at least one token, and tiles are a grid's third dimension.
    if (most->max_tok > MAX_GRID_Z)
        return fxi_fail(err, FX_EINVAL, "%s: %d tokens in a step; a GPU computes at most %d",
                        g->cu.label, most->max_tok, MAX_GRID_Z);
    FX_TRY(choose_attention(g, plan, err));
    g->plan = plan;
    g->most = *most;
    fxi_gpu_layout_fill(plan, most->max_tok, &g->pass.at);
    FX_TRY(fxi_gpu_graphs_reserve(g, err));
    FX_TRY(fxi_cu_enter(&g->cu, err));
    return fxi_cu_leave(&g->cu, alloc_operands(g, err));
}
