// test_recurrent.c - the states of recurrent layers: ref against double precision, every path
// against ref, bit by bit, and the same bits however tokens and columns are divided.
#include "kernels_test.h"
#include "suite.h"

// A block of tokens through one head. A row of the cache is a key, u and g side by side; a row of
// inputs a query and values.
typedef struct recur_case {
    int n_key, n_value, n_tok;
    bool has_state;
    float *state, *in, *b;
    float *rows, *out, *next; // written
} recur_case;

static size_t row_floats(const recur_case *c)
{
    return (size_t)(c->n_key + c->n_value) + 1;
}

static size_t in_floats(const recur_case *c)
{
    return (size_t)(c->n_key + c->n_value);
}

static size_t state_floats(const recur_case *c)
{
    return (size_t)c->n_key * (size_t)c->n_value;
}

static recur_case *recur_new(int n_key, int n_value, int n_tok, bool has_state, spread s)
{
    recur_case *c = calloc(1, sizeof *c);
    *c = (recur_case){.n_key = n_key, .n_value = n_value, .n_tok = n_tok, .has_state = has_state};
    c->state = random_floats(state_floats(c), s, 1);
    c->in = random_floats((size_t)n_tok * in_floats(c), s, 2);
    c->rows = random_floats((size_t)n_tok * row_floats(c), s, 3);
    c->b = random_floats((size_t)n_tok, EVEN, 4);
    c->out = floats((size_t)n_tok * (size_t)n_value);
    c->next = floats(state_floats(c));
    float g = 0;
    for (size_t t = 0; t < (size_t)n_tok; t++) {
        float *row = c->rows + t * row_floats(c), *in = c->in + t * in_floats(c);
        const float by = s == EVEN ? 1 / sqrtf((float)n_key) : 1; // as short as those of models
        for (int i = 0; i < n_key; i++) row[i] *= by, in[i] *= by;
        g -= 0.3f * fabsf(spread_number(EVEN, 5, t));
        row[n_key + n_value] = g;
    }
    return c;
}

static void recur_free(recur_case *c)
{
    guarded_free_all(c->state, c->in, c->b, c->rows, c->out, c->next);
    free(c);
}

// A call of tokens [t0, t1) and columns [j0, j1): u if `updates`, otherwise out; and the state
// after the block, if they are its last ones.
static void recur_part(const fxi_kernels *k, const recur_case *c, bool updates, const int part[4])
{
    const size_t t0 = (size_t)part[0];
    fxi_recur r = {.n_key = c->n_key,
                   .n_value = c->n_value,
                   .column0 = part[2],
                   .n_column = part[3] - part[2],
                   .first = part[0],
                   .n_tok = part[1] - part[0],
                   .state = c->has_state ? c->state : NULL,
                   .k = c->rows,
                   .u = c->rows + c->n_key,
                   .g = c->rows + c->n_key + c->n_value,
                   .row_step = row_floats(c),
                   .in_step = in_floats(c),
                   .x = c->in + t0 * in_floats(c) + (updates ? c->n_key : 0),
                   .b = c->b + t0,
                   .b_step = 1,
                   .out = c->out + t0 * (size_t)c->n_value,
                   .out_step = (size_t)c->n_value};
    if (!r.n_tok) return;
    (updates ? k->recur_update : k->recur_read)(&r);
    if (!updates && part[1] == c->n_tok) k->recur_state(&r, c->next);
}

static void recur_run(const fxi_kernels *k, const recur_case *c)
{
    const int all[4] = {0, c->n_tok, 0, c->n_value};
    recur_part(k, c, true, all);
    recur_part(k, c, false, all);
}

// One column in double precision, token by token, as the papers write it: the state decays first.
static void check_column(const recur_case *c, int column)
{
    double s[FXI_RECUR_MAX_KEY], last_g = 0;
    for (int i = 0; i < c->n_key; i++)
        s[i] = c->has_state ? (double)c->state[i * c->n_value + column] : 0;
    for (int t = 0; t < c->n_tok; t++) {
        const float *row = c->rows + (size_t)t * row_floats(c);
        const float *in = c->in + (size_t)t * in_floats(c);
        const double g = (double)row[c->n_key + c->n_value];
        double memory = 0, out = 0;
        for (int i = 0; i < c->n_key; i++) {
            s[i] *= exp(g - last_g);
            memory += s[i] * (double)row[i];
        }
        const double u = ((double)in[c->n_key + column] - memory) * (double)c->b[t];
        for (int i = 0; i < c->n_key; i++) {
            s[i] += (double)row[i] * u;
            out += s[i] * (double)in[i];
        }
        last_g = g;
        assert_true(fabs((double)row[c->n_key + column] - u) <= 1e-5);
        assert_true(fabs((double)c->out[t * c->n_value + column] - out) <= 1e-5);
    }
    for (int i = 0; i < c->n_key; i++)
        assert_true(fabs((double)c->next[i * c->n_value + column] - s[i]) <= 1e-5);
}

static const int sizes[][3] = {{1, 1, 1},      {2, 6, 64},   {3, 16, 17}, {8, 17, 64},
                               {31, 33, 33},   {64, 64, 64}, {40, 80, 5}, {128, 100, 64},
                               {128, 128, 40}, {256, 40, 3}};
enum { N_SIZE = sizeof sizes / sizeof sizes[0] };

FX_TEST(test_states_are_near_double)
{
    for (int i = 0; i < 2 * N_SIZE; i++) {
        const int *n = sizes[i / 2];
        recur_case *c = recur_new(n[0], n[1], n[2], i % 2, EVEN);
        recur_run(ref_path(), c);
        for (int j = 0; j < n[1]; j++) check_column(c, j);
        recur_free(c);
    }
}

// Each path in pieces of tokens and columns; of `want`, all at once.
static void check_pieces(const fxi_kernels *k, recur_case *c, const recur_case *want, int n_piece)
{
    const int half = n_piece > 1 ? c->n_value / 2 : 0;
    for (int p = 0; p < n_piece;
         p++) { // as a sequence grows: a piece is read before the next comes
        const int t0 = c->n_tok * p / n_piece, t1 = c->n_tok * (p + 1) / n_piece;
        const int left[4] = {t0, t1, 0, half}, right[4] = {t0, t1, half, c->n_value};
        recur_part(k, c, true, right);
        if (half) recur_part(k, c, true, left);
        recur_part(k, c, false, right);
        if (half) recur_part(k, c, false, left);
    }
    assert_same(k->name, c->rows, want->rows, (size_t)c->n_tok * row_floats(c));
    assert_same(k->name, c->out, want->out, (size_t)(c->n_tok * c->n_value));
    assert_same(k->name, c->next, want->next, state_floats(c));
}

FX_TEST(test_states_have_refs_bits_in_pieces)
{
    for (int i = 0; i < 2 * N_SIZE; i++)
        for (int s = 0; s < N_SPREAD; s++) {
            const int *n = sizes[i / 2];
            recur_case *want = recur_new(n[0], n[1], n[2], i % 2, (spread)s);
            recur_run(ref_path(), want);
            const fxi_kernels *k = ref_path();
            for (int p = 0; k; k = fast_path(p++))
                for (int m = 0; m < 3; m++) {
                    recur_case *c = recur_new(n[0], n[1], n[2], i % 2, (spread)s);
                    check_pieces(k, c, want, m < 2 ? 2 * m + 1 : n[2]);
                    recur_free(c);
                }
            recur_free(want);
        }
}

FX_RUN(test_recurrent)
