// experts.cu - mixtures of experts: the router's choice, the places of the chosen rows, the sum of
// their results.
#include "kernels/cuda/cuda_device.h"

// ---- route -------------------------------------------------------------------------------------

// A router's logit of an expert; the lower index goes first among equals.
typedef struct expert_logit {
    float value;
    int at; // n_expert: none
} expert_logit;

FXI_DEVICE bool logit_leads(const expert_logit &p, const expert_logit &q)
{
    return p.value > q.value || (p.value == q.value && p.at < q.at);
}

FXI_DEVICE float route_logit(const fxi_cuda_route_args &a, int row, int e)
{
    const float v = a.logits[(size_t)row * (size_t)a.n_expert + (size_t)e];
    return a.bias ? v + a.bias[e] : v;
}

// The expert that goes next after `last` in the router's order; all lanes of the warp get it.
FXI_DEVICE expert_logit next_expert(const fxi_cuda_route_args &a, int row, const expert_logit &last)
{
    expert_logit best = {minus_inf(), a.n_expert};
    for (int e = (int)threadIdx.x; e < a.n_expert; e += 32) {
        const expert_logit x = {route_logit(a, row, e), e};
        if (logit_leads(last, x) && logit_leads(x, best)) best = x;
    }
    for (int h = 16; h; h /= 2) {
        const expert_logit other = {__shfl_xor_sync(WHOLE_WARP, best.value, h),
                                    __shfl_xor_sync(WHOLE_WARP, best.at, h)};
        if (logit_leads(other, best)) best = other;
    }
    return best;
}

// sum16 of expf(logit - max) of all experts, or of those chosen in the order of choice.
FXI_DEVICE float route_sum(const fxi_cuda_route_args &a, int row, const int32_t *chosen, float max)
{
    const int n = a.norm == FXI_ROUTE_ALL ? a.n_expert : a.n_used;
    float s = 0;
    for (int i = (int)threadIdx.x % 16; i < n; i += 16) {
        const int e = a.norm == FXI_ROUTE_ALL ? i : chosen[i];
        s += mathf_exp(route_logit(a, row, e) - max);
    }
    return fold_lanes(s);
}

// A warp per row.
FXI_KERNEL(route, route, 32)
{
    const int row = (int)blockIdx.x;
    if (row >= live_count(a.count)) return;
    int32_t *chosen = a.chosen + (size_t)row * (size_t)a.n_used;
    expert_logit last = {-minus_inf(), -1};
    float max = 0;
    for (int i = 0; i < a.n_used; i++) {
        last = next_expert(a, row, last);
        if (i == 0) max = last.value;
        if (threadIdx.x == 0) chosen[i] = min(last.at, a.n_expert - 1); // in range for NaN, too
    }
    __syncthreads();
    const float sum = route_sum(a, row, chosen, max);
    for (int i = (int)threadIdx.x; i < a.n_used; i += 32) {
        const float w = mathf_exp(route_logit(a, row, chosen[i]) - max) / sum;
        a.share[(size_t)row * (size_t)a.n_used + (size_t)i] = w * a.scale;
    }
}
FXI_CUDA_KERNEL(fxi_cuda_route);

// ---- places ------------------------------------------------------------------------------------

// A thread per expert: it counts its choices and, when all know where they begin, lists them.
FXI_KERNEL(place, place, 256)
{
    const int n = live_count(a.count) * a.n_used, tid = (int)threadIdx.x;
    for (int e = tid; e < a.n_expert; e += 256) {
        int count = 0;
        for (int i = 0; i < n; i++) count += a.chosen[i] == e;
        a.range[e + 1] = count;
    }
    __syncthreads();
    if (tid == 0) {
        a.range[0] = 0;
        for (int e = 0; e < a.n_expert; e++) a.range[e + 1] += a.range[e];
    }
    __syncthreads();
    for (int e = tid; e < a.n_expert; e += 256) {
        int at = a.range[e];
        for (int i = 0; i < n; i++) {
            if (a.chosen[i] != e) continue;
            a.place[i] = at;
            a.place_row[at] = i / a.n_used;
            a.place_expert[at++] = e;
        }
    }
}
FXI_CUDA_KERNEL(fxi_cuda_place);

FXI_KERNEL(gather, gather, 256)
{
    const int place = (int)blockIdx.x, n = a.n;
    if (place >= live_count(a.count)) return;
    const size_t to = (size_t)place * (size_t)n, from = (size_t)a.place_row[place] * (size_t)n;
    for (int i = (int)threadIdx.x; i < n; i += 256) {
        if (a.to.x) a.to.x[to + i] = a.from.x[from + i];
        if (a.to.f16) a.to.f16[to + i] = a.from.f16[from + i];
        if (a.to.b16) a.to.b16[to + i] = a.from.b16[from + i];
        if (!a.to.q) continue;
        a.to.q[to + i] = a.from.q[from + i];
        if (i % 32 == 0) a.to.d[(to + i) / 32] = a.from.d[(from + i) / 32];
        if (i % 16 == 0) a.to.sum[(to + i) / 16] = a.from.sum[(from + i) / 16];
    }
}
FXI_CUDA_KERNEL(fxi_cuda_gather);

// ---- the sum -----------------------------------------------------------------------------------

FXI_KERNEL(combine, combine, 256)
{
    const int row = (int)blockIdx.x;
    if (row >= live_count(a.count)) return;
    const size_t dim = (size_t)a.dim, c0 = (size_t)row * (size_t)a.n_used;
    float of_shared = 1;
    if (a.shared && a.shared_gate)
        of_shared = 1 / (1 + mathf_exp(-a.shared_gate[row])); // fxi_sigmoid
    for (size_t i = threadIdx.x; i < dim; i += 256) {
        float h = 0;
        for (size_t c = c0; c < c0 + (size_t)a.n_used; c++) {
            float y = a.ex[(size_t)a.place[c] * dim + i];
            if (a.bias) y += a.bias[(size_t)a.chosen[c] * dim + i];
            h = fmaf(y, a.share[c], h);
        }
        if (a.shared) {
            float y = a.shared[(size_t)row * dim + i];
            if (a.shared_bias) y += a.shared_bias[i];
            h = fmaf(y, of_shared, h);
        }
        a.y[(size_t)row * dim + i] = h;
    }
}
FXI_CUDA_KERNEL(fxi_cuda_combine);
