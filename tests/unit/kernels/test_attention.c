// test_attention.c - attention: ref against double precision; every path against ref, bit by bit;
// and that neither the number of tokens in a call nor the layout of the cache changes anything. The
// cache ends with its last row, so that the address sanitizer catches a read past it.
#include "kernels_test.h"

enum { LAYER = 1, N_PLANE = 4 };

typedef struct setup {
    int head_dim, group, n_tok, pos;
    fxi_dtype type;
    int n_kv_head;
} setup;

// The layout of planes and tokens: plane after plane, the planes of a token together, or blocks of
// 16, 64 or 256 tokens with all planes, which a table scatters over memory.
typedef enum layout { SPLIT, PACKED, PAGED_16, PAGED_64, PAGED_256, N_LAYOUT } layout;

typedef struct cache {
    char *mem;
    int32_t *table;
    fxi_kv_view view;
} cache;

static size_t row_bytes(const setup *s)
{
    return fxi_kv_bytes(s->type, s->n_kv_head * s->head_dim);
}

// Rows beyond the sequence's last are NaN in every type.
static cache cache_paged(const setup *s, int shift)
{
    int block = 1 << shift, n_pos = s->pos + s->n_tok, n_block = (n_pos + block - 1) / block;
    cache c = {.table = calloc((size_t)n_block, sizeof *c.table)};
    for (int i = 0; i < n_block; i++) c.table[i] = (i * 7 + 3) % n_block;
    if (n_block % 7 == 0)
        for (int i = 0; i < n_block; i++) c.table[i] = n_block - 1 - i;
    size_t row = row_bytes(s), plane = row * (size_t)block;
    c.mem = malloc((size_t)n_block * N_PLANE * plane);
    memset(c.mem, 0xff, (size_t)n_block * N_PLANE * plane);
    c.view = (fxi_kv_view){c.mem, plane, row, c.table, shift, N_PLANE * plane};
    return c;
}

static cache cache_lay(const setup *s, layout how)
{
    size_t row = row_bytes(s), n_pos = (size_t)(s->pos + s->n_tok);
    if (how >= PAGED_16) return cache_paged(s, how == PAGED_16 ? 4 : how == PAGED_64 ? 6 : 8);
    cache c = {.mem = malloc(N_PLANE * n_pos * row)};
    c.view = (fxi_kv_view){.base = c.mem};
    c.view.plane_stride_bytes = how == PACKED ? row : n_pos * row;
    c.view.tok_stride_bytes = how == PACKED ? N_PLANE * row : row;
    return c;
}

static cache cache_make(const setup *s, layout how, spread sp)
{
    int n = s->n_kv_head * s->head_dim;
    cache c = cache_lay(s, how);
    float *f = floats((size_t)n);
    for (int p = 0; p < N_PLANE; p++)
        for (int t = 0; t < s->pos + s->n_tok; t++) {
            for (int i = 0; i < n; i++) {
                f[i] = spread_number(sp, 20 + (uint64_t)p, (uint64_t)(t * n + i));
                if (sp == WIDE) f[i] = ldexpf(f[i], -37);
            }
            ref_path()->store_kv[s->type](f, n, fxi_kv_row(&c.view, p, t));
        }
    free(f);
    return c;
}

static void cache_free(cache *c)
{
    free(c->mem), free(c->table);
}

// Keys or values of one position and KV head. to: [head_dim]
static void cache_read(const setup *s, const cache *c, int plane, int pos, int kv_head, float *to)
{
    const char *row = fxi_kv_row(&c->view, plane, pos);
    fxi_row_to_f32(s->type, row + fxi_kv_bytes(s->type, kv_head * s->head_dim), (size_t)s->head_dim,
                   to);
}

static size_t n_number(const setup *s)
{
    return (size_t)(s->n_tok * s->n_kv_head * s->group * s->head_dim);
}

// The call for tokens [t0, t0 + n_tok) of a setup and n_kv_head KV heads from h on.
static fxi_attn call_of(const setup *s, const cache *c, const float *q, int t0, int n_tok, int h,
                        int n_kv_head, float *scratch, float *out)
{
    int n_head = s->n_kv_head * s->group;
    size_t at = (size_t)(t0 * n_head * s->head_dim);
    return (fxi_attn){.view = c->view,
                      .kv_type = s->type,
                      .layer = LAYER,
                      .kv_head = h,
                      .n_kv_head = n_kv_head,
                      .n_head = n_head,
                      .head_dim = s->head_dim,
                      .group = s->group,
                      .n_tok = n_tok,
                      .pos = s->pos + t0,
                      .q = q + at,
                      .out = out + at,
                      .scale = 1 / sqrtf((float)s->head_dim),
                      .scratch = scratch};
}

static float *nan_floats(size_t n)
{
    float *p = floats(n);
    for (size_t i = 0; i < n; i++) p[i] = NAN;
    return p;
}

// KV heads of a call: `most` if the call may have that many, else 1.
static int heads_of_call(int most, int n_tok)
{
    return most * n_tok <= FXI_ATTN_MAX_TOK ? most : 1;
}

// Runs tokens [t0, t0 + n_tok) of a setup, for all KV heads, n_kv_head of them per call if
// possible.
static void attend(const fxi_kernels *k, const setup *s, const cache *c, const float *q, int t0,
                   int n_tok, int n_kv_head, float *out)
{
    float *scratch = nan_floats(fxi_attn_scratch(s->group, s->head_dim));
    n_kv_head = heads_of_call(n_kv_head, n_tok);
    for (int h = 0; h < s->n_kv_head; h += n_kv_head) {
        fxi_attn a = call_of(s, c, q, t0, n_tok, h, n_kv_head, scratch, out);
        k->attention(&a);
    }
    free(scratch);
}

// Runs a setup in ranges of segments, the last one first, and merges them.
static void attend_in_parts(const fxi_kernels *k, const setup *s, const cache *c, const float *q,
                            int step, float *out)
{
    int n_segment = fxi_attn_n_segment(s->pos + s->n_tok);
    int n_kv_head = heads_of_call(s->n_kv_head, s->n_tok);
    size_t n_part = (size_t)(n_segment * s->n_tok * s->group * n_kv_head);
    float *scratch = nan_floats(fxi_attn_scratch(s->group, s->head_dim));
    float *part = nan_floats(n_part * fxi_attn_part_floats(s->head_dim));
    for (int h = 0; h < s->n_kv_head; h += n_kv_head) {
        fxi_attn a = call_of(s, c, q, 0, s->n_tok, h, n_kv_head, scratch, out);
        for (int end = n_segment; end > 0; end -= step)
            k->attention_part(&a, end > step ? end - step : 0, end, part);
        k->attention_merge(&a, part);
    }
    free(scratch), free(part);
}

static void exact_row(const setup *s, const cache *c, int kv_head, int end, const float *q,
                      double *out)
{
    double *p = calloc((size_t)end, sizeof *p), max = -INFINITY, sum = 0;
    float row[256];
    for (int j = 0; j < end; j++) {
        cache_read(s, c, 2 * LAYER, j, kv_head, row);
        for (int d = 0; d < s->head_dim; d++)
            p[j] += (double)q[d] * (double)row[d] / sqrt(s->head_dim);
        max = fmax(max, p[j]);
    }
    memset(out, 0, (size_t)s->head_dim * sizeof *out);
    for (int j = 0; j < end; j++) {
        cache_read(s, c, 2 * LAYER + 1, j, kv_head, row);
        double e = exp(p[j] - max);
        sum += e;
        for (int d = 0; d < s->head_dim; d++) out[d] += e * (double)row[d];
    }
    for (int d = 0; d < s->head_dim; d++) out[d] /= sum;
    free(p);
}

static void assert_near(const setup *s, const cache *c, const float *q, const float *got)
{
    double want[256];
    int n_head = s->n_kv_head * s->group;
    for (int r = 0; r < s->n_tok * n_head; r++) {
        size_t at = (size_t)(r * s->head_dim);
        exact_row(s, c, r % n_head / s->group, s->pos + r / n_head + 1, q + at, want);
        for (int d = 0; d < s->head_dim; d++)
            assert_true(fabs((double)got[at + (size_t)d] - want[d]) <= 1e-5);
    }
}

static void test_ref_is_near_double(void **state)
{
    (void)state;
    static const setup setups[] = {{8, 1, 1, 0, FXI_F16, 2},     {64, 2, 3, 14, FXI_BF16, 2},
                                   {80, 1, 8, 250, FXI_F16, 2},  {128, 4, 2, 300, FXI_F32, 2},
                                   {32, 8, 1, 1000, FXI_F16, 2}, {256, 1, 2, 40, FXI_Q8_0, 2}};
    for (size_t i = 0; i < sizeof setups / sizeof setups[0]; i++) {
        const setup *s = &setups[i];
        cache c = cache_make(s, (layout)(i % N_LAYOUT), EVEN);
        float *q = random_floats(n_number(s), EVEN, 3), *out = floats(n_number(s));
        for (size_t k = 0; k < n_number(s); k++) q[k] *= 4;
        attend(ref_path(), s, &c, q, 0, s->n_tok, 1, out);
        assert_near(s, &c, q, out);
        free(q), free(out), cache_free(&c);
    }
}

// All paths: with one call per KV head; then with all heads in a call, split into single tokens,
// into uneven numbers of tokens, and into ranges of segments.
static void same_bits(const setup *s, layout how, spread sp)
{
    cache c = cache_make(s, how, sp);
    size_t n = n_number(s);
    float *q = random_floats(n, sp == WIDE ? EVEN : sp, 4), *want = floats(n), *out = floats(n);
    attend(ref_path(), s, &c, q, 0, s->n_tok, 1, want);
    const fxi_kernels *k;
    for (int i = 0; (k = fast_path(i)); i++) {
        attend(k, s, &c, q, 0, s->n_tok, 1, out);
        assert_same(k->name, out, want, n);
        memset(out, 0, n * sizeof *out);
        for (int t = 0, m; t < s->n_tok; t += m) {
            m = s->n_tok - t > 3 ? 1 + t % 3 : 1;
            attend(k, s, &c, q, t, m, s->n_kv_head, out);
        }
        assert_same(k->name, out, want, n);
        memset(out, 0, n * sizeof *out);
        attend_in_parts(k, s, &c, q, 1 + s->pos % 3, out);
        assert_same(k->name, out, want, n);
    }
    attend_in_parts(ref_path(), s, &c, q, 2, out);
    assert_same("ref", out, want, n);
    free(q), free(want), free(out), cache_free(&c);
}

static const fxi_dtype types[] = {FXI_F16, FXI_Q8_0, FXI_F32, FXI_BF16};

static const int head_dims[] = {6, 8, 10, 16, 24, 64, 80, 96, 128, 256};
enum { N_HEAD_DIM = sizeof head_dims / sizeof head_dims[0] };

// Every head size and group size, each with other token counts and positions.
static void test_paths_have_refs_bits(void **state)
{
    (void)state;
    static const int pos[] = {0, 7, 15, 16, 40, 250, 310};
    int i = 0;
    for (int h = 0; h < N_HEAD_DIM; h++)
        for (int group = 1; group <= 8; group += 1 + group / 2, i++) {
            setup s = {head_dims[h], group, 1 + i * 7 % 13, pos[i % 7], types[i % 4], 2};
            if (s.head_dim % 32 && s.type == FXI_Q8_0) s.type = FXI_F16;
            same_bits(&s, (layout)(i % N_LAYOUT), (spread)(i % N_SPREAD));
        }
}

static void test_around_borders(void **state)
{
    (void)state;
    static const int pos[] = {0,   1,   14,  15,  16,  17,  31,  240, 247, 248, 249, 254,
                              255, 256, 257, 270, 272, 503, 511, 512, 513, 760, 767, 768};
    for (size_t i = 0; i < sizeof pos / sizeof pos[0]; i++)
        for (int n_tok = 1; n_tok <= 9; n_tok += 4) {
            setup s = {i % 2 ? 24 : 64, 1 + n_tok % 2, n_tok, pos[i], FXI_F16, 2};
            same_bits(&s, i % 3 ? SPLIT : PAGED_16, (spread)(i % N_SPREAD));
        }
}

// Every type in every layout: a layout changes nothing but addresses.
static void test_layouts_have_the_same_bits(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        setup s = {64, 3, 3, 300, types[i], 2};
        size_t n = n_number(&s);
        float *q = random_floats(n, EVEN, 4), *want = floats(n), *out = floats(n);
        for (int how = 0; how < N_LAYOUT; how++) {
            cache c = cache_make(&s, (layout)how, EVEN);
            attend(fxi_kernels_get(NULL), &s, &c, q, 0, s.n_tok, 2, how ? out : want);
            if (how) assert_same("layout", out, want, n);
            same_bits(&s, (layout)how, EVEN);
            cache_free(&c);
        }
        free(q), free(want), free(out);
    }
}

// The most tokens of a call, across a segment's border.
static void test_most_tokens(void **state)
{
    (void)state;
    for (int group = 1; group <= 8; group *= 8) {
        setup s = {32, group, FXI_ATTN_MAX_TOK, 240, FXI_F16, 2};
        same_bits(&s, SPLIT, EVEN);
    }
}

// Rows of many heads, which are prefetched in smaller and smaller blocks: prefetching must end
// where the cache does, and the list of lines must fit the scratch.
static void test_wide_rows(void **state)
{
    (void)state;
    static const setup setups[] = {{128, 1, 1, 800, FXI_F16, 32},  {128, 1, 1, 600, FXI_F32, 32},
                                   {96, 1, 2, 530, FXI_BF16, 16},  {64, 2, 1, 700, FXI_Q8_0, 31},
                                   {80, 1, 1, 513, FXI_F16, 9},    {24, 3, 3, 510, FXI_F32, 7},
                                   {256, 2, 1, 1100, FXI_BF16, 8}, {32, 5, 1, 900, FXI_F16, 24}};
    for (size_t i = 0; i < sizeof setups / sizeof setups[0]; i++)
        for (int how = 0; how < N_LAYOUT; how += 2) same_bits(&setups[i], (layout)how, EVEN);
}

// Scores that rise from segment to segment, so far apart that most weights vanish.
static void test_steep_scores(void **state)
{
    (void)state;
    setup s = {32, 2, 4, 700, FXI_F16, 2};
    cache c = cache_make(&s, SPLIT, EVEN);
    size_t n = n_number(&s);
    float *q = random_floats(n, EVEN, 4), *want = floats(n), *out = floats(n);
    for (size_t i = 0; i < n; i++) q[i] *= i % 64 < 32 ? 300 : -1000;
    attend(ref_path(), &s, &c, q, 0, s.n_tok, 1, want);
    for (size_t i = 0; i < n; i++) assert_true(fabsf(want[i]) <= 1);
    const fxi_kernels *k;
    for (int i = 0; (k = fast_path(i)); i++) {
        attend(k, &s, &c, q, 0, s.n_tok, 2, out);
        assert_same(k->name, out, want, n);
    }
    free(q), free(want), free(out), cache_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ref_is_near_double),
        cmocka_unit_test(test_paths_have_refs_bits),
        cmocka_unit_test(test_around_borders),
        cmocka_unit_test(test_layouts_have_the_same_bits),
        cmocka_unit_test(test_most_tokens),
        cmocka_unit_test(test_wide_rows),
        cmocka_unit_test(test_steep_scores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
