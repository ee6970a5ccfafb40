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

// sum16(x)
static float sum_row(const float *x, int n)
{
    v16 acc = v16_zero();
    int i = 0;
    for (; i + 16 <= n; i += 16) acc = v16_add(acc, v16_load(x + i));
    return v16_fold(v16_add(acc, v16_load_n(x + i, n - i)));
}

// sum16 of (x - mean) squared.
static float sum_deviations(const float *x, int n, float mean)
{
    const v16 m = v16_set1(mean);
    v16 acc = v16_zero();
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        v16 v = v16_sub(v16_load(x + i), m);
        acc = v16_fma(v, v, acc);
    }
    v16 v = v16_first(n - i, v16_sub(v16_load_n(x + i, n - i), m), v16_zero());
    return v16_fold(v16_fma(v, v, acc));
}

static void layer_norm(const float *x, const float *w, const float *b, int n, float eps, float *y)
{
    float mean = sum_row(x, n) / (float)n;
    const v16 m = v16_set1(mean);
    const v16 scale = v16_set1(1 / sqrtf(sum_deviations(x, n, mean) / (float)n + eps));
    for (int i = 0, k; i < n; i += k) {
        k = n - i < 16 ? n - i : 16;
        v16 v = v16_mul(v16_sub(v16_load_n(x + i, k), m), scale), wi = v16_load_n(w + i, k);
        v16_store_n(y + i, b ? v16_fma(v, wi, v16_load_n(b + i, k)) : v16_mul(v, wi), k);
    }
}

static void add_row(float *y, const float *x, int n)
{
    int i = 0;
    for (; i + 16 <= n; i += 16) v16_store(y + i, v16_add(v16_load(y + i), v16_load(x + i)));
    for (; i < n; i++) y[i] += x[i];
}

static void add_scaled(float *y, const float *x, float f, int n)
{
    const v16 factor = v16_set1(f);
    int i = 0;
    for (; i + 16 <= n; i += 16)
        v16_store(y + i, v16_fma(v16_load(x + i), factor, v16_load(y + i)));
    for (; i < n; i++) y[i] = fmaf(x[i], f, y[i]);
}

static void multiply_row(float *y, const float *x, int n)
{
    int i = 0;
    for (; i + 16 <= n; i += 16) v16_store(y + i, v16_mul(v16_load(y + i), v16_load(x + i)));
    for (; i < n; i++) y[i] *= x[i];
}

static void conv_row(const fxi_conv *c)
{
    const size_t n = (size_t)c->n_channel;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        v16 y = c->b ? v16_load(c->b + i) : v16_set1(0);
        for (int j = 0; j < c->n_tap; j++)
            if (c->x[j]) y = v16_fma(v16_load(c->x[j] + i), v16_load(c->w + (size_t)j * n + i), y);
        v16_store(c->y + i, y);
    }
    for (; i < n; i++) {
        float y = c->b ? c->b[i] : 0;
        for (int j = 0; j < c->n_tap; j++)
            if (c->x[j]) y = fmaf(c->x[j][i], c->w[(size_t)j * n + i], y);
        c->y[i] = y;
    }
}

static void scale_row(float *x, float f, int n)
{
    const v16 factor = v16_set1(f);
    int i = 0;
    for (; i + 16 <= n; i += 16) v16_store(x + i, v16_mul(v16_load(x + i), factor));
    for (; i < n; i++) x[i] *= f;
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
