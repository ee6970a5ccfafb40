// limits.c - prints rows beside the machine's limits at that time, and keeps the goals.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "bench_kernels.h"

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
static void note_shares(const kernel_bench *b, const char *op, const char *type, int n_tok,
                        double read, double peak)
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

void bench_print_goals(const kernel_bench *b)
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

static void measure_limits(const kernel_bench *b)
{
    fx_error err;
    if (fxi_probe_machine(b->pool, b->now_s, &b->state->limit, &err) != FX_OK) {
        fprintf(stderr, "bench_kernels: %s\n", err.text);
        exit(1);
    }
    b->state->limit_s = fxi_now_s();
}

static void update_limits(const kernel_bench *b)
{
    if (fxi_now_s() - b->state->limit_s > JUST_NOW_S) measure_limits(b);
}

void bench_limits_before(const kernel_bench *b)
{
    update_limits(b);
    b->state->before = b->state->limit;
}

// The larger figures of before and now; of products, those alone.
static fxi_probe limits_around(const kernel_bench *b)
{
    update_limits(b);
    const fxi_probe *was = &b->state->before, *is = &b->state->limit;
    return (fxi_probe){.read_gb_s = fmax(was->read_gb_s, is->read_gb_s),
                       .fma_gflop_s = fmax(was->fma_gflop_s, is->fma_gflop_s),
                       .int8_gop_s = {fmax(was->int8_gop_s[FXI_PROBE_PRODUCTS],
                                           is->int8_gop_s[FXI_PROBE_PRODUCTS])}};
}

void bench_print_head(void)
{
    printf("op,type,path,n_in,n_out,n_tok,threads,median_s,GB/s,GFLOP/s,limit GB/s,limit GFLOP/s,"
           "ratio\n");
}

void bench_print_row(const kernel_bench *b, const char *op, const char *type, int n_in, int n_out,
                     int n_tok, double s, double n_byte, double n_op, bench_peak by)
{
    const fxi_probe p = limits_around(b);
    const double peak = by == BENCH_INT8 ? p.int8_gop_s[FXI_PROBE_PRODUCTS] : p.fma_gflop_s;
    const double gb_s = n_byte / s * 1e-9, gop_s = n_op / s * 1e-9;
    printf("%s,%s,%s,%d,%d,%d,%d,%.3e,%.1f,%.1f,%.1f,%.0f,%.2f\n", op, type, b->k->name, n_in,
           n_out, n_tok, fxi_pool_n_thread(b->pool), s, gb_s, gop_s, p.read_gb_s, peak,
           fmax(gb_s / p.read_gb_s, gop_s / peak));
    fflush(stdout);
    note_shares(b, op, type, n_tok, gb_s / p.read_gb_s, gop_s / peak);
}

void bench_print_plain(const kernel_bench *b, const char *op, const char *type, int n_in, int n_out,
                       double s, double n_byte)
{
    printf("%s,%s,%s,%d,%d,1,1,%.3e,%.1f,,,,\n", op, type, b->k->name, n_in, n_out, s,
           n_byte / s * 1e-9);
    fflush(stdout);
}
