// cuda_plan.c - see cuda_plan.h.
#include "kernels/cuda/cuda_plan.h"

int fxi_cuda_attn_heads(int n_head, int n_kv_head)
{
    const int group = n_head / n_kv_head;
    return n_kv_head * ((group + FXI_CUDA_TILE_ROW - 1) / FXI_CUDA_TILE_ROW);
}

int fxi_cuda_plan_parts(int n_head, int n_seq, int ctx_tok)
{
    return n_head * n_seq * fxi_attn_n_segment(ctx_tok);
}

// Query heads of a tile: a group's, or a part of them.
static int tile_heads(const fxi_cuda_plan *p)
{
    const int group = p->n_head / p->n_kv_head;
    return group < FXI_CUDA_TILE_ROW ? group : FXI_CUDA_TILE_ROW;
}

// Tokens of a tile of a sequence with n_tok of them: a wide one, if they do not fit into another.
static int tile_tokens(const fxi_cuda_plan *p, int n_tok)
{
    const int few = FXI_CUDA_TILE_ROW / tile_heads(p), many = FXI_CUDA_WIDE_ROW / tile_heads(p);
    return p->is_wide && n_tok > few ? many : few;
}

// One past the last position that token tok of the sequence sees.
static int token_end(const fxi_cuda_plan *p, const fxi_cuda_seq *s, int tok)
{
    const int pos = s->pos + tok;
    if (!s->n_pos) return pos + 1;
    return p->window && p->window < s->n_pos - pos ? pos + p->window : s->n_pos;
}

void fxi_cuda_plan_add(fxi_cuda_plan *p, const fxi_cuda_seq *seq, int i, int n_want,
                       fxi_cuda_tile *tile)
{
    const fxi_cuda_seq *s = &seq[i];
    const int most = tile_tokens(p, n_want);
    for (int tok = s->n_tok - n_want; tok < s->n_tok; tok += most) {
        const int left = s->n_tok - tok, n_tok = left < most ? left : most;
        const int seg0 = fxi_attn_first_segment(s->pos + tok, p->window);
        tile[p->n_tile++] = (fxi_cuda_tile){
            .seq = i,
            .tok0 = tok,
            .n_tok = n_tok,
            .seg0 = seg0,
            .n_seg = fxi_attn_n_segment(token_end(p, s, tok + n_tok - 1)) - seg0,
            .n_range = 1,
        };
    }
}

// Of a long sequence the last tile may have few tokens: it is no wide one, then.
static bool tile_is_wide(const fxi_cuda_plan *p, const fxi_cuda_tile *t)
{
    return p->is_wide && t->n_tok * tile_heads(p) > FXI_CUDA_TILE_ROW;
}

// In any order: tiles know nothing of each other.
static void part_wide_tiles(fxi_cuda_plan *p, fxi_cuda_tile *tile)
{
    int n_few = 0;
    for (int i = 0; i < p->n_tile; i++) {
        const fxi_cuda_tile t = tile[i];
        if (tile_is_wide(p, &t)) continue;
        tile[i] = tile[n_few];
        tile[n_few++] = t;
    }
    p->n_wide = p->n_tile - n_few;
}

// The rows of all heads of a tile, in one segment.
static int tile_parts(const fxi_cuda_plan *p, const fxi_cuda_tile *t)
{
    return t->n_tok * p->n_head;
}

// Longest first would be fairer where there is too little room; batches of that size have enough
// blocks as they are.
void fxi_cuda_plan_end(fxi_cuda_plan *p, fxi_cuda_tile *tile)
{
    const bool spreads = p->n_tile * fxi_cuda_attn_heads(p->n_head, p->n_kv_head) < p->n_block;
    int used = 0;
    part_wide_tiles(p, tile);
    p->max_range = 1;
    for (int i = 0; i < p->n_tile; i++) {
        fxi_cuda_tile *t = &tile[i];
        const int n = tile_parts(p, t) * t->n_seg;
        if (!spreads || t->n_seg == 1 || n > p->max_part - used) continue;
        t->n_range = t->n_seg;
        t->part0 = used;
        used += n;
        if (t->n_range > p->max_range) p->max_range = t->n_range;
    }
}
