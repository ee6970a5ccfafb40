// host_rows.c - what steps of the host do with a row: rounding to Q8, and norms.
#include "base/number/qblock.h"
#include "model/host/host.h"

void fxi_host_quant_row(const fxi_host *h, const float *x, int n_elem, int row)
{
    const fxi_host_buffers *s = &h->s;
    size_t at = (size_t)row * (size_t)n_elem;
    h->compute.k->quant_q8(x, n_elem, s->act_q + at, s->act_d + at / FXI_Q8_0_ELEMS,
                           s->act_sum + at / 16);
}

void fxi_host_norm_runs(const fxi_host *h, const fxi_rownorm *norm, const float *x, int n_run,
                        float *y)
{
    const fxi_rules *r = &h->m->rules;
    const fxi_kernels *k = h->compute.k;
    const float eps = norm->eps > 0 ? norm->eps : r->eps;
    for (int i = 0; i < n_run; i++) {
        const size_t at = (size_t)i * (size_t)norm->n, w = (size_t)i * (size_t)norm->step;
        if (r->norm == FXI_NORM_RMS)
            k->rms_norm(x + at, norm->w + w, norm->n, eps, y + at);
        else
            k->layer_norm(x + at, norm->w + w, norm->b ? norm->b + w : NULL, norm->n, eps, y + at);
    }
}
