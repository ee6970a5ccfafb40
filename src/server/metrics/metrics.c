// metrics.c - recording, and the figures that a page is made from.
#include "server/metrics/metrics.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define N_CELL   (sizeof(fxi_counts) / sizeof(uint64_t))
#define UNIT_US  500 // of the buckets of times
#define AT(what) (offsetof(fxi_counts, what) / sizeof(uint64_t))

struct fxi_metrics {
    atomic_int refs;
    const char *route[FXI_MAX_ROUTE];
    int n_route;
    _Atomic uint64_t cell[N_CELL]; // an fxi_counts
};

fxi_metrics *fxi_metrics_new(const char *const *route, int n_route)
{
    fxi_metrics *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    atomic_init(&m->refs, 1);
    m->n_route = n_route < FXI_MAX_ROUTE ? n_route : FXI_MAX_ROUTE;
    for (int i = 0; i < m->n_route; i++) m->route[i] = route[i];
    return m;
}

fxi_metrics *fxi_metrics_ref(fxi_metrics *m)
{
    atomic_fetch_add(&m->refs, 1);
    return m;
}

void fxi_metrics_unref(fxi_metrics *m)
{
    if (m && atomic_fetch_sub(&m->refs, 1) == 1) free(m);
}

// ---- recording ----------------------------------------------------------------------------------

static void add_count(fxi_metrics *m, size_t at, uint64_t n)
{
    atomic_fetch_add_explicit(&m->cell[at], n, memory_order_relaxed);
}

// The bucket of value v: the least i with v <= 2^i.
static int bucket_for(uint64_t v)
{
    if (v <= 1) return 0;
    int i = 64 - __builtin_clzll(v - 1);
    return i < FX_N_BUCKET ? i : FX_N_BUCKET;
}

static void add_value(fxi_metrics *m, size_t histogram_at, uint64_t v, uint64_t unit)
{
    _Static_assert(offsetof(fx_histogram, count) == 0, "the buckets come first");
    add_count(m, histogram_at + (size_t)bucket_for((v + unit - 1) / unit), 1);
    add_count(m, histogram_at + offsetof(fx_histogram, sum) / sizeof(uint64_t), v);
}

static void add_tokens(fxi_metrics *m, size_t histogram_at, int n_tok)
{
    add_value(m, histogram_at, (uint64_t)n_tok, 1);
}

static void add_time(fxi_metrics *m, size_t histogram_at, uint64_t us)
{
    add_value(m, histogram_at, us, UNIT_US);
}

static void count_last(fxi_metrics *m, const fx_event *ev, uint64_t age_us)
{
    add_time(m, AT(e2e), age_us);
    add_time(m, AT(queue), ev->queued_us);
    add_time(m, AT(prefill), ev->prefill_us);
    add_time(m, AT(decode), ev->decode_us);
    add_tokens(m, AT(prompt_tok), ev->n_prompt);
}

void fxi_metrics_event(fxi_metrics *m, const fx_event *ev, uint64_t age_us, bool is_first)
{
    if (is_first) add_time(m, AT(first_token), age_us);
    if (ev->gap_us) add_time(m, AT(between_tokens), ev->gap_us);
    if (ev->finish != FX_FINISH_NONE) {
        add_count(m, AT(finished) + (size_t)ev->finish, 1);
        add_tokens(m, AT(generated_tok), ev->n_generated);
    }
    if (ev->last) count_last(m, ev, age_us);
}

void fxi_metrics_request(fxi_metrics *m, int route, int status, const char *code)
{
    const int reject = code ? fxi_reject_index(code) : -1;
    const size_t row = route >= 0 && route < m->n_route ? (size_t)route : (size_t)m->n_route;
    add_count(m, AT(http) + row * FXI_N_STATUS + (size_t)fxi_status_index(status), 1);
    if (reject >= 0) add_count(m, AT(rejected) + (size_t)reject, 1);
}

// ---- the page -----------------------------------------------------------------------------------

static void read_counts(const fxi_metrics *m, fxi_counts *out)
{
    uint64_t cell[N_CELL];
    for (size_t i = 0; i < N_CELL; i++)
        cell[i] = atomic_load_explicit(&m->cell[i], memory_order_relaxed);
    memcpy(out, cell, sizeof *out);
}

static double usage_of(const fx_stats *st)
{
    const uint64_t idle = st->kv_cached_bytes + st->kv_spare_bytes;
    if (!st->kv_budget_bytes || st->kv_mapped_bytes < idle) return 0;
    return (double)(st->kv_mapped_bytes - idle) / (double)st->kv_budget_bytes;
}

static void gather_figures(const fxi_metrics *m, const fx_engine *eng, const fxi_server_gauges *g,
                           fxi_figures *s)
{
    fx_engine_stats(eng, &s->engine);
    fx_engine_details(eng, &s->details);
    read_counts(m, &s->counts);
    fxi_process_read(&s->process);
    s->server = *g;
    s->prompt_tok = s->engine.n_prompt_tok + s->engine.n_cached_tok;
    s->kv_usage = usage_of(&s->engine);
    s->max_mappings =
        s->engine.kv_max_mappings == UINT64_MAX ? INFINITY : (double)s->engine.kv_max_mappings;
}

bool fxi_metrics_page(fxi_buf *b, const fxi_metrics *m, const fx_engine *eng,
                      const fxi_server_gauges *g)
{
    const fx_model_info *info = fx_engine_info(eng);
    const char *const build[] = {"version", fx_version(), "kernels", info->kernel_path};
    const char *const model[] = {"arch",     info->arch,   "type",
                                 info->type, "cache_type", info->kv_type};
    fxi_figures *s = calloc(1, sizeof *s);
    if (!s) return false;
    gather_figures(m, eng, g, s);
    bool ok = fxi_metrics_info(b, "build_info", "The program that runs.", build, 2) &&
              fxi_metrics_info(b, "model_info", "The model that it serves.", model, 3) &&
              fxi_metrics_text(b, s, m->route, m->n_route);
    free(s);
    return ok;
}
