// Attention: ref against double precision; every path against ref, bit by bit; and that neither the
// number of tokens in a call nor where the cache lies changes anything. The cache ends with its
// last row, so that the address sanitizer sees a read past it.
#include "kernels_test.h"

enum { N_KV_HEAD = 2, LAYER = 1, N_PLANE = 4 };

typedef struct setup {
    int head_dim, group, n_tok, pos;
} setup;

// How planes and tokens lie: each plane for itself, or the planes of a token together.
typedef enum layout { SPLIT, PACKED } layout;

typedef struct cache {
    char *mem;
    fxi_kv_view view;
} cache;

static cache cache_make(const setup *s, layout how, spread sp)
{
    size_t row = (size_t)(N_KV_HEAD * s->head_dim), n_pos = (size_t)(s->pos + s->n_tok);
    cache c = {.mem = malloc(N_PLANE * n_pos * row * 2)};
    c.view = (fxi_kv_view){c.mem, n_pos * row * 2, row * 2};
    if (how == PACKED)
        c.view.plane_stride_bytes = row * 2, c.view.tok_stride_bytes = N_PLANE * row * 2;
    for (int p = 0; p < N_PLANE; p++)
        for (size_t t = 0; t < n_pos; t++) {
            uint16_t *dst = (uint16_t *)(fxi_kv_plane(&c.view, p) + t * c.view.tok_stride_bytes);
            for (size_t i = 0; i < row; i++) {
                float f = spread_number(sp, 20 + (uint64_t)p, t * row + i);
                dst[i] = fxi_f32_to_f16(sp == WIDE ? ldexpf(f, -37) : f);
            }
        }
    return c;
}

static size_t n_number(const setup *s)
{
    return (size_t)(s->n_tok * N_KV_HEAD * s->group * s->head_dim);
}

// Both KV heads of a setup, tokens [t0, t0 + n_tok) of it.
static void attend(const fxi_kernels *k, const setup *s, const cache *c, const float *q, int t0,
                   int n_tok, float *out)
{
    int n_head = N_KV_HEAD * s->group;
    size_t n_scratch = fxi_attn_scratch(s->group, s->head_dim);
    float *scratch = floats(n_scratch);
    for (size_t i = 0; i < n_scratch; i++) scratch[i] = NAN;
    for (int h = 0; h < N_KV_HEAD; h++) {
        size_t at = (size_t)(t0 * n_head * s->head_dim);
        fxi_attn a = {.view = c->view,
                      .layer = LAYER,
                      .kv_head = h,
                      .n_head = n_head,
                      .head_dim = s->head_dim,
                      .group = s->group,
                      .n_tok = n_tok,
                      .pos = s->pos + t0,
                      .q = q + at,
                      .out = out + at,
                      .scale = 1 / sqrtf((float)s->head_dim),
                      .scratch = scratch};
        k->attention(&a);
    }
    free(scratch);
}

// One query row by the definition of attention. q, out: [head_dim]; k, v: first numbers of the KV
// head.
static void exact_row(const setup *s, const cache *c, int kv_head, int end, const float *q,
                      double *out)
{
    size_t at = (size_t)(kv_head * s->head_dim) * 2;
    const char *k = fxi_kv_plane(&c->view, 2 * LAYER) + at;
    const char *v = fxi_kv_plane(&c->view, 2 * LAYER + 1) + at;
    double *p = calloc((size_t)end, sizeof *p), max = -INFINITY, sum = 0;
    for (int j = 0; j < end; j++) {
        const uint16_t *row = (const uint16_t *)(k + (size_t)j * c->view.tok_stride_bytes);
        for (int d = 0; d < s->head_dim; d++)
            p[j] += (double)q[d] * (double)fxi_f16_to_f32(row[d]) / sqrt(s->head_dim);
        max = fmax(max, p[j]);
    }
    memset(out, 0, (size_t)s->head_dim * sizeof *out);
    for (int j = 0; j < end; j++) {
        const uint16_t *row = (const uint16_t *)(v + (size_t)j * c->view.tok_stride_bytes);
        double e = exp(p[j] - max);
        sum += e;
        for (int d = 0; d < s->head_dim; d++) out[d] += e * (double)fxi_f16_to_f32(row[d]);
    }
    for (int d = 0; d < s->head_dim; d++) out[d] /= sum;
    free(p);
}

static void assert_near(const setup *s, const cache *c, const float *q, const float *got)
{
    double want[128];
    int n_head = N_KV_HEAD * s->group;
    for (int r = 0; r < s->n_tok * n_head; r++) {
        size_t at = (size_t)(r * s->head_dim);
        exact_row(s, c, r % n_head / s->group, s->pos + r / n_head + 1, q + at, want);
        for (int d = 0; d < s->head_dim; d++)
            assert_true(fabs((double)got[at + (size_t)d] - want[d]) <= 1e-5);
    }
}

static void ref_is_near_double(void **state)
{
    (void)state;
    static const setup setups[] = {
        {8, 1, 1, 0}, {64, 2, 3, 14}, {80, 1, 8, 250}, {128, 4, 2, 300}, {32, 8, 1, 1000}};
    for (size_t i = 0; i < sizeof setups / sizeof setups[0]; i++) {
        const setup *s = &setups[i];
        cache c = cache_make(s, i % 2 ? PACKED : SPLIT, EVEN);
        float *q = random_floats(n_number(s), EVEN, 3), *out = floats(n_number(s));
        for (size_t k = 0; k < n_number(s); k++) q[k] *= 4;
        attend(ref_path(), s, &c, q, 0, s->n_tok, out);
        assert_near(s, &c, q, out);
        free(q), free(out), free(c.mem);
    }
}

// All paths in one call; then ref and paths cut into single tokens and into uneven runs.
static void same_bits(const setup *s, layout how, spread sp)
{
    cache c = cache_make(s, how, sp);
    size_t n = n_number(s);
    float *q = random_floats(n, sp == WIDE ? EVEN : sp, 4), *want = floats(n), *out = floats(n);
    attend(ref_path(), s, &c, q, 0, s->n_tok, want);
    const fxi_kernels *k;
    for (int i = 0; (k = fast_path(i)); i++) {
        attend(k, s, &c, q, 0, s->n_tok, out);
        assert_same(k->name, out, want, n);
        memset(out, 0, n * sizeof *out);
        for (int t = 0, m; t < s->n_tok; t += m) {
            m = s->n_tok - t > 3 ? 1 + t % 3 : 1;
            attend(k, s, &c, q, t, m, out);
        }
        assert_same(k->name, out, want, n);
    }
    free(q), free(want), free(out), free(c.mem);
}

static const int head_dims[] = {6, 8, 10, 16, 24, 64, 80, 96, 128, 256};
enum { N_HEAD_DIM = sizeof head_dims / sizeof head_dims[0] };

// Every head size and group size, with token counts and positions that vary along.
static void paths_have_refs_bits(void **state)
{
    (void)state;
    static const int pos[] = {0, 7, 15, 16, 40, 250, 310};
    int i = 0;
    for (int h = 0; h < N_HEAD_DIM; h++)
        for (int group = 1; group <= 8; group += 1 + group / 4, i++) {
            setup s = {head_dims[h], group, 1 + i % FXI_ATTN_MAX_TOK, pos[i % 7]};
            same_bits(&s, i % 2 ? PACKED : SPLIT, (spread)(i % N_SPREAD));
        }
}

static void around_borders(void **state)
{
    (void)state;
    static const int pos[] = {0,   1,   14,  15,  16,  17,  31,  240, 247, 248, 249, 254,
                              255, 256, 257, 270, 272, 503, 511, 512, 513, 760, 767, 768};
    for (size_t i = 0; i < sizeof pos / sizeof pos[0]; i++)
        for (int n_tok = 1; n_tok <= FXI_ATTN_MAX_TOK; n_tok += 5) {
            setup s = {i % 2 ? 24 : 64, 2, n_tok, pos[i]};
            same_bits(&s, SPLIT, (spread)(i % N_SPREAD));
        }
}

// Scores so far apart that most weights vanish, and rise from segment to segment.
static void steep_scores(void **state)
{
    (void)state;
    setup s = {32, 2, 4, 700};
    cache c = cache_make(&s, SPLIT, EVEN);
    size_t n = n_number(&s);
    float *q = random_floats(n, EVEN, 4), *want = floats(n), *out = floats(n);
    for (size_t i = 0; i < n; i++) q[i] *= i % 64 < 32 ? 300 : -1000;
    attend(ref_path(), &s, &c, q, 0, s.n_tok, want);
    for (size_t i = 0; i < n; i++) assert_true(fabsf(want[i]) <= 1);
    const fxi_kernels *k;
    for (int i = 0; (k = fast_path(i)); i++) {
        attend(k, &s, &c, q, 0, s.n_tok, out);
        assert_same(k->name, out, want, n);
    }
    free(q), free(want), free(out), free(c.mem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ref_is_near_double),
        cmocka_unit_test(paths_have_refs_bits),
        cmocka_unit_test(around_borders),
        cmocka_unit_test(steep_scores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
