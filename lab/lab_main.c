// lab_main.c - flexinfer-lab: traces of requests in virtual time, or on a model in real time, for
// each of several KV managers in turn.
#include "base/json/json.h"
#include "base/system/regions.h"
#include "base/text/str.h"
#include "cli/cli.h"
#include "cli/terminal/terminal.h"
#include "lab/kv_reserve.h"
#include "lab/replay.h"
#include "lab/serve_trace.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct lab_options {
    fxi_cli_options cli; // first: a program's options are cast to this
    const char *managers, *geometry, *device;
    const char *calibration, *timeline; // NULL: not given
    fxi_load load;
    float sample_s;
    uint64_t page_bytes;
} lab_options;

// ---- calibration -------------------------------------------------------------------------------
//
// Two figures say how fast a pass is: the fastest prompt gives the operations per
// second, and decoding one sequence with the shortest context the bytes per second. Both count the
// weights as 16-bit numbers, as replays do; what a type of fewer bits gains is in the figures.

typedef struct calibration {
    fxi_geometry geometry; // the model's
    fxi_simulated_device
        device;     // as fast as the measured prompts and decodes; its memory is not known
    char name[128]; // of the model
} calibration;

// What the host's calls cost, a thousandth of a forward pass here: docs/embed/libvtensor.md, "In
// time".
static const fxi_memory_costs host_costs = {.reserve_us = 5,
                                            .create_us = 1,
                                            .map_us = 2,
                                            .protect_us = 2,
                                            .unmap_us = 2,
                                            .copy_us_per_gb = 2e5,
                                            .swap_us_per_gb = 1e6};

static double json_number_of(const fxi_json *o, const char *name)
{
    return fxi_json_number(fxi_json_get(o, name));
}

static fx_status read_geometry(const fxi_json *m, calibration *c)
{
    fxi_geometry *g = &c->geometry;
    snprintf(c->name, sizeof c->name, "%s", fxi_json_text(fxi_json_get(m, "name")));
    *g = (fxi_geometry){.name = c->name,
                        .n_layer = (int)json_number_of(m, "n_layer"),
                        .dim = (int)json_number_of(m, "dim"),
                        .n_head = (int)json_number_of(m, "n_head"),
                        .n_kv_head = (int)json_number_of(m, "n_kv_head"),
                        .head_dim = (int)json_number_of(m, "head_dim"),
                        .n_param = json_number_of(m, "n_param"),
                        .ctx_tok = (int)json_number_of(m, "ctx_tok")};
    const bool is_whole = g->n_layer > 0 && g->dim > 0 && g->n_head > 0 && g->n_kv_head > 0 &&
                          g->head_dim > 0 && g->n_param > 0 && g->ctx_tok > 0;
    return is_whole ? FX_OK : FX_EFORMAT;
}

static fx_status read_speed(const fxi_json *all, calibration *c)
{
    const fxi_json *decode = NULL; // of one sequence, with the shortest context
    double prompt_tok_s = 0;       // of the fastest prompt
    for (fxi_json_iter it = fxi_json_items(fxi_json_get(all, "prompt")); fxi_json_next(&it);)
        prompt_tok_s = fmax(prompt_tok_s, json_number_of(it.value, "tokens_per_s"));
    for (fxi_json_iter it = fxi_json_items(fxi_json_get(all, "decode")); fxi_json_next(&it);)
        if (json_number_of(it.value, "batch") == 1 &&
            (!decode ||
             json_number_of(it.value, "mean_context") < json_number_of(decode, "mean_context")))
            decode = it.value;
    const double tok_s = decode ? json_number_of(decode, "tokens_per_s") : 0;
    if (prompt_tok_s <= 0 || tok_s <= 0) return FX_EFORMAT;
    const fxi_geometry *g = &c->geometry;
    const double row_bytes = 2.0 * g->n_layer * (double)fxi_geometry_row_bytes(g);
    const double pass_bytes = 2 * g->n_param + json_number_of(decode, "mean_context") * row_bytes;
    c->device = (fxi_simulated_device){.name = "this machine",
                                       .tflops = 2 * g->n_param * prompt_tok_s / 1e12,
                                       .read_gb_s = pass_bytes * tok_s / 1e9,
                                       .costs = host_costs};
    return FX_OK;
}

// `out` must not be moved: its geometry's name lies in it. Errors: FX_EFORMAT (not what bench
// --json writes, or a run without a prompt or without a batch of 1), FX_ENOMEM.
static fx_status parse_calibration(const char *path, const fxi_mapping *m, calibration *out,
                                   fx_error *err)
{
    fxi_json_doc doc = {0};
    fx_error e;
    const fxi_str text = {(const char *)m->data, m->size_bytes};
    fx_status st = fxi_json_parse(&doc, text, &(fxi_json_rules){0}, &e);
    if (st == FX_ENOMEM)
        st = fxi_fail(err, FX_ENOMEM, "%s: out of memory", path);
    else if (st != FX_OK)
        st = fxi_fail(err, FX_EFORMAT, "%s: %s", path, e.text);
    else if (read_geometry(fxi_json_get(doc.root, "model"), out) != FX_OK ||
             read_speed(doc.root, out) != FX_OK)
        st = fxi_fail(err, FX_EFORMAT,
                      "%s: not what 'flexinfer bench --json' writes for a batch of 1", path);
    fxi_json_doc_free(&doc);
    return st;
}

// ---- figures as a table and as CSV -------------------------------------------------------------
//
// A row for each manager: how fast, how long, and where the memory was.

// A trace that runs with one manager after the other.
typedef struct trace_job {
    const lab_options *o;
    const char *path;                    // of the trace
    const char *manager, *model, *place; // those of a row; place: the device's name
    size_t page_bytes;
    uint64_t budget_bytes; // of KV memory; 0: by default
    fxi_trace trace;
    fxi_run_options run;
    const fxi_geometry *geometry; // replay: of the model, and what it runs on
    const fxi_simulated_device *device;
    calibration measured;
    fxi_progress bar;
    FILE *timeline; // NULL: none
} trace_job;

static double to_gb(double bytes)
{
    return bytes / 1e9;
}

static double percent_of(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

typedef struct replay_column {
    const char *csv, *head; // its name and unit in CSV, and in the table
    int width, digits;      // of the table; width 0: only in CSV
    double value;
} replay_column;

enum { N_COLUMN = 27 };

static void fill_columns(const fxi_replay_figures *f, replay_column out[N_COLUMN])
{
    const double end_s = f->end_s, budget = (double)f->budget_bytes, live = f->mean.live;
    const replay_column list[N_COLUMN] = {
        {"requests_done", "done", 7, 0, (double)f->n_done},
        {"requests_refused", NULL, 0, 0, (double)f->n_refused},
        {"virtual_s", "time s", 9, 1, end_s},
        {"requests_per_s", "req/s", 7, 2, end_s > 0 ? (double)f->n_done / end_s : 0},
        {"output_tokens_per_s", "tokens/s", 9, 0, end_s > 0 ? (double)f->n_output_tok / end_s : 0},
        {"mean_batch", "batch", 7, 1, f->mean_batch},
        {"first_token_p50_s", "first p50", 10, 3, f->first_s.p50},
        {"first_token_p99_s", "p99 s", 9, 3, f->first_s.p99},
        {"s_per_token_mean", "s/token", 9, 4, f->per_tok_s.mean},
        {"s_per_token_p99", NULL, 0, 0, f->per_tok_s.p99},
        {"prefix_hits_percent", "hits %", 7, 1,
         percent_of((double)f->n_cached_tok, (double)f->n_prompt_tok)},
        {"preempted_recompute", "again", 6, 0, (double)f->n_preempt_recompute},
        {"preempted_swap", "swap", 6, 0, (double)f->n_preempt_swap},
        {"budget_gb", NULL, 0, 0, to_gb(budget)},
        {"mapped_mean_gb", "mapped", 8, 2, to_gb(f->mean.mapped)},
        {"live_mean_gb", "live", 8, 2, to_gb(live)},
        {"cached_mean_gb", "cached GB", 10, 2, to_gb(f->mean.cached)},
        {"mapped_peak_gb", NULL, 0, 0, to_gb(f->peak_mapped_bytes)},
        {"driver_wait_s", NULL, 0, 0, f->driver_s},
        {"driver_percent", NULL, 0, 0, percent_of(f->driver_s, end_s)},
        {"used_percent", "used %", 8, 1, percent_of(f->mean.used, budget)},
        {"reserved_percent", "reserved", 9, 1, percent_of(f->mean.reserved, budget)},
        {"internal_percent", "internal", 9, 1, percent_of(f->mean.internal, budget)},
        {"external_percent", "external", 9, 1, percent_of(f->mean.external, budget)},
        {"cached_percent", NULL, 0, 0, percent_of(f->mean.cached, budget)},
        {"spare_percent", NULL, 0, 0, percent_of(f->mean.spare, budget)},
        {"shared_percent", NULL, 0, 0, live > 0 ? 100 * (1 - f->mean.used / live) : 0},
    };
    memcpy(out, list, sizeof list);
}

static void print_replay_head(const trace_job *j)
{
    replay_column column[N_COLUMN];
    fill_columns(&(fxi_replay_figures){0}, column);
    if (j->o->cli.csv) {
        printf("trace,manager,model,device,page_kib,rate_per_s,max_seq,choices,beams,prefix_tokens,"
               "block_tokens,preempt");
        for (int i = 0; i < N_COLUMN; i++) printf(",%s", column[i].csv);
        printf("\n");
        return;
    }
    printf("trace    %s", j->path);
    if (j->run.load.rate_per_s > 0) printf(", %.3g requests/s", (double)j->run.load.rate_per_s);
    printf("\nsetting  %s on %s, ", j->model, j->place);
    if (j->budget_bytes) printf("%.2f GB of KV memory, ", to_gb((double)j->budget_bytes));
    printf("pages of %zu KiB\n\n%-14s", j->page_bytes >> 10, "manager");
    for (int i = 0; i < N_COLUMN; i++)
        if (column[i].width) printf("%*s", column[i].width, column[i].head);
    printf("\n");
}

static void print_replay_row(const trace_job *j, const fxi_replay_figures *f)
{
    // "mooncake_synthetic" of "some/folder/mooncake_synthetic.part.csv"
    const char *slash = strrchr(j->path, '/'), *name = slash ? slash + 1 : j->path;
    const char *dot = strchr(name, '.');
    const int n_name = (int)(dot && dot != name ? (size_t)(dot - name) : strlen(name));
    const fxi_load *l = &j->run.load;
    const fx_options *e = &j->o->cli.engine;
    const bool csv = j->o->cli.csv;
    replay_column column[N_COLUMN];
    fill_columns(f, column);
    if (csv)
        printf("%.*s,%s,%s,%s,%zu,%g,%d,%d,%d,%d,%d,%s", n_name, name, j->manager, j->model,
               j->place, j->page_bytes >> 10, (double)l->rate_per_s, e->max_seq, l->n_choice,
               l->beam_width, l->prefix_tok, e->kv_block_tok, e->swap_bytes ? "swap" : "recompute");
    else
        printf("%-14s", j->manager);
    for (const replay_column *c = column; c < column + N_COLUMN; c++)
        if (csv)
            printf(",%.9g", c->value);
        else if (c->width)
            printf("%*.*f", c->width, c->digits, c->value);
    printf("\n");
}

static bool show_progress(void *ud, size_t n_done, size_t n_row)
{
    fxi_progress_draw(ud, n_done, n_row);
    return !fxi_signals_stop();
}

// ---- in virtual time ---------------------------------------------------------------------------

static fx_status find_calibrated(trace_job *j, fx_error *err)
{
    const char *path = j->o->calibration;
    fxi_mapping m = {0};
    FX_TRY(fxi_mapping_open(path, &m, err));
    fx_status st = parse_calibration(path, &m, &j->measured, err);
    fxi_mapping_close(&m);
    FX_TRY(st);
    j->geometry = &j->measured.geometry;
    j->device = &j->measured.device;
    if (j->o->cli.engine.kv_memory_bytes > 0) return FX_OK;
    return fxi_fail(err, FX_EINVAL, "--calibration needs --kv-memory");
}

static fx_status find_setting(trace_job *j, fx_error *err)
{
    const lab_options *o = j->o;
    j->geometry = fxi_geometry_find(o->geometry);
    j->device = fxi_simulated_device_find(o->device);
    if (o->calibration) FX_TRY(find_calibrated(j, err));
    if (!j->geometry) return fxi_fail(err, FX_EINVAL, "--geometry: no model '%.60s'", o->geometry);
    if (!j->device) return fxi_fail(err, FX_EINVAL, "--device: no device '%.60s'", o->device);
    j->model = j->geometry->name;
    j->place = j->device->name;
    j->page_bytes = (size_t)o->page_bytes;
    if (!j->budget_bytes) j->budget_bytes = fxi_setting_kv_bytes(j->geometry, j->device);
    return FX_OK;
}

static fx_status run_virtually(trace_job *j, fxi_replay_figures *out, fx_error *err)
{
    fxi_replay_options opt = {.engine = j->o->cli.engine,
                              .geometry = j->geometry,
                              .device = j->device,
                              .page_bytes = j->page_bytes,
                              .run = j->run};
    opt.engine.kv_manager = j->manager;
    return fxi_replay_run(&j->trace, &opt, out, err);
}

// ---- in real time ------------------------------------------------------------------------------

// As many as may wait are let in: what is measured is the queue, not its bound. What the engine did
// is written even where it failed.
static fx_status run_really(trace_job *j, fxi_replay_figures *out, fx_error *err)
{
    const char *trace = j->o->cli.trace;
    fx_options opt = fxi_cli_engine_options(&j->o->cli);
    fx_engine *eng = NULL;
    FILE *done;
    *out = (fxi_replay_figures){0};
    opt.kv_manager = j->manager;
    opt.kv_ops = fxi_kv_reserve_find(j->manager);
    opt.max_queue = 1 << 20;
    opt.max_queue_tok = (int64_t)1 << 40;
    FX_TRY(fxi_cli_trace_open(trace, &done, err));
    fx_status st = fxi_cli_open_engine(opt, &eng, err);
    if (st == FX_OK) st = fxi_serve_run(eng, &j->trace, &j->run, out, err);
    const fx_status written = fxi_cli_trace_write(trace, done, eng, st == FX_OK ? err : NULL);
    fx_engine_close(eng);
    return st == FX_OK ? written : st;
}

static fx_status find_model(trace_job *j, fx_error *err)
{
    if (j->o->cli.trace && strchr(j->o->managers, ','))
        return fxi_fail(err, FX_EINVAL, "--trace: the file holds one run; name one manager (--kv)");
    const char *slash = strrchr(j->o->cli.engine.model_path, '/');
    j->model = slash && slash[1] ? slash + 1 : j->o->cli.engine.model_path;
    j->place = "this machine";
    j->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    return FX_OK;
}

// ---- both --------------------------------------------------------------------------------------

// What a command runs on, and how it runs the trace with one manager.
typedef struct lab_way {
    fx_status (*setup)(trace_job *job, fx_error *err);
    fx_status (*run)(trace_job *job, fxi_replay_figures *out, fx_error *err);
} lab_way;

static const lab_way in_virtual_time = {find_setting, run_virtually},
                     in_real_time = {find_model, run_really};

static fx_status run_manager(trace_job *j, const lab_way *way, const char *manager, fx_error *err)
{
    fxi_replay_figures f;
    j->manager = manager;
    j->bar = fxi_progress_begin(manager);
    fx_status st = way->run(j, &f, err);
    fxi_progress_end(&j->bar);
    if (st == FX_OK) print_replay_row(j, &f);
    for (size_t i = 0; st == FX_OK && j->timeline && i < f.n_sample; i++) {
        const fxi_replay_sample *s = &f.sample[i];
        fprintf(j->timeline, "%s,%.6g,%d,%d,%.6g,%.6g,%.6g\n", j->manager, s->at_s,
                s->state.n_running, s->state.n_waiting, to_gb(s->state.kv.mapped),
                to_gb(s->state.kv.live), to_gb(s->state.kv.cached));
    }
    fxi_replay_figures_free(&f);
    fflush(stdout);
    return st;
}

// Each name of a list that commas separate.
static fx_status run_managers(trace_job *j, const lab_way *way, fx_error *err)
{
    char name[32];
    if (!*j->o->managers) return fxi_fail(err, FX_EINVAL, "--kv: no manager is named");
    for (const char *p = j->o->managers; *p;) {
        const size_t n = strcspn(p, ",");
        if (n == 0 || n >= sizeof name)
            return fxi_fail(err, FX_EINVAL, "--kv: '%.60s' is not a list of names", j->o->managers);
        memcpy(name, p, n);
        name[n] = 0;
        FX_TRY(run_manager(j, way, name, err));
        p += n + (p[n] == ',');
    }
    return FX_OK;
}

static fx_status run_trace(trace_job *j, const lab_way *way, fx_error *err)
{
    const char *timeline = j->o->timeline;
    FX_TRY(way->setup(j, err));
    FX_TRY(fxi_trace_open(j->path, &j->trace, err));
    if (timeline) {
        j->timeline = fopen(timeline, "w");
        if (!j->timeline) return fxi_fail(err, FX_EIO, "%s: %s", timeline, strerror(errno));
        fprintf(j->timeline, "manager,at_s,running,waiting,mapped_gb,live_gb,cached_gb\n");
    }
    if (!fxi_signals_catch()) return fxi_fail(err, FX_EINTERNAL, "out of file descriptors");
    print_replay_head(j);
    return run_managers(j, way, err);
}

static int run_job(const fxi_cli_options *cli, const char *path, const lab_way *way)
{
    const lab_options *o = (const lab_options *)cli;
    trace_job j = {.o = o,
                   .path = path,
                   .budget_bytes = cli->engine.kv_memory_bytes,
                   .run = {.load = o->load,
                           .sample_s = o->timeline ? (double)o->sample_s : 0,
                           .on_progress = show_progress,
                           .progress_ud = &j.bar}};
    fx_error err;
    fx_status st = run_trace(&j, way, &err);
    const bool failed = j.timeline && ferror(j.timeline);
    if (j.timeline && (fclose(j.timeline) != 0 || failed) && st == FX_OK)
        st = fxi_fail(&err, FX_EIO, "%s: %s", o->timeline, strerror(errno));
    fxi_trace_free(&j.trace);
    if (st == FX_OK) return 0;
    return fxi_signals_stop() ? FXI_EXIT_SIGNAL + fxi_signals_stop() : fxi_cli_fail("%s", err.text);
}

static int run_replay(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    return run_job(o, rest->arg[0], &in_virtual_time);
}

static int run_serve(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    return run_job(o, rest->arg[0], &in_real_time);
}

// ---- the program --------------------------------------------------------------------------------

#define AT(field) offsetof(lab_options, field)

enum { REPLAY = FXI_CMD_LAB << 1, HELP = FXI_CMD_LAB << 2, BOTH = REPLAY | FXI_CMD_LAB };

// clang-format off
static const fxi_opt lab_rows[] = {
    {"kv", 0, "LIST", FXI_OPT_STR, 0, 0, "vtensor", AT(managers), BOTH, "managers of KV memory, separated by commas, a row for each: those of flexinfer, and reserve-max, reserve-pow2, reserve-oracle"},
    {"geometry", 0, "NAME", FXI_OPT_STR, 0, 0, "opt-13b", AT(geometry), REPLAY, "the model: opt-13b, opt-66b, opt-175b, llama-13b, llama-3-8b, yi-6b, yi-9b, yi-34b"},
    {"device", 0, "NAME", FXI_OPT_STR, 0, 0, "a100-40g", AT(device), REPLAY, "a100-40g, 4xa100-40g, a100-80g, 2xa100-80g, 8xa100-80g, h100-80g"},
    {"calibration", 0, "FILE", FXI_OPT_STR, 0, 0, NULL, AT(calibration), REPLAY, "instead of both: a machine and a model as 'flexinfer bench --json' measured them"},
    {"rate", 0, "R", FXI_OPT_FLOAT, 0, 1e6, "0", AT(load.rate_per_s), BOTH, "requests per second, at random times (default: as the trace says, or all at once)"},
    {"requests", 0, "N", FXI_OPT_INT, 0, INT_MAX, "0", AT(load.max_row), BOTH, "only the first N requests (default: all)"},
    {"speed", 0, "X", FXI_OPT_FLOAT, 1e-6, 1e6, "1", AT(load.speed), BOTH, "the trace's own times run X times as fast"},
    {"shrink", 0, "X", FXI_OPT_FLOAT, 1, 1e6, "1", AT(load.shrink), BOTH, "prompts and answers are X times shorter"},
    {"choices", 0, "N", FXI_OPT_INT, 1, 64, "1", AT(load.n_choice), BOTH, "answers to each prompt"},
    {"beams", 0, "N", FXI_OPT_INT, 0, FX_MAX_BEAM, "0", AT(load.beam_width), BOTH, "width of a beam search (default: sampling)"},
    {"no-prefixes", 0, NULL, FXI_OPT_FLAG, 0, 0, NULL, AT(load.no_cache), BOTH, "requests share no prefixes, and none is kept"},
    {"prefix", 0, "N", FXI_OPT_INT, 0, 1 << 20, "0", AT(load.prefix_tok), BOTH, "tokens of a prefix that all prompts share"},
    {"ctx", 'c', "N", FXI_OPT_INT, 0, 1 << 24, "0", AT(cli.engine.ctx_tok), REPLAY, "longest sequence in tokens (default: the model's)"},
    {"kv-memory", 0, "SIZE", FXI_OPT_SIZE, 0, 0x1p60, "0", AT(cli.engine.kv_memory_bytes), REPLAY, "memory of the KV cache (default: what the model leaves of the device)"},
    {"swap", 0, "SIZE", FXI_OPT_SIZE, 0, 0x1p60, "0", AT(cli.engine.swap_bytes), REPLAY, "host memory for preempted sequences; 0: none, recompute them"},
    {"page", 0, "SIZE", FXI_OPT_SIZE, 4096, 0x1p30, "2M", AT(page_bytes), REPLAY, "page size of the device's memory"},
    {"max-seq", 0, "N", FXI_OPT_INT, 1, 1 << 14, "256", AT(cli.engine.max_seq), REPLAY, "most sequences to run together"},
    {"step-tokens", 0, "N", FXI_OPT_INT, 1, 1 << 16, "2048", AT(cli.engine.step_tok), REPLAY, "most tokens to compute in one step"},
    {"seed", 0, "S", FXI_OPT_U64, 0, 0x1p64, "1", AT(load.seed), BOTH, "seed of the random arrival times"},
    {"timeline", 0, "FILE", FXI_OPT_STR, 0, 0, NULL, AT(timeline), BOTH, "write memory and load over time to FILE, as CSV"},
    {"sample", 0, "S", FXI_OPT_FLOAT, 1e-3, 1e6, "1", AT(sample_s), BOTH, "seconds between the rows of --timeline"},
    {"csv", 0, NULL, FXI_OPT_FLAG, 0, 0, NULL, AT(cli.csv), BOTH, "CSV instead of a table"},
    {"kv-block", 0, "N", FXI_OPT_INT, 0, 1 << 16, "0", AT(cli.engine.kv_block_tok), REPLAY, "least tokens in a unit of that memory (default: chosen by the manager)"},
    {"prefix-pass", 0, "N", FXI_OPT_INT, -1, 1 << 20, "0", AT(cli.engine.prefix_pass), REPLAY, "how often requests of the same client with more cached tokens may overtake a waiting one; -1: never (default: 16)"},
};
// clang-format on

static const fxi_opt_section lab_sections[] = {{"replay", REPLAY}, {"serve", FXI_CMD_LAB}};

enum { N_LAB_ROW = sizeof lab_rows / sizeof *lab_rows };

static const char replay_note[] =
    "TRACE: CSV with a line of column names, or JSONL. Columns: prompt_tokens, output_tokens;\n"
    "arrival_ms and hash_ids if it has them (a number for each 512 tokens of the prompt; equal\n"
    "numbers from the start on mean an equal prefix).\n\n"
    "The scheduler and the managers are those of 'flexinfer serve'. No model is computed and no\n"
    "memory is taken: passes and memory calls take the time that they would take on the device.\n";

static const char serve_note[] =
    "TRACE: as for 'replay'. Prompts are made of random tokens, and answers end at the length\n"
    "that the trace gives. What is too much for this machine is scaled by --shrink and --speed.\n";

static const fxi_cli_command lab_commands[] = {
    {"replay", REPLAY, 1, 1, false, "TRACE [options]",
     "run a trace of requests in virtual time, with managers of KV memory", replay_note,
     run_replay},
    {"serve", FXI_CMD_LAB, 1, 1, true, "TRACE -m MODEL [options]", "run it on a model in real time",
     serve_note, run_serve},
    {"help", HELP, 0, 1, false, "[COMMAND]", "show the commands, or a command's options", NULL,
     NULL},
};

// The rows of flexinfer's table that its `bench` and `serve` share with commands that run a model
// here, and ours.
static fxi_opt_table gather_options(fxi_opt row[FXI_OPT_MAX_ROW])
{
    size_t n = 0;
    for (size_t i = 0; i < fxi_cli_table.n_opt; i++) {
        if (!(fxi_cli_table.opt[i].commands & FXI_CMD_LAB)) continue;
        row[n] = fxi_cli_table.opt[i];
        row[n++].commands = FXI_CMD_LAB;
    }
    memcpy(row + n, lab_rows, sizeof lab_rows);
    return (fxi_opt_table){.opt = row,
                           .n_opt = n + N_LAB_ROW,
                           .env_prefix = fxi_cli_table.env_prefix,
                           .section = lab_sections,
                           .n_section = sizeof lab_sections / sizeof *lab_sections,
                           .renamed = fxi_cli_table.renamed,
                           .n_renamed = fxi_cli_table.n_renamed,
                           .alias = fxi_cli_table.alias,
                           .n_alias = fxi_cli_table.n_alias};
}

int main(int argc, char **argv)
{
    fxi_opt row[FXI_OPT_MAX_ROW];
    const fxi_opt_table table = gather_options(row);
    const fxi_cli_program program = {.name = "flexinfer-lab",
                                     .about = "traces of requests, for comparing KV managers",
                                     .command = lab_commands,
                                     .n_command = sizeof lab_commands / sizeof *lab_commands,
                                     .options = &table};
    lab_options o = {.cli = fxi_cli_options_start()};
    return fxi_cli_main(&program, argc, argv, &o.cli);
}
