// qfit.c - quantises numbers to blocks: scales and codes with a small squared error.
//
// First each run of numbers that share a scale is fitted, as if its scale (and offset) were stored
// exactly: steps slightly wider and narrower than the range requires are tried; for the codes of
// each, least squares gives the best scale and offset, and the best trial wins. Then scales and
// offsets are rounded to what the type stores, and the codes are computed again with those.
//
// Types whose codes stand for values of a table are fitted in the same way, with the nearest value
// in place of the nearest integer. MXFP4's scale is a power of two: the better of two is taken.
//
// Sums run in LANES lanes, so the compiler may vectorise them and the result is the same on every
// machine.
#include <math.h>
#include <string.h>

#include "base/number/qblock.h"

enum { LANES = 4, MAX_SUB = 32, MAX_RUN = 16 };

#define F16_MAX 65504.0f

// Beyond every type's range, and small enough that sums of its squares do not overflow.
#define LARGEST 0x1p30f

// A range below this is 0 for every type: the finest step of an f16 scale is 2^-24.
#define NOTHING 0x1p-40f

typedef struct run_fit { // of a run: x ~ scale x (code - zero) + min
    float scale, min;
} run_fit;

static float clamp_to(float x, float lo, float hi)
{
    x = x > lo ? x : lo;
    return x < hi ? x : hi;
}

// To the nearest whole number, halves to even. Pre: |x| < 2^22.
static float round_even(float x)
{
    return (x + 0x1.8p23f) - 0x1.8p23f;
}

static float add_lanes(const float v[LANES])
{
    return (v[0] + v[2]) + (v[1] + v[3]);
}

// The nearest f16, but finite, and 0 only for 0: too wide a step is better than none.
static uint16_t to_f16(float x)
{
    uint16_t h = fxi_f32_to_f16(clamp_to(x, -F16_MAX, F16_MAX));
    return x != 0 && !(h & 0x7fff) ? h | 1 : h;
}

// ---- one run -----------------------------------------------------------------------------------

// Trials go from N_TRIAL quarters of a code below the full range to as many above.
enum { N_TRIAL = 4 };
#define TRIAL_STEP 0.25f
#define VALUE_STEP 0.02f // of a table's range

typedef struct run_sums { // over a run; q: its codes less zero, x: its numbers
    float q, qq, qx;
} run_sums;

// The codes of x [n] with steps of 1 / inv, none below lo or above hi. n: a multiple of LANES.
static run_sums try_step(const float *x, int n, float inv, float lo, float hi)
{
    float c[MAX_SUB], q[LANES] = {0}, qq[LANES] = {0}, qx[LANES] = {0};
    for (int i = 0; i < n; i++) c[i] = round_even(clamp_to(x[i] * inv, lo, hi));
    for (int i = 0; i < n; i += LANES)
        for (int l = 0; l < LANES; l++) q[l] += c[i + l];
    for (int i = 0; i < n; i += LANES)
        for (int l = 0; l < LANES; l++) qq[l] += c[i + l] * c[i + l];
    for (int i = 0; i < n; i += LANES)
        for (int l = 0; l < LANES; l++) qx[l] += c[i + l] * x[i + l];
    return (run_sums){add_lanes(q), add_lanes(qq), add_lanes(qx)};
}

// Without an offset. The number farthest from 0 gets the lowest code: there is one more of these.
static run_fit fit_scale(const fxi_qformat *f, const float *x)
{
    float peak = 0, zero = (float)f->zero, best = 0;
    for (int i = 0; i < f->sub; i++) peak = fabsf(x[i]) > fabsf(peak) ? x[i] : peak;
    run_fit r = {0, 0};
    if (fabsf(peak) < NOTHING) return r;
    for (int k = -N_TRIAL; k <= N_TRIAL; k++) {
        float inv = -(zero + (float)k * TRIAL_STEP) / peak;
        run_sums s = try_step(x, f->sub, inv, -zero, zero - 1);
        float gain = s.qx * (s.qx / s.qq); // sum x^2 less the squared error
        if (gain > best) best = gain, r.scale = s.qx / s.qq;
    }
    return r;
}

// Least squares of u ~ scale x q + offset, offset <= top. sum_u: of u [n].
static run_fit solve_least_squares(const run_sums *s, float n, float sum_u, float top)
{
    float det = n * s->qq - s->q * s->q;
    run_fit r = {0, sum_u / n};
    if (det > 0) {
        r.scale = (n * s->qx - s->q * sum_u) / det;
        r.min = (sum_u - r.scale * s->q) / n;
    }
    if (r.min > top) {
        r.min = top;
        r.scale = s->qq > 0 ? (s->qx - top * s->q) / s->qq : 0;
    }
    return r;
}

// With an offset, which is at most `top`.
static run_fit fit_range(const fxi_qformat *f, const float *x, float top)
{
    float lo = x[0] < top ? x[0] : top, hi = lo, u[MAX_SUB], n = (float)f->sub;
    for (int i = 0; i < f->sub; i++) lo = x[i] < lo ? x[i] : lo, hi = x[i] > hi ? x[i] : hi;
    run_fit best = {0, lo};
    if (hi - lo < NOTHING) return best;
    float max_code = (float)((1 << f->bits) - 1), best_gain = 0, lanes[LANES] = {0};
    for (int i = 0; i < f->sub; i++) lanes[i % LANES] += u[i] = x[i] - lo; // smaller than x
    float sum_u = add_lanes(lanes);
    for (int k = -N_TRIAL; k <= N_TRIAL; k++) {
        float inv = (max_code + (float)k * TRIAL_STEP) / (hi - lo);
        run_sums s = try_step(u, f->sub, inv, 0, max_code);
        run_fit r = solve_least_squares(&s, n, sum_u, top - lo);
        float gain = 2 * (r.scale * s.qx + r.min * sum_u - r.scale * r.min * s.q) -
                     r.scale * r.scale * s.qq - n * r.min * r.min;
        if (gain > best_gain) best_gain = gain, best = (run_fit){r.scale, lo + r.min};
    }
    return best;
}

// ---- codes that stand for values ---------------------------------------------------------------

// The code of the nearest value, the lower code among equals.
static int nearest_code(const fxi_qformat *f, float x)
{
    int best = 0;
    for (int c = 1; c < 16; c++) {
        float off = fabsf((float)fxi_qformat_value(f, c) - x);
        if (off < fabsf((float)fxi_qformat_value(f, best) - x)) best = c;
    }
    return best;
}

static run_sums try_values(const fxi_qformat *f, const float *x, float inv)
{
    run_sums s = {0, 0, 0};
    for (int i = 0; i < f->sub; i++) {
        float v = (float)fxi_qformat_value(f, nearest_code(f, x[i] * inv));
        s.qq += v * v;
        s.qx += v * x[i];
    }
    return s;
}

// The number farthest from 0 gets about the largest value, of either sign.
static run_fit fit_values(const fxi_qformat *f, const float *x)
{
    float peak = 0, best = 0, top = (float)fxi_qformat_value(f, 15);
    float bottom = (float)fxi_qformat_value(f, 0);
    for (int i = 0; i < f->sub; i++) peak = fabsf(x[i]) > fabsf(peak) ? x[i] : peak;
    run_fit r = {0, 0};
    if (fabsf(peak) < NOTHING) return r;
    for (int k = -N_TRIAL; k <= N_TRIAL; k++)
        for (int end = 0; end < 2; end++) {
            float inv = (end ? top : bottom) * (1 + (float)k * VALUE_STEP) / peak;
            run_sums s = try_values(f, x, inv);
            float gain = s.qq > 0 ? s.qx * (s.qx / s.qq) : 0;
            if (gain > best) best = gain, r.scale = s.qx / s.qq;
        }
    return r;
}

// d of MXFP4: the power of two with which the largest number is at most the largest value, or half
// of that, which cuts the largest numbers off and is finer for the others.
static uint16_t fit_power(const fxi_qformat *f, const float *x)
{
    float peak = 0, best = INFINITY;
    int e0 = 0;
    uint16_t d = 0x20; // 2^-128, the smallest
    for (int i = 0; i < f->sub; i++) peak = fabsf(x[i]) > peak ? fabsf(x[i]) : peak;
    if (peak < NOTHING) return d;
    frexpf(peak / FXI_E2M1_ZERO, &e0); // peak <= 12 x 2^e0
    for (int e = e0 - 1; e <= e0; e++) {
        float scale = ldexpf(1, e), error = 0;
        for (int i = 0; i < f->sub; i++) {
            float v = (float)fxi_qformat_value(f, nearest_code(f, x[i] / scale));
            error += (v * scale - x[i]) * (v * scale - x[i]);
        }
        if (error < best) best = error, d = fxi_f32_to_bf16(scale);
    }
    return d;
}

static void set_value_codes(const fxi_qformat *f, const float *x, float scale, uint8_t *code)
{
    float inv = scale != 0 ? 1 / scale : 0;
    for (int i = 0; i < f->sub; i++) code[i] = (uint8_t)nearest_code(f, x[i] * inv);
}

static void set_codes(const fxi_qformat *f, const float *x, run_fit r, uint8_t *code)
{
    if (f->value) {
        set_value_codes(f, x, r.scale, code);
        return;
    }
    float inv = r.scale != 0 ? 1 / r.scale : 0, lo = (float)-f->zero;
    float hi = lo + (float)((1 << f->bits) - 1);
    for (int i = 0; i < f->sub; i++)
        code[i] = (uint8_t)((int)round_even(clamp_to((x[i] - r.min) * inv, lo, hi)) + f->zero);
}

// ---- blocks ------------------------------------------------------------------------------------

// Without an offset.
static run_fit fit_alone(const fxi_qformat *f, const float *x)
{
    return f->value ? fit_values(f, x) : fit_scale(f, x);
}

// Types of 32: one run.
static void fit_one(const fxi_qformat *f, const float *x, fxi_qblock *out)
{
    run_fit r = f->has_min ? fit_range(f, x, LARGEST) : fit_alone(f, x);
    out->d = f->d_bf16 ? fit_power(f, x) : to_f16(r.scale);
    out->m = fxi_f32_to_f16(clamp_to(r.min, -F16_MAX, F16_MAX));
    set_codes(f, x, (run_fit){fxi_qformat_scale(f, out->d), fxi_f16_to_f32(out->m)}, out->code);
}

// Writes v [n_run] as integer multiples, lo to hi, of a step, and returns the step as f16. The
// value farthest from 0 gets the outermost multiple or one less: the step is rounded away from 0,
// since values beyond the last multiple would be lost, and small f16 steps are coarse.
static uint16_t share_step(const float *v, int n_run, int lo, int hi, int *multiple)
{
    float peak = 0;
    for (int j = 0; j < n_run; j++) peak = fabsf(v[j]) > fabsf(peak) ? v[j] : peak;
    float want = peak / (float)(lo < 0 ? lo : hi);
    uint16_t h = to_f16(want);
    if (fabsf(fxi_f16_to_f32(h)) < fabsf(want) && fabsf(want) < F16_MAX) h++;
    float step = fxi_f16_to_f32(h);
    for (int j = 0; j < n_run; j++)
        multiple[j] = step != 0 ? (int)round_even(clamp_to(v[j] / step, (float)lo, (float)hi)) : 0;
    return h;
}

static void set_scales(const fxi_qformat *f, const run_fit *r, fxi_qblock *out)
{
    float scale[MAX_RUN] = {0}, depth[MAX_RUN] = {0};
    int sc[MAX_RUN], mn[MAX_RUN], n_run = f->n / f->sub;
    for (int j = 0; j < n_run; j++) scale[j] = r[j].scale, depth[j] = -r[j].min;
    out->d = share_step(scale, n_run, f->sc_min, f->sc_max, sc);
    for (int j = 0; j < n_run; j++) out->sc[j] = (int8_t)sc[j];
    if (!f->has_min) return;
    out->m = share_step(depth, n_run, 0, f->sc_max, mn);
    for (int j = 0; j < n_run; j++) out->mn[j] = (uint8_t)mn[j];
}

// Types of 256.
static void fit_runs(const fxi_qformat *f, const float *x, fxi_qblock *out)
{
    run_fit r[MAX_RUN];
    int n_run = f->n / f->sub;
    for (int j = 0; j < n_run; j++)
        r[j] = f->has_min ? fit_range(f, x + j * f->sub, 0) : fit_alone(f, x + j * f->sub);
    set_scales(f, r, out);
    float d = fxi_f16_to_f32(out->d), m = fxi_f16_to_f32(out->m);
    for (int j = 0; j < n_run; j++)
        set_codes(f, x + j * f->sub, (run_fit){d * (float)out->sc[j], -(m * (float)out->mn[j])},
                  out->code + j * f->sub);
}

void fxi_qblock_from_f32(const fxi_qformat *f, const float *x, fxi_qblock *out)
{
    float within[FXI_QBLOCK_MAX];
    for (int i = 0; i < f->n; i++) within[i] = clamp_to(x[i], -LARGEST, LARGEST);
    *out = (fxi_qblock){0};
    (f->sc_max > 0 ? fit_runs : fit_one)(f, within, out);
}
