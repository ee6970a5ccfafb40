// attend.c - the attention branch: queries, keys and values; the cache; attention; Wo.
#include <math.h>
#include <string.h>

#include "model/blocks/pass.h"

// A row's heads, as they come from a linear layer, made ready: bias, norm, rotation.
static void finish_heads(const fxi_pass *p, const fxi_affine *w, const fxi_rownorm *norm, float *x,
                         int pos)
{
    const fxi_transformer *m = p->m;
    const fxi_kernels *k = m->model.k;
    const fxi_rope *r = p->layer->rope;
    const int n = w->w.n_out, head_dim = m->model.shape.head_dim;
    if (w->b) k->add(x, w->b, n);
    if (norm->w) fxi_pass_norm(p, norm, x, n / norm->n, x);
    if (!r) return;
    const size_t at = (size_t)pos * (size_t)r->n_pair;
    k->rope(x, n / head_dim, head_dim, r->n_pair, r->cos + at, r->sin + at);
}

// Models that attend over long distances sharpen their queries with the position.
static void sharpen_query(const fxi_pass *p, float *q, int n, int pos)
{
    const fxi_rules *r = &p->m->rules;
    if (r->log_scale == 0 || pos < r->log_tok) return;
    p->m->model.k->scale(q, (float)(1 + (double)r->log_scale * log(1 + pos / r->log_tok)), n);
}

// Completes a row's queries, keys and values, and stores its keys and values in the cache.
static void cache_row(void *arg, int row)
{
    const fxi_pass *p = arg;
    const fxi_transformer *m = p->m;
    const fxi_layer *l = p->layer;
    const fxi_kernels *k = m->model.k;
    const int pos = m->s.tok_pos[row], n_q = l->q.w.n_out, n_kv = l->k.w.n_out;
    const fxi_kv_view *view = &m->s.tok_seq[row]->views.group[l->kv_group];
    float *query = m->s.q + (size_t)row * (size_t)n_q;
    float *key = m->s.k + (size_t)row * (size_t)n_kv, *value = m->s.v + (size_t)row * (size_t)n_kv;

    finish_heads(p, &l->q, &l->q_norm, query, pos);
    sharpen_query(p, query, n_q, pos);
    finish_heads(p, &l->k, &l->k_norm, key, pos);
    if (l->v.b) k->add(value, l->v.b, n_kv);
    k->store_kv[m->model.kv_type](key, n_kv, fxi_kv_row(view, 2 * l->kv_layer, pos));
    k->store_kv[m->model.kv_type](value, n_kv, fxi_kv_row(view, 2 * l->kv_layer + 1, pos));
}

void fxi_attend_project(fxi_pass *p)
{
    fxi_transformer *m = p->m;
    const fxi_layer *l = p->layer;
    const int n = p->n_row;
    const bool q8 = fxi_linear_reads_q8(&l->q.w) || fxi_linear_reads_q8(&l->k.w) ||
                    fxi_linear_reads_q8(&l->v.w);
    fxi_stream_next(p, &l->attn_in, q8);
    fxi_act h = fxi_pass_act(p, m->s.h);
    const fxi_linear_job job[] = {
        {&l->q.w, m->s.q, 0, n}, {&l->k.w, m->s.k, 0, n}, {&l->v.w, m->s.v, 0, n}};
    fxi_compute_linear(&m->compute, &h, job, 3);
    fxi_pass_rows(p, cache_row);
}

// A row as Wo reads it: rounded to Q8, or copied into q's buffer, which is free by now.
static void attn_out_row(void *arg, int row)
{
    const fxi_pass *p = arg;
    const fxi_scratch *s = &p->m->s;
    const fxi_linear *o = &p->layer->o.w;
    const size_t n = (size_t)o->n_in;
    const float *att = s->att + fxi_pass_x_row(p, row) * n;
    if (fxi_linear_reads_q8(o))
        fxi_pass_quant(p, att, (int)n, row);
    else
        memcpy(s->q + (size_t)row * n, att, n * sizeof *att);
}

void fxi_attend_run(fxi_pass *p)
{
    fxi_transformer *m = p->m;
    const fxi_layer *l = p->layer;
    const fxi_linear *o = &l->o.w;
    fxi_attn_pass *a = &p->attn[l->is_windowed];
    a->layer = l->kv_layer;
    a->sink = l->sink;
    fxi_compute_attention(&m->compute, a);
    if (p->x_row || fxi_linear_reads_q8(o)) fxi_pass_rows(p, attn_out_row);
    fxi_act att = fxi_pass_act(p, p->x_row ? m->s.q : m->s.att);
    fxi_compute_linear(&m->compute, &att, &(fxi_linear_job){o, m->s.h, 0, p->n_row}, 1);
    p->branch = (fxi_branch){l->o.b, &l->attn_out};
}
