// bench_kernels - how close the kernels come to the machine's limits, which are measured around
// each row.
//
// --help lists the options. --type selects linear layers, their order of rounding and their packing
// only ("attention" selects attention only). Everything takes about four minutes.
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
#include <sys/mman.h>

#include "base/number/rng.h"
#include "base/system/clock.h"
#include "bench_kernels.h"

// ---- memory, time and comparison, for all parts

enum { MIN_RUN = 5 };

#define HUGE_BYTES ((size_t)2 << 20)

void *bench_lines(size_t n_bytes)
{
    const size_t align = n_bytes < HUGE_BYTES ? 64 : HUGE_BYTES;
    const size_t size = (n_bytes + align - 1) / align * align;
    void *p = need(aligned_alloc(align, size));
    if (align == HUGE_BYTES) (void)madvise(p, size, MADV_HUGEPAGE); // a hint
    return p;
}

float *bench_random_floats(size_t n)
{
    float *p = bench_lines(n * sizeof *p);
    for (size_t i = 0; i < n; i++) p[i] = (float)(fxi_rng_unit(1, 0, i) - 0.5);
    return p;
}

void bench_time(const bench *b, bench_timed *t, int n, double *s)
{
    for (int i = 0; i < n; i++) t[i].run(t[i].arg);
    const double end = fxi_now_s() + n * b->row_s;
    for (int r = 0; r < MIN_RUN || fxi_now_s() < end; r++)
        for (int i = 0; i < n; i++) {
            const double start = b->now_s();
            t[i].run(t[i].arg);
            samples_add(&t[i].s, b->now_s() - start);
        }
    for (int i = 0; i < n; i++) {
        s[i] = samples_at(&t[i].s, 0.5);
        samples_free(&t[i].s);
    }
}

void bench_same_bits(const bench *b, const char *op, const char *type, const void *got,
                     const void *ref, size_t n)
{
    if (!memcmp(got, ref, n)) return;
    die("%s %s of %s has not ref's bits", op, type, b->k->name);
}

// ---- goals, limits and rows: each is printed with the machine's limits at that time

#define JUST_NOW_S 0.05

// ---- goals -------------------------------------------------------------------------------------

typedef enum limit { OF_READ, OF_PEAK, OF_EITHER } limit; // either: the limit that binds

// Smallest percentage wanted in every row of an operation, type and number of tokens (0: any).
static const struct {
    const char *op, *type;
    int n_tok;
    limit of;
    int least;
} goals[] = {
    {"linear", "Q8_0", 1, OF_READ, 90},          {"linear", "Q8_0", 32, OF_PEAK, 40},
    {"linear", "Q8_0", 512, OF_PEAK, 65},        {"linear", "Q4_0", 1, OF_READ, 80},
    {"linear", "Q4_0", 512, OF_PEAK, 50},        {"linear", "Q4_K", 1, OF_READ, 80},
    {"linear", "Q4_K", 512, OF_PEAK, 50},        {"linear", "Q6_K", 1, OF_READ, 80},
    {"linear", "Q6_K", 512, OF_PEAK, 50},        {"linear", "F32", 1, OF_READ, 90},
    {"linear", "F32", 512, OF_PEAK, 85},         {"linear", "F16", 1, OF_READ, 90},
    {"linear", "F16", 512, OF_PEAK, 85},         {"linear", "BF16", 1, OF_READ, 90},
    {"linear", "BF16", 512, OF_PEAK, 85},        {"decode group 8 x16", "F16", 0, OF_EITHER, 50},
    {"prompt group 8 x1", "F16", 0, OF_PEAK, 50}};
#define N_GOAL (int)(sizeof goals / sizeof goals[0])
_Static_assert(sizeof goals / sizeof goals[0] <= BENCH_MAX_GOAL, "goals have room");

// read, peak: the row's shares of both limits
static void note_shares(const bench *b, const char *op, const char *type, int n_tok, double read,
                        double peak)
{
    for (int i = 0; i < N_GOAL; i++) {
        if (strcmp(op, goals[i].op) || strcmp(type, goals[i].type)) continue;
        if (goals[i].n_tok && n_tok != goals[i].n_tok) continue;
        double share = goals[i].of == OF_READ   ? read
                       : goals[i].of == OF_PEAK ? peak
                                                : fmax(read, peak);
        b->state->share[i] = fmin(b->state->share[i], share);
    }
}

static void print_goals(const bench *b)
{
    static const char *const names[] = {[OF_READ] = "% of the bandwidth",
                                        [OF_PEAK] = "% of the peak",
                                        [OF_EITHER] = "% of the limit that binds"};
    char what[64], n_tok[32];
    for (int i = 0; i < N_GOAL; i++) {
        snprintf(n_tok, sizeof n_tok, ", tokens: %d", goals[i].n_tok);
        snprintf(what, sizeof what, "%s %s%s", goals[i].op, goals[i].type,
                 goals[i].n_tok ? n_tok : "");
        goal_least(stderr, what, 100 * b->state->share[i], goals[i].least, names[goals[i].of]);
    }
}

// ---- limits and rows ---------------------------------------------------------------------------

static void update_limits(const bench *b)
{
    fx_error err;
    if (fxi_now_s() - b->state->limit_s <= JUST_NOW_S) return;
    if (fxi_probe_machine(b->pool, b->now_s, &b->state->limit, &err) != FX_OK) die("%s", err.text);
    b->state->limit_s = fxi_now_s();
}

void bench_limits_before(const bench *b)
{
    update_limits(b);
    b->state->before = b->state->limit;
}

void bench_print_row(const bench *b, const char *op, const char *type, int n_in, int n_out,
                     int n_tok, double s, double n_byte, double n_op, bench_peak by)
{
    update_limits(b);
    const fxi_probe *was = &b->state->before, *is = &b->state->limit;
    const int of = FXI_PROBE_PRODUCTS;
    const double peak = by == BENCH_INT8 ? fmax(was->int8_gop_s[of], is->int8_gop_s[of])
                                         : fmax(was->fma_gflop_s, is->fma_gflop_s);
    const double gb_s = n_byte / s * 1e-9, gop_s = n_op / s * 1e-9;
    const double limit_gb_s = fmax(was->read_gb_s, is->read_gb_s);
    printf("%s,%s,%s,%d,%d,%d,%d,%.3e,%.1f,%.1f,%.1f,%.0f,%.2f\n", op, type, b->k->name, n_in,
           n_out, n_tok, fxi_pool_n_thread(b->pool), s, gb_s, gop_s, limit_gb_s, peak,
           fmax(gb_s / limit_gb_s, gop_s / peak));
    fflush(stdout);
    note_shares(b, op, type, n_tok, gb_s / limit_gb_s, gop_s / peak);
}

void bench_print_plain(const bench *b, const char *op, const char *type, int n_in, int n_out,
                       double s, double n_byte)
{
    printf("%s,%s,%s,%d,%d,1,1,%.3e,%.1f,,,,\n", op, type, b->k->name, n_in, n_out, s,
           n_byte / s * 1e-9);
    fflush(stdout);
}

// ---- the program

static const bench_part parts[] = {{"linear", bench_linear}, {"widths", bench_widths},
                                   {"order", bench_order},   {"attention", bench_attention},
                                   {"planes", bench_planes}, {"rows", bench_rows},
                                   {"pack", bench_pack},     {"states", bench_states}};

#define AT(field) offsetof(bench, field)

static const fxi_opt opts[] = {
    {"threads", 't', "N", FXI_OPT_INT, 1, 1024, "2", AT(n_thread), 1, "threads that compute"},
    {"path", 0, "NAME", FXI_OPT_STR, 0, 0, NULL, AT(path), 1, "kernels; default: the fastest"},
    {"only", 0, "PARTS", FXI_OPT_STR, 0, 0, NULL, AT(only), 1,
     "parts to run: linear, widths, order, attention, planes, rows, pack, states"},
    {"type", 0, "TYPE", FXI_OPT_STR, 0, 0, NULL, AT(only_type), 1, "of weights: this one alone"},
    {"tok", 0, "N", FXI_OPT_INT, 0, 1 << 20, "0", AT(n_tok), 1, "tokens of a batch; 0: several"},
    {"n-in", 0, "N", FXI_OPT_INT, 32, 1 << 20, "2048", AT(n_in), 1, "a multiple of 32"},
    {"n-out", 0, "N", FXI_OPT_INT, 1, 1 << 20, "5632", AT(n_out), 1, "rows of a layer"},
    {"group", 0, "N", FXI_OPT_INT, -1, 1 << 20, "-1", AT(group), 1,
     "panels of a float layer that lie row by row; 0: each by itself; -1: what is fastest"},
    {"row-ms", 0, "MS", FXI_OPT_INT, 1, 1 << 20, "300", AT(row_ms), 1, "time of a row's runs"},
    {"cpu-time", 0, NULL, FXI_OPT_FLAG, 0, 0, "no", AT(cpu_time), 1, "of one thread"},
    {"cached", 0, NULL, FXI_OPT_FLAG, 0, 0, "no", AT(cached), 1, "the same weights each time"},
    {"goals", 0, NULL, FXI_OPT_FLAG, 0, 0, "no", AT(goals), 1, "say which goals are reached"},
    {"sweep", 0, NULL, FXI_OPT_FLAG, 0, 0, "no", AT(sweep), 1, "other divisions of the work"},
};

static const bench_program program = {"bench_kernels",  opts,  sizeof opts / sizeof opts[0],
                                      "BENCH_KERNELS_", parts, sizeof parts / sizeof parts[0]};

// What follows from several options.
static void settle_options(bench *b)
{
    if (b->only_type && !strcmp(b->only_type, "attention"))
        b->only = "attention", b->only_type = NULL;
    if (b->only_type && !fxi_dtype_by_name(b->only_type))
        die("--type: there is no '%s'", b->only_type);
    if (b->n_in % 32) die("--n-in: %d is not a multiple of 32", b->n_in);
    b->k = fxi_kernels_get(b->path);
    if (!b->k) die("--path: '%s' is unknown or does not run here", b->path);
    if (b->group < 0) b->group = fxi_linear_best_group(b->k);
    b->now_s = b->cpu_time ? fxi_thread_cpu_s : fxi_now_s;
    if (b->cpu_time) b->n_thread = 1;
    b->row_s = b->row_ms * 1e-3;
}

int main(int argc, char **argv)
{
    bench b = {.state = &(bench_state){.limit_s = -1}};
    fx_error err;
    int status;
    if (!parts_begin(&program, argc, argv, &b, &b.only, &status)) return status;
    settle_options(&b);
    for (int i = 0; i < BENCH_MAX_GOAL; i++) b.state->share[i] = NAN;
    if (fxi_pool_create(b.n_thread, &b.pool, &err) != FX_OK) die("%s", err.text);
    printf("op,type,path,n_in,n_out,n_tok,threads,median_s,GB/s,GFLOP/s,limit GB/s,limit GFLOP/s,"
           "ratio\n");
    if (b.sweep)
        bench_linear_sweep(&b);
    else
        parts_run(&program, b.only, &b);
    if (b.goals) print_goals(&b);
    fxi_pool_destroy(b.pool);
    return 0;
}
