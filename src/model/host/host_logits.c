// host_logits.c - the output: rows of logits, and the likeliest token of each.
#include <math.h>
#include <string.h>

#include "model/host/host.h"

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
    fxi_host_quant(h, h->s.narrow + (size_t)row * (size_t)n, n, row);
}

// What the output reads: h, made as wide as embeddings.
static fxi_act narrow_rows(fxi_host *h)
{
    const fxi_transformer *m = h->m;
    const fxi_act a = fxi_host_act(h, h->s.h);
    if (!m->embd_out.data) return a;
    fxi_compute_linear(&h->compute, &a, &(fxi_linear_job){&m->embd_out, h->s.narrow, 0, h->n_row},
                       1);
    if (fxi_linear_reads_q8(&m->output.w)) fxi_host_rows(h, quant_narrow);
    return fxi_host_act(h, h->s.narrow);
}

// Of a part of the vocabulary: to the places where they are among the others.
static void place_logits(const fxi_host *h, float *dst, int n_row)
{
    const size_t n = (size_t)h->m->output.w.n_out, n_vocab = (size_t)h->m->model.shape.n_vocab;
    for (size_t row = 0; row < (size_t)n_row; row++)
        memcpy(dst + row * n_vocab, h->logits + row * n, n * sizeof *dst);
}

fx_status fxi_host_logits(fxi_device *d, int n_row, fx_error *err)
{
    (void)err;
    fxi_host *h = fxi_host_of(d);
    const fxi_transformer *m = h->m;
    float *dst = h->logits;
    const bool is_part = m->output.w.n_out < m->model.shape.n_vocab;
    if (!dst || is_part) h->logits = h->s.logits;
    h->n_row = n_row;
    const fxi_act a = narrow_rows(h);
    fxi_compute_linear(&h->compute, &a, &(fxi_linear_job){&m->output.w, h->logits, 0, n_row}, 1);
    if (m->output.b || m->rules.logit_scale != 1 || m->rules.logit_cap != 0)
        fxi_host_rows(h, finish_logits);
    if (dst && is_part) place_logits(h, dst, n_row);
    return FX_OK;
}

// ---- the likeliest tokens ----------------------------------------------------------------------

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
