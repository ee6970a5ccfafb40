// test_sampler.c - the sampler against a slow, obvious one that sorts everything, and against the
// rules one by one.
#include "unit/cmocka_all.h"

#include "base/rng.h"
#include "engine/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define N 200

// ---- the slow sampler --------------------------------------------------------------------------

typedef struct item {
    double p;
    float logit;
    int id;
} item;

static int likelier(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id - y->id;
}

// How many of the sorted items the rules keep.
static int n_kept(const fx_sampling *s, const item *it, int n)
{
    int k = 0;
    while (k < n && it[k].p > 0 && it[k].p >= (double)s->min_p * it[0].p) k++;
    if (s->top_k > 0 && s->top_k < k) k = s->top_k;
    double mass = 0, sum = 0;
    for (int i = 0; i < k; i++) mass += it[i].p;
    int kept = 0;
    while (kept < k && (s->top_p >= 1 || sum < (double)s->top_p * mass)) sum += it[kept++].p;
    return kept;
}

static void sort_items(const fx_sampling *s, const float *logits, item *it)
{
    float max = -INFINITY;
    for (int i = 0; i < N; i++) max = fmaxf(max, logits[i]);
    for (int i = 0; i < N; i++)
        it[i] =
            (item){exp(((double)logits[i] - (double)max) / (double)s->temperature), logits[i], i};
    qsort(it, N, sizeof *it, likelier);
}

// ---- tests -------------------------------------------------------------------------------------

static void fill(float *logits, uint64_t seed)
{
    for (int i = 0; i < N; i++) logits[i] = (float)(8 * fxi_rng_unit(seed, 7, (uint64_t)i));
    logits[17] = logits[90]; // a tie
}

static int32_t sample(const fx_sampling *s, const float *logits, int position)
{
    static fxi_candidate cand[N];
    return fxi_sample(s, logits, N, 0, position, cand);
}

static void test_greedy_ties_to_lowest(void **state)
{
    (void)state;
    float logits[N] = {0};
    const fx_sampling greedy = {.temperature = 0, .top_p = 1};
    assert_int_equal(sample(&greedy, logits, 0), 0);
    logits[60] = logits[30] = 2;
    assert_int_equal(sample(&greedy, logits, 5), 30);
}

static const fx_sampling rules[] = {
    {.temperature = 1, .top_p = 1},
    {.temperature = 0.5f, .top_p = 1, .top_k = 5},
    {.temperature = 1.5f, .top_p = 0.5f},
    {.temperature = 1, .top_p = 0.9f, .top_k = 40},
    {.temperature = 1, .top_p = 1, .min_p = 0.3f},
    {.temperature = 2, .top_p = 0.7f, .top_k = 20, .min_p = 0.05f},
    {.temperature = 1, .top_p = 0.001f},
    {.temperature = 1, .top_p = 1, .top_k = 1},
};

// Every draw is one the rules allow, and the frequencies are the probabilities.
static void check_frequencies(const fx_sampling *rule, uint64_t seed)
{
    enum { DRAWS = 4000 };
    float logits[N];
    item it[N];
    int count[N] = {0};
    fx_sampling s = *rule;
    s.seed = seed;
    fill(logits, seed);
    sort_items(&s, logits, it);
    int kept = n_kept(&s, it, N);
    double mass = 0;
    for (int i = 0; i < kept; i++) mass += it[i].p;
    for (int i = 0; i < DRAWS; i++) count[sample(&s, logits, i)]++;
    int seen = 0;
    for (int i = 0; i < kept; i++) {
        double want = DRAWS * it[i].p / mass;
        assert_true(fabs(count[it[i].id] - want) <= 6 * sqrt(want) + 3);
        seen += count[it[i].id];
    }
    assert_int_equal(seen, DRAWS);
}

static void test_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        for (uint64_t seed = 1; seed <= 2; seed++) check_frequencies(&rules[i], seed);
}

static void test_draw_depends_on_its_key_alone(void **state)
{
    (void)state;
    float logits[N];
    static fxi_candidate cand[N];
    fill(logits, 1);
    fx_sampling s = {.temperature = 1, .top_p = 1, .seed = 42};
    int32_t first = fxi_sample(&s, logits, N, 3, 17, cand);
    (void)fxi_sample(&s, logits, N, 0, 1, cand);
    assert_int_equal(fxi_sample(&s, logits, N, 3, 17, cand), first);
    int differ = 0;
    for (int i = 0; i < 50; i++) {
        int32_t here = fxi_sample(&s, logits, N, 0, i, cand);
        differ += here != fxi_sample(&s, logits, N, 1, i, cand);
    }
    assert_true(differ > 25); // choices have streams of their own
}

static void test_not_numbers_do_not_crash(void **state)
{
    (void)state;
    float logits[N];
    for (int i = 0; i < N; i++) logits[i] = NAN;
    const fx_sampling s = {.temperature = 1, .top_p = 0.5f, .top_k = 3};
    assert_in_range(sample(&s, logits, 0), 0, N - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy_ties_to_lowest),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_draw_depends_on_its_key_alone),
        cmocka_unit_test(test_not_numbers_do_not_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
