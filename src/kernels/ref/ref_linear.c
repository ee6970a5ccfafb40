// ref_linear.c - linear layers as kernels.h defines them, output by output.
#include <math.h>

#include "kernels/linear.h"
#include "kernels/ref/ref.h"

// Number i from the first of a panel on, as f32.
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

static float dot_float(widen_fn *widen, const fxi_linear *w, int o, const float *x)
{
    const void *panel = fxi_linear_panel(w, o / FXI_PANEL);
    const size_t ldk = fxi_linear_ldk(w), lane = (size_t)o % FXI_PANEL;
    float acc = 0;
    for (int k = 0; k < w->n_in; k++) acc = fmaf(widen(panel, (size_t)k * ldk + lane), x[k], acc);
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
            const float *x = a->x + (size_t)t * (size_t)w->n_in;
            y[(size_t)t * ldy + (size_t)o] = dot_float(widen, w, o, x);
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

// The numbers of one output that share a scale.
typedef struct quant_run {
    int w[FXI_Q_BLOCK]; // [sub] values minus the zero
    float scale, min;
} quant_run;

static quant_run read_quant_run(const fxi_qpanel *q, const fxi_linear *w, int o, int k)
{
    const void *panel = fxi_linear_panel(w, o / FXI_PANEL);
    quant_run r = {.min = 0};
    for (int i = 0; i < q->f->sub; i++) {
        fxi_qnumber n = fxi_qpanel_number(q, w->n_in, panel, o % FXI_PANEL, k + i);
        r.w[i] = n.value;
        r.scale = n.scale;
        r.min = n.min;
    }
    return r;
}

// Adds a run to acc as the law says. at: its first activation
static float add_quant_run(const fxi_qformat *f, const quant_run *r, const fxi_act *a, size_t at,
                           float acc)
{
    int s = 0, sum = 0;
    for (int i = 0; i < f->sub; i++) {
        s += r->w[i] * a->q[at + (size_t)i];
        sum += a->q[at + (size_t)i];
    }
    float dx = a->d[at / FXI_Q_BLOCK];
    acc = fmaf(r->scale * (float)s + 0.0f, dx, acc);
    return f->has_min ? fmaf(r->min, dx * (float)sum, acc) : acc;
}

// One output: each run is unpacked once for all tokens. y: of the first token
static void output_quant(const fxi_qpanel *q, const fxi_linear *w, const fxi_act *a, int n_tok,
                         int o, float *y, size_t ldy)
{
    for (int t = 0; t < n_tok; t++) y[(size_t)t * ldy] = 0;
    for (int k = 0; k < w->n_in; k += q->f->sub) {
        const quant_run r = read_quant_run(q, w, o, k);
        for (int t = 0; t < n_tok; t++) {
            float *acc = y + (size_t)t * ldy;
            *acc = add_quant_run(q->f, &r, a, (size_t)t * (size_t)w->n_in + (size_t)k, *acc);
        }
    }
}

void fxi_ref_linear_quant(const fxi_linear *w, const fxi_act *a, int n_tok, int panel0, int panel1,
                          float *y, size_t ldy)
{
    const fxi_qpanel q = fxi_qpanel_of(w->type);
    for (int o = panel0 * FXI_PANEL; o < panel_end(w, panel1); o++)
        output_quant(&q, w, a, n_tok, o, y + o, ldy);
}
