// attn_range.h - which positions the tokens of a call of attention attend to. Both ends ascend from
// token to token.
#ifndef FXI_KERNELS_ATTN_RANGE_H
#define FXI_KERNELS_ATTN_RANGE_H

#include "kernels/kernels.h"

// The first position that token `tok` of the call attends to.
static inline int fxi_attn_first(const fxi_attn *a, int tok)
{
    int first = a->pos + tok + 1 - a->window;
    return a->window && first > 0 ? first : 0;
}

// One past the last.
static inline int fxi_attn_end(const fxi_attn *a, int tok)
{
    int pos = a->pos + tok;
    if (!a->n_pos) return pos + 1;
    return a->window && a->window < a->n_pos - pos ? pos + a->window : a->n_pos;
}

// One past the last position of the whole call.
static inline int fxi_attn_call_end(const fxi_attn *a)
{
    return fxi_attn_end(a, a->n_tok - 1);
}

#endif
