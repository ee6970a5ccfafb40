// linear.h - addresses inside a packed panel, and single numbers of it. The layout: linear.c.
#ifndef FXI_KERNELS_LINEAR_H
#define FXI_KERNELS_LINEAR_H

#include "base/number/qblock.h"
#include "kernels/kernels.h"

#define FXI_Q_BLOCK 32 // numbers along k that one block of activations and of a panel holds

static inline int fxi_linear_group(const fxi_linear *w)
{
    return w->group ? w->group : 1;
}

// Numbers of a float type from k to k + 1.
static inline size_t fxi_linear_ldk(const fxi_linear *w)
{
    return (size_t)fxi_linear_group(w) * FXI_PANEL;
}

size_t fxi_linear_panel_bytes(fxi_dtype type, int n_in); // all of a panel; a multiple of 64

// The first number of panel p, or the codes of its first block.
void *fxi_linear_panel(const fxi_linear *w, int p);

// The rows of a panel as a file holds them, in GGUF's layout; those from n on do not exist.
typedef struct fxi_panel_rows {
    const char *row[FXI_PANEL];
    int n;
} fxi_panel_rows;

// Those of panel p of a matrix of n_out rows of n_in numbers.
fxi_panel_rows fxi_panel_rows_of(fxi_dtype type, int n_in, int n_out, const void *rows, int p);

// The layout of a block type's panel, derived from its qformat.
typedef struct fxi_qpanel {
    const fxi_qformat *f;
    int lo_bits, hi_bits; // a code is split into two planes
    size_t code_bytes;    // of one block: 64 for each bit
    size_t scale_bytes;   // of one group of scales: those of f->n numbers along k
    int n_sub;            // scales of each output in such a group
    size_t head_bytes;    // of d, and of m if the type has one, before the scales
    bool nibbles;         // scale and minimum share a byte
} fxi_qpanel;

fxi_qpanel fxi_qpanel_of(fxi_dtype type); // Pre: a block type

// Byte offsets within a panel: of the codes of block b, and of scale group g.
static inline size_t fxi_qpanel_code_at(const fxi_qpanel *q, int b)
{
    return (size_t)b * q->code_bytes;
}

static inline size_t fxi_qpanel_scale_at(const fxi_qpanel *q, int n_in, int g)
{
    return (size_t)(n_in / FXI_Q_BLOCK) * q->code_bytes + (size_t)g * q->scale_bytes;
}

// Number k of one output of a panel: w = scale x value + min.
typedef struct fxi_qnumber {
    int value; // value(code) - zero
    float scale, min;
} fxi_qnumber;

fxi_qnumber fxi_qpanel_number(const fxi_qpanel *q, int n_in, const void *panel, int lane, int k);

// Packs the scales of a block, of one output of the panel. at: the group's scales
void fxi_qpanel_put_scales(const fxi_qpanel *q, uint8_t *at, int lane, const fxi_qblock *blk);

#endif
