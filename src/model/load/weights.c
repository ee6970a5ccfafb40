// weights.c - tensors by name: checked, packed and copied to the device; see loading.h.
#include "model/load/loading.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/show.h"

#define NAME_BYTES 96
#define PART_BYTES ((uint64_t)4 << 20) // of a tensor: packed, reported and dropped at a time

static const char *key_name(fxi_tensor_key key, char out[NAME_BYTES])
{
    const char *kind = key.is_bare ? "" : key.is_bias ? ".bias" : ".weight";
    if (key.layer < 0)
        snprintf(out, NAME_BYTES, "%s%s", key.name, kind);
    else
        snprintf(out, NAME_BYTES, "blk.%d.%s%s", key.layer, key.name, kind);
    return out;
}

void fxi_cut_range(fxi_cut cut, int n, int unit, int *first, int *count)
{
    const int64_t n_unit = ((int64_t)n + unit - 1) / unit;
    const int64_t from = n_unit * cut.rank / cut.n_rank * unit;
    const int64_t to = n_unit * (cut.rank + 1) / cut.n_rank * unit;
    *first = (int)from;
    *count = (int)((to < n ? to : n) - from);
}

// Whether a tensor is of one of the last layers, which only draft.
static bool only_drafts(const fxi_loader *ld, const fxi_gguf_tensor *t)
{
    int layer;
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%.*s", (int)t->name.n, t->name.p);
    return sscanf(name, "blk.%d.", &layer) == 1 && layer >= ld->m->model.shape.n_layer &&
           layer < ld->keys.n_layer;
}

fx_status fxi_loader_finish(const fxi_loader *ld, fx_error *err)
{
    for (uint64_t i = 0; i < fxi_gguf_n_tensor(ld->g); i++) {
        const fxi_gguf_tensor *t = fxi_gguf_tensor_at(ld->g, i);
        if (!ld->taken[i] && !only_drafts(ld, t))
            return fxi_fail(err, FX_EFORMAT,
                            "%s: tensor '%s' does not belong to the model's architecture",
                            fxi_gguf_name(ld->g), fxi_show_text(t->name).s);
    }
    return FX_OK;
}

const fxi_gguf_tensor *fxi_loader_find(const fxi_loader *ld, fxi_tensor_key key)
{
    char name[NAME_BYTES];
    return fxi_gguf_find_tensor(ld->g, key_name(key, name));
}

// ---- checked tensors ---------------------------------------------------------------------------

// Finds the tensor of m, checks it and records it as loaded. Columns are cut where blocks end.
static fx_status take_tensor(fxi_loader *ld, const fxi_part_of *m, const fxi_gguf_tensor **out,
                             fx_error *err)
{
    char name[NAME_BYTES];
    const int n_row = m->n_row ? m->n_row : m->n_out, n_slice = m->n_slice ? m->n_slice : 1,
              n_all = m->n_all_slice ? m->n_all_slice : n_slice;
    const int ne[] = {!m->n_in   ? n_row
                      : m->n_col ? m->n_col
                                 : m->n_in,
                      m->n_in ? n_row : n_all, m->n_in ? n_all : 1};
    const char *file = fxi_gguf_name(ld->g);
    const fxi_gguf_tensor *t = fxi_gguf_find_tensor(ld->g, key_name(m->key, name));
    if (!t) return fxi_fail(err, FX_EFORMAT, "%s: tensor '%s' is missing", file, name);
    if (t->ne[0] != (uint64_t)ne[0] || t->ne[1] != (uint64_t)ne[1] || t->ne[2] != (uint64_t)ne[2] ||
        t->ne[3] != 1)
        return fxi_fail(
            err, FX_EFORMAT, "%s: tensor '%s' is %llu x %llu x %llu x %llu, expected %d x %d x %d",
            file, name, (unsigned long long)t->ne[0], (unsigned long long)t->ne[1],
            (unsigned long long)t->ne[2], (unsigned long long)t->ne[3], ne[0], ne[1], ne[2]);
    if (!t->type->runs)
        return fxi_fail(err, FX_EFORMAT, "%s: tensor '%s' is of type %s, which is not supported",
                        file, name, t->type->name);
    const int block = (int)t->type->block_elems;
    if (m->n_in && m->n_col && (m->n_in % block || m->col0 % block))
        return fxi_fail(
            err, FX_EINVAL,
            "%s: tensor '%s' is of type %s: a device's %d columns of it would cut blocks of "
            "%d numbers",
            file, name, t->type->name, m->n_in, block);
    ld->taken[t - fxi_gguf_tensor_at(ld->g, 0)] = true;
    *out = t;
    return FX_OK;
}

// ---- memory ------------------------------------------------------------------------------------

static _Alignas(64) char nothing[64]; // where weights are that are only checked

// How much the rest of the model will need, at a guess: panels are somewhat larger than rows.
static uint64_t rest_bytes(const fxi_loader *ld)
{
    const uint64_t n_rank = (uint64_t)ld->cut.n_rank, own = ld->total_bytes / n_rank;
    const uint64_t rest = own > ld->done_bytes ? own - ld->done_bytes : 0;
    const uint64_t file = fxi_gguf_size(ld->g), more = rest < file ? rest : file;
    return more + more / 32;
}

// n matrices of n_out x n_in numbers
static fx_status take_linears(fxi_loader *ld, fxi_dtype type, int n_in, int n_out, fxi_linear *w,
                              int n, fx_error *err)
{
    for (int i = 0; i < n; i++)
        w[i] = (fxi_linear){.type = type, .n_in = n_in, .n_out = n_out, .data = nothing};
    if (ld->is_dry) return FX_OK;
    const fx_status st = ld->m->dev->ops->take_linear(ld->m->dev, w, n, rest_bytes(ld), err);
    if (st != FX_OK) memset(w, 0, (size_t)n * sizeof *w);
    return st;
}

fx_status fxi_load_zeros(fxi_loader *ld, size_t size_bytes, void **out, fx_error *err)
{
    *out = fxi_arena_take(&ld->m->mem, size_bytes, 0);
    if (!*out) return fxi_fail_memory(err);
    memset(*out, 0, size_bytes);
    return FX_OK;
}

static fx_status reserve_rows(fxi_loader *ld, size_t size_bytes, fx_error *err)
{
    if (size_bytes <= ld->rows_bytes) return FX_OK;
    free(ld->rows);
    ld->rows_bytes = 0;
    ld->rows = malloc(size_bytes);
    if (!ld->rows) return fxi_fail_memory(err);
    ld->rows_bytes = size_bytes;
    return FX_OK;
}

// Reports progress. n_bytes: of the file that have been loaded
static void count_done(fxi_loader *ld, uint64_t n_bytes)
{
    ld->done_bytes += n_bytes;
    if (ld->opt->on_progress)
        ld->opt->on_progress(ld->opt->progress_ud, ld->done_bytes, ld->total_bytes);
}

// ---- in parts ----------------------------------------------------------------------------------

// Where row `row` of a part lies among its rows in the file.
static int source_row(const fxi_part_of *m, int row)
{
    if (!m->n_rot && !m->head_step) return row;
    const int head = row / m->head_dim, d = row % m->head_dim, half = m->n_rot / 2;
    const int from = d >= m->n_rot ? d : d % 2 ? half + d / 2 : d / 2;
    return head * (m->head_step ? m->head_step : m->head_dim) + from;
}

// Rows of the file from the first to the last one of a part.
static int source_span(const fxi_part_of *m)
{
    return m->head_step ? m->n_out + (m->n_out / m->head_dim - 1) * (m->head_step - m->head_dim)
                        : m->n_out;
}

// A matrix on its way to the device.
typedef struct load_job {
    const fxi_gguf_tensor *t;
    const fxi_part_of *m;
    const char *src; // its rows in the file
    size_t row_bytes;
    size_t from_bytes, cut_bytes; // what is taken of each row
    char *rows;                   // of a part, if they get another order or are cut
    int first;                    // row of this part
} load_job;

static void order_task(void *arg, int row)
{
    const load_job *job = arg;
    const size_t from = (size_t)source_row(job->m, job->first + row);
    memcpy(job->rows + (size_t)row * job->cut_bytes,
           job->src + from * job->row_bytes + job->from_bytes, job->cut_bytes);
}

// Has rows of the file ready.
static fx_status fetch_rows(const fxi_loader *ld, const load_job *job, int first, int n,
                            fx_error *err)
{
    const uint64_t from = (uint64_t)first * job->row_bytes;
    return fxi_gguf_fetch(ld->g, job->t, (uint64_t)(job->src - (const char *)job->t->data) + from,
                          (uint64_t)n * job->row_bytes, ld->opt->pool, err);
}

// Packs a matrix, part by part, each of whole panels; slice: which one of its tensor's. Rows that
// get another order all have to be ready before.
static fx_status pack_matrix(fxi_loader *ld, const fxi_gguf_tensor *t, const fxi_part_of *m,
                             int slice, const fxi_linear *w, fx_error *err)
{
    const size_t block = t->type->block_elems, block_bytes = t->type->block_bytes;
    const size_t row_bytes = (size_t)t->ne[0] / block * block_bytes,
                 row0 = (size_t)slice * (size_t)(m->n_row ? m->n_row : m->n_out) + (size_t)m->row0;
    const int n_panel = (int)(PART_BYTES / (row_bytes * FXI_PANEL + 1));
    const int most = (n_panel ? n_panel : 1) * FXI_PANEL,
              n_part = most < m->n_out ? most : m->n_out;
    load_job job = {.t = t,
                    .m = m,
                    .src = (const char *)t->data + row0 * row_bytes,
                    .row_bytes = row_bytes,
                    .from_bytes = (size_t)m->col0 / block * block_bytes,
                    .cut_bytes = (size_t)m->n_in / block * block_bytes};
    if (ld->is_dry) return FX_OK;
    if (m->n_rot || m->n_col || m->head_step) {
        FX_TRY(reserve_rows(ld, (size_t)n_part * job.cut_bytes, err));
        job.rows = ld->rows;
        FX_TRY(fetch_rows(ld, &job, 0, source_span(m), err));
    }
    for (; job.first < m->n_out; job.first += n_part) {
        const int rest = m->n_out - job.first, n = rest < n_part ? rest : n_part;
        const size_t n_bytes = (size_t)n * row_bytes;
        const char *src = job.rows ? job.rows : job.src + (size_t)job.first * row_bytes;
        if (job.rows)
            fxi_pool_run(ld->opt->pool, order_task, &job, n);
        else
            FX_TRY(fetch_rows(ld, &job, job.first, n, err));
        FX_TRY(ld->m->dev->ops->put_linear(ld->m->dev, w, job.first, n, src, err));
        if (!job.rows) fxi_gguf_drop(ld->g, src, n_bytes);
        count_done(ld, n_bytes);
    }
    if (job.rows) fxi_gguf_drop(ld->g, job.src, (uint64_t)m->n_out * row_bytes);
    return FX_OK;
}

fx_status fxi_load_linear(fxi_loader *ld, const fxi_part_of *m, fxi_linear *w, fx_error *err)
{
    const int n = m->n_slice ? m->n_slice : 1;
    const fxi_gguf_tensor *t;
    memset(w, 0, (size_t)n * sizeof *w);
    FX_TRY(take_tensor(ld, m, &t, err));
    FX_TRY(take_linears(ld, (fxi_dtype)t->type->id, m->n_in, m->n_out, w, n, err));
    for (int i = 0; i < n; i++) FX_TRY(pack_matrix(ld, t, m, i, &w[i], err));
    return FX_OK;
}

fx_status fxi_load_singles(fxi_loader *ld, const fxi_part_of *m, fxi_linear *w, int n,
                           fx_error *err)
{
    memset(w, 0, (size_t)n * sizeof *w);
    for (int i = 0; i < n; i++) {
        const fxi_gguf_tensor *t;
        char name[64];
        fxi_part_of one = *m;
        snprintf(name, sizeof name, "%s.%d", m->key.name, i);
        one.key.name = name;
        FX_TRY(take_tensor(ld, &one, &t, err));
        if (!i) FX_TRY(take_linears(ld, (fxi_dtype)t->type->id, m->n_in, m->n_out, w, n, err));
        if ((fxi_dtype)t->type->id != w->type)
            return fxi_fail(
                err, FX_EFORMAT,
                "%s: tensor 'blk.%d.%s.weight' is of another type than the first expert's",
                fxi_gguf_name(ld->g), m->key.layer, name);
        FX_TRY(pack_matrix(ld, t, &one, 0, &w[i], err));
    }
    return FX_OK;
}

// Rows [n_in] of a file's matrix as columns, in the type that w has. wide: room for all as f32
static void turn_rows(const fxi_gguf_tensor *t, const char *src, const fxi_linear *w, float *line,
                      float *wide, char *rows)
{
    const size_t n_row = (size_t)w->n_in, n_col = (size_t)w->n_out;
    const size_t row_bytes = n_col / t->type->block_elems * t->type->block_bytes;
    for (size_t r = 0; r < n_row; r++) {
        fxi_row_to_f32((fxi_dtype)t->type->id, src + r * row_bytes, n_col, line);
        for (size_t c = 0; c < n_col; c++) wide[c * n_row + r] = line[c];
    }
    fxi_row_from_f32(w->type, wide, n_row * n_col, rows);
}

fx_status fxi_load_transpose(fxi_loader *ld, const fxi_part_of *m, fxi_linear *w, fx_error *err)
{
    const fxi_gguf_tensor *t;
    memset(w, 0, sizeof *w);
    FX_TRY(take_tensor(ld, m, &t, err));
    const bool is_float = t->type->block_elems == 1;
    const size_t n = (size_t)m->n_out * (size_t)m->n_in,
                 n_bytes = (size_t)m->n_out * (size_t)m->n_in / t->type->block_elems *
                           t->type->block_bytes,
                 at = (size_t)m->row0 * (n_bytes / (size_t)m->n_out);
    FX_TRY(take_linears(ld, is_float ? (fxi_dtype)t->type->id : FXI_F32, m->n_out, m->n_in, w, 1,
                        err));
    if (ld->is_dry) return FX_OK;
    FX_TRY(fxi_gguf_fetch(ld->g, t, at, n_bytes, ld->opt->pool, err));
    FX_TRY(reserve_rows(ld, (2 * n + (size_t)m->n_in) * sizeof(float), err));
    float *wide = (float *)ld->rows, *line = wide + n;
    char *rows = (char *)(line + m->n_in);
    turn_rows(t, (const char *)t->data + at, w, line, wide, rows);
    FX_TRY(ld->m->dev->ops->put_linear(ld->m->dev, w, 0, m->n_in, rows, err));
    count_done(ld, n_bytes);
    return FX_OK;
}

static fx_status read_numbers(fxi_loader *ld, const fxi_gguf_tensor *t, const fxi_part_of *m,
                              float *v, fx_error *err)
{
    const size_t n = (size_t)m->n_out, n_row = (size_t)(m->n_row ? m->n_row : m->n_out);
    const size_t block = t->type->block_elems;
    float x[256]; // a block
    FX_TRY(fxi_gguf_fetch(ld->g, t, 0, t->size_bytes, ld->opt->pool, err));
    const size_t n_slice = (size_t)(m->n_slice ? m->n_slice : 1);
    for (size_t i = 0; i < n * n_slice; i++) {
        float *to = v + (m->is_turned ? i % n * n_slice + i / n : i);
        const size_t row = (size_t)(m->row0 + source_row(m, (int)(i % n)));
        const size_t at = ((size_t)m->slice0 + i / n) * n_row + row;
        fxi_row_to_f32((fxi_dtype)t->type->id,
                       (const char *)t->data + at / block * t->type->block_bytes, block, x);
        *to = x[at % block];
        if (!isfinite(*to))
            return fxi_fail(err, FX_EFORMAT, "%s: tensor '%.*s' has a number that is not finite",
                            fxi_gguf_name(ld->g), (int)t->name.n, t->name.p);
    }
    fxi_gguf_drop(ld->g, t->data, t->size_bytes * n / n_row);
    count_done(ld, t->size_bytes * n / n_row);
    return FX_OK;
}

fx_status fxi_read_vector(fxi_loader *ld, const fxi_part_of *m, const float **out, fx_error *err)
{
    const fxi_gguf_tensor *t;
    const size_t n = (size_t)m->n_out * (size_t)(m->n_slice ? m->n_slice : 1);
    FX_TRY(take_tensor(ld, m, &t, err));
    FX_TRY(reserve_rows(ld, n * sizeof(float), err));
    *out = (const float *)ld->rows;
    if (!ld->is_dry) return read_numbers(ld, t, m, (float *)ld->rows, err);
    memset(ld->rows, 0, n * sizeof(float));
    return FX_OK;
}

fx_status fxi_load_vector(fxi_loader *ld, const fxi_part_of *m, float **out, fx_error *err)
{
    const size_t n_bytes = (size_t)m->n_out * (size_t)(m->n_slice ? m->n_slice : 1) * sizeof **out;
    fxi_device *dev = ld->m->dev;
    const float *v;
    void *data = nothing;
    *out = NULL;
    FX_TRY(fxi_read_vector(ld, m, &v, err));
    if (!ld->is_dry) {
        FX_TRY(dev->ops->take(dev, n_bytes, rest_bytes(ld), &data, err));
        FX_TRY(dev->ops->upload(dev, data, v, n_bytes, err));
    }
    *out = data;
    return FX_OK;
}

// ---- with their biases --------------------------------------------------------------------------

fx_status fxi_load_bias(fxi_loader *ld, const fxi_part_of *m, float **out, fx_error *err)
{
    fxi_part_of b = *m;
    b.key.is_bias = true;
    b.n_in = b.n_col = b.col0 = 0;
    *out = NULL;
    return fxi_loader_find(ld, b.key) ? fxi_load_vector(ld, &b, out, err) : FX_OK;
}

fx_status fxi_load_affine(fxi_loader *ld, const fxi_part_of *m, fxi_affine *out, fx_error *err)
{
    FX_TRY(fxi_load_linear(ld, m, &out->w, err));
    return fxi_load_bias(ld, m, &out->b, err);
}

fx_status fxi_load_norm(fxi_loader *ld, const fxi_part_of *m, int n, fxi_rownorm *out,
                        fx_error *err)
{
    *out = (fxi_rownorm){.n = n, .step = m->n_slice || m->n_out > n ? n : 0};
    FX_TRY(fxi_load_vector(ld, m, &out->w, err));
    return ld->m->rules.norm == FXI_NORM_LAYER ? fxi_load_bias(ld, m, &out->b, err) : FX_OK;
}
