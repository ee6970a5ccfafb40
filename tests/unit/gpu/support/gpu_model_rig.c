// gpu_model_rig.c - see gpu_model_rig.h.
#include "gpu_model_rig.h"

#include "unit/cmocka_all.h"

#include <stdlib.h>
#include <string.h>

#include "format/gguf.h"
#include "vtensor/vmm.h"

static fx_status open_model(gpu_model_rig *g, runner_model m, fx_error *err)
{
    fxi_gguf *file;
    FX_TRY(fxi_model_file_open(m.path, &file, err));
    const fxi_model_options opt = {.pool = g->r.pool,
                                   .device = g->device,
                                   .max_batch_tok = RUNNER_MAX_TOK * (1 + RUNNER_OTHERS),
                                   .max_batch_logit = RUNNER_MAX_TOK,
                                   .kv_type = m.kv_type};
    const fx_status st = fxi_model_load(file, &opt, &g->r.model, err);
    fxi_gguf_close(file);
    return st;
}

static fx_status open_memory(fxi_device *d, fxi_kv_shape *shape, fx_error *err)
{
    const fxi_device_ranks *all = d->ranks;
    if (!all) return d->ops->open_vmm(d, &shape->vmm, err);
    for (; shape->n_rank < all->n; shape->n_rank++) {
        fxi_device *rank = all->device[shape->n_rank];
        FX_TRY(rank->ops->open_vmm(rank, &shape->rank_vmm[shape->n_rank], err));
    }
    return FX_OK;
}

static fx_status open_cache(gpu_model_rig *g, const gpu_way *way, fx_error *err)
{
    const fxi_model_shape *s = &g->r.model->shape;
    fxi_kv_shape shape = {.layout = s->kv,
                          .ctx_tok = s->train_ctx_tok < 1024 ? s->train_ctx_tok : 1024,
                          .max_seq = 8,
                          .budget_bytes = 48 << 20};
    fx_status st = open_memory(g->device, &shape, err);
    if (st == FX_OK) st = fxi_kv_open(way->kv ? way->kv : "vtensor", &shape, &g->r.kv, err);
    if (st != FX_OK && shape.vmm) shape.vmm->ops->close(shape.vmm);
    for (int k = 0; st != FX_OK && k < shape.n_rank; k++)
        shape.rank_vmm[k]->ops->close(shape.rank_vmm[k]);
    for (int i = 0; st == FX_OK && i <= way->n_other; i++)
        if (fxi_kv_create(g->r.kv, &(fxi_kv_expect){0}, &g->r.seq[i]) != FX_OK)
            st = fxi_fail(err, FX_EIO, "KV cache: a sequence cannot begin");
    return st;
}

static fx_status take_output(gpu_model_rig *g, const gpu_way *way, fx_error *err)
{
    const size_t size_bytes = (size_t)g->r.n_out * sizeof *g->out;
    void *out = way->unpinned ? malloc(size_bytes) : NULL;
    if (!out) FX_TRY(g->device->ops->take_host(g->device, size_bytes, &out, err));
    g->own_out = way->unpinned;
    g->out = out;
    return FX_OK;
}

fx_status gpu_model_try(gpu_model_rig *g, runner_model m, const gpu_way *way, fx_error *err)
{
    memset(g, 0, sizeof *g);
    g->v = (variant){.what = way->what, .n_thread = 1, .n_other = way->n_other};
    FX_TRY(fxi_pool_create(1, &g->r.pool, err));
    const fxi_gpu_options opt = {.name = way->ranks ? way->ranks : "cuda:0",
                                 .math = way->math ? way->math : "cpu-exact",
                                 .pool = g->r.pool,
                                 .no_graphs = way->no_graphs};
    FX_TRY((way->ranks ? fxi_gpu_ranks_open : fxi_gpu_open)(&opt, &g->device, err));
    FX_TRY(open_model(g, m, err));
    const fxi_model_shape *s = &g->r.model->shape;
    g->r.n_vocab = s->n_vocab;
    g->r.embeds = !s->generates;
    g->r.n_out = g->r.embeds ? s->dim : s->n_vocab;
    FX_TRY(take_output(g, way, err));
    return open_cache(g, way, err);
}

void gpu_model_open(gpu_model_rig *g, runner_model m, const gpu_way *way)
{
    fx_error err = {0};
    if (gpu_model_try(g, m, way, &err) != FX_OK) fail_msg("%s", err.text);
}

void gpu_model_close(gpu_model_rig *g)
{
    if (g->own_out) free(g->out);
    fxi_kv_close(g->r.kv);
    fxi_model_free(g->r.model);
    if (g->device) g->device->ops->close(g->device);
    fxi_pool_destroy(g->r.pool);
}

void gpu_model_run(gpu_model_rig *g, const gpu_way *way, int n_tok)
{
    const bool whole = !g->r.model->shape.is_causal;
    const int n_prompt = whole || way->n_prompt > n_tok ? n_tok : way->n_prompt;
    const int chunk = whole ? n_tok : way->chunk;
    for (int from = 0; from < n_tok;) {
        int n = from < n_prompt ? n_prompt - from : 1;
        if (n > chunk) n = chunk;
        const bool wants = from >= n_prompt || from + n == n_tok; // decoding wants each row
        runner_pass(&g->r, &g->v, from, n, wants, g->out);
        from += n;
    }
}

float *gpu_model_logits(runner_model m, const gpu_way *way, int n_tok, int *n_out)
{
    gpu_model_rig g;
    gpu_model_open(&g, m, way);
    gpu_model_run(&g, way, n_tok);
    *n_out = g.r.n_out;
    float *out = malloc((size_t)g.r.n_out * sizeof *out);
    assert_non_null(out);
    memcpy(out, g.out, (size_t)g.r.n_out * sizeof *out);
    gpu_model_close(&g);
    return out;
}

gpu_way gpu_model_way(int i, const char *math, int n_tok)
{
    const gpu_way ways[GPU_N_WAY] = {
        {"one pass", .n_prompt = n_tok, .chunk = n_tok},
        {"one token at a time", .chunk = 1},
        {"chunks of 7, then decoding", .n_prompt = n_tok - n_tok / 6, .chunk = 7},
        {"with three others", .n_prompt = n_tok - 3, .chunk = n_tok / 2, .n_other = 3},
        {"without graphs", .n_prompt = n_tok - 4, .chunk = 17, .n_other = 2, .no_graphs = true},
        {"results not pinned", .n_prompt = n_tok - 3, .chunk = n_tok - 3, .unpinned = true},
        {"a paged cache", .n_prompt = n_tok - 2, .chunk = n_tok - 3, .n_other = 1, .kv = "paged"},
    };
    gpu_way way = ways[i];
    way.math = math;
    return way;
}

small_model gpu_tiny_model(fxi_dtype type)
{
    return (small_model){.shape = {.what = "tiny",
                                   .n_layer = 2,
                                   .dim = 96,
                                   .n_head = 4,
                                   .n_kv_head = 2,
                                   .head_dim = 64,
                                   .n_ffn = 160,
                                   .n_vocab = 320},
                         .type = type};
}

void check_gpu_model(runner_model m, const char *what, const gpu_way *way, int n_tok,
                     const float *want)
{
    gpu_model_rig g;
    gpu_model_open(&g, m, way);
    gpu_model_run(&g, way, n_tok);
    if (memcmp(g.out, want, (size_t)g.r.n_out * sizeof *want) != 0)
        fail_msg("%s: %s: other bits", what, way->what);
    gpu_model_close(&g);
}
