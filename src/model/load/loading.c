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
    if (m->owns_dev) m->dev->ops->close(m->dev);
    fxi_arena_free(&m->mem);
    for (int i = 0; i < 2; i++) fxi_rope_close(&m->rope[i]);
    free(m);
}

static fx_status read_family(fxi_loading *l, fx_error *err)
{
    char known[256];
    FX_TRY(fxi_gguf_str(l->ld->g, "general.architecture", true, &l->arch, err));
    l->family = fxi_family_find(l->arch);
    if (l->family) return FX_OK;
    fxi_family_list(known, sizeof known);
    return fxi_fail(err, FX_EFORMAT, "%s: architecture '%s' is not supported (%s)",
                    fxi_gguf_name(l->ld->g), fxi_show_text(l->arch.p, l->arch.n).s, known);
}

// The type of cache that an option names.
static fx_status read_kv_type(fxi_loading *l, fx_error *err)
{
    const char *name = l->ld->opt->kv_type;
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

static fx_status load_checked(fxi_loading *l, fx_error *err)
{
    fxi_transformer *m = l->m;
    const fxi_model_options *opt = l->ld->opt;
    FX_TRY(read_family(l, err));
    FX_TRY(fxi_rules_read(l, err));
    FX_TRY(fxi_rules_cut(l, err));
    FX_TRY(read_kv_type(l, err));
    m->ctx_tok = opt->ctx_tok ? opt->ctx_tok : m->model.shape.train_ctx_tok;
    FX_TRY(fxi_ropes_read(l, err));
    FX_TRY(fxi_layers_load(l, err));
    if (!l->ld->cut.rank) FX_TRY(fxi_loader_finish(l->ld, err));
    const fxi_layer *first = &m->layer[0];
    m->model.shape.type =
        fxi_dtype_find(first->experts ? first->experts->up.w[0].type : first->ffn.up.w.type);
    m->model.shape.n_param = l->ld->n_param;
    fxi_work_count(m);
    if (l->ld->is_dry) return FX_OK;
    const fxi_pass_limits most = {opt->max_batch_tok, opt->max_batch_logit};
    return m->dev->ops->prepare(m->dev, m, &most, err);
}

// The device that the options name, or the host.
static fx_status choose_device(fxi_transformer *m, const fxi_model_options *opt, fx_error *err)
{
    m->dev = opt->device;
    if (!m->dev) {
        FX_TRY(fxi_host_device_open(opt->pool, opt->kernel_path, &m->dev, err));
        m->owns_dev = true;
    }
    m->model.path = m->dev->path;
    return FX_OK;
}

static fx_status make_transformer(const fxi_gguf *g, const fxi_model_options *opt,
                                  fxi_transformer **out, fx_error *err)
{
    fxi_transformer *m = calloc(1, sizeof *m);
    if (!m) return fxi_fail(err, FX_ENOMEM, "%s: no memory", fxi_gguf_name(g));
    m->model.pool = opt->pool;
    *out = m;
    return FX_OK;
}

fx_status fxi_transformer_load(const fxi_gguf *g, const fxi_model_options *opt, fxi_cut cut,
                               bool is_dry, fxi_transformer **out, fx_error *err)
{
    fxi_transformer *m;
    fxi_loader ld = {0};
    *out = NULL;
    FX_TRY(make_transformer(g, opt, &m, err));
    fxi_loading l = {.ld = &ld, .m = m};
    fx_status st = choose_device(m, opt, err);
    if (st == FX_OK) st = fxi_loader_init(&ld, g, opt, cut, &m->mem, is_dry ? NULL : m->dev, err);
    if (st == FX_OK) st = load_checked(&l, err);
    fxi_loader_free(&ld);
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
