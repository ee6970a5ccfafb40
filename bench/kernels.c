// bench_kernels - how near the kernels come to the machine's limits, measured in the same run.
//
//   bench_kernels [--threads N] [--path NAME] [--type TYPE] [--tok N] [--n-in N] [--n-out N]
//
// TYPE is one of the weights', or "attention" for attention alone (kernels_attention.c).
//
// CSV on stdout: op,type,path,n_in,n_out,n_tok,threads,median_s,GB/s,GFLOP/s,ratio. The ratio is to
// the limit that binds: memory bandwidth where that would take longer, otherwise the FMA peak or,
// for Q8_0 with VNNI, the int8 peak. Weights are so many copies of the layer that no cache holds
// them, as in a model of many layers.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "kernels_bench.h"

#define WEIGHT_BYTES ((size_t)320 << 20) // of all copies together
#define MIN_RUN      7
#define MAX_RUN      101
#define BUDGET_S     0.6

static void *need(void *p)
{
    if (p) return p;
    fprintf(stderr, "bench_kernels: no memory\n");
    exit(1);
}

void *bench_lines(size_t n_bytes)
{
    return need(aligned_alloc(64, (n_bytes + 63) / 64 * 64));
}

float *bench_random_floats(size_t n)
{
    float *p = bench_lines(n * sizeof *p);
    for (size_t i = 0; i < n; i++) p[i] = (float)(fxi_rng_unit(1, 0, i) - 0.5);
    return p;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *t, int n)
{
    qsort(t, (size_t)n, sizeof *t, by_size);
    return t[n / 2];
}

// Median of several runs of fn(arg), as many as fit the budget.
static double median_s(void (*fn)(void *), void *arg)
{
    double t[MAX_RUN], begin = fxi_now_s();
    int n = 0;
    fn(arg);
    while (n < MIN_RUN || (n < MAX_RUN && fxi_now_s() - begin < BUDGET_S)) {
        double start = fxi_now_s();
        fn(arg);
        t[n++] = fxi_now_s() - start;
    }
    return bench_median(t, n);
}

void bench_print_row(const bench *b, const char *op, const char *type, int n_in, int n_out,
                     int n_tok, double s, double n_byte, double n_op, double peak_gop)
{
    double limit_s = fmax(n_byte / b->limit.read_gb_s, n_op / peak_gop) * 1e-9;
    printf("%s,%s,%s,%d,%d,%d,%d,%.3e,%.1f,%.1f,%.2f\n", op, type, b->k->name, n_in, n_out, n_tok,
           fxi_pool_n_thread(b->pool), s, n_byte / s * 1e-9, n_op / s * 1e-9, limit_s / s);
    fflush(stdout);
}

// ---- linear layers -----------------------------------------------------------------------------

typedef struct linear_bench {
    const bench *b;
    fxi_linear w;
    int n_copy, copy; // copies lie behind each other; the one in use
    size_t copy_bytes;
    char *data;
    fxi_act act;
    float *y;
    int n_tok, panels_per_task;
} linear_bench;

static void linear_task(void *arg, int task)
{
    linear_bench *l = arg;
    int n_panel = fxi_linear_n_panel(l->w.n_out), p0 = task * l->panels_per_task;
    int p1 = p0 + l->panels_per_task < n_panel ? p0 + l->panels_per_task : n_panel;
    l->b->k->linear[l->w.type](&l->w, &l->act, l->n_tok, p0, p1, l->y, (size_t)l->w.n_out);
}

static void linear_run(void *arg)
{
    linear_bench *l = arg;
    int n_panel = fxi_linear_n_panel(l->w.n_out);
    l->copy = (l->copy + 1) % l->n_copy;
    l->w.data = l->data + (size_t)l->copy * l->copy_bytes;
    fxi_pool_run(l->b->pool, linear_task, l,
                 (n_panel + l->panels_per_task - 1) / l->panels_per_task);
}

static void linear_fill(linear_bench *l)
{
    const fxi_dtype_info *t = fxi_dtype_find(l->w.type);
    size_t n = (size_t)l->w.n_in * (size_t)l->w.n_out;
    float *weight = bench_random_floats(n);
    void *rows = bench_lines(n / t->block_elems * t->block_bytes);
    fxi_row_from_f32(l->w.type, weight, n, rows);
    l->copy_bytes = fxi_linear_bytes(l->w.type, l->w.n_in, l->w.n_out);
    l->n_copy = (int)(WEIGHT_BYTES / l->copy_bytes) + 1;
    l->data = bench_lines((size_t)l->n_copy * l->copy_bytes);
    l->w.data = l->data;
    for (int p = 0; p < fxi_linear_n_panel(l->w.n_out); p++) fxi_linear_pack_panel(&l->w, rows, p);
    for (int i = 1; i < l->n_copy; i++)
        memcpy(l->data + (size_t)i * l->copy_bytes, l->data, l->copy_bytes);
    free(weight);
    free(rows);
}

static void linear_activations(linear_bench *l, int max_tok)
{
    size_t n_in = (size_t)l->w.n_in, n = (size_t)max_tok * n_in;
    float *x = bench_random_floats(n);
    l->act = (fxi_act){x, bench_lines(n), bench_lines(n / 32 * sizeof(float) + 64),
                       bench_lines(n / 16 * sizeof(int32_t) + 64)};
    if (fxi_linear_reads_q8(&l->w)) l->b->k->quant_q8(x, (int)n, l->act.q, l->act.d, l->act.sum);
    l->y = bench_lines((size_t)max_tok * (size_t)l->w.n_out * sizeof(float));
}

// Eight tasks for every thread, in whole groups of four panels.
static int panels_per_task(const linear_bench *l)
{
    int n = fxi_linear_n_panel(l->w.n_out) / (8 * fxi_pool_n_thread(l->b->pool));
    return n < 4 ? 4 : n / 4 * 4;
}

static void bench_linear(const bench *b, fxi_dtype type)
{
    static const int list[] = {1, 2, 4, 8, 16, 32, 64, 128, 512};
    linear_bench l = {.b = b, .w = {.type = type, .n_in = b->n_in, .n_out = b->n_out}};
    linear_fill(&l);
    linear_activations(&l, b->n_tok ? b->n_tok : 512);
    l.panels_per_task = panels_per_task(&l);
    bool vnni = fxi_linear_reads_q8(&l.w) && !strcmp(b->k->name, "avx512-vnni");
    double peak = vnni ? b->limit.int8_gop_s : b->limit.fma_gflop_s;
    for (int i = 0; i < (b->n_tok ? 1 : 9); i++) {
        l.n_tok = b->n_tok ? b->n_tok : list[i];
        double s = median_s(linear_run, &l);
        bench_print_row(b, "linear", fxi_dtype_find(type)->name, b->n_in, b->n_out, l.n_tok, s,
                        (double)l.copy_bytes, 2.0 * l.n_tok * b->n_in * b->n_out, peak);
    }
    free(l.data);
    free((float *)l.act.x);
    free(l.act.q);
    free(l.act.d);
    free(l.act.sum);
    free(l.y);
}

// ---- rows --------------------------------------------------------------------------------------

typedef struct row_bench {
    const fxi_kernels *k;
    const char *op;
    float *x, *w, *y;
    int8_t *q;
    float *d;
    int32_t *sum;
    int n;
} row_bench;

enum { ROW_REPEAT = 1000 }; // rows of one run, all in the first-level cache

static void rms_norm_run(void *arg)
{
    row_bench *r = arg;
    for (int i = 0; i < ROW_REPEAT; i++) r->k->rms_norm(r->x, r->w, r->n, 1e-5f, r->y);
}

static void swiglu_run(void *arg)
{
    row_bench *r = arg;
    for (int i = 0; i < ROW_REPEAT; i++) r->k->swiglu(r->x, r->w, r->n, r->y);
}

static void quant_run(void *arg)
{
    row_bench *r = arg;
    for (int i = 0; i < ROW_REPEAT; i++) r->k->quant_q8(r->x, r->n, r->q, r->d, r->sum);
}

// One thread; GB/s of the row read.
static void bench_rows(const bench *b)
{
    int n = 2048;
    row_bench r = {.k = b->k,
                   .x = bench_random_floats((size_t)n),
                   .w = bench_random_floats((size_t)n),
                   .y = bench_random_floats((size_t)n),
                   .q = bench_lines((size_t)n),
                   .d = bench_random_floats((size_t)n),
                   .sum = bench_lines((size_t)n * 4),
                   .n = n};
    static const struct {
        const char *name;
        void (*run)(void *);
    } ops[] = {{"rms_norm", rms_norm_run}, {"swiglu", swiglu_run}, {"quant_q8", quant_run}};
    for (int i = 0; i < 3; i++) {
        double s = median_s(ops[i].run, &r) / ROW_REPEAT;
        printf("%s,F32,%s,%d,%d,1,1,%.3e,%.1f,,\n", ops[i].name, b->k->name, n, n, s,
               n * 4 / s * 1e-9);
    }
    free(r.x), free(r.w), free(r.y), free(r.q), free(r.d), free(r.sum);
}

static int usage(void)
{
    fprintf(stderr, "usage: bench_kernels [--threads N] [--path NAME] [--type TYPE] [--tok N] "
                    "[--n-in N] [--n-out N]\n");
    return 1;
}

static void bench_all(const bench *b)
{
    static const fxi_dtype types[] = {FXI_Q8_0, FXI_F32,  FXI_F16,  FXI_BF16, FXI_Q4_0,
                                      FXI_Q4_1, FXI_Q5_0, FXI_Q5_1, FXI_Q2_K, FXI_Q3_K,
                                      FXI_Q4_K, FXI_Q5_K, FXI_Q6_K};
    printf("op,type,path,n_in,n_out,n_tok,threads,median_s,GB/s,GFLOP/s,ratio\n");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!b->only_type || fxi_dtype_by_name(b->only_type) == fxi_dtype_find(types[i]))
            bench_linear(b, types[i]);
    if (!b->only_type || !strcmp(b->only_type, "attention")) bench_attention_all(b);
    if (b->only_type) return;
    bench_rows(b);
}

int main(int argc, char **argv)
{
    int n_thread = 2;
    const char *path = NULL;
    bench b = {.n_in = 2048, .n_out = 5632};
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc) return usage();
        if (!strcmp(argv[i], "--threads"))
            n_thread = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--path"))
            path = argv[i + 1];
        else if (!strcmp(argv[i], "--type"))
            b.only_type = argv[i + 1];
        else if (!strcmp(argv[i], "--tok"))
            b.n_tok = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--n-in"))
            b.n_in = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--n-out"))
            b.n_out = atoi(argv[i + 1]);
        else
            return usage();
    }
    fx_error err;
    b.k = fxi_kernels_get(path);
    if (!b.k || b.n_in < 32 || b.n_in % 32 || b.n_out < 1 || b.n_tok < 0) return usage();
    if (fxi_pool_create(n_thread, &b.pool, &err) || fxi_probe_machine(b.pool, &b.limit, &err)) {
        fprintf(stderr, "bench_kernels: %s\n", err.text);
        return 1;
    }
    fprintf(stderr, "limits: read %.1f GB/s, fma %.0f GFLOP/s, int8 %.0f GOP/s\n",
            b.limit.read_gb_s, b.limit.fma_gflop_s, b.limit.int8_gop_s);
    bench_all(&b);
    fxi_pool_destroy(b.pool);
    return 0;
}
