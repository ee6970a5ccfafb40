// body_act.h - activations, gated activations and the softcap of rows. Written once for every
// vector unit (cpu.h).
// Needs: a vec*.h.
#ifndef FXI_KERNELS_BODY_ACT_H
#define FXI_KERNELS_BODY_ACT_H

#include "kernels/cpu/body/body_panel.h"

ALWAYS_INLINE v16 poly_16(const float *p, int n, v16 x)
{
    v16 y = v16_set1(p[0]);
#pragma GCC unroll 8
    for (int i = 1; i < n; i++) y = v16_fma(y, x, v16_set1(p[i]));
    return y;
}

#define POLY_16(x, ...) \
    poly_16((const float[]){__VA_ARGS__}, (int)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)), x)

// fxi_tanhf of every lane.
ALWAYS_INLINE v16 tanh_16(v16 x)
{
    const v16 a = v16_abs(x), z = v16_mul(x, x), one = v16_set1(1);
    v16 small = v16_fma(v16_mul(POLY_16(z, FXI_TANH_P), z), x, x);
    v16 large = v16_div(v16_set1(2), v16_add(v16_exp(v16_add(a, a)), one));
    large = v16_with_sign(v16_sub(one, large), x);
    return v16_if_less(a, v16_set1(FXI_TANH_SMALL), small, large);
}

// fxi_erff of every lane.
ALWAYS_INLINE v16 erf_16(v16 x)
{
    const v16 a = v16_abs(x);
    v16 small = v16_fma(POLY_16(v16_mul(x, x), FXI_ERF_SMALL_P), x, x);
    v16 t = v16_sub(v16_min(a, v16_set1(FXI_ERF_MOST)), v16_set1(FXI_ERF_MIDDLE));
    v16 large = v16_sub(v16_set1(1), v16_exp(POLY_16(t, FXI_ERF_LARGE_P)));
    return v16_if_less(a, v16_set1(FXI_ERF_SMALL), small, v16_with_sign(large, x));
}

ALWAYS_INLINE v16 minus_16(v16 x)
{
    return v16_sub(v16_set1(-0.0f), x); // -x, also for zeros
}

// x / (1 + e^power)
ALWAYS_INLINE v16 logistic_16(v16 x, v16 power)
{
    return v16_div(x, v16_add(v16_set1(1), v16_exp(power)));
}

ALWAYS_INLINE v16 silu_16(v16 x)
{
    return logistic_16(x, minus_16(x));
}

ALWAYS_INLINE v16 gelu_16(v16 x)
{
    v16 f = v16_fma(v16_mul(v16_set1(FXI_GELU_B), x), x, v16_set1(1));
    return logistic_16(x, v16_mul(v16_mul(v16_set1(FXI_GELU_A), x), f));
}

ALWAYS_INLINE v16 gelu_erf_16(v16 x)
{
    v16 erf = erf_16(v16_mul(x, v16_set1(FXI_SQRT_HALF)));
    return v16_mul(v16_mul(v16_set1(0.5f), x), v16_add(v16_set1(1), erf));
}

ALWAYS_INLINE v16 relu_16(v16 x)
{
    return v16_max(x, v16_zero());
}

ALWAYS_INLINE v16 sigmoid_16(v16 x)
{
    return logistic_16(v16_set1(1), minus_16(x));
}

ALWAYS_INLINE v16 softplus_16(v16 x)
{
    const v16 e = v16_exp(minus_16(v16_abs(x))), s = v16_div(e, v16_add(e, v16_set1(2)));
    const v16 z = v16_mul(s, s), t = v16_add(s, s);
    const v16 log = v16_fma(v16_mul(POLY_16(z, FXI_SOFTPLUS_P), z), t, t);
    return v16_add(log, v16_max(x, v16_zero()));
}

ALWAYS_INLINE v16 relu2_16(v16 x)
{
    const v16 r = relu_16(x);
    return v16_mul(r, r);
}

ALWAYS_INLINE v16 clamped_16(v16 gate, v16 up)
{
    const v16 most = v16_set1(FXI_SWIGLU_LIMIT), least = v16_set1(-FXI_SWIGLU_LIMIT);
    v16 g = v16_min(gate, most), u = v16_max(v16_min(up, most), least);
    v16 act = logistic_16(g, minus_16(v16_mul(v16_set1(FXI_SWIGLU_ALPHA), g)));
    return v16_mul(act, v16_add(u, v16_set1(1)));
}

#define ACT_ROW(name)                                                              \
    static void act_##name(const float *x, int n, float *y)                        \
    {                                                                              \
        int i = 0;                                                                 \
        for (; i + 16 <= n; i += 16) v16_store(y + i, name##_16(v16_load(x + i))); \
        v16_store_n(y + i, name##_16(v16_load_n(x + i, n - i)), n - i);            \
    }                                                                              \
    ALWAYS_INLINE v16 gate_##name##_16(v16 gate, v16 up)                           \
    {                                                                              \
        return v16_mul(name##_16(gate), up);                                       \
    }                                                                              \
    GATE_ROW(name, gate_##name##_16)

#define GATE_ROW(name, fn)                                                                       \
    static void gate_##name(const float *gate, const float *up, int n, float *y)                 \
    {                                                                                            \
        int i = 0;                                                                               \
        for (; i + 16 <= n; i += 16) v16_store(y + i, fn(v16_load(gate + i), v16_load(up + i))); \
        int m = n - i;                                                                           \
        v16_store_n(y + i, fn(v16_load_n(gate + i, m), v16_load_n(up + i, m)), m);               \
    }

ACT_ROW(silu)
ACT_ROW(gelu)
ACT_ROW(gelu_erf)
ACT_ROW(relu)
ACT_ROW(sigmoid)
ACT_ROW(softplus)
ACT_ROW(relu2)
GATE_ROW(clamped, clamped_16)

#undef ACT_ROW
#undef GATE_ROW

static void softcap_row(float *x, float cap, int n)
{
    const v16 c = v16_set1(cap), inv = v16_set1(1 / cap);
    int i = 0;
    for (; i + 16 <= n; i += 16)
        v16_store(x + i, v16_mul(c, tanh_16(v16_mul(v16_load(x + i), inv))));
    v16_store_n(x + i, v16_mul(c, tanh_16(v16_mul(v16_load_n(x + i, n - i), inv))), n - i);
}

#endif
