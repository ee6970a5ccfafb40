// serve_trace.c - a thread that sleeps until the next arrival, or until it is time to look at
// memory.
#include "lab/serve_trace.h"

#include "base/system/clock.h"

#include <stdlib.h>
#include <time.h>

typedef struct served_trace {
    fxi_trace_run run;
    size_t n_row;
    uint64_t *id;    // [n_row] of the engine; 0: not submitted
    fx_stats before; // when the run began
    double running_sum;
    uint64_t n_look; // while requests ran
} served_trace;

static double wall_us(const void *clock)
{
    (void)clock;
    return fxi_now_s() * 1e6;
}

// Notes how memory and the batch are; whether requests are on their way.
static bool look_at_load(served_trace *r, size_t *n_done)
{
    fx_stats s;
    fx_engine_stats(r->run.eng, &s);
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
    const bool is_busy = fxi_run_note(&r->run, &state, n_done);
    r->running_sum += is_busy ? (double)s.n_running : 0;
    r->n_look += is_busy;
    return is_busy;
}

// Sleeps for so long, or until it is time to look.
static void sleep_for(double us)
{
    if (us > FXI_SERVE_LOOK_MS * 1e3) us = FXI_SERVE_LOOK_MS * 1e3;
    const struct timespec ts = {0, (long)(us * 1e3)};
    if (us > 0) nanosleep(&ts, NULL);
}

static fx_status serve_rows(served_trace *r, fx_error *err)
{
    const size_t n_row = r->n_row;
    const fxi_run_options *opt = r->run.opt;
    const double start_us = wall_us(NULL);
    double after_us = 0;
    size_t n_done = 0;
    for (size_t next = 0; look_at_load(r, &n_done) || next < n_row;) {
        if (opt->on_progress && !opt->on_progress(opt->progress_ud, n_done, n_row))
            return fxi_fail(err, FX_ECLOSED, "stopped");
        while (next < n_row && start_us + after_us <= wall_us(NULL)) {
            FX_TRY(fxi_run_submit(&r->run, next, start_us + after_us, &r->id[next], err));
            if (++next < n_row) after_us = fxi_arrival_us(&opt->load, r->run.t, next, after_us);
        }
        sleep_for(next < n_row ? start_us + after_us - wall_us(NULL) : 1e9);
    }
    return FX_OK;
}

static fx_status fill_figures(served_trace *r, fx_error *err)
{
    fxi_replay_figures *f = r->run.out;
    fx_stats s;
    fx_engine_stats(r->run.eng, &s);
    f->budget_bytes = s.kv_budget_bytes;
    f->n_pass = s.n_step - r->before.n_step;
    f->n_preempt_recompute = s.n_preempt_recompute - r->before.n_preempt_recompute;
    f->n_preempt_swap = s.n_preempt_swap - r->before.n_preempt_swap;
    f->mean_batch = r->n_look ? r->running_sum / (double)r->n_look : 0;
    FX_TRY(fxi_run_end(&r->run, err));
    if (r->run.n_failed == 0) return FX_OK;
    return fxi_fail(err, FX_EINTERNAL, "%zu requests failed", r->run.n_failed);
}

fx_status fxi_serve_run(fx_engine *eng, const fxi_trace *t, const fxi_run_options *opt,
                        fxi_replay_figures *out, fx_error *err)
{
    *out = (fxi_replay_figures){0};
    served_trace r = {.run = {.t = t, .opt = opt, .eng = eng, .now_us = wall_us},
                      .n_row = fxi_load_n_row(&opt->load, t)};
    FX_TRY(fxi_load_check(&opt->load, err));
    r.id = calloc(r.n_row, sizeof *r.id);
    if (!r.id) return fxi_fail(err, FX_ENOMEM, "out of memory for %zu requests", r.n_row);
    fx_engine_stats(eng, &r.before);
    fxi_run_begin(&r.run, out);
    fx_status st = serve_rows(&r, err);
    // After an error, requests may still be on their way: they end, and only then may r go.
    if (st != FX_OK) {
        size_t n_done;
        for (size_t i = 0; i < r.n_row; i++)
            if (r.id[i]) fx_cancel(eng, r.id[i]);
        while (look_at_load(&r, &n_done)) sleep_for(1e9);
    }
    fx_status filled = fill_figures(&r, st == FX_OK ? err : NULL);
    free(r.id);
    return st != FX_OK ? st : filled;
}
