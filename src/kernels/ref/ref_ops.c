// ref_ops.c - the operations on rows as kernels.h defines them.
#include <math.h>

#include "kernels/ref/mathf.h"
#include "kernels/ref/ref.h"

float fxi_ref_fold16(float lane[16])
{
    for (int half = 8; half; half /= 2)
        for (int j = 0; j < half; j++) lane[j] += lane[j + half];
    return lane[0];
}

float fxi_ref_sum16(const float *a, int n)
{
    float lane[16] = {0};
    for (int i = 0; i < n; i++) lane[i % 16] += a[i];
    return fxi_ref_fold16(lane);
}

// sum16 of the products a[i] * b[i].
static float sum_products(const float *a, const float *b, int n)
{
    float lane[16] = {0};
    for (int i = 0; i < n; i++) lane[i % 16] = fmaf(a[i], b[i], lane[i % 16]);
    return fxi_ref_fold16(lane);
}

// One block of 32. The clamp is for inf and NaN; finite numbers never leave [-127, 127].
static void quant_block(const float *x, int8_t *q, float *d, int32_t *sum)
{
    float amax = 0;
    for (int i = 0; i < 32; i++) amax = fmaxf(amax, fabsf(x[i]));
    float inv = 1 / (amax / 127);
    *d = isinf(inv) ? 0 : amax / 127;
    sum[0] = sum[1] = 0;
    for (int i = 0; i < 32; i++) {
        float r = isinf(inv) ? 0 : rintf(x[i] * inv);
        q[i] = (int8_t)fminf(fmaxf(r, -127), 127);
        sum[i / 16] += q[i];
    }
}

void fxi_ref_quant_q8(const float *x, int n, int8_t *q, float *d, int32_t *sum)
{
    for (int b = 0; b < n / 32; b++) quant_block(x + 32 * b, q + 32 * b, d + b, sum + 2 * b);
}

void fxi_ref_rms_norm(const float *x, const float *w, int n, float eps, float *y)
{
    float mean = sum_products(x, x, n) / (float)n;
    float scale = 1 / sqrtf(mean + eps);
    for (int i = 0; i < n; i++) y[i] = x[i] * scale * w[i];
}

// sum16 of (x - mean) squared.
static float sum_deviations(const float *x, int n, float mean)
{
    float lane[16] = {0};
    for (int i = 0; i < n; i++) lane[i % 16] = fmaf(x[i] - mean, x[i] - mean, lane[i % 16]);
    return fxi_ref_fold16(lane);
}

void fxi_ref_layer_norm(const float *x, const float *w, const float *b, int n, float eps, float *y)
{
    float mean = fxi_ref_sum16(x, n) / (float)n;
    float scale = 1 / sqrtf(sum_deviations(x, n, mean) / (float)n + eps);
    for (int i = 0; i < n; i++) {
        float v = (x[i] - mean) * scale;
        y[i] = b ? fmaf(v, w[i], b[i]) : v * w[i];
    }
}

void fxi_ref_add(float *y, const float *x, int n)
{
    for (int i = 0; i < n; i++) y[i] += x[i];
}

void fxi_ref_add_scaled(float *y, const float *x, float f, int n)
{
    for (int i = 0; i < n; i++) y[i] = fmaf(x[i], f, y[i]);
}

void fxi_ref_scale(float *x, float f, int n)
{
    for (int i = 0; i < n; i++) x[i] *= f;
}

float fxi_ref_cap_score(float x, float cap)
{
    return cap * fxi_tanhf(x * (1 / cap));
}

void fxi_ref_softcap(float *x, float cap, int n)
{
    for (int i = 0; i < n; i++) x[i] = fxi_ref_cap_score(x[i], cap);
}

void fxi_ref_rope(float *x, int n_head, int head_dim, int n_pair, const float *cos,
                  const float *sin)
{
    for (int h = 0; h < n_head; h++)
        for (int i = 0; i < n_pair; i++) {
            float *pair = x + h * head_dim + 2 * i;
            float x0 = pair[0], x1 = pair[1];
            pair[0] = fmaf(x0, cos[i], -(x1 * sin[i]));
            pair[1] = fmaf(x1, cos[i], x0 * sin[i]);
        }
}

void fxi_ref_store_f32(const float *src, int n, void *dst)
{
    fxi_row_from_f32(FXI_F32, src, (size_t)n, dst);
}

void fxi_ref_store_f16(const float *src, int n, void *dst)
{
    fxi_row_from_f32(FXI_F16, src, (size_t)n, dst);
}

void fxi_ref_store_bf16(const float *src, int n, void *dst)
{
    fxi_row_from_f32(FXI_BF16, src, (size_t)n, dst);
}

void fxi_ref_store_q8_0(const float *src, int n, void *dst)
{
    fxi_block_q8_0 *block = dst;
    for (; n > 0; n -= FXI_Q8_0_ELEMS, src += FXI_Q8_0_ELEMS, block++) {
        float d;
        int32_t sum[2];
        fxi_ref_quant_q8(src, FXI_Q8_0_ELEMS, block->q, &d, sum);
        block->d = fxi_f32_to_f16(d);
    }
}
