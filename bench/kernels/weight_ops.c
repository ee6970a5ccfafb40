// weight_ops.c - work on weights: linear layers, what their order of rounding allows, and packing.
#include <stdlib.h>
#include <string.h>

#include "bench_kernels.h"

// ---- linear
//
// Linear layers: every type in small and large batches, and other divisions of the work.
//
// The layer's weights are copied until no cache can hold all copies, as in a model of many layers,
// unless cached weights are asked for. GB/s counts the weights once per run. Before a kernel is
// timed, its result is compared with ref's for some panels and tokens.

#define WEIGHT_BYTES ((size_t)320 << 20) // of all copies together
#define MAX_TOK      512
#define N_OTHER_ROW  48 // different rows; the others repeat them
#define N_SAMPLE_TOK 16 // first and last tokens that are compared

static const fxi_dtype types[] = {FXI_Q8_0, FXI_F32,    FXI_F16,    FXI_BF16, FXI_Q4_0, FXI_Q4_1,
                                  FXI_Q5_0, FXI_Q5_1,   FXI_Q2_K,   FXI_Q3_K, FXI_Q4_K, FXI_Q5_K,
                                  FXI_Q6_K, FXI_IQ4_NL, FXI_IQ4_XS, FXI_MXFP4};
enum { N_TYPE = sizeof types / sizeof types[0] };

// Consecutive copies of a layer, and the activations.
typedef struct layer {
    const bench *b;
    fxi_linear w; // of the copy in use
    int n_copy, copy;
    size_t copy_bytes;
    char *data;
    int max_tok;
    fxi_act act;
    float *y; // [max_tok][n_out]
} layer;

// What --n-in and --n-out say, or a row of `widths`.
typedef struct layer_size {
    int n_in, n_out;
} layer_size;

// A division of the work of a layer.
typedef struct division {
    layer *l;
    int n_tok, panels_per_task, tok_per_call;
} division;

// ---- a layer -----------------------------------------------------------------------------------

static char *make_rows(const fxi_linear *w)
{
    const fxi_dtype_info *t = fxi_dtype_find(w->type);
    const size_t n_in = (size_t)w->n_in, row_bytes = n_in / t->block_elems * t->block_bytes;
    float *weight = bench_random_floats(N_OTHER_ROW * n_in);
    char *rows = bench_lines((size_t)w->n_out * row_bytes);
    for (size_t o = 0; o < (size_t)w->n_out; o++)
        if (o < N_OTHER_ROW)
            fxi_row_from_f32(w->type, weight + o * n_in, n_in, rows + o * row_bytes);
        else
            memcpy(rows + o * row_bytes, rows + (o - N_OTHER_ROW) * row_bytes, row_bytes);
    free(weight);
    return rows;
}

static void make_weights(layer *l)
{
    char *rows = make_rows(&l->w);
    if (!fxi_linear_reads_q8(&l->w)) l->w.group = l->b->group;
    l->copy_bytes = fxi_linear_bytes(&l->w);
    l->n_copy = l->b->cached ? 1 : (int)(WEIGHT_BYTES / l->copy_bytes) + 1;
    l->data = bench_lines((size_t)l->n_copy * l->copy_bytes);
    l->w.data = l->data;
    for (int p = 0; p < fxi_linear_n_panel(l->w.n_out); p++) fxi_linear_pack_panel(&l->w, rows, p);
    for (int i = 1; i < l->n_copy; i++)
        memcpy(l->data + (size_t)i * l->copy_bytes, l->data, l->copy_bytes);
    free(rows);
}

static void make_activations(layer *l)
{
    const size_t n = (size_t)l->max_tok * (size_t)l->w.n_in;
    float *x = bench_random_floats(n);
    l->act = (fxi_act){.x = x};
    l->y = bench_lines((size_t)l->max_tok * (size_t)l->w.n_out * sizeof(float));
    if (!fxi_linear_reads_q8(&l->w)) return;
    l->act.q = bench_lines(n);
    l->act.d = bench_lines(n / 32 * sizeof *l->act.d);
    l->act.sum = bench_lines(n / 16 * sizeof *l->act.sum);
    l->b->k->quant_q8(x, (int)n, l->act.q, l->act.d, l->act.sum);
}

static layer layer_open(const bench *b, fxi_dtype type, layer_size size, int max_tok)
{
    layer l = {
        .b = b, .w = {.type = type, .n_in = size.n_in, .n_out = size.n_out}, .max_tok = max_tok};
    make_weights(&l);
    make_activations(&l);
    return l;
}

static void layer_close(layer *l)
{
    free(l->data), free((float *)l->act.x), free(l->y);
    free(l->act.q), free(l->act.d), free(l->act.sum);
}

// The activations from token t on.
static fxi_act act_from(const layer *l, int t)
{
    size_t at = (size_t)t * (size_t)l->w.n_in;
    fxi_act a = {.x = l->act.x + at};
    if (l->act.q) a.q = l->act.q + at, a.d = l->act.d + at / 32, a.sum = l->act.sum + at / 16;
    return a;
}

// ---- runs --------------------------------------------------------------------------------------

static void run_task(void *arg, int task)
{
    const division *y = arg;
    const layer *l = y->l;
    const size_t n_out = (size_t)l->w.n_out;
    const int n_panel = fxi_linear_n_panel(l->w.n_out), p0 = task * y->panels_per_task;
    const int p1 = p0 + y->panels_per_task < n_panel ? p0 + y->panels_per_task : n_panel;
    for (int t = 0, n; t < y->n_tok; t += n) {
        n = y->n_tok - t < y->tok_per_call ? y->n_tok - t : y->tok_per_call;
        const fxi_act a = act_from(l, t);
        l->b->k->linear[l->w.type](&l->w, &a, n, p0, p1, l->y + (size_t)t * n_out, n_out);
    }
}

static void run_layer(void *arg)
{
    division *y = arg;
    layer *l = y->l;
    const int n_panel = fxi_linear_n_panel(l->w.n_out);
    l->copy = (l->copy + 1) % l->n_copy;
    l->w.data = l->data + (size_t)l->copy * l->copy_bytes;
    fxi_pool_run(l->b->pool, run_task, y, (n_panel + y->panels_per_task - 1) / y->panels_per_task);
}

// Eight tasks per thread, in groups of four panels.
static int usual_panels(const layer *l)
{
    int n = fxi_linear_n_panel(l->w.n_out) / (8 * fxi_pool_n_thread(l->b->pool));
    return n < 4 ? 4 : n / 4 * 4;
}

// Compares tokens [t, t + n) of one panel in the last run's result.
static void check_panel(const layer *l, int p, int t, int n)
{
    const size_t n_out = (size_t)l->w.n_out, o = (size_t)p * FXI_PANEL;
    const size_t width = n_out - o < FXI_PANEL ? n_out - o : FXI_PANEL;
    const fxi_act a = act_from(l, t);
    float *want = bench_lines((size_t)n * n_out * sizeof *want);
    fxi_kernels_get("ref")->linear[l->w.type](&l->w, &a, n, p, p + 1, want, n_out);
    for (size_t i = 0; i < (size_t)n; i++)
        bench_same_bits(l->b, "linear", fxi_dtype_find(l->w.type)->name,
                        l->y + ((size_t)t + i) * n_out + o, want + i * n_out + o,
                        width * sizeof *want);
    free(want);
}

static void check_bits(division *y)
{
    const int n_panel = fxi_linear_n_panel(y->l->w.n_out), some[] = {0, n_panel / 2, n_panel - 1};
    const int n = y->n_tok < N_SAMPLE_TOK ? y->n_tok : N_SAMPLE_TOK;
    run_layer(y);
    for (int i = 0; i < 3; i++) {
        check_panel(y->l, some[i], 0, n);
        check_panel(y->l, some[i], y->n_tok - n, n);
    }
}

// ---- rows --------------------------------------------------------------------------------------

static void print_row(const division *y, const char *op, double s)
{
    const layer *l = y->l;
    const char *path = l->b->k->name;
    const bool int8 = fxi_linear_reads_q8(&l->w) && (strstr(path, "vnni") || strstr(path, "amx"));
    bench_print_row(l->b, op, fxi_dtype_find(l->w.type)->name, l->w.n_in, l->w.n_out, y->n_tok, s,
                    (double)l->copy_bytes, 2.0 * y->n_tok * l->w.n_in * l->w.n_out,
                    int8 ? BENCH_INT8 : BENCH_FMA);
}

static void one_row(layer *l, const char *op, int n_tok)
{
    division y = {l, n_tok, usual_panels(l), n_tok};
    bench_timed t = {.run = run_layer, .arg = &y};
    double s;
    check_bits(&y);
    bench_limits_before(l->b);
    bench_time(l->b, &t, 1, &s);
    print_row(&y, op, s);
}

static bool is_wanted(const bench *b, fxi_dtype type, int n_in)
{
    const fxi_dtype_info *t = fxi_dtype_find(type);
    if (n_in % (int)t->block_elems) return false;
    return !b->only_type || fxi_dtype_by_name(b->only_type) == t;
}

void bench_linear(bench *b)
{
    static const int batches[] = {1, 2, 4, 8, 32, 128, MAX_TOK};
    const int *n_tok = b->n_tok ? &b->n_tok : batches;
    const size_t n = b->n_tok ? 1 : sizeof batches / sizeof batches[0];
    for (int i = 0; i < N_TYPE; i++) {
        if (!is_wanted(b, types[i], b->n_in)) continue;
        layer l = layer_open(b, types[i], (layer_size){b->n_in, b->n_out}, n_tok[n - 1]);
        for (size_t k = 0; k < n; k++) one_row(&l, "linear", n_tok[k]);
        layer_close(&l);
    }
}

// ---- widths
//
// Layers as small models have them, of widths that are no multiple of 256, and with a row for each
// token of a vocabulary: the share of the bandwidth is to be that of the other types and widths.

void bench_widths(bench *b)
{
    static const layer_size sizes[] = {{576, 1536},  {1536, 576},   {640, 2048},   {2048, 640},
                                       {896, 4864},  {4864, 896},   {1536, 8960},  {8960, 1536},
                                       {576, 49152}, {640, 262144}, {896, 151936}, {1536, 151936},
                                       {2048, 5632}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (int i = 0; i < N_TYPE; i++) {
            const int n_tok = b->n_tok ? b->n_tok : 1;
            if (!is_wanted(b, types[i], sizes[k].n_in)) continue;
            if (!b->only_type && fxi_dtype_find(types[i])->block_elems == 1) continue; // floats
            layer l = layer_open(b, types[i], sizes[k], n_tok);
            one_row(&l, "width", n_tok);
            layer_close(&l);
        }
}

// ---- sweeps ------------------------------------------------------------------------------------

enum { MAX_DIVISION = 8 };

static void compare_divisions(division *y, int n, const char *what, const int *value)
{
    const bench *b = y->l->b;
    bench_timed t[MAX_DIVISION];
    double s[MAX_DIVISION];
    char op[64];
    for (int i = 0; i < n; i++) {
        check_bits(&y[i]);
        t[i] = (bench_timed){.run = run_layer, .arg = &y[i]};
    }
    bench_limits_before(b);
    bench_time(b, t, n, s);
    for (int i = 0; i < n; i++) {
        snprintf(op, sizeof op, "%d %s", value[i], what);
        print_row(&y[i], op, s[i]);
    }
}

static void sweep_panels(layer *l, int n_tok)
{
    static const int panels[] = {4, 8, 16, 32, 88};
    division y[5];
    for (int i = 0; i < 5; i++) y[i] = (division){l, n_tok, panels[i], n_tok};
    compare_divisions(y, 5, "panels a task", panels);
}

void bench_linear_sweep(bench *b)
{
    static const int toks[] = {64, 128, 256, MAX_TOK};
    for (int i = 0; i < N_TYPE; i++) {
        // One type for each kind of inner loop, unless --type names one.
        const bool is_swept = b->only_type || types[i] == FXI_Q8_0 || types[i] == FXI_Q4_K ||
                              types[i] == FXI_Q6_K || types[i] == FXI_F16;
        if (!is_wanted(b, types[i], b->n_in) || !is_swept) continue;
        layer l = layer_open(b, types[i], (layer_size){b->n_in, b->n_out}, MAX_TOK);
        division y[4];
        sweep_panels(&l, 1);
        sweep_panels(&l, 32);
        sweep_panels(&l, MAX_TOK);
        for (int k = 0; k < 4; k++) y[k] = (division){&l, MAX_TOK, usual_panels(&l), toks[k]};
        compare_divisions(y, 4, "tokens a call", toks);
        layer_close(&l);
    }
}

// ---- order
//
// What the order of rounding (kernels.h) leaves of the int8 peak: the integer products of a type's
// runs and the roundings after each run, in registers. Nothing is loaded and no code is unpacked,
// so no layer can be faster with these bits. The peak counts products alone. Rows are printed on
// paths with VPDPBUSD.

enum { N_ROUND = 200000 };

static const struct order {
    const char *type;
    fxi_probe_run run;
} orders[] = {{"Q8_0", FXI_PROBE_RUN_32},
              {"Q4_0", FXI_PROBE_RUN_32},
              {"Q4_K", FXI_PROBE_RUN_32_OFFSET},
              {"Q6_K", FXI_PROBE_RUN_16}};

typedef struct order_job {
    const fxi_probe_int8 *loop;
    fxi_pool *pool;
    volatile float sink;
} order_job;

static void order_task(void *arg, int task)
{
    order_job *job = arg;
    (void)task;
    if (job->loop->run(0, N_ROUND) < 0) job->sink = 0; // never: keeps the result in use
}

static void order_all(void *arg)
{
    order_job *job = arg;
    fxi_pool_run(job->pool, order_task, job, fxi_pool_n_thread(job->pool));
}

void bench_order(bench *b)
{
    const fxi_probe_int8 *loops = fxi_probe_loops_get()->int8;
    for (size_t i = 0; loops && i < sizeof orders / sizeof orders[0]; i++) {
        if (b->only_type && strcmp(b->only_type, orders[i].type) != 0) continue;
        order_job job = {.loop = &loops[orders[i].run], .pool = b->pool};
        bench_timed t = {.run = order_all, .arg = &job};
        double s;
        bench_limits_before(b);
        bench_time(b, &t, 1, &s);
        const double n_op = job.loop->op * N_ROUND * fxi_pool_n_thread(b->pool);
        bench_print_row(b, "order", orders[i].type, 0, 0, 0, s, 0, n_op, BENCH_INT8);
    }
}

// ---- pack
//
// Rows of a file become panels: what loading a model takes besides its memory. One thread, from and
// to the second-level cache. GB/s counts the rows. Each panel is compared with the rows first.

enum { PACK_N_IN = 2048, PACK_PANELS = 4, PACK_REPEAT = 8 };

typedef struct pack_bench {
    fxi_linear w;
    char *rows;
} pack_bench;

static void run_pack(void *arg)
{
    const pack_bench *p = arg;
    for (int i = 0; i < PACK_REPEAT; i++)
        for (int panel = 0; panel < PACK_PANELS; panel++)
            fxi_linear_pack_panel(&p->w, p->rows, panel);
}

static void pack_type(const bench *b, fxi_dtype type)
{
    const fxi_dtype_info *t = fxi_dtype_find(type);
    const int n_out = PACK_PANELS * FXI_PANEL;
    const size_t n = (size_t)PACK_N_IN * (size_t)n_out,
                 n_bytes = n / t->block_elems * t->block_bytes;
    float *x = bench_random_floats(n);
    pack_bench p = {{.type = type, .n_in = PACK_N_IN, .n_out = n_out}, bench_lines(n_bytes)};
    double s;
    if (!fxi_linear_reads_q8(&p.w)) p.w.group = b->group;
    p.w.data = bench_lines(fxi_linear_bytes(&p.w));
    fxi_row_from_f32(type, x, n, p.rows);
    run_pack(&p);
    for (size_t row = 0; row < (size_t)n_out; row++) {
        float got[PACK_N_IN], want[PACK_N_IN];
        fxi_row_to_f32(type, p.rows + row * (n_bytes / (size_t)n_out), PACK_N_IN, want);
        fxi_linear_row(&p.w, (int)row, got);
        bench_same_bits(b, "pack", t->name, got, want, sizeof got);
    }
    bench_time(b, &(bench_timed){.run = run_pack, .arg = &p}, 1, &s);
    bench_print_plain(b, "pack", t->name, PACK_N_IN, n_out, s / PACK_REPEAT, (double)n_bytes);
    free(x), free(p.rows), free(p.w.data);
}

void bench_pack(bench *b)
{
    for (int type = 0; type < FXI_DTYPE_END; type++) {
        const fxi_dtype_info *t = fxi_dtype_find((uint32_t)type);
        const bool wanted = !b->only_type || fxi_dtype_by_name(b->only_type) == t;
        if (t && t->runs && wanted) pack_type(b, (fxi_dtype)type);
    }
}
