// serve_trace.c - a thread that sleeps until the next arrival, or until it is time to look at
// memory. Events come on the engine's thread; what both note is guarded by one lock.
#include "lab/serve_trace.h"

#include "base/system/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

typedef struct trace_run {
    fx_engine *eng;
    const fxi_trace *t;
    const fxi_serve_options *opt;
    fxi_replay_figures *out;
    size_t n_row;
    uint64_t *id;    // [n_row] of the engine; 0: not submitted
    int32_t *prompt; // scratch, [cap_prompt]
    size_t cap_prompt;
    fx_stats before; // when the run began
    double running_sum;
    uint64_t n_look;    // while requests ran
    pthread_mutex_t mu; // the rest:
    fxi_notes notes;
    size_t n_open, n_failed;
} trace_run;

typedef struct trace_client { // a request on its way; freed with its last event
    trace_run *r;
    double arrival_us;
    int n_output;   // tokens of its first answer so far
    uint64_t n_all; // of all its answers
} trace_client;

static double now_us(void)
{
    return fxi_now_s() * 1e6;
}

// ---- on the engine's thread --------------------------------------------------------------------

static void note_served(trace_client *c, const fx_event *ev, double us)
{
    trace_run *r = c->r;
    r->n_open--;
    if (ev->finish != FX_FINISH_LENGTH && ev->finish != FX_FINISH_STOP) {
        r->n_failed++;
        return;
    }
    r->out->n_prompt_tok += (uint64_t)ev->n_prompt;
    r->out->n_cached_tok += (uint64_t)ev->n_cached;
    r->out->n_output_tok += c->n_all;
    fxi_notes_done(&r->notes, us, c->n_output);
}

static void on_serve_event(void *client, const fx_event *ev)
{
    trace_client *c = client;
    trace_run *r = c->r;
    const double us = now_us() - c->arrival_us;
    const bool last = ev->last;
    pthread_mutex_lock(&r->mu);
    c->n_all += ev->token >= 0;
    if (ev->token >= 0 && ev->choice == 0 && c->n_output++ == 0) fxi_notes_first(&r->notes, us);
    if (last) note_served(c, ev, us);
    pthread_mutex_unlock(&r->mu);
    if (last) free(c);
}

// ---- on the caller's thread --------------------------------------------------------------------

static bool is_refused(fx_status st)
{
    return st == FX_ECONTEXT || st == FX_ENOSPACE || st == FX_EQUEUE;
}

// One more or one fewer is on its way.
static void count_open(trace_run *r, int change)
{
    pthread_mutex_lock(&r->mu);
    r->n_open += (size_t)change;
    pthread_mutex_unlock(&r->mu);
}

static fx_status submit_at(trace_run *r, size_t i, double arrival_us, fx_error *err)
{
    fx_request q;
    const uint32_t n_vocab = (uint32_t)fx_engine_info(r->eng)->n_vocab;
    FX_TRY(
        fxi_arrival_request(&r->opt->load, r->t, i, n_vocab, &r->prompt, &r->cap_prompt, &q, err));
    trace_client *c = calloc(1, sizeof *c);
    if (!c) return fxi_fail(err, FX_ENOMEM, "out of memory for a request");
    *c = (trace_client){.r = r, .arrival_us = arrival_us};
    q.on_event = on_serve_event;
    q.ud = c;
    count_open(r, 1);
    fx_status st = fx_submit(r->eng, &q, &r->id[i], err);
    if (st == FX_OK) return FX_OK;
    count_open(r, -1);
    r->out->n_refused += is_refused(st);
    free(c);
    return is_refused(st) ? FX_OK : st;
}

// Notes how memory and the batch are; whether requests are on their way.
static bool look_at_load(trace_run *r, size_t *n_done)
{
    fx_stats s;
    fx_engine_stats(r->eng, &s);
    const fxi_load_state state = {.n_running = (int)s.n_running,
                                  .n_waiting = (int)s.n_waiting,
                                  .kv = {.mapped = (double)s.kv_mapped_bytes,
                                         .live = (double)s.kv_live_bytes,
                                         .used = (double)s.kv_used_bytes,
                                         .reserved = (double)s.kv_reserved_bytes,
                                         .internal = (double)s.kv_internal_bytes,
                                         .external = (double)s.kv_external_bytes,
                                         .cached = (double)s.kv_cached_bytes,
                                         .spare = (double)s.kv_spare_bytes}};
    pthread_mutex_lock(&r->mu);
    const bool busy = r->n_open > 0;
    if (busy)
        fxi_notes_state(&r->notes, now_us(), &state);
    else
        fxi_notes_stop(&r->notes, now_us());
    *n_done = r->out->n_done + r->n_failed + r->out->n_refused;
    pthread_mutex_unlock(&r->mu);
    r->running_sum += busy ? (double)s.n_running : 0;
    r->n_look += busy;
    return busy;
}

// Sleeps until then, or until it is time to look.
static void sleep_towards(double us)
{
    double left_us = us - now_us();
    if (left_us > FXI_SERVE_LOOK_MS * 1e3) left_us = FXI_SERVE_LOOK_MS * 1e3;
    if (left_us <= 0) return;
    const struct timespec ts = {0, (long)(left_us * 1e3)};
    nanosleep(&ts, NULL);
}

static fx_status serve_rows(trace_run *r, fx_error *err)
{
    const size_t n_row = r->n_row;
    const fxi_load *load = &r->opt->load;
    const double start_us = now_us();
    double after_us = 0;
    size_t n_done = 0;
    for (size_t next = 0; look_at_load(r, &n_done) || next < n_row;) {
        if (r->opt->on_progress && !r->opt->on_progress(r->opt->progress_ud, n_done, n_row))
            return fxi_fail(err, FX_ECLOSED, "stopped");
        while (next < n_row && start_us + after_us <= now_us()) {
            FX_TRY(submit_at(r, next, start_us + after_us, err));
            if (++next < n_row) after_us = fxi_arrival_us(load, r->t, next, after_us);
        }
        sleep_towards(next < n_row ? start_us + after_us : now_us() + 1e9);
    }
    return FX_OK;
}

static fx_status fill_figures(trace_run *r, fx_error *err)
{
    fxi_replay_figures *f = r->out;
    fx_stats s;
    fx_engine_stats(r->eng, &s);
    f->budget_bytes = s.kv_budget_bytes;
    f->n_pass = s.n_step - r->before.n_step;
    f->n_preempt_recompute = s.n_preempt_recompute - r->before.n_preempt_recompute;
    f->n_preempt_swap = s.n_preempt_swap - r->before.n_preempt_swap;
    f->mean_batch = r->n_look ? r->running_sum / (double)r->n_look : 0;
    FX_TRY(fxi_notes_end(&r->notes, r->notes.noted_us, err));
    if (r->n_failed == 0) return FX_OK;
    return fxi_fail(err, FX_EINTERNAL, "%zu requests failed", r->n_failed);
}

fx_status fxi_serve_run(fx_engine *eng, const fxi_trace *t, const fxi_serve_options *opt,
                        fxi_replay_figures *out, fx_error *err)
{
    *out = (fxi_replay_figures){0};
    trace_run r = {.eng = eng, .t = t, .opt = opt, .out = out};
    FX_TRY(fxi_load_check(&opt->load, err));
    r.n_row = fxi_load_n_row(&opt->load, t);
    r.id = calloc(r.n_row, sizeof *r.id);
    if (!r.id) return fxi_fail(err, FX_ENOMEM, "out of memory for %zu requests", r.n_row);
    pthread_mutex_init(&r.mu, NULL);
    fx_engine_stats(eng, &r.before);
    fxi_notes_begin(&r.notes, now_us(), opt->sample_s * 1e6, out);
    fx_status st = serve_rows(&r, err);
    // After an error, requests may still be on their way: they end, and only then may r go.
    if (st != FX_OK) {
        size_t n_done;
        for (size_t i = 0; i < r.n_row; i++)
            if (r.id[i]) fx_cancel(r.eng, r.id[i]);
        while (look_at_load(&r, &n_done)) sleep_towards(now_us() + 1e9);
    }
    fx_status filled = fill_figures(&r, st == FX_OK ? err : NULL);
    pthread_mutex_destroy(&r.mu);
    free(r.prompt);
    free(r.id);
    return st != FX_OK ? st : filled;
}
