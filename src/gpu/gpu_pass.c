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

static size_t count_table_blocks(const fxi_transformer *m, const fxi_batch *b)
{
    size_t n = 0;
    for (int i = 0; i < b->n_seq; i++)
        for (int k = 0; k < m->model.shape.kv.n_group; k++)
            n += view_blocks(&b->seq[i].views.group[k], b->seq[i].pos + b->seq[i].n_tok);
    return n;
}

void fxi_gpu_tables_free(fxi_gpu *g)
{
    fxi_cu_unpin(&g->cu, g->tables.host);
    fxi_cu_free(&g->cu, g->tables.at);
    g->tables = (fxi_gpu_tables){0};
}

// What as many sequences as there are rows of logits need at their longest: enough for the batches
// of an engine. 0: no view of the batch has a table.
static size_t most_table_blocks(const fxi_gpu *g, const fxi_batch *b)
{
    size_t n = 0;
    for (int k = 0; b->n_seq && k < g->plan->model.shape.kv.n_group; k++)
        n += view_blocks(&b->seq[0].views.group[k], g->plan->ctx_tok);
    n *= (size_t)g->most.max_logit;
    return n < MAX_TABLE_AHEAD ? n : MAX_TABLE_AHEAD;
}

// Makes room for n numbers: at the first pass with tables for all that come, as far as can be told.
static fx_status reserve_tables(fxi_gpu *g, const fxi_batch *b, size_t n, fx_error *err)
{
    fxi_gpu_tables *t = &g->tables;
    if (n <= t->room) return FX_OK;
    const size_t most = most_table_blocks(g, b), room = most > n ? most : n + n / 2;
    fxi_gpu_tables_free(g);
    FX_TRY(fxi_cu_pin(&g->cu, room * sizeof *t->host, (void **)&t->host, err));
    FX_TRY(fxi_cu_alloc(&g->cu, room * sizeof *t->at, (void **)&t->at, err));
    t->room = room;
    return FX_OK;
}

// ---- the arrays --------------------------------------------------------------------------------

// A view as the device sees it. *n_block: of the tables so far
static fxi_kv_view device_view(fxi_gpu *g, const fxi_kv_view *v, int n_pos, size_t *n_block)
{
    fxi_kv_view d = *v;
    const size_t n = view_blocks(v, n_pos);
    if (n) {
        memcpy(g->tables.host + *n_block, v->table, n * sizeof *v->table);
        d.table = g->tables.at + *n_block;
        *n_block += n;
    }
    return d;
}

static void fill_sequence(fxi_gpu *g, const fxi_batch_seq *s, int row0, fxi_cuda_seq *out,
                          size_t *n_block)
{
    const fxi_model_shape *shape = &g->plan->model.shape;
    const int end = s->pos + s->n_tok;
    memset(out, 0, sizeof *out);
    for (int k = 0; k < shape->kv.n_group; k++)
        out->view[k] = device_view(g, &s->views.group[k], end, n_block);
    out->row0 = row0;
    out->n_tok = s->n_tok;
    out->pos = s->pos;
    out->n_pos = shape->is_causal ? 0 : end;
}

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
}

static void fill_angles(fxi_gpu *g, const fxi_batch_seq *s, int row0)
{
    for (int r = 0; r < 2; r++) {
        const fxi_rope *rope = &g->plan->rope[r];
        const size_t n = (size_t)rope->n_pair, from = (size_t)s->pos * n, to = (size_t)row0 * n;
        const size_t n_bytes = (size_t)s->n_tok * n * sizeof(float);
        if (!n) continue;
        memcpy((float *)host_array(g, g->pass.at.cos[r]) + to, rope->cos + from, n_bytes);
        memcpy((float *)host_array(g, g->pass.at.sin[r]) + to, rope->sin + from, n_bytes);
    }
}

static void fill_sequences(fxi_gpu *g, const fxi_batch *b, size_t *n_block)
{
    fxi_cuda_seq *seq = host_array(g, g->pass.at.seq);
    int row = 0;
    *n_block = 0;
    for (int i = 0; i < b->n_seq; i++) {
        fill_sequence(g, &b->seq[i], row, &seq[i], n_block);
        fill_row_arrays(g, &b->seq[i], i, row);
        fill_angles(g, &b->seq[i], row);
        row += b->seq[i].n_tok;
    }
}

// ---- attention's plans -------------------------------------------------------------------------

// wanted: only the tokens of each sequence whose rows are wanted
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

static void plan_attention(fxi_gpu *g, const fxi_batch *b)
{
    const fxi_transformer *m = g->plan;
    fxi_gpu_pass *p = &g->pass;
    plan_tiles(g, b, false, false, p->at.tile[0], &p->plan[0]);
    if (m->rules.window) plan_tiles(g, b, true, false, p->at.tile[1], &p->plan[1]);
    plan_tiles(g, b, m->layer[m->model.shape.n_layer - 1].is_windowed, true, p->at.last, &p->last);
}

// ---- counts ------------------------------------------------------------------------------------

const int32_t *fxi_gpu_live(const fxi_gpu *g, fxi_gpu_count which)
{
    return (const int32_t *)fxi_gpu_array(g, g->pass.at.count) + which;
}

const int32_t *fxi_gpu_live_rows(const fxi_gpu *g)
{
    const fxi_gpu_pass *p = &g->pass;
    return fxi_gpu_live(g, p->ended ? FXI_GPU_LOGITS : p->kept ? FXI_GPU_KEPT : FXI_GPU_ROWS);
}

static void fill_counts(fxi_gpu *g, const fxi_batch *b, int n_kept, int n_logit)
{
    const fxi_gpu_pass *p = &g->pass;
    int32_t *count = host_array(g, p->at.count);
    count[FXI_GPU_ROWS] = b->n_tok;
    count[FXI_GPU_KEPT] = n_kept;
    count[FXI_GPU_LOGITS] = n_logit;
    count[FXI_GPU_PLACES] = b->n_tok * g->plan->rules.n_used;
    count[FXI_GPU_KEPT_PLACES] = n_kept * g->plan->rules.n_used;
    count[FXI_GPU_TILES] = p->plan[0].n_tile;
    count[FXI_GPU_WINDOW_TILES] = p->plan[1].n_tile;
    count[FXI_GPU_LAST_TILES] = p->last.n_tile;
}

// ---- begin -------------------------------------------------------------------------------------

static fx_status fill_batch(fxi_gpu *g, const fxi_batch *b, size_t *n_block, fx_error *err)
{
    int n_logit;
    FX_TRY(reserve_tables(g, b, count_table_blocks(g->plan, b), err));
    memcpy(host_array(g, g->pass.at.token), b->token, (size_t)b->n_tok * sizeof *b->token);
    g->pass.n_kept = fxi_batch_wanted(b, host_array(g, g->pass.at.wanted), &n_logit);
    fill_sequences(g, b, n_block);
    plan_attention(g, b);
    fill_counts(g, b, g->pass.n_kept, n_logit);
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
    fx_status st = start_pass(g, batch, err);
    fxi_cu_leave(&g->cu);
    return fxi_gpu_failed(g, st, err);
}

// ---- the end of a pass: results, the wait, and what a failure means -----------------------------

void fxi_gpu_return_rows(fxi_gpu *g, fxi_gpu_result rows)
{
    fxi_gpu_pass *p = &g->pass;
    if (rows.dst && rows.n_row && rows.row_bytes) p->result[p->n_result++] = rows;
}

void fxi_gpu_return(fxi_gpu *g, void *dst, const void *src, size_t size_bytes)
{
    fxi_gpu_return_rows(g, (fxi_gpu_result){dst, src, 1, size_bytes, size_bytes});
}

// What is pinned for one device is so for all: their addresses are one space.
static bool is_pinned(const fxi_gpu *g, const fxi_gpu_result *r)
{
    const size_t size_bytes = (r->n_row - 1) * r->pitch_bytes + r->row_bytes;
    if (fxi_gpu_pinned_has(&g->pinned, r->dst, size_bytes)) return true;
    return g->first_pinned && fxi_gpu_pinned_has(g->first_pinned, r->dst, size_bytes);
}

static fx_status download_result(fxi_gpu *g, const fxi_gpu_result *r, fx_error *err)
{
    if (r->n_row == 1 || r->pitch_bytes == r->row_bytes)
        return fxi_cu_download(&g->cu, g->cu.compute, r->dst, r->src, r->n_row * r->row_bytes, err);
    return fxi_cu_download_rows(&g->cu, g->cu.compute, r->dst, r->pitch_bytes, r->src, r->row_bytes,
                                r->n_row, err);
}

static fx_status run_pass(fxi_gpu *g, fx_error *err)
{
    const fxi_gpu_pass *p = &g->pass;
    FX_TRY(fxi_gpu_graph_run(g, err));
    for (int i = 0; i < p->n_result; i++)
        if (is_pinned(g, &p->result[i])) FX_TRY(download_result(g, &p->result[i], err));
    return FX_OK;
}

fx_status fxi_gpu_submit(fxi_device *d, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    FX_TRY(fxi_cu_enter(&g->cu, err));
    fx_status st = run_pass(g, err);
    fxi_cu_leave(&g->cu);
    return fxi_gpu_failed(g, st, err);
}

static fx_status stage_rows(fxi_gpu *g, const fxi_gpu_result *r, fx_error *err)
{
    for (size_t i = 0; i < r->n_row; i++)
        FX_TRY(fxi_gpu_stage_download(&g->cu, &g->stage, (char *)r->dst + i * r->pitch_bytes,
                                      (const char *)r->src + i * r->row_bytes, r->row_bytes, err));
    return FX_OK;
}

static fx_status fetch_results(fxi_gpu *g, fx_error *err)
{
    const fxi_gpu_pass *p = &g->pass;
    for (int i = 0; i < p->n_result; i++)
        if (!is_pinned(g, &p->result[i])) FX_TRY(stage_rows(g, &p->result[i], err));
    return fxi_cu_wait(&g->cu, g->cu.compute, err);
}

fx_status fxi_gpu_wait(fxi_device *d, fx_error *err)
{
    fxi_gpu *g = fxi_gpu_of(d);
    FX_TRY(fxi_cu_enter(&g->cu, err));
    fx_status st = fetch_results(g, err);
    fxi_cu_leave(&g->cu);
    g->pass.n_result = 0;
    return fxi_gpu_failed(g, st, err);
}

// A context whose kernel failed answers every later call with the same error, so a wait tells.
fx_status fxi_gpu_failed(fxi_gpu *g, fx_status st, const fx_error *err)
{
    fx_error why;
    if (st == FX_OK || g->lost.status != FX_OK) return st;
    fxi_gpu_graph_drop(g);
    bool lost = fxi_cu_enter(&g->cu, &why) != FX_OK;
    if (!lost) {
        lost = fxi_cu_wait(&g->cu, g->cu.compute, &why) != FX_OK;
        fxi_cu_leave(&g->cu);
    }
    if (lost) g->lost = err ? *err : why;
    return st;
}
