// experts.cu - mixtures of experts: the router's choice, the places of the chosen rows, the sum of
// their results.
#include "kernels/cuda/cuda_device.h"

// ---- route -------------------------------------------------------------------------------------

// The key of an expert (kernels.h); the lower index goes first among equals.
typedef struct expert_key {
    float value;
    int at; // n_expert: none
} expert_key;

// A row on its way to a choice.
typedef struct route_row {
    const fxi_cuda_route_args &a;
    int row;
    float max;     // of the logits
    float sum;     // of all scores, where it is used
    uint64_t open; // bit g: the experts of group g may be chosen
} route_row;

FXI_DEVICE bool key_leads(const expert_key &p, const expert_key &q)
{
    return p.value > q.value || (p.value == q.value && p.at < q.at);
}

FXI_DEVICE float route_logit(const route_row &r, int e)
{
    const float v = r.a.logits[(size_t)r.row * (size_t)r.a.router.n_expert + (size_t)e];
    return r.a.bias ? v + r.a.bias[e] : v;
}

FXI_DEVICE float route_score(const route_row &r, int e)
{
    const float x = route_logit(r, e);
    return r.a.router.score == FXI_ROUTE_SIGMOID ? 1 / (1 + mathf_exp(-x)) : mathf_exp(x - r.max);
}

FXI_DEVICE float route_key(const route_row &r, int e)
{
    const bool is_sigmoid = r.a.router.score == FXI_ROUTE_SIGMOID;
    if (!r.a.choice_bias) return is_sigmoid ? route_score(r, e) : route_logit(r, e);
    const float p = route_score(r, e);
    return (is_sigmoid ? p : p / r.sum) + r.a.choice_bias[e];
}

FXI_DEVICE float max_logit(const route_row &r)
{
    float max = minus_inf();
    for (int e = (int)threadIdx.x; e < r.a.router.n_expert; e += 32)
        max = fmaxf(max, route_logit(r, e));
    for (int h = 16; h; h /= 2) max = fmaxf(max, __shfl_xor_sync(WHOLE_WARP, max, h));
    return max;
}

FXI_DEVICE float group_key(const route_row &r, int group, int n)
{
    float best = minus_inf(), second = minus_inf();
    for (int e = group * n; e < (group + 1) * n; e++) {
        const float key = route_key(r, e);
        second = fmaxf(second, fminf(best, key));
        best = fmaxf(best, key);
    }
    return r.a.router.score == FXI_ROUTE_SIGMOID && n > 1 ? best + second : best;
}

// A lane per group: it finds the group's key, and when all have theirs how many go before it.
FXI_DEVICE uint64_t open_groups(const route_row &r)
{
    __shared__ float key[FXI_MAX_EXPERT_GROUP];
    const fxi_router &to = r.a.router;
    uint64_t open = 0;
    for (int g = (int)threadIdx.x; g < to.n_group; g += 32)
        key[g] = group_key(r, g, to.n_expert / to.n_group);
    __syncthreads();
    for (int g = (int)threadIdx.x; g < to.n_group; g += 32) {
        int n_before = 0;
        for (int o = 0; o < to.n_group; o++) {
            const expert_key of_o = {key[o], o}, of_g = {key[g], g};
            n_before += key_leads(of_o, of_g);
        }
        if (n_before < to.n_group_used) open |= (uint64_t)1 << g;
    }
    for (int h = 16; h; h /= 2) open |= __shfl_xor_sync(WHOLE_WARP, open, h);
    return open;
}

// The expert that goes next after `last` in the router's order; all lanes of the warp get it.
FXI_DEVICE expert_key next_expert(const route_row &r, const expert_key &last)
{
    const fxi_router &to = r.a.router;
    const int n_of_group = to.n_expert / (to.n_group ? to.n_group : 1);
    expert_key best = {minus_inf(), to.n_expert};
    for (int e = (int)threadIdx.x; e < to.n_expert; e += 32) {
        if (!(r.open >> e / n_of_group & 1)) continue;
        const expert_key x = {route_key(r, e), e};
        if (key_leads(last, x) && key_leads(x, best)) best = x;
    }
    for (int h = 16; h; h /= 2) {
        const expert_key other = {__shfl_xor_sync(WHOLE_WARP, best.value, h),
                                  __shfl_xor_sync(WHOLE_WARP, best.at, h)};
        if (key_leads(other, best)) best = other;
    }
    return best;
}

// sum16 of the scores of n experts, number i of them being index ? index[i] : i.
FXI_DEVICE float sum_scores(const route_row &r, const int32_t *index, int n)
{
    float s = 0;
    for (int i = (int)threadIdx.x % 16; i < n; i += 16) s += route_score(r, index ? index[i] : i);
    return fold_lanes(s);
}

// A warp per row.
FXI_KERNEL(route, route, 32)
{
    const fxi_router &to = a.router;
    const bool is_softmax = to.score == FXI_ROUTE_SOFTMAX, sums_all = to.norm == FXI_ROUTE_ALL;
    route_row r = {a, (int)blockIdx.x, 0, 0, 1};
    if (r.row >= live_count(a.count)) return;
    int32_t *chosen = a.chosen + (size_t)r.row * (size_t)to.n_used;
    expert_key last = {-minus_inf(), -1};
    if (is_softmax) r.max = max_logit(r);
    if (is_softmax && (a.choice_bias || sums_all)) r.sum = sum_scores(r, 0, to.n_expert);
    if (to.n_group) r.open = open_groups(r);
    for (int i = 0; i < to.n_used; i++) {
        last = next_expert(r, last);
        if (threadIdx.x == 0) chosen[i] = min(last.at, to.n_expert - 1); // in range for NaN, too
    }
    __syncthreads();
    const float sum = !sums_all    ? sum_scores(r, chosen, to.n_used) + FXI_ROUTE_TINY
                      : is_softmax ? r.sum
                                   : 1;
    for (int i = (int)threadIdx.x; i < to.n_used; i += 32)
        a.share[(size_t)r.row * (size_t)to.n_used + (size_t)i] =
            route_score(r, chosen[i]) / sum * to.scale;
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
