// ref_recurrent.c - the plain C statement of the states of recurrent layers (kernels.h).
#include <math.h>

#include "kernels/ref/mathf.h"
#include "kernels/ref/ref.h"

// The decay from token s of the block to token t.
static float decay_between(const fxi_recur *r, int s, int t)
{
    return fxi_expf(r->g[(size_t)t * r->row_step] - r->g[(size_t)s * r->row_step]);
}

// recall(x, n) of token t, for column j.
static float recall_column(const fxi_recur *r, const float *x, int t, int n, int j)
{
    float old[2] = {0}, own[2] = {0};
    for (int i = 0; r->state && i < r->n_key; i++)
        old[i % 2] = fmaf(r->state[(size_t)i * (size_t)r->n_value + (size_t)j], x[i], old[i % 2]);
    for (int s = 0; s < n; s++) {
        const size_t at = (size_t)s * r->row_step;
        const float w = decay_between(r, s, t) * fxi_ref_sum_products(x, r->k + at, r->n_key);
        own[s % 2] = fmaf(w, r->u[at + (size_t)j], own[s % 2]);
    }
    return fmaf(old[0] + old[1], fxi_expf(r->g[(size_t)t * r->row_step]), own[0] + own[1]);
}

void fxi_ref_recur_update(const fxi_recur *r)
{
    for (int i = 0; i < r->n_tok; i++) {
        const int t = r->first + i;
        const size_t at = (size_t)t * r->row_step;
        const float *v = r->x + (size_t)i * r->in_step;
        for (int j = r->column0; j < r->column0 + r->n_column; j++)
            r->u[at + (size_t)j] =
                (v[j] - recall_column(r, r->k + at, t, t, j)) * r->b[(size_t)i * r->b_step];
    }
}

void fxi_ref_recur_read(const fxi_recur *r)
{
    for (int i = 0; i < r->n_tok; i++) {
        const int t = r->first + i;
        for (int j = r->column0; j < r->column0 + r->n_column; j++)
            r->out[(size_t)i * r->out_step + (size_t)j] =
                recall_column(r, r->x + (size_t)i * r->in_step, t, t + 1, j);
    }
}

void fxi_ref_recur_state(const fxi_recur *r, float *next)
{
    const int t = r->first + r->n_tok - 1;
    const float a = fxi_expf(r->g[(size_t)t * r->row_step]);
    for (int i = 0; i < r->n_key; i++)
        for (int j = r->column0; j < r->column0 + r->n_column; j++) {
            const size_t to = (size_t)i * (size_t)r->n_value + (size_t)j;
            float sum = r->state ? r->state[to] * a : 0;
            for (int s = 0; s <= t; s++) {
                const size_t at = (size_t)s * r->row_step;
                sum =
                    fmaf(decay_between(r, s, t) * r->k[at + (size_t)i], r->u[at + (size_t)j], sum);
            }
            next[to] = sum;
        }
}
