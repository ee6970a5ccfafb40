// body_attention.h - attention over an f16 cache, once for every vector unit (cpu.h).
// Needs: a vec*.h.
//
// One call walks the positions once for all of its query rows (n_tok tokens x group heads). A tile
// of 16 positions is widened to f32 once, then every row takes it in. In scratch:
//
//     K tile [16][R] | V tile [16][R] | row 0: QUERY, SEGMENT, WHOLE | row 1: ..    each [16 + R]
//
// R is head_dim rounded up to whole vectors, with zeros behind the end: a zero product changes no
// lane but the sign of a zero, which no result can show. SEGMENT and WHOLE are parts: m, l, c, then
// from 16 on acc. QUERY has q there, and before it a tile's 16 scores, then weights.
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "kernels/kernels.h"

typedef struct walk {
    const fxi_attn *a;
    float *k, *v; // [16][16 * n_vec]
    float *rows;  // [n_row][3][16 + 16 * n_vec]
    int n_row, n_vec;
} walk;

enum row_part { QUERY, SEGMENT, WHOLE };

enum { PART_M, PART_L, PART_C, PART_ACC = 16 }; // where things lie in a part

static float *walk_row(const walk *w, int row, enum row_part part)
{
    return w->rows + (size_t)(3 * row + (int)part) * (size_t)(PART_ACC + 16 * w->n_vec);
}

static void part_clear(const walk *w, int row, enum row_part part)
{
    float *o = walk_row(w, row, part);
    o[PART_M] = -INFINITY;
    o[PART_L] = 0;
    memset(o + PART_ACC, 0, 16 * (size_t)w->n_vec * sizeof *o);
}

// n positions of a plane, from pos on, as f32 into dst; zeros for the others of the tile.
static void tile_widen(const walk *w, int plane, int pos, int n, float *dst)
{
    const fxi_attn *a = w->a;
    const char *src = fxi_kv_plane(&a->view, plane) + (size_t)pos * a->view.tok_stride_bytes +
                      (size_t)a->kv_head * (size_t)a->head_dim * sizeof(uint16_t);
    int whole = a->head_dim / 16, rest = a->head_dim % 16;
    for (int j = 0; j < n; j++, src += a->view.tok_stride_bytes, dst += 16 * w->n_vec) {
        const uint16_t *h = (const uint16_t *)src;
        for (int i = 0; i < whole; i++) v16_store(dst + 16 * i, v16_from_f16(h + 16 * i));
        if (rest) v16_store(dst + 16 * whole, v16_from_f16_n(h + 16 * whole, rest));
    }
    memset(dst, 0, (size_t)(FXI_ATTN_TILE - n) * 16 * (size_t)w->n_vec * sizeof *dst);
}

// q * k of four neighbouring positions, lanes not yet folded. k: [4][16 * n_vec]
static void score_four(const float *q, const float *k, int n_vec, v16 out[4])
{
    v16 a = v16_zero(), b = a, c = a, d = a;
    int row = 16 * n_vec;
    for (int i = 0; i < row; i += 16) {
        v16 x = v16_load(q + i);
        a = v16_fma(x, v16_load(k + i), a);
        b = v16_fma(x, v16_load(k + row + i), b);
        c = v16_fma(x, v16_load(k + 2 * row + i), c);
        d = v16_fma(x, v16_load(k + 3 * row + i), d);
    }
    out[0] = a, out[1] = b, out[2] = c, out[3] = d;
}

// The scores of the tile's positions against the row's query, into QUERY's first 16: lane j is that
// of position j, -inf from n on.
static void tile_scores(const walk *w, int row, int n)
{
    v16 sum[FXI_ATTN_TILE];
    const float *q = walk_row(w, row, QUERY) + PART_ACC;
    for (int j = 0; j < FXI_ATTN_TILE; j += 4)
        score_four(q, w->k + 16 * w->n_vec * j, w->n_vec, sum + j);
    v16 s = v16_mul(v16_fold_all(sum), v16_set1(w->a->scale));
    v16_store(walk_row(w, row, QUERY), v16_first(n, s, v16_set1(-INFINITY)));
}

// Scores to weights, and what they do to m, l and the factor for acc.
static void tile_weights(const walk *w, int row)
{
    float *p = walk_row(w, row, QUERY), *o = walk_row(w, row, SEGMENT);
    v16 s = v16_load(p);
    float m = v16_max_lane(v16_max(s, v16_set1(o[PART_M])));
    v16 e = v16_exp(v16_sub(s, v16_set1(m)));
    v16_store(p, e);
    o[PART_C] = v16_lane0(v16_exp(v16_set1(o[PART_M] - m)));
    o[PART_M] = m;
    o[PART_L] = fmaf(o[PART_L], o[PART_C], v16_fold(e));
}

// acc = acc * c, then + p[j] * v[j] for n positions, of one vector and of four neighbouring ones.
// v: [n][row]
static void values_one(const float *p, const float *v, int row, int n, v16 c, float *acc)
{
    v16 a = v16_mul(v16_load(acc), c);
    for (int j = 0; j < n; j++) a = v16_fma(v16_set1(p[j]), v16_load(v + j * row), a);
    v16_store(acc, a);
}

static void values_four(const float *p, const float *v, int row, int n, v16 c, float *acc)
{
    v16 a0 = v16_mul(v16_load(acc), c), a1 = v16_mul(v16_load(acc + 16), c);
    v16 a2 = v16_mul(v16_load(acc + 32), c), a3 = v16_mul(v16_load(acc + 48), c);
    for (int j = 0; j < n; j++, v += row) {
        v16 x = v16_set1(p[j]);
        a0 = v16_fma(x, v16_load(v), a0);
        a1 = v16_fma(x, v16_load(v + 16), a1);
        a2 = v16_fma(x, v16_load(v + 32), a2);
        a3 = v16_fma(x, v16_load(v + 48), a3);
    }
    v16_store(acc, a0);
    v16_store(acc + 16, a1);
    v16_store(acc + 32, a2);
    v16_store(acc + 48, a3);
}

static void tile_values(const walk *w, int row, int n)
{
    const float *p = walk_row(w, row, QUERY);
    float *o = walk_row(w, row, SEGMENT), *acc = o + PART_ACC;
    v16 c = v16_set1(o[PART_C]);
    int len = 16 * w->n_vec, i = 0;
    for (; i + 64 <= len; i += 64) values_four(p, w->v + i, len, n, c, acc + i);
    for (; i < len; i += 16) values_one(p, w->v + i, len, n, c, acc + i);
}

// How many of the n positions from pos on the row sees; rows of later tokens see more.
static int row_sees(const walk *w, int row, int pos, int n)
{
    int sees = w->a->pos + row / w->a->group + 1 - pos;
    return sees < n ? sees : n;
}

// The tile of n positions from pos on, step by step for all rows: a row's steps wait for each
// other, rows do not.
static void walk_tile(const walk *w, int pos, int n)
{
    int r0 = 0; // the first row that sees any of it
    while (row_sees(w, r0, pos, n) <= 0) r0 += w->a->group;
    tile_widen(w, 2 * w->a->layer, pos, n, w->k);
    tile_widen(w, 2 * w->a->layer + 1, pos, n, w->v);
    for (int r = r0; r < w->n_row; r++) tile_scores(w, r, row_sees(w, r, pos, n));
    for (int r = r0; r < w->n_row; r++) tile_weights(w, r);
    for (int r = r0; r < w->n_row; r++) tile_values(w, r, row_sees(w, r, pos, n));
}

// The row's segment into its whole.
static void segment_merge(const walk *w, int row)
{
    float *o = walk_row(w, row, WHOLE);
    const float *seg = walk_row(w, row, SEGMENT);
    float m = seg[PART_M] > o[PART_M] ? seg[PART_M] : o[PART_M];
    v16 e = v16_exp(v16_set1(o[PART_M] - m)), es = v16_exp(v16_set1(seg[PART_M] - m));
    o[PART_M] = m;
    o[PART_L] = fmaf(seg[PART_L], v16_lane0(es), o[PART_L] * v16_lane0(e));
    for (int i = PART_ACC; i < PART_ACC + 16 * w->n_vec; i += 16)
        v16_store(o + i, v16_fma(v16_load(seg + i), es, v16_mul(v16_load(o + i), e)));
}

// The positions [s0, s1) of one segment; a row sees those before its end.
static void walk_segment(const walk *w, int s0, int s1)
{
    for (int r = 0; r < w->n_row; r++) part_clear(w, r, SEGMENT);
    for (int pos = s0; pos < s1; pos += FXI_ATTN_TILE)
        walk_tile(w, pos, s1 - pos < FXI_ATTN_TILE ? s1 - pos : FXI_ATTN_TILE);
    for (int r = 0; r < w->n_row; r++)
        if (row_sees(w, r, s0, 1) > 0) segment_merge(w, r);
}

// Where row r begins in q and out.
static size_t head_at(const fxi_attn *a, int r)
{
    int head = r / a->group * a->n_head + a->kv_head * a->group + r % a->group;
    return (size_t)head * (size_t)a->head_dim;
}

static void walk_begin(const walk *w)
{
    const fxi_attn *a = w->a;
    for (int r = 0; r < w->n_row; r++) {
        part_clear(w, r, QUERY);
        part_clear(w, r, WHOLE);
        memcpy(walk_row(w, r, QUERY) + PART_ACC, a->q + head_at(a, r),
               (size_t)a->head_dim * sizeof *a->q);
    }
}

static void walk_end(const walk *w)
{
    const fxi_attn *a = w->a;
    for (int r = 0; r < w->n_row; r++) {
        const float *o = walk_row(w, r, WHOLE);
        float *out = a->out + head_at(a, r), inv = 1 / o[PART_L];
        for (int d = 0; d < a->head_dim; d++) out[d] = o[PART_ACC + d] * inv;
    }
}

static void attention(const fxi_attn *a)
{
    int n_vec = (a->head_dim + 15) / 16;
    walk w = {.a = a, .n_vec = n_vec, .n_row = a->n_tok * a->group};
    w.k = a->scratch;
    w.v = w.k + FXI_ATTN_TILE * 16 * n_vec;
    w.rows = w.v + FXI_ATTN_TILE * 16 * n_vec;
    walk_begin(&w);
    int end = a->pos + a->n_tok;
    for (int s0 = 0; s0 < end; s0 += FXI_ATTN_SEGMENT)
        walk_segment(&w, s0, end - s0 < FXI_ATTN_SEGMENT ? end : s0 + FXI_ATTN_SEGMENT);
    walk_end(&w);
}
