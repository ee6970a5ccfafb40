// linear.h - where things lie in a packed panel (the layout itself: kernels.h, linear.c).
#ifndef FXI_KERNELS_LINEAR_H
#define FXI_KERNELS_LINEAR_H

#include "kernels/kernels.h"

static inline void *fxi_linear_panel(const fxi_linear *w, int p)
{
    return (char *)w->data + (size_t)p * fxi_linear_panel_bytes(w->type, w->n_in);
}

// Byte offsets within a Q8_0 panel: of block b's [8][16][4] bytes, and of its 16 scales.
static inline size_t fxi_q8_quant_at(int b)
{
    return (size_t)b * FXI_Q8_0_ELEMS * FXI_PANEL;
}

static inline size_t fxi_q8_scale_at(int n_in, int b)
{
    return (size_t)n_in * FXI_PANEL + (size_t)b * FXI_PANEL * sizeof(uint16_t);
}

#endif
