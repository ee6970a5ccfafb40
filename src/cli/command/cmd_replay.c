// cmd_replay.c - `flexinfer bench replay`: a trace in virtual time, for each manager in turn.
#include "cli/bench/replay_print.h"
#include "cli/command/command.h"
#include "cli/terminal/terminal.h"

#include <errno.h>
#include <string.h>

typedef struct replay_job {
    const fxi_cli_options *o;
    fxi_replay_options opt;
    const char *path;
    fxi_trace trace;
    fxi_progress bar;
    FILE *timeline; // NULL: none
} replay_job;

static bool show_progress(void *ud, size_t n_done, size_t n_row)
{
    fxi_progress_draw(ud, n_done, n_row);
    return !fxi_signals_stop();
}

static fx_status find_setting(replay_job *j, fx_error *err)
{
    const fxi_cli_options *o = j->o;
    j->opt = fxi_replay_options_start();
    j->opt.geometry = fxi_geometry_find(o->geometry);
    j->opt.device = fxi_device_find(o->device);
    if (!j->opt.geometry)
        return fxi_fail(err, FX_EINVAL, "--geometry: no model '%.60s'", o->geometry);
    if (!j->opt.device) return fxi_fail(err, FX_EINVAL, "--device: no device '%.60s'", o->device);
    j->opt.kv_bytes = o->kv_memory_bytes;
    j->opt.page_bytes = (size_t)o->page_bytes;
    j->opt.ctx_tok = o->ctx_tok;
    j->opt.max_seq = o->max_seq;
    j->opt.step_tok = o->step_tok;
    j->opt.rate_per_s = o->rate_per_s;
    j->opt.max_row = (size_t)o->max_row;
    j->opt.n_choice = o->n_choice;
    j->opt.seed = o->sampling.seed;
    j->opt.sample_s = o->timeline ? o->sample_s : 0;
    j->opt.on_progress = show_progress;
    j->opt.progress_ud = &j->bar;
    return FX_OK;
}

static fx_status run_manager(replay_job *j, const char *manager, fx_error *err)
{
    fxi_replay_figures f;
    j->opt.manager = manager;
    j->bar = fxi_progress_begin(manager);
    fx_status st = fxi_replay_run(&j->trace, &j->opt, &f, err);
    fxi_progress_end(&j->bar);
    if (st == FX_OK && j->o->csv) fxi_replay_print_csv_row(&j->opt, j->path, &f);
    if (st == FX_OK && !j->o->csv) fxi_replay_print_row(manager, &f);
    if (st == FX_OK && j->timeline) fxi_replay_print_timeline(j->timeline, manager, &f);
    fxi_replay_figures_free(&f);
    fflush(stdout);
    return st;
}

// Each name of a list that commas separate.
static fx_status run_managers(replay_job *j, fx_error *err)
{
    char name[32];
    for (const char *p = j->o->managers; *p;) {
        const size_t n = strcspn(p, ",");
        if (n == 0 || n >= sizeof name)
            return fxi_fail(err, FX_EINVAL, "--kv: '%.60s' is not a list of names", j->o->managers);
        memcpy(name, p, n);
        name[n] = 0;
        FX_TRY(run_manager(j, name, err));
        p += n + (p[n] == ',');
    }
    return FX_OK;
}

static fx_status open_timeline(replay_job *j, fx_error *err)
{
    const char *path = j->o->timeline;
    if (!path) return FX_OK;
    j->timeline = fopen(path, "w");
    if (!j->timeline) return fxi_fail(err, FX_EIO, "%s: %s", path, strerror(errno));
    fxi_replay_print_timeline_head(j->timeline);
    return FX_OK;
}

static fx_status close_timeline(replay_job *j, fx_error *err)
{
    FILE *f = j->timeline;
    if (!f) return FX_OK;
    const bool failed = ferror(f);
    if (fclose(f) != 0 || failed)
        return fxi_fail(err, FX_EIO, "%s: %s", j->o->timeline, strerror(errno));
    return FX_OK;
}

static fx_status replay_trace(replay_job *j, fx_error *err)
{
    FX_TRY(find_setting(j, err));
    FX_TRY(fxi_trace_open(j->path, &j->trace, err));
    FX_TRY(open_timeline(j, err));
    if (!fxi_signals_catch()) return fxi_fail(err, FX_EINTERNAL, "out of file descriptors");
    if (j->o->csv)
        fxi_replay_print_csv_head();
    else
        fxi_replay_print_head(&j->opt, j->path);
    return run_managers(j, err);
}

int fxi_cmd_replay(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    fx_error err;
    replay_job j = {.o = o, .path = rest->arg[0]};
    fx_status st = replay_trace(&j, &err);
    fx_status closed = close_timeline(&j, st == FX_OK ? &err : NULL);
    fxi_trace_free(&j.trace);
    if (st == FX_OK && closed == FX_OK) return 0;
    return fxi_signals_stop() ? FXI_EXIT_SIGNAL + fxi_signals_stop() : fxi_cli_fail("%s", err.text);
}
