// replay.c - the clock, the arrivals, and the turns of the engine.
#include "replay/replay_parts.h"

#include "engine/iteration.h"

#include <stdlib.h>

enum { MAX_EMPTY_TURNS = 100000, PROGRESS_STEPS = 100 };

#define EMPTY_TURN_US 1000 // of a turn in which nothing can be computed

fxi_replay_options fxi_replay_options_start(void)
{
    return (fxi_replay_options){.manager = "vtensor",
                                .geometry = fxi_geometry_find("opt-13b"),
                                .device = fxi_paper_device_find("a100-40g"),
                                .page_bytes = 2 << 20,
                                .max_seq = 256,
                                .step_tok = 2048,
                                .load = fxi_load_start()};
}

// ---- requests ----------------------------------------------------------------------------------

static bool is_refusal(fx_status st)
{
    return st == FX_ECONTEXT || st == FX_ENOSPACE;
}

static fx_status submit_row(fxi_replay *r, size_t i, double arrival_us, fx_error *err)
{
    uint64_t id;
    fx_request q;
    FX_TRY(fxi_arrival_request(&r->opt->load, r->t, i, FXI_PAPER_VOCAB, &r->prompt, &r->cap_prompt,
                               &q, err));
    fxi_replay_client *c = calloc(1, sizeof *c);
    if (!c) return fxi_fail(err, FX_ENOMEM, "no memory for a request");
    *c = (fxi_replay_client){.r = r, .arrival_us = arrival_us};
    q.on_event = fxi_replay_on_event;
    q.ud = c;
    r->n_open++;
    fx_status st = fx_submit(r->eng, &q, &id, err);
    if (st == FX_OK) return FX_OK;
    r->n_open--;
    r->out->n_refused += is_refusal(st);
    free(c);
    return is_refusal(st) ? FX_OK : st;
}

// ---- the loop ----------------------------------------------------------------------------------

static bool goes_on(const fxi_replay *r, size_t n_row, size_t *next_step)
{
    const size_t n_done = r->out->n_done + r->out->n_refused;
    if (!r->opt->on_progress || n_done < *next_step) return true;
    *next_step = n_done + (n_row + PROGRESS_STEPS - 1) / PROGRESS_STEPS;
    return r->opt->on_progress(r->opt->progress_ud, n_done, n_row);
}

// One turn. Time passes in every turn, so that what waits for time to pass does not wait for ever.
static fx_status take_turn(fxi_replay *r, int *n_empty, fx_error *err)
{
    const uint64_t n_pass = r->model->n_pass;
    (void)fxi_iteration_run(r->eng);
    *n_empty = r->model->n_pass > n_pass ? 0 : *n_empty + 1;
    if (*n_empty > 0) r->model->clock_us += EMPTY_TURN_US;
    if (*n_empty > MAX_EMPTY_TURNS)
        return fxi_fail(err, FX_EINTERNAL, "%zu requests wait, and the engine computes nothing",
                        r->n_open);
    return FX_OK;
}

// Nothing runs until the next arrival.
static void sleep_until(fxi_replay *r, double us)
{
    if (us <= fxi_replay_now_us(r)) return;
    (void)fxi_iteration_run(r->eng); // idle from now on
    if (us > fxi_replay_now_us(r)) r->model->clock_us += us - fxi_replay_now_us(r);
    r->memory->is_beside = true; // what is given back was given back meanwhile
    (void)fxi_iteration_run(r->eng);
    r->memory->is_beside = false;
    fxi_notes_idle(&r->notes, fxi_replay_now_us(r));
}

static fx_status run_all(fxi_replay *r, size_t n_row, fx_error *err)
{
    size_t next = 0, next_step = 0;
    int n_empty = 0;
    const double start_us = fxi_replay_now_us(r);
    double after_us = 0; // of row `next`, from the start
    while (next < n_row || r->n_open > 0) {
        if (!goes_on(r, n_row, &next_step)) return fxi_fail(err, FX_ECLOSED, "stopped");
        if (r->n_open == 0) sleep_until(r, start_us + after_us);
        while (next < n_row && start_us + after_us <= fxi_replay_now_us(r)) {
            FX_TRY(submit_row(r, next, start_us + after_us, err));
            if (++next < n_row) after_us = fxi_arrival_us(&r->opt->load, r->t, next, after_us);
        }
        if (r->n_open > 0) FX_TRY(take_turn(r, &n_empty, err));
        if (r->n_open == 0) fxi_notes_stop(&r->notes, fxi_replay_now_us(r));
    }
    return FX_OK;
}

static fx_status check_options(const fxi_replay_options *o, fx_error *err)
{
    if (o->max_seq < 1 || o->step_tok < 1 || o->ctx_tok < 0)
        return fxi_fail(err, FX_EINVAL, "replay: sequences, step or context out of range");
    if (o->page_bytes < 4096 || o->page_bytes & (o->page_bytes - 1))
        return fxi_fail(err, FX_EINVAL,
                        "replay: pages of %zu bytes are not a power of two from 4096",
                        o->page_bytes);
    return FX_OK;
}

fx_status fxi_replay_run(const fxi_trace *t, const fxi_replay_options *opt, fxi_replay_figures *out,
                         fx_error *err)
{
    *out = (fxi_replay_figures){0};
    fxi_replay r = {.t = t, .opt = opt, .out = out};
    FX_TRY(check_options(opt, err));
    FX_TRY(fxi_load_check(&opt->load, err));
    FX_TRY(fxi_replay_open(&r, err));
    r.open_us = r.memory->owner_us;
    fxi_notes_begin(&r.notes, fxi_replay_now_us(&r), opt->sample_s * 1e6, out);
    fx_status st = run_all(&r, fxi_load_n_row(&opt->load, t), err);
    fxi_iteration_end_all(r.eng, FX_FINISH_ABORT);
    fx_status finished = fxi_replay_finish(&r, st == FX_OK ? err : NULL);
    fxi_replay_close(&r);
    free(r.prompt);
    return st != FX_OK ? st : finished;
}
