// attn_range.h - which positions a token attends to, for every compiler that needs it: C on the
// host, CUDA C++ on a GPU. FXI_RANGE_FN is put before each function. Both ends ascend from token to
// token.
#ifndef FXI_KERNELS_ATTN_RANGE_H
#define FXI_KERNELS_ATTN_RANGE_H

#include "kernels/kernels.h"

#ifndef FXI_RANGE_FN
#    define FXI_RANGE_FN static inline
#endif

// The first position that a token at position pos attends to. window 0: there is none
FXI_RANGE_FN int fxi_attn_first(int pos, int window)
{
    const int first = pos + 1 - window;
    return window && first > 0 ? first : 0;
}

// One past the last. n_pos: positions of its sequence; 0: causal
FXI_RANGE_FN int fxi_attn_end(int pos, int n_pos, int window)
{
    if (!n_pos) return pos + 1;
    return window && window < n_pos - pos ? pos + window : n_pos;
}

// One past the last position of a whole call.
FXI_RANGE_FN int fxi_attn_call_end(const fxi_attn *a)
{
    return fxi_attn_end(a->pos + a->n_tok - 1, a->n_pos, a->window);
}

#endif
