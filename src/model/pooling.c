// pooling.c - see pooling.h.
#include "model/pooling.h"

#include <math.h>
#include <string.h>

int fxi_pooling_rows(const fxi_model_shape *s, int n_tok, bool is_last)
{
    if (s->pooling == FXI_POOL_MEAN || s->pooling == FXI_POOL_FIRST) return n_tok;
    return is_last;
}

void fxi_pooling_add(const fxi_model_shape *s, const float *rows, int n, int end, float *sum)
{
    const size_t dim = (size_t)s->dim;
    if (s->pooling == FXI_POOL_MEAN)
        for (size_t i = 0; i < (size_t)n * dim; i++) sum[i % dim] += rows[i];
    else if (s->pooling == FXI_POOL_FIRST && end == n)
        memcpy(sum, rows, dim * sizeof *sum);
    else if (s->pooling != FXI_POOL_FIRST && n)
        memcpy(sum, rows + (size_t)(n - 1) * dim, dim * sizeof *sum);
}

void fxi_pooling_finish(const fxi_model_shape *s, int n_tok, float *sum)
{
    double squares = 0;
    if (s->pooling == FXI_POOL_MEAN)
        for (int i = 0; i < s->dim; i++) sum[i] /= (float)n_tok;
    for (int i = 0; i < s->dim; i++) squares += (double)sum[i] * (double)sum[i];
    for (int i = 0; s->has_unit_length && squares > 0 && i < s->dim; i++)
        sum[i] = (float)((double)sum[i] / sqrt(squares));
}
