// host_stream.c - the residual stream: embeddings, what branches add to it, and its norms.
#include <string.h>

#include "model/host/host.h"

static bool reads_q8(const fxi_host *h, const fxi_next_norm *next)
{
    return (next->read_by & h->q8_types) != 0;
}

// In post-norm models the norm's result is the stream itself.
static void norm_row(const fxi_host *h, float *x, int row)
{
    const fxi_rownorm *norm = h->next->norm;
    const int dim = h->m->model.shape.dim;
    const bool is_post = h->m->rules.is_post_norm;
    float *y = h->s.h + (size_t)row * (size_t)dim;
    if (norm->w) fxi_host_norm(h, norm, x, 1, is_post ? x : y);
    if (!norm->w || is_post) memcpy(y, x, (size_t)dim * sizeof *y);
    if (h->has_q8) fxi_host_quant(h, y, dim, row);
}

static void scale_numbers(const fxi_host *h, float *x, int n, float by)
{
    if (by != 1) h->compute.k->scale(x, by, n);
}

// ---- embeddings --------------------------------------------------------------------------------

static void add_position(const fxi_host *h, int row, float *x)
{
    const fxi_rows *r = &h->m->positions;
    const size_t at = (size_t)h->s.tok_pos[row];
    float *wide = h->s.h + (size_t)row * (size_t)r->n_elem; // free until the norm
    fxi_row_to_f32(r->type, r->data + at * r->row_bytes, (size_t)r->n_elem, wide);
    h->compute.k->add(x, wide, r->n_elem);
}

static void look_up_row(const fxi_host *h, int row, float *x)
{
    const fxi_rows *e = &h->m->embd;
    const size_t token = (size_t)h->batch->token[row];
    if (e->data)
        fxi_row_to_f32(e->type, e->data + token * e->row_bytes, (size_t)e->n_elem, x);
    else
        fxi_linear_row(&h->m->tied, (int)token, x);
}

static void narrow_row(void *arg, int row)
{
    const fxi_host *h = arg;
    const fxi_linear *w = &h->m->embd_in;
    float *x = h->s.narrow + (size_t)row * (size_t)w->n_in;
    look_up_row(h, row, x);
    if (fxi_linear_reads_q8(w)) fxi_host_quant(h, x, w->n_in, row);
}

static void embed_row(void *arg, int row)
{
    const fxi_host *h = arg;
    const fxi_transformer *m = h->m;
    const size_t dim = (size_t)m->model.shape.dim;
    float *x = h->s.x + (size_t)row * dim;
    if (!m->embd_in.data) look_up_row(h, row, x);
    scale_numbers(h, x, (int)dim, m->rules.embd_scale);
    if (m->token_type) h->compute.k->add(x, m->token_type, (int)dim);
    if (m->positions.data) add_position(h, row, x);
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
        fxi_host_rows(h, narrow_row);
        fxi_compute_linear(&h->compute, &a, &(fxi_linear_job){in, h->s.x, 0, h->n_row}, 1);
    }
    fxi_host_rows(h, embed_row);
    return FX_OK;
}

// ---- branches ----------------------------------------------------------------------------------

// Completes the branch's row of h.
static float *finish_branch(const fxi_host *h, int row)
{
    const fxi_branch_end *e = h->end;
    const int dim = h->m->model.shape.dim;
    float *y = h->s.h + (size_t)row * (size_t)dim;
    if (e->bias) h->compute.k->add(y, e->bias, dim);
    if (e->norm && e->norm->w) fxi_host_norm(h, e->norm, y, 1, y);
    scale_numbers(h, y, dim, h->m->rules.residual_scale);
    return y;
}

// Adds the branch to the residual stream.
static void residual_row(void *arg, int row)
{
    const fxi_host *h = arg;
    const fxi_kernels *k = h->compute.k;
    const size_t dim = (size_t)h->m->model.shape.dim;
    float *x = h->s.x + fxi_host_x_row(h, row) * dim;
    const float *y = finish_branch(h, row);
    if (h->holds) k->add(x, h->s.held + (size_t)row * dim, (int)dim);
    k->add(x, y, (int)dim);
    norm_row(h, x, row);
}

static void hold_row(void *arg, int row)
{
    const fxi_host *h = arg;
    const fxi_host_buffers *s = &h->s;
    const size_t dim = (size_t)h->m->model.shape.dim;
    memcpy(s->held + (size_t)row * dim, finish_branch(h, row), dim * sizeof *s->held);
    norm_row(h, s->x + fxi_host_x_row(h, row) * dim, row);
}

fx_status fxi_host_add_norm(fxi_device *d, const fxi_branch_end *end, fx_error *err)
{
    (void)err;
    fxi_host *h = fxi_host_of(d);
    h->end = end;
    h->next = &end->next;
    h->has_q8 = reads_q8(h, &end->next);
    fxi_host_rows(h, end->holds ? hold_row : residual_row);
    h->holds = end->holds;
    return FX_OK;
}

// ---- embeddings of texts -----------------------------------------------------------------------

fx_status fxi_host_return_rows(fxi_device *d, int n_row, fx_error *err)
{
    (void)err;
    const fxi_host *h = fxi_host_of(d);
    const size_t dim = (size_t)h->m->model.shape.dim;
    memcpy(h->batch->rows, h->s.h + (size_t)(h->n_row - n_row) * dim,
           (size_t)n_row * dim * sizeof(float));
    return FX_OK;
}
