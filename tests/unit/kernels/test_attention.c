// test_attention.c - attention: ref against double precision; every path against ref, bit by bit;
// and that neither the number of tokens in a call nor the layout of the cache changes anything. The
// cache is a buffer (guarded.h) of no more than its rows; rows before the first token's window are
// NaN.
#include <sys/mman.h>

#include "kernels/attn_range.h"
#include "kernels_test.h"
#include "suite.h"

enum { LAYER = 1, N_PLANE = 4, MAX_HEAD = 576 };

typedef struct setup {
    int head_dim, group, n_tok, pos;
    fxi_dtype type;
    int n_kv_head;
    int window;
    float softcap;
    bool sinks;
    int n_after; // bidirectional: positions after the last token, plus 1
    int v_dim;   // latent: values are the first numbers of their keys; 0: rows of their own
} setup;

#define PLAIN 0, 0, false, 0, 0 // neither window nor cap nor sinks, causal, not latent

static int value_dim(const setup *s)
{
    return s->v_dim ? s->v_dim : s->head_dim;
}

static float *nan_floats(size_t n)
{
    float *p = floats(n);
    for (size_t i = 0; i < n; i++) p[i] = NAN;
    return p;
}

static float *scratch_of(const setup *s)
{
    return nan_floats(fxi_attn_scratch(s->group * FXI_ATTN_MAX_TOK, s->head_dim, value_dim(s)));
}

// Positions in the cache.
static int n_cached(const setup *s)
{
    return s->pos + s->n_tok + (s->n_after ? s->n_after - 1 : 0);
}

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
    return fxi_kv_bytes(s->type, s->v_dim ? s->head_dim : s->n_kv_head * s->head_dim);
}

// Rows beyond the sequence's last are NaN in every type.
static cache cache_paged(const setup *s, int shift)
{
    int block = 1 << shift, n_pos = n_cached(s), n_block = (n_pos + block - 1) / block;
    cache c = {.table = guarded_new((size_t)n_block * sizeof *c.table)};
    for (int i = 0; i < n_block; i++) c.table[i] = (i * 7 + 3) % n_block;
    if (n_block % 7 == 0)
        for (int i = 0; i < n_block; i++) c.table[i] = n_block - 1 - i;
    size_t row = row_bytes(s), plane = row * (size_t)block;
    c.mem = guarded_new((size_t)n_block * N_PLANE * plane);
    memset(c.mem, 0xff, (size_t)n_block * N_PLANE * plane);
    c.view = (fxi_kv_view){.base = c.mem,
                           .plane_stride_bytes = plane,
                           .tok_stride_bytes = row,
                           .table = c.table,
                           .block_shift = shift,
                           .block_stride_bytes = N_PLANE * plane};
    return c;
}

static cache cache_lay(const setup *s, layout how)
{
    size_t row = row_bytes(s), n_pos = (size_t)n_cached(s);
    if (how >= PAGED_16) return cache_paged(s, how == PAGED_16 ? 4 : how == PAGED_64 ? 6 : 8);
    cache c = {.mem = guarded_new(N_PLANE * n_pos * row)};
    c.view = (fxi_kv_view){.base = c.mem};
    c.view.plane_stride_bytes = how == PACKED ? row : n_pos * row;
    c.view.tok_stride_bytes = how == PACKED ? N_PLANE * row : row;
    return c;
}

static void cache_fill(const setup *s, cache *c, spread sp)
{
    int n = s->v_dim ? s->head_dim : s->n_kv_head * s->head_dim;
    float *f = floats((size_t)n);
    for (int p = 0; p < N_PLANE; p++)
        for (int t = 0; t < n_cached(s); t++) {
            if (t < fxi_attn_first(s->pos, s->window)) {
                memset(fxi_kv_row(&c->view, p, t), 0xff, row_bytes(s));
                continue;
            }
            for (int i = 0; i < n; i++) {
                f[i] = spread_number(sp, 20 + (uint64_t)p, (uint64_t)(t * n + i));
                if (sp == WIDE) f[i] = ldexpf(f[i], -37);
            }
            ref_path()->store_kv[s->type](f, n, fxi_kv_row(&c->view, p, t));
        }
    guarded_free(f);
}

static cache cache_make(const setup *s, layout how, spread sp)
{
    cache c = cache_lay(s, how);
    cache_fill(s, &c, sp);
    return c;
}

static void cache_free(cache *c)
{
    guarded_free_all(c->mem, c->table);
}

// Keys or values of one position and KV head. to: [head_dim]
static void cache_read(const setup *s, const cache *c, int plane, int pos, int kv_head, float *to)
{
    const char *row = fxi_kv_row(&c->view, plane, pos);
    const int from = s->v_dim ? 0 : kv_head * s->head_dim;
    fxi_row_to_f32(s->type, row + fxi_kv_bytes(s->type, from), (size_t)s->head_dim, to);
}

// Numbers of all queries and of all results.
static size_t n_number(const setup *s)
{
    return (size_t)(s->n_tok * s->n_kv_head * s->group * s->head_dim);
}

static size_t n_result(const setup *s)
{
    return n_number(s) / (size_t)s->head_dim * (size_t)value_dim(s);
}

// Sinks above, among and far below the scores.
static const float sink_scores[16] = {0.5f, -1, 3, 0, -40, 2, 0.1f, -0.3f,
                                      1,    7,  0, 0, -90, 5, 0.2f, -2};

// The call for tokens [t0, t0 + n_tok) of a setup and n_kv_head KV heads from h on.
static fxi_attn call_of(const setup *s, const cache *c, const float *q, int t0, int n_tok, int h,
                        int n_kv_head, float *scratch, float *out)
{
    int n_head = s->n_kv_head * s->group;
    return (fxi_attn){.view = c->view,
                      .kv_type = s->type,
                      .layer = LAYER,
                      .kv_head = h,
                      .n_kv_head = n_kv_head,
                      .n_head = n_head,
                      .head_dim = s->head_dim,
                      .group = s->group,
                      .v_dim = s->v_dim,
                      .n_tok = n_tok,
                      .pos = s->pos + t0,
                      .n_pos = s->n_after ? n_cached(s) : 0,
                      .window = s->window,
                      .softcap = s->softcap,
                      .sink = s->sinks ? sink_scores : NULL,
                      .q = q + (size_t)(t0 * n_head * s->head_dim),
                      .out = out + (size_t)(t0 * n_head * value_dim(s)),
                      .scale = 1 / sqrtf((float)s->head_dim),
                      .scratch = scratch};
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
    float *scratch = scratch_of(s);
    n_kv_head = heads_of_call(n_kv_head, n_tok);
    for (int h = 0; h < s->n_kv_head; h += n_kv_head) {
        fxi_attn a = call_of(s, c, q, t0, n_tok, h, n_kv_head, scratch, out);
        k->attention(&a);
    }
    guarded_free(scratch);
}

// Runs a setup in ranges of segments, the last one first, and merges them.
static void attend_in_parts(const fxi_kernels *k, const setup *s, const cache *c, const float *q,
                            int step, float *out)
{
    int n_segment = fxi_attn_n_segment(n_cached(s));
    int n_kv_head = heads_of_call(s->n_kv_head, s->n_tok);
    size_t n_part = (size_t)(n_segment * s->n_tok * s->group * n_kv_head);
    float *scratch = scratch_of(s);
    float *part = nan_floats(n_part * fxi_attn_part_floats(value_dim(s)));
    for (int h = 0; h < s->n_kv_head; h += n_kv_head) {
        fxi_attn a = call_of(s, c, q, 0, s->n_tok, h, n_kv_head, scratch, out);
        for (int end = n_segment; end > 0; end -= step)
            k->attention_part(&a, end > step ? end - step : 0, end, part);
        k->attention_merge(&a, part);
    }
    guarded_free_all(scratch, part);
}

static double exact_score(const fxi_attn *a, const float *q, const float *key)
{
    double s = 0;
    for (int d = 0; d < a->head_dim; d++) s += (double)q[d] * (double)key[d];
    s /= sqrt(a->head_dim);
    return a->softcap ? a->softcap * tanh(s / a->softcap) : s;
}

// The result of token tok and query head h of a call that begins with the first token.
static void exact_row(const setup *s, const cache *c, const fxi_attn *a, int tok, int h,
                      double *out)
{
    const int p = s->pos + tok, kv_head = h / s->group, n = n_cached(s);
    const float *q = a->q + (size_t)((tok * a->n_head + h) * s->head_dim);
    double sum = a->sink ? exp((double)a->sink[h]) : 0;
    float row[MAX_HEAD];
    memset(out, 0, (size_t)value_dim(s) * sizeof *out);
    for (int j = 0; j < n; j++) {
        if (!s->n_after && j > p) continue;
        if (s->window && (j <= p - s->window || j >= p + s->window)) continue;
        cache_read(s, c, s->v_dim ? LAYER : 2 * LAYER, j, kv_head, row);
        double e = exp(exact_score(a, q, row));
        if (!s->v_dim) cache_read(s, c, 2 * LAYER + 1, j, kv_head, row);
        sum += e;
        for (int d = 0; d < value_dim(s); d++) out[d] += e * (double)row[d];
    }
    for (int d = 0; d < value_dim(s); d++) out[d] /= sum;
}

static void assert_near(const setup *s, const cache *c, const float *q, float *got)
{
    double want[MAX_HEAD];
    const fxi_attn a = call_of(s, c, q, 0, s->n_tok, 0, s->n_kv_head, NULL, got);
    for (int r = 0; r < s->n_tok * a.n_head; r++) {
        size_t at = (size_t)(r * value_dim(s));
        exact_row(s, c, &a, r / a.n_head, r % a.n_head, want);
        for (int d = 0; d < value_dim(s); d++)
            assert_true(fabs((double)got[at + (size_t)d] - want[d]) <= 1e-5);
    }
}

FX_TEST(test_ref_is_near_double)
{
    static const setup setups[] = {{8, 1, 1, 0, FXI_F16, 2, PLAIN},
                                   {64, 2, 3, 14, FXI_BF16, 2, PLAIN},
                                   {80, 1, 8, 250, FXI_F16, 2, PLAIN},
                                   {128, 4, 2, 300, FXI_F32, 2, PLAIN},
                                   {32, 8, 1, 1000, FXI_F16, 2, PLAIN},
                                   {256, 1, 2, 40, FXI_Q8_0, 2, PLAIN},
                                   {64, 1, 5, 600, FXI_F16, 2, 300, 0, false, 0, 0},
                                   {64, 2, 5, 300, FXI_F32, 2, 0, 2, false, 0, 0},
                                   {80, 1, 3, 270, FXI_F32, 2, 0, 0, true, 0, 0},
                                   {64, 1, 9, 0, FXI_F16, 2, 0, 0, false, 400, 0},
                                   {96, 2, 9, 500, FXI_F32, 2, 130, 1.5f, true, 200, 0},
                                   {576, 16, 2, 300, FXI_F16, 1, 0, 0, false, 0, 512},
                                   {96, 5, 3, 520, FXI_Q8_0, 3, 0, 0, false, 0, 64},
                                   {22, 3, 4, 270, FXI_F32, 1, 40, 2, true, 0, 13}};
    for (size_t i = 0; i < sizeof setups / sizeof setups[0]; i++) {
        const setup *s = &setups[i];
        cache c = cache_make(s, (layout)(i % N_LAYOUT), EVEN);
        float *q = random_floats(n_number(s), EVEN, 3), *out = floats(n_result(s));
        for (size_t k = 0; k < n_number(s); k++) q[k] *= 4;
        attend(ref_path(), s, &c, q, 0, s->n_tok, 1, out);
        assert_near(s, &c, q, out);
        guarded_free(q), guarded_free(out), cache_free(&c);
    }
}

// All paths: with one call per KV head; then with all heads in a call, split into single tokens,
// into uneven numbers of tokens, and into ranges of segments.
static void same_bits(const setup *s, layout how, spread sp)
{
    cache c = cache_make(s, how, sp);
    const size_t n = n_result(s);
    float *q = random_floats(n_number(s), sp == WIDE ? EVEN : sp, 4), *want = floats(n),
          *out = floats(n);
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
    guarded_free(q), guarded_free(want), guarded_free(out), cache_free(&c);
}

static const fxi_dtype types[] = {FXI_F16, FXI_Q8_0, FXI_F32, FXI_BF16};

static const int head_dims[] = {1, 6, 8, 10, 16, 20, 24, 32, 64, 80, 96, 112, 128, 160, 192, 256};
enum { N_HEAD_DIM = sizeof head_dims / sizeof head_dims[0] };

// Every head size and group size, each with other token counts and positions.
FX_TEST(test_paths_have_refs_bits)
{
    static const int pos[] = {0, 7, 15, 16, 40, 250, 310};
    int i = 0;
    for (int h = 0; h < N_HEAD_DIM; h++)
        for (int group = 1; group <= 8; group += 1 + group / 2, i++) {
            setup s = {head_dims[h], group, 1 + i * 7 % 13, pos[i % 7], types[i % 4], 2, PLAIN};
            if (s.head_dim % 32 && s.type == FXI_Q8_0) s.type = FXI_F16;
            if (suite_takes((size_t)i, 2))
                same_bits(&s, (layout)(i % N_LAYOUT), (spread)(i % N_SPREAD));
        }
}

FX_TEST(test_around_borders)
{
    static const int pos[] = {0,   1,   14,  15,  16,  17,  31,  240, 247, 248, 249, 254,
                              255, 256, 257, 270, 272, 503, 511, 512, 513, 760, 767, 768};
    for (size_t i = 0; i < sizeof pos / sizeof pos[0]; i++)
        for (int n_tok = 1; n_tok <= 9; n_tok += 4) {
            setup s = {i % 2 ? 24 : 64, 1 + n_tok % 2, n_tok, pos[i], FXI_F16, 2, PLAIN};
            if (!suite_takes(i + (size_t)n_tok / 4, 3)) continue; // each position once
            same_bits(&s, i % 3 ? SPLIT : PAGED_16, (spread)(i % N_SPREAD));
        }
}

// Every type in every layout: a layout changes nothing but addresses.
FX_TEST(test_layouts_have_the_same_bits)
{
    for (int i = 0; i < 4; i++) {
        setup s = {64, 3, 3, 300, types[i], 2, PLAIN};
        size_t n = n_number(&s);
        float *q = random_floats(n, EVEN, 4), *want = floats(n), *out = floats(n);
        for (int how = 0; how < N_LAYOUT; how++) {
            cache c = cache_make(&s, (layout)how, EVEN);
            attend(fxi_kernels_get(NULL), &s, &c, q, 0, s.n_tok, 2, how ? out : want);
            if (how) assert_same("layout", out, want, n);
            same_bits(&s, (layout)how, EVEN);
            cache_free(&c);
        }
        guarded_free_all(q, want, out);
    }
}

// Windows that end within, at and next to segments and panels, some wider than the sequence.
FX_TEST(test_windows)
{
    static const int windows[] = {1, 2, 15, 16, 17, 63, 100, 255, 256, 257, 300, 512, 600, 5000};
    static const int pos[] = {0, 14, 100, 254, 255, 300, 511, 512, 777, 1030};
    static const int dims[] = {64, 24, 80, 128};
    for (int i = 0; i < 14; i++)
        for (int k = 0; k < 10; k++) {
            int at = i * 10 + k;
            setup s = {dims[at % 4], 1 + at % 3, 1 + at * 5 % 32, pos[k], types[at % 4],
                       1 + at % 3,   PLAIN};
            s.window = windows[i];
            if (s.head_dim % 32 && s.type == FXI_Q8_0) s.type = FXI_F16;
            if (!suite_takes((size_t)(i + k), 5)) continue;
            same_bits(&s, (layout)(at % N_LAYOUT), (spread)(at % N_SPREAD));
        }
}

// Caps, sinks, windows and attention to later positions, alone and together.
FX_TEST(test_kinds_of_attention)
{
    static const int pos[] = {0, 9, 250, 530};
    for (int i = 0; i < 64; i++) {
        setup s = {i % 3 ? 64 : 112, 1 + i % 4, 1 + i * 7 % 19, pos[i / 16],
                   types[i % 4],     2,         PLAIN};
        if (s.head_dim % 32 && s.type == FXI_Q8_0) s.type = FXI_BF16;
        if (i & 1) s.softcap = i & 4 ? 0.5f : 50;
        if (i & 2) s.sinks = true;
        if (i & 4) s.window = 20 + 60 * (i / 8);
        if (i & 8) s.n_after = 1 + 37 * (i % 11);
        if (!suite_takes((size_t)(i - i / 16), 4)) continue; // every kind, at one position
        same_bits(&s, (layout)(i % N_LAYOUT), (spread)(i / 2 % N_SPREAD));
    }
}

// A cap that no score comes near, a window as wide as the sequence and a sink far below all scores
// change less than rounding does; a narrow window or a high sink changes much.
static float farthest(const setup *s, const setup *other)
{
    cache c = cache_make(s, SPLIT, EVEN);
    size_t n = n_number(s);
    float *q = random_floats(n, EVEN, 4), *a = floats(n), *b = floats(n), most = 0;
    attend(fxi_kernels_get(NULL), s, &c, q, 0, s->n_tok, 1, a);
    attend(fxi_kernels_get(NULL), other, &c, q, 0, s->n_tok, 1, b);
    for (size_t i = 0; i < n; i++) most = fmaxf(most, fabsf(a[i] - b[i]));
    guarded_free(q), guarded_free(a), guarded_free(b), cache_free(&c);
    return most;
}

FX_TEST(test_extras_that_change_nothing)
{
    const setup s = {64, 1, 3, 500, FXI_F32, 1, PLAIN};
    setup other = s;
    other.window = 503;
    assert_true(farthest(&s, &other) == 0);
    other.window = 400;
    assert_true(farthest(&s, &other) > 1e-3f);
    other = s, other.softcap = 1e5f;
    assert_true(farthest(&s, &other) < 1e-6f);
    other.softcap = 0.1f;
    assert_true(farthest(&s, &other) > 1e-3f);
    other = s, other.sinks = true;
    assert_true(farthest(&s, &other) > 1e-5f);
    other = s, other.n_after = 1;
    assert_true(farthest(&s, &other) > 1e-5f);
}

// Positions that no token of a call attends to are never touched: their pages are not readable.
FX_TEST(test_window_needs_no_cache_before_it)
{
    setup s = {64, 2, 3, 1000, FXI_F16, 2, 300, 0, false, 0, 0};
    const size_t row = row_bytes(&s), n_pos = 1008, plane = n_pos * row, size = N_PLANE * plane;
    const int n_absent = (1000 - 299) / 16 * 16; // whole pages of 4096 bytes
    cache c = {.mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)};
    assert_ptr_not_equal(c.mem, MAP_FAILED);
    c.view = (fxi_kv_view){.base = c.mem, .plane_stride_bytes = plane, .tok_stride_bytes = row};
    cache_fill(&s, &c, EVEN);
    for (size_t p = 0; p < N_PLANE; p++)
        assert_int_equal(mprotect(c.mem + p * plane, (size_t)n_absent * row, PROT_NONE), 0);
    size_t n = n_number(&s);
    float *q = random_floats(n, EVEN, 4), *want = floats(n), *out = floats(n);
    attend(ref_path(), &s, &c, q, 0, s.n_tok, 1, want);
    const fxi_kernels *k;
    for (int i = 0; (k = fast_path(i)); i++) {
        attend(k, &s, &c, q, 0, s.n_tok, 2, out);
        assert_same(k->name, out, want, n);
        attend_in_parts(k, &s, &c, q, 1, out);
        assert_same(k->name, out, want, n);
    }
    guarded_free(q), guarded_free(want), guarded_free(out), munmap(c.mem, size);
}

FX_TEST(test_first_position)
{
    for (int pos = 0; pos < 1100; pos += 7)
        for (int window = 0; window < 1100; window += window < 4 ? 1 : 13)
            assert_int_equal(fxi_attn_first(pos, window),
                             window && window <= pos ? pos - (window - 1) : 0);
    assert_int_equal(fxi_attn_first(INT32_MAX - 1, INT32_MAX), 0);
}

// Latent attention: many heads read one row, whose first numbers are the value too. Sizes of
// published models, and odd ones; few rows of 16 bits are read in place.
FX_TEST(test_latent_rows)
{
    static const struct {
        int head_dim, v_dim;
    } dims[] = {{576, 512}, {96, 64}, {48, 32}, {40, 24}, {22, 13}, {80, 80}};
    static const int groups[] = {1, 5, 16, 20, 128}, pos[] = {0, 15, 250, 530};
    for (int i = 0; i < 120; i++) {
        const int group = groups[i / 6 % 5];
        setup s = {dims[i % 6].head_dim,
                   group,
                   1 + (i % 4) * (group > 20 ? 1 : 5),
                   pos[i / 30],
                   types[i * 7 % 4],
                   1,
                   PLAIN};
        s.v_dim = dims[i % 6].v_dim;
        if ((s.head_dim % 32 || s.v_dim % 32) && s.type == FXI_Q8_0) s.type = FXI_BF16;
        if (i % 8 == 3) s.window = 20 + i;
        if (i % 8 == 5) s.softcap = 3;
        if (i % 3 == 1) s.n_kv_head = 2;   // heads that are divided: both read the same row
        if (group > 20 && i % 4) continue; // ref takes long
        if (suite_takes((size_t)(i + i / 30), 4))
            same_bits(&s, (layout)(i % N_LAYOUT), (spread)(i % N_SPREAD));
    }
}

// The most tokens of a call, across a segment's border.
FX_TEST(test_most_tokens)
{
    for (int group = 1; group <= 8; group *= 8) {
        setup s = {32, group, FXI_ATTN_MAX_TOK, 240, FXI_F16, 2, PLAIN};
        same_bits(&s, SPLIT, EVEN);
    }
}

// Rows of many heads, which are prefetched in smaller and smaller blocks: prefetching must end
// where the cache does, and the list of lines must fit the scratch.
FX_TEST(test_wide_rows)
{
    static const setup setups[] = {
        {128, 1, 1, 800, FXI_F16, 32, PLAIN},  {128, 1, 1, 600, FXI_F32, 32, PLAIN},
        {96, 1, 2, 530, FXI_BF16, 16, PLAIN},  {64, 2, 1, 700, FXI_Q8_0, 31, PLAIN},
        {80, 1, 1, 513, FXI_F16, 9, PLAIN},    {24, 3, 3, 510, FXI_F32, 7, PLAIN},
        {256, 2, 1, 1100, FXI_BF16, 8, PLAIN}, {32, 5, 1, 900, FXI_F16, 24, PLAIN}};
    for (size_t i = 0; i < sizeof setups / sizeof setups[0]; i++)
        for (size_t how = 0; how < N_LAYOUT; how += 2)
            if (suite_takes(how / 2 + i, 3)) same_bits(&setups[i], (layout)how, EVEN);
}

// Scores that rise from segment to segment, so far apart that most weights vanish.
FX_TEST(test_steep_scores)
{
    setup s = {32, 2, 4, 700, FXI_F16, 2, PLAIN};
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
    guarded_free(q), guarded_free(want), guarded_free(out), cache_free(&c);
}

FX_RUN(test_attention)
