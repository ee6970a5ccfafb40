// device.c - what every device computes the same: the table of angles, one mapping that the system
// fills with pages when they are first written; the rows that are wanted; the gain of queries.
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "model/device.h"

fx_status fxi_rope_open(fxi_rope *r, int n_pos, fx_error *err)
{
    const size_t n = (size_t)n_pos * (size_t)r->n_pair;
    r->n_pos = n_pos;
    r->is_made = calloc((size_t)(n_pos / FXI_ROPE_BLOCK + 1), sizeof *r->is_made);
    void *map = mmap(NULL, 2 * n * sizeof(float), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map != MAP_FAILED) {
        r->map_bytes = 2 * n * sizeof(float);
        r->cos = map;
        r->sin = r->cos + n;
    }
    if (r->is_made && r->map_bytes) return FX_OK;
    fxi_rope_close(r);
    return fxi_fail(err, FX_ENOMEM, "no memory for the angles of %d positions", n_pos);
}

void fxi_rope_close(fxi_rope *r)
{
    if (r->map_bytes) (void)munmap(r->cos, r->map_bytes);
    free(r->is_made);
    free(r->freq);
    *r = (fxi_rope){0};
}

// ---- angles ------------------------------------------------------------------------------------

static double pair_freq(const fxi_rope *r, int pos, int i)
{
    if (!r->dynamic_tok || pos < r->dynamic_tok || r->n_rot <= 2) return r->freq[i];
    const double f = r->dynamic_factor, n = r->n_rot;
    const double base = r->base * pow(f * (pos + 1) / r->dynamic_tok - (f - 1), n / (n - 2));
    return pow(base, -2.0 * i / r->n_rot);
}

typedef struct rope_block {
    fxi_rope *r;
    int pos0;
} rope_block;

static void rope_position(void *arg, int row)
{
    const rope_block *b = arg;
    const fxi_rope *r = b->r;
    const int pos = b->pos0 + row;
    const size_t at = (size_t)pos * (size_t)r->n_pair;
    for (int i = 0; i < r->n_pair; i++) {
        const double angle = pos * r->scale * pair_freq(r, pos, i);
        r->cos[at + (size_t)i] = (float)(cos(angle) * r->gain);
        r->sin[at + (size_t)i] = (float)(sin(angle) * r->gain);
    }
}

void fxi_rope_reach(fxi_pool *pool, fxi_rope *r, int pos, int n)
{
    for (int b = pos / FXI_ROPE_BLOCK; b <= (pos + n - 1) / FXI_ROPE_BLOCK; b++) {
        rope_block block = {r, b * FXI_ROPE_BLOCK};
        const int rest = r->n_pos - block.pos0;
        if (r->is_made[b]) continue;
        fxi_pool_run(pool, rope_position, &block, rest < FXI_ROPE_BLOCK ? rest : FXI_ROPE_BLOCK);
        r->is_made[b] = true;
    }
}

// ---- batches ------------------------------------------------------------------------------------

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
