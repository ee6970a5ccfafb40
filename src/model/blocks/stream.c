// stream.c - the residual stream: embeddings, what branches add to it, and its norms; the logits.
#include <string.h>

#include "model/blocks/pass.h"

// In post-norm models the norm's result is the stream itself.
static void norm_row(const fxi_pass *p, float *x, int row)
{
    const int dim = p->m->model.shape.dim;
    const bool is_post = p->m->rules.is_post_norm;
    float *h = p->m->s.h + (size_t)row * (size_t)dim;
    if (p->norm->w) fxi_pass_norm(p, p->norm, x, 1, is_post ? x : h);
    if (!p->norm->w || is_post) memcpy(h, x, (size_t)dim * sizeof *h);
    if (p->q8) fxi_pass_quant(p, h, dim, row);
}

// ---- embeddings --------------------------------------------------------------------------------

static void scale_numbers(const fxi_pass *p, float *x, int n, float by)
{
    if (by != 1) p->m->model.k->scale(x, by, n);
}

static void add_position(const fxi_transformer *m, int row, float *x)
{
    const fxi_rows *r = &m->positions;
    const size_t at = (size_t)m->s.tok_pos[row];
    float *wide = m->s.h + (size_t)row * (size_t)r->n_elem; // free until the norm
    fxi_row_to_f32(r->type, r->data + at * r->row_bytes, (size_t)r->n_elem, wide);
    m->model.k->add(x, wide, r->n_elem);
}

static void look_up_row(const fxi_pass *p, int row, float *x)
{
    const fxi_transformer *m = p->m;
    const fxi_rows *e = &m->embd;
    const size_t token = (size_t)p->batch->token[row];
    if (e->data)
        fxi_row_to_f32(e->type, e->data + token * e->row_bytes, (size_t)e->n_elem, x);
    else
        fxi_linear_row(&m->output.w, (int)token, x);
}

static void narrow_row(void *arg, int row)
{
    const fxi_pass *p = arg;
    const fxi_linear *w = &p->m->embd_in;
    float *x = p->m->s.narrow + (size_t)row * (size_t)w->n_in;
    look_up_row(p, row, x);
    if (fxi_linear_reads_q8(w)) fxi_pass_quant(p, x, w->n_in, row);
}

static void embed_row(void *arg, int row)
{
    const fxi_pass *p = arg;
    const fxi_transformer *m = p->m;
    const size_t dim = (size_t)m->model.shape.dim;
    float *x = m->s.x + (size_t)row * dim;
    if (!m->embd_in.data) look_up_row(p, row, x);
    scale_numbers(p, x, (int)dim, m->rules.embd_scale);
    if (m->token_type) m->model.k->add(x, m->token_type, (int)dim);
    if (m->positions.data) add_position(m, row, x);
    norm_row(p, x, row);
}

// x = the embeddings, made as wide as x.
static void embed_rows(fxi_pass *p)
{
    const fxi_transformer *m = p->m;
    if (m->embd_in.data) {
        const fxi_act a = fxi_pass_act(p, m->s.narrow);
        fxi_pass_rows(p, narrow_row);
        fxi_compute_linear(&m->compute, &a, &(fxi_linear_job){&m->embd_in, m->s.x, 0, p->n_row}, 1);
    }
    fxi_pass_rows(p, embed_row);
}

// ---- branches ----------------------------------------------------------------------------------

// Completes the last branch's row of h.
static float *finish_branch(const fxi_pass *p, int row)
{
    const fxi_transformer *m = p->m;
    const int dim = m->model.shape.dim;
    float *h = m->s.h + (size_t)row * (size_t)dim;
    if (p->branch.bias) m->model.k->add(h, p->branch.bias, dim);
    if (p->branch.norm && p->branch.norm->w) fxi_pass_norm(p, p->branch.norm, h, 1, h);
    scale_numbers(p, h, dim, m->rules.residual_scale);
    return h;
}

// Adds the last branch to the residual stream.
static void residual_row(void *arg, int row)
{
    const fxi_pass *p = arg;
    const fxi_transformer *m = p->m;
    const size_t dim = (size_t)m->model.shape.dim;
    float *x = m->s.x + fxi_pass_x_row(p, row) * dim;
    const float *h = finish_branch(p, row);
    if (p->holds) m->model.k->add(x, m->s.held + (size_t)row * dim, (int)dim);
    m->model.k->add(x, h, (int)dim);
    norm_row(p, x, row);
}

void fxi_stream_next(fxi_pass *p, const fxi_rownorm *norm, bool q8)
{
    p->norm = norm;
    p->q8 = q8;
    if (p->has_begun)
        fxi_pass_rows(p, residual_row);
    else
        embed_rows(p);
    p->has_begun = true;
    p->holds = false;
}

static void hold_row(void *arg, int row)
{
    const fxi_pass *p = arg;
    const fxi_scratch *s = &p->m->s;
    const size_t dim = (size_t)p->m->model.shape.dim;
    memcpy(s->held + (size_t)row * dim, finish_branch(p, row), dim * sizeof *s->held);
    norm_row(p, s->x + fxi_pass_x_row(p, row) * dim, row);
}

void fxi_stream_hold(fxi_pass *p, const fxi_rownorm *norm, bool q8)
{
    p->norm = norm;
    p->q8 = q8;
    fxi_pass_rows(p, hold_row);
    p->holds = true;
}

// ---- logits ------------------------------------------------------------------------------------

static void finish_logits(void *arg, int row)
{
    const fxi_pass *p = arg;
    const fxi_transformer *m = p->m;
    const int n = m->model.shape.n_vocab;
    float *y = p->logits + (size_t)row * (size_t)n;
    if (m->output.b) m->model.k->add(y, m->output.b, n);
    scale_numbers(p, y, n, m->rules.logit_scale);
    if (m->rules.logit_cap != 0) m->model.k->softcap(y, m->rules.logit_cap, n);
}

static void quant_narrow(void *arg, int row)
{
    const fxi_pass *p = arg;
    const int n = p->m->embd_out.n_out;
    fxi_pass_quant(p, p->m->s.narrow + (size_t)row * (size_t)n, n, row);
}

// What the output reads: h, made as wide as embeddings.
static fxi_act narrow_rows(fxi_pass *p)
{
    const fxi_transformer *m = p->m;
    fxi_act h = fxi_pass_act(p, m->s.h);
    if (!m->embd_out.data) return h;
    fxi_compute_linear(&m->compute, &h, &(fxi_linear_job){&m->embd_out, m->s.narrow, 0, p->n_row},
                       1);
    if (fxi_linear_reads_q8(&m->output.w)) fxi_pass_rows(p, quant_narrow);
    return fxi_pass_act(p, m->s.narrow);
}

static void write_logits(fxi_pass *p, float *logits)
{
    fxi_transformer *m = p->m;
    const fxi_act h = narrow_rows(p);
    fxi_compute_linear(&m->compute, &h, &(fxi_linear_job){&m->output.w, logits, 0, p->n_row}, 1);
    p->logits = logits;
    if (m->output.b || m->rules.logit_scale != 1 || m->rules.logit_cap != 0)
        fxi_pass_rows(p, finish_logits);
}

void fxi_stream_finish(fxi_pass *p, float *logits)
{
    const fxi_transformer *m = p->m;
    const size_t dim = (size_t)m->model.shape.dim, n_row = (size_t)(p->n_row - p->n_logit);
    const fxi_linear *reader = m->embd_out.data ? &m->embd_out : &m->output.w;
    fxi_stream_next(p, &m->out_norm, p->n_logit && fxi_linear_reads_q8(reader));
    if (n_row)
        memcpy(p->batch->rows, m->s.h + (size_t)p->n_logit * dim, n_row * dim * sizeof(float));
    p->n_row = p->n_logit;
    if (p->n_row) write_logits(p, logits);
}
