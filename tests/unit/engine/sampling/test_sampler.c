// test_sampler.c - the rules and the sampler against a simple, slow reference on random requests;
// and one example by hand for each rule, which fails if the rule is dropped or moved.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "base/number/rng.h"
#include "unit/engine/sampling/sampler_ref.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

// ---- scratch -----------------------------------------------------------------------------------

static float scratch_logit[REF_MAX_VOCAB];
static fxi_candidate scratch_cand[REF_MAX_VOCAB];
static int32_t scratch_count[REF_MAX_VOCAB];
enum { MAX_TOK = 1 << 14 };
static int32_t scratch_repeat[MAX_TOK];
static fxi_sample_scratch scratch = {.logit = scratch_logit,
                                     .cand = scratch_cand,
                                     .count = scratch_count,
                                     .repeat = scratch_repeat,
                                     .max_tok = MAX_TOK};

// The rules; they must leave the scratch and the row as they were.
static const float *apply(const fxi_sample_view *v, const float *logits, int n_vocab)
{
    static float before[REF_MAX_VOCAB];
    static const int32_t zero[REF_MAX_VOCAB];
    memcpy(before, logits, (size_t)n_vocab * sizeof *before);
    const float *ruled = fxi_rules_apply(v, logits, n_vocab, &scratch);
    assert_memory_equal(before, logits, (size_t)n_vocab * sizeof *before);
    assert_memory_equal(scratch_count, zero, (size_t)n_vocab * sizeof *zero);
    return ruled;
}

// ---- each rule by hand -------------------------------------------------------------------------

#define V   6
#define OUT -INFINITY

static const float row[V] = {1, 2, -3, 0.5f, 4, -1};
static const int32_t text[] = {0, 2, 4, 1, 1, 5}; // the prompt is 0 2 4
#define N_PROMPT 3
static const int32_t ends[] = {4, 5};

#define IDS(what, ...) \
    .what = (const int32_t[]){__VA_ARGS__}, .n_##what = COUNT(((const int32_t[]){__VA_ARGS__}))
#define BIAS(...) \
    .bias = (const fx_bias[]){__VA_ARGS__}, .n_bias = COUNT(((const fx_bias[]){__VA_ARGS__}))

#define DRY(multiplier, base, allowed)                                             \
    .dry_multiplier = multiplier, .dry_base = base, .dry_allowed_length = allowed, \
    .dry_last_tok = -1

typedef struct rule_case {
    const char *what;
    int n_tok;
    fx_sampling rule;
    float want[V];
} rule_case;

static const rule_case rule_cases[] = {
    {"allow", 6, {IDS(allow, 4, 0, 4)}, {1, OUT, OUT, OUT, 4, OUT}},
    {"ban", 6, {IDS(ban, 4, 0, 4)}, {OUT, 2, -3, 0.5f, OUT, -1}},
    {"ban beats allow", 6, {IDS(allow, 4, 0), IDS(ban, 4)}, {1, OUT, OUT, OUT, OUT, OUT}},
    {"bias", 6, {BIAS({2, 5}, {4, -1.5f})}, {1, 2, 2, 0.5f, 2.5f, -1}},
    {"biases add up", 6, {BIAS({2, 5}, {0, 1}, {2, 0.25f})}, {2, 2, 2.25f, 0.5f, 4, -1}},
    {"bias does not revive what is banned",
     6,
     {IDS(ban, 2), BIAS({2, FLT_MAX})},
     {1, 2, OUT, 0.5f, 4, -1}},
    {"bias does not revive what is not allowed",
     6,
     {IDS(allow, 1), BIAS({2, 100})},
     {OUT, 2, OUT, OUT, OUT, OUT}},
    {"biases stop at the largest float",
     6,
     {BIAS({1, FLT_MAX}, {1, FLT_MAX}, {2, -FLT_MAX}, {2, -FLT_MAX})},
     {1, FLT_MAX, -FLT_MAX, 0.5f, 4, -1}},
    {"min_tok: two of three are there", 5, {.min_tok = 3}, {1, 2, -3, 0.5f, OUT, OUT}},
    {"min_tok: none is there", 3, {.min_tok = 1}, {1, 2, -3, 0.5f, OUT, OUT}},
    {"bias does not revive an end", 5, {.min_tok = 3, BIAS({4, 9})}, {1, 2, -3, 0.5f, OUT, OUT}},
    {"repetition: prompt and answer, once", 6, {.repetition_penalty = 2}, {.5f, 1, -6, .5f, 2, -2}},
    {"repetition below 1", 6, {.repetition_penalty = 0.5f}, {2, 4, -1.5f, 0.5f, 8, -0.5f}},
    {"repetition: the prompt alone", 3, {.repetition_penalty = 2}, {.5f, 2, -6, .5f, 2, -1}},
    {"repetition after bias: its sign counts",
     6,
     {.repetition_penalty = 2, BIAS({2, 5}, {1, -3})},
     {0.5f, -2, 1, 0.5f, 2, -2}},
    {"repetition leaves what is masked",
     6,
     {.repetition_penalty = 0.5f, IDS(ban, 2)},
     {2, 4, OUT, 0.5f, 8, -0.5f}},
    {"repetition stops at the largest float",
     6,
     {.repetition_penalty = 1e-39f},
     {FLT_MAX, FLT_MAX, -3 * 1e-39f, 0.5f, FLT_MAX, -1e-39f}},
    {"presence: of the answer, once", 6, {.presence_penalty = 0.5f}, {1, 1.5f, -3, .5f, 4, -1.5f}},
    {"presence below 0", 6, {.presence_penalty = -0.5f}, {1, 2.5f, -3, 0.5f, 4, -0.5f}},
    {"frequency: each time", 6, {.frequency_penalty = 0.5f}, {1, 1, -3, 0.5f, 4, -1.5f}},
    {"frequency below 0", 6, {.frequency_penalty = -2}, {1, 6, -3, 0.5f, 4, 1}},
    {"presence and frequency",
     6,
     {.presence_penalty = 0.25f, .frequency_penalty = 0.5f},
     {1, 0.75f, -3, 0.5f, 4, -1.75f}},
    {"repetition before presence and frequency",
     6,
     {.repetition_penalty = 2, .presence_penalty = 1, .frequency_penalty = 1},
     {0.5f, -2, -6, 0.5f, 2, -4}},
    // Of 0 2 4 1 1 the last token has stood before itself.
    {"dry: one token was repeated", 5, {DRY(1, 2, 1)}, {1, 1, -3, 0.5f, 4, -1}},
    {"dry: its power", 5, {DRY(1, 2, 0)}, {1, 0, -4, 0.5f, 3, -1}},
    {"dry: too short", 5, {DRY(1, 2, 2)}, {1, 2, -3, 0.5f, 4, -1}},
    {"dry: after the penalties",
     5,
     {DRY(1, 2, 1), .repetition_penalty = 2},
     {0.5f, 0, -6, 0.5f, 2, -1}},
    {"dry leaves what is masked", 5, {DRY(1, 2, 1), IDS(ban, 1)}, {1, OUT, -3, 0.5f, 4, -1}},
    {"dry: the last tokens",
     5,
     {.dry_multiplier = 1, .dry_base = 2, .dry_last_tok = 2},
     {1, 0, -3, 0.5f, 4, -1}},
    {"dry stops at the largest float",
     5,
     {DRY(3e38f, 3e38f, 0)},
     {1, -FLT_MAX, -3e38f, 0.5f, -3e38f, -1}},
    {"penalties leave what is masked",
     5,
     {.presence_penalty = -2, .frequency_penalty = -2, IDS(ban, 1)},
     {1, OUT, -3, 0.5f, 4, -1}},
};

static fxi_sample_view view_of(const fx_sampling *rule, int n_tok)
{
    return (fxi_sample_view){.rule = rule,
                             .tok = text,
                             .n_prompt = N_PROMPT,
                             .n_tok = n_tok,
                             .end = ends,
                             .n_end = COUNT(ends)};
}

FX_TEST(test_each_rule)
{
    for (size_t i = 0; i < COUNT(rule_cases); i++) {
        const rule_case *c = &rule_cases[i];
        const fxi_sample_view v = view_of(&c->rule, c->n_tok);
        const float *got = apply(&v, row, V);
        assert_ptr_equal(got, scratch_logit);
        for (int k = 0; k < V; k++)
            if (got[k] != c->want[k])
                fail_msg("%s: token %d is %g, not %g", c->what, k, (double)got[k],
                         (double)c->want[k]);
    }
}

typedef struct idle_case {
    int n_tok;
    fx_sampling rule;
} idle_case;

static const idle_case idle_cases[] = {
    {6, {.temperature = 1, .top_p = 0.5f, .top_k = 3, .min_p = 0.1f, .typical_p = 0.5f}},
    {6, {.repetition_penalty = 1}},
    {6, {.min_tok = 3}},                                  // the answer has three
    {3, {.presence_penalty = 1, .frequency_penalty = 1}}, // there is no answer yet
    {6, {.dry_base = 2, .dry_last_tok = -1}},
    {6, {.dry_multiplier = 1, .dry_base = 0.5f, .dry_last_tok = -1}},
    {6, {.dry_multiplier = 1, .dry_base = 2}}, // it looks at no token
    {6, {.dry_multiplier = 1, .dry_base = 2, .dry_last_tok = -1, .dry_allowed_length = 6}},
};

FX_TEST(test_row_itself_where_no_rule_applies)
{
    for (size_t i = 0; i < COUNT(idle_cases); i++) {
        const fxi_sample_view v = view_of(&idle_cases[i].rule, idle_cases[i].n_tok);
        assert_ptr_equal(apply(&v, row, V), row);
    }
    const fx_sampling long_answer = {.min_tok = 9};
    const fxi_sample_view no_end = {
        .rule = &long_answer, .tok = text, .n_prompt = N_PROMPT, .n_tok = 6};
    assert_ptr_equal(apply(&no_end, row, V), row);
}

static const fx_sampling nothing_left[] = {
    {IDS(ban, 0, 1, 2, 3, 4, 5)},
    {IDS(allow, 1, 2), IDS(ban, 2, 1)},
    {IDS(allow, 4, 5), .min_tok = 4, BIAS({4, 5}), .repetition_penalty = 0.5f},
};

FX_TEST(test_null_where_nothing_is_left)
{
    for (size_t i = 0; i < COUNT(nothing_left); i++) {
        const fxi_sample_view v = view_of(&nothing_left[i], 6);
        assert_null(apply(&v, row, V));
    }
    const float no_numbers[V] = {OUT, NAN, NAN, NAN, OUT, NAN};
    const fx_sampling ban_one = {IDS(ban, 1)};
    const fxi_sample_view v = view_of(&ban_one, 6);
    assert_null(apply(&v, no_numbers, V));
}

// ---- what may be drawn, by hand ----------------------------------------------------------------

typedef struct kept_case {
    const char *what;
    fx_sampling rule;
    int n;
    int32_t order[4]; // [n] drawn from in this order
    double share[4];  // [n] cumulative
} kept_case;

// Entropies in bits: of all four tokens 1.75, so that their distances to it are, in the order of
// ids, 1.25, 0.75, 1.25, 0.25; of the first two 0.918, so that theirs are 0.333 and 0.667.
static const kept_case kept_cases[] = {
    {"ids ascending", {.top_p = 1}, 4, {0, 1, 2, 3}, {0.125, 0.625, 0.75, 1}},
    {"top_k, ties to the lower id", {.top_p = 1, .top_k = 3}, 3, {1, 3, 0}, {4 / 7., 6 / 7., 1}},
    {"top_p reaches its share", {.top_p = 0.7f}, 2, {1, 3}, {2 / 3., 1}},
    {"top_p keeps one at least", {.top_p = 1e-6f}, 1, {1}, {1}},
    {"min_p", {.top_p = 1, .min_p = 0.4f}, 2, {1, 3}, {2 / 3., 1}},
    {"temperature before min_p",
     {.temperature = 4, .top_p = 1, .min_p = 0.8f},
     2,
     {1, 3},
     {0.54321, 1}},
    {"top_k before top_p", {.top_k = 2, .top_p = 0.6f}, 1, {1}, {1}},
    {"min_p before top_p", {.min_p = 0.4f, .top_p = 0.6f}, 1, {1}, {1}},
    {"typical_p: the nearest to the entropy", {.top_p = 1, .typical_p = 0.2f}, 1, {3}, {1}},
    {"typical_p: its order", {.top_p = 1, .typical_p = 0.3f}, 2, {3, 1}, {1 / 3., 1}},
    {"typical_p: reaches its share", {.top_p = 1, .typical_p = 0.7f}, 2, {3, 1}, {1 / 3., 1}},
    {"typical_p: ties to the lower id",
     {.top_p = 1, .typical_p = 0.8f},
     3,
     {3, 1, 0},
     {2 / 7., 6 / 7., 1}},
    {"typical_p 1 is off", {.top_p = 1, .typical_p = 1}, 4, {0, 1, 2, 3}, {.125, .625, .75, 1}},
    {"top_k before typical_p", {.top_p = 1, .top_k = 2, .typical_p = 0.3f}, 1, {1}, {1}},
    {"top_p before typical_p", {.top_p = 0.7f, .typical_p = 0.3f}, 1, {1}, {1}},
    {"min_p before typical_p", {.top_p = 1, .min_p = 0.4f, .typical_p = 0.3f}, 1, {1}, {1}},
    {"top_p before temperature",
     {.temperature = 4, .top_p = 0.7f, .cut_first = true},
     2,
     {1, 3},
     {0.54321, 1}},
    {"temperature before top_p", {.temperature = 4, .top_p = 0.5f}, 2, {1, 3}, {0.54321, 1}},
    {"top_p before temperature keeps one",
     {.temperature = 4, .top_p = 0.5f, .cut_first = true},
     1,
     {1},
     {1}},
    {"min_p before temperature",
     {.temperature = 4, .top_p = 1, .min_p = 0.8f, .cut_first = true},
     1,
     {1},
     {1}},
    {"typical_p before temperature",
     {.temperature = 0.5f, .top_p = 1, .typical_p = 0.2f, .cut_first = true},
     1,
     {3},
     {1}},
    {"temperature before typical_p",
     {.temperature = 0.5f, .top_p = 1, .typical_p = 0.3f},
     1,
     {1},
     {1}},
};

// The token drawn with the random number `unit`; -1: too close to a boundary to decide.
static int32_t expected(const kept_case *c, double unit)
{
    int i = 0;
    while (i < c->n - 1 && c->share[i] <= unit) i++;
    for (int k = 0; k < c->n - 1; k++)
        if (fabs(c->share[k] - unit) < 1e-4) return -1;
    return c->order[i];
}

FX_TEST(test_what_may_be_drawn)
{
    float logits[4];
    // Logits whose softmax at temperature 1 is 1/2, 1/4, 1/8, 1/8 for the tokens 1, 3, 0, 2.
    const double p[4] = {0.125, 0.5, 0.125, 0.25};
    for (int i = 0; i < 4; i++) logits[i] = (float)log(p[i]);
    for (size_t i = 0; i < COUNT(kept_cases); i++) {
        const kept_case *c = &kept_cases[i];
        fx_sampling s = c->rule;
        if (s.temperature == 0) s.temperature = 1;
        for (int pos = 0; pos < 200; pos++) {
            const int32_t want = expected(c, fxi_rng_unit(s.seed, 2, (uint64_t)pos));
            const int32_t got = fxi_sampler_draw(&s, logits, 4, 2, pos, scratch_cand);
            if (want >= 0 && got != want) fail_msg("%s: %d, not %d", c->what, got, want);
        }
    }
}

// Equal weights, whose sums are exact: a half is exactly a half. A tie with the likeliest is as
// likely.
FX_TEST(test_one_of_two_by_halves)
{
    static const struct {
        fx_sampling rule;
        float logits[4];
        int32_t second; // the other one is token 0
    } rows[] = {
        {{.temperature = 1, .top_p = 0.5f}, {3, 3, 3, 3}, 1},
        {{.temperature = 1, .top_p = 1, .typical_p = 0.5f}, {3, 3, 3, 3}, 1},
        {{.temperature = 1, .top_p = 1, .min_p = 1}, {3, 1, 2.99f, 3}, 3},
        {{.temperature = 1, .top_p = 1, .min_p = 1, .top_k = 3}, {3, 1, 2.99f, 3}, 3},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        for (int pos = 0; pos < 100; pos++) {
            const int32_t want = fxi_rng_unit(0, 0, (uint64_t)pos) < 0.5 ? 0 : rows[i].second;
            const int32_t got =
                fxi_sampler_draw(&rows[i].rule, rows[i].logits, 4, 0, pos, scratch_cand);
            assert_int_equal(got, want);
        }
}

// ---- special rows ------------------------------------------------------------------------------

#define N 200

static void fill(float *logits, uint64_t seed)
{
    for (int i = 0; i < N; i++) logits[i] = (float)(8 * fxi_rng_unit(seed, 7, (uint64_t)i));
    logits[17] = logits[90]; // a tie
}

static int32_t sample(const fx_sampling *s, const float *logits, int position)
{
    return fxi_sampler_draw(s, logits, N, 0, position, scratch_cand);
}

FX_TEST(test_greedy_ties_to_lowest)
{
    float logits[N] = {0};
    const fx_sampling greedy = {.temperature = 0, .top_p = 1};
    assert_int_equal(sample(&greedy, logits, 0), 0);
    logits[60] = logits[30] = 2;
    assert_int_equal(sample(&greedy, logits, 5), 30);
}

FX_TEST(test_draw_depends_on_its_key_alone)
{
    float logits[N];
    fill(logits, 1);
    fx_sampling s = {.temperature = 1, .top_p = 1, .seed = 42};
    int32_t first = fxi_sampler_draw(&s, logits, N, 3, 17, scratch_cand);
    (void)fxi_sampler_draw(&s, logits, N, 0, 1, scratch_cand);
    assert_int_equal(fxi_sampler_draw(&s, logits, N, 3, 17, scratch_cand), first);
    int differ = 0;
    for (int i = 0; i < 50; i++) {
        int32_t here = fxi_sampler_draw(&s, logits, N, 0, i, scratch_cand);
        differ += here != fxi_sampler_draw(&s, logits, N, 1, i, scratch_cand);
    }
    assert_true(differ > 25); // each choice has its own stream
}

// Every way of drawing.
static const fx_sampling ways[] = {
    {.temperature = 0, .top_p = 1},
    {.temperature = 1, .top_p = 1},
    {.temperature = 1, .top_p = 0.5f, .top_k = 3},
    {.temperature = 1, .top_p = 1, .typical_p = 0.5f},
};

FX_TEST(test_no_finite_logit)
{
    static const float fills[] = {NAN, -INFINITY, INFINITY};
    float logits[N];
    for (size_t w = 0; w < COUNT(ways); w++) {
        for (size_t f = 0; f < COUNT(fills); f++) {
            for (int i = 0; i < N; i++) logits[i] = fills[f];
            assert_int_equal(sample(&ways[w], logits, 0), 0);
        }
        logits[3] = NAN;
        for (int i = 0; i < 3; i++) logits[i] = -INFINITY;
        assert_int_equal(sample(&ways[w], logits, 0), 4); // the first +inf
    }
}

FX_TEST(test_no_number_is_never_drawn)
{
    float logits[N];
    for (int i = 0; i < N; i++) logits[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? -INFINITY : 1;
    for (size_t w = 0; w < COUNT(ways); w++)
        for (int pos = 0; pos < 100; pos++) assert_int_equal(sample(&ways[w], logits, pos) % 3, 2);
}

// ---- frequencies -------------------------------------------------------------------------------

static const fx_sampling spreads[] = {
    {.temperature = 1, .top_p = 1},
    {.temperature = 0.5f, .top_p = 1, .top_k = 5},
    {.temperature = 1.5f, .top_p = 0.5f},
    {.temperature = 1, .top_p = 0.9f, .top_k = 40},
    {.temperature = 1, .top_p = 1, .min_p = 0.3f},
    {.temperature = 2, .top_p = 0.7f, .top_k = 20, .min_p = 0.05f},
    {.temperature = 1, .top_p = 0.001f},
    {.temperature = 1, .top_p = 1, .top_k = 1},
    {.temperature = 1, .top_p = 1, .typical_p = 0.4f},
    {.temperature = 2, .top_p = 0.9f, .typical_p = 0.8f},
};

// Every draw is allowed by the rules, and frequencies match the probabilities.
static void check_frequencies(const fx_sampling *rule, uint64_t seed)
{
    enum { DRAWS = 4000 };
    static ref_item it[REF_MAX_VOCAB];
    float logits[N];
    int count[N] = {0};
    fx_sampling s = *rule;
    s.seed = seed;
    fill(logits, seed);
    const int kept = ref_kept(&s, logits, N, it);
    double mass = 0;
    for (int i = 0; i < kept; i++) mass += it[i].weight;
    for (int i = 0; i < DRAWS; i++) count[sample(&s, logits, i)]++;
    int seen = 0;
    for (int i = 0; i < kept; i++) {
        double want = DRAWS * it[i].weight / mass;
        assert_true(fabs(count[it[i].id] - want) <= 6 * sqrt(want) + 3);
        seen += count[it[i].id];
    }
    assert_int_equal(seen, DRAWS);
}

FX_TEST(test_frequencies)
{
    for (size_t i = 0; i < COUNT(spreads); i++)
        for (uint64_t seed = 1; seed <= 2; seed++) check_frequencies(&spreads[i], seed);
}

// ---- random requests ---------------------------------------------------------------------------

#define N_CASE   12000
#define LONG_ROW 6000
#define MAX_LIST 12
#define MAX_TEXT 60

// The random numbers of one case.
typedef struct dice {
    uint64_t stream, index;
} dice;

static double unit(dice *d)
{
    return fxi_rng_unit(2026, d->stream, d->index++);
}

static int below(dice *d, int n)
{
    return (int)(unit(d) * n);
}

static float between(dice *d, double low, double high)
{
    return (float)(low + (high - low) * unit(d));
}

static bool one_in(dice *d, int n)
{
    return below(d, n) == 0;
}

typedef struct random_case {
    int n_vocab, choice;
    float logits[LONG_ROW];
    fx_sampling rule;
    fx_bias bias[MAX_LIST];
    int32_t allow[MAX_LIST], ban[MAX_LIST], end[MAX_LIST], tok[MAX_TEXT];
    uint64_t allowed[LONG_ROW / 64 + 1];
    fxi_sample_view view;
} random_case;

// The logits of one row: their spread, and what they are rounded to.
typedef struct row_kind {
    double spread, step; // step 0: not rounded
} row_kind;

static const row_kind row_kinds[] = {
    {4, 0},         {20, 0},   {4, 1}, {20, 1}, // few values, ties
    {0, 0},         {1e-2, 0},                  // all ties; all next to each other
    {0.4, 1. / 64},                             // many ties
    {500, 0},       {2000, 0},                  // nearly all weigh nothing
    {2, 2},                                     // three values
};

static float draw_logit(dice *d, const row_kind *k)
{
    const float x = 3 + between(d, -k->spread, k->spread);
    return k->step > 0 ? (float)(round((double)x / k->step) * k->step) : x;
}

// Some rows have one logit far above the rest, or one far below; some logits are -inf or NaN.
static void make_row(dice *d, random_case *c)
{
    const row_kind *k = &row_kinds[below(d, COUNT(row_kinds))];
    const int n_hole = one_in(d, 4) ? 1 + below(d, c->n_vocab) : 0;
    for (int i = 0; i < c->n_vocab; i++) c->logits[i] = draw_logit(d, k);
    if (one_in(d, 30)) c->logits[below(d, c->n_vocab)] = one_in(d, 2) ? 1e30f : 30;
    if (one_in(d, 10)) c->logits[below(d, c->n_vocab)] = one_in(d, 2) ? -1e30f : -30;
    for (int i = 0; i < n_hole; i++)
        c->logits[below(d, c->n_vocab)] = one_in(d, 2) ? NAN : -INFINITY;
}

// Mostly low ids, so that lists and text overlap.
static int32_t some_id(dice *d, int n_vocab)
{
    return one_in(d, 2) && n_vocab > 8 ? below(d, 8) : below(d, n_vocab);
}

static size_t make_ids(dice *d, int n_vocab, int max, int32_t *id)
{
    const size_t n = (size_t)below(d, max + 1);
    for (size_t i = 0; i < n; i++) id[i] = some_id(d, n_vocab);
    return n;
}

static const char *const breakers[] = {"\n", "ab", "bb", "b\na"};

static const char *text_of_id(const void *texts, int32_t id, size_t *n_bytes)
{
    static const char *const bytes[] = {"a", "b", "ab", "x\ny", "", "ba", "c", "long", "a\n"};
    const char *t = bytes[id % (int32_t)COUNT(bytes)];
    (void)texts;
    *n_bytes = strlen(t);
    return t;
}

static void make_dry(dice *d, fx_sampling *r)
{
    r->dry_multiplier = one_in(d, 3) ? between(d, 0, 2) : 0;
    r->dry_base = between(d, 0.9, 2);
    r->dry_allowed_length = below(d, 4);
    r->dry_last_tok = one_in(d, 2) ? -1 : below(d, MAX_TEXT + 10);
    r->dry_breaker = breakers;
    r->n_dry_breaker = (size_t)below(d, COUNT(breakers) + 1);
}

static void make_rule(dice *d, random_case *c)
{
    fx_sampling *r = &c->rule;
    *r = (fx_sampling){.seed = d->stream, .allow = c->allow, .ban = c->ban, .bias = c->bias};
    r->temperature = one_in(d, 6) ? 0 : between(d, 0.05, 3);
    r->top_k = one_in(d, 3) ? 1 + below(d, one_in(d, 3) ? LONG_ROW / 2 : 50) : 0;
    r->top_p = one_in(d, 2) ? between(d, 0.01, 1) : 1;
    r->min_p = one_in(d, 4) ? between(d, 0, 0.5) : 0;
    r->typical_p = one_in(d, 2) ? between(d, 0.01, 1) : 0;
    r->repetition_penalty = one_in(d, 3) ? between(d, 0.5, 2) : (float)below(d, 2);
    r->presence_penalty = one_in(d, 3) ? between(d, -2, 2) : 0;
    r->frequency_penalty = one_in(d, 3) ? between(d, -2, 2) : 0;
    r->n_allow = one_in(d, 4) ? make_ids(d, c->n_vocab, MAX_LIST, c->allow) : 0;
    r->n_ban = one_in(d, 3) ? make_ids(d, c->n_vocab, MAX_LIST, c->ban) : 0;
    r->n_bias = one_in(d, 3) ? (size_t)below(d, MAX_LIST + 1) : 0;
    for (size_t i = 0; i < r->n_bias; i++)
        c->bias[i] = (fx_bias){some_id(d, c->n_vocab), between(d, -20, 20)};
    r->min_tok = one_in(d, 3) ? below(d, 40) : 0;
    make_dry(d, r);
    r->xtc_probability = one_in(d, 3) ? between(d, 0, 1) : 0;
    r->xtc_threshold = between(d, 0, one_in(d, 4) ? 1 : 0.2);
    r->cut_first = one_in(d, 4);
}

// All, none or half of the tokens of each word of the mask.
static const uint64_t *make_mask(dice *d, random_case *c)
{
    for (int i = 0; i <= c->n_vocab / 64; i++) {
        const int how = below(d, 3);
        const uint64_t half = fxi_rng_u64(d->stream, 99, (uint64_t)i);
        c->allowed[i] = how == 0 ? 0 : how == 1 ? UINT64_MAX : half;
    }
    return c->allowed;
}

static void make_case(random_case *c, uint64_t number)
{
    dice d = {.stream = number};
    c->n_vocab = (int)exp(log(LONG_ROW) * unit(&d)); // as many short rows as long ones
    if (one_in(&d, 100)) c->n_vocab = LONG_ROW;
    c->choice = below(&d, 64);
    make_row(&d, c);
    make_rule(&d, c);
    const int n_tok = (int)make_ids(&d, c->n_vocab, MAX_TEXT, c->tok);
    const int n_end = (int)make_ids(&d, c->n_vocab, 3, c->end);
    c->view = (fxi_sample_view){.rule = &c->rule,
                                .tok = c->tok,
                                .n_prompt = below(&d, n_tok + 1),
                                .n_tok = n_tok,
                                .end = c->end,
                                .n_end = n_end,
                                .allowed = one_in(&d, 4) ? make_mask(&d, c) : NULL,
                                .text_of = one_in(&d, 4) ? NULL : text_of_id};
    if (one_in(&d, 4)) // a text that repeats itself
        for (int i = 3; i < n_tok; i++) c->tok[i] = c->tok[i - 3];
}

// The reference computes the powers of dry otherwise.
static bool same(float a, float b, bool has_dry)
{
    return a == b || (isnan(a) && isnan(b)) || (has_dry && fabsf(a - b) <= 1e-6f * (1 + fabsf(b)));
}

static void check_draw(const fx_sampling *p, const float *logits, int n_vocab, int choice,
                       int position)
{
    const int32_t got = fxi_sampler_draw(p, logits, n_vocab, choice, position, scratch_cand);
    const int32_t want = ref_sample(p, logits, n_vocab, choice, position);
    if (got != want)
        fail_msg("%d of %d, not %d: temperature %g, min_p %g, top_k %d, top_p %g, typical_p %g",
                 got, n_vocab, want, (double)p->temperature, (double)p->min_p, p->top_k,
                 (double)p->top_p, (double)p->typical_p);
}

// Returns what the rules returned.
static const float *check_case(const random_case *c)
{
    static float want[LONG_ROW];
    const bool left = ref_rules(&c->view, c->logits, c->n_vocab, want);
    const float *got = apply(&c->view, c->logits, c->n_vocab);
    if (!got) {
        assert_false(left);
        return NULL;
    }
    for (int i = 0; i < c->n_vocab; i++)
        if (!same(got[i], want[i], c->rule.dry_multiplier > 0))
            fail_msg("token %d: %g, not %g", i, (double)got[i], (double)want[i]);
    for (int i = 0; i < 3; i++) {
        const int position = c->view.n_tok + i;
        check_draw(&c->rule, got, c->n_vocab, c->choice, position);
    }
    return got;
}

FX_TEST(test_random_requests)
{
    static random_case c;
    int n_null = 0, n_itself = 0;
    const int n_case = suite_is_long() ? N_CASE : N_CASE / 8;
    for (uint64_t i = 0; i < (uint64_t)n_case; i++) {
        make_case(&c, i);
        const float *got = check_case(&c);
        n_null += got == NULL;
        n_itself += got == c.logits;
    }
    assert_in_range(n_null, n_case / 200, n_case / 4); // the cases are as intended
    assert_in_range(n_itself, n_case / 200, n_case / 4);
}

// ---- rows on the edges of the sampler's buckets and blocks --------------------------------------

static float long_row[REF_MAX_VOCAB];

// Every way of keeping and drawing; the temperature comes with the row.
static const fx_sampling ordered[] = {
    {.top_p = 1},
    {.top_p = 0.3f},
    {.top_p = 0.9f},
    {.top_p = 0.9999f},
    {.top_p = 1, .min_p = 0.2f},
    {.top_p = 1, .typical_p = 0.5f},
    {.top_p = 0.8f, .typical_p = 0.5f},
    {.top_p = 1, .top_k = 1},
    {.top_p = 0.9f, .top_k = 256},
    {.top_p = 0.9f, .top_k = 257},
    {.top_p = 1, .top_k = 299},
    {.top_p = 1, .top_k = 300},
    {.top_p = 1, .top_k = 301},
    {.top_p = 1, .top_k = 600},
    {.top_p = 1, .top_k = 1000000},
    {.top_p = 0.9f, .cut_first = true},
    {.top_p = 0.9f, .top_k = 300, .typical_p = 0.5f, .min_p = 0.1f, .cut_first = true},
};

static void check_ways(int n_vocab, float temperature, int n_position)
{
    for (size_t i = 0; i < COUNT(ordered); i++) {
        fx_sampling s = ordered[i];
        s.temperature = temperature;
        for (int pos = 0; pos < n_position; pos++) check_draw(&s, long_row, n_vocab, 1, pos);
    }
}

// Each logit is at the beginning of a bucket, or the float before or after.
FX_TEST(test_edges_of_buckets)
{
    enum { N_EDGE = 1025, N_ROW = 2 * N_EDGE };
    for (int side = -1; side <= 1; side++) {
        for (int i = 0; i < N_ROW; i++) {
            const float edge = (float)(i * 7 % N_EDGE) / -32;
            const float next = side < 0 ? -INFINITY : side > 0 ? INFINITY : edge;
            long_row[i] = edge == 0 || edge == -32 ? edge : nextafterf(edge, next);
        }
        check_ways(N_ROW, 1, 15);
        check_ways(N_ROW, 30, 15);
    }
}

// top_k ends at one of three levels, or one before or after. Each is almost certain to be drawn
// from.
FX_TEST(test_ends_of_levels)
{
    enum { N_ROW = 900 };
    for (int i = 0; i < N_ROW; i++) long_row[i] = (float)(i * 7 % 3);
    check_ways(N_ROW, 100, 60);
    for (int i = 0; i < N_ROW; i++) long_row[i] = 2 - (float)(i / 300);
    check_ways(N_ROW, 100, 60);
}

FX_TEST(test_sorted_rows)
{
    enum { N_ROW = 5000 };
    for (int up = 0; up < 2; up++) {
        for (int i = 0; i < N_ROW; i++) long_row[i] = (float)(up ? i : N_ROW - i) / 512;
        check_ways(N_ROW, 1, 8);
        check_ways(N_ROW, 50, 8);
    }
}

// An outlier does not hide the rest.
FX_TEST(test_rows_with_outliers)
{
    enum { N_ROW = 3000 };
    static const float above[] = {5, 1000, 1e30f, FLT_MAX};
    for (size_t a = 0; a < COUNT(above); a++)
        for (int i = 0; i < 2; i++) {
            for (int k = 0; k < N_ROW; k++) long_row[k] = (float)fxi_rng_unit(11, a, (uint64_t)k);
            long_row[7] = -FLT_MAX;
            long_row[8] = -INFINITY;
            long_row[9] = NAN;
            long_row[2000] = i == 0 ? 1 : above[a];
            check_ways(N_ROW, 1, 6);
            check_ways(N_ROW, 0.01f, 6);
        }
}

// The draw in the order of ids, which needs no sorted reference.
static void check_by_id(int n_vocab, float temperature, double min_p, int position)
{
    const fx_sampling s = {.temperature = temperature, .top_p = 1, .min_p = (float)min_p};
    const double unit = fxi_rng_unit(0, 0, (uint64_t)position);
    double sum[2] = {0, 0};
    int32_t want = -1;
    for (int iteration = 0; iteration < 2; iteration++)
        for (int32_t i = 0; i < n_vocab && want < 0; i++) {
            const double q = exp(((double)long_row[i] - 6) / (double)temperature);
            if (q >= (double)s.min_p) sum[iteration] += q;
            if (iteration == 1 && sum[1] > unit * sum[0]) want = i;
        }
    assert_int_equal(fxi_sampler_draw(&s, long_row, n_vocab, 0, position, scratch_cand), want);
}

// More tokens than the number of noted places times the size of a block.
FX_TEST(test_large_vocabularies)
{
    for (int n = REF_MAX_VOCAB; n > REF_MAX_VOCAB / 4; n = n / 2 + 1) {
        for (int i = 0; i < n; i++) {
            const double u = fxi_rng_unit(12, (uint64_t)n, (uint64_t)i);
            long_row[i] = (float)(6 * u * u * u);
        }
        long_row[n - 3] = 6;
        for (int pos = 0; pos < 100; pos++) check_by_id(n, 1, 0, pos);
        for (int pos = 0; pos < 100; pos++) check_by_id(n, 2, 0.3, pos);
    }
    check_ways(20000, 1, 2);
}

FX_RUN(test_sampler)
