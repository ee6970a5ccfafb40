// cuda_batch.h - shared by the tests of attention: batches of sequences with their caches, and
// calls over them.
#ifndef CUDA_BATCH_H
#define CUDA_BATCH_H

#include "cuda_test.h"

enum { LAYER = 1, N_PLANE = 4, BLOCK_SHIFT = 4 };

// Flags of a batch: attention has sinks, or sees later positions; the cache is paged.
enum { SINKS = 1, BOTH_WAYS = 2, PAGED = 4 };

// The shapes of a batch, all of whose sequences have the same number of new tokens.
typedef struct batch_shape {
    int head_dim, n_head, n_kv_head;
    fxi_dtype type;
    int n_tok, n_seq;
    int pos[3];
    int window;
    float softcap;
    unsigned flags;
} batch_shape;

typedef struct batch {
    const batch_shape *s;
    fxi_cuda_seq seq[3];
    char *mem[3];
    int32_t *table[3];
    int n_row;
} batch;

static inline size_t kv_row_bytes(const batch_shape *s)
{
    return fxi_kv_bytes(s->type, s->n_kv_head * s->head_dim);
}

static inline int cached_tok(const batch_shape *s, int i)
{
    return s->pos[i] + s->n_tok;
}

// Blocks of 16 tokens with all planes, in a scattered order; or planes one after the other, which
// end with the last token's row.
static inline void lay_cache(batch *b, int i)
{
    const batch_shape *s = b->s;
    const size_t row = kv_row_bytes(s), n_tok = (size_t)cached_tok(s, i);
    const int n_block = (int)n_tok / 16 + 1;
    fxi_kv_view *v = &b->seq[i].view[1];
    if (!(s->flags & PAGED)) {
        b->mem[i] = zeroed(N_PLANE * n_tok, row);
        *v = (fxi_kv_view){
            .base = b->mem[i], .plane_stride_bytes = n_tok * row, .tok_stride_bytes = row};
        return;
    }
    b->mem[i] = zeroed((size_t)n_block * 16 * N_PLANE, row);
    b->table[i] = zeroed((size_t)n_block, sizeof(int32_t));
    for (int k = 0; k < n_block; k++) b->table[i][k] = n_block - 1 - k;
    *v = (fxi_kv_view){.base = b->mem[i],
                       .plane_stride_bytes = 16 * row,
                       .tok_stride_bytes = row,
                       .table = b->table[i],
                       .block_shift = BLOCK_SHIFT,
                       .block_stride_bytes = 16 * N_PLANE * row};
}

static inline void fill_cache(const batch *b, int i)
{
    const batch_shape *s = b->s;
    const int n = s->n_kv_head * s->head_dim;
    float *x = floats((size_t)n);
    for (int p = 0; p < N_PLANE; p++)
        for (int t = 0; t < cached_tok(s, i); t++) {
            for (int k = 0; k < n; k++)
                x[k] = spread_number(EVEN, 20 + (uint64_t)p, (uint64_t)(t * n + k + 31 * i));
            ref_path()->store_kv[s->type](x, n, fxi_kv_row(&b->seq[i].view[1], p, t));
        }
    guarded_free(x);
}

static inline batch batch_new(const batch_shape *s)
{
    batch b = {.s = s, .n_row = s->n_seq * s->n_tok};
    for (int i = 0; i < s->n_seq; i++) {
        b.seq[i] = (fxi_cuda_seq){.row0 = i * s->n_tok,
                                  .n_tok = s->n_tok,
                                  .pos = s->pos[i],
                                  .n_pos = s->flags & BOTH_WAYS ? cached_tok(s, i) : 0};
        lay_cache(&b, i);
        fill_cache(&b, i);
    }
    return b;
}

static inline void batch_free(batch *b)
{
    for (int i = 0; i < b->s->n_seq; i++) guarded_free(b->mem[i]), guarded_free(b->table[i]);
}

// A batch's queries, what attention makes of them, and the plan of it.
typedef struct attn_call {
    fxi_cuda_attn_args args;
    int n_wide; // of the tiles
    float *q, *out, *sink, *part;
    fxi_cuda_tile *tile;
    size_t n; // numbers of q and out
} attn_call;

static inline fxi_cuda_attn_args attn_args_of(const batch *b, const attn_call *c, int n_tile,
                                              int max_range)
{
    const batch_shape *s = b->s;
    return (fxi_cuda_attn_args){.seq = b->seq,
                                .tile = c->tile,
                                .count = {n_tile, NULL},
                                .max_range = max_range,
                                .q = c->q,
                                .out = c->out,
                                .part = c->part,
                                .sink = s->flags & SINKS ? c->sink : NULL,
                                .n_head = s->n_head,
                                .n_kv_head = s->n_kv_head,
                                .head_dim = s->head_dim,
                                .kv_type = (int32_t)s->type,
                                .kv_group = 1,
                                .kv_layer = LAYER,
                                .window = s->window,
                                .scale = 0.3f,
                                .softcap = s->softcap};
}

// n_block, is_wide: as of the plan; n_want: of each sequence's last tokens.
static inline attn_call attn_call_plan(const batch *b, int n_block, int n_want, bool is_wide)
{
    const batch_shape *s = b->s;
    fxi_cuda_plan plan = {.n_head = s->n_head,
                          .n_kv_head = s->n_kv_head,
                          .window = s->window,
                          .n_block = n_block,
                          .max_part = s->n_head * b->n_row * fxi_attn_n_segment(2048),
                          .is_wide = is_wide};
    attn_call c = {.n = (size_t)(b->n_row * s->n_head * s->head_dim)};
    c.q = random_floats(c.n, EVEN, 1), c.out = floats(c.n);
    c.sink = random_floats((size_t)s->n_head, EVEN, 2);
    c.part = floats((size_t)plan.max_part * (size_t)(FXI_CUDA_PART_ACC + s->head_dim));
    c.tile = zeroed((size_t)b->n_row, sizeof *c.tile);
    for (int i = 0; i < s->n_seq; i++) fxi_cuda_plan_add(&plan, b->seq, i, n_want, c.tile);
    fxi_cuda_plan_end(&plan, c.tile);
    c.args = attn_args_of(b, &c, plan.n_tile, plan.max_range);
    c.n_wide = plan.n_wide;
    return c;
}

static inline attn_call attn_call_new(const batch *b, int n_block, int n_want)
{
    return attn_call_plan(b, n_block, n_want, false);
}

static inline void attn_call_run(const attn_call *c, const batch_shape *s, fxi_cuda_math math)
{
    fxi_cuda_attn_args few = c->args, many = c->args;
    few.count.most -= c->n_wide;
    many.count.most = c->n_wide;
    many.tile += few.count.most;
    if (few.count.most) launch(fxi_cuda_attention_find(s->type, s->head_dim, math), &few);
    if (many.count.most) launch(fxi_cuda_attention_wide_find(s->type, s->head_dim, math), &many);
    launch(FXI_CUDA_ATTN_MERGE, &c->args);
}

static inline void attn_call_free(attn_call *c)
{
    guarded_free_all(c->q, c->out, c->sink, c->part, c->tile);
}

#endif
