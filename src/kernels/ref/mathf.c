// mathf.c - see mathf.h.
#include "kernels/ref/mathf.h"

#include <math.h>

float fxi_expf(float x)
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

static float eval_poly(const float *p, int n, float x)
{
    float y = p[0];
    for (int i = 1; i < n; i++) y = fmaf(y, x, p[i]);
    return y;
}

#define POLY(x, ...)                                                                               \
    eval_poly((const float[]){__VA_ARGS__}, (int)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)), \
              x)

float fxi_tanhf(float x)
{
    float a = fabsf(x), z = x * x;
    if (a < FXI_TANH_SMALL) return fmaf(POLY(z, FXI_TANH_P) * z, x, x);
    return copysignf(1 - 2 / (fxi_expf(a + a) + 1), x);
}

float fxi_erff(float x)
{
    float a = fabsf(x);
    if (a < FXI_ERF_SMALL) return fmaf(POLY(x * x, FXI_ERF_SMALL_P), x, x);
    float t = (a < FXI_ERF_MOST ? a : FXI_ERF_MOST) - FXI_ERF_MIDDLE;
    return copysignf(1 - fxi_expf(POLY(t, FXI_ERF_LARGE_P)), x);
}
