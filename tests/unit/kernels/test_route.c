// test_route.c - the choice of experts: against double precision, and its rule for ties.
#include "kernels_test.h"
#include "suite.h"

enum { MOST = 256 };

static bool sorts_before(const float *logits, int a, int b)
{
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

// How many experts go before e: its place in the order.
static int place_of(const float *logits, int n, int e)
{
    int place = 0;
    for (int i = 0; i < n; i++) place += sorts_before(logits, i, e);
    return place;
}

static void check_route(const float *logits, int n, int n_used, fxi_route_norm norm)
{
    int expert[MOST];
    float weight[MOST];
    double sum = 0, total = 0;
    fxi_route_experts(logits, n, n_used, norm, expert, weight);
    for (int e = 0; e < n; e++)
        if (norm == FXI_ROUTE_ALL || place_of(logits, n, e) < n_used) sum += exp((double)logits[e]);
    for (int i = 0; i < n_used; i++) {
        assert_in_range(expert[i], 0, n - 1);
        assert_int_equal(place_of(logits, n, expert[i]), i);
        double want = exp((double)logits[expert[i]]) / sum;
        assert_true(fabs((double)weight[i] - want) <= 2e-6 * want);
        total += (double)weight[i];
    }
    if (norm == FXI_ROUTE_CHOSEN) assert_true(fabs(total - 1) < 1e-5);
}

FX_TEST(test_route_is_near_double)
{
    static const int sizes[] = {1, 2, 8, 17, 60, 64, 128, 256};
    for (int i = 0; i < 8; i++)
        for (int n_used = 1; n_used <= sizes[i]; n_used += 1 + n_used / 3)
            for (uint64_t seed = 0; seed < 5; seed++) {
                float *logits = random_floats((size_t)sizes[i], EVEN, seed);
                for (int e = 0; e < sizes[i]; e++) logits[e] *= 6;
                if (seed == 4) // ties
                    for (int e = 0; e < sizes[i]; e++) logits[e] = rintf(logits[e]);
                check_route(logits, sizes[i], n_used, FXI_ROUTE_ALL);
                check_route(logits, sizes[i], n_used, FXI_ROUTE_CHOSEN);
                guarded_free(logits);
            }
}

FX_TEST(test_equal_logits_choose_the_first)
{
    const float logits[5] = {1, 2, 2, -1, 2};
    int expert[3];
    float weight[3];
    fxi_route_experts(logits, 5, 3, FXI_ROUTE_CHOSEN, expert, weight);
    assert_int_equal(expert[0], 1);
    assert_int_equal(expert[1], 2);
    assert_int_equal(expert[2], 4);
    for (int i = 0; i < 3; i++) assert_true(weight[i] == 1.0f / 3);
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
