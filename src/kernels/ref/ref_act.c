// ref_act.c - activations and gated activations as kernels.h defines them.
#include <math.h>

#include "kernels/ref/mathf.h"
#include "kernels/ref/ref.h"

static float act_silu(float x)
{
    return x / (1 + fxi_expf(-x));
}

static float act_gelu(float x)
{
    return x / (1 + fxi_expf(FXI_GELU_A * x * fmaf(FXI_GELU_B * x, x, 1)));
}

static float act_gelu_erf(float x)
{
    return 0.5f * x * (1 + fxi_erff(x * FXI_SQRT_HALF));
}

static float act_relu(float x)
{
    return x > 0 ? x : 0;
}

static float gate_clamped(float gate, float up)
{
    const float most = FXI_SWIGLU_LIMIT;
    float g = gate < most ? gate : most, u = up < most ? up : most;
    u = u > -most ? u : -most;
    return g / (1 + fxi_expf(-(FXI_SWIGLU_ALPHA * g))) * (u + 1);
}

#define REF_ACT(name)                                                             \
    void fxi_ref_act_##name(const float *x, int n, float *y)                      \
    {                                                                             \
        for (int i = 0; i < n; i++) y[i] = act_##name(x[i]);                      \
    }                                                                             \
    void fxi_ref_gate_##name(const float *gate, const float *up, int n, float *y) \
    {                                                                             \
        for (int i = 0; i < n; i++) y[i] = act_##name(gate[i]) * up[i];           \
    }

REF_ACT(silu)
REF_ACT(gelu)
REF_ACT(gelu_erf)
REF_ACT(relu)

void fxi_ref_gate_clamped(const float *gate, const float *up, int n, float *y)
{
    for (int i = 0; i < n; i++) y[i] = gate_clamped(gate[i], up[i]);
}
