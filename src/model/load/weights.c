// weights.c - see weights.h.
#include "model/load/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/show.h"
#include "kernels/linear.h"

#define NAME_BYTES 96
#define PART_BYTES ((uint64_t)4 << 20) // of a tensor: packed, reported and dropped at a time

static const char *key_name(fxi_tensor_key key, char out[NAME_BYTES])
{
    const char *kind = key.is_bias ? "bias" : "weight";
    if (key.layer < 0)
        snprintf(out, NAME_BYTES, "%s.%s", key.name, kind);
    else
        snprintf(out, NAME_BYTES, "blk.%d.%s.%s", key.layer, key.name, kind);
    return out;
}

static uint64_t all_tensor_bytes(const fxi_gguf *g)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < fxi_gguf_n_tensor(g); i++) sum += fxi_gguf_tensor_at(g, i)->size_bytes;
    return sum;
}

fx_status fxi_loader_init(fxi_loader *ld, const fxi_gguf *g, const fxi_model_options *opt,
                          fxi_arena *mem, bool is_dry, fx_error *err)
{
    *ld = (fxi_loader){
        .g = g, .opt = opt, .mem = mem, .is_dry = is_dry, .total_bytes = all_tensor_bytes(g)};
    ld->taken = calloc(fxi_gguf_n_tensor(g) + 1, sizeof *ld->taken);
    if (!ld->taken) return fxi_fail(err, FX_ENOMEM, "%s: no memory", fxi_gguf_name(g));
    return FX_OK;
}

void fxi_loader_free(fxi_loader *ld)
{
    free(ld->taken);
    free(ld->rows);
    ld->taken = NULL;
    ld->rows = NULL;
}

fx_status fxi_loader_finish(const fxi_loader *ld, fx_error *err)
{
    for (uint64_t i = 0; i < fxi_gguf_n_tensor(ld->g); i++) {
        const fxi_gguf_tensor *t = fxi_gguf_tensor_at(ld->g, i);
        if (!ld->taken[i])
            return fxi_fail(err, FX_EFORMAT,
                            "%s: tensor '%s' is not part of the architecture we run",
                            fxi_gguf_name(ld->g), fxi_show_text(t->name.p, t->name.n).s);
    }
    return FX_OK;
}

const fxi_gguf_tensor *fxi_loader_find(const fxi_loader *ld, fxi_tensor_key key)
{
    char name[NAME_BYTES];
    return fxi_gguf_find_tensor(ld->g, key_name(key, name));
}

// ---- checked tensors ---------------------------------------------------------------------------

// The tensor's dimensions as m expects them, fastest first.
static void expected_shape(const fxi_part_of *m, int ne[3])
{
    const int n_row = m->n_row ? m->n_row : m->n_out, n_slice = m->n_slice ? m->n_slice : 1;
    ne[0] = m->n_in ? m->n_in : n_row;
    ne[1] = m->n_in ? n_row : n_slice;
    ne[2] = m->n_in ? n_slice : 1;
}

static bool has_shape(const fxi_gguf_tensor *t, const int ne[3])
{
    return t->ne[0] == (uint64_t)ne[0] && t->ne[1] == (uint64_t)ne[1] &&
           t->ne[2] == (uint64_t)ne[2] && t->ne[3] == 1;
}

// Finds the tensor of m, checks it and records it as loaded.
static fx_status take_tensor(fxi_loader *ld, const fxi_part_of *m, const fxi_gguf_tensor **out,
                             fx_error *err)
{
    char name[NAME_BYTES];
    int ne[3];
    const char *file = fxi_gguf_name(ld->g);
    const fxi_gguf_tensor *t = fxi_gguf_find_tensor(ld->g, key_name(m->key, name));
    if (!t) return fxi_fail(err, FX_EFORMAT, "%s: tensor '%s' is missing", file, name);
    expected_shape(m, ne);
    if (!has_shape(t, ne))
        return fxi_fail(
            err, FX_EFORMAT, "%s: tensor '%s' is %llu x %llu x %llu x %llu, expected %d x %d x %d",
            file, name, (unsigned long long)t->ne[0], (unsigned long long)t->ne[1],
            (unsigned long long)t->ne[2], (unsigned long long)t->ne[3], ne[0], ne[1], ne[2]);
    if (!t->type->runs)
        return fxi_fail(err, FX_EFORMAT, "%s: tensor '%s' is of type %s, which we cannot run", file,
                        name, t->type->name);
    ld->taken[t - fxi_gguf_tensor_at(ld->g, 0)] = true;
    ld->n_param += (uint64_t)(m->n_in ? m->n_in : 1) * (uint64_t)m->n_out * (uint64_t)ne[2];
    *out = t;
    return FX_OK;
}

// ---- memory ------------------------------------------------------------------------------------

static _Alignas(64) char nothing[64]; // where weights are that are only checked

// Memory for weights. Tells the arena how much the rest of the model will need; panels are somewhat
// larger than rows.
static fx_status alloc_weights(fxi_loader *ld, size_t size_bytes, void **out, fx_error *err)
{
    const uint64_t rest = ld->total_bytes - ld->done_bytes, file = fxi_gguf_size(ld->g);
    const uint64_t more = rest < file ? rest : file;
    *out = ld->is_dry ? nothing : fxi_arena_take(ld->mem, size_bytes, more + more / 32);
    if (!*out) return fxi_fail(err, FX_ENOMEM, "%s: no memory for weights", fxi_gguf_name(ld->g));
    return FX_OK;
}

fx_status fxi_load_zeros(fxi_loader *ld, size_t size_bytes, void **out, fx_error *err)
{
    *out = fxi_arena_take(ld->mem, size_bytes, 0);
    if (!*out) return fxi_fail(err, FX_ENOMEM, "%s: no memory for weights", fxi_gguf_name(ld->g));
    memset(*out, 0, size_bytes);
    return FX_OK;
}

static fx_status reserve_rows(fxi_loader *ld, size_t size_bytes, fx_error *err)
{
    if (size_bytes <= ld->rows_bytes) return FX_OK;
    free(ld->rows);
    ld->rows_bytes = 0;
    ld->rows = malloc(size_bytes);
    if (!ld->rows) return fxi_fail(err, FX_ENOMEM, "%s: no memory", fxi_gguf_name(ld->g));
    ld->rows_bytes = size_bytes;
    return FX_OK;
}

static void count_done(fxi_loader *ld, uint64_t n_bytes)
{
    ld->done_bytes += n_bytes;
    if (ld->opt->on_progress)
        ld->opt->on_progress(ld->opt->progress_ud, ld->done_bytes, ld->total_bytes);
}

// Drops the file's pages of n_bytes of a tensor, from p on, which have been loaded; reports
// progress.
static void finish_bytes(fxi_loader *ld, const void *p, uint64_t n_bytes)
{
    fxi_gguf_drop(ld->g, p, n_bytes);
    count_done(ld, n_bytes);
}

// ---- in parts ----------------------------------------------------------------------------------

// Where row `row` of a part lies among its rows in the file.
static int source_row(const fxi_part_of *m, int row)
{
    if (!m->n_rot) return row;
    const int head = row / m->head_dim, d = row % m->head_dim, half = m->n_rot / 2;
    const int from = d >= m->n_rot ? d : d % 2 ? half + d / 2 : d / 2;
    return head * m->head_dim + from;
}

typedef struct load_job {
    const fxi_gguf_tensor *t;
    const fxi_part_of *m;
    const char *src;     // its rows in the file
    uint64_t size_bytes; // of them
    const fxi_linear *w;
    char *rows; // [task] a panel's rows, if they get another order
    char *dst;  // of rows that are copied
    size_t row_bytes;
    int task_rows; // a panel's, or 1
    int first;     // panel or row of this part
} load_job;

// Copies a panel's rows from where they lie, and packs them.
static void pack_ordered(const load_job *job, int panel, char *rows)
{
    const int row0 = panel * FXI_PANEL, rest = job->w->n_out - row0;
    const fxi_linear one = {.type = job->w->type,
                            .n_in = job->w->n_in,
                            .n_out = rest < FXI_PANEL ? rest : FXI_PANEL,
                            .data = fxi_linear_panel(job->w, panel)};
    for (int i = 0; i < one.n_out; i++) {
        const size_t from = (size_t)source_row(job->m, row0 + i);
        memcpy(rows + (size_t)i * job->row_bytes, job->src + from * job->row_bytes, job->row_bytes);
    }
    fxi_linear_pack_panel(&one, rows, 0);
}

static void pack_task(void *arg, int task)
{
    const load_job *job = arg;
    if (job->rows)
        pack_ordered(job, job->first + task, job->rows + (size_t)task * FXI_PANEL * job->row_bytes);
    else
        fxi_linear_pack_panel(job->w, job->src, job->first + task);
}

static void copy_task(void *arg, int task)
{
    const load_job *job = arg;
    const size_t at = (size_t)(job->first + task) * job->row_bytes;
    memcpy(job->dst + at, job->src + at, job->row_bytes);
}

static int tasks_per_part(uint64_t task_bytes)
{
    return task_bytes < PART_BYTES ? (int)(PART_BYTES / (task_bytes + 1)) : 1;
}

// Has the rows ready that n tasks of this part read; rows that get another order all are already.
static fx_status fetch_part(const fxi_loader *ld, const load_job *job, int n, fx_error *err)
{
    if (job->rows) return FX_OK;
    const uint64_t task_bytes = (uint64_t)job->task_rows * job->row_bytes;
    const uint64_t from = (uint64_t)job->first * task_bytes, rest = job->size_bytes - from;
    const uint64_t n_bytes = (uint64_t)n * task_bytes;
    return fxi_gguf_fetch(ld->g, job->t, (uint64_t)(job->src - (const char *)job->t->data) + from,
                          n_bytes < rest ? n_bytes : rest, ld->opt->pool, err);
}

// Runs the n_task tasks that together read all of the job's bytes, part by part.
static fx_status run_in_parts(fxi_loader *ld, fxi_task_fn *fn, load_job *job, int n_task,
                              fx_error *err)
{
    const uint64_t task_bytes = job->size_bytes / (uint64_t)n_task;
    const int n_part = tasks_per_part(task_bytes);
    uint64_t from = 0;
    for (job->first = 0; job->first < n_task; job->first += n_part) {
        const int rest = n_task - job->first, n = rest < n_part ? rest : n_part;
        FX_TRY(fetch_part(ld, job, n, err));
        fxi_pool_run(ld->opt->pool, fn, job, n);
        const uint64_t to = n == rest ? job->size_bytes : from + task_bytes * (uint64_t)n;
        if (!job->rows) fxi_gguf_drop(ld->g, job->src + from, to - from);
        count_done(ld, to - from);
        from = to;
    }
    if (job->rows) fxi_gguf_drop(ld->g, job->src, job->size_bytes);
    return FX_OK;
}

// ---- kinds of weights --------------------------------------------------------------------------

static size_t row_bytes_of(const fxi_gguf_tensor *t)
{
    return (size_t)t->ne[0] / t->type->block_elems * t->type->block_bytes;
}

// Makes room for a part's rows in another order, and has them all ready.
static fx_status order_rows(fxi_loader *ld, load_job *job, int n_panel, fx_error *err)
{
    const int n = tasks_per_part(job->size_bytes / (uint64_t)n_panel);
    const size_t rows = (size_t)(n < n_panel ? n : n_panel) * FXI_PANEL;
    FX_TRY(reserve_rows(ld, rows * job->row_bytes, err));
    job->rows = ld->rows;
    return fxi_gguf_fetch(ld->g, job->t, (uint64_t)(job->src - (const char *)job->t->data),
                          job->size_bytes, ld->opt->pool, err);
}

// Packs a matrix; slice: which one of its tensor's.
static fx_status pack_matrix(fxi_loader *ld, const fxi_gguf_tensor *t, const fxi_part_of *m,
                             int slice, fxi_linear *w, fx_error *err)
{
    const fxi_dtype type = (fxi_dtype)t->type->id;
    const int n_panel = fxi_linear_n_panel(m->n_out), n_row = m->n_row ? m->n_row : m->n_out;
    const size_t row_bytes = row_bytes_of(t);
    void *data;
    FX_TRY(alloc_weights(ld, fxi_linear_bytes(type, m->n_in, m->n_out), &data, err));
    *w = (fxi_linear){.type = type, .n_in = m->n_in, .n_out = m->n_out, .data = data};
    if (ld->is_dry) return FX_OK;
    load_job job = {.t = t,
                    .m = m,
                    .src = (const char *)t->data +
                           ((size_t)slice * (size_t)n_row + (size_t)m->row0) * row_bytes,
                    .size_bytes = (uint64_t)m->n_out * row_bytes,
                    .w = w,
                    .row_bytes = row_bytes,
                    .task_rows = FXI_PANEL};
    if (m->n_rot) FX_TRY(order_rows(ld, &job, n_panel, err));
    return run_in_parts(ld, pack_task, &job, n_panel, err);
}

fx_status fxi_load_linear(fxi_loader *ld, const fxi_part_of *m, fxi_linear *w, fx_error *err)
{
    const int n = m->n_slice ? m->n_slice : 1;
    const fxi_gguf_tensor *t;
    memset(w, 0, (size_t)n * sizeof *w);
    FX_TRY(take_tensor(ld, m, &t, err));
    for (int i = 0; i < n; i++) FX_TRY(pack_matrix(ld, t, m, i, &w[i], err));
    return FX_OK;
}

// Element i of the tensor's numbers.
static float number_at(const fxi_gguf_tensor *t, size_t i)
{
    float x[256];
    const size_t n = t->type->block_elems, block = i / n;
    fxi_row_to_f32((fxi_dtype)t->type->id, (const char *)t->data + block * t->type->block_bytes, n,
                   x);
    return x[i % n];
}

static fx_status read_numbers(fxi_loader *ld, const fxi_gguf_tensor *t, const fxi_part_of *m,
                              float *v, fx_error *err)
{
    const size_t n = (size_t)m->n_out, n_row = (size_t)(m->n_row ? m->n_row : m->n_out);
    FX_TRY(fxi_gguf_fetch(ld->g, t, 0, t->size_bytes, ld->opt->pool, err));
    for (size_t i = 0; i < n * (size_t)(m->n_slice ? m->n_slice : 1); i++) {
        const size_t row = (size_t)(m->row0 + source_row(m, (int)(i % n)));
        v[i] = number_at(t, i / n * n_row + row);
        if (!isfinite(v[i]))
            return fxi_fail(err, FX_EFORMAT, "%s: tensor '%.*s' has a number that is not finite",
                            fxi_gguf_name(ld->g), (int)t->name.n, t->name.p);
    }
    finish_bytes(ld, t->data, t->size_bytes * n / n_row);
    return FX_OK;
}

fx_status fxi_load_vector(fxi_loader *ld, const fxi_part_of *m, float **out, fx_error *err)
{
    *out = NULL;
    const fxi_gguf_tensor *t;
    const size_t n = (size_t)m->n_out * (size_t)(m->n_slice ? m->n_slice : 1);
    void *v;
    FX_TRY(take_tensor(ld, m, &t, err));
    FX_TRY(alloc_weights(ld, n * sizeof **out, &v, err));
    if (!ld->is_dry) FX_TRY(read_numbers(ld, t, m, v, err));
    *out = v;
    return FX_OK;
}

fx_status fxi_load_rows(fxi_loader *ld, fxi_tensor_key key, int n_elem, int n_row, fxi_rows *out,
                        fx_error *err)
{
    *out = (fxi_rows){0};
    const fxi_gguf_tensor *t;
    void *data;
    FX_TRY(take_tensor(ld, &(fxi_part_of){.key = key, .n_in = n_elem, .n_out = n_row}, &t, err));
    FX_TRY(alloc_weights(ld, t->size_bytes, &data, err));
    *out = (fxi_rows){.type = (fxi_dtype)t->type->id,
                      .n_row = n_row,
                      .n_elem = n_elem,
                      .row_bytes = t->size_bytes / (size_t)n_row,
                      .data = data};
    load_job job = {.t = t,
                    .src = t->data,
                    .size_bytes = t->size_bytes,
                    .dst = data,
                    .row_bytes = out->row_bytes,
                    .task_rows = 1};
    return ld->is_dry ? FX_OK : run_in_parts(ld, copy_task, &job, n_row, err);
}
