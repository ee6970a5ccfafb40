// llama.c - the forward pass of the Llama family over a mixed batch. See llama.h for the formulas.
//
// Rows of all sequences go through the linear layers together; attention alone knows whose row it
// is. Steps that work on one row at a time (norms, rotation, rounding to Q8) are row functions;
// what reads a row next is computed right after it, while it is in the cache.
#include "model/llama.h"

#include <math.h>
#include <string.h>

// ---- helpers -----------------------------------------------------------------------------------

// Activations of width n_in whose f32 rows begin at x; the Q8 buffers hold their rounded form.
static fxi_act act_of(const llama_scratch *s, const float *x)
{
    return (fxi_act){.x = x, .q = s->act_q, .d = s->act_d, .sum = s->act_sum};
}

// Rounds row `row` of x, n numbers wide, for layers that read Q8 activations.
static void quant_row(const llama *m, const float *x, int n_elem, int row)
{
    size_t n = (size_t)n_elem, r = (size_t)row, n_block = n / FXI_Q8_0_ELEMS;
    m->model.k->quant_q8(x + r * n, n_elem, m->s.act_q + r * n, m->s.act_d + r * n_block,
                         m->s.act_sum + 2 * r * n_block);
}

static void rows(const llama *m, int n_row, fxi_row_fn *fn, void *arg)
{
    fxi_compute_rows(&m->compute, n_row, fn, arg);
}

// ---- before the layers -------------------------------------------------------------------------

// Notes whose token each row is, and cuts the sequences' runs into blocks that attend together.
static int index_batch(llama *m, const fxi_batch *batch)
{
    const int most =
        fxi_compute_attn_block_tok(&m->compute, batch->n_tok, m->model.shape.n_kv_head);
    int row = 0, n_block = 0;
    for (int i = 0; i < batch->n_seq; i++) {
        const fxi_batch_seq *seq = &batch->seq[i];
        for (int t = 0; t < seq->n_tok; t++) {
            m->s.tok_seq[row + t] = seq;
            m->s.tok_pos[row + t] = seq->pos + t;
        }
        for (int t = 0; t < seq->n_tok; t += most) {
            int left = seq->n_tok - t;
            m->s.block[n_block++] = (fxi_attn_block){
                .view = seq->view,
                .row = row + t,
                .n_tok = left < most ? left : most,
                .pos = seq->pos + t,
            };
        }
        row += seq->n_tok;
    }
    return n_block;
}

// What the row functions of one pass read.
typedef struct pass {
    llama *m;
    const fxi_batch *batch;
    const llama_layer *layer;
    int i_layer;
    fxi_attn_pass attn;
} pass;

static void embed_row(void *arg, int row)
{
    const pass *p = arg;
    const fxi_rows *e = &p->m->embd;
    fxi_row_to_f32(e->type, e->data + (size_t)p->batch->token[row] * e->row_bytes,
                   (size_t)e->n_elem, p->m->s.x + (size_t)row * (size_t)e->n_elem);
}

// ---- attention ---------------------------------------------------------------------------------

static void norm_row(const llama *m, const float *weight, int row, bool q8)
{
    const int dim = m->model.shape.dim;
    const size_t at = (size_t)row * (size_t)dim;
    m->model.k->rms_norm(m->s.x + at, weight, dim, m->rms_eps, m->s.h + at);
    if (q8) quant_row(m, m->s.h, dim, row);
}

static void attn_norm_row(void *arg, int row)
{
    const pass *p = arg;
    const llama_layer *l = p->layer;
    norm_row(p->m, l->attn_norm, row,
             fxi_linear_reads_q8(&l->q) || fxi_linear_reads_q8(&l->k) ||
                 fxi_linear_reads_q8(&l->v));
}

// Turns a row's queries and keys and puts its keys and values into the cache.
static void cache_row(void *arg, int row)
{
    const pass *p = arg;
    const llama *m = p->m;
    const fxi_model_shape *s = &m->model.shape;
    const fxi_kernels *k = m->model.k;
    const int pos = m->s.tok_pos[row], n_kv = s->n_kv_head * s->head_dim;
    const float *cos = m->rope.cos + (size_t)pos * (size_t)m->rope.n_pair;
    const float *sin = m->rope.sin + (size_t)pos * (size_t)m->rope.n_pair;
    const fxi_kv_view *view = &m->s.tok_seq[row]->view;
    float *key = m->s.k + (size_t)row * (size_t)n_kv, *value = m->s.v + (size_t)row * (size_t)n_kv;

    k->rope(m->s.q + (size_t)row * (size_t)(s->n_head * s->head_dim), s->n_head, s->head_dim,
            m->rope.n_pair, cos, sin);
    k->rope(key, s->n_kv_head, s->head_dim, m->rope.n_pair, cos, sin);
    k->store_kv[m->model.kv_type](key, n_kv, fxi_kv_row(view, 2 * p->i_layer, pos));
    k->store_kv[m->model.kv_type](value, n_kv, fxi_kv_row(view, 2 * p->i_layer + 1, pos));
}

static void attn_out_row(void *arg, int row)
{
    const pass *p = arg;
    const fxi_linear *o = &p->layer->o;
    if (fxi_linear_reads_q8(o)) quant_row(p->m, p->m->s.att, o->n_in, row);
}

// What attention of every layer has in common.
static fxi_attn_pass attn_begin(llama *m, const fxi_batch *batch)
{
    const fxi_model_shape *s = &m->model.shape;
    fxi_attn_pass a = {
        .n_block = index_batch(m, batch),
        .n_head = s->n_head,
        .n_kv_head = s->n_kv_head,
        .head_dim = s->head_dim,
        .ctx_tok = m->ctx_tok,
        .kv_type = m->model.kv_type,
        .scale = 1 / sqrtf((float)s->head_dim),
        .q = m->s.q,
        .out = m->s.att,
        .scratch = m->s.attn,
    };
    fxi_compute_attn_plan(&m->compute, &a, m->s.block);
    return a;
}

static void attention_block(pass *p)
{
    llama *m = p->m;
    const llama_layer *l = p->layer;
    const int n = p->batch->n_tok;
    rows(m, n, attn_norm_row, p);
    fxi_act h = act_of(&m->s, m->s.h);
    fxi_compute_linear(&m->compute, &h, n,
                       (fxi_linear_job[]){{&l->q, m->s.q}, {&l->k, m->s.k}, {&l->v, m->s.v}}, 3);
    rows(m, n, cache_row, p);
    p->attn.layer = p->i_layer;
    fxi_compute_attention(&m->compute, &p->attn);
    rows(m, n, attn_out_row, p);
    fxi_act att = act_of(&m->s, m->s.att);
    fxi_compute_linear(&m->compute, &att, n, &(fxi_linear_job){&l->o, m->s.h}, 1);
}

// ---- feed-forward ------------------------------------------------------------------------------

static void add_row(const llama *m, int row)
{
    const size_t at = (size_t)row * (size_t)m->model.shape.dim;
    m->model.k->add(m->s.x + at, m->s.h + at, m->model.shape.dim);
}

static void ffn_norm_row(void *arg, int row)
{
    const pass *p = arg;
    add_row(p->m, row);
    const llama_layer *l = p->layer;
    norm_row(p->m, l->ffn_norm, row, fxi_linear_reads_q8(&l->gate) || fxi_linear_reads_q8(&l->up));
}

static void ffn_add_row(void *arg, int row)
{
    add_row(((const pass *)arg)->m, row);
}

static void ffn_block(pass *p)
{
    llama *m = p->m;
    const llama_layer *l = p->layer;
    const int n = p->batch->n_tok;
    rows(m, n, ffn_norm_row, p);
    fxi_act h = act_of(&m->s, m->s.h);
    fxi_act mid = {.x = m->s.mid, .q = m->s.mid_q, .d = m->s.mid_d, .sum = m->s.mid_sum};
    fxi_compute_ffn(&m->compute, &(fxi_ffn_pass){
                                     .a = &h,
                                     .n_tok = n,
                                     .gate = &l->gate,
                                     .up = &l->up,
                                     .y = fxi_linear_reads_q8(&l->down) ? NULL : m->s.mid,
                                     .q8 = &mid,
                                     .scratch = m->s.ffn,
                                 });
    fxi_compute_linear(&m->compute, &mid, n, &(fxi_linear_job){&l->down, m->s.h}, 1);
    rows(m, n, ffn_add_row, p);
}

// ---- logits ------------------------------------------------------------------------------------

static int find_logit_rows(llama *m, const fxi_batch *batch)
{
    int n = 0, row = 0;
    for (int i = 0; i < batch->n_seq; i++) {
        row += batch->seq[i].n_tok;
        for (int k = batch->seq[i].n_logit; k > 0; k--) m->s.logit_row[n++] = row - k;
    }
    return n;
}

// Normalises the i-th row that wants logits into row i of h.
static void logit_norm_row(void *arg, int i)
{
    const llama *m = ((const pass *)arg)->m;
    const size_t dim = (size_t)m->model.shape.dim;
    m->model.k->rms_norm(m->s.x + (size_t)m->s.logit_row[i] * dim, m->out_norm, (int)dim,
                         m->rms_eps, m->s.h + (size_t)i * dim);
    if (fxi_linear_reads_q8(&m->output)) quant_row(m, m->s.h, (int)dim, i);
}

void fxi_llama_forward(fxi_model *model, const fxi_batch *batch, float *logits)
{
    llama *m = (llama *)model;
    pass p = {.m = m, .batch = batch, .attn = attn_begin(m, batch)};
    rows(m, batch->n_tok, embed_row, &p);
    for (int i = 0; i < m->model.shape.n_layer; i++) {
        p.i_layer = i;
        p.layer = &m->layer[i];
        attention_block(&p);
        ffn_block(&p);
    }
    int n_logit = find_logit_rows(m, batch);
    if (!n_logit) return;
    rows(m, n_logit, logit_norm_row, &p);
    fxi_act h = act_of(&m->s, m->s.h);
    fxi_compute_linear(&m->compute, &h, n_logit, &(fxi_linear_job){&m->output, logits}, 1);
}

const fxi_arch fxi_arch_llama = {
    .name = "llama",
    .load = fxi_llama_load,
    .free = fxi_llama_free,
    .forward = fxi_llama_forward,
};
