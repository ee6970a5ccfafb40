// cuda_plan.c - see cuda_plan.h.
#include "kernels/cuda/cuda_plan.h"

#include "kernels/attn_range.h"

int fxi_cuda_attn_heads(int n_head, int n_kv_head)
{
    const int group = n_head / n_kv_head;
    return n_kv_head * ((group + FXI_CUDA_TILE_ROW - 1) / FXI_CUDA_TILE_ROW);
}

// Query heads of a tile: a group's, or a part of them.
static int tile_heads(const fxi_cuda_plan *p)
{
    const int group = p->n_head / p->n_kv_head;
    return group < FXI_CUDA_TILE_ROW ? group : FXI_CUDA_TILE_ROW;
}

void fxi_cuda_plan_add(fxi_cuda_plan *p, const fxi_cuda_seq *seq, int i, int n_want,
                       fxi_cuda_tile *tile)
{
    const fxi_cuda_seq *s = &seq[i];
    const int few = FXI_CUDA_TILE_ROW / tile_heads(p), many = FXI_CUDA_WIDE_ROW / tile_heads(p);
    const int most = p->is_wide && n_want > few ? many : few;
    for (int tok = s->n_tok - n_want; tok < s->n_tok; tok += most) {
        const int left = s->n_tok - tok, n_tok = left < most ? left : most;
        const int seg0 = fxi_attn_first(s->pos + tok, p->window) / FXI_ATTN_SEGMENT;
        const int end = fxi_attn_end(s->pos + tok + n_tok - 1, s->n_pos, p->window);
        tile[p->n_tile++] = (fxi_cuda_tile){.seq = i,
                                            .tok0 = tok,
                                            .n_tok = n_tok,
                                            .seg0 = seg0,
                                            .n_seg = fxi_attn_n_segment(end) - seg0,
                                            .n_range = 1};
    }
}

void fxi_cuda_plan_end(fxi_cuda_plan *p, fxi_cuda_tile *tile)
{
    // Wide tiles go last, all in any order: tiles know nothing of each other. Of a long sequence
    // the last tile may have few tokens: it is no wide one, then.
    int n_few = 0, used = 0;
    for (int i = 0; i < p->n_tile; i++) {
        const fxi_cuda_tile t = tile[i];
        if (p->is_wide && t.n_tok * tile_heads(p) > FXI_CUDA_TILE_ROW) continue;
        tile[i] = tile[n_few];
        tile[n_few++] = t;
    }
    p->n_wide = p->n_tile - n_few;

    // Longest first would be fairer where there is too little room; batches of that size have
    // enough blocks as they are.
    const bool spreads = p->n_tile * fxi_cuda_attn_heads(p->n_head, p->n_kv_head) < p->n_block;
    p->max_range = 1;
    for (int i = 0; i < p->n_tile; i++) {
        fxi_cuda_tile *t = &tile[i];
        const int n = t->n_tok * p->n_head * t->n_seg; // rows of all heads, in all segments
        if (!spreads || t->n_seg == 1 || n > p->max_part - used) continue;
        t->n_range = t->n_seg;
        t->part0 = used;
        used += n;
        if (t->n_range > p->max_range) p->max_range = t->n_range;
    }
}
