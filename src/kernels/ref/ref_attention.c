#include <math.h>

#include "kernels/ref/expf.h"
#include "kernels/ref/ref.h"

// A softmax-weighted sum of values, with the largest score m taken out of every exponent.
typedef struct part {
    float m, l;
    float *acc; // [head_dim]
} part;

// Row of one position in a plane, from this KV head on.
static const uint16_t *kv_row(const fxi_attn *a, int plane, int pos)
{
    const char *row = fxi_kv_plane(&a->view, plane) + (size_t)pos * a->view.tok_stride_bytes;
    return (const uint16_t *)row + (size_t)a->kv_head * (size_t)a->head_dim;
}

// q times the key of one position.
static float score(const fxi_attn *a, const float *q, int pos)
{
    const uint16_t *k = kv_row(a, 2 * a->layer, pos);
    float s = 0;
    for (int d = 0; d < a->head_dim; d++) s = fmaf(q[d], fxi_f16_to_f32(k[d]), s);
    return s;
}

// The n positions from pos on, of one segment.
static void part_segment(const fxi_attn *a, const float *q, int pos, int n, part *o)
{
    float p[FXI_ATTN_SEGMENT];
    o->m = -INFINITY;
    for (int j = 0; j < n; j++) {
        p[j] = score(a, q, pos + j);
        o->m = p[j] > o->m ? p[j] : o->m;
    }
    for (int j = 0; j < n; j++) p[j] = fxi_expf(p[j] - o->m);
    o->l = fxi_ref_sum16(p, n);
    for (int d = 0; d < a->head_dim; d++) o->acc[d] = 0;
    for (int j = 0; j < n; j++) {
        const uint16_t *v = kv_row(a, 2 * a->layer + 1, pos + j);
        for (int d = 0; d < a->head_dim; d++)
            o->acc[d] = fmaf(p[j], fxi_f16_to_f32(v[d]), o->acc[d]);
    }
}

static void part_merge(part *o, const part *seg, int head_dim)
{
    float m = seg->m > o->m ? seg->m : o->m;
    float e = fxi_expf(o->m - m), es = fxi_expf(seg->m - m);
    o->m = m;
    o->l = fmaf(seg->l, es, o->l * e);
    for (int d = 0; d < head_dim; d++) o->acc[d] = fmaf(seg->acc[d] + 0, es, o->acc[d] * e);
}

// One query row over the positions [0, end). q, out: [head_dim]
static void attend_row(const fxi_attn *a, const float *q, int end, float *out)
{
    int hd = a->head_dim;
    float *scaled = a->scratch;
    part seg = {.acc = a->scratch + hd}, all = {-INFINITY, 0, out};
    for (int d = 0; d < hd; d++) scaled[d] = q[d] * a->scale, out[d] = 0;
    for (int s0 = 0; s0 < end; s0 += FXI_ATTN_SEGMENT) {
        part_segment(a, scaled, s0, end - s0 < FXI_ATTN_SEGMENT ? end - s0 : FXI_ATTN_SEGMENT,
                     &seg);
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
