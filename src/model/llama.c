// llama.c - the forward pass of the Llama family over a mixed batch. The formulas are in llama.h.
//
// Rows of all sequences go through the linear layers together; only attention distinguishes the
// sequences. Operations on one row at a time (norms, rotation, rounding to Q8) are row functions;
// whatever reads a row next runs right after it, while the row is in the cache.
#include "model/llama.h"

#include <math.h>
#include <string.h>

// ---- helpers -----------------------------------------------------------------------------------

// The activations whose f32 rows begin at x; the Q8 buffers hold their rounded form.
static fxi_act layer_input(const llama_scratch *s, const float *x)
{
    return (fxi_act){.x = x, .q = s->act_q, .d = s->act_d, .sum = s->act_sum};
}

// Rounds n_elem numbers as row `row` of what the next layers read.
static void quant_act_row(const llama *m, const float *x, int n_elem, int row)
{
    size_t at = (size_t)row * (size_t)n_elem;
    m->model.k->quant_q8(x, n_elem, m->s.act_q + at, m->s.act_d + at / FXI_Q8_0_ELEMS,
                         m->s.act_sum + at / 16);
}

// ---- before the layers -------------------------------------------------------------------------

// Records the sequence and position of each row, and divides the sequences' tokens into blocks of
// attention. Returns the number of blocks.
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

// The parameters of attention that all layers share.
static fxi_attn_pass make_attn_pass(llama *m, const fxi_batch *batch)
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

// The state of one pass, as the row functions read it.
typedef struct llama_pass {
    llama *m;
    const fxi_batch *batch;
    const llama_layer *layer;
    int i_layer;
    fxi_attn_pass attn;
    int n_row;         // rows to compute: all; after the last K and V those that want logits
    const int *x_row;  // [n_row] their indices in x; NULL: the same
    const float *norm; // weights of the current norm
    bool q8;           // the layers after this norm read Q8
} llama_pass;

static size_t x_row(const llama_pass *p, int row)
{
    return (size_t)(p->x_row ? p->x_row[row] : row);
}

static void for_rows(llama_pass *p, fxi_row_fn *fn)
{
    fxi_compute_rows(&p->m->compute, p->n_row, fn, p);
}

// ---- norms -------------------------------------------------------------------------------------

static void norm_row(const llama_pass *p, const float *x, int row)
{
    const llama *m = p->m;
    const int dim = m->model.shape.dim;
    float *h = m->s.h + (size_t)row * (size_t)dim;
    m->model.k->rms_norm(x, p->norm, dim, m->rms_eps, h);
    if (p->q8) quant_act_row(m, h, dim, row);
}

static void embed_row(void *arg, int row)
{
    const llama_pass *p = arg;
    const llama *m = p->m;
    const fxi_rows *e = &m->embd;
    const size_t dim = (size_t)m->model.shape.dim, token = (size_t)p->batch->token[row];
    float *x = m->s.x + (size_t)row * dim;
    if (e->data)
        fxi_row_to_f32(e->type, e->data + token * e->row_bytes, dim, x);
    else
        fxi_linear_row(&m->output, (int)token, x);
    norm_row(p, x, row);
}

// Adds the output of the last block to the residual stream.
static void residual_row(void *arg, int row)
{
    const llama_pass *p = arg;
    const llama *m = p->m;
    const size_t dim = (size_t)m->model.shape.dim;
    float *x = m->s.x + x_row(p, row) * dim;
    m->model.k->add(x, m->s.h + (size_t)row * dim, (int)dim);
    norm_row(p, x, row);
}

// fn: embed_row or residual_row. Both leave h = norm(x) in the form that the next layers read.
static void norm_rows(llama_pass *p, fxi_row_fn *fn, const float *norm, bool q8)
{
    p->norm = norm;
    p->q8 = q8;
    for_rows(p, fn);
}

// ---- attention ---------------------------------------------------------------------------------

// Rotates a row's queries and keys and stores its keys and values in the cache.
static void cache_row(void *arg, int row)
{
    const llama_pass *p = arg;
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

// Computes queries, keys and values of all rows, and stores keys and values in the cache.
static void project_qkv(llama_pass *p)
{
    llama *m = p->m;
    const llama_layer *l = p->layer;
    const bool q8 =
        fxi_linear_reads_q8(&l->q) || fxi_linear_reads_q8(&l->k) || fxi_linear_reads_q8(&l->v);
    norm_rows(p, p->i_layer ? residual_row : embed_row, l->attn_norm, q8);
    fxi_act h = layer_input(&m->s, m->s.h);
    fxi_compute_linear(&m->compute, &h, p->n_row,
                       (fxi_linear_job[]){{&l->q, m->s.q}, {&l->k, m->s.k}, {&l->v, m->s.v}}, 3);
    for_rows(p, cache_row);
}

// A row as Wo reads it: rounded to Q8, or copied into q's buffer, which is free by now.
static void attn_out_row(void *arg, int row)
{
    const llama_pass *p = arg;
    const llama *m = p->m;
    const size_t n = (size_t)p->layer->o.n_in;
    const float *att = m->s.att + x_row(p, row) * n;
    if (fxi_linear_reads_q8(&p->layer->o))
        quant_act_row(m, att, (int)n, row);
    else
        memcpy(m->s.q + (size_t)row * n, att, n * sizeof *att);
}

static void attend_all(llama_pass *p)
{
    llama *m = p->m;
    const fxi_linear *o = &p->layer->o;
    p->attn.layer = p->i_layer;
    fxi_compute_attention(&m->compute, &p->attn);
    if (p->x_row || fxi_linear_reads_q8(o)) for_rows(p, attn_out_row);
    fxi_act att = layer_input(&m->s, p->x_row ? m->s.q : m->s.att);
    fxi_compute_linear(&m->compute, &att, p->n_row, &(fxi_linear_job){o, m->s.h}, 1);
}

// ---- feed-forward ------------------------------------------------------------------------------

static void feed_forward(llama_pass *p)
{
    llama *m = p->m;
    const llama_layer *l = p->layer;
    norm_rows(p, residual_row, l->ffn_norm,
              fxi_linear_reads_q8(&l->gate) || fxi_linear_reads_q8(&l->up));
    fxi_act h = layer_input(&m->s, m->s.h);
    fxi_act mid = {.x = m->s.mid, .q = m->s.mid_q, .d = m->s.mid_d, .sum = m->s.mid_sum};
    fxi_compute_ffn(&m->compute, &(fxi_ffn_pass){
                                     .a = &h,
                                     .n_tok = p->n_row,
                                     .gate = &l->gate,
                                     .up = &l->up,
                                     .y = fxi_linear_reads_q8(&l->down) ? NULL : m->s.mid,
                                     .q8 = &mid,
                                     .scratch = m->s.ffn,
                                 });
    fxi_compute_linear(&m->compute, &mid, p->n_row, &(fxi_linear_job){&l->down, m->s.h}, 1);
}

// ---- the whole ---------------------------------------------------------------------------------

// Limits attention to the remaining rows: each block begins at the first of them.
static void keep_attn_rows(llama_pass *p)
{
    fxi_attn_block *block = p->m->s.block;
    int n = 0, next = 0;
    for (int i = 0; i < p->attn.n_block; i++) {
        fxi_attn_block b = block[i];
        while (next < p->n_row && p->x_row[next] < b.row) next++;
        const int skip = next < p->n_row ? p->x_row[next] - b.row : b.n_tok;
        if (skip >= b.n_tok) continue;
        block[n++] =
            (fxi_attn_block){b.view, b.row + skip, b.n_tok - skip, b.pos + skip, .n_head = 0};
    }
    p->attn.n_block = n;
    fxi_compute_attn_plan(&p->m->compute, &p->attn, block);
}

// From here on, computes only the rows that want logits.
static void keep_logit_rows(llama_pass *p)
{
    int *list = p->m->s.logit_row, n = 0, row = 0;
    for (int i = 0; i < p->batch->n_seq; i++) {
        row += p->batch->seq[i].n_tok;
        for (int k = p->batch->seq[i].n_logit; k > 0; k--) list[n++] = row - k;
    }
    p->n_row = n;
    p->x_row = list;
    keep_attn_rows(p);
}

static void compute_logits(llama_pass *p, float *logits)
{
    llama *m = p->m;
    norm_rows(p, residual_row, m->out_norm, fxi_linear_reads_q8(&m->output));
    fxi_act h = layer_input(&m->s, m->s.h);
    fxi_compute_linear(&m->compute, &h, p->n_row, &(fxi_linear_job){&m->output, logits}, 1);
}

void fxi_llama_forward(fxi_model *model, const fxi_batch *batch, float *logits)
{
    llama *m = (llama *)model;
    const int n_layer = m->model.shape.n_layer;
    llama_pass p = {
        .m = m, .batch = batch, .n_row = batch->n_tok, .attn = make_attn_pass(m, batch)};
    for (p.i_layer = 0; p.i_layer < n_layer; p.i_layer++) {
        p.layer = &m->layer[p.i_layer];
        project_qkv(&p);
        if (p.i_layer == n_layer - 1) keep_logit_rows(&p);
        if (!p.n_row) return;
        attend_all(&p);
        feed_forward(&p);
    }
    compute_logits(&p, logits);
}
