// test_route.c - the choice of experts: against double precision, and its rule for ties.
#include "kernels_test.h"
#include "suite.h"

enum { MOST = 256 };

// What a router should do with a row, in double where order does not depend on it.
typedef struct expected {
    double key[MOST], weight[MOST]; // of every expert; the weight before the sum and the scale
    double sum;                     // of all weights
    bool is_closed[MOST];
} expected;

static bool sorts_before(const expected *x, int a, int b)
{
    return x->key[a] > x->key[b] || (x->key[a] == x->key[b] && a < b);
}

// How many open experts go before e: its place in the order.
static int place_of(const expected *x, int n, int e)
{
    int place = 0;
    for (int i = 0; i < n; i++) place += !x->is_closed[i] && sorts_before(x, i, e);
    return place;
}

static int descending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static double sum_best(const double *key, int n, int n_best)
{
    double sorted[MOST], sum = 0;
    memcpy(sorted, key, (size_t)n * sizeof *key);
    qsort(sorted, (size_t)n, sizeof *sorted, descending);
    for (int i = 0; i < n_best; i++) sum = (double)((float)sum + (float)sorted[i]);
    return sum;
}

static void close_groups(const fxi_router *r, expected *x)
{
    const int size = r->n_expert / r->n_group,
              n_best = r->score == FXI_ROUTE_SIGMOID && size > 1 ? 2 : 1;
    expected group = {0};
    for (int g = 0; g < r->n_group; g++) group.key[g] = sum_best(x->key + g * size, size, n_best);
    for (int e = 0; e < r->n_expert; e++)
        x->is_closed[e] = place_of(&group, r->n_group, e / size) >= r->n_group_used;
}

static expected expect(const fxi_router *r, const float *logits, const float *bias)
{
    expected x = {0};
    const bool is_sigmoid = r->score == FXI_ROUTE_SIGMOID;
    for (int e = 0; e < r->n_expert; e++) {
        x.weight[e] = is_sigmoid ? 1 / (1 + exp(-(double)logits[e])) : exp((double)logits[e]);
        x.sum += x.weight[e];
    }
    for (int e = 0; e < r->n_expert; e++) {
        const float p = is_sigmoid ? fxi_sigmoid(logits[e]) : (float)(x.weight[e] / x.sum);
        x.key[e] = (double)(bias ? p + bias[e] : is_sigmoid ? p : logits[e]);
    }
    if (r->n_group) close_groups(r, &x);
    return x;
}

static void check_route(const fxi_router *r, const float *logits, const float *bias)
{
    int expert[MOST];
    float weight[MOST];
    const expected x = expect(r, logits, bias);
    double sum = 0, total = 0;
    fxi_route_experts(r, logits, bias, expert, weight);
    for (int i = 0; i < r->n_used; i++) {
        assert_in_range(expert[i], 0, r->n_expert - 1);
        assert_false(x.is_closed[expert[i]]);
        assert_int_equal(place_of(&x, r->n_expert, expert[i]), i);
        sum += x.weight[expert[i]];
    }
    if (r->norm == FXI_ROUTE_ALL) sum = r->score == FXI_ROUTE_SIGMOID ? 1 : x.sum;
    for (int i = 0; i < r->n_used; i++) {
        const double want = x.weight[expert[i]] / sum * (double)r->scale;
        assert_true(fabs((double)weight[i] - want) <= 2e-6 * want);
        total += (double)weight[i];
    }
    if (r->norm == FXI_ROUTE_CHOSEN) assert_true(fabs(total - (double)r->scale) < 3e-5);
}

// Softmax and sigmoid, divided by either sum, with and without a bias and groups.
static void check_all_kinds(int n_expert, int n_used, const float *logits, const float *bias)
{
    for (int kind = 0; kind < 16; kind++) {
        fxi_router r = {.n_expert = n_expert,
                        .n_used = n_used,
                        .score = kind & 1 ? FXI_ROUTE_SIGMOID : FXI_ROUTE_SOFTMAX,
                        .norm = kind & 2 ? FXI_ROUTE_ALL : FXI_ROUTE_CHOSEN,
                        .scale = kind & 2 ? 1 : 2.5f};
        if (kind & 8 && n_expert % 4 == 0) r.n_group = n_expert > 60 ? 8 : 4;
        if (r.n_group) {
            const int size = n_expert / r.n_group;
            r.n_group_used = (n_used + size - 1) / size;
        }
        check_route(&r, logits, kind & 4 ? bias : NULL);
    }
}

// Numbers far enough from each other that double and float agree on their order.
FX_TEST(test_route_is_near_double)
{
    static const int sizes[] = {1, 2, 8, 17, 60, 64, 128, 256};
    for (int i = 0; i < 8; i++)
        for (int n_used = 1; n_used <= sizes[i]; n_used += 1 + n_used / 3)
            for (uint64_t seed = 0; seed < 5; seed++) {
                float *logits = random_floats((size_t)sizes[i], EVEN, seed),
                      *bias = random_floats((size_t)sizes[i], EVEN, seed + 10);
                for (int e = 0; e < sizes[i]; e++) logits[e] *= 6;
                for (int e = 0; seed == 4 && e < sizes[i]; e++) { // ties
                    logits[e] = rintf(logits[e]);
                    bias[e] = rintf(bias[e] * 2);
                }
                check_all_kinds(sizes[i], n_used, logits, bias);
                guarded_free_all(logits, bias);
            }
}

FX_TEST(test_equal_logits_choose_the_first)
{
    const fxi_router r = {.n_expert = 5, .n_used = 3, .norm = FXI_ROUTE_CHOSEN, .scale = 1};
    const float logits[5] = {1, 2, 2, -1, 2};
    int expert[3];
    float weight[3];
    fxi_route_experts(&r, logits, NULL, expert, weight);
    assert_int_equal(expert[0], 1);
    assert_int_equal(expert[1], 2);
    assert_int_equal(expert[2], 4);
    for (int i = 0; i < 3; i++) assert_true(weight[i] == 1.0f / 3);
}

// The bias chooses and does not weigh; the best expert of all is in a group that is closed.
FX_TEST(test_two_of_a_group_outweigh_the_best)
{
    const fxi_router r = {.n_expert = 6,
                          .n_used = 2,
                          .score = FXI_ROUTE_SIGMOID,
                          .norm = FXI_ROUTE_ALL,
                          .n_group = 3,
                          .n_group_used = 1,
                          .scale = 1};
    const float logits[6] = {3, -9, 1, 1, 0, 0}, bias[6] = {0, 0, 0, 0.25f, -1, -1};
    int expert[2];
    float weight[2];
    fxi_route_experts(&r, logits, bias, expert, weight);
    assert_int_equal(expert[0], 3);
    assert_int_equal(expert[1], 2);
    assert_true(weight[0] == fxi_sigmoid(1) && weight[1] == fxi_sigmoid(1));
}

FX_TEST(test_scores_that_are_all_zero_have_a_sum)
{
    const fxi_router r = {.n_expert = 2,
                          .n_used = 2,
                          .score = FXI_ROUTE_SIGMOID,
                          .norm = FXI_ROUTE_CHOSEN,
                          .scale = 1};
    const float logits[2] = {-500, -500};
    int expert[2];
    float weight[2];
    fxi_route_experts(&r, logits, NULL, expert, weight);
    assert_true(weight[0] == 0 && weight[1] == 0);
}

FX_TEST(test_sigmoid_is_near_double)
{
    for (int i = -8000; i <= 8000; i++) {
        const double x = (double)i / 100, want = 1 / (1 + exp(-x)); // of f32's range
        assert_true(fabs((double)fxi_sigmoid((float)x) - want) <= 1e-5 * want);
    }
    assert_true(fxi_sigmoid(0) == 0.5f && fxi_sigmoid(1000) == 1 && fxi_sigmoid(-1000) == 0);
}

FX_RUN(test_route)
