// body_recurrent.h - the states of recurrent layers. Written once for every vector unit (cpu.h).
//
// A state is read in blocks of columns, each for all tokens of the call: a block of a head of
// 128 x 128 stays in the nearest cache, and its sums in registers. What a token takes of the others
// is the same for all columns, and computed before.
// Needs: a vec*.h; RECUR_VECS, the vectors of a block of columns, two chains each: enough to hide
// the latency of a fused multiply-add; RECUR_ROWS, rows of a state that are computed at once.
#include "kernels/cpu/body/body_panel.h"

// sum16(a * b)
static float recur_dot(const float *a, const float *b, int n)
{
    v16 acc = v16_zero();
    int i = 0;
    for (; i + 16 <= n; i += 16) acc = v16_fma(v16_load(a + i), v16_load(b + i), acc);
    if (i < n) acc = v16_fma(v16_load_n(a + i, n - i), v16_load_n(b + i, n - i), acc);
    return v16_fold(acc);
}

// The decays from tokens 0 .. n - 1 of the block to token t. c: whole vectors
static void recur_decays(const fxi_recur *r, int t, int n, float *c)
{
    const v16 g = v16_set1(r->g[(size_t)t * r->row_step]);
    for (int s = 0; s < n; s++) c[s] = r->g[(size_t)s * r->row_step];
    for (int s = n; s % 16; s++) c[s] = 0;
    for (int s = 0; s < n; s += 16) v16_store(c + s, v16_exp(v16_sub(g, v16_load(c + s))));
}

// What a token reads: x, its query or key, of the state at the factor a; of u of the first n_own
// tokens at their weights w.
typedef struct recur_token {
    const float *x;
    float a;
    int n_own;
    float w[FXI_RECUR_TOK];
} recur_token;

static void recur_weigh(const fxi_recur *r, const float *x, int t, int n_own, recur_token *out)
{
    out->x = x;
    out->n_own = n_own;
    recur_decays(r, t, n_own, out->w);
    out->a = v16_lane0(v16_exp(v16_set1(r->g[(size_t)t * r->row_step])));
    for (int s = 0; s < n_own; s++)
        out->w[s] *= recur_dot(x, r->k + (size_t)s * r->row_step, r->n_key);
}

// A block of columns: n_vec vectors, the last one of n_last lanes.
#define RECUR_LANES(i) ((i) < n_vec - 1 ? 16 : n_last)

// sum2 over n rows of a block, row_step floats apart, at the factors x.
ALWAYS_INLINE void recur_sum2(const float *row, size_t row_step, const float *x, int n, int n_vec,
                              int n_last, v16 *sum)
{
    v16 odd[RECUR_VECS];
#pragma GCC unroll 4
    for (int c = 0; c < n_vec; c++) sum[c] = odd[c] = v16_zero();
    int i = 0;
    for (; i + 2 <= n; i += 2, row += 2 * row_step) {
        const v16 x0 = v16_set1(x[i]), x1 = v16_set1(x[i + 1]);
#pragma GCC unroll 4
        for (int c = 0; c < n_vec; c++) {
            sum[c] = v16_fma(panel_load(row + 16 * c, RECUR_LANES(c)), x0, sum[c]);
            odd[c] = v16_fma(panel_load(row + row_step + 16 * c, RECUR_LANES(c)), x1, odd[c]);
        }
    }
#pragma GCC unroll 4
    for (int c = 0; c < n_vec; c++) {
        if (i < n)
            sum[c] = v16_fma(panel_load(row + 16 * c, RECUR_LANES(c)), v16_set1(x[i]), sum[c]);
        sum[c] = v16_add(sum[c], odd[c]);
    }
}

ALWAYS_INLINE void recur_recall(const fxi_recur *r, const recur_token *t, int column, int n_vec,
                                int n_last, v16 *y)
{
    v16 own[RECUR_VECS];
    recur_sum2(r->u + column, r->row_step, t->w, t->n_own, n_vec, n_last, own);
    recur_sum2(r->state ? r->state + column : NULL, (size_t)r->n_value, t->x,
               r->state ? r->n_key : 0, n_vec, n_last, y);
#pragma GCC unroll 4
    for (int c = 0; c < n_vec; c++) y[c] = v16_fma(y[c], v16_set1(t->a), own[c]);
}

// u or, if `reads`, out of n tokens, in the columns from `column` on.
ALWAYS_INLINE void recur_columns(const fxi_recur *r, const recur_token *token, int column,
                                 int n_vec, int n_last, bool reads)
{
    for (size_t i = 0; i < (size_t)r->n_tok; i++) {
        v16 y[RECUR_VECS];
        recur_recall(r, &token[i], column, n_vec, n_last, y);
        const float *v = r->x + i * r->in_step + column;
        float *dst = reads ? r->out + i * r->out_step : r->u + ((size_t)r->first + i) * r->row_step;
#pragma GCC unroll 4
        for (int c = 0; c < n_vec; c++) {
            if (!reads)
                y[c] = v16_mul(v16_sub(panel_load(v + 16 * c, RECUR_LANES(c)), y[c]),
                               v16_set1(r->b[i * r->b_step]));
            panel_store(dst + column + 16 * c, y[c], RECUR_LANES(c));
        }
    }
}

ALWAYS_INLINE void recur_run(const fxi_recur *call, bool reads)
{
    const fxi_recur r = *call; // stores of floats may not change it
    recur_token token[FXI_RECUR_TOK];
    for (int i = 0; i < r.n_tok; i++) {
        const int t = r.first + i;
        const float *x = reads ? r.x + (size_t)i * r.in_step : r.k + (size_t)t * r.row_step;
        recur_weigh(&r, x, t, reads ? t + 1 : t, &token[i]);
    }
    const int end = r.column0 + r.n_column;
    int j = r.column0;
    for (; j + 16 * RECUR_VECS <= end; j += 16 * RECUR_VECS)
        recur_columns(&r, token, j, RECUR_VECS, 16, reads);
    for (; j + 16 <= end; j += 16) recur_columns(&r, token, j, 1, 16, reads);
    if (j < end) recur_columns(&r, token, j, 1, end - j, reads);
}

static void recur_update(const fxi_recur *r)
{
    recur_run(r, false);
}

static void recur_read(const fxi_recur *r)
{
    recur_run(r, true);
}

// n_row rows of the next state, from row i on, in a block of columns. c: the decays from the
// block's tokens to its end; a: that from its beginning
ALWAYS_INLINE void recur_rows(const fxi_recur *r, const float *c, float a, int i, int n_row,
                              int column, int n_vec, int n_last, float *next)
{
    const size_t ld = (size_t)r->n_value, at = (size_t)i * ld + (size_t)column;
    v16 sum[RECUR_ROWS][RECUR_VECS];
#pragma GCC unroll 4
    for (int m = 0; m < n_row; m++)
#pragma GCC unroll 4
        for (int v = 0; v < n_vec; v++)
            sum[m][v] =
                r->state
                    ? v16_mul(panel_load(r->state + at + (size_t)m * ld + 16 * v, RECUR_LANES(v)),
                              v16_set1(a))
                    : v16_zero();
    for (int s = 0; s < r->first + r->n_tok; s++) {
        const float *k = r->k + (size_t)s * r->row_step + i;
        const float *u = r->u + (size_t)s * r->row_step + column;
#pragma GCC unroll 4
        for (int m = 0; m < n_row; m++) {
            const v16 by = v16_mul(v16_set1(c[s]), v16_set1(k[m]));
#pragma GCC unroll 4
            for (int v = 0; v < n_vec; v++)
                sum[m][v] = v16_fma(by, panel_load(u + 16 * v, RECUR_LANES(v)), sum[m][v]);
        }
    }
#pragma GCC unroll 4
    for (int m = 0; m < n_row; m++)
#pragma GCC unroll 4
        for (int v = 0; v < n_vec; v++)
            panel_store(next + at + (size_t)m * ld + 16 * v, sum[m][v], RECUR_LANES(v));
}

ALWAYS_INLINE void recur_state_columns(const fxi_recur *r, const float *c, float a, int column,
                                       int n_vec, int n_last, float *next)
{
    int i = 0;
    for (; i + RECUR_ROWS <= r->n_key; i += RECUR_ROWS)
        recur_rows(r, c, a, i, RECUR_ROWS, column, n_vec, n_last, next);
    for (; i < r->n_key; i++) recur_rows(r, c, a, i, 1, column, n_vec, n_last, next);
}

static void recur_state(const fxi_recur *call, float *next)
{
    const fxi_recur r = *call;
    const int last = r.first + r.n_tok - 1, end = r.column0 + r.n_column;
    float c[FXI_RECUR_TOK];
    recur_decays(&r, last, last + 1, c);
    const float a = v16_lane0(v16_exp(v16_set1(r.g[(size_t)last * r.row_step])));
    int j = r.column0;
    for (; j + 16 * RECUR_VECS <= end; j += 16 * RECUR_VECS)
        recur_state_columns(&r, c, a, j, RECUR_VECS, 16, next);
    for (; j + 16 <= end; j += 16) recur_state_columns(&r, c, a, j, 1, 16, next);
    if (j < end) recur_state_columns(&r, c, a, j, 1, end - j, next);
}

#undef RECUR_LANES
