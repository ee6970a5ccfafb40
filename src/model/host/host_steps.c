// host_steps.c - the steps of a pass on the host: a mixture of experts, and all others.
#include "model/host/host.h"

#include <math.h>
#include <string.h>

// ---- shared by all steps -----------------------------------------------------------------------

// y = a x w, without bias, for all rows.
static void multiply_rows(fxi_host *h, const fxi_act *a, const fxi_linear *w, float *y)
{
    fxi_compute_linear(&h->compute, a, &(fxi_linear_job){w, y, 0, h->n_row, 0}, 1);
}

static fxi_act mid_act(const fxi_host *h)
{
    const fxi_host_buffers *s = &h->s;
    return (fxi_act){.x = s->mid, .q = s->mid_q, .d = s->mid_d, .sum = s->mid_sum};
}

// mid = the first halves of feed-forward blocks over rows of a, as `down` reads it.
static void feed_parts(fxi_host *h, const fxi_act *a, const fxi_ffn_part *part, int n_part,
                       const fxi_linear *down)
{
    const fxi_act mid = mid_act(h);
    fxi_compute_ffn(&h->compute, &(fxi_ffn_pass){.a = a,
                                                 .part = part,
                                                 .n_part = n_part,
                                                 .n_tok = h->n_row,
                                                 .act = h->m->rules.act,
                                                 .y = fxi_linear_reads_q8(down) ? NULL : h->s.mid,
                                                 .q8 = &mid,
                                                 .scratch = h->s.ffn});
}

// The same over all rows of a.
static void feed_rows(fxi_host *h, const fxi_ffn *f, const fxi_act *a)
{
    const fxi_ffn_part part = {.gate = f->gate.w.data ? &f->gate.w : NULL,
                               .up = &f->up.w,
                               .gate_bias = f->gate.b,
                               .up_bias = f->up.b,
                               .n_tok = h->n_row};
    feed_parts(h, a, &part, 1, &f->down.w);
}

// ---- a mixture of experts ----------------------------------------------------------------------

// A mixture of experts: each row goes through the few experts that its router chooses.
//
//   route    row -> n_used experts and the weights of their results
//   place    the chosen rows of expert 0, of expert 1, .. side by side: a product per expert
//   run      all experts' products in one go (compute.h)
//   combine  the weighted sum of a row's places, in the order of the router's numbers
//
// A row's result depends on no other row: the products' bits do not depend on how many rows they
// have, and the sum has one order.

static void route_row(void *arg, int row)
{
    const fxi_host *h = arg;
    const fxi_router *r = &h->m->rules.router;
    const fxi_host_buffers *s = &h->s;
    const float *bias = h->experts->router.b;
    const size_t at = (size_t)row * (size_t)r->n_used;
    float *x = s->router + (size_t)row * (size_t)r->n_expert;
    if (bias) h->compute.k->add(x, bias, r->n_expert);
    fxi_route_experts(r, x, h->experts->choice_bias, s->chosen + at, s->share + at);
}

// Gives every choice its place: those of an expert lie side by side, in the order of rows.
static void place_choices(const fxi_host *h)
{
    const fxi_router *r = &h->m->rules.router;
    const fxi_host_buffers *s = &h->s;
    const int n = h->n_row * r->n_used;
    memset(s->expert0, 0, ((size_t)r->n_expert + 1) * sizeof *s->expert0);
    for (int i = 0; i < n; i++) s->expert0[s->chosen[i] + 1]++;
    for (int e = 0; e < r->n_expert; e++) s->expert0[e + 1] += s->expert0[e];
    for (int i = 0; i < n; i++) {
        s->place[i] = s->expert0[s->chosen[i]]++; // now the end of those placed
        s->place_row[s->place[i]] = i / r->n_used;
    }
    for (int e = r->n_expert; e > 0; e--) s->expert0[e] = s->expert0[e - 1];
    s->expert0[0] = 0;
}

static void copy_numbers(void *dst, const void *src, size_t to, size_t from, size_t n, size_t bytes)
{
    memcpy((char *)dst + to * n * bytes, (const char *)src + from * n * bytes, n * bytes);
}

static void gather_place(void *arg, int place)
{
    const fxi_host *h = arg;
    const fxi_host_buffers *s = &h->s;
    const size_t n = (size_t)h->m->model.shape.dim, to = (size_t)place;
    const size_t from = (size_t)s->place_row[place];
    if (s->ex) copy_numbers(s->ex, s->h, to, from, n, sizeof(float));
    if (!s->ex_q || !h->has_q8) return;
    copy_numbers(s->ex_q, s->act_q, to, from, n, 1);
    copy_numbers(s->ex_d, s->act_d, to, from, n / FXI_Q8_0_ELEMS, sizeof(float));
    copy_numbers(s->ex_sum, s->act_sum, to, from, n / 16, sizeof(int32_t));
}

static const float *expert_bias(const fxi_expert_linear *l, int e)
{
    return l->b ? l->b + (size_t)e * (size_t)l->w[e].n_out : NULL;
}

// Lists the experts that have rows. Returns their number.
static int list_experts(const fxi_host *h)
{
    const fxi_experts *x = h->experts;
    const fxi_host_buffers *s = &h->s;
    int n = 0;
    for (int e = 0; e < h->m->rules.router.n_expert; e++) {
        const int row0 = s->expert0[e], n_tok = s->expert0[e + 1] - row0;
        if (!n_tok) continue;
        s->part[n] =
            (fxi_ffn_part){x->gate.w ? &x->gate.w[e] : NULL, &x->up.w[e], expert_bias(&x->gate, e),
                           expert_bias(&x->up, e),           row0,        n_tok};
        s->job[n++] = (fxi_linear_job){&x->down.w[e],
                                       s->ex_out + (size_t)row0 * (size_t)h->m->model.shape.dim,
                                       row0, n_tok, 0};
    }
    return n;
}

static void run_chosen(fxi_host *h)
{
    const fxi_host_buffers *s = &h->s;
    const fxi_act a = {.x = s->ex, .q = s->ex_q, .d = s->ex_d, .sum = s->ex_sum};
    const fxi_act mid = mid_act(h);
    place_choices(h);
    fxi_compute_rows(&h->compute, h->n_row * h->m->rules.router.n_used, gather_place, h);
    const int n = list_experts(h);
    feed_parts(h, &a, s->part, n, &h->experts->down.w[0]);
    fxi_compute_linear(&h->compute, &mid, s->job, n);
}

static void add_weighted(const fxi_host *h, float *sum, float *y, const float *bias, float by)
{
    const fxi_kernels *k = h->compute.k;
    const int dim = h->m->model.shape.dim;
    if (bias) k->add(y, bias, dim);
    k->add_scaled(sum, y, by, dim);
}

static void combine_row(void *arg, int row)
{
    const fxi_host *h = arg;
    const fxi_experts *x = h->experts;
    const fxi_host_buffers *s = &h->s;
    const size_t dim = (size_t)h->m->model.shape.dim, n_used = (size_t)h->m->rules.router.n_used;
    float *sum = s->h + (size_t)row * dim;
    memset(sum, 0, dim * sizeof *sum);
    for (size_t at = (size_t)row * n_used; at < (size_t)(row + 1) * n_used; at++)
        add_weighted(h, sum, s->ex_out + (size_t)s->place[at] * dim,
                     expert_bias(&x->down, s->chosen[at]), s->share[at]);
    const float by = x->sh_gate.data ? fxi_sigmoid(s->sh_gate[row]) : 1;
    if (x->shared.up.w.data)
        add_weighted(h, sum, s->sh_out + (size_t)row * dim, x->shared.down.b, by);
}

fx_status fxi_host_experts(fxi_device *d, const fxi_experts *x, fx_error *err)
{
    (void)err;
    fxi_host *h = fxi_host_of(d);
    const fxi_act a = fxi_host_act(h, h->s.h);
    const fxi_linear_job job[] = {{&x->router.w, h->s.router, 0, h->n_row, 0},
                                  {&x->sh_gate, h->s.sh_gate, 0, h->n_row, 0}};
    h->experts = x;
    fxi_compute_linear(&h->compute, &a, job, x->sh_gate.data ? 2 : 1);
    fxi_host_each_row(h, route_row);
    if (x->shared.up.w.data) {
        const fxi_act mid = mid_act(h);
        feed_rows(h, &x->shared, &a);
        multiply_rows(h, &mid, &x->shared.down.w, h->s.sh_out);
    }
    run_chosen(h);
    fxi_host_each_row(h, combine_row);
    return FX_OK;
}

// ---- the batch ---------------------------------------------------------------------------------

// Records the sequence and position of each row, and divides the sequences' tokens into blocks of
// attention. Returns the number of blocks.
static int index_batch(fxi_host *h, const fxi_attn_pass *pass, int kv_group, fxi_attn_block *block)
{
    const fxi_batch *batch = h->batch;
    const int most = fxi_compute_attn_block_tok(&h->compute, pass, batch->n_tok);
    const bool is_causal = h->m->model.shape.is_causal;
    int row = 0, n_block = 0;
    for (int i = 0; i < batch->n_seq; i++) {
        const fxi_batch_seq *seq = &batch->seq[i];
        for (int t = 0; t < seq->n_tok; t++) {
            h->s.tok_seq[row + t] = seq;
            h->s.tok_pos[row + t] = seq->pos + t;
        }
        for (int t = 0; t < seq->n_tok; t += most) {
            int left = seq->n_tok - t;
            block[n_block++] = (fxi_attn_block){
                .view = seq->views.group[kv_group],
                .row = row + t,
                .n_tok = left < most ? left : most,
                .pos = seq->pos + t,
                .n_pos = is_causal ? 0 : seq->pos + seq->n_tok,
            };
        }
        row += seq->n_tok;
    }
    return n_block;
}

fxi_attn_pass fxi_host_attn_pass(const fxi_host *h)
{
    const fxi_transformer *m = h->m;
    const fxi_model_shape *s = &m->model.shape;
    return (fxi_attn_pass){
        .n_kv_head = s->n_kv_head,
        .ctx_tok = m->ctx_tok,
        .call = {.kv_type = m->model.kv_type,
                 .n_head = s->n_head,
                 .head_dim = s->head_dim,
                 .v_dim = m->rules.n_lora,
                 .group = s->n_head / s->n_kv_head,
                 .softcap = m->rules.attn_cap,
                 .q = h->s.q,
                 .out = h->s.att,
                 .scale = m->rules.attn_scale},
        .scratch = h->s.attn,
    };
}

// Attention of this batch in layers with windows, or without.
static fxi_attn_pass make_attn_pass(fxi_host *h, bool windowed)
{
    const fxi_transformer *m = h->m;
    fxi_attn_pass a = fxi_host_attn_pass(h);
    a.call.window = windowed ? m->rules.window : 0;
    a.n_block = index_batch(h, &a, m->attn_group[windowed], h->s.block[windowed]);
    fxi_compute_attn_plan(&h->compute, &a, h->s.block[windowed]);
    return a;
}

fx_status fxi_host_begin(fxi_device *d, const fxi_batch *batch, float *logits, fx_error *err)
{
    (void)err;
    fxi_host *h = fxi_host_of(d);
    h->batch = batch;
    h->logits = logits;
    h->n_row = batch->n_tok;
    h->x_row = NULL;
    h->holds = false;
    for (int w = 0; w <= (h->m->rules.window > 0); w++) h->attn[w] = make_attn_pass(h, w);
    return FX_OK;
}

// Limits attention to the remaining rows: each block begins at the first of them.
static void keep_attn_rows(fxi_host *h, fxi_attn_pass *attn, fxi_attn_block *block)
{
    int n = 0, next = 0;
    for (int i = 0; i < attn->n_block; i++) {
        fxi_attn_block b = block[i];
        while (next < h->n_row && h->x_row[next] < b.row) next++;
        const int skip = next < h->n_row ? h->x_row[next] - b.row : b.n_tok;
        if (skip >= b.n_tok) continue;
        b.row += skip;
        b.n_tok -= skip;
        b.pos += skip;
        block[n++] = b;
    }
    attn->n_block = n;
    fxi_compute_attn_plan(&h->compute, attn, block);
}

fx_status fxi_host_keep_rows(fxi_device *d, fx_error *err)
{
    (void)err;
    fxi_host *h = fxi_host_of(d);
    const bool w = h->m->layer[h->m->model.shape.n_layer - 1].is_windowed;
    int n_logit;
    h->n_row = fxi_batch_wanted(h->batch, h->s.wanted, &n_logit);
    h->x_row = h->s.wanted;
    keep_attn_rows(h, &h->attn[w], h->s.block[w]);
    return FX_OK;
}

// ---- the residual stream: embeddings, what branches add to it, and its norms -------------------

static bool reads_q8(const fxi_host *h, const fxi_next_norm *next)
{
    return (next->read_by & h->q8_types) != 0;
}

static void norm_row(const fxi_host *h, float *x, int row)
{
    const fxi_rownorm *norm = h->next->norm;
    const int dim = h->m->model.shape.dim;
    float *y = h->s.h + (size_t)row * (size_t)dim;
    if (norm->w) fxi_host_norm_runs(h, norm, x, 1, norm->replaces ? x : y);
    if (!norm->w || norm->replaces) memcpy(y, x, (size_t)dim * sizeof *y);
    if (h->has_q8) fxi_host_quant_row(h, y, dim, row);
}

static void scale_numbers(const fxi_host *h, float *x, int n, float by)
{
    if (by != 1) h->compute.k->scale(x, by, n);
}

static void narrow_row(void *arg, int row)
{
    const fxi_host *h = arg;
    const fxi_linear *w = &h->m->embd_in;
    float *x = h->s.narrow + (size_t)row * (size_t)w->n_in;
    fxi_linear_row(&h->m->embd, h->batch->token[row], x);
    if (fxi_linear_reads_q8(w)) fxi_host_quant_row(h, x, w->n_in, row);
}

static void embed_row(void *arg, int row)
{
    const fxi_host *h = arg;
    const fxi_transformer *m = h->m;
    const size_t dim = (size_t)m->model.shape.dim;
    float *x = h->s.x + (size_t)row * dim;
    if (!m->embd_in.data) fxi_linear_row(&h->m->embd, h->batch->token[row], x);
    scale_numbers(h, x, (int)dim, m->rules.embd_scale);
    if (m->n_token_type) {
        const int type = fxi_batch_type(h->s.tok_seq[row], h->s.tok_pos[row], m->n_token_type);
        h->compute.k->add(x, m->token_type + (size_t)type * dim, (int)dim);
    }
    if (m->positions.data) {
        float *wide = h->s.h + (size_t)row * dim; // free until the norm
        fxi_linear_row(&m->positions, h->s.tok_pos[row], wide);
        h->compute.k->add(x, wide, (int)dim);
    }
    norm_row(h, x, row);
}

fx_status fxi_host_embed(fxi_device *d, const fxi_next_norm *next, fx_error *err)
{
    (void)err;
    fxi_host *h = fxi_host_of(d);
    const fxi_linear *in = &h->m->embd_in;
    h->next = next;
    h->has_q8 = reads_q8(h, next);
    if (in->data) {
        const fxi_act a = fxi_host_act(h, h->s.narrow);
        fxi_host_each_row(h, narrow_row);
        multiply_rows(h, &a, in, h->s.x);
    }
    fxi_host_each_row(h, embed_row);
    return FX_OK;
}

// Completes a branch's row of h, which is then held, or added to the residual stream.
static void branch_row(void *arg, int row)
{
    const fxi_host *h = arg;
    const fxi_branch_end *e = h->end;
    const fxi_kernels *k = h->compute.k;
    const int dim = h->m->model.shape.dim;
    const size_t at = (size_t)row * (size_t)dim;
    float *x = h->s.x + fxi_host_place(h, row) * (size_t)dim, *y = h->s.h + at;
    if (e->bias) k->add(y, e->bias, dim);
    if (e->norm && e->norm->w) fxi_host_norm_runs(h, e->norm, y, 1, y);
    scale_numbers(h, y, dim, h->m->rules.residual_scale);
    if (e->holds) {
        memcpy(h->s.held + at, y, (size_t)dim * sizeof *y);
    } else {
        if (h->holds) k->add(x, h->s.held + at, dim);
        k->add(x, y, dim);
    }
    norm_row(h, x, row);
}

fx_status fxi_host_add_norm(fxi_device *d, const fxi_branch_end *end, fx_error *err)
{
    (void)err;
    fxi_host *h = fxi_host_of(d);
    h->end = end;
    h->next = &end->next;
    h->has_q8 = reads_q8(h, &end->next);
    fxi_host_each_row(h, branch_row);
    h->holds = end->holds;
    return FX_OK;
}

fx_status fxi_host_return_rows(fxi_device *d, int n_row, fx_error *err)
{
    (void)err;
    const fxi_host *h = fxi_host_of(d);
    const size_t dim = (size_t)h->m->model.shape.dim;
    memcpy(h->batch->rows, h->s.h + (size_t)(h->n_row - n_row) * dim,
           (size_t)n_row * dim * sizeof(float));
    return FX_OK;
}

// ---- around attention --------------------------------------------------------------------------

static void rotate_row(const fxi_host *h, float *x, int n, int pos)
{
    const fxi_rope *r = h->layer->rope;
    const int head_dim = h->m->model.shape.head_dim;
    if (!r) return;
    const size_t at = (size_t)pos * (size_t)r->n_pair;
    h->compute.k->rope(x, n / head_dim, head_dim, r->n_pair, r->cos + at, r->sin + at);
}

// A row's heads, as they come from a linear layer, made ready: bias, norm, rotation.
static void finish_heads(const fxi_host *h, const fxi_affine *w, const fxi_rownorm *norm, float *x,
                         int pos)
{
    const fxi_kernels *k = h->compute.k;
    const int n = w->w.n_out;
    const bool rotates_first = h->m->rules.rotates_first;
    if (w->b) k->add(x, w->b, n);
    if (rotates_first) rotate_row(h, x, n, pos);
    if (norm->w) fxi_host_norm_runs(h, norm, x, n / norm->n, x);
    if (!rotates_first) rotate_row(h, x, n, pos);
}

// Completes a row's queries, keys and values, and stores its keys and values in the cache.
static void cache_row(void *arg, int row)
{
    const fxi_host *h = arg;
    const fxi_layer *l = h->layer;
    const fxi_kernels *k = h->compute.k;
    const fxi_dtype type = h->m->model.kv_type;
    const int pos = h->s.tok_pos[row], n_q = l->q.w.n_out, n_kv = l->k.w.n_out;
    const fxi_kv_view *view = &h->s.tok_seq[row]->views.group[l->kv_group];
    const float gain = fxi_query_gain(&h->m->rules, pos);
    float *query = h->s.q + (size_t)row * (size_t)n_q;
    float *key = h->s.k + (size_t)row * (size_t)n_kv, *value = h->s.v + (size_t)row * (size_t)n_kv;

    finish_heads(h, &l->q, &l->q_norm, query, pos);
    if (gain != 1) k->scale(query, gain, n_q);
    finish_heads(h, &l->k, &l->k_norm, key, pos);
    if (l->v.b) k->add(value, l->v.b, n_kv);
    k->store_kv[type](key, n_kv, fxi_kv_row(view, 2 * l->kv_layer, pos));
    k->store_kv[type](value, n_kv, fxi_kv_row(view, 2 * l->kv_layer + 1, pos));
}

fx_status fxi_host_rope_store(fxi_device *d, const fxi_layer *l, fx_error *err)
{
    (void)err;
    fxi_host *h = fxi_host_of(d);
    h->layer = l;
    fxi_host_each_row(h, cache_row);
    return FX_OK;
}

static bool gates_att(const fxi_layer *l)
{
    return l->mixer == FXI_MIX_ATTENTION && l->gate.w.data;
}

// A row as Wo reads it: gated, and rounded to Q8, or copied into q's buffer, which is free by now.
static void attn_out_row(void *arg, int row)
{
    const fxi_host *h = arg;
    const fxi_host_buffers *s = &h->s;
    const fxi_linear *o = &h->layer->o.w;
    const size_t n = (size_t)o->n_in;
    const size_t at = h->layer->latent ? (size_t)row * n : fxi_host_place(h, row) * n;
    float *att = (h->layer->latent ? s->heads : s->att) + at;
    if (gates_att(h->layer)) h->compute.k->gate[FXI_ACT_SIGMOID](s->gate + at, att, (int)n, att);
    if (fxi_linear_reads_q8(o))
        fxi_host_quant_row(h, att, (int)n, row);
    else if (h->att_in == s->q)
        memcpy(s->q + (size_t)row * n, att, n * sizeof *att);
}

void fxi_host_finish_att(fxi_host *h, const fxi_layer *l)
{
    const bool moves = h->x_row && !l->latent;
    h->layer = l;
    h->att_in = l->latent ? h->s.heads : moves ? h->s.q : h->s.att;
    if (moves || gates_att(l) || fxi_linear_reads_q8(&l->o.w)) fxi_host_each_row(h, attn_out_row);
}

fx_status fxi_host_attention(fxi_device *d, const fxi_layer *l, fx_error *err)
{
    (void)err;
    fxi_host *h = fxi_host_of(d);
    fxi_attn_pass *a = &h->attn[l->is_windowed];
    h->layer = l;
    a->kv_plane = l->latent ? l->kv_layer : 2 * l->kv_layer;
    a->call.sink = l->sink;
    fxi_compute_attention(&h->compute, a);
    if (l->latent) fxi_host_expand_heads(h);
    fxi_host_finish_att(h, l);
    return FX_OK;
}

// ---- linear layers -----------------------------------------------------------------------------

fx_status fxi_host_linear(fxi_device *d, fxi_operand a, const fxi_device_linear *job, int n_job,
                          fx_error *err)
{
    (void)err;
    const fxi_host *h = fxi_host_of(d);
    const fxi_host_buffers *s = &h->s;
    float *const y[FXI_OPERAND_END] = {
        [FXI_OPERAND_H] = s->h,     [FXI_OPERAND_Q] = s->heads ? s->heads : s->q,
        [FXI_OPERAND_Q_A] = s->q_a, [FXI_OPERAND_K] = s->k,
        [FXI_OPERAND_V] = s->v,     [FXI_OPERAND_GATE] = s->gate};
    const fxi_act act = a == FXI_OPERAND_MID
                            ? mid_act(h)
                            : fxi_host_act(h, a == FXI_OPERAND_ATT ? h->att_in : s->h);
    fxi_linear_job all[FXI_DEVICE_MAX_LINEAR];
    for (int i = 0; i < n_job; i++)
        all[i] = (fxi_linear_job){job[i].w, y[job[i].y], 0, h->n_row, 0};
    fxi_compute_linear(&h->compute, &act, all, n_job);
    return FX_OK;
}

fx_status fxi_host_ffn(fxi_device *d, const fxi_ffn *f, fx_error *err)
{
    (void)err;
    fxi_host *h = fxi_host_of(d);
    const fxi_act a = fxi_host_act(h, h->s.h);
    feed_rows(h, f, &a);
    return FX_OK;
}

// ---- logits ------------------------------------------------------------------------------------

static void finish_logits(void *arg, int row)
{
    const fxi_host *h = arg;
    const fxi_transformer *m = h->m;
    const fxi_kernels *k = h->compute.k;
    const int n = m->output.w.n_out;
    float *y = h->logits + (size_t)row * (size_t)n;
    if (m->output.b) k->add(y, m->output.b, n);
    if (m->rules.logit_scale != 1) k->scale(y, m->rules.logit_scale, n);
    if (m->rules.logit_cap != 0) k->softcap(y, m->rules.logit_cap, n);
}

static void quant_narrow(void *arg, int row)
{
    const fxi_host *h = arg;
    const int n = h->m->embd_out.n_out;
    fxi_host_quant_row(h, h->s.narrow + (size_t)row * (size_t)n, n, row);
}

// The output reads h, made as wide as embeddings. Of a part of the vocabulary the logits are copied
// to their places among the others.
fx_status fxi_host_logits(fxi_device *d, int n_row, fx_error *err)
{
    (void)err;
    fxi_host *h = fxi_host_of(d);
    const fxi_transformer *m = h->m;
    const size_t n = (size_t)m->output.w.n_out, n_vocab = (size_t)m->model.shape.n_vocab;
    float *dst = h->logits;
    const bool is_part = n < n_vocab;
    fxi_act a = fxi_host_act(h, h->s.h);
    if (!dst || is_part) h->logits = h->s.logits;
    h->n_row = n_row;
    if (m->embd_out.data) {
        multiply_rows(h, &a, &m->embd_out, h->s.narrow);
        if (fxi_linear_reads_q8(&m->output.w)) fxi_host_each_row(h, quant_narrow);
        a.x = h->s.narrow;
    }
    multiply_rows(h, &a, &m->output.w, h->logits);
    if (m->output.b || m->rules.logit_scale != 1 || m->rules.logit_cap != 0)
        fxi_host_each_row(h, finish_logits);
    for (size_t row = 0; dst && is_part && row < (size_t)n_row; row++)
        memcpy(dst + row * n_vocab, h->logits + row * n, n * sizeof *dst);
    return FX_OK;
}

static void best_of_row(void *arg, int row)
{
    const fxi_host *h = arg;
    const int n = h->m->output.w.n_out;
    const float *y = h->logits + (size_t)row * (size_t)n;
    int best = 0;
    bool is_finite = true;
    for (int i = 0; i < n; i++) {
        is_finite &= isfinite(y[i]) != 0;
        if (y[i] > y[best]) best = i;
    }
    h->batch->best[row] = is_finite ? best : -1;
    if (h->batch->best_logit) h->batch->best_logit[row] = y[best];
}

fx_status fxi_host_best(fxi_device *d, int n_row, fx_error *err)
{
    (void)err;
    fxi_host *h = fxi_host_of(d);
    fxi_compute_rows(&h->compute, n_row, best_of_row, h);
    return FX_OK;
}
