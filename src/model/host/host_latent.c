// host_latent.c - latent layers on the host: many heads of queries over one narrow row per token.
//
//   store    q of each row -> its heads side by side -> a product per head, straight to its place
//            in q; the row itself is normalised, rotated and stored
//   expand   the result of each head -> a product per head -> what o reads
//
// A product per head reads rows of one head, so a head's rows are put side by side first, in the
// form that its weights read: rounded to Q8, or as f32 in a buffer that is free at that time. The
// products of all heads run in one go (compute.h). Bits depend on no other row.
#include <string.h>

#include "base/number/qblock.h"
#include "model/host/host.h"

// Row `row` of a head's rows, which lie head after head.
static int head_row(const fxi_host *h, int head, int row)
{
    return head * h->n_row + row;
}

// Puts n numbers of a head where its product reads them: x is the f32 buffer.
static void put_head(const fxi_host *h, const fxi_linear *w, const float *src, int head, int row,
                     float *x)
{
    const int to = head_row(h, head, row);
    if (fxi_linear_reads_q8(w))
        fxi_host_quant_row(h, src, w->n_in, to);
    else
        memcpy(x + (size_t)to * (size_t)w->n_in, src, (size_t)w->n_in * sizeof *src);
}

// y[row][head] = what w[head] makes of the head's rows; step: numbers from head to head of y.
static void multiply_heads(fxi_host *h, const fxi_linear *w, const float *x, float *y, int step)
{
    const int n_head = h->m->model.shape.n_head;
    const fxi_act a = fxi_host_act(h, x);
    for (int i = 0; i < n_head; i++)
        h->s.head_job[i] = (fxi_linear_job){&w[i], y + (size_t)i * (size_t)step, head_row(h, i, 0),
                                            h->n_row, (size_t)n_head * (size_t)step};
    fxi_compute_linear(&h->compute, &a, h->s.head_job, n_head);
}

// ---- queries and the row that is stored --------------------------------------------------------

static void low_query_row(void *arg, int row)
{
    const fxi_host *h = arg;
    const fxi_latent *a = h->layer->latent;
    const int n = a->q_a.w.n_out;
    float *x = h->s.q_a + (size_t)row * (size_t)n;
    if (a->q_a.b) h->compute.k->add(x, a->q_a.b, n);
    fxi_host_norm_runs(h, &a->q_a_norm, x, 1, x);
    if (fxi_linear_reads_q8(&h->layer->q.w)) fxi_host_quant_row(h, x, n, row);
}

static void make_queries(fxi_host *h)
{
    const fxi_act a = fxi_host_act(h, h->s.q_a);
    fxi_host_each_row(h, low_query_row);
    fxi_compute_linear(&h->compute, &a,
                       &(fxi_linear_job){&h->layer->q.w, h->s.heads, 0, h->n_row, 0}, 1);
}

// The numbers that are rotated, from x on in each of n_head heads, head_dim apart.
static void rotate_ends(const fxi_host *h, float *x, int n_head, int pos)
{
    const fxi_rope *r = h->layer->rope;
    const size_t at = (size_t)pos * (size_t)r->n_pair;
    h->compute.k->rope(x, n_head, h->m->model.shape.head_dim, r->n_pair, r->cos + at, r->sin + at);
}

// Puts a row's queries before their products: their first numbers side by side, the others rotated
// in their places.
static void query_row(const fxi_host *h, int row, int pos)
{
    const fxi_layer *l = h->layer;
    const fxi_model_shape *s = &h->m->model.shape;
    const fxi_linear *up = l->latent->k_up;
    const int n = l->q.w.n_out / s->n_head, n_rope = n - up->n_in;
    const float gain = fxi_query_gain(&h->m->rules, pos);
    float *x = h->s.heads + (size_t)row * (size_t)l->q.w.n_out;
    float *end = h->s.q + (size_t)(row * s->n_head) * (size_t)s->head_dim + up->n_out;
    if (l->q.b) h->compute.k->add(x, l->q.b, l->q.w.n_out);
    if (gain != 1) h->compute.k->scale(x, gain, l->q.w.n_out);
    for (int i = 0; i < s->n_head; i++, x += n) {
        put_head(h, up, x, i, row, h->s.att);
        memcpy(end + (size_t)i * (size_t)s->head_dim, x + up->n_in, (size_t)n_rope * sizeof *x);
    }
    rotate_ends(h, end, s->n_head, pos);
}

static void latent_row(void *arg, int row)
{
    const fxi_host *h = arg;
    const fxi_layer *l = h->layer;
    const fxi_kernels *k = h->compute.k;
    const int pos = h->s.tok_pos[row], n = l->k.w.n_out;
    const fxi_kv_view *view = &h->s.tok_seq[row]->views.group[l->kv_group];
    float *x = h->s.k + (size_t)row * (size_t)n;
    query_row(h, row, pos);
    if (l->k.b) k->add(x, l->k.b, n);
    fxi_host_norm_runs(h, &l->k_norm, x, 1, x);
    rotate_ends(h, x + l->k_norm.n, 1, pos);
    k->store_kv[h->m->model.kv_type](x, n, fxi_kv_row(view, l->kv_layer, pos));
}

fx_status fxi_host_latent_store(fxi_device *d, const fxi_layer *l, fx_error *err)
{
    (void)err;
    fxi_host *h = fxi_host_of(d);
    h->layer = l;
    if (l->latent->q_a.w.data) make_queries(h);
    fxi_host_each_row(h, latent_row);
    multiply_heads(h, l->latent->k_up, h->s.att, h->s.q, h->m->model.shape.head_dim);
    return FX_OK;
}

// ---- after attention ---------------------------------------------------------------------------

static void result_row(void *arg, int row)
{
    const fxi_host *h = arg;
    const fxi_linear *up = h->layer->latent->v_up;
    const int n_head = h->m->model.shape.n_head;
    const float *x = h->s.att + fxi_host_place(h, row) * (size_t)n_head * (size_t)up->n_in;
    for (int i = 0; i < n_head; i++, x += up->n_in) put_head(h, up, x, i, row, h->s.q);
}

void fxi_host_expand_heads(fxi_host *h)
{
    const fxi_linear *up = h->layer->latent->v_up;
    fxi_host_each_row(h, result_row);
    multiply_heads(h, up, h->s.q, h->s.heads, up->n_out);
}
