// gpu_pass.c - a pass begins with its batch as arrays for the device, uploaded in one piece, and
// ends with results on the host.
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

void fxi_gpu_layout_fill(const fxi_transformer *m, int n_row, fxi_gpu_layout *l)
{
    const size_t n = (size_t)n_row;
    *l = (fxi_gpu_layout){0};
    l->count = place_array(l, FXI_GPU_N_COUNT, sizeof(int32_t));
    l->token = place_array(l, n, sizeof(int32_t));
    l->pos = place_array(l, n, sizeof(int32_t));
    l->row_seq = place_array(l, n, sizeof(int32_t));
    l->wanted = place_array(l, n, sizeof(int32_t));
    l->gain = place_array(l, m->rules.log_scale != 0 ? n : 0, sizeof(float));
    for (int r = 0; r < 2; r++) {
        l->cos[r] = place_array(l, n * (size_t)m->rope[r].n_pair, sizeof(float));
        l->sin[r] = place_array(l, n * (size_t)m->rope[r].n_pair, sizeof(float));
    }
    l->seq = place_array(l, n, sizeof(fxi_cuda_seq));
    l->tile[0] = place_array(l, n, sizeof(fxi_cuda_tile));
    l->tile[1] = place_array(l, m->rules.window ? n : 0, sizeof(fxi_cuda_tile));
    l->last = place_array(l, n, sizeof(fxi_cuda_tile));
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

// What each row of sequence i_seq has: position, sequence, gain, angles.
static void fill_row_arrays(fxi_gpu *g, const fxi_batch_seq *s, int i_seq, int row0)
{
    const fxi_gpu_layout *at = &g->pass.at;
    const fxi_rules *rules = &g->plan->rules;
    int32_t *pos = host_array(g, at->pos), *row_seq = host_array(g, at->row_seq);
    float *gain = host_array(g, at->gain);
    for (int t = 0; t < s->n_tok; t++) {
        pos[row0 + t] = s->pos + t;
        row_seq[row0 + t] = i_seq;
        if (rules->log_scale != 0) gain[row0 + t] = fxi_query_gain(rules, s->pos + t);
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
                             [FXI_GPU_PLACES] = b->n_tok * m->rules.n_used,
                             [FXI_GPU_KEPT_PLACES] = p->n_kept * m->rules.n_used,
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
    fxi_gpu_layout_fill(g->plan, fxi_gpu_graph_rows(g, batch), &g->pass.at);
    FX_TRY(fxi_cu_enter(&g->cu, err));
    return fxi_gpu_failed(g, fxi_cu_leave(&g->cu, start_pass(g, batch, err)), err);
}

// ---- the end of a pass: results, the wait, and what a failure means ----------------------------

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

// A context whose kernel failed answers every later call with the same error, so a wait tells.
fx_status fxi_gpu_failed(fxi_gpu *g, fx_status st, const fx_error *err)
{
    fx_error why;
    if (st == FX_OK || g->lost.status != FX_OK) return st;
    fxi_gpu_graph_drop(g);
    const bool lost = fxi_cu_enter(&g->cu, &why) != FX_OK ||
                      fxi_cu_leave(&g->cu, fxi_cu_wait(&g->cu, g->cu.compute, &why)) != FX_OK;
    if (lost) g->lost = err ? *err : why;
    return st;
}
