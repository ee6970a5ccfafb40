// encode.c - converts rows from one type to another, a task per row.
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "format/quantize/quantize_impl.h"

typedef struct encode_task {
    const fxi_encode_rows *job;
    size_t src_bytes, dst_bytes; // of a row
    float *number;               // [n_row][n_col]
    float limit;                 // of a number's size
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

// Where scales are rounded themselves, it pays without weights, too.
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

// Types whose scale is an f16 reach 65504 times the largest code.
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
