#include <math.h>

#include "kernels/ref/expf.h"
#include "kernels/ref/ref.h"

// A softmax-weighted sum on its way: of the values seen so far, with the largest score m taken out
// of every exponent.
typedef struct part {
    float m, l;
    float *acc; // [head_dim]
} part;

static part part_empty(float *acc, int head_dim)
{
    for (int d = 0; d < head_dim; d++) acc[d] = 0;
    return (part){-INFINITY, 0, acc};
}

// Row of one position in a plane, from this KV head on.
static const uint16_t *kv_row(const fxi_attn *a, int plane, int pos)
{
    const char *row = fxi_kv_plane(&a->view, plane) + (size_t)pos * a->view.tok_stride_bytes;
    return (const uint16_t *)row + (size_t)a->kv_head * (size_t)a->head_dim;
}

// sum16(q * k) of one position. tmp: [head_dim]
static float score(const fxi_attn *a, const float *q, int pos, float *tmp)
{
    const uint16_t *k = kv_row(a, 2 * a->layer, pos);
    for (int d = 0; d < a->head_dim; d++) tmp[d] = fxi_f16_to_f32(k[d]);
    return fxi_ref_dot16(q, tmp, a->head_dim) * a->scale;
}

// Takes the n <= 16 positions from pos on into the part.
static void part_tile(const fxi_attn *a, const float *q, int pos, int n, part *o, float *tmp)
{
    float p[FXI_ATTN_TILE], m = o->m;
    for (int j = 0; j < n; j++) {
        p[j] = score(a, q, pos + j, tmp);
        m = p[j] > m ? p[j] : m;
    }
    for (int j = 0; j < n; j++) p[j] = fxi_expf(p[j] - m);
    float c = fxi_expf(o->m - m);
    o->m = m;
    o->l = fmaf(o->l, c, fxi_ref_sum16(p, n));
    for (int d = 0; d < a->head_dim; d++) {
        o->acc[d] *= c;
        for (int j = 0; j < n; j++)
            o->acc[d] =
                fmaf(p[j], fxi_f16_to_f32(kv_row(a, 2 * a->layer + 1, pos + j)[d]), o->acc[d]);
    }
}

static void part_merge(part *o, const part *seg, int head_dim)
{
    float m = seg->m > o->m ? seg->m : o->m;
    float e = fxi_expf(o->m - m), es = fxi_expf(seg->m - m);
    o->m = m;
    o->l = fmaf(seg->l, es, o->l * e);
    for (int d = 0; d < head_dim; d++) o->acc[d] = fmaf(seg->acc[d], es, o->acc[d] * e);
}

// One query row over the positions [0, end). q, out: [head_dim]
static void attend_row(const fxi_attn *a, const float *q, int end, float *out)
{
    int hd = a->head_dim;
    float *seg_acc = a->scratch, *tmp = a->scratch + hd;
    part all = part_empty(out, hd);
    for (int s0 = 0; s0 < end; s0 += FXI_ATTN_SEGMENT) {
        int s1 = end - s0 < FXI_ATTN_SEGMENT ? end : s0 + FXI_ATTN_SEGMENT;
        part seg = part_empty(seg_acc, hd);
        for (int pos = s0; pos < s1; pos += FXI_ATTN_TILE)
            part_tile(a, q, pos, s1 - pos < FXI_ATTN_TILE ? s1 - pos : FXI_ATTN_TILE, &seg, tmp);
        part_merge(&all, &seg, hd);
    }
    float inv = 1 / all.l;
    for (int d = 0; d < hd; d++) out[d] *= inv;
}

void fxi_ref_attention(const fxi_attn *a)
{
    for (int t = 0; t < a->n_tok; t++)
        for (int g = 0; g < a->group; g++) {
            size_t head = (size_t)t * (size_t)a->n_head + (size_t)(a->kv_head * a->group + g);
            size_t at = head * (size_t)a->head_dim;
            attend_row(a, a->q + at, a->pos + t + 1, a->out + at);
        }
}
