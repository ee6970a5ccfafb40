// How the weights of a linear layer lie in memory. All paths read the one layout, so a model packed
// once can be run by any of them:
//
//   float types   panel p:   k=0: o0 o1 .. o15   k=1: o0 o1 .. o15   ...
//   Q8_0          panel p:   block 0: [k 0..3 of o0] [k 0..3 of o1] .. [k 0..3 of o15]  [k 4..7 of
//   o0] ..   block 1: ...
//                            then the scales: block 0: o0 .. o15   block 1: ...
//
// 16 outputs are one 512-bit vector of sums; four bytes along k are what one lane of VPDPBUSD
// multiplies. The bytes are stored + 128 because that instruction wants one side unsigned.
#include "kernels/linear.h"

#include <string.h>

int fxi_linear_n_panel(int n_out)
{
    return (n_out + FXI_PANEL - 1) / FXI_PANEL;
}

size_t fxi_linear_panel_bytes(fxi_dtype type, int n_in)
{
    const fxi_dtype_info *t = fxi_dtype_find(type);
    size_t size = (size_t)n_in / t->block_elems * t->block_bytes * FXI_PANEL;
    return (size + 63) / 64 * 64;
}

size_t fxi_linear_bytes(fxi_dtype type, int n_in, int n_out)
{
    return (size_t)fxi_linear_n_panel(n_out) * fxi_linear_panel_bytes(type, n_in);
}

// Number k of row o goes to [k][o]. elem is 2 or 4 bytes.
static void pack_float_row(char *panel, int o, const char *row, int n_in, size_t elem)
{
    for (int k = 0; k < n_in; k++)
        memcpy(panel + ((size_t)k * FXI_PANEL + (size_t)o) * elem, row + (size_t)k * elem, elem);
}

static void pack_q8_row(char *panel, int o, const char *row, int n_in)
{
    for (int b = 0; b < n_in / FXI_Q8_0_ELEMS; b++) {
        fxi_block_q8_0 blk;
        memcpy(&blk, row + (size_t)b * sizeof blk, sizeof blk);
        memcpy(panel + fxi_q8_scale_at(n_in, b) + 2 * o, &blk.d, sizeof blk.d);
        uint8_t *q = (uint8_t *)panel + fxi_q8_quant_at(b) + 4 * o;
        for (int k = 0; k < FXI_Q8_0_ELEMS; k++)
            q[k / 4 * 4 * FXI_PANEL + k % 4] = (uint8_t)(blk.q[k] + 128);
    }
}

// A zero weight: all scales and float numbers 0, the bytes of a Q8_0 panel 128.
static void pack_zero(char *panel, fxi_dtype type, int n_in)
{
    memset(panel, 0, fxi_linear_panel_bytes(type, n_in));
    if (type == FXI_Q8_0) memset(panel, 128, fxi_q8_scale_at(n_in, 0));
}

void fxi_linear_pack_panel(const fxi_linear *w, const void *rows, int p)
{
    const fxi_dtype_info *t = fxi_dtype_find(w->type);
    size_t row_bytes = (size_t)w->n_in / t->block_elems * t->block_bytes;
    char *panel = fxi_linear_panel(w, p);
    pack_zero(panel, w->type, w->n_in);
    for (int o = 0; o < FXI_PANEL && p * FXI_PANEL + o < w->n_out; o++) {
        const char *row = (const char *)rows + (size_t)(p * FXI_PANEL + o) * row_bytes;
        if (w->type == FXI_Q8_0)
            pack_q8_row(panel, o, row, w->n_in);
        else
            pack_float_row(panel, o, row, w->n_in, t->block_bytes);
    }
}
