// route.c - which experts a token's router chooses, and their weights.
#include <math.h>
#include <stdbool.h>

#include "kernels/ref/mathf.h"
#include "kernels/ref/ref.h"

// sum16 of expf(logit - max) over n logits, number i of them being logits[index ? index[i] : i].
static float sum_weights(const float *logits, const int *index, int n, float max)
{
    float lane[16] = {0};
    for (int i = 0; i < n; i++) lane[i % 16] += fxi_expf(logits[index ? index[i] : i] - max);
    return fxi_ref_fold16(lane);
}

// Whether expert a goes before expert b.
static bool expert_leads(const float *logits, int a, int b)
{
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

void fxi_route_experts(const float *logits, int n_expert, int n_used, fxi_route_norm norm,
                       int *expert, float *weight)
{
    int n = 0;
    for (int e = 0; e < n_expert; e++) { // insertion into the sorted choice so far
        int i = n < n_used ? n++ : n_used;
        for (; i > 0 && expert_leads(logits, e, expert[i - 1]); i--)
            if (i < n_used) expert[i] = expert[i - 1];
        if (i < n_used) expert[i] = e;
    }
    const float max = logits[expert[0]];
    const float sum = norm == FXI_ROUTE_ALL ? sum_weights(logits, NULL, n_expert, max)
                                            : sum_weights(logits, expert, n_used, max);
    for (int i = 0; i < n_used; i++) weight[i] = fxi_expf(logits[expert[i]] - max) / sum;
}

float fxi_sigmoid(float x)
{
    return 1 / (1 + fxi_expf(-x));
}
