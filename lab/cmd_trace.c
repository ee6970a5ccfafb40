// cmd_trace.c - `flexinfer-lab replay` and `serve`: a trace of requests in virtual time, or
// against a model in real time, for each KV manager in turn.
#include "cli/terminal/terminal.h"
#include "lab/kv_reserve.h"
#include "lab/lab.h"
#include "lab/replay.h"
#include "lab/serve_trace.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

typedef struct trace_job trace_job;

// Runs the trace with the manager that job->setting names.
typedef fx_status run_fn(trace_job *job, fxi_replay_figures *out, fx_error *err);

struct trace_job {
    const fxi_lab_options *o;
    run_fn *run;
    fxi_replay_setting setting; // for the eyes
    fxi_trace trace;
    fxi_load load;
    const fxi_geometry *geometry; // replay: of the model, and what it runs on
    const fxi_simulated_device *device;
    fxi_calibration calibration;
    fxi_progress bar;
    FILE *timeline; // NULL: none
};

static bool show_progress(void *ud, size_t n_done, size_t n_row)
{
    fxi_progress_draw(ud, n_done, n_row);
    return !fxi_signals_stop();
}

static fxi_load load_of(const fxi_lab_options *o)
{
    fxi_load l = fxi_load_start();
    l.rate_per_s = o->rate_per_s;
    l.speed = o->speed;
    l.shrink = o->shrink;
    l.max_row = (size_t)o->max_row;
    l.n_choice = o->n_choice;
    l.beam_width = o->beam_width;
    l.no_cache = o->no_prefixes;
    l.prefix_tok = o->prefix_tok;
    l.seed = o->cli.sampling.seed;
    return l;
}

// ---- in virtual time ---------------------------------------------------------------------------

static fx_status find_named(trace_job *j, fx_error *err)
{
    const fxi_lab_options *o = j->o;
    j->geometry = fxi_geometry_find(o->geometry);
    j->device = fxi_simulated_device_find(o->device);
    if (!j->geometry) return fxi_fail(err, FX_EINVAL, "--geometry: no model '%.60s'", o->geometry);
    if (!j->device) return fxi_fail(err, FX_EINVAL, "--device: no device '%.60s'", o->device);
    return FX_OK;
}

static fx_status find_calibrated(trace_job *j, fx_error *err)
{
    FX_TRY(fxi_calibration_read(j->o->calibration, &j->calibration, err));
    j->geometry = &j->calibration.geometry;
    j->device = &j->calibration.device;
    if (j->o->cli.kv_memory_bytes > 0) return FX_OK;
    return fxi_fail(err, FX_EINVAL, "--calibration needs --kv-memory");
}

static fx_status find_setting(trace_job *j, fx_error *err)
{
    const fxi_lab_options *o = j->o;
    FX_TRY(o->calibration ? find_calibrated(j, err) : find_named(j, err));
    j->setting.model = j->geometry->name;
    j->setting.device = j->device->name;
    j->setting.page_bytes = (size_t)o->page_bytes;
    j->setting.budget_bytes = o->cli.kv_memory_bytes ? o->cli.kv_memory_bytes
                                                     : fxi_setting_kv_bytes(j->geometry, j->device);
    return FX_OK;
}

static fx_status run_virtually(trace_job *j, fxi_replay_figures *out, fx_error *err)
{
    const fxi_lab_options *o = j->o;
    fxi_replay_options opt = fxi_replay_options_start();
    opt.manager = j->setting.manager;
    opt.geometry = j->geometry;
    opt.device = j->device;
    opt.kv_bytes = o->cli.kv_memory_bytes;
    opt.page_bytes = (size_t)o->page_bytes;
    opt.ctx_tok = o->cli.ctx_tok;
    opt.max_seq = o->cli.max_seq;
    opt.step_tok = o->cli.step_tok;
    opt.block_tok = o->cli.kv_block_tok;
    opt.prefix_pass = o->cli.prefix_pass;
    opt.swap_bytes = o->cli.swap_bytes;
    opt.load = j->load;
    opt.sample_s = o->timeline ? o->sample_s : 0;
    opt.on_progress = show_progress;
    opt.progress_ud = &j->bar;
    return fxi_replay_run(&j->trace, &opt, out, err);
}

// ---- in real time ------------------------------------------------------------------------------

static fx_status serve_trace(trace_job *j, fx_engine *eng, fxi_replay_figures *out, fx_error *err)
{
    const fxi_serve_options opt = {.load = j->load,
                                   .sample_s = j->o->timeline ? j->o->sample_s : 0,
                                   .on_progress = show_progress,
                                   .progress_ud = &j->bar};
    return fxi_serve_run(eng, &j->trace, &opt, out, err);
}

// As many as may wait are let in: what is measured is the queue, not its bound. What the engine did
// is written even where it failed.
static fx_status run_really(trace_job *j, fxi_replay_figures *out, fx_error *err)
{
    const char *trace = j->o->cli.trace;
    fx_options opt = fxi_cli_engine_options(&j->o->cli);
    fx_engine *eng = NULL;
    FILE *done;
    *out = (fxi_replay_figures){0};
    opt.kv_manager = j->setting.manager;
    opt.kv_ops = fxi_kv_reserve_find(j->setting.manager);
    opt.max_queue = 1 << 20;
    opt.max_queue_tok = (int64_t)1 << 40;
    FX_TRY(fxi_cli_trace_open(trace, &done, err));
    fx_status st = fxi_cli_open_engine(opt, &eng, err);
    if (st == FX_OK) st = serve_trace(j, eng, out, err);
    const fx_status written = fxi_cli_trace_write(trace, done, eng, st == FX_OK ? err : NULL);
    fx_engine_close(eng);
    return st == FX_OK ? written : st;
}

static fx_status find_model(trace_job *j, fx_error *err)
{
    if (j->o->cli.trace && strchr(j->o->managers, ','))
        return fxi_fail(err, FX_EINVAL, "--trace: the file holds one run; name one manager (--kv)");
    const char *slash = strrchr(j->o->cli.model, '/');
    j->setting.model = slash && slash[1] ? slash + 1 : j->o->cli.model;
    j->setting.device = "this machine";
    j->setting.page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    j->setting.budget_bytes = j->o->cli.kv_memory_bytes;
    return FX_OK;
}

// ---- both --------------------------------------------------------------------------------------

static fx_status run_manager(trace_job *j, const char *manager, fx_error *err)
{
    fxi_replay_figures f;
    j->setting.manager = manager;
    j->bar = fxi_progress_begin(manager);
    fx_status st = j->run(j, &f, err);
    fxi_progress_end(&j->bar);
    if (st == FX_OK && j->o->cli.csv) fxi_replay_print_csv_row(&j->setting, &f);
    if (st == FX_OK && !j->o->cli.csv) fxi_replay_print_row(manager, &f);
    if (st == FX_OK && j->timeline) fxi_replay_print_timeline(j->timeline, manager, &f);
    fxi_replay_figures_free(&f);
    fflush(stdout);
    return st;
}

// Each name of a list that commas separate.
static fx_status run_managers(trace_job *j, fx_error *err)
{
    char name[32];
    if (!*j->o->managers) return fxi_fail(err, FX_EINVAL, "--kv: no manager is named");
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

static fx_status open_timeline(trace_job *j, fx_error *err)
{
    const char *path = j->o->timeline;
    if (!path) return FX_OK;
    j->timeline = fopen(path, "w");
    if (!j->timeline) return fxi_fail(err, FX_EIO, "%s: %s", path, strerror(errno));
    fxi_replay_print_timeline_head(j->timeline);
    return FX_OK;
}

static fx_status close_timeline(trace_job *j, fx_error *err)
{
    FILE *f = j->timeline;
    if (!f) return FX_OK;
    const bool failed = ferror(f);
    if (fclose(f) != 0 || failed)
        return fxi_fail(err, FX_EIO, "%s: %s", j->o->timeline, strerror(errno));
    return FX_OK;
}

static fx_status run_trace(trace_job *j, fx_error *err)
{
    FX_TRY(fxi_trace_open(j->setting.trace, &j->trace, err));
    FX_TRY(open_timeline(j, err));
    if (!fxi_signals_catch()) return fxi_fail(err, FX_EINTERNAL, "out of file descriptors");
    if (j->o->cli.csv)
        fxi_replay_print_csv_head();
    else
        fxi_replay_print_head(&j->setting);
    return run_managers(j, err);
}

// setup fills in what the job runs on.
static int run_job(trace_job *j, fx_status (*setup)(trace_job *j, fx_error *err))
{
    fx_error err;
    j->load = load_of(j->o);
    j->setting.load = &j->load;
    j->setting.max_seq = j->o->cli.max_seq;
    j->setting.block_tok = j->o->cli.kv_block_tok;
    j->setting.swaps = j->o->cli.swap_bytes > 0;
    fx_status st = setup(j, &err);
    if (st == FX_OK) st = run_trace(j, &err);
    fx_status closed = close_timeline(j, st == FX_OK ? &err : NULL);
    fxi_trace_free(&j->trace);
    if (st == FX_OK && closed == FX_OK) return 0;
    return fxi_signals_stop() ? FXI_EXIT_SIGNAL + fxi_signals_stop() : fxi_cli_fail("%s", err.text);
}

int fxi_lab_replay(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    trace_job j = {
        .o = (const fxi_lab_options *)o, .run = run_virtually, .setting = {.trace = rest->arg[0]}};
    return run_job(&j, find_setting);
}

int fxi_lab_serve(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    trace_job j = {
        .o = (const fxi_lab_options *)o, .run = run_really, .setting = {.trace = rest->arg[0]}};
    return run_job(&j, find_model);
}
