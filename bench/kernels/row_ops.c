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

typedef struct row_op row_op;

typedef struct row_bench {
    const fxi_kernels *k;
    const row_op *op;
    float *x, *w; // [N]
    row_results *out;
} row_bench;

struct row_op {
    const char *name;
    fxi_dtype type; // of the result
    void (*run)(const row_bench *r);
};

static void run_rms_norm(const row_bench *r)
{
    r->k->rms_norm(r->x, r->w, N, 1e-5f, r->out->y);
}

static void run_layer_norm(const row_bench *r)
{
    r->k->layer_norm(r->x, r->w, r->x, N, 1e-5f, r->out->y);
}

static void run_add_scaled(const row_bench *r)
{
    memcpy(r->out->y, r->x, N * sizeof *r->x);
    r->k->add_scaled(r->out->y, r->w, 0.5f, N);
}

static void run_softcap(const row_bench *r)
{
    memcpy(r->out->y, r->x, N * sizeof *r->x);
    r->k->softcap(r->out->y, 30, N);
}

static void run_swiglu(const row_bench *r)
{
    r->k->gate[FXI_ACT_SILU](r->x, r->w, N, r->out->y);
}

static void run_swiglu_clamped(const row_bench *r)
{
    r->k->gate[FXI_ACT_CLAMPED](r->x, r->w, N, r->out->y);
}

static void run_geglu(const row_bench *r)
{
    r->k->gate[FXI_ACT_GELU](r->x, r->w, N, r->out->y);
}

static void run_geglu_erf(const row_bench *r)
{
    r->k->gate[FXI_ACT_GELU_ERF](r->x, r->w, N, r->out->y);
}

static void run_relu(const row_bench *r)
{
    r->k->act[FXI_ACT_RELU](r->x, N, r->out->y);
}

static void run_add(const row_bench *r)
{
    r->k->add(r->out->y, r->x, N);
}

static void run_rope(const row_bench *r)
{
    r->k->rope(r->out->y, N / HEAD_DIM, HEAD_DIM, HEAD_DIM / 2, r->x, r->w);
}

static void run_quant_q8(const row_bench *r)
{
    r->k->quant_q8(r->x, N, r->out->q, r->out->d, r->out->sum);
}

static void run_store_kv(const row_bench *r)
{
    r->k->store_kv[r->op->type](r->x, N, r->out->kv);
}

static const row_op ops[] = {{"rms_norm", FXI_F32, run_rms_norm},
                             {"layer_norm", FXI_F32, run_layer_norm},
                             {"add_scaled", FXI_F32, run_add_scaled},
                             {"softcap", FXI_F32, run_softcap},
                             {"swiglu", FXI_F32, run_swiglu},
                             {"swiglu_clamped", FXI_F32, run_swiglu_clamped},
                             {"geglu", FXI_F32, run_geglu},
                             {"geglu_erf", FXI_F32, run_geglu_erf},
                             {"relu", FXI_F32, run_relu},
                             {"add", FXI_F32, run_add},
                             {"rope", FXI_F32, run_rope},
                             {"quant_q8", FXI_Q8_0, run_quant_q8},
                             {"store_kv", FXI_F32, run_store_kv},
                             {"store_kv", FXI_F16, run_store_kv},
                             {"store_kv", FXI_BF16, run_store_kv},
                             {"store_kv", FXI_Q8_0, run_store_kv}};

static void run_rows(void *arg)
{
    const row_bench *r = arg;
    for (int i = 0; i < ROW_REPEAT; i++) r->op->run(r);
}

// The result of one row, in memory of its own.
static row_results *row_result(row_bench r, const fxi_kernels *k)
{
    r.k = k;
    r.out = bench_lines(sizeof *r.out);
    memset(r.out, 0, sizeof *r.out);
    memcpy(r.out->y, r.w, sizeof r.out->y);
    r.op->run(&r);
    return r.out;
}

static void bench_op(const bench *b, row_bench *r, const row_op *op)
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
