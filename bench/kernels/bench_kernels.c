// bench_kernels - how close the kernels come to the machine's limits, which are measured around
// each row.
//
//   bench_kernels [--threads N] [--path NAME] [--only PART] [--type TYPE] [--tok N] [--n-in N]
//                 [--n-out N] [--group N] [--row-ms MS] [--cpu-time] [--cached] [--goals] [--sweep]
//
// PART is linear, order, attention, planes, rows or pack. TYPE is a type of weights and selects
// linear layers, their order of rounding and their packing only ("attention" selects attention
// only). The runs of a row take --row-ms (default 300), so that everything takes about two minutes.
//
// CSV on stdout: op,type,path,n_in,n_out,n_tok,threads,median_s,GB/s,GFLOP/s,limit GB/s,limit
// GFLOP/s,ratio. The ratio is to the limit that binds: the memory bandwidth if that takes longer,
// otherwise the FMA peak or, for block types on paths that multiply integers, the int8 peak.
//
// --cpu-time measures the runs and the limits in the CPU time of one thread, which tells more than
// wall time while others use the machine. With --cached a linear layer runs again and again on the
// same weights: those of a small one stay in a cache, those of others are read from memory. --group
// is how many panels of a float layer lie row by row (0: each lies for itself); if it is not given,
// what is fastest on this machine.
//
// --goals prints the goals of the kernels on stderr at the end. --sweep times other divisions of
// the work instead. If a kernel's bits differ from ref's, the program ends with status 1.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "bench_kernels.h"

typedef struct options {
    kernel_bench b;
    int n_thread, row_ms;
    const char *path;
    bool cpu_time, goals, sweep;
} options;

static const struct {
    const char *name;
    size_t at; // of an int
    int least;
} numbers[] = {
    {"--threads", offsetof(options, n_thread), 1}, {"--row-ms", offsetof(options, row_ms), 1},
    {"--tok", offsetof(options, b.n_tok), 1},      {"--n-in", offsetof(options, b.n_in), 32},
    {"--n-out", offsetof(options, b.n_out), 1},    {"--group", offsetof(options, b.group), 0}};

static const struct {
    const char *name;
    size_t at; // of a const char *
} texts[] = {{"--path", offsetof(options, path)},
             {"--only", offsetof(options, b.only)},
             {"--type", offsetof(options, b.only_type)}};

static bool take_flag(options *o, const char *name)
{
    if (!strcmp(name, "--cpu-time")) return o->cpu_time = true;
    if (!strcmp(name, "--cached")) return o->b.cached = true;
    if (!strcmp(name, "--goals")) return o->goals = true;
    if (!strcmp(name, "--sweep")) return o->sweep = true;
    return false;
}

static bool take_value(options *o, const char *name, const char *value)
{
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (!strcmp(name, numbers[i].name)) {
            int v = atoi(value);
            memcpy((char *)o + numbers[i].at, &v, sizeof v);
            return v >= numbers[i].least;
        }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!strcmp(name, texts[i].name)) {
            memcpy((char *)o + texts[i].at, &value, sizeof value);
            return true;
        }
    return false;
}

static bool take_options(options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (take_flag(o, argv[i])) continue;
        if (i + 1 == argc || !take_value(o, argv[i], argv[i + 1])) return false;
        i++;
    }
    if (o->cpu_time) o->n_thread = 1, o->b.now_s = fxi_thread_cpu_s;
    return o->b.n_in % 32 == 0;
}

static const struct {
    const char *name;
    void (*run)(const kernel_bench *b);
    bool of_types; // --type selects within it
} parts[] = {{"linear", bench_linear_all, true},        {"order", bench_order_all, true},
             {"attention", bench_attention_all, false}, {"planes", bench_planes_all, false},
             {"rows", bench_rows_all, false},           {"pack", bench_pack_all, true}};
enum { N_PART = sizeof parts / sizeof parts[0] };

static bool is_part(const char *part)
{
    for (int i = 0; i < N_PART; i++)
        if (!strcmp(part, parts[i].name)) return true;
    return false;
}

static void run_parts(const kernel_bench *b)
{
    for (int i = 0; i < N_PART; i++) {
        if (b->only && strcmp(b->only, parts[i].name)) continue;
        if (b->only_type && !parts[i].of_types) continue;
        parts[i].run(b);
    }
}

static int print_usage(void)
{
    fprintf(stderr,
            "usage: bench_kernels [--threads N] [--path NAME] [--only PART]\n"
            "                     [--type TYPE] [--tok N] [--n-in N] [--n-out N] [--row-ms MS]\n"
            "                     [--group N] [--cpu-time] [--cached] [--goals] [--sweep]\n"
            "PART: linear, order, attention, planes, rows or pack\n");
    return 1;
}

static int run_bench(options *o)
{
    fx_error err;
    bench_state state = {.limit_s = -1};
    for (int i = 0; i < BENCH_MAX_GOAL; i++) state.share[i] = NAN;
    o->b.state = &state;
    o->b.row_s = o->row_ms * 1e-3;
    if (fxi_pool_create(o->n_thread, &o->b.pool, &err) != FX_OK)
        return fprintf(stderr, "bench_kernels: %s\n", err.text), 1;
    bench_print_head();
    if (o->sweep)
        bench_linear_sweep(&o->b);
    else
        run_parts(&o->b);
    if (o->goals) bench_print_goals(&o->b);
    fxi_pool_destroy(o->b.pool);
    return 0;
}

int main(int argc, char **argv)
{
    options o = {.b = {.n_in = 2048, .n_out = 5632, .group = -1, .now_s = fxi_now_s},
                 .n_thread = 2,
                 .row_ms = 300};
    if (!take_options(&o, argc, argv)) return print_usage();
    if (o.b.only_type && !strcmp(o.b.only_type, "attention"))
        o.b.only = "attention", o.b.only_type = NULL;
    if (o.b.only_type && !fxi_dtype_by_name(o.b.only_type)) return print_usage();
    if (o.b.only && !is_part(o.b.only)) return print_usage();
    o.b.k = fxi_kernels_get(o.path);
    if (!o.b.k) return print_usage();
    if (o.b.group < 0) o.b.group = fxi_linear_best_group(o.b.k);
    return run_bench(&o);
}
