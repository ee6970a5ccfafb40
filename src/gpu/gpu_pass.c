// gpu_pass.c - the operands of a pass, buffers on the device that are sized once for the largest
// batch; how a pass begins, with its batch as arrays for the device, uploaded in one piece; how it
// ends, with results on the host.
//
// For the operands, what the layers read is counted first; then one allocation is cut into the
// buffers that some layer needs.
//
// The block begins with arrays of one element per row, so that a batch of few rows is a short
// upload. Block tables of paged caches follow in a second piece, if there are any.
#include "gpu/gpu_impl.h"

#include <string.h>

enum { MAX_TABLE_AHEAD = 4 << 20 }; // numbers of tables that are made room for before they come

// ---- where arrays lie --------------------------------------------------------------------------

static size_t place_array(fxi_gpu_layout *l, size_t n, size_t elem_bytes)
{
    const size_t at = l->size_bytes;
    l->size_bytes += (n * elem_bytes + 15) / 16 * 16;
    return at;
}

static void fill_layout(const fxi_transformer *m, int n_row, fxi_gpu_layout *l)
{
    const size_t n = (size_t)n_row;
    *l = (fxi_gpu_layout){0};
    l->count = place_array(l, FXI_GPU_N_COUNT, sizeof(int32_t));
    l->token = place_array(l, n, sizeof(int32_t));
    l->pos = place_array(l, n, sizeof(int32_t));
    l->row_seq = place_array(l, n, sizeof(int32_t));
    l->wanted = place_array(l, n, sizeof(int32_t));
    l->gain = place_array(l, m->rules.log_scale != 0 ? n : 0, sizeof(float));
    l->type = place_array(l, m->n_token_type > 1 ? n : 0, sizeof(int32_t));
    for (int r = 0; r < 2; r++) {
        l->cos[r] = place_array(l, n * (size_t)m->rope[r].n_pair, sizeof(float));
        l->sin[r] = place_array(l, n * (size_t)m->rope[r].n_pair, sizeof(float));
    }
    l->seq = place_array(l, n, sizeof(fxi_cuda_seq));
    l->tile[0] = place_array(l, n, sizeof(fxi_cuda_tile));
    l->tile[1] = place_array(l, m->rules.window ? n : 0, sizeof(fxi_cuda_tile));
    l->last = place_array(l, n, sizeof(fxi_cuda_tile));
}

// ---- operands: what the layers read ------------------------------------------------------------

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
    need_block(n, &x->up.w[0], &x->down.w[0], n_tok * (size_t)m->rules.router.n_used);
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
                 n_expert = (size_t)g->plan->rules.router.n_expert,
                 n_place = need->mixes ? n * (size_t)g->plan->rules.router.n_used : 0;
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
                                     .count = {1, NULL}};
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
    fill_layout(plan, most->max_tok, &g->pass.at);
    FX_TRY(fxi_gpu_graphs_reserve(g, err));
    FX_TRY(fxi_cu_enter(&g->cu, err));
    return fxi_cu_leave(&g->cu, alloc_operands(g, err));
}

static void *host_array(const fxi_gpu *g, size_t at)
{
    return g->block_host + at;
}

// ---- tables of paged caches --------------------------------------------------------------------

static size_t view_blocks(const fxi_kv_view *v, int n_pos)
{
    return v->table ? ((size_t)n_pos + ((size_t)1 << v->block_shift) - 1) >> v->block_shift : 0;
}

void fxi_gpu_tables_free(fxi_gpu *g)
{
    fxi_cu_unpin(&g->cu, g->tables.host);
    fxi_cu_free(&g->cu, g->tables.at);
    g->tables = (fxi_gpu_tables){0};
}

// Makes room for n numbers: at the first pass with tables for all that come, as far as can be told:
// for as many sequences as there are rows of logits, at their longest.
static fx_status reserve_tables(fxi_gpu *g, const fxi_batch *b, size_t n, fx_error *err)
{
    fxi_gpu_tables *t = &g->tables;
    if (n <= t->room) return FX_OK;
    size_t most = 0;
    for (int k = 0; k < g->plan->model.shape.kv.n_group; k++)
        most += view_blocks(&b->seq[0].views.group[k], g->plan->ctx_tok);
    most *= (size_t)g->most.max_logit;
    if (most > MAX_TABLE_AHEAD) most = MAX_TABLE_AHEAD;
    const size_t room = most > n ? most : n + n / 2;
    fxi_gpu_tables_free(g);
    FX_TRY(fxi_cu_pin(&g->cu, room * sizeof *t->host, (void **)&t->host, err));
    FX_TRY(fxi_cu_alloc(&g->cu, room * sizeof *t->at, (void **)&t->at, err));
    t->room = room;
    return FX_OK;
}

// ---- the arrays --------------------------------------------------------------------------------

// A sequence as kernels see it, with its tables. *n_block: of the tables so far
static void fill_sequence(fxi_gpu *g, const fxi_batch_seq *s, int row0, fxi_cuda_seq *out,
                          size_t *n_block)
{
    const fxi_model_shape *shape = &g->plan->model.shape;
    const int end = s->pos + s->n_tok;
    memset(out, 0, sizeof *out);
    for (int k = 0; k < shape->kv.n_group; k++) {
        const fxi_kv_view *v = &s->views.group[k];
        const size_t n = view_blocks(v, end);
        out->view[k] = *v;
        if (!n) continue;
        memcpy(g->tables.host + *n_block, v->table, n * sizeof *v->table);
        out->view[k].table = g->tables.at + *n_block;
        *n_block += n;
    }
    out->row0 = row0;
    out->n_tok = s->n_tok;
    out->pos = s->pos;
    out->n_pos = shape->is_causal ? 0 : end;
}

// What each row of sequence i_seq has: position, sequence, gain, type, angles.
static void fill_row_arrays(fxi_gpu *g, const fxi_batch_seq *s, int i_seq, int row0)
{
    const fxi_gpu_layout *at = &g->pass.at;
    const fxi_rules *rules = &g->plan->rules;
    int32_t *pos = host_array(g, at->pos), *row_seq = host_array(g, at->row_seq);
    float *gain = host_array(g, at->gain);
    int32_t *type = host_array(g, at->type);
    const int n_type = g->plan->n_token_type;
    for (int t = 0; t < s->n_tok; t++) {
        pos[row0 + t] = s->pos + t;
        row_seq[row0 + t] = i_seq;
        if (rules->log_scale != 0) gain[row0 + t] = fxi_query_gain(rules, s->pos + t);
        if (n_type > 1) type[row0 + t] = fxi_batch_type(s, s->pos + t, n_type);
    }
    for (int r = 0; r < 2; r++) {
        const fxi_rope *rope = &g->plan->rope[r];
        const size_t n = (size_t)rope->n_pair, from = (size_t)s->pos * n, to = (size_t)row0 * n;
        const size_t n_bytes = (size_t)s->n_tok * n * sizeof(float);
        if (!n) continue;
        memcpy((float *)host_array(g, at->cos[r]) + to, rope->cos + from, n_bytes);
        memcpy((float *)host_array(g, at->sin[r]) + to, rope->sin + from, n_bytes);
    }
}

// Attention's plan. wanted: only the tokens of each sequence whose rows are wanted
static void plan_tiles(fxi_gpu *g, const fxi_batch *b, bool windowed, bool wanted, size_t at,
                       fxi_cuda_plan *out)
{
    const fxi_model_shape *s = &g->plan->model.shape;
    const fxi_cuda_seq *seq = host_array(g, g->pass.at.seq);
    fxi_cuda_tile *tile = host_array(g, at);
    *out = (fxi_cuda_plan){.n_head = s->n_head,
                           .n_kv_head = s->n_kv_head,
                           .window = windowed ? g->plan->rules.window : 0,
                           .n_block = 2 * g->cu.n_sm,
                           .max_part = g->s.max_part,
                           .is_wide = g->has_wide};
    for (int i = 0; i < b->n_seq; i++)
        fxi_cuda_plan_add(out, seq, i, wanted ? b->seq[i].n_logit : b->seq[i].n_tok, tile);
    fxi_cuda_plan_end(out, tile);
}

// ---- begin -------------------------------------------------------------------------------------

static fx_status fill_batch(fxi_gpu *g, const fxi_batch *b, size_t *n_block, fx_error *err)
{
    const fxi_transformer *m = g->plan;
    const fxi_model_shape *s = &m->model.shape;
    fxi_gpu_pass *p = &g->pass;
    size_t n = 0;
    for (int i = 0; i < b->n_seq; i++)
        for (int k = 0; k < s->kv.n_group; k++)
            n += view_blocks(&b->seq[i].views.group[k], b->seq[i].pos + b->seq[i].n_tok);
    FX_TRY(reserve_tables(g, b, n, err));
    int n_logit, row = 0;
    memcpy(host_array(g, p->at.token), b->token, (size_t)b->n_tok * sizeof *b->token);
    p->n_kept = fxi_batch_wanted(b, host_array(g, p->at.wanted), &n_logit);
    fxi_cuda_seq *seq = host_array(g, p->at.seq);
    *n_block = 0;
    for (int i = 0; i < b->n_seq; i++) {
        fill_sequence(g, &b->seq[i], row, &seq[i], n_block);
        fill_row_arrays(g, &b->seq[i], i, row);
        row += b->seq[i].n_tok;
    }
    plan_tiles(g, b, false, false, p->at.tile[0], &p->plan[0]);
    if (m->rules.window) plan_tiles(g, b, true, false, p->at.tile[1], &p->plan[1]);
    plan_tiles(g, b, m->layer[s->n_layer - 1].is_windowed, true, p->at.last, &p->last);
    const int32_t count[] = {[FXI_GPU_ROWS] = b->n_tok,
                             [FXI_GPU_KEPT] = p->n_kept,
                             [FXI_GPU_LOGITS] = n_logit,
                             [FXI_GPU_PLACES] = b->n_tok * m->rules.router.n_used,
                             [FXI_GPU_KEPT_PLACES] = p->n_kept * m->rules.router.n_used,
                             [FXI_GPU_TILES] = p->plan[0].n_tile,
                             [FXI_GPU_WINDOW_TILES] = p->plan[1].n_tile,
                             [FXI_GPU_LAST_TILES] = p->last.n_tile};
    memcpy(host_array(g, p->at.count), count, sizeof count);
    return FX_OK;
}

// The block may be filled again once the device is done with the pass before.
static fx_status start_pass(fxi_gpu *g, const fxi_batch *b, fx_error *err)
{
    size_t n_block;
    FX_TRY(fxi_cu_wait(&g->cu, g->cu.compute, err));
    FX_TRY(fill_batch(g, b, &n_block, err));
    fxi_gpu_graph_choose(g, b);
    FX_TRY(
        fxi_cu_upload(&g->cu, g->cu.compute, g->block, g->block_host, g->pass.at.size_bytes, err));
    FX_TRY(fxi_cu_upload(&g->cu, g->cu.compute, g->tables.at, g->tables.host,
                         n_block * sizeof *g->tables.at, err));
    return fxi_gpu_graph_begin(g, err);
}

fx_status fxi_gpu_begin(fxi_device *d, const fxi_batch *batch, float *logits, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    if (g->lost.status != FX_OK) return fxi_fail(err, g->lost.status, "%s", g->lost.text);
    fxi_gpu_graph_drop(g); // of a pass that was given up
    g->pass = (fxi_gpu_pass){.batch = batch, .dst_logits = logits, .n_row = batch->n_tok};
    fill_layout(g->plan, fxi_gpu_graph_rows(g, batch), &g->pass.at);
    FX_TRY(fxi_cu_enter(&g->cu, err));
    return fxi_gpu_failed(g, fxi_cu_leave(&g->cu, start_pass(g, batch, err)), err);
}

// ---- the end of a pass: results, and the wait --------------------------------------------------

// Those in pinned memory are copied after the kernels, the others by the host, which waits. What is
// pinned for one device is so for all: their addresses are one space.
static fx_status fetch_results(fxi_gpu *g, bool pinned, fx_error *err)
{
    fxi_cu *cu = &g->cu;
    for (const fxi_gpu_result *r = g->pass.result; r < g->pass.result + g->pass.n_result; r++) {
        const size_t all_bytes = (r->n_row - 1) * r->pitch_bytes + r->row_bytes;
        const bool is_pinned =
            fxi_gpu_pinned_has(&g->pinned, r->dst, all_bytes) ||
            (g->first_pinned && fxi_gpu_pinned_has(g->first_pinned, r->dst, all_bytes));
        if (is_pinned != pinned) continue;
        for (size_t i = 0; i < r->n_row && !pinned; i++)
            FX_TRY(fxi_gpu_stage_download(cu, &g->stage, (char *)r->dst + i * r->pitch_bytes,
                                          (const char *)r->src + i * r->row_bytes, r->row_bytes,
                                          err));
        if (!pinned) continue;
        FX_TRY(all_bytes == r->n_row * r->row_bytes
                   ? fxi_cu_download(cu, cu->compute, r->dst, r->src, all_bytes, err)
                   : fxi_cu_download_rows(cu, cu->compute, r->dst, r->pitch_bytes, r->src,
                                          r->row_bytes, r->n_row, err));
    }
    return FX_OK;
}

fx_status fxi_gpu_submit(fxi_device *d, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    FX_TRY(fxi_cu_enter(&g->cu, err));
    fx_status st = fxi_gpu_graph_run(g, err);
    if (st == FX_OK) st = fetch_results(g, true, err);
    return fxi_gpu_failed(g, fxi_cu_leave(&g->cu, st), err);
}

fx_status fxi_gpu_wait(fxi_device *d, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    FX_TRY(fxi_cu_enter(&g->cu, err));
    fx_status st = fetch_results(g, false, err);
    if (st == FX_OK) st = fxi_cu_wait(&g->cu, g->cu.compute, err);
    g->pass.n_result = 0;
    return fxi_gpu_failed(g, fxi_cu_leave(&g->cu, st), err);
}
