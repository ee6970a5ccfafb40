// join.cu - the activations of feed-forward blocks, joined with their gates. A block per row.
#include "kernels/cuda/cuda_device.h"

FXI_DEVICE float clamped_of(float gate, float up)
{
    const float most = FXI_SWIGLU_LIMIT;
    const float g = gate < most ? gate : most;
    float u = up < most ? up : most;
    u = u > -most ? u : -most;
    return g / (1 + mathf_exp(-(FXI_SWIGLU_ALPHA * g))) * (u + 1);
}

FXI_DEVICE float activate(int act, float x)
{
    if (act == FXI_ACT_SILU) return x / (1 + mathf_exp(-x));
    if (act == FXI_ACT_GELU)
        return x / (1 + mathf_exp(FXI_GELU_A * x * fmaf(FXI_GELU_B * x, x, 1)));
    if (act == FXI_ACT_GELU_ERF) return 0.5f * x * (1 + mathf_erf(x * FXI_SQRT_HALF));
    if (act == FXI_ACT_SIGMOID) return 1 / (1 + mathf_exp(-x));
    if (act == FXI_ACT_SOFTPLUS) return mathf_softplus(x);
    const float r = x > 0 ? x : 0;
    return act == FXI_ACT_RELU2 ? r * r : r;
}

FXI_KERNEL(join, join, 256)
{
    const int row = (int)blockIdx.x;
    if (row >= live_count(a.count)) return;
    const size_t at = (size_t)row * (size_t)a.n;
    const size_t bias = a.row_expert ? (size_t)a.row_expert[row] * (size_t)a.n : 0;
    for (int i = (int)threadIdx.x; i < a.n; i += 256) {
        float up = a.up[at + i], y;
        if (a.up_bias) up += a.up_bias[bias + i];
        if (a.gate) {
            float gate = a.gate[at + i];
            if (a.gate_bias) gate += a.gate_bias[bias + i];
            y = a.act == FXI_ACT_CLAMPED ? clamped_of(gate, up) : activate(a.act, gate) * up;
        } else {
            y = activate(a.act, up);
        }
        act_put(a.out, row, a.n, i, y);
    }
}
FXI_CUDA_KERNEL(fxi_cuda_join);
