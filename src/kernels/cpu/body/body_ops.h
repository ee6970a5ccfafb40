// body_ops.h - the operations on rows. Written once for every vector unit (cpu.h).
// Needs: a vec*.h.
#include <math.h>

// sum16(x * x)
static float sum_squares(const float *x, int n)
{
    v16 acc = v16_zero();
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        v16 v = v16_load(x + i);
        acc = v16_fma(v, v, acc);
    }
    v16 v = v16_load_n(x + i, n - i);
    return v16_fold(v16_fma(v, v, acc));
}

static void rms_norm(const float *x, const float *w, int n, float eps, float *y)
{
    v16 scale = v16_set1(1 / sqrtf(sum_squares(x, n) / (float)n + eps));
    int i = 0;
    for (; i + 16 <= n; i += 16)
        v16_store(y + i, v16_mul(v16_mul(v16_load(x + i), scale), v16_load(w + i)));
    int m = n - i;
    v16_store_n(y + i, v16_mul(v16_mul(v16_load_n(x + i, m), scale), v16_load_n(w + i, m)), m);
}

static void add_row(float *y, const float *x, int n)
{
    int i = 0;
    for (; i + 16 <= n; i += 16) v16_store(y + i, v16_add(v16_load(y + i), v16_load(x + i)));
    for (; i < n; i++) y[i] += x[i];
}

static v16 swiglu_16(v16 gate, v16 up)
{
    v16 e = v16_exp(v16_sub(v16_set1(-0.0f), gate)); // -0 - x is -x, also for zeros
    return v16_mul(v16_div(gate, v16_add(v16_set1(1), e)), up);
}

static void swiglu(const float *gate, const float *up, int n, float *y)
{
    int i = 0;
    for (; i + 16 <= n; i += 16) v16_store(y + i, swiglu_16(v16_load(gate + i), v16_load(up + i)));
    int m = n - i;
    v16_store_n(y + i, swiglu_16(v16_load_n(gate + i, m), v16_load_n(up + i, m)), m);
}

static void rope_head(float *x, int n_pair, const float *cos, const float *sin)
{
    int i = 0;
    for (; i + 8 <= n_pair; i += 8) {
        v16 v = v16_load(x + 2 * i);
        v16 turned = v16_mul(v16_swap_pairs(v), v16_load_twice(sin + i));
        v16_store(x + 2 * i, v16_fmaddsub(v, v16_load_twice(cos + i), turned));
    }
    for (; i < n_pair; i++) {
        float x0 = x[2 * i], x1 = x[2 * i + 1];
        x[2 * i] = fmaf(x0, cos[i], -(x1 * sin[i]));
        x[2 * i + 1] = fmaf(x1, cos[i], x0 * sin[i]);
    }
}

static void rope(float *x, int n_head, int head_dim, int n_pair, const float *cos, const float *sin)
{
    for (int h = 0; h < n_head; h++) rope_head(x + (size_t)h * (size_t)head_dim, n_pair, cos, sin);
}

static int32_t quant_16(const float *x, v16 inv, int8_t *q)
{
    v16 r = v16_max(v16_mul(v16_load(x), inv), v16_set1(-127)); // NaN to -127, as in ref
    return v16_to_i8(q, v16_min(r, v16_set1(127)));
}

static void quant_q8(const float *x, int n, int8_t *q, float *d, int32_t *sum)
{
    for (int b = 0; b < n / 32; b++, x += 32, q += 32) {
        float scale = v16_max_lane(v16_max(v16_abs(v16_load(x)), v16_abs(v16_load(x + 16)))) / 127;
        float inv = 1 / scale;
        bool tiny = isinf(inv);
        v16 v = v16_set1(tiny ? 0 : inv);
        d[b] = tiny ? 0 : scale;
        sum[2 * b] = quant_16(x, v, q);
        sum[2 * b + 1] = quant_16(x + 16, v, q + 16);
    }
}
