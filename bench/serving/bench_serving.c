// bench_serving - what the engine adds to the model, and what its scheduling and its prefix
// cache gain.
//
// --help lists the options. Prints a table; --csv writes the same
// as rows section,case,model,what,value,unit to FILE ("-": stdout, and no table). Last come the
// goals, on stderr with --csv -; the exit status does not depend on them.
//
// Times are medians of repeats, with the minimum and maximum in brackets; what is compared runs in
// turn within one run. Models of more than 300 M parameters are measured in fewer steps. If a part
// needs a longer context than the model was trained for, it uses one: the text gets worse, but the
// cost does not change.
#include "bench_serving.h"

static const bench_part parts[] = {
    {"outside", bench_outside}, {"ttft", bench_ttft},     {"prepare", bench_prepare},
    {"chat", bench_chat},       {"prefix", bench_prefix}, {"preempt", bench_preempt},
};

enum { N_PART = sizeof parts / sizeof parts[0] };

// clang-format off
//                           repeats | outside      | ttft     | prepare | chat | prefix   | preempt
static const bench_sizes quick_sizes = {1, 128,  8,  4,  512, 3, 1,  32, 2, 3,  6,  128,  6, 128},
                         small_sizes = {3,   0, 64, 32, 4096, 3, 3, 320, 8, 8, 16, 1024, 16, 256},
                         big_sizes   = {3,   0, 64,  5, 4096, 2, 1,  48, 4, 4,  8,  512,  8, 128};
// clang-format on

// ---- options -----------------------------------------------------------------------------------

#define AT(field) offsetof(bench, field)

static const fxi_opt rows[] = {
    {"model", 'm', "FILE", FXI_OPT_STR, 0, 0, "models/storyteller.gguf", AT(model), 1,
     "the model, a GGUF file"},
    {"threads", 't', "N", FXI_OPT_INT, 0, 1024, "0", AT(n_thread), 1,
     "threads that compute; 0: one per core"},
    {"repeat", 0, "N", FXI_OPT_INT, 0, 1000, "0", AT(n_repeat), 1,
     "repeats of each measurement; 0: 3, or 1 with --quick"},
    {"only", 0, "NAMES", FXI_OPT_STR, 0, 0, NULL, AT(only), 1,
     "parts to run, separated by commas: outside, ttft, prepare, chat, prefix, preempt"},
    {"csv", 0, "FILE", FXI_OPT_STR, 0, 0, NULL, AT(csv_path), 1,
     "also write rows here; -: to stdout, without the table"},
    {"quick", 0, NULL, FXI_OPT_FLAG, 0, 0, "no", AT(quick), 1,
     "the shortest run that shows that it works"},
};

static const bench_program program = {"bench_serving",  rows,  sizeof rows / sizeof rows[0],
                                      "BENCH_SERVING_", parts, N_PART};

// ---- what is measured --------------------------------------------------------------------------

static void print_setup(bench *b)
{
    world w;
    world_open(&w, b, (world_size){.ctx_tok = 64, .max_seq = 1});
    const fx_model_info *info = &w.eng->info;
    snprintf(b->out.setting, sizeof b->out.setting, "%s", info->name);
    b->n_param = info->n_param;
    b->size = b->quick ? quick_sizes : b->n_param > BIG_PARAM ? big_sizes : small_sizes;
    if (b->n_repeat) b->size.n_repeat = b->n_repeat;
    if (b->out.table)
        fprintf(b->out.table,
                "%s, %.4g M parameters, %s, %s, %d threads; medians of %d (least..most)\n",
                info->name, (double)b->n_param / 1e6, info->type, info->kernel_path, info->n_thread,
                b->size.n_repeat);
    world_close(&w);
}

static void print_goals(FILE *to, const bench *b)
{
    const bench_findings *f = &b->found;
    const double of_big =
        b->n_param > BIG_PARAM ? 1 : NAN; // not for a small model, whose steps take no time
    fprintf(to, "\ngoals\n");
    goal(to, "step outside a model of 1.1 B, one choice", of_big * f->share_plain, 3, "%");
    goal(to, "step outside a model of 1.1 B, top_p alone", of_big * f->share_top_p, 3, "%");
    goal(to, "step outside a model of 1.1 B, 8 choices", of_big * f->share_forks, 3, "%");
    goal(to, "step outside a model of 1.1 B, beams", of_big * f->share_beams, 3, "%");
    goal(to, "first token of a short request next to a long prompt", f->ttft_steps, 2, "steps");
    goal(to, "extend into a new chunk, prepared, p99", f->ready_p99_ns / 1e3, 20, "us");
    goal(to, "the same, over not prepared", f->extend_ratio, 0.1, "x");
    goal(to, "KV memory of a step, prepared, over not prepared, p99", f->spike_ratio, 0.1, "x");
}

int main(int argc, char **argv)
{
    bench b = {.found = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN}};
    int status;
    if (!parts_begin(&program, argc, argv, &b, &b.only, &status)) return status;
    results_open(&b.out, b.csv_path, "section,case,model,what,value,unit");
    print_setup(&b);
    parts_run(&program, b.only, &b);
    print_goals(b.out.table ? b.out.table : stderr, &b);
    return results_close(&b.out) ? 0 : 1;
}
