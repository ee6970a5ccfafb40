// mathf_text.h - the text of mathf.h's functions, for every compiler that needs them: C on the
// host, CUDA C++ on a GPU. FXI_MATH_FN is put before each function.
//
// Products and sums must be rounded one by one, as written (-ffp-contract=off, -fmad=false).
#ifndef FXI_KERNELS_MATHF_TEXT_H
#define FXI_KERNELS_MATHF_TEXT_H

#include <math.h>

#include "kernels/ref/mathf.h"

FXI_MATH_FN float mathf_exp(float x)
{
    if (x != x) return x;
    x = x > FXI_EXP_LO_X ? x : FXI_EXP_LO_X;
    x = x < FXI_EXP_HI_X ? x : FXI_EXP_HI_X;
    float n = rintf(x * FXI_LOG2E);
    float r = fmaf(n, -FXI_LN2_HI, x);
    r = fmaf(n, -FXI_LN2_LO, r);
    float p = FXI_EXP_P5;
    p = fmaf(p, r, FXI_EXP_P4);
    p = fmaf(p, r, FXI_EXP_P3);
    p = fmaf(p, r, FXI_EXP_P2);
    p = fmaf(p, r, FXI_EXP_P1);
    p = fmaf(p, r, FXI_EXP_P0);
    float y = fmaf(p, r * r, r) + 1.0f;
    return ldexpf(y, (int)n);
}

FXI_MATH_FN float mathf_poly(const float *p, int n, float x)
{
    float y = p[0];
    for (int i = 1; i < n; i++) y = fmaf(y, x, p[i]);
    return y;
}

#define FXI_POLY_N(p) ((int)(sizeof(p) / sizeof(*(p))))

FXI_MATH_FN float mathf_tanh(float x)
{
    const float small[] = {FXI_TANH_P};
    float a = fabsf(x), z = x * x;
    if (a < FXI_TANH_SMALL) return fmaf(mathf_poly(small, FXI_POLY_N(small), z) * z, x, x);
    return copysignf(1 - 2 / (mathf_exp(a + a) + 1), x);
}

FXI_MATH_FN float mathf_erf(float x)
{
    const float small[] = {FXI_ERF_SMALL_P}, large[] = {FXI_ERF_LARGE_P};
    float a = fabsf(x);
    if (a < FXI_ERF_SMALL) return fmaf(mathf_poly(small, FXI_POLY_N(small), x * x), x, x);
    float t = (a < FXI_ERF_MOST ? a : FXI_ERF_MOST) - FXI_ERF_MIDDLE;
    return copysignf(1 - mathf_exp(mathf_poly(large, FXI_POLY_N(large), t)), x);
}

FXI_MATH_FN float mathf_softplus(float x)
{
    const float p[] = {FXI_SOFTPLUS_P};
    float e = mathf_exp(-fabsf(x)), s = e / (e + 2), z = s * s, t = s + s;
    return fmaf(mathf_poly(p, FXI_POLY_N(p), z) * z, t, t) + (x > 0 ? x : 0);
}

#endif
