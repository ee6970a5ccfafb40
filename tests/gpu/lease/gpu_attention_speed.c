// gpu_attention_speed.c - how fast attention is over batch x positions x KV heads, contiguous and
// paged, as CSV: of one decoded token per sequence or, with `prefill`, of the last 512 positions of
// each, behind a prefix that is in the cache.
//
//     gpu_attention_speed [small] [prefill] [exact|law]
//
// Beside each contiguous case, NVIDIA's cuDNN on the same cache, where it is installed and takes
// it.
//
// The cache's content is arbitrary. A row's time is the mean of launches given one after the
// other, from which the wait for all of them is not subtracted; GB/s counts keys and values
// once, Tflop/s a multiplication and an addition for each number of a key and of a value that a
// query attends to.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "gpu/device/gpu_impl.h"

enum { N_HEAD = 32, HEAD_DIM = 128 };

typedef struct speed_case {
    int batch, n_pos, n_kv_head;
    int n_tok;     // new ones of each sequence
    int block_tok; // 0: contiguous
} speed_case;

enum { MAX_BATCH = 64 };

// What cuDNN is told of a batch.
typedef struct speed_arrays {
    int64_t q_at[MAX_BATCH + 1], kv_at[MAX_BATCH + 1];
    int32_t n_q[MAX_BATCH], n_kv[MAX_BATCH];
} speed_arrays;

// What a case needs on the device.
typedef struct speed_rig {
    fxi_device *d;
    fxi_cuda_math math;
    char *cache;
    size_t cache_bytes;
    fxi_cuda_seq *seq, *seq_at;
    fxi_cuda_tile *tile, *tile_at;
    int32_t *table, *table_at;
    float *q, *out, *part;
    int max_batch, max_pos, max_row, max_part;
    int n_round; // launches of a case
    fxi_dnn dnn; // not open: it is not installed
    speed_arrays *arrays_at;
    void *workspace;
} speed_rig;

static void must_run(fx_status st, const fx_error *err)
{
    if (st == FX_OK) return;
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

static void *take_bytes(const speed_rig *r, size_t size_bytes)
{
    void *at;
    fx_error err = {0};
    must_run(r->d->ops->take(r->d, size_bytes, 0, &at, &err), &err);
    return at;
}

static void send_bytes(const speed_rig *r, void *dst, const void *src, size_t size_bytes)
{
    fx_error err = {0};
    must_run(r->d->ops->upload(r->d, dst, src, size_bytes, &err), &err);
}

static void open_rig(speed_rig *r, const char *math, int max_batch, int max_pos, int max_tok)
{
    fx_error err = {0};
    fxi_device_memory m;
    const fxi_gpu_options opt = {.name = "cuda:0", .math = math};
    must_run(fxi_gpu_open(&opt, &r->d, &err), &err);
    r->math = fxi_gpu_of(r->d)->math;
    r->max_batch = max_batch;
    r->max_pos = max_pos;
    r->max_row = max_batch * max_tok;
    const size_t n_row = (size_t)r->max_row * N_HEAD,
                 n_block = (size_t)max_batch * (size_t)max_pos / 16;
    r->max_part = (int)(n_row * (size_t)fxi_attn_n_segment(max_pos));
    if (r->max_part > 1 << 19) r->max_part = 1 << 19;
    r->seq = calloc((size_t)max_batch, sizeof *r->seq);
    r->tile = calloc((size_t)r->max_row, sizeof *r->tile);
    r->table = calloc(n_block + 1, sizeof *r->table);
    if (!r->seq || !r->tile || !r->table) exit(1);
    r->seq_at = take_bytes(r, (size_t)max_batch * sizeof *r->seq);
    r->tile_at = take_bytes(r, (size_t)r->max_row * sizeof *r->tile);
    r->table_at = take_bytes(r, (n_block + 1) * sizeof *r->table);
    r->q = take_bytes(r, n_row * HEAD_DIM * sizeof(float));
    r->out = take_bytes(r, n_row * HEAD_DIM * sizeof(float));
    r->part = take_bytes(r, (size_t)r->max_part * (FXI_CUDA_PART_ACC + HEAD_DIM) * sizeof(float));
    r->d->ops->memory(r->d, &m);
    const size_t all = (size_t)max_batch * (size_t)max_pos * N_HEAD * HEAD_DIM * 4;
    r->cache_bytes = all < m.free_bytes / 10 * 9 ? all : (size_t)(m.free_bytes / 10 * 9);
    r->cache = take_bytes(r, r->cache_bytes);
}

// Its rows are left out where it is not installed.
static void open_cudnn(speed_rig *r)
{
    fx_error err = {0};
    fxi_gpu *g = fxi_gpu_of(r->d);
    must_run(fxi_cu_enter(&g->cu, &err), &err);
    if (fxi_dnn_open(&r->dnn, &g->cu, &err) != FX_OK) printf("# no rows of cuDNN: %s\n", err.text);
    fxi_cu_leave(&g->cu);
    r->arrays_at = take_bytes(r, sizeof *r->arrays_at);
    r->workspace = take_bytes(r, FXI_DNN_WORKSPACE_BYTES);
}

static void close_cudnn(speed_rig *r)
{
    fxi_gpu *g = fxi_gpu_of(r->d);
    if (fxi_cu_enter(&g->cu, NULL) != FX_OK) return;
    fxi_dnn_close(&r->dnn);
    fxi_cu_leave(&g->cu);
}

static void close_rig(speed_rig *r)
{
    close_cudnn(r);
    r->d->ops->close(r->d);
    free(r->seq);
    free(r->tile);
    free(r->table);
}

// Zeros are numbers, too; a cache of NaN would take other ways.
static void clear_memory(const speed_rig *r)
{
    fx_error err = {0};
    fxi_gpu *g = fxi_gpu_of(r->d);
    must_run(fxi_cu_enter(&g->cu, &err), &err);
    must_run(fxi_cu_zero(&g->cu, g->cu.compute, r->cache, r->cache_bytes, &err), &err);
    must_run(
        fxi_cu_zero(&g->cu, g->cu.compute, r->q, (size_t)r->max_row * N_HEAD * HEAD_DIM * 4, &err),
        &err);
    must_run(fxi_cu_wait(&g->cu, g->cu.compute, &err), &err);
    fxi_cu_leave(&g->cu);
}

static size_t row_bytes_of_case(const speed_case *c)
{
    return (size_t)c->n_kv_head * HEAD_DIM * 2;
}

static size_t case_bytes(const speed_case *c)
{
    return (size_t)c->batch * (size_t)c->n_pos * row_bytes_of_case(c) * 2;
}

// Blocks in an order in which a busy manager leaves them.
static void shuffle_table(speed_rig *r, int n_block)
{
    uint32_t seed = 1;
    for (int i = 0; i < n_block; i++) r->table[i] = i;
    for (int i = n_block - 1; i > 0; i--) {
        seed = seed * 1664525 + 1013904223;
        const int k = (int)((seed >> 8) % (uint32_t)(i + 1)), t = r->table[i];
        r->table[i] = r->table[k];
        r->table[k] = t;
    }
    send_bytes(r, r->table_at, r->table, (size_t)n_block * sizeof *r->table);
}

static fxi_kv_view view_of(const speed_rig *r, const speed_case *c, int i)
{
    const size_t row = row_bytes_of_case(c), n_pos = (size_t)c->n_pos;
    if (!c->block_tok)
        return (fxi_kv_view){.base = r->cache + (size_t)i * n_pos * row * 2,
                             .plane_stride_bytes = n_pos * row,
                             .tok_stride_bytes = row};
    const size_t block = (size_t)c->block_tok;
    return (fxi_kv_view){.base = r->cache,
                         .plane_stride_bytes = block * row,
                         .tok_stride_bytes = row,
                         .table = r->table_at + (size_t)i * n_pos / block,
                         .block_shift = c->block_tok == 16 ? 4 : 8,
                         .block_stride_bytes = 2 * block * row};
}

static fxi_cuda_attn_args prepare_case(speed_rig *r, const speed_case *c, int *n_wide)
{
    const fxi_gpu *g = fxi_gpu_of(r->d);
    fxi_cuda_plan plan = {.n_head = N_HEAD,
                          .n_kv_head = c->n_kv_head,
                          .n_block = 2 * g->cu.n_sm,
                          .max_part = r->max_part,
                          .is_wide = r->math == FXI_CUDA_LAW};
    if (c->block_tok) shuffle_table(r, c->batch * (c->n_pos / c->block_tok));
    for (int i = 0; i < c->batch; i++)
        r->seq[i] = (fxi_cuda_seq){.view = {view_of(r, c, i)},
                                   .row0 = i * c->n_tok,
                                   .n_tok = c->n_tok,
                                   .pos = c->n_pos - c->n_tok};
    for (int i = 0; i < c->batch; i++) fxi_cuda_plan_add(&plan, r->seq, i, c->n_tok, r->tile);
    fxi_cuda_plan_end(&plan, r->tile);
    *n_wide = plan.n_wide;
    send_bytes(r, r->seq_at, r->seq, (size_t)c->batch * sizeof *r->seq);
    send_bytes(r, r->tile_at, r->tile, (size_t)plan.n_tile * sizeof *r->tile);
    return (fxi_cuda_attn_args){.seq = r->seq_at,
                                .tile = r->tile_at,
                                .n_tile = plan.n_tile,
                                .max_range = plan.max_range,
                                .q = r->q,
                                .out = r->out,
                                .part = r->part,
                                .n_head = N_HEAD,
                                .n_kv_head = c->n_kv_head,
                                .head_dim = HEAD_DIM,
                                .kv_type = FXI_F16,
                                .scale = 0.088f};
}

// Both kinds of tiles, and what merges the parts of those that are spread.
static void run_rounds(const speed_rig *r, const fxi_cuda_attn_args *a, int n_wide, int n)
{
    fx_error err = {0};
    fxi_gpu *g = fxi_gpu_of(r->d);
    const fxi_cuda_kernel_id id = fxi_cuda_attention_find(FXI_F16, HEAD_DIM, r->math),
                             wide = fxi_cuda_attention_wide_find(FXI_F16, HEAD_DIM, r->math);
    fxi_cuda_attn_args few = *a, many = *a;
    few.n_tile -= n_wide;
    many.tile += few.n_tile;
    many.n_tile = n_wide;
    for (int i = 0; i < n; i++) {
        must_run(fxi_gpu_launch(g, id, &few, &err), &err);
        if (n_wide) must_run(fxi_gpu_launch(g, wide, &many, &err), &err);
        if (a->max_range > 1) must_run(fxi_gpu_launch(g, FXI_CUDA_ATTN_MERGE, a, &err), &err);
    }
    must_run(r->d->ops->wait(r->d, &err), &err);
}

static double case_flop(const speed_case *c)
{
    const double attended = (double)c->n_tok * (c->n_pos - (c->n_tok - 1) / 2.0);
    return attended * c->batch * N_HEAD * HEAD_DIM * 4;
}

static void print_row(const speed_case *c, const char *math, double us)
{
    printf("%s,%s,%d,%d,%d,%d,%.1f,%.1f,%.2f\n", math,
           !c->block_tok        ? "contiguous"
           : c->block_tok == 16 ? "paged-16"
                                : "paged-256",
           c->batch, c->n_pos, c->n_tok, c->n_kv_head, us, (double)case_bytes(c) / us * 1e-3,
           case_flop(c) / us * 1e-6);
    fflush(stdout);
}

static void measure_case(speed_rig *r, const speed_case *c, const char *math)
{
    int n_wide;
    if (case_bytes(c) > r->cache_bytes || c->n_tok > c->n_pos) return;
    const fxi_cuda_attn_args a = prepare_case(r, c, &n_wide);
    fx_error err = {0};
    fxi_gpu *g = fxi_gpu_of(r->d);
    must_run(fxi_cu_enter(&g->cu, &err), &err);
    must_run(fxi_gpu_stage_drain(&g->cu, &g->stage, &err), &err);
    fxi_cu_leave(&g->cu);
    run_rounds(r, &a, n_wide, 1);
    const double t0 = fxi_now_s();
    run_rounds(r, &a, n_wide, r->n_round);
    print_row(c, math, (fxi_now_s() - t0) * 1e6 / r->n_round);
}

// ---- cuDNN -------------------------------------------------------------------------------------

static void send_arrays(const speed_rig *r, const speed_case *c)
{
    speed_arrays a = {0};
    for (int i = 0; i < c->batch; i++) {
        a.n_q[i] = c->n_tok;
        a.n_kv[i] = c->n_pos;
        a.q_at[i + 1] = a.q_at[i] + (int64_t)c->n_tok * N_HEAD * HEAD_DIM;
        a.kv_at[i + 1] = a.kv_at[i] + (int64_t)c->n_pos * c->n_kv_head * HEAD_DIM * 2;
    }
    send_bytes(r, r->arrays_at, &a, sizeof a);
}

// Queries are zeros, as of f32, so of f16.
static void run_cudnn(speed_rig *r, const speed_case *c, const fxi_sdpa *plan, int n)
{
    fx_error err = {0};
    float scale = 0.088f;
    char *keys = r->cache;
    void *const data[FXI_SDPA_N_DATA] = {[FXI_SDPA_Q] = r->q,
                                         [FXI_SDPA_K] = keys,
                                         [FXI_SDPA_V] =
                                             keys + (size_t)c->n_pos * row_bytes_of_case(c),
                                         [FXI_SDPA_OUT] = r->out,
                                         [FXI_SDPA_SCALE] = &scale,
                                         [FXI_SDPA_N_Q] = r->arrays_at->n_q,
                                         [FXI_SDPA_N_KV] = r->arrays_at->n_kv,
                                         [FXI_SDPA_Q_AT] = r->arrays_at->q_at,
                                         [FXI_SDPA_KV_AT] = r->arrays_at->kv_at};
    for (int i = 0; i < n; i++)
        must_run(fxi_dnn_run(&r->dnn, plan, data, r->workspace, &err), &err);
    fxi_gpu *g = fxi_gpu_of(r->d);
    must_run(fxi_cu_wait(&g->cu, g->cu.compute, &err), &err);
}

static void measure_cudnn(speed_rig *r, const speed_case *c)
{
    const fxi_sdpa_shape shape = {.type = FXI_F16,
                                  .n_seq = c->batch,
                                  .n_head = N_HEAD,
                                  .n_kv_head = c->n_kv_head,
                                  .head_dim = HEAD_DIM,
                                  .max_q_tok = c->n_tok,
                                  .max_kv_tok = c->n_pos,
                                  .token_step = (int64_t)c->n_kv_head * HEAD_DIM};
    const fxi_sdpa *plan = NULL;
    fx_error err = {0};
    fxi_gpu *g = fxi_gpu_of(r->d);
    if (!fxi_dnn_is_open(&r->dnn) || case_bytes(c) > r->cache_bytes || c->n_tok > c->n_pos) return;
    send_arrays(r, c);
    must_run(fxi_cu_enter(&g->cu, &err), &err);
    must_run(fxi_gpu_stage_drain(&g->cu, &g->stage, &err), &err);
    must_run(fxi_dnn_find(&r->dnn, &shape, &plan, &err), &err);
    if (plan) {
        run_cudnn(r, c, plan, 1);
        const double t0 = fxi_now_s();
        run_cudnn(r, c, plan, r->n_round);
        print_row(c, "cudnn", (fxi_now_s() - t0) * 1e6 / r->n_round);
    }
    fxi_cu_leave(&g->cu);
}

// ---- all cases ---------------------------------------------------------------------------------

static void measure_both(speed_rig *r, const speed_case *c, const char *math)
{
    measure_case(r, c, math);
    if (!c->block_tok) measure_cudnn(r, c);
}

static void measure_all(speed_rig *r, const char *math, bool small, bool prefill)
{
    static const int batch[] = {1, 4, 16, 64}, n_pos[] = {1024, 4096, 8192, 32768},
                     n_kv[] = {1, 4, 8, 32}, block[] = {0, 16, 256};
    for (size_t b = 0; b < (small ? 1 : prefill ? 3 : 4); b++)
        for (size_t p = 0; p < (small ? 1 : 4); p++)
            for (size_t k = 0; k < (small ? 1 : 4); k++)
                for (size_t t = 0; t < 3; t++)
                    measure_both(r,
                                 &(speed_case){.batch = batch[b],
                                               .n_pos = small ? 512 : n_pos[p],
                                               .n_kv_head = small ? 8 : n_kv[k],
                                               .n_tok = !prefill ? 1
                                                        : small  ? 8
                                                                 : 512,
                                               .block_tok = block[t]},
                                 math);
}

int main(int argc, char **argv)
{
    const bool small = argc > 1 && strcmp(argv[1], "small") == 0;
    const bool prefill = argc > 1 + small && strcmp(argv[1 + small], "prefill") == 0;
    const int i = 1 + small + prefill;
    const char *math = argc > i ? argv[i] : "law";
    speed_rig r = {.n_round = small ? 1 : 20};
    open_rig(&r, math, small ? 2 : prefill ? 16 : 64, small ? 512 : 32768, prefill ? 512 : 1);
    open_cudnn(&r);
    clear_memory(&r);
    printf("math,cache,batch,positions,new_tokens,kv_heads,us,gb_per_s,tflop_per_s\n");
    measure_all(&r, math, small, prefill);
    close_rig(&r);
    return 0;
}
