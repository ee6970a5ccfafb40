// bench_vtensor - what libvtensor's operations cost and what they save.
//
//   bench_vtensor [--backend host|cuda] [--planes N] [--row-bytes N] [--layout split|packed]
//                 [--chunk-kib N] [--repeat N] [--compute-ms X] [--only NAME] [--csv FILE]
//                 [--quick]
//
// --only: ops, alloc, decode, churn, fork, match, vmas, physical, trim, calls or scale; --chunk-
// kib: bytes of a chunk in each plane (split) or in all (packed). Prints a table; --csv writes the
// same as rows section,case,layout,slice_kib,what,value,unit,n to FILE ("-": stdout, and no table).
// Last come the goals, on stderr with --csv -; the exit status does not depend on them.
//
// What a ratio compares runs in turn within one run; medians of N. Huge pages are measured if the
// administrator has reserved some (vm.nr_hugepages; 400 suffice).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench_vtensor.h"

enum { SKIPPED = 77 };

static const struct {
    const char *name;
    void (*run)(bench *);
} parts[] = {
    {"ops", bench_ops},     {"alloc", bench_alloc},       {"decode", bench_decode},
    {"churn", bench_churn}, {"fork", bench_fork},         {"match", bench_match},
    {"vmas", bench_vmas},   {"physical", bench_physical}, {"trim", bench_trim},
    {"calls", bench_calls}, {"scale", bench_scale},
};

enum { N_PART = sizeof parts / sizeof parts[0] };

static int print_usage(void)
{
    fprintf(stderr, "usage: bench_vtensor [--backend host|cuda] [--planes N] [--row-bytes N] "
                    "[--layout split|packed]\n"
                    "                     [--chunk-kib N] [--repeat N] [--compute-ms X] "
                    "[--only NAME] [--csv FILE] [--quick]\n");
    return 1;
}

// ---- options

typedef struct choices {
    const char *backend, *csv;
} choices;

static bool take_number(const char *text, double least, double most, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && *out >= least && *out <= most;
}

static bool take_size(bench *b, const char *name, double v)
{
    if (!strcmp(name, "--planes"))
        b->n_plane = (uint32_t)v;
    else if (!strcmp(name, "--row-bytes"))
        b->row_bytes = (size_t)v;
    else if (!strcmp(name, "--chunk-kib"))
        b->slice_bytes = (size_t)v << 10;
    else if (!strcmp(name, "--repeat"))
        b->n_repeat = (uint32_t)v;
    else
        return false;
    return true;
}

static bool is_part(const char *name)
{
    for (int i = 0; i < N_PART; i++)
        if (!strcmp(parts[i].name, name)) return true;
    return false;
}

static bool take_layout(bench *b, const char *value)
{
    b->layout = !strcmp(value, "packed") ? VT_LAYOUT_PACKED : VT_LAYOUT_SPLIT;
    return !strcmp(value, "packed") || !strcmp(value, "split");
}

static bool take_option(bench *b, choices *c, const char *name, const char *value)
{
    double v;
    if (!strcmp(name, "--backend")) c->backend = value;
    if (!strcmp(name, "--csv")) c->csv = value;
    if (!strcmp(name, "--only")) b->only = value;
    if (!strcmp(name, "--backend")) return !strcmp(value, "host") || !strcmp(value, "cuda");
    if (!strcmp(name, "--csv")) return true;
    if (!strcmp(name, "--only")) return is_part(value);
    if (!strcmp(name, "--layout")) return take_layout(b, value);
    if (!strcmp(name, "--compute-ms")) return take_number(value, 0, 1000, &b->compute_ms);
    return take_number(value, 1, 1 << 20, &v) && take_size(b, name, v);
}

// Small enough for a test of a second.
static void make_quick(bench *b)
{
    b->quick = true;
    b->n_plane = 4;
    b->n_repeat = 2;
    b->compute_ms = 0.2;
}

static bool take_options(bench *b, choices *c, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--quick")) make_quick(b);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--quick")) continue;
        if (i + 1 == argc || !take_option(b, c, argv[i], argv[i + 1])) return false;
        i++;
    }
    return true;
}

// ---- goals

static void print_goals(FILE *to, const bench_findings *f)
{
    fprintf(to, "\ngoals\n");
    goal(to, "extend into a new chunk, prepared, p99", f->ahead_p99_ns / 1e3, 2, "us");
    goal(to, "the same with the budget full of prefixes, p99", f->churn_p99_ns / 1e3, 2, "us");
    goal(to, "the slowest of them", f->churn_max_ns / 1e3, 200, "us");
    goal(to, "chunks created and destroyed meanwhile", f->churn_system, 0, "calls");
    goal(to, "read-only aliases, of a step", 100 * f->guard_share, 1, "%");
    goal(to, "match + alias of the prompt", f->match_ns / 1e6, 1, "ms");
    goal(to, "its extra cost with the first read over memcpy, 4 KiB pages", 100 * f->extra_small,
         45, "%");
    goal(to, "its extra cost with the first read over memcpy, 2 MiB pages", 100 * f->extra_huge, 10,
         "%");
    goal(to, "physical memory off from 1 prompt + N tails", f->prompt_miscount, 0, "bytes");
}

// ---- output and device

static bool open_csv(bench *b, const char *path)
{
    if (!path) return true;
    b->csv = !strcmp(path, "-") ? stdout : fopen(path, "w");
    if (b->csv == stdout) b->table = NULL;
    if (b->csv) fprintf(b->csv, "section,case,layout,slice_kib,what,value,unit,n\n");
    return b->csv != NULL;
}

static bool close_csv(bench *b)
{
    if (!b->csv || b->csv == stdout) return fflush(stdout) == 0;
    return fclose(b->csv) == 0;
}

static bool open_gpu(bench *b, const char *backend)
{
    const char *why = "";
    if (!backend || strcmp(backend, "cuda") != 0) return true;
    b->gpu = gpu_open(&why);
    if (!b->gpu) fprintf(stderr, "bench_vtensor: skipped: %s\n", why);
    return b->gpu != NULL;
}

static void print_setup(const bench *b)
{
    const char *advice = b->gpu ? NULL : vt_vmm_host_advice();
    if (!b->table) return;
    fprintf(b->table, "%s, %u planes x %zu bytes, %s, medians of %u\n",
            b->gpu ? gpu_name(b->gpu) : "host", b->n_plane, b->row_bytes,
            b->layout == VT_LAYOUT_SPLIT ? "split" : "packed", b->n_repeat);
    if (advice) fprintf(b->table, "%s\n", advice);
}

int main(int argc, char **argv)
{
    choices c = {0};
    bench b = {.n_plane = 64,
               .row_bytes = 1024,
               .n_repeat = 9,
               .compute_ms = 2,
               .table = stdout,
               .found = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN}};
    if (!take_options(&b, &c, argc, argv)) return print_usage();
    if (!open_gpu(&b, c.backend)) return SKIPPED;
    if (!open_csv(&b, c.csv)) {
        fprintf(stderr, "bench_vtensor: %s: cannot be written\n", c.csv);
        return 1;
    }
    print_setup(&b);
    for (int i = 0; i < N_PART; i++)
        if (!b.only || !strcmp(b.only, parts[i].name)) parts[i].run(&b);
    print_goals(b.table ? b.table : stderr, &b.found);
    if (b.gpu) gpu_close(b.gpu);
    return close_csv(&b) ? 0 : 1;
}
