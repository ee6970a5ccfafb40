// device.c - see device.h.
#include "model/device.h"

#include <math.h>

int fxi_batch_wanted(const fxi_batch *b, int *row, int *n_logit)
{
    int n = 0, end = 0;
    *n_logit = 0;
    for (int i = 0; i < b->n_seq; i++) {
        end += b->seq[i].n_tok;
        for (int k = b->seq[i].n_logit; k > 0; k--, n++)
            if (row) row[n] = end - k;
        if (!b->seq[i].embeds) *n_logit = n;
    }
    return n;
}

float fxi_query_gain(const fxi_rules *r, int pos)
{
    if (r->log_scale == 0 || pos < r->log_tok) return 1;
    return (float)(1 + (double)r->log_scale * log(1 + pos / r->log_tok));
}
