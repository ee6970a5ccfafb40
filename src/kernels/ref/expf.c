// expf.c - see expf.h.
#include "kernels/ref/expf.h"

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
