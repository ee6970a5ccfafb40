// ranks.c - a model in parts, one for each of the devices that compute it together.
#include <stdlib.h>

#include "model/load/loading.h"

// Progress of the parts, one after the other, as one. Each counts the bytes of the file that it
// takes, which are more than its share: all take the embedding.
typedef struct part_progress {
    const fxi_model_options *opt;
    int rank, n_rank;
    uint64_t total_bytes;
} part_progress;

static uint64_t parts_bytes(const part_progress *p, int n_part)
{
    return p->total_bytes / (uint64_t)p->n_rank * (uint64_t)n_part;
}

static void report_part(void *ud, uint64_t done_bytes, uint64_t total_bytes)
{
    part_progress *p = ud;
    p->total_bytes = total_bytes;
    const uint64_t done = parts_bytes(p, p->rank) + done_bytes, most = parts_bytes(p, p->rank + 1);
    p->opt->on_progress(p->opt->progress_ud, done < most ? done : most, total_bytes);
}

static void report_end(const part_progress *p)
{
    const bool is_last = p->rank + 1 == p->n_rank;
    const uint64_t done = is_last ? p->total_bytes : parts_bytes(p, p->rank + 1);
    if (p->opt->on_progress) p->opt->on_progress(p->opt->progress_ud, done, p->total_bytes);
}

static fx_status load_part(const fxi_gguf *g, const fxi_model_options *opt, int rank,
                           fxi_transformer *m, fx_error *err)
{
    const fxi_device_ranks *all = opt->device->ranks;
    part_progress progress = {.opt = opt, .rank = rank, .n_rank = all->n};
    fxi_model_options own = *opt;
    own.device = all->device[rank];
    own.on_progress = opt->on_progress ? report_part : NULL;
    own.progress_ud = &progress;
    FX_TRY(
        fxi_transformer_load(g, &own, (fxi_cut){rank, all->n}, false, &m->ranks.part[rank], err));
    report_end(&progress);
    return FX_OK;
}

// Memory for what each device finds best in its part of the vocabulary.
static fx_status take_rank_best(const fxi_model_options *opt, fxi_model_ranks *r, fx_error *err)
{
    const size_t n = (size_t)opt->max_batch_logit;
    for (int k = 0; k < r->n; k++) {
        fxi_device *d = opt->device->ranks->device[k];
        void *best, *logit;
        FX_TRY(d->ops->take_host(d, (n + 1) * sizeof(int32_t), &best, err));
        FX_TRY(d->ops->take_host(d, (n + 1) * sizeof(float), &logit, err));
        r->best[k] = best;
        r->best_logit[k] = logit;
    }
    return FX_OK;
}

// A token's rows on all devices together: several may have the same KV head.
static void add_caches(fxi_transformer *m)
{
    fxi_kv_layout *all = &m->model.shape.kv;
    for (int g = 0; g < all->n_group; g++)
        all->group[g].row_bytes =
            (size_t)m->ranks.n * m->ranks.part[0]->model.shape.kv.group[g].row_bytes;
}

static fx_status load_all_parts(const fxi_gguf *g, const fxi_model_options *opt, fxi_transformer *m,
                                fx_error *err)
{
    fxi_model_ranks *r = &m->ranks;
    r->max_seq = opt->max_batch_tok;
    r->seq = calloc((size_t)opt->device->ranks->n * (size_t)r->max_seq, sizeof *r->seq);
    if (!r->seq) return fxi_fail(err, FX_ENOMEM, "%s: no memory", fxi_gguf_name(g));
    for (int k = 0; k < opt->device->ranks->n; k++, r->n++) FX_TRY(load_part(g, opt, k, m, err));
    add_caches(m);
    return take_rank_best(opt, r, err);
}

fx_status fxi_ranks_load(const fxi_gguf *g, const fxi_model_options *opt, fxi_transformer **out,
                         fx_error *err)
{
    fxi_transformer *m;
    *out = NULL;
    FX_TRY(fxi_transformer_load(g, opt, (fxi_cut){0, 1}, true, &m, err));
    const fx_status st = load_all_parts(g, opt, m, err);
    if (st == FX_OK)
        *out = m;
    else
        fxi_transformer_free(m);
    return st;
}
