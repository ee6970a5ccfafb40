// host_attend.c - around attention: queries, keys and values made ready; the cache; attention.
#include <string.h>

#include "model/host/host.h"

// A row's heads, as they come from a linear layer, made ready: bias, norm, rotation.
static void finish_heads(const fxi_host *h, const fxi_affine *w, const fxi_rownorm *norm, float *x,
                         int pos)
{
    const fxi_kernels *k = h->compute.k;
    const fxi_rope *r = h->layer->rope;
    const int n = w->w.n_out, head_dim = h->m->model.shape.head_dim;
    if (w->b) k->add(x, w->b, n);
    if (norm->w) fxi_host_norm(h, norm, x, n / norm->n, x);
    if (!r) return;
    const size_t at = (size_t)pos * (size_t)r->n_pair;
    k->rope(x, n / head_dim, head_dim, r->n_pair, r->cos + at, r->sin + at);
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
    fxi_host_rows(h, cache_row);
    return FX_OK;
}

// A row as Wo reads it: rounded to Q8, or copied into q's buffer, which is free by now.
static void attn_out_row(void *arg, int row)
{
    const fxi_host *h = arg;
    const fxi_host_buffers *s = &h->s;
    const fxi_linear *o = &h->layer->o.w;
    const size_t n = (size_t)o->n_in;
    const float *att = s->att + fxi_host_x_row(h, row) * n;
    if (fxi_linear_reads_q8(o))
        fxi_host_quant(h, att, (int)n, row);
    else
        memcpy(s->q + (size_t)row * n, att, n * sizeof *att);
}

fx_status fxi_host_attention(fxi_device *d, const fxi_layer *l, fx_error *err)
{
    (void)err;
    fxi_host *h = fxi_host_of(d);
    fxi_attn_pass *a = &h->attn[l->is_windowed];
    h->layer = l;
    a->layer = l->kv_layer;
    a->sink = l->sink;
    fxi_compute_attention(&h->compute, a);
    if (h->x_row || fxi_linear_reads_q8(&l->o.w)) fxi_host_rows(h, attn_out_row);
    return FX_OK;
}
