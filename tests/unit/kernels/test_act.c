// test_act.c - e^x, tanh, erf, softplus, activations and softcap: ref against double precision;
// every path against ref, bit by bit.
#include "kernels/ref/mathf.h"
#include "kernels_test.h"
#include "suite.h"

// The distance of a result from the exact one, in units in the last place.
static double ulps(float got, double exact)
{
    double step = ldexp(1, (fabs(exact) < 0x1p-126 ? -126 : ilogb(exact)) - 23);
    return fabs((double)got - exact) / step;
}

FX_TEST(test_expf_is_near)
{
    double worst = 0;
    for (uint32_t i = 0; i < 400000; i++) {
        float x = -105 + (float)i * (194.0f / 400000);
        double exact = exp((double)x);
        if (exact > 3.4028235e38) continue;
        worst = fmax(worst, ulps(fxi_expf(x), exact));
    }
    print_message("expf: at most %.3f units in the last place off\n", worst);
    assert_true(worst <= 1.5);
}

FX_TEST(test_expf_at_the_ends)
{
    assert_true(fxi_expf(0) == 1 && fxi_expf(-0.0f) == 1);
    assert_true(fxi_expf(-INFINITY) == 0 && fxi_expf(-1e30f) == 0 && fxi_expf(-104) == 0);
    assert_true(isinf(fxi_expf(INFINITY)) && isinf(fxi_expf(88.73f)));
    assert_true(isfinite(fxi_expf(88.72f)));
    assert_true(isnan(fxi_expf(NAN)));
    assert_true(fxi_expf(1e-40f) == 1);
}

typedef double exact_fn(double x);

// The largest distance of a function from the exact one, in units in the last place, at numbers of
// both signs: evenly from 0 to `most`, and of every magnitude from 2^-126 to `most`.
static double farthest(float (*fn)(float), exact_fn *exact, float most)
{
    double worst = 0;
    for (int i = 0; i < 200000; i++) {
        float even = most * (float)i / 200000,
              wide = ldexpf(1 + (float)(i % 997) / 997, i % 133 - 126);
        worst = fmax(worst, ulps(fn(even), exact((double)even)));
        worst = fmax(worst, ulps(fn(-even), exact(-(double)even)));
        if (wide > most) continue;
        worst = fmax(worst, ulps(fn(wide), exact((double)wide)));
        worst = fmax(worst, ulps(fn(-wide), exact(-(double)wide)));
    }
    return worst;
}

FX_TEST(test_tanhf_is_near)
{
    double worst = farthest(fxi_tanhf, tanh, 12);
    print_message("tanhf: at most %.3f units in the last place off\n", worst);
    assert_true(worst <= 2);
    assert_true(fxi_tanhf(0) == 0 && fxi_tanhf(1e30f) == 1 && fxi_tanhf(-1e30f) == -1);
    assert_true(fxi_tanhf(-0.0f) == 0);
}

FX_TEST(test_erff_is_near)
{
    double worst = farthest(fxi_erff, erf, 6);
    print_message("erff: at most %.3f units in the last place off\n", worst);
    assert_true(worst <= 2);
    assert_true(fxi_erff(0) == 0 && fxi_erff(1e30f) == 1 && fxi_erff(-1e30f) == -1);
    assert_true(signbit(fxi_erff(-0.0f)) && !signbit(fxi_erff(0)));
}

static double exact_softplus(double x)
{
    return log1p(exp(x));
}

FX_TEST(test_softplusf_is_near)
{
    double worst = farthest(fxi_softplusf, exact_softplus, 87);
    print_message("softplusf: at most %.3f units in the last place off\n", worst);
    assert_true(worst <= 3);
    assert_true(fxi_softplusf(1e30f) == 1e30f && fxi_softplusf(-1e30f) == 0);
}

// ---- activations of rows ------------------------------------------------------------------------

static double exact_silu(double x)
{
    return x / (1 + exp(-x));
}

static double exact_gelu(double x)
{
    return x * 0.5 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static double exact_gelu_erf(double x)
{
    return x * 0.5 * erfc(-x * sqrt(0.5));
}

static double exact_relu(double x)
{
    return fmax(x, 0);
}

static double exact_relu2(double x)
{
    return fmax(x, 0) * fmax(x, 0);
}

static double exact_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

FX_TEST(test_activations_are_near)
{
    static exact_fn *const exact[] = {
        [FXI_ACT_SILU] = exact_silu,         [FXI_ACT_GELU] = exact_gelu,
        [FXI_ACT_GELU_ERF] = exact_gelu_erf, [FXI_ACT_RELU] = exact_relu,
        [FXI_ACT_SIGMOID] = exact_sigmoid,   [FXI_ACT_SOFTPLUS] = exact_softplus,
        [FXI_ACT_RELU2] = exact_relu2};
    for (int a = FXI_ACT_SILU; a <= FXI_ACT_RELU2; a++)
        for (int i = -4000; i < 4000; i++) {
            float x = (float)i / 100, up = 3, y, gated;
            double want = exact[a]((double)x);
            ref_path()->act[a](&x, 1, &y);
            ref_path()->gate[a](&x, &up, 1, &gated);
            const double most = a < FXI_ACT_SIGMOID ? fabs((double)x) : want;
            assert_true(fabs((double)y - want) <=
                        (a < FXI_ACT_SIGMOID ? 2e-7 : 1e-5) * fmax(most, 1e-30));
            if (x > -1) assert_true(fabs((double)y - want) <= 1e-6 * fabs(want));
            assert_true(gated == y * up);
        }
}

// Far from 0 the result is x or 0, never NaN.
FX_TEST(test_activations_far_from_zero)
{
    static const float far[] = {90, 1e5f, 1e12f, 1e25f, 3e38f};
    for (int a = FXI_ACT_SILU; a <= FXI_ACT_RELU; a++)
        for (int i = 0; i < 5; i++) {
            float x[2] = {far[i], -far[i]}, y[2];
            ref_path()->act[a](x, 2, y);
            assert_true(y[0] == x[0] && fabsf(y[1]) <= 1e-30f);
        }
}

FX_TEST(test_clamped_gate)
{
    for (int i = -50; i <= 50; i++)
        for (int k = -50; k <= 50; k++) {
            float gate = (float)i / 4, up = (float)k / 4, y;
            ref_path()->gate[FXI_ACT_CLAMPED](&gate, &up, 1, &y);
            double g = fmin((double)gate, 7), u = fmax(fmin((double)up, 7), -7);
            double want = (u + 1) * g / (1 + exp(-1.702 * g));
            assert_true(fabs((double)y - want) <= 4e-6 * fabs(want) + 1e-30);
        }
}

FX_TEST(test_softcap_is_near)
{
    for (int i = -3000; i < 3000; i++) {
        float x = (float)i / 10, y = x;
        ref_path()->softcap(&y, 30, 1);
        double want = 30 * tanh((double)x / 30);
        assert_true(fabs((double)y - want) <= 5e-7 * fabs(want) && fabsf(y) <= 30);
    }
}

static void row_same_bits(const fxi_kernels *k, int n, spread s, float scale)
{
    const size_t len = (size_t)n;
    float *a = random_floats(len, s, 5), *b = random_floats(len, s, 6);
    float *want = floats(len), *y = floats(len);
    for (int i = 0; i < n; i++) a[i] *= scale, b[i] *= scale;
    for (int f = 0; f < FXI_ACT_END; f++) {
        if (k->act[f]) {
            ref_path()->act[f](a, n, want);
            memcpy(y, a, len * sizeof *y);
            k->act[f](y, n, y);
            assert_same(k->name, y, want, len);
        }
        ref_path()->gate[f](a, b, n, want);
        k->gate[f](a, b, n, y);
        assert_same(k->name, y, want, len);
        memcpy(y, a, len * sizeof *y);
        k->gate[f](y, b, n, y);
        assert_same(k->name, y, want, len);
    }
    memcpy(want, a, len * sizeof *y);
    memcpy(y, a, len * sizeof *y);
    ref_path()->softcap(want, 50, n);
    k->softcap(y, 50, n);
    assert_same(k->name, y, want, len);
    guarded_free_all(a, b, want, y);
}

FX_TEST(test_rows_have_refs_bits)
{
    static const int sizes[] = {1, 2, 5, 7, 15, 16, 17, 31, 32, 33, 47, 100, 2051};
    static const float scales[] = {1, 4, 10, 100};
    const fxi_kernels *k;
    for (int p = 0; (k = fast_path(p)); p++)
        for (int i = 0; i < 13; i++)
            for (int s = 0; s < N_SPREAD; s++)
                for (int m = 0; m < 4; m++) row_same_bits(k, sizes[i], (spread)s, scales[m]);
}

FX_RUN(test_act)
