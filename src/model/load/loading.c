// loading.c - loads a transformer: as a whole, or in parts, one for each of the devices that
// compute it together.
#include "model/load/loading.h"

#include <stdlib.h>

#include "format/show.h"

void fxi_transformer_free(fxi_transformer *m)
{
    for (int k = 0; k < m->ranks.n; k++)
        if (m->ranks.part[k]) fxi_transformer_free(m->ranks.part[k]);
    free(m->ranks.seq);
    if (m->owns_dev && m->dev) m->dev->ops->close(m->dev);
    fxi_arena_free(&m->mem);
    for (int i = 0; i < 2; i++) fxi_rope_close(&m->rope[i]);
    free(m);
}

// The type of cache that an option names.
static fx_status read_kv_type(fxi_loader *l, fx_error *err)
{
    const char *name = l->opt->kv_type;
    const int head_dim = l->m->model.shape.head_dim;
    const fxi_dtype_info *t = fxi_dtype_by_name(name ? name : "f16");
    const bool known =
        t && (t->id == FXI_F16 || t->id == FXI_BF16 || t->id == FXI_F32 || t->id == FXI_Q8_0);
    if (!known)
        return fxi_fail(err, FX_EINVAL, "KV cache type '%s' is none of f16, bf16, f32, q8_0", name);
    if (head_dim % (int)t->block_elems)
        return fxi_fail(err, FX_EINVAL,
                        "a KV cache of q8_0 needs heads of a multiple of 32 numbers, not %d",
                        head_dim);
    l->m->model.kv_type = (fxi_dtype)t->id;
    return FX_OK;
}

static fx_status load_checked(fxi_loader *l, fx_error *err)
{
    fxi_transformer *m = l->m;
    const fxi_model_options *opt = l->opt;
    char known[256];
    m->model.path = m->dev->path;
    for (uint64_t i = 0; i < fxi_gguf_n_tensor(l->g); i++) {
        const fxi_gguf_tensor *t = fxi_gguf_tensor_at(l->g, i);
        l->total_bytes += t->size_bytes;
        m->model.shape.n_param += t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
    }
    l->taken = calloc(fxi_gguf_n_tensor(l->g) + 1, sizeof *l->taken);
    if (!l->taken) return fxi_fail_memory(err);
    FX_TRY(fxi_gguf_str(l->g, "general.architecture", true, &l->arch, err));
    l->family = fxi_family_find(l->arch);
    if (!l->family) {
        fxi_family_list(known, sizeof known);
        return fxi_fail(err, FX_EFORMAT, "%s: architecture '%s' is not supported (%s)",
                        fxi_gguf_name(l->g), fxi_show_text(l->arch).s, known);
    }
    FX_TRY(fxi_rules_read(l, err));
    FX_TRY(fxi_rules_cut(l, err));
    FX_TRY(read_kv_type(l, err));
    m->ctx_tok = opt->ctx_tok ? opt->ctx_tok : m->model.shape.train_ctx_tok;
    FX_TRY(fxi_ropes_read(l, err));
    FX_TRY(fxi_layers_load(l, err));
    if (!l->cut.rank) FX_TRY(fxi_loader_finish(l, err));
    const fxi_layer *first = &m->layer[0];
    m->model.shape.type =
        fxi_dtype_find(first->experts ? first->experts->up.w[0].type : first->ffn.up.w.type);
    fxi_work_count(m);
    if (l->is_dry) return FX_OK;
    const fxi_pass_limits most = {opt->max_batch_tok, opt->max_batch_logit};
    return m->dev->ops->prepare(m->dev, m, &most, err);
}

fx_status fxi_transformer_load(const fxi_gguf *g, const fxi_model_options *opt, fxi_cut cut,
                               bool is_dry, fxi_transformer **out, fx_error *err)
{
    *out = NULL;
    fxi_transformer *m = calloc(1, sizeof *m);
    if (!m) return fxi_fail_memory(err);
    m->model.pool = opt->pool;
    m->dev = opt->device;
    m->owns_dev = !m->dev;
    fxi_loader l = {.g = g, .opt = opt, .cut = cut, .is_dry = is_dry, .m = m};
    fx_status st = m->dev ? FX_OK : fxi_host_device_open(opt->pool, opt->kernel_path, &m->dev, err);
    if (st == FX_OK) st = load_checked(&l, err);
    free(l.taken);
    free(l.rows);
    if (st == FX_OK)
        *out = m;
    else
        fxi_transformer_free(m);
    return st;
}

// ---- several devices ---------------------------------------------------------------------------

// Progress of the parts, one after the other, as one. Each counts the bytes of the file that it
// takes, which are more than its share: all take the embedding.
typedef struct part_progress {
    const fxi_model_options *opt;
    int rank, n_rank;
    uint64_t total_bytes;
} part_progress;

static void report_part(void *ud, uint64_t done_bytes, uint64_t total_bytes)
{
    part_progress *p = ud;
    const uint64_t share = total_bytes / (uint64_t)p->n_rank, before = share * (uint64_t)p->rank;
    p->total_bytes = total_bytes;
    p->opt->on_progress(p->opt->progress_ud, before + (done_bytes < share ? done_bytes : share),
                        total_bytes);
}

static fx_status load_part(const fxi_gguf *g, const fxi_model_options *opt, int rank,
                           fxi_transformer *m, fx_error *err)
{
    const fxi_device_ranks *all = opt->device->ranks;
    part_progress p = {.opt = opt, .rank = rank, .n_rank = all->n};
    fxi_model_options own = *opt;
    own.device = all->device[rank];
    own.on_progress = opt->on_progress ? report_part : NULL;
    own.progress_ud = &p;
    FX_TRY(
        fxi_transformer_load(g, &own, (fxi_cut){rank, all->n}, false, &m->ranks.part[rank], err));
    if (!opt->on_progress) return FX_OK;
    const uint64_t share = p.total_bytes / (uint64_t)all->n;
    opt->on_progress(opt->progress_ud,
                     rank + 1 == all->n ? p.total_bytes : share * (uint64_t)(rank + 1),
                     p.total_bytes);
    return FX_OK;
}

static fx_status load_all_parts(const fxi_gguf *g, const fxi_model_options *opt, fxi_transformer *m,
                                fx_error *err)
{
    const fxi_device_ranks *all = opt->device->ranks;
    const size_t n = (size_t)opt->max_batch_logit;
    fxi_model_ranks *r = &m->ranks;
    r->max_seq = opt->max_batch_tok;
    r->seq = calloc((size_t)all->n * (size_t)r->max_seq, sizeof *r->seq);
    if (!r->seq) return fxi_fail_memory(err);
    for (int k = 0; k < all->n; k++, r->n++) FX_TRY(load_part(g, opt, k, m, err));

    m->model.shape.head = r->part[0]->model.shape.head;
    m->model.shape.dense = r->part[0]->model.shape.dense;

    // A token's rows on all devices together: several may have the same KV head.
    fxi_kv_layout *kv = &m->model.shape.kv;
    for (int i = 0; i < kv->n_group; i++)
        kv->group[i].row_bytes = (size_t)r->n * r->part[0]->model.shape.kv.group[i].row_bytes;

    // Memory for what each device finds best in its part of the vocabulary.
    for (int k = 0; k < r->n; k++) {
        fxi_device *d = all->device[k];
        void *best, *logit;
        FX_TRY(d->ops->take_host(d, (n + 1) * sizeof(int32_t), &best, err));
        FX_TRY(d->ops->take_host(d, (n + 1) * sizeof(float), &logit, err));
        r->best[k] = best;
        r->best_logit[k] = logit;
    }
    return FX_OK;
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
