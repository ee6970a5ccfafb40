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

// The products of a run of `sub` numbers from k on, as the law has them.
static float dot_sub(const fxi_qpanel *q, const fxi_linear *w, const void *panel, int lane,
                     const fxi_act *a, int k, float acc)
{
    int s = 0, sum = 0;
    fxi_qnumber n = {0};
    for (int i = k; i < k + q->f->sub; i++) {
        n = fxi_qpanel_number(q, w->n_in, panel, lane, i);
        s += (n.code - q->f->zero) * a->q[i];
        sum += a->q[i];
    }
    float dx = a->d[k / FXI_Q_BLOCK];
    acc = fmaf(n.scale * (float)s + 0.0f, dx, acc);
    return q->f->has_min ? fmaf(n.min, dx * (float)sum, acc) : acc;
}

// Activations from token t on.
static fxi_act act_row(const fxi_act *a, size_t n_in, int t)
{
    return (fxi_act){.q = a->q + (size_t)t * n_in, .d = a->d + (size_t)t * n_in / FXI_Q_BLOCK};
}

void fxi_ref_linear_quant(const fxi_linear *w, const fxi_act *a, int n_tok, int panel0, int panel1,
                          float *y, size_t ldy)
{
    const fxi_qpanel q = fxi_qpanel_of(w->type);
    for (int t = 0; t < n_tok; t++)
        for (int o = panel0 * FXI_PANEL; o < panel_end(w, panel1); o++) {
            const void *panel = fxi_linear_panel(w, o / FXI_PANEL);
            fxi_act row = act_row(a, (size_t)w->n_in, t);
            float acc = 0;
            for (int k = 0; k < w->n_in; k += q.f->sub)
                acc = dot_sub(&q, w, panel, o % FXI_PANEL, &row, k, acc);
            y[(size_t)t * ldy + (size_t)o] = acc;
        }
}
