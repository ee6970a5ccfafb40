// encode.c - converts rows from one type to another, a task per row, and refines quantized blocks
// by the weights of an importance matrix.
//
// Refining is coordinate descent on the weighted squared error: the scales of the block by least
// squares for the codes, then for each run the stored scale (and offset) and their neighbours, each
// with the nearest codes. A round that does not help ends it; a block never gets worse. Sums have
// one order: the same bits everywhere.
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "format/quantize/quantize_impl.h"

// ---- refining a block ---------------------------------------------------------------------------

enum { MAX_ROUND = 4, LANES = 4, MAX_SUB = 32 };

#define F16_MAX 65504.0f

static float f16_of(uint16_t h)
{
    return fxi_f16_to_f32(h);
}

static uint16_t nearest_f16(float v)
{
    return fxi_f32_to_f16(v > F16_MAX ? F16_MAX : v < -F16_MAX ? -F16_MAX : v);
}

static double weigh_error(const fxi_qformat *f, const float *x, const float *weight,
                          const fxi_qblock *b)
{
    float y[FXI_QBLOCK_MAX];
    double sum = 0;
    fxi_qblock_to_f32(f, b, y);
    for (int i = 0; i < f->n; i++) {
        const double e = (double)y[i] - (double)x[i];
        sum += (double)weight[i] * e * e;
    }
    return sum;
}

// ---- d and m for given codes -------------------------------------------------------------------

static int scale_of_run(const fxi_qformat *f, const fxi_qblock *b, int i)
{
    return f->sc_max > 0 ? b->sc[i / f->sub] : 1;
}

// What m is multiplied with: types of 32 add it, the others subtract multiples of it.
static int offset_of_run(const fxi_qformat *f, const fxi_qblock *b, int i)
{
    if (!f->has_min) return 0;
    return f->sc_max > 0 ? -(int)b->mn[i / f->sub] : 1;
}

// Least squares of x ~ d a + m o over the block.
static void fit_block_scales(const fxi_qformat *f, const float *x, const float *weight,
                             fxi_qblock *b)
{
    double aa = 0, ao = 0, oo = 0, ax = 0, ox = 0;
    for (int i = 0; i < f->n; i++) {
        const double a = scale_of_run(f, b, i) * (b->code[i] - f->zero), o = offset_of_run(f, b, i);
        const double w = (double)weight[i], v = (double)x[i];
        aa += w * a * a;
        ao += w * a * o;
        oo += w * o * o;
        ax += w * a * v;
        ox += w * o * v;
    }
    const double det = aa * oo - ao * ao;
    if (f->has_min && det > 1e-12 * aa * oo) {
        b->d = nearest_f16((float)((ax * oo - ox * ao) / det));
        b->m = nearest_f16((float)((aa * ox - ao * ax) / det));
    } else if (aa > 0) {
        b->d = nearest_f16((float)((ax - ao * (double)f16_of(b->m)) / aa));
    }
}

// ---- codes and the runs' scales ----------------------------------------------------------------

// The nearest codes of a run with a scale and an offset; the weighted error, in LANES sums so that
// the compiler may vectorise them.
static float set_nearest_codes(const fxi_qformat *f, const float *x, const float *weight,
                               float scale, float offset, uint8_t *code)
{
    const float inv = scale != 0 ? 1 / scale : 0, zero = (float)f->zero;
    const float top = (float)((1 << f->bits) - 1);
    float c[MAX_SUB], sum[LANES] = {0};
    for (int i = 0; i < f->sub; i++) {
        float v = (x[i] - offset) * inv + zero;
        v = v > 0 ? v : 0;
        v = v < top ? v : top;
        c[i] = (v + 0x1.8p23f) - 0x1.8p23f; // to the nearest whole number
    }
    for (int i = 0; i < f->sub; i += LANES)
        for (int l = 0; l < LANES; l++) {
            const float e = scale * (c[i + l] - zero) + offset - x[i + l];
            sum[l] += weight[i + l] * (e * e);
        }
    for (int i = 0; i < f->sub; i++) code[i] = (uint8_t)c[i];
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

static bool in_range(int v, int lo, int hi)
{
    return v >= lo && v <= hi;
}

// Tries the neighbours of run j's stored scale and offset, keeps the best with its codes.
static void refine_run(const fxi_qformat *f, const float *x, const float *weight, int j,
                       fxi_qblock *b)
{
    const int at = j * f->sub, sc0 = b->sc[j], mn0 = b->mn[j], reach = f->has_min ? 1 : 0;
    const float d = f16_of(b->d), m = f16_of(b->m);
    float best = INFINITY;
    for (int ds = -1; ds <= 1; ds++)
        for (int dm = -reach; dm <= reach; dm++) {
            uint8_t code[MAX_SUB];
            const int sc = sc0 + ds, mn = mn0 + dm;
            if (!in_range(sc, f->sc_min, f->sc_max) || !in_range(mn, 0, f->has_min ? f->sc_max : 0))
                continue;
            const double e =
                set_nearest_codes(f, x + at, weight + at, d * (float)sc, -(m * (float)mn), code);
            if (!(e < best)) continue;
            best = e;
            b->sc[j] = (int8_t)sc;
            b->mn[j] = (uint8_t)mn;
            for (int i = 0; i < f->sub; i++) b->code[at + i] = code[i];
        }
}

static void refine_codes(const fxi_qformat *f, const float *x, const float *weight, fxi_qblock *b)
{
    if (f->sc_max <= 0) {
        set_nearest_codes(f, x, weight, f16_of(b->d), f16_of(b->m), b->code);
        return;
    }
    for (int j = 0; j < f->n / f->sub; j++) refine_run(f, x, weight, j, b);
}

void fxi_qblock_refine(const fxi_qformat *f, const float *x, const float *weight, fxi_qblock *b)
{
    double error = weigh_error(f, x, weight, b);
    for (int round = 0; round < MAX_ROUND && error > 0; round++) {
        fxi_qblock next = *b;
        fit_block_scales(f, x, weight, &next);
        refine_codes(f, x, weight, &next);
        const double e = weigh_error(f, x, weight, &next);
        if (!(e < error)) return;
        error = e;
        *b = next;
    }
}

// ---- converting rows ----------------------------------------------------------------------------

typedef struct encode_task {
    const fxi_encode_rows *job;
    size_t src_bytes, dst_bytes; // sizes of a row
    float *number;               // [n_row][n_col]
    float limit;                 // the largest magnitude of a number
    _Atomic size_t bad_row;
} encode_task;

static size_t bytes_of_row(const fxi_dtype_info *type, size_t n_col)
{
    return n_col / type->block_elems * type->block_bytes;
}

static bool all_below(const float *x, size_t n, float limit)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(x[i]) <= limit)) return false; // NaN, too
    return true;
}

static const float *weights_of_row(const fxi_encode_rows *job, size_t row)
{
    if (!job->weight) return NULL;
    const size_t slice = (job->first_row + row) / job->rows_per_slice;
    return job->weight + (slice < job->n_slice ? slice : job->n_slice - 1) * job->n_col;
}

// weight: NULL if all numbers matter alike.
static void encode_weighted(const fxi_qformat *f, const fxi_dtype_info *to, const float *x,
                            const float *weight, size_t n, char *dst)
{
    float alike[FXI_QBLOCK_MAX];
    for (int i = 0; i < FXI_QBLOCK_MAX; i++) alike[i] = 1;
    for (size_t i = 0; i < n; i += (size_t)f->n, dst += to->block_bytes) {
        fxi_qblock b;
        fxi_qblock_from_f32(f, x + i, &b);
        fxi_qblock_refine(f, x + i, weight ? weight + i : alike, &b);
        f->write(&b, dst);
    }
}

// Where the scales are quantized as well, refining pays even without weights.
static bool needs_refining(const fxi_qformat *f, const float *weight)
{
    return f && f->type != FXI_Q8_0 && !f->value && (weight || f->sc_max > 0);
}

static void encode_row(void *arg, int task)
{
    encode_task *t = arg;
    const fxi_encode_rows *job = t->job;
    const size_t row = (size_t)task, n = job->n_col;
    const char *src = (const char *)job->src + row * t->src_bytes;
    char *dst = (char *)job->dst + row * t->dst_bytes;
    float *x = t->number + row * n;
    fxi_row_to_f32((fxi_dtype)job->from->id, src, n, x);
    if (!all_below(x, n, t->limit)) {
        size_t known = atomic_load(&t->bad_row);
        while (row < known && !atomic_compare_exchange_weak(&t->bad_row, &known, row)) continue;
        return;
    }
    const fxi_qformat *f = fxi_qformat_find((fxi_dtype)job->to->id);
    const float *weight = weights_of_row(job, row);
    if (needs_refining(f, weight))
        encode_weighted(f, job->to, x, weight, n, dst);
    else
        fxi_row_from_f32((fxi_dtype)job->to->id, x, n, dst);
}

// A type whose scale is an f16 reaches 65504 times the largest code.
static float largest_number_of(const fxi_dtype_info *to)
{
    static const struct {
        uint32_t id;
        float limit;
    } limits[] = {{FXI_F32, INFINITY}, {FXI_BF16, 0x1.fep127f}, {FXI_F16, 65504.0f}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].id == to->id) return i ? limits[i].limit : 0x1.fffffep127f;
    return 65504.0f;
}

fx_status fxi_rows_encode(const fxi_encode_rows *job, fxi_pool *pool, size_t *bad_row,
                          fx_error *err)
{
    encode_task t = {.job = job,
                     .src_bytes = bytes_of_row(job->from, job->n_col),
                     .dst_bytes = bytes_of_row(job->to, job->n_col),
                     .limit = largest_number_of(job->to)};
    atomic_init(&t.bad_row, job->n_row);
    t.number = malloc(job->n_row * job->n_col * sizeof *t.number);
    if (!t.number) return fxi_fail(err, FX_ENOMEM, "no memory for %zu rows", job->n_row);
    fxi_pool_run(pool, encode_row, &t, (int)job->n_row);
    free(t.number);
    *bad_row = atomic_load(&t.bad_row);
    return FX_OK;
}
