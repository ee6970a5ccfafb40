// bench_serve - what the server costs over the engine alone, how long its clients wait, what it
// takes while it idles, and what abusers and subscribers of its memory cost other clients.
//
// --help lists the options. Starts the program `flexinfer` of this folder as a
// server, or, with --port, measures one that runs already; it should serve the same model, and its
// CPU is not known. The engine alone runs in this process. Prints a table; --csv writes the same as
// rows section,case,model,what,value,unit to FILE ("-": stdout, and no table). Last come the goals,
// on stderr with --csv -; the exit status does not depend on them.
//
// Rates, overheads and CPU times are medians of repeats, with the minimum and maximum in brackets;
// server and engine run in turn, with the same requests. What onlookers cost is less than repeats
// differ by: its median comes with an interval that holds it with 95 %. On a machine that does
// other work, "more CPU" says more than "more time": it is disturbed little, but leaves out waits.
// Quantiles of times are over all requests, or all pieces of text, of all repeats. A time between
// tokens is one between two pieces of text: tokens without text show nothing.
#include "bench_serve.h"

static const bench_part parts[] = {{"floor", bench_floor},
                                   {"load", bench_load},
                                   {"idle", bench_idle},
                                   {"victim", bench_victim},
                                   {"watch", bench_watch}};

enum { N_PART = sizeof parts / sizeof parts[0] };

// clang-format off
//                      repeats, tokens, words, levels, requests, victims, abuses, idle and slice s
static const bench_sizes quick_sizes = { 1,  8,  8, 2,       {2, 2},        4,  6, 0.3, 0.1},
                         small_sizes = {15, 64, 32, N_LEVEL, {8, 4, 2, 1}, 15, 6, 10,  1.5},
                         big_sizes   = { 3, 32, 32, N_LEVEL, {3, 3, 1, 1},  3,  6, 10,  6};
// clang-format on

// ---- options -----------------------------------------------------------------------------------

#define AT(field) offsetof(bench, field)

static const fxi_opt rows[] = {
    {"model", 'm', "FILE", FXI_OPT_STR, 0, 0, "models/storyteller.gguf", AT(model), 1,
     "the model, a GGUF file"},
    {"threads", 't', "N", FXI_OPT_INT, 0, 1024, "0", AT(n_thread), 1,
     "threads that compute, on either side; 0: one per core"},
    {"repeat", 0, "N", FXI_OPT_INT, 0, 1000, "0", AT(n_repeat), 1,
     "repeats of each measurement; 0: 15, 3 for a big model, 1 with --quick"},
    {"streams", 0, "N", FXI_OPT_INT, 0, MAX_STREAM, "0", AT(n_stream), 1,
     "of load, this level alone: 1, 8, 32 or 128; 0: all"},
    {"only", 0, "NAMES", FXI_OPT_STR, 0, 0, NULL, AT(only), 1,
     "parts to run, separated by commas: floor, load, idle, victim, watch"},
    {"program", 0, "FILE", FXI_OPT_STR, 0, 0, NULL, AT(program), 1,
     "the program to start as `FILE serve`; default: flexinfer in the folder of this program"},
    {"port", 0, "N", FXI_OPT_INT, 0, 65535, "0", AT(port), 1,
     "measure the server at this port of 127.0.0.1; 0: start one"},
    {"csv", 0, "FILE", FXI_OPT_STR, 0, 0, NULL, AT(csv_path), 1,
     "also write rows here; -: to stdout, without the table"},
    {"quick", 0, NULL, FXI_OPT_FLAG, 0, 0, "no", AT(quick), 1,
     "the shortest run that shows that it works"},
};

static const bench_program program = {"bench_serve",  rows,  sizeof rows / sizeof rows[0],
                                      "BENCH_SERVE_", parts, N_PART};

// ---- what is measured --------------------------------------------------------------------------

static void set_up(bench *b)
{
    fx_options opt = fx_options_default();
    fx_error err = {0};
    opt.model_path = b->model;
    opt.n_thread = b->n_thread;
    opt.max_seq = MAX_STREAM;
    if (fx_engine_open(&opt, &b->eng, &err) != FX_OK) die("%s: %s", b->model, err.text);
    const fx_model_info *info = fx_engine_info(b->eng);
    results *out = &b->out;
    snprintf(out->setting, sizeof out->setting, "%s", info->name);
    b->n_param = info->n_param;
    b->size = b->quick ? quick_sizes : b->n_param > BIG_PARAM ? big_sizes : small_sizes;
    if (b->n_repeat) b->size.n_repeat = b->n_repeat;
    if (out->table)
        fprintf(out->table,
                "%s, %.4g M parameters, %s, %s, %d threads; medians of %d (least..most)\n",
                info->name, (double)b->n_param / 1e6, info->type, info->kernel_path, info->n_thread,
                b->size.n_repeat);
    server_start(&b->srv, b);
}

static void print_goals(FILE *to, const bench *b)
{
    const bench_findings *f = &b->found;
    const double of_big = b->n_param > BIG_PARAM ? 1 : NAN; // steps of a small model take no time
    fprintf(to, "\ngoals\n");
    goal(to, "more time through the server, 1.1 B, worst level", of_big * f->more_time, 3, "%");
    goal(to, "more CPU through the server, 1.1 B, worst level", of_big * f->more_cpu, 3, "%");
    goal(to, "CPU of the idle server", f->idle, 0.05, "%");
    goal(to, "p99 of a victim among abusers over its own, worst", f->victim, 2, "x");
    goal(to, "more time with four onlookers, at most (95 %), worst level", f->watch, 1, "%");
}

int main(int argc, char **argv)
{
    bench b = {.found = {NAN, NAN, NAN, NAN, NAN}};
    int status;
    if (!parts_begin(&program, argc, argv, &b, &b.only, &status)) return status;
    results_open(&b.out, b.csv_path, "section,case,model,what,value,unit");
    set_up(&b);
    parts_run(&program, b.only, &b);
    server_stop(&b.srv);
    fx_engine_close(b.eng);
    print_goals(b.out.table ? b.out.table : stderr, &b);
    return results_close(&b.out) ? 0 : 1;
}
