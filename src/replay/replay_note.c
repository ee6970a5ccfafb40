// replay_note.c - what a replay notes: requests at their first and last token, memory and the batch
// at every pass; and the figures that follow from it.
#include "replay/replay_parts.h"

#include <stdlib.h>

static void add_number(fxi_replay *r, fxi_series *s, double v)
{
    if (s->n == s->cap) {
        const size_t want = s->cap ? 2 * s->cap : 1024;
        double *more = realloc(s->v, want * sizeof *more);
        if (!more) {
            r->no_memory = true;
            return;
        }
        s->v = more;
        s->cap = want;
    }
    s->v[s->n++] = v;
}

// ---- memory ------------------------------------------------------------------------------------

static void add_sample(fxi_replay *r, const fxi_kv_stats *kv, double now_us)
{
    fxi_replay_figures *f = r->out;
    if (!(f->n_sample & (f->n_sample - 1))) { // full at powers of two
        const size_t want = f->n_sample ? 2 * f->n_sample : 1;
        fxi_replay_sample *more = realloc(f->sample, want * sizeof *more);
        if (!more) {
            r->no_memory = true;
            return;
        }
        f->sample = more;
    }
    f->sample[f->n_sample++] = (fxi_replay_sample){.at_s = (now_us - r->start_us) / 1e6,
                                                   .n_running = r->eng->running.n_seq,
                                                   .n_waiting = r->eng->waiting.n_seq,
                                                   .mapped_bytes = kv->mapped_bytes,
                                                   .live_bytes = kv->live_bytes,
                                                   .cached_bytes = kv->cached_bytes};
}

// What is now has been so since the last pass.
void fxi_replay_note_pass(void *replay)
{
    fxi_replay *r = replay;
    fxi_replay_figures *f = r->out;
    fxi_kv_stats kv;
    const double now_us = fxi_replay_now_us(r), us = now_us - r->noted_us;
    fxi_kv_get_stats(r->eng->kv, &kv);
    f->mean_mapped_bytes += us * (double)kv.mapped_bytes;
    f->mean_live_bytes += us * (double)kv.live_bytes;
    f->mean_cached_bytes += us * (double)kv.cached_bytes;
    if (kv.mapped_bytes > f->peak_mapped_bytes) f->peak_mapped_bytes = kv.mapped_bytes;
    r->busy_us += us;
    r->noted_us = now_us;
    r->batch_sum += r->eng->running.n_seq;
    if (!r->opt->sample_s || now_us < r->next_sample_us) return;
    add_sample(r, &kv, now_us);
    r->next_sample_us = now_us + r->opt->sample_s * 1e6;
}

// ---- requests ----------------------------------------------------------------------------------

static void note_last(fxi_replay_client *c, const fx_event *ev)
{
    fxi_replay *r = c->r;
    const double us = fxi_replay_now_us(r) - c->arrival_us;
    if (ev->finish == FX_FINISH_ERROR || c->n_output == 0) {
        r->out->n_refused++;
        return;
    }
    r->out->n_done++;
    r->out->n_prompt_tok += (uint64_t)ev->n_prompt;
    r->out->n_cached_tok += (uint64_t)ev->n_cached;
    r->out->n_output_tok += (uint64_t)c->n_output;
    add_number(r, &r->per_tok, us / 1e6 / c->n_output);
}

void fxi_replay_on_event(void *client, const fx_event *ev)
{
    fxi_replay_client *c = client;
    fxi_replay *r = c->r;
    if (ev->token >= 0 && ev->choice == 0) {
        if (c->n_output++ == 0)
            add_number(r, &r->first, (fxi_replay_now_us(r) - c->arrival_us) / 1e6);
    }
    if (!ev->last) return;
    note_last(c, ev);
    r->n_open--;
    free(c);
}

// ---- figures -----------------------------------------------------------------------------------

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static fxi_quantiles quantiles_of(fxi_series *s)
{
    fxi_quantiles q = {0};
    if (s->n == 0) return q;
    qsort(s->v, s->n, sizeof *s->v, by_value);
    for (size_t i = 0; i < s->n; i++) q.mean += s->v[i] / (double)s->n;
    q.p50 = s->v[(s->n - 1) / 2];
    q.p99 = s->v[(s->n - 1) * 99 / 100];
    return q;
}

fx_status fxi_replay_finish(fxi_replay *r, fx_error *err)
{
    fxi_replay_figures *f = r->out;
    const double busy_us = r->busy_us > 0 ? r->busy_us : 1;
    f->mean_mapped_bytes /= busy_us;
    f->mean_live_bytes /= busy_us;
    f->mean_cached_bytes /= busy_us;
    f->n_pass = r->model->n_pass;
    f->mean_batch = f->n_pass ? r->batch_sum / (double)f->n_pass : 0;
    f->end_s = (fxi_replay_now_us(r) - r->start_us) / 1e6;
    f->driver_s = r->memory->owner_us / 1e6;
    f->n_preempt_recompute = r->eng->stats.n_preempt_recompute;
    f->n_preempt_swap = r->eng->stats.n_preempt_swap;
    f->first_s = quantiles_of(&r->first);
    f->per_tok_s = quantiles_of(&r->per_tok);
    free(r->first.v);
    free(r->per_tok.v);
    return r->no_memory ? fxi_fail(err, FX_ENOMEM, "no memory for the replay's figures") : FX_OK;
}

void fxi_replay_figures_free(fxi_replay_figures *f)
{
    free(f->sample);
    *f = (fxi_replay_figures){0};
}
