// speed_attend.c - attention over a cache, launch by launch, as a pass launches it. Launches go
// through the cache's layers in turn, as passes do, so that small caches are not read from the
// device's own cache.
#include "speed_rig.h"

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

void speed_job_open(speed_job *j, speed_rig *r, const speed_case *c, const speed_cache *cache,
                    speed_kind kind)
{
    fxi_cuda_seq seq[SPEED_MAX_BATCH] = {0};
    fxi_cuda_plan plan = {.n_head = SPEED_N_HEAD,
                          .n_kv_head = c->n_kv_head,
                          .n_block = 2 * r->g->cu.n_sm,
                          .max_part = r->max_part,
                          .is_wide = r->g->math == FXI_CUDA_BATCH_INVARIANT};
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
void speed_job_launch(speed_job *j)
{
    fx_error err = {0};
    fxi_gpu *g = j->r->g;
    fxi_cuda_attn_args all = j->few;
    j->few.kv_layer = j->wide.kv_layer = j->layer;
    j->layer = (j->layer + 1) % j->cache->n_layer;
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
