// pooling.c - see pooling.h.
#include "model/pooling.h"

#include <math.h>
#include <string.h>

#include "base/fail.h"

static const char *const names[] = {[FXI_POOL_NONE] = "",
                                    [FXI_POOL_MEAN] = "mean",
                                    [FXI_POOL_FIRST] = "first",
                                    [FXI_POOL_LAST] = "last",
                                    [FXI_POOL_RANK] = "rank"};

const char *fxi_pooling_name(fxi_pooling p)
{
    return names[p];
}

fx_status fxi_pooling_find(const char *name, fxi_pooling *out, fx_error *err)
{
    if (!strcmp(name, "cls")) name = "first";
    for (int p = FXI_POOL_MEAN; p <= FXI_POOL_RANK; p++)
        if (!strcmp(name, names[p])) {
            *out = (fxi_pooling)p;
            return FX_OK;
        }
    return fxi_fail(err, FX_EINVAL, "pooling '%s' is none of mean, first, last, rank", name);
}

static bool takes_last(const fxi_model_shape *s)
{
    return s->pooling == FXI_POOL_LAST || (s->pooling == FXI_POOL_RANK && s->is_causal);
}

int fxi_pooling_rows(const fxi_model_shape *s, int n_tok, bool is_last)
{
    return takes_last(s) ? is_last : n_tok;
}

void fxi_pooling_add(const fxi_model_shape *s, const float *rows, int n, int end, float *sum)
{
    const size_t dim = (size_t)s->dim;
    if (s->pooling == FXI_POOL_MEAN)
        for (size_t i = 0; i < (size_t)n * dim; i++) sum[i % dim] += rows[i];
    else if (takes_last(s) && n)
        memcpy(sum, rows + (size_t)(n - 1) * dim, dim * sizeof *sum);
    else if (!takes_last(s) && end == n)
        memcpy(sum, rows, dim * sizeof *sum);
}

size_t fxi_pooling_room(const fxi_model_shape *s)
{
    return (size_t)s->dim * (s->dense ? 2 : 1);
}

static void divide_by_length(float *x, int n)
{
    double squares = 0;
    for (int i = 0; i < n; i++) squares += (double)x[i] * (double)x[i];
    for (int i = 0; squares > 0 && i < n; i++) x[i] = (float)((double)x[i] / sqrt(squares));
}

static double dot_product(const float *a, const float *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

bool fxi_pooling_finish(const fxi_model_shape *s, int n_tok, int n_dim, bool is_unit, float *sum)
{
    const size_t dim = (size_t)s->dim;
    float *pooled = sum + dim; // with dense
    for (size_t i = 0; s->pooling == FXI_POOL_MEAN && i < dim; i++) sum[i] /= (float)n_tok;
    if (s->dense) memcpy(pooled, sum, dim * sizeof *sum);
    for (int i = 0; i < n_dim; i++) {
        if (s->dense) sum[i] = (float)dot_product(s->dense + (size_t)i * dim, pooled, s->dim);
        if (!isfinite(sum[i])) return false;
    }
    if (is_unit) divide_by_length(sum, n_dim);
    return true;
}

bool fxi_pooling_score(const fxi_model_shape *s, float *sum)
{
    const fxi_score_head *h = s->head;
    double score = h->out_b;
    for (int i = 0; h->dense && i < s->dim; i++)
        score += tanh(dot_product(h->dense + (size_t)i * (size_t)s->dim, sum, s->dim) +
                      (double)h->dense_b[i]) *
                 (double)h->out[i];
    if (!h->dense) score += dot_product(h->out, sum, s->dim);
    sum[0] = (float)(h->is_raw ? score : 1 / (1 + exp(-score)));
    return isfinite(sum[0]);
}
