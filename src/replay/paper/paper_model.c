// paper_model.c - time and tokens of a forward pass that is not computed.
#include "replay/paper/paper_model.h"

#include "base/number/rng.h"

#include <stdlib.h>
#include <string.h>

double fxi_pass_us(const fxi_geometry *g, const fxi_paper_device *d, int n_tok, double n_seen,
                   double kv_tok)
{
    const double attention = 4.0 * g->n_layer * g->n_head * g->head_dim * n_seen;
    const double ops = 2 * g->n_param * n_tok + attention;
    const double row_bytes = 2.0 * g->n_layer * (double)fxi_geometry_row_bytes(g);
    const double read_bytes = 2 * g->n_param + kv_tok * row_bytes;
    const double compute_us = ops / (d->tflops * 1e6), read_us = read_bytes / (d->read_gb_s * 1e3);
    return d->pass_us + (compute_us > read_us ? compute_us : read_us);
}

// The first candidate is the likeliest.
static void write_candidates(float *row, int32_t tok, int pos, int n_candidate)
{
    const uint64_t at = (uint64_t)pos << 32 | (uint32_t)tok;
    float logit = 20;
    memset(row, 0, FXI_PAPER_VOCAB * sizeof *row);
    for (uint64_t k = 0; k < (uint64_t)n_candidate; k++) {
        float *of = &row[fxi_rng_u64(at, 0, k) % FXI_PAPER_VOCAB];
        if (*of == 0) *of = logit;
        logit -= (float)fxi_rng_unit(at, 1, k);
    }
}

static fx_status paper_forward(fxi_model *model, const fxi_batch *batch, float *logits,
                               fx_error *err)
{
    (void)err;
    fxi_paper_model *m = (fxi_paper_model *)model;
    const int32_t *tok = batch->token;
    double n_seen = 0, kv_tok = 0;
    m->n_seq = batch->n_seq;
    if (m->before_pass) m->before_pass(m->ud);
    for (int i = 0; i < batch->n_seq; i++) {
        const fxi_batch_seq *s = &batch->seq[i];
        n_seen += s->n_tok * (s->pos + (s->n_tok + 1) / 2.0);
        kv_tok += s->pos + s->n_tok;
        for (int k = s->n_tok - s->n_logit; k < s->n_tok; k++, logits += FXI_PAPER_VOCAB)
            write_candidates(logits, tok[k], s->pos + k, m->n_candidate);
        tok += s->n_tok;
    }
    m->pass_us = fxi_pass_us(&m->geometry, &m->device, batch->n_tok, n_seen, kv_tok);
    m->clock_us += m->pass_us;
    m->n_pass++;
    m->n_tok += (uint64_t)batch->n_tok;
    return FX_OK;
}

static void paper_free(fxi_model *m)
{
    free(m);
}

static const fxi_model_ops paper_model_ops = {.free = paper_free, .submit = paper_forward};

fxi_paper_model *fxi_paper_model_new(const fxi_geometry *g, const fxi_paper_device *d)
{
    fxi_paper_model *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->model.ops = &paper_model_ops;
    m->model.kv_type = FXI_F16;
    m->model.shape = (fxi_model_shape){.n_layer = g->n_layer,
                                       .dim = g->dim,
                                       .n_head = g->n_head,
                                       .n_kv_head = g->n_kv_head,
                                       .head_dim = g->head_dim,
                                       .kv = {1, {{2 * g->n_layer, fxi_geometry_row_bytes(g), 0}}},
                                       .n_vocab = FXI_PAPER_VOCAB,
                                       .is_causal = true,
                                       .generates = true,
                                       .train_ctx_tok = g->ctx_tok};
    m->n_candidate = 1;
    m->geometry = *g;
    m->device = *d;
    return m;
}
