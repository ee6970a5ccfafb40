#include <math.h>

#include "kernels/linear.h"
#include "kernels/ref/ref.h"

// One output of a float layer. w16: [n_in][16] numbers of 16 bits, w32 the same of f32; o: the
// lane.
typedef float widen_fn(const void *panel, size_t i);

static float widen_f32(const void *panel, size_t i)
{
    return ((const float *)panel)[i];
}

static float widen_f16(const void *panel, size_t i)
{
    return fxi_f16_to_f32(((const uint16_t *)panel)[i]);
}

static float widen_bf16(const void *panel, size_t i)
{
    return fxi_bf16_to_f32(((const uint16_t *)panel)[i]);
}

static float dot_float(widen_fn *widen, const void *panel, int lane, const float *x, int n_in)
{
    float acc = 0;
    for (int k = 0; k < n_in; k++)
        acc = fmaf(widen(panel, (size_t)k * FXI_PANEL + (size_t)lane), x[k], acc);
    return acc;
}

static int panel_end(const fxi_linear *w, int panel1)
{
    int end = panel1 * FXI_PANEL;
    return end < w->n_out ? end : w->n_out;
}

static void linear_float(widen_fn *widen, const fxi_linear *w, const fxi_act *a, int n_tok,
                         int panel0, int panel1, float *y, size_t ldy)
{
    for (int t = 0; t < n_tok; t++)
        for (int o = panel0 * FXI_PANEL; o < panel_end(w, panel1); o++) {
            const void *panel = fxi_linear_panel(w, o / FXI_PANEL);
            const float *x = a->x + (size_t)t * (size_t)w->n_in;
            y[(size_t)t * ldy + (size_t)o] = dot_float(widen, panel, o % FXI_PANEL, x, w->n_in);
        }
}

void fxi_ref_linear_f32(const fxi_linear *w, const fxi_act *a, int n_tok, int panel0, int panel1,
                        float *y, size_t ldy)
{
    linear_float(widen_f32, w, a, n_tok, panel0, panel1, y, ldy);
}

void fxi_ref_linear_f16(const fxi_linear *w, const fxi_act *a, int n_tok, int panel0, int panel1,
                        float *y, size_t ldy)
{
    linear_float(widen_f16, w, a, n_tok, panel0, panel1, y, ldy);
}

void fxi_ref_linear_bf16(const fxi_linear *w, const fxi_act *a, int n_tok, int panel0, int panel1,
                         float *y, size_t ldy)
{
    linear_float(widen_bf16, w, a, n_tok, panel0, panel1, y, ldy);
}

// The 32 integer products of one block and one output. wq: the block's [8][16][4] bytes.
static int dot_block(const uint8_t *wq, int lane, const int8_t *q)
{
    int s = 0;
    for (int k = 0; k < FXI_Q8_0_ELEMS; k++) {
        int w = wq[k / 4 * 4 * FXI_PANEL + 4 * lane + k % 4] - 128;
        s += w * q[k];
    }
    return s;
}

// q: [n_in], d: [n_in / 32] of one token.
static float dot_q8(const char *panel, int lane, const int8_t *q, const float *d, int n_in)
{
    float acc = 0;
    for (int b = 0; b < n_in / FXI_Q8_0_ELEMS; b++) {
        const uint16_t *dw = (const uint16_t *)(panel + fxi_q8_scale_at(n_in, b));
        const uint8_t *wq = (const uint8_t *)panel + fxi_q8_quant_at(b);
        int s = dot_block(wq, lane, q + (size_t)b * FXI_Q8_0_ELEMS);
        acc = fmaf(fxi_f16_to_f32(dw[lane]) * d[b], (float)s, acc);
    }
    return acc;
}

void fxi_ref_linear_q8_0(const fxi_linear *w, const fxi_act *a, int n_tok, int panel0, int panel1,
                         float *y, size_t ldy)
{
    size_t n_in = (size_t)w->n_in, n_block = n_in / FXI_Q8_0_ELEMS;
    for (int t = 0; t < n_tok; t++)
        for (int o = panel0 * FXI_PANEL; o < panel_end(w, panel1); o++)
            y[(size_t)t * ldy + (size_t)o] =
                dot_q8(fxi_linear_panel(w, o / FXI_PANEL), o % FXI_PANEL, a->q + (size_t)t * n_in,
                       a->d + (size_t)t * n_block, w->n_in);
}
