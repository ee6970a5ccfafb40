// simulated_model.c - time and tokens of a forward pass that is not computed; the tables of
// geometries and devices.
#include "lab/simulated_model.h"
#include "base/number/rng.h"

#include <stdlib.h>
#include <string.h>

// Geometries are those of the published configurations. Of a device, speeds are what large products
// and streaming reads reach, about 70 % of the data sheet's peak and 80 % of its bandwidth; costs
// of the driver's memory calls are those measured on an A100 by others.

const fxi_geometry fxi_geometries[FXI_N_GEOMETRY] = {
    // name, layers, dim, heads, kv heads, head size, parameters, context
    {"opt-13b", 40, 5120, 40, 40, 128, 12.85e9, 2048},
    {"opt-66b", 64, 9216, 72, 72, 128, 65.7e9, 2048},
    {"opt-175b", 96, 12288, 96, 96, 128, 175e9, 2048},
    {"llama-13b", 40, 5120, 40, 40, 128, 13.0e9, 2048},
    {"llama-3-8b", 32, 4096, 32, 8, 128, 8.03e9, 8192},
    {"yi-6b", 32, 4096, 32, 4, 128, 6.06e9, 200000},
    {"yi-9b", 48, 4096, 32, 4, 128, 8.83e9, 200000},
    {"yi-34b", 60, 7168, 56, 8, 128, 34.4e9, 200000},
};

#define GPU_COSTS                         \
    {                                     \
        19, 195, 1.5, 36, 26, 1.5e3, 45e3 \
    }

const fxi_simulated_device fxi_simulated_devices[FXI_N_DEVICE] = {
    {"a100-40g", 40, 218, 1244, 3000, GPU_COSTS},
    {"4xa100-40g", 160, 4 * 218, 4 * 1244, 5000, GPU_COSTS},
    {"8xa100-80g", 640, 8 * 218, 8 * 1631, 6000, GPU_COSTS},
    {"a100-80g", 80, 218, 1631, 3000, GPU_COSTS},
    {"2xa100-80g", 160, 2 * 218, 2 * 1631, 4000, GPU_COSTS},
    {"h100-80g", 80, 692, 2680, 2500, GPU_COSTS},
};

const fxi_geometry *fxi_geometry_find(const char *name)
{
    for (int i = 0; i < FXI_N_GEOMETRY; i++)
        if (!strcmp(fxi_geometries[i].name, name)) return &fxi_geometries[i];
    return NULL;
}

const fxi_simulated_device *fxi_simulated_device_find(const char *name)
{
    for (int i = 0; i < FXI_N_DEVICE; i++)
        if (!strcmp(fxi_simulated_devices[i].name, name)) return &fxi_simulated_devices[i];
    return NULL;
}

uint64_t fxi_setting_kv_bytes(const fxi_geometry *g, const fxi_simulated_device *d)
{
    const double used = 0.9 * d->memory_gb * 1.0737; // sizes of GPUs are powers of 1024
    const double weights = 2 * g->n_param / 1e9, activations = 0.01 * d->memory_gb;
    const double left = used - weights - activations;
    return left > 0 ? (uint64_t)(left * 1e9) : 0;
}

// ---- the model ----------------------------------------------------------------------------------

double fxi_pass_us(const fxi_geometry *g, const fxi_simulated_device *d, int n_tok, double n_seen,
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
    memset(row, 0, FXI_SIMULATED_VOCAB * sizeof *row);
    for (uint64_t k = 0; k < (uint64_t)n_candidate; k++) {
        float *of = &row[fxi_rng_u64(at, 0, k) % FXI_SIMULATED_VOCAB];
        if (*of == 0) *of = logit;
        logit -= (float)fxi_rng_unit(at, 1, k);
    }
}

static fx_status simulated_forward(fxi_model *model, const fxi_batch *batch, float *logits,
                                   fx_error *err)
{
    (void)err;
    fxi_simulated_model *m = (fxi_simulated_model *)model;
    const int32_t *tok = batch->token;
    double n_seen = 0, kv_tok = 0;
    m->n_seq = batch->n_seq;
    if (m->before_pass) m->before_pass(m->ud);
    for (int i = 0; i < batch->n_seq; i++) {
        const fxi_batch_seq *s = &batch->seq[i];
        n_seen += s->n_tok * (s->pos + (s->n_tok + 1) / 2.0);
        kv_tok += s->pos + s->n_tok;
        for (int k = s->n_tok - s->n_logit; k < s->n_tok; k++, logits += FXI_SIMULATED_VOCAB)
            write_candidates(logits, tok[k], s->pos + k, m->n_candidate);
        tok += s->n_tok;
    }
    m->pass_us = fxi_pass_us(&m->geometry, &m->device, batch->n_tok, n_seen, kv_tok);
    m->clock_us += m->pass_us;
    m->n_pass++;
    return FX_OK;
}

static void simulated_free(fxi_model *m)
{
    free(m);
}

static const fxi_model_ops simulated_model_ops = {.free = simulated_free,
                                                  .submit = simulated_forward};

fxi_simulated_model *fxi_simulated_model_new(const fxi_geometry *g, const fxi_simulated_device *d)
{
    fxi_simulated_model *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->model.ops = &simulated_model_ops;
    m->model.kv_type = FXI_F16;
    m->model.shape = (fxi_model_shape){
        .n_layer = g->n_layer,
        .dim = g->dim,
        .n_head = g->n_head,
        .n_kv_head = g->n_kv_head,
        .head_dim = g->head_dim,
        .kv = {1, {{.n_plane = 2 * g->n_layer, .row_bytes = fxi_geometry_row_bytes(g)}}},
        .n_vocab = FXI_SIMULATED_VOCAB,
        .is_causal = true,
        .generates = true,
        .train_ctx_tok = g->ctx_tok};
    m->n_candidate = 1;
    m->geometry = *g;
    m->device = *d;
    return m;
}
