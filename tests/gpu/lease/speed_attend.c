// speed_attend.c - attention over a cache, launch by launch: our kernels as a pass launches them,
// and cuDNN's as `fast` calls it. Launches go through the cache's layers in turn, as passes do, so
// that small caches are not read from the device's own cache.
#include <string.h>

#include "speed_rig.h"

// ---- ours --------------------------------------------------------------------------------------

static fxi_cuda_attn_args attend_args(const speed_rig *r, const speed_case *c, int kind)
{
    return (fxi_cuda_attn_args){.seq = r->seq_at + kind * SPEED_MAX_BATCH,
                                .tile = r->tile_at,
                                .q = r->q,
                                .out = r->out,
                                .part = r->part,
                                .n_head = SPEED_N_HEAD,
                                .n_kv_head = c->n_kv_head,
                                .head_dim = SPEED_HEAD_DIM,
                                .kv_type = FXI_F16,
                                .scale = 0.088f};
}

void speed_job_ours(speed_job *j, speed_rig *r, const speed_case *c, const speed_cache *cache,
                    speed_kind kind)
{
    fxi_cuda_seq seq[SPEED_MAX_BATCH] = {0};
    fxi_cuda_plan plan = {.n_head = SPEED_N_HEAD,
                          .n_kv_head = c->n_kv_head,
                          .n_block = 2 * r->g->cu.n_sm,
                          .max_part = r->max_part,
                          .is_wide = r->g->math == FXI_CUDA_LAW};
    for (int i = 0; i < c->batch; i++)
        seq[i] = (fxi_cuda_seq){.view = {cache->view[i]},
                                .row0 = i * c->n_tok,
                                .n_tok = c->n_tok,
                                .pos = c->n_pos - c->n_tok};
    for (int i = 0; i < c->batch; i++) fxi_cuda_plan_add(&plan, seq, i, c->n_tok, r->tile);
    fxi_cuda_plan_end(&plan, r->tile);
    speed_send(r, r->seq_at + kind * SPEED_MAX_BATCH, seq, sizeof seq);
    speed_send(r, r->tile_at, r->tile, (size_t)plan.n_tile * sizeof *r->tile);
    *j = (speed_job){.r = r, .cache = cache, .few = attend_args(r, c, kind)};
    j->few.max_range = plan.max_range;
    j->wide = j->few;
    j->few.n_tile = plan.n_tile - plan.n_wide;
    j->wide.n_tile = plan.n_wide;
    j->wide.tile += j->few.n_tile;
}

// Both kinds of tiles, and what merges the parts of those that are spread.
static void launch_ours(speed_job *j, int layer)
{
    fx_error err = {0};
    fxi_gpu *g = j->r->g;
    fxi_cuda_attn_args all = j->few;
    j->few.kv_layer = j->wide.kv_layer = layer;
    all.n_tile += j->wide.n_tile;
    speed_must(
        fxi_gpu_launch(g, fxi_cuda_attention_find(FXI_F16, SPEED_HEAD_DIM, g->math), &j->few, &err),
        &err);
    if (j->wide.n_tile)
        speed_must(fxi_gpu_launch(g, fxi_cuda_attention_wide_find(FXI_F16, SPEED_HEAD_DIM, g->math),
                                  &j->wide, &err),
                   &err);
    if (all.max_range > 1) speed_must(fxi_gpu_launch(g, FXI_CUDA_ATTN_MERGE, &all, &err), &err);
}

// ---- cuDNN's -----------------------------------------------------------------------------------

// Offsets count from the lowest of the caches.
static void send_arrays(speed_job *j, const speed_case *c, int kind)
{
    speed_arrays a = {0};
    j->lowest = j->cache->view[0].base;
    for (int i = 1; i < c->batch; i++)
        if (j->cache->view[i].base < j->lowest) j->lowest = j->cache->view[i].base;
    for (int i = 0; i < c->batch; i++) {
        a.n_q[i] = c->n_tok;
        a.n_kv[i] = c->n_pos;
        a.q_at[i + 1] = a.q_at[i] + (int64_t)c->n_tok * SPEED_N_HEAD * SPEED_HEAD_DIM;
        a.kv_at[i] = (j->cache->view[i].base - j->lowest) / (int64_t)sizeof(uint16_t);
        a.kv_at[i + 1] = a.kv_at[i];
    }
    speed_send(j->r, j->r->arrays_at + kind, &a, sizeof a);
    j->arrays = j->r->arrays_at + kind;
}

bool speed_job_cudnn(speed_job *j, speed_rig *r, const speed_case *c, const speed_cache *cache,
                     speed_kind kind)
{
    const fxi_sdpa_shape shape = {
        .type = FXI_F16,
        .n_seq = c->batch,
        .n_head = SPEED_N_HEAD,
        .n_kv_head = c->n_kv_head,
        .head_dim = SPEED_HEAD_DIM,
        .max_q_tok = c->n_tok,
        .max_kv_tok = c->n_pos,
        .token_step = (int64_t)(cache->view[0].tok_stride_bytes / sizeof(uint16_t))};
    fx_error err = {0};
    if (!fxi_dnn_is_open(&r->dnn) || cache->view[0].table) return false;
    *j = (speed_job){.r = r, .cache = cache};
    send_arrays(j, c, kind);
    speed_must(fxi_cu_enter(&r->g->cu, &err), &err);
    speed_must(fxi_dnn_find(&r->dnn, &shape, &j->plan, &err), &err);
    fxi_cu_leave(&r->g->cu);
    return j->plan != NULL;
}

static void launch_cudnn(const speed_job *j, int layer)
{
    fx_error err = {0};
    float scale = 0.088f;
    speed_rig *r = j->r;
    const size_t plane = j->cache->view[0].plane_stride_bytes;
    char *keys = j->lowest + (size_t)(2 * layer) * plane;
    speed_arrays *a = j->arrays;
    void *const data[FXI_SDPA_N_DATA] = {
        [FXI_SDPA_Q] = r->q16,     [FXI_SDPA_K] = keys,       [FXI_SDPA_V] = keys + plane,
        [FXI_SDPA_OUT] = r->out,   [FXI_SDPA_SCALE] = &scale, [FXI_SDPA_N_Q] = a->n_q,
        [FXI_SDPA_N_KV] = a->n_kv, [FXI_SDPA_Q_AT] = a->q_at, [FXI_SDPA_KV_AT] = a->kv_at};
    speed_must(fxi_cu_enter(&r->g->cu, &err), &err);
    speed_must(fxi_dnn_run(&r->dnn, j->plan, data, r->workspace, &err), &err);
    fxi_cu_leave(&r->g->cu);
}

void speed_job_launch(speed_job *j)
{
    const int layer = j->layer;
    j->layer = (j->layer + 1) % j->cache->n_layer;
    if (j->plan)
        launch_cudnn(j, layer);
    else
        launch_ours(j, layer);
}
