// bench_vtensor - what libvtensor's operations cost and what they save.
//
// --help lists the options. Prints a table; --csv writes the same as rows
// section,case,layout,slice_kib,what,value,unit,n to FILE ("-": stdout, and no table). Last come
// the goals, on stderr with --csv -; the exit status does not depend on them.
//
// What a ratio compares runs in turn within one run; medians of N. Huge pages are measured if the
// administrator has reserved some (vm.nr_hugepages; 400 suffice).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench_vtensor.h"

enum { SKIPPED = 77 };

static const bench_part parts[] = {
    {"ops", bench_ops},     {"alloc", bench_alloc},       {"decode", bench_decode},
    {"churn", bench_churn}, {"fork", bench_fork},         {"match", bench_match},
    {"vmas", bench_vmas},   {"physical", bench_physical}, {"trim", bench_trim},
    {"calls", bench_calls}, {"scale", bench_scale},
};

#define AT(field) offsetof(bench, field)

static const fxi_opt opts[] = {
    {"backend", 0, "host|cuda", FXI_OPT_CHOICE, 0, 0, "host", AT(backend), 1, "where memory is"},
    {"planes", 0, "N", FXI_OPT_INT, 0, 1 << 20, "0", AT(n_plane_given), 1,
     "of a token; 0: 64, or 4 with --quick"},
    {"row-bytes", 0, "N", FXI_OPT_INT, 1, 1 << 20, "1024", AT(row_bytes_given), 1,
     "of a token in a plane"},
    {"layout", 0, "split|packed", FXI_OPT_CHOICE, 0, 0, "split", AT(layout_given), 1,
     "a view for each plane, or one for all"},
    {"chunk-kib", 0, "N", FXI_OPT_INT, 0, 1 << 20, "0", AT(chunk_kib), 1,
     "of a chunk in each plane (split) or in all (packed); 0: several"},
    {"repeat", 0, "N", FXI_OPT_INT, 0, 1 << 20, "0", AT(n_repeat_given), 1,
     "repeats of each measurement; 0: 9, or 2 with --quick"},
    {"compute-ms", 0, "X", FXI_OPT_FLOAT, -1, 1000, "-1", AT(compute_ms_given), 1,
     "of each simulated step; -1: 2, or 0.2 with --quick"},
    {"only", 0, "NAMES", FXI_OPT_STR, 0, 0, NULL, AT(only), 1,
     "parts to run: ops, alloc, decode, churn, fork, match, vmas, physical, trim, calls, scale"},
    {"csv", 0, "FILE", FXI_OPT_STR, 0, 0, NULL, AT(csv_path), 1,
     "also write rows here; -: to stdout, without the table"},
    {"quick", 0, NULL, FXI_OPT_FLAG, 0, 0, "no", AT(quick), 1,
     "the shortest run that shows that it works"},
};

static const bench_program program = {"bench_vtensor",  opts,  sizeof opts / sizeof opts[0],
                                      "BENCH_VTENSOR_", parts, sizeof parts / sizeof parts[0]};

static void settle_options(bench *b)
{
    b->n_plane = b->n_plane_given ? (uint32_t)b->n_plane_given : b->quick ? 4 : 64;
    b->row_bytes = (size_t)b->row_bytes_given;
    b->layout = !strcmp(b->layout_given, "packed") ? VT_LAYOUT_PACKED : VT_LAYOUT_SPLIT;
    b->slice_bytes = (size_t)b->chunk_kib << 10;
    b->n_repeat = b->n_repeat_given ? (uint32_t)b->n_repeat_given : b->quick ? 2 : 9;
    b->compute_ms = b->compute_ms_given >= 0 ? (double)b->compute_ms_given : b->quick ? 0.2 : 2;
}

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

static void print_setup(const bench *b)
{
    const char *advice = b->gpu ? NULL : vt_vmm_host_advice();
    if (!b->out.table) return;
    fprintf(b->out.table, "%s, %u planes x %zu bytes, %s, medians of %u\n",
            b->gpu ? gpu_name(b->gpu) : "host", b->n_plane, b->row_bytes,
            b->layout == VT_LAYOUT_SPLIT ? "split" : "packed", b->n_repeat);
    if (advice) fprintf(b->out.table, "%s\n", advice);
}

int main(int argc, char **argv)
{
    bench b = {.found = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN}};
    const char *why = "";
    int status;
    if (!parts_begin(&program, argc, argv, &b, &b.only, &status)) return status;
    settle_options(&b);
    if (!strcmp(b.backend, "cuda") && !(b.gpu = gpu_open(&why))) {
        fprintf(stderr, "bench_vtensor: skipped: %s\n", why);
        return SKIPPED;
    }
    results_open(&b.out, b.csv_path, "section,case,layout,slice_kib,what,value,unit,n");
    print_setup(&b);
    parts_run(&program, b.only, &b);
    print_goals(b.out.table ? b.out.table : stderr, &b.found);
    if (b.gpu) gpu_close(b.gpu);
    return results_close(&b.out) ? 0 : 1;
}
