// ref_attention.c - attention as kernels.h defines it, query row by query row.
#include <math.h>

#include "kernels/attn_range.h"
#include "kernels/ref/mathf.h"
#include "kernels/ref/ref.h"

// A partial result is a softmax-weighted sum of values, with the largest score m subtracted in
// every exponent: m, l, acc[head_dim] as in kernels.h.
enum { M, L, ACC = FXI_ATTN_PART_ACC };

// Keys or values of one position and this KV head, as f32.
static const float *kv_row(const fxi_attn *a, int plane, int pos)
{
    const char *row = fxi_kv_row(&a->view, plane, pos);
    float *wide = a->scratch;
    fxi_row_to_f32(a->kv_type, row + fxi_kv_bytes(a->kv_type, a->kv_head * a->head_dim),
                   (size_t)a->head_dim, wide);
    return wide;
}

// The score of one position.
static float key_score(const fxi_attn *a, const float *q, int pos)
{
    const float *k = kv_row(a, 2 * a->layer, pos);
    float s = 0;
    for (int d = 0; d < a->head_dim; d++) s = fmaf(q[d], k[d], s);
    return a->softcap ? fxi_ref_cap_score(s, a->softcap) : s;
}

// The partial result of positions pos + from to pos + end - 1 of the segment that begins at pos.
static void part_segment(const fxi_attn *a, const float *q, int pos, int from, int end, float *o)
{
    float p[FXI_ATTN_SEGMENT] = {0};
    o[M] = -INFINITY;
    for (int j = from; j < end; j++) {
        p[j] = key_score(a, q, pos + j);
        o[M] = p[j] > o[M] ? p[j] : o[M];
    }
    for (int j = from; j < end; j++) p[j] = fxi_expf(p[j] - o[M]);
    o[L] = fxi_ref_sum16(p, end);
    for (int d = 0; d < a->head_dim; d++) o[ACC + d] = 0;
    for (int j = from; j < end; j++) {
        const float *v = kv_row(a, 2 * a->layer + 1, pos + j);
        for (int d = 0; d < a->head_dim; d++) o[ACC + d] = fmaf(p[j], v[d], o[ACC + d]);
    }
}

static void part_merge(float *o, const float *seg, int head_dim)
{
    float m = seg[M] > o[M] ? seg[M] : o[M];
    float e = fxi_expf(o[M] - m), es = fxi_expf(seg[M] - m);
    o[M] = m;
    o[L] = fmaf(seg[L], es, o[L] * e);
    for (int d = ACC; d < ACC + head_dim; d++) o[d] = fmaf(seg[d] + 0, es, o[d] * e);
}

// Query rows are numbered [n_tok][group]. The query head of one, and where it begins in q and out:
static int row_head(const fxi_attn *a, int row)
{
    return a->kv_head * a->group + row % a->group;
}

static size_t row_at(const fxi_attn *a, int row)
{
    int head = row / a->group * a->n_head + row_head(a, row);
    return (size_t)head * (size_t)a->head_dim;
}

// The segments that it attends to some of: from this one on ..
static int row_first_segment(const fxi_attn *a, int row)
{
    return fxi_attn_first(a, row / a->group) / FXI_ATTN_SEGMENT;
}

// .. up to, not including, this one.
static int row_end_segment(const fxi_attn *a, int row)
{
    return fxi_attn_n_segment(fxi_attn_end(a, row / a->group));
}

// The partial result of a segment for a query row that attends to some of it.
static void row_segment(const fxi_attn *a, int row, int segment, float *part)
{
    int pos = segment * FXI_ATTN_SEGMENT, tok = row / a->group;
    int from = fxi_attn_first(a, tok) - pos, end = fxi_attn_end(a, tok) - pos;
    float *q = a->scratch + a->head_dim;
    for (int d = 0; d < a->head_dim; d++) q[d] = a->q[row_at(a, row) + (size_t)d] * a->scale;
    part_segment(a, q, pos, from > 0 ? from : 0, end < FXI_ATTN_SEGMENT ? end : FXI_ATTN_SEGMENT,
                 part);
}

static float *part_of(const fxi_attn *a, const float *part, int segment, int row)
{
    size_t i = (size_t)segment * (size_t)(a->n_tok * a->group) + (size_t)row;
    return (float *)part + i * fxi_attn_part_floats(a->head_dim);
}

// One KV head of a call, and its partial results.
static fxi_attn head_of(const fxi_attn *a, int h)
{
    fxi_attn one = *a;
    one.kv_head = a->kv_head + h;
    one.n_kv_head = 1;
    return one;
}

static float *head_parts(const fxi_attn *a, const float *part, int h)
{
    if (!part) return NULL;
    return part_of(a, part, h * fxi_attn_n_segment(fxi_attn_call_end(a)), 0);
}

static void head_segment(const fxi_attn *a, int s, float *part)
{
    for (int r = 0; r < a->n_tok * a->group; r++)
        if (s >= row_first_segment(a, r) && s < row_end_segment(a, r))
            row_segment(a, r, s, part_of(a, part, s, r));
}

void fxi_ref_attention_part(const fxi_attn *a, int segment0, int segment1, float *part)
{
    for (int h = 0; h < a->n_kv_head; h++) {
        const fxi_attn one = head_of(a, h);
        for (int s = segment0; s < segment1; s++) head_segment(&one, s, head_parts(a, part, h));
    }
}

// One query row from its partial results or, if part is NULL, from the cache.
static void attend_row(const fxi_attn *a, int row, const float *part)
{
    float *seg = a->scratch + 2 * a->head_dim;
    float *all = seg + fxi_attn_part_floats(a->head_dim), *out = a->out + row_at(a, row);
    all[M] = a->sink ? a->sink[row_head(a, row)] : -INFINITY;
    all[L] = a->sink ? 1 : 0;
    for (int d = 0; d < a->head_dim; d++) all[ACC + d] = 0;
    for (int s = row_first_segment(a, row); s < row_end_segment(a, row); s++) {
        if (!part) row_segment(a, row, s, seg);
        part_merge(all, part ? part_of(a, part, s, row) : seg, a->head_dim);
    }
    float inv = 1 / all[L];
    for (int d = 0; d < a->head_dim; d++) out[d] = all[ACC + d] * inv;
}

void fxi_ref_attention_merge(const fxi_attn *a, const float *part)
{
    for (int h = 0; h < a->n_kv_head; h++) {
        const fxi_attn one = head_of(a, h);
        for (int r = 0; r < a->n_tok * a->group; r++) attend_row(&one, r, head_parts(a, part, h));
    }
}

void fxi_ref_attention(const fxi_attn *a)
{
    fxi_ref_attention_merge(a, NULL);
}
