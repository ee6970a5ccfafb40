// cmd_bench.c - prompt and decode speed through the engine, beside the limits of the machine.
//
// The machine is measured before and after the runs, and the larger of the two figures counts:
// other load can make a machine look slower than it is, not faster.
#include "cli/bench/bench.h"
#include "cli/command/command.h"
#include "cli/terminal/terminal.h"

#include <math.h>
#include <stdlib.h>

#define DEFAULT_PROMPT 512 // or half of the context if that is less

static int largest_of(const fxi_opt_ints *list, int least)
{
    for (int i = 0; i < list->n; i++)
        if (list->v[i] > least) least = list->v[i];
    return least;
}

static fxi_opt_ints without_repeats(const fxi_opt_ints *list)
{
    fxi_opt_ints out = {.n = 0};
    for (int i = 0; i < list->n; i++) {
        int k = 0;
        while (k < out.n && out.v[k] != list->v[i]) k++;
        if (k == out.n) out.v[out.n++] = list->v[i];
    }
    return out;
}

static void fill_lists(fxi_bench *b)
{
    const int half = b->model.ctx_tok / 2;
    const fxi_opt_ints preset = {{half < DEFAULT_PROMPT ? half : DEFAULT_PROMPT}, 1};
    b->batch = without_repeats(&b->o->batch);
    b->prompt = without_repeats(b->o->prompts.n ? &b->o->prompts : &preset);
    b->context = without_repeats(b->o->contexts.n ? &b->o->contexts : &b->prompt);
}

static fx_status check_fits(const fxi_bench *b, const char *option, int n_tok, fx_error *err)
{
    if ((int64_t)n_tok + b->o->n_gen + 1 <= b->model.ctx_tok) return FX_OK;
    return fxi_fail(err, FX_EINVAL, "%s %d and --gen %d do not fit the context of %d tokens",
                    option, n_tok, b->o->n_gen, b->model.ctx_tok);
}

static fx_status check_all_fit(const fxi_bench *b, fx_error *err)
{
    FX_TRY(check_fits(b, "--prompt", largest_of(&b->prompt, 0), err));
    return check_fits(b, "--context", largest_of(&b->context, 0), err);
}

// The options with room for the largest batch, and with no time cap on prompt work while others
// decode.
static fxi_cli_options with_room(const fxi_cli_options *o)
{
    fxi_cli_options with = *o;
    const int longest = largest_of(&o->contexts, largest_of(&o->prompts, DEFAULT_PROMPT));
    with.max_seq = largest_of(&o->batch, o->max_seq);
    with.max_queue_tok = (uint64_t)with.max_seq * (uint64_t)longest + 1;
    if (!o->step_ms) with.step_ms = 1 << 20;
    return with;
}

static fx_status measure_machine(fxi_bench *b, fx_error *err)
{
    fx_machine now, *most = &b->machine;
    FX_TRY(fx_measure_machine(b->o->n_thread, &now, err));
    most->n_thread = now.n_thread;
    most->read_gb_s = fmax(most->read_gb_s, now.read_gb_s);
    most->fma_gflop_s = fmax(most->fma_gflop_s, now.fma_gflop_s);
    most->int8_gop_s = fmax(most->int8_gop_s, now.int8_gop_s);
    most->int8_scaled_gop_s = fmax(most->int8_scaled_gop_s, now.int8_scaled_gop_s);
    return FX_OK;
}

static fx_status run_engine(fxi_bench *b, fx_engine *eng, fx_error *err)
{
    b->model = *fx_engine_info(eng);
    fill_lists(b);
    FX_TRY(check_all_fit(b, err));
    FX_TRY(measure_machine(b, err));
    if (!fxi_signals_catch()) return fxi_fail(err, FX_EINTERNAL, "out of file descriptors");
    return fxi_bench_run(b, eng, err);
}

// With a trace of whatever was run, even where a run failed.
static fx_status run_traced(fxi_bench *b, fx_error *err)
{
    fx_engine *eng = NULL;
    FILE *trace;
    const fxi_cli_options with = with_room(b->o);
    FX_TRY(fxi_bench_open_trace(b->o->trace, &trace, err));
    fx_status st = fxi_cli_open_generator(&with, &eng, err);
    if (st == FX_OK) st = run_engine(b, eng, err);
    const fx_status written =
        fxi_bench_write_trace(b->o->trace, trace, eng, st == FX_OK ? err : NULL);
    fx_engine_close(eng);
    return st == FX_OK ? written : st;
}

static fx_status measure_all(fxi_bench *b, fx_error *err)
{
    FX_TRY(run_traced(b, err));
    FX_TRY(measure_machine(b, err));
    fxi_bench_set_limits(b);
    return FX_OK;
}

static int print_results(const fxi_bench *b)
{
    if (b->o->json) return fxi_bench_print_json(b);
    return b->o->csv ? fxi_bench_print_csv(b) : fxi_bench_print_table(b);
}

int fxi_cmd_bench(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    (void)rest;
    fx_error err;
    if (o->json && o->csv) {
        fxi_cli_fail("--json and --csv: one of them (see 'flexinfer help bench')");
        return FXI_EXIT_USAGE;
    }
    fxi_bench *b = calloc(1, sizeof *b);
    if (!b) return fxi_cli_fail("no memory for the results");
    b->o = o;
    int rc;
    if (measure_all(b, &err) == FX_OK)
        rc = print_results(b);
    else
        rc = fxi_signals_stop() ? FXI_EXIT_SIGNAL + fxi_signals_stop()
                                : fxi_cli_fail("%s", err.text);
    free(b);
    return rc;
}
