// notes.c - numbers are kept as they come; figures are made of them at the end.
#include "lab/notes.h"

#include "base/system/grow.h"

static void add_number(fxi_notes *n, fxi_series *s, double v)
{
    if (fxi_grow(&s->v, sizeof v, s->n, &s->cap))
        s->v[s->n++] = v;
    else
        n->no_memory = true;
}

void fxi_notes_begin(fxi_notes *n, double now_us, double sample_us, fxi_replay_figures *out)
{
    *n = (fxi_notes){.out = out, .start_us = now_us, .noted_us = now_us, .sample_us = sample_us};
    n->next_sample_us = now_us;
}

void fxi_notes_idle(fxi_notes *n, double now_us)
{
    n->noted_us = now_us;
}

// ---- the state ---------------------------------------------------------------------------------

// The kinds of bytes as numbers side by side.
enum { N_KIND = sizeof(fxi_memory_kinds) / sizeof(double) };

static void add_bytes(fxi_memory_kinds *sum, const fxi_memory_kinds *v, double weight)
{
    double *to = (double *)sum;
    const double *from = (const double *)v;
    for (int i = 0; i < N_KIND; i++) to[i] += weight * from[i];
}

static void add_load_sample(fxi_notes *n, double now_us, const fxi_load_state *state)
{
    fxi_replay_figures *f = n->out;
    if (!fxi_grow(&f->sample, sizeof *f->sample, f->n_sample, &f->cap_sample)) {
        n->no_memory = true;
        return;
    }
    f->sample[f->n_sample++] = (fxi_replay_sample){(now_us - n->start_us) / 1e6, *state};
    n->next_sample_us = now_us + n->sample_us;
}

void fxi_notes_stop(fxi_notes *n, double now_us)
{
    const double us = n->has_last ? now_us - n->noted_us : 0;
    add_bytes(&n->out->mean, &n->last.kv, us);
    n->busy_us += us;
    n->noted_us = now_us;
    n->has_last = false;
}

void fxi_notes_state(fxi_notes *n, double now_us, const fxi_load_state *from_now_on)
{
    fxi_notes_stop(n, now_us);
    n->last = *from_now_on;
    n->has_last = true;
    if (n->last.kv.mapped > n->out->peak_mapped_bytes)
        n->out->peak_mapped_bytes = n->last.kv.mapped;
    if (n->sample_us > 0 && now_us >= n->next_sample_us) add_load_sample(n, now_us, &n->last);
}

// ---- requests ----------------------------------------------------------------------------------

void fxi_notes_first(fxi_notes *n, double us)
{
    add_number(n, &n->first, us / 1e6);
}

void fxi_notes_done(fxi_notes *n, double us, int n_output)
{
    n->out->n_done++;
    add_number(n, &n->per_tok, us / 1e6 / n_output);
}

// ---- figures -----------------------------------------------------------------------------------

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static fxi_quantiles take_quantiles(fxi_series *s)
{
    fxi_quantiles q = {0};
    if (s->n > 0) {
        qsort(s->v, s->n, sizeof *s->v, by_value);
        for (size_t i = 0; i < s->n; i++) q.mean += s->v[i] / (double)s->n;
        q.p50 = s->v[(s->n - 1) / 2];
        q.p99 = s->v[(s->n - 1) * 99 / 100];
    }
    free(s->v);
    *s = (fxi_series){0};
    return q;
}

fx_status fxi_notes_end(fxi_notes *n, double now_us, fx_error *err)
{
    fxi_replay_figures *f = n->out;
    const fxi_memory_kinds sum = f->mean;
    f->mean = (fxi_memory_kinds){0};
    if (n->busy_us > 0) add_bytes(&f->mean, &sum, 1 / n->busy_us);
    f->end_s = (now_us - n->start_us) / 1e6;
    f->first_s = take_quantiles(&n->first);
    f->per_tok_s = take_quantiles(&n->per_tok);
    return n->no_memory ? fxi_fail(err, FX_ENOMEM, "out of memory for the figures") : FX_OK;
}

void fxi_replay_figures_free(fxi_replay_figures *f)
{
    free(f->sample);
    *f = (fxi_replay_figures){0};
}
