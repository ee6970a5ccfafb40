// linear.c - how the weights of a linear layer lie in memory. All paths read these layouts, so a
// packed model runs on any of them. 16 outputs o0 .. o15 are one 512-bit vector of sums:
//
//   float types    k=0: o0 o1 .. o15   k=1: o0 o1 .. o15   ...
//                  Or a group of panels together: k=0: o0 o1 .. o63   k=1: o0 o1 .. o63   ...
//                  With a group of as many panels as a kernel computes at once, it reads one stream
//                  of memory. The last group has room for all of its panels.
//
//   block types    First the codes, block after block of 32 along k. A block is eight vectors of 64
//                  codes: vector g has k = 4g .. 4g+3 of o0, the same of o1, .. of o15, so that one
//                  lane of VPDPBUSD multiplies one output's four. Codes of 8 bits are stored like
//                  that. Shorter codes are split into planes of 4, 2 or 1 bits (5 bits: 4 + 1, 6:
//                  4 + 2, 3: 2 + 1), the low plane first. A plane of b bits is b vectors of 64
//                  bytes; the bits of vector g are in vector g % b, from bit (g / b) x b on.
//                  Then the scales. Types of 32: for each block d of o0 .. o15 (f16), then m of
//                  them if the type has one. Types of 256: for each 256 along k d, then m if the
//                  type has one; then for each run of 16 or 32 the bytes sc of o0 .. o15, then mn
//                  of them (Q2_K: mn is the upper half of sc's byte). d of MXFP4 is bf16.
//
// Codes are stored unsigned, as in the file, because VPDPBUSD needs one unsigned operand. A code of
// Q8_0 is the number + 128.
#include "kernels/linear.h"

#include <string.h>

int fxi_linear_n_panel(int n_out)
{
    return (n_out + FXI_PANEL - 1) / FXI_PANEL;
}

fxi_linear fxi_linear_part(const fxi_linear *w, int row0, int n_row)
{
    fxi_linear part = *w;
    part.panel0 += row0 / FXI_PANEL;
    part.n_out = n_row;
    return part;
}

size_t fxi_linear_panel_bytes(fxi_dtype type, int n_in)
{
    size_t size = (size_t)n_in * fxi_dtype_find(type)->block_bytes * FXI_PANEL;
    if (fxi_qformat_find(type)) {
        const fxi_qpanel q = fxi_qpanel_of(type);
        size = fxi_qpanel_scale_at(&q, n_in, n_in / q.f->n);
    }
    return (size + 63) / 64 * 64;
}

size_t fxi_linear_bytes(const fxi_linear *w)
{
    const int n = fxi_linear_n_panel(w->n_out), group = fxi_linear_group(w);
    return (size_t)((n + group - 1) / group * group) * fxi_linear_panel_bytes(w->type, w->n_in);
}

void *fxi_linear_panel(const fxi_linear *w, int p)
{
    const int at = w->panel0 + p, place = at % fxi_linear_group(w);
    return (char *)w->data + (size_t)(at - place) * fxi_linear_panel_bytes(w->type, w->n_in) +
           (size_t)place * FXI_PANEL * fxi_dtype_find(w->type)->block_bytes;
}

bool fxi_linear_reads_q8(const fxi_linear *w)
{
    return fxi_qformat_find(w->type) != NULL;
}

// ---- block types -------------------------------------------------------------------------------

fxi_qpanel fxi_qpanel_of(fxi_dtype type)
{
    const fxi_qformat *f = fxi_qformat_find(type);
    fxi_qpanel q = {.f = f, .code_bytes = 64 * (size_t)f->bits};
    q.lo_bits = f->bits == 8 ? 8 : f->bits >= 4 ? 4 : 2;
    q.hi_bits = f->bits - q.lo_bits;
    q.head_bytes = (f->has_min ? 2 : 1) * FXI_PANEL * sizeof(uint16_t);
    q.nibbles = f->has_min && f->bits == 2;
    q.n_sub = f->n == FXI_Q_BLOCK ? 0 : f->n / f->sub;
    q.scale_bytes = q.head_bytes + (size_t)q.n_sub * FXI_PANEL * (f->has_min && !q.nibbles ? 2 : 1);
    return q;
}

static int packed_bits(const uint8_t *plane, int bits, int lane, int k)
{
    int g = k / 4;
    return plane[g % bits * 64 + 4 * lane + k % 4] >> g / bits * bits & ((1 << bits) - 1);
}

// value(code) - zero. at: the block of 32 along k
static int packed_value(const fxi_qpanel *q, const uint8_t *at, int lane, int k)
{
    int code = packed_bits(at, q->lo_bits, lane, k);
    if (q->hi_bits) code |= packed_bits(at + 64 * q->lo_bits, q->hi_bits, lane, k) << q->lo_bits;
    return fxi_qformat_value(q->f, code);
}

static uint16_t half_at(const uint8_t *at, int i)
{
    uint16_t h;
    memcpy(&h, at + 2 * i, 2);
    return h;
}

// Scale and minimum of number k (k < f->n) of a group. at: the group's scales
static fxi_qnumber packed_scales(const fxi_qpanel *q, const uint8_t *at, int lane, int k)
{
    float d = fxi_qformat_scale(q->f, half_at(at, lane)),
          m = q->f->has_min ? fxi_f16_to_f32(half_at(at, FXI_PANEL + lane)) : 0;
    if (!q->n_sub) return (fxi_qnumber){.scale = d, .min = m};
    size_t step = (q->scale_bytes - q->head_bytes) / (size_t)q->n_sub;
    const uint8_t *sub = at + q->head_bytes + (size_t)(k / q->f->sub) * step;
    if (q->nibbles)
        return (fxi_qnumber){.scale = d * (float)(sub[lane] & 15),
                             .min = -(m * (float)(sub[lane] >> 4))};
    float mn = q->f->has_min ? (float)sub[FXI_PANEL + lane] : 0;
    return (fxi_qnumber){.scale = d * (float)(int8_t)sub[lane], .min = -(m * mn)};
}

fxi_qnumber fxi_qpanel_number(const fxi_qpanel *q, int n_in, const void *panel, int lane, int k)
{
    const uint8_t *at = panel;
    fxi_qnumber n =
        packed_scales(q, at + fxi_qpanel_scale_at(q, n_in, k / q->f->n), lane, k % q->f->n);
    n.value = packed_value(q, at + fxi_qpanel_code_at(q, k / FXI_Q_BLOCK), lane, k % FXI_Q_BLOCK);
    return n;
}

void fxi_qpanel_put_scales(const fxi_qpanel *q, uint8_t *at, int lane, const fxi_qblock *blk)
{
    memcpy(at + 2 * lane, &blk->d, 2);
    if (q->f->has_min) memcpy(at + 2 * FXI_PANEL + 2 * lane, &blk->m, 2);
    at += q->head_bytes + lane;
    for (int s = 0; s < q->n_sub; s++, at += FXI_PANEL) {
        *at = (uint8_t)blk->sc[s];
        if (!q->f->has_min) continue;
        if (q->nibbles)
            *at |= (uint8_t)(blk->mn[s] << 4);
        else
            *(at += FXI_PANEL) = blk->mn[s];
    }
}

// ---- rows -------------------------------------------------------------------------------------

static void unpack_quant_row(const fxi_linear *w, const uint8_t *panel, int lane, float *dst)
{
    const fxi_qpanel q = fxi_qpanel_of(w->type);
    for (int k = 0; k < w->n_in; k += q.f->sub, dst += q.f->sub) {
        const fxi_qnumber n = packed_scales(
            &q, panel + fxi_qpanel_scale_at(&q, w->n_in, k / q.f->n), lane, k % q.f->n);
        const uint8_t *block = panel + fxi_qpanel_code_at(&q, k / FXI_Q_BLOCK);
        for (int i = 0; i < q.f->sub; i++)
            dst[i] = n.scale * (float)packed_value(&q, block, lane, (k + i) % FXI_Q_BLOCK);
        for (int i = 0; q.f->has_min && i < q.f->sub; i++)
            dst[i] += n.min; // adding 0 would turn -0 into +0
    }
}

void fxi_linear_row(const fxi_linear *w, int row, float *dst)
{
    const char *panel = fxi_linear_panel(w, row / FXI_PANEL);
    const int lane = row % FXI_PANEL;
    const size_t elem = fxi_dtype_find(w->type)->block_bytes;
    if (fxi_linear_reads_q8(w)) {
        unpack_quant_row(w, (const uint8_t *)panel, lane, dst);
        return;
    }
    for (int k = 0; k < w->n_in; k++)
        fxi_row_to_f32(w->type, panel + ((size_t)k * fxi_linear_ldk(w) + (size_t)lane) * elem, 1,
                       dst + k);
}
