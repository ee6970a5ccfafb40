// row_ops.c - operations on a token's row between the layers, in one thread with all data in the
// first-level cache. GB/s counts the row that is read.
#include <stdlib.h>
#include <string.h>

#include "bench_kernels.h"

enum { N = 2048, HEAD_DIM = 64, ROW_REPEAT = 1000 }; // ROW_REPEAT: rows per run

typedef struct row_results {
    float y[N];
    int8_t q[N];
    float d[N / 32];
    int32_t sum[N / 16];
    char kv[N * sizeof(float)];
} row_results;

typedef enum row_kind {
    RMS_NORM,
    LAYER_NORM,
    ADD_SCALED,
    SOFTCAP,
    SWIGLU,
    SWIGLU_CLAMPED,
    GEGLU,
    GEGLU_ERF,
    RELU,
    ADD,
    ROPE,
    QUANT_Q8,
    STORE_KV
} row_kind;

static const struct row_op {
    const char *name;
    row_kind kind;
    fxi_dtype type; // of the result
} ops[] = {{"rms_norm", RMS_NORM, FXI_F32},
           {"layer_norm", LAYER_NORM, FXI_F32},
           {"add_scaled", ADD_SCALED, FXI_F32},
           {"softcap", SOFTCAP, FXI_F32},
           {"swiglu", SWIGLU, FXI_F32},
           {"swiglu_clamped", SWIGLU_CLAMPED, FXI_F32},
           {"geglu", GEGLU, FXI_F32},
           {"geglu_erf", GEGLU_ERF, FXI_F32},
           {"relu", RELU, FXI_F32},
           {"add", ADD, FXI_F32},
           {"rope", ROPE, FXI_F32},
           {"quant_q8", QUANT_Q8, FXI_Q8_0},
           {"store_kv", STORE_KV, FXI_F32},
           {"store_kv", STORE_KV, FXI_F16},
           {"store_kv", STORE_KV, FXI_BF16},
           {"store_kv", STORE_KV, FXI_Q8_0}};

typedef struct row_bench {
    const fxi_kernels *k;
    const struct row_op *op;
    float *x, *w; // [N]
    row_results *out;
} row_bench;

static void run_row(const row_bench *r)
{
    const fxi_kernels *k = r->k;
    row_results *out = r->out;
    if (r->op->kind == ADD_SCALED || r->op->kind == SOFTCAP) memcpy(out->y, r->x, N * sizeof *r->x);
    switch (r->op->kind) {
    case RMS_NORM: k->rms_norm(r->x, r->w, N, 1e-5f, out->y); break;
    case LAYER_NORM: k->layer_norm(r->x, r->w, r->x, N, 1e-5f, out->y); break;
    case ADD_SCALED: k->add_scaled(out->y, r->w, 0.5f, N); break;
    case SOFTCAP: k->softcap(out->y, 30, N); break;
    case SWIGLU: k->gate[FXI_ACT_SILU](r->x, r->w, N, out->y); break;
    case SWIGLU_CLAMPED: k->gate[FXI_ACT_CLAMPED](r->x, r->w, N, out->y); break;
    case GEGLU: k->gate[FXI_ACT_GELU](r->x, r->w, N, out->y); break;
    case GEGLU_ERF: k->gate[FXI_ACT_GELU_ERF](r->x, r->w, N, out->y); break;
    case RELU: k->act[FXI_ACT_RELU](r->x, N, out->y); break;
    case ADD: k->add(out->y, r->x, N); break;
    case ROPE: k->rope(out->y, N / HEAD_DIM, HEAD_DIM, HEAD_DIM / 2, r->x, r->w); break;
    case QUANT_Q8: k->quant_q8(r->x, N, out->q, out->d, out->sum); break;
    case STORE_KV: k->store_kv[r->op->type](r->x, N, out->kv); break;
    }
}

static void run_rows(void *arg)
{
    const row_bench *r = arg;
    for (int i = 0; i < ROW_REPEAT; i++) run_row(r);
}

// The result of one row, in memory of its own.
static row_results *row_result(row_bench r, const fxi_kernels *k)
{
    r.k = k;
    r.out = bench_lines(sizeof *r.out);
    memset(r.out, 0, sizeof *r.out);
    memcpy(r.out->y, r.w, sizeof r.out->y);
    run_row(&r);
    return r.out;
}

static void bench_op(const bench *b, row_bench *r, const struct row_op *op)
{
    const char *type = fxi_dtype_find(op->type)->name;
    r->op = op;
    row_results *ref = row_result(*r, fxi_kernels_get("ref"));
    r->out = row_result(*r, b->k);
    bench_same_bits(b, op->name, type, r->out, ref, sizeof *ref);
    bench_timed t = {.run = run_rows, .arg = r};
    double s;
    bench_time(b, &t, 1, &s);
    bench_print_plain(b, op->name, type, N, N, s / ROW_REPEAT, N * sizeof(float));
    free(r->out), free(ref);
}

void bench_rows(bench *b)
{
    if (b->only_type) return;
    row_bench r = {.k = b->k, .x = bench_random_floats(N), .w = bench_random_floats(N)};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) bench_op(b, &r, &ops[i]);
    free(r.x), free(r.w);
}
