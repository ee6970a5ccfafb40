// test_logprob.c - log-softmax, ranks and the likeliest tokens, against long double and a full
// sort.
#include "unit/cmocka_all.h"

#include "base/number/rng.h"
#include "engine/sampling/sampler.h"
#include "engine/sampling/softmax.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#define MAX_VOCAB 2000
#define MAX_TOP   (2 * FX_MAX_BEAM)

// ---- slow references ---------------------------------------------------------------------------

static long double slow_log_sum(const float *logits, int n)
{
    long double max = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) max = fmaxl(max, (long double)logits[i]);
    for (int i = 0; i < n; i++)
        if (!isnan(logits[i])) sum += expl((long double)logits[i] - max);
    return max + logl(sum);
}

static int likelier(const void *a, const void *b)
{
    const fx_logprob *x = a, *y = b; // logprob: the logit
    if (x->logprob != y->logprob) return x->logprob > y->logprob ? -1 : 1;
    return x->token - y->token;
}

// All tokens, likeliest first, with their logits.
static const fx_logprob *sorted(const float *logits, int n)
{
    static fx_logprob all[MAX_VOCAB];
    for (int i = 0; i < n; i++) all[i] = (fx_logprob){i, logits[i]};
    qsort(all, (size_t)n, sizeof *all, likelier);
    return all;
}

// Half a unit in the last place of a float, and the error of double sums.
static void assert_near(float got, long double want)
{
    if (isinf(want))
        assert_true((long double)got == want);
    else
        assert_true(fabsl((long double)got - want) <= fabsl(want) * 6e-8L + 1e-12L);
}

// ---- random rows -------------------------------------------------------------------------------

// A few values only: ties; some -inf, but not all.
static void fill(float *logits, int n, uint64_t seed)
{
    for (int i = 0; i < n; i++) {
        const double u = fxi_rng_unit(seed, 1, (uint64_t)i), v = fxi_rng_unit(seed, 2, (uint64_t)i);
        logits[i] = (float)(40 * u - 20);
        if (seed % 3 == 0) logits[i] = floorf(logits[i]);
        if (seed % 4 == 1 && v < 0.3 && i > 0) logits[i] = -INFINITY;
    }
}

static void check_token(const float *logits, int n, const fx_logprob *order, int rank, int n_top)
{
    fx_logprob top[MAX_TOP];
    fx_token_prob got;
    const long double log_sum = slow_log_sum(logits, n);
    const int32_t token = order[rank - 1].token;
    fxi_logprob_of(logits, n, token, n_top, n_top ? top : NULL, &got);
    assert_int_equal(got.rank, rank);
    assert_near(got.logprob, (long double)logits[token] - log_sum);
    assert_ptr_equal(got.top, n_top ? top : NULL);
    assert_int_equal(got.n_top, n_top < n ? n_top : n);
    for (int i = 0; i < got.n_top; i++) {
        assert_int_equal(top[i].token, order[i].token);
        assert_near(top[i].logprob, (long double)order[i].logprob - log_sum);
        if (top[i].token == token) assert_true(top[i].logprob == got.logprob);
    }
    if (rank <= got.n_top) assert_int_equal(top[rank - 1].token, token);
}

FX_TEST(test_logprob_of)
{
    static const int n_tops[] = {0, 1, 2, 5, FX_MAX_TOP, MAX_TOP};
    float logits[MAX_VOCAB];
    for (uint64_t seed = 0; seed < 600; seed++) {
        const int n = 1 + (int)(exp(log(MAX_VOCAB - 1) * fxi_rng_unit(seed, 3, 0)));
        fill(logits, n, seed);
        const fx_logprob *order = sorted(logits, n);
        const int some = 1 + (int)(fxi_rng_unit(seed, 3, 1) * n);
        const int n_top = n_tops[seed % (sizeof n_tops / sizeof *n_tops)];
        check_token(logits, n, order, 1, n_top);
        check_token(logits, n, order, some, n_top);
        check_token(logits, n, order, n, n_top);
    }
}

FX_TEST(test_logprob_top)
{
    float logits[MAX_VOCAB];
    fx_logprob top[MAX_TOP];
    for (uint64_t seed = 0; seed < 600; seed++) {
        const int n = 1 + (int)(exp(log(MAX_VOCAB - 1) * fxi_rng_unit(seed, 3, 0)));
        const int k = (int)(fxi_rng_unit(seed, 3, 1) * (MAX_TOP + 1));
        fill(logits, n, seed);
        const fx_logprob *order = sorted(logits, n);
        const long double log_sum = slow_log_sum(logits, n);
        int want = 0;
        while (want < k && want < n && order[want].logprob > -INFINITY) want++;
        assert_int_equal(fxi_logprob_top(logits, n, k, top), want);
        for (int i = 0; i < want; i++) {
            assert_int_equal(top[i].token, order[i].token);
            assert_near(top[i].logprob, (long double)order[i].logprob - log_sum);
        }
    }
}

// ---- by hand -----------------------------------------------------------------------------------

FX_TEST(test_ties_go_to_the_lower_id)
{
    const float logits[] = {1, 3, 1, 3, 1};
    const int32_t order[] = {1, 3, 0, 2, 4};
    fx_logprob top[5];
    fx_token_prob got;
    for (int i = 0; i < 5; i++) {
        fxi_logprob_of(logits, 5, order[i], 5, top, &got);
        assert_int_equal(got.rank, i + 1);
        assert_int_equal(top[i].token, order[i]);
        assert_true(top[i].logprob == got.logprob);
    }
}

FX_TEST(test_uniform_row)
{
    const float logits[] = {-7, -7, -7, -7};
    fx_token_prob got;
    fxi_logprob_of(logits, 4, 3, 0, NULL, &got);
    assert_int_equal(got.rank, 4);
    assert_true(got.logprob == (float)-log(4));
}

FX_TEST(test_certain_token)
{
    const float logits[] = {-INFINITY, 5, -INFINITY};
    fx_logprob top[3];
    fx_token_prob got;
    fxi_logprob_of(logits, 3, 1, 3, top, &got);
    assert_int_equal(got.rank, 1);
    assert_true(got.logprob == 0);
    assert_int_equal(got.n_top, 3);
    assert_int_equal(top[1].token, 0);
    assert_true(top[1].logprob == -INFINITY);
    assert_int_equal(fxi_logprob_top(logits, 3, 3, top), 1);
}

typedef struct odd_case {
    float logits[4];
    int32_t token; // whose logprob is -inf
    int rank;
    int n_left; // of equal logprob, the others -inf
} odd_case;

static const odd_case odd_cases[] = {
    {{NAN, NAN, NAN, NAN}, 3, 4, 0},
    {{-INFINITY, -INFINITY, -INFINITY, -INFINITY}, 0, 1, 0},
    {{NAN, INFINITY, 1, INFINITY}, 0, 4, 2},
    {{NAN, 2, -INFINITY, 2}, 0, 3, 2},
    {{NAN, 2, -INFINITY, 2}, 2, 4, 2},
};

// NaN counts as -inf, and infinite logits give no NaN.
FX_TEST(test_rows_with_odd_logits)
{
    fx_logprob top[4];
    fx_token_prob got;
    for (size_t i = 0; i < sizeof odd_cases / sizeof *odd_cases; i++) {
        const odd_case *c = &odd_cases[i];
        fxi_logprob_of(c->logits, 4, c->token, 4, top, &got);
        assert_true(got.logprob == -INFINITY);
        assert_int_equal(got.rank, c->rank);
        assert_int_equal(got.n_top, 4);
        assert_int_equal(top[c->rank - 1].token, c->token);
        for (int k = 0; k < 4; k++)
            assert_true(top[k].logprob == (k < c->n_left ? (float)-log(2) : -INFINITY));
        assert_int_equal(fxi_logprob_top(c->logits, 4, 4, top), c->n_left);
    }
}

// Many ascending logits, which pass every threshold; one is NaN.
FX_TEST(test_long_row)
{
    enum { N = 128 * 1024 };
    float *logits = malloc(N * sizeof *logits);
    assert_non_null(logits);
    for (int i = 0; i < N; i++) logits[i] = (float)i / 4096;
    logits[N / 2] = NAN;
    fx_logprob top[MAX_TOP];
    assert_int_equal(fxi_logprob_top(logits, N, MAX_TOP, top), MAX_TOP);
    const long double log_sum = slow_log_sum(logits, N);
    for (int i = 0; i < MAX_TOP; i++) {
        assert_int_equal(top[i].token, N - 1 - i);
        assert_near(top[i].logprob, (long double)logits[N - 1 - i] - log_sum);
    }
    free(logits);
}

FX_TEST(test_logits_far_apart)
{
    const float logits[] = {-1e38f, 1e38f, NAN, 1e38f, -INFINITY};
    fx_logprob top[5];
    assert_int_equal(fxi_logprob_top(logits, 5, 5, top), 3);
    for (int i = 0; i < 2; i++) assert_true(top[i].logprob == (float)-log(2));
    assert_true(top[2].logprob == -2e38f);
}

// ---- softmax.h ---------------------------------------------------------------------------------

#define N_LOOP 64

// In a vectorised loop, exp has the same bits as alone.
static void check_exp(const double x[N_LOOP])
{
    double in_loop[N_LOOP];
    for (int i = 0; i < N_LOOP; i++) in_loop[i] = fxi_exp(x[i]);
    for (int i = 0; i < N_LOOP; i++) {
        const volatile double alone = x[i];
        const long double want = expl((long double)x[i]);
        assert_true(fxi_exp(alone) == in_loop[i]);
        if (fabsl((long double)in_loop[i] - want) > want * 4.4e-16L)
            fail_msg("exp(%a) is %a, not %La", x[i], in_loop[i], want);
    }
}

// Everywhere, near 0, and around the middle between two powers of 2^(1/64), where the nearest one
// changes.
FX_TEST(test_exp)
{
    double wide[N_LOOP], near[N_LOOP], middle[N_LOOP];
    for (uint64_t k = 0; k < 4000; k++) {
        for (uint64_t i = 0; i < N_LOOP; i++) {
            const double u = fxi_rng_unit(5, k, i);
            wide[i] = -708 * u;
            near[i] = -ldexp(u, -(int)(k % 60));
            middle[i] = -((double)(N_LOOP * k % 65000) + (double)i + 0.5) * log(2) / 64;
            middle[i] *= 1 + (u - 0.5) * 1e-13;
        }
        check_exp(wide);
        check_exp(near);
        check_exp(middle);
    }
}

FX_TEST(test_exp_at_its_ends)
{
    assert_true(fxi_exp(0) == 1);
    assert_true(fxi_exp(-0.0) == 1);
    assert_true(fxi_exp(-DBL_TRUE_MIN) == 1);
    assert_true(isnormal(fxi_exp(FXI_EXP_LOWEST)));
    static const double too_low[] = {-709, -745, -1e4, -1e300, -DBL_MAX, -INFINITY};
    assert_true(fxi_exp(nextafter(FXI_EXP_LOWEST, -INFINITY)) == 0);
    for (size_t i = 0; i < sizeof too_low / sizeof *too_low; i++)
        assert_true(fxi_exp(too_low[i]) == 0);
    assert_false(fxi_exp((double)NAN) > 0);
    assert_false(fxi_exp(-(double)NAN) > 0);
}

// At every index of rows of every length around a multiple of four.
FX_TEST(test_max_of)
{
    enum { MAX = 13 };
    for (int n = 0; n <= MAX; n++)
        for (int at = 0; at < n; at++) {
            float x[MAX];
            for (int i = 0; i < n; i++) x[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? -INFINITY : -FLT_MAX;
            x[at] = -2;
            assert_true(fxi_logits_max(x, n) == -2);
            x[at] = INFINITY;
            assert_true(fxi_logits_max(x, n) == INFINITY);
        }
    const float none[] = {NAN, NAN, -INFINITY, NAN, NAN};
    for (int n = 0; n <= 5; n++) assert_true(fxi_logits_max(none, n) == -INFINITY);
}

FX_RUN(test_logprob)
