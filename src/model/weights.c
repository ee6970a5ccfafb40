// weights.c - see weights.h.
#include "model/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 96
#define PART_BYTES ((uint64_t)4 << 20) // of a tensor: packed, reported and dropped at a time

static const char *key_name(fxi_tensor_key key, char out[NAME_BYTES])
{
    if (key.layer < 0)
        snprintf(out, NAME_BYTES, "%s", key.name);
    else
        snprintf(out, NAME_BYTES, "blk.%d.%s", key.layer, key.name);
    return out;
}

static uint64_t all_tensor_bytes(const fxi_gguf *g)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < fxi_gguf_n_tensor(g); i++) sum += fxi_gguf_tensor_at(g, i)->size_bytes;
    return sum;
}

fx_status fxi_loader_init(fxi_loader *ld, const fxi_gguf *g, const fxi_model_options *opt,
                          fxi_arena *mem, fx_error *err)
{
    *ld = (fxi_loader){.g = g, .opt = opt, .mem = mem, .total_bytes = all_tensor_bytes(g)};
    ld->taken = calloc(fxi_gguf_n_tensor(g) + 1, sizeof *ld->taken);
    if (!ld->taken) return fxi_fail(err, FX_ENOMEM, "%s: no memory", fxi_gguf_name(g));
    return FX_OK;
}

void fxi_loader_free(fxi_loader *ld)
{
    free(ld->taken);
    ld->taken = NULL;
}

fx_status fxi_loader_finish(const fxi_loader *ld, fx_error *err)
{
    for (uint64_t i = 0; i < fxi_gguf_n_tensor(ld->g); i++) {
        const fxi_gguf_tensor *t = fxi_gguf_tensor_at(ld->g, i);
        if (!ld->taken[i])
            return fxi_fail(err, FX_EFORMAT,
                            "%s: tensor '%.*s' is not part of the architecture we run",
                            fxi_gguf_name(ld->g), (int)t->name.n, t->name.p);
    }
    return FX_OK;
}

const fxi_gguf_tensor *fxi_loader_find(const fxi_loader *ld, fxi_tensor_key key)
{
    char name[NAME_BYTES];
    return fxi_gguf_find_tensor(ld->g, key_name(key, name));
}

static bool has_shape(const fxi_gguf_tensor *t, int n_elem, int n_row)
{
    return t->ne[0] == (uint64_t)n_elem && t->ne[1] == (uint64_t)n_row && t->ne[2] == 1 &&
           t->ne[3] == 1;
}

// Finds a tensor of [n_row][n_elem] numbers of a supported type and records it as loaded.
static fx_status take_tensor(fxi_loader *ld, fxi_tensor_key key, int n_elem, int n_row,
                             const fxi_gguf_tensor **out, fx_error *err)
{
    char name[NAME_BYTES];
    const char *file = fxi_gguf_name(ld->g);
    const fxi_gguf_tensor *t = fxi_gguf_find_tensor(ld->g, key_name(key, name));
    if (!t) return fxi_fail(err, FX_EFORMAT, "%s: tensor '%s' is missing", file, name);
    if (!has_shape(t, n_elem, n_row))
        return fxi_fail(err, FX_EFORMAT,
                        "%s: tensor '%s' is %llu x %llu x %llu x %llu, expected %d x %d", file,
                        name, (unsigned long long)t->ne[0], (unsigned long long)t->ne[1],
                        (unsigned long long)t->ne[2], (unsigned long long)t->ne[3], n_elem, n_row);
    if (!t->type->runs)
        return fxi_fail(err, FX_EFORMAT, "%s: tensor '%s' is of type %s, which we cannot run", file,
                        name, t->type->name);
    ld->taken[t - fxi_gguf_tensor_at(ld->g, 0)] = true;
    ld->n_param += (uint64_t)n_elem * (uint64_t)n_row;
    *out = t;
    return FX_OK;
}

// Memory for weights. Tells the arena how much the rest of the model will need; panels are somewhat
// larger than rows.
static fx_status alloc_weights(fxi_loader *ld, size_t size_bytes, void **out, fx_error *err)
{
    const uint64_t rest = ld->total_bytes - ld->done_bytes, file = fxi_gguf_size(ld->g);
    const uint64_t more = rest < file ? rest : file;
    *out = fxi_arena_take(ld->mem, size_bytes, more + more / 32);
    if (!*out) return fxi_fail(err, FX_ENOMEM, "%s: no memory for weights", fxi_gguf_name(ld->g));
    return FX_OK;
}

// Drops the file's pages of n_bytes of a tensor, from p on, which have been loaded; reports
// progress.
static void finish_bytes(fxi_loader *ld, const void *p, uint64_t n_bytes)
{
    fxi_gguf_drop(ld->g, p, n_bytes);
    ld->done_bytes += n_bytes;
    if (ld->opt->on_progress)
        ld->opt->on_progress(ld->opt->progress_ud, ld->done_bytes, ld->total_bytes);
}

// ---- in parts ----------------------------------------------------------------------------------

typedef struct load_job {
    const char *src; // rows in the file
    const fxi_linear *w;
    char *dst; // of rows that are copied
    size_t row_bytes;
    int first; // panel or row of this part
} load_job;

static void pack_task(void *arg, int task)
{
    const load_job *job = arg;
    fxi_linear_pack_panel(job->w, job->src, job->first + task);
}

static void copy_task(void *arg, int task)
{
    const load_job *job = arg;
    const size_t at = (size_t)(job->first + task) * job->row_bytes;
    memcpy(job->dst + at, job->src + at, job->row_bytes);
}

// Makes what tasks read that begin within bytes [from, to) of t: all tasks read the same number of
// rows, but the last one fewer, so that they begin up to a task later than at equal shares.
static fx_status fetch_part(const fxi_loader *ld, const fxi_gguf_tensor *t, uint64_t from,
                            uint64_t to, uint64_t task_bytes, fx_error *err)
{
    const uint64_t rest = t->size_bytes - to, more = 2 * (task_bytes + 1);
    return fxi_gguf_fetch(ld->g, t, from, to - from + (more < rest ? more : rest), err);
}

// Runs the n_task tasks that together read all of t, part by part.
static fx_status run_in_parts(fxi_loader *ld, const fxi_gguf_tensor *t, fxi_task_fn *fn,
                              load_job *job, int n_task, fx_error *err)
{
    const uint64_t task_bytes = t->size_bytes / (uint64_t)n_task;
    const int n_part = task_bytes < PART_BYTES ? (int)(PART_BYTES / (task_bytes + 1)) : 1;
    uint64_t from = 0;
    for (job->first = 0; job->first < n_task; job->first += n_part) {
        const int rest = n_task - job->first, n = rest < n_part ? rest : n_part;
        const uint64_t to = n == rest ? t->size_bytes : from + task_bytes * (uint64_t)n;
        FX_TRY(fetch_part(ld, t, from, to, task_bytes, err));
        fxi_pool_run(ld->opt->pool, fn, job, n);
        finish_bytes(ld, (const char *)t->data + from, to - from);
        from = to;
    }
    return FX_OK;
}

// ---- kinds of weights --------------------------------------------------------------------------

static fx_status make_linear(fxi_loader *ld, fxi_dtype type, int n_in, int n_out, fxi_linear *w,
                             fx_error *err)
{
    void *data;
    FX_TRY(alloc_weights(ld, fxi_linear_bytes(type, n_in, n_out), &data, err));
    *w = (fxi_linear){.type = type, .n_in = n_in, .n_out = n_out, .data = data};
    return FX_OK;
}

fx_status fxi_load_linear(fxi_loader *ld, fxi_tensor_key key, int n_in, int n_out, fxi_linear *w,
                          fx_error *err)
{
    *w = (fxi_linear){0};
    const fxi_gguf_tensor *t;
    FX_TRY(take_tensor(ld, key, n_in, n_out, &t, err));
    FX_TRY(make_linear(ld, (fxi_dtype)t->type->id, n_in, n_out, w, err));
    load_job job = {.src = t->data, .w = w};
    return run_in_parts(ld, t, pack_task, &job, fxi_linear_n_panel(n_out), err);
}

fx_status fxi_load_vector(fxi_loader *ld, fxi_tensor_key key, int n, float **out, fx_error *err)
{
    *out = NULL;
    const fxi_gguf_tensor *t;
    void *v;
    FX_TRY(take_tensor(ld, key, n, 1, &t, err));
    FX_TRY(alloc_weights(ld, (size_t)n * sizeof **out, &v, err));
    FX_TRY(fxi_gguf_fetch(ld->g, t, 0, t->size_bytes, err));
    fxi_row_to_f32((fxi_dtype)t->type->id, t->data, (size_t)n, v);
    finish_bytes(ld, t->data, t->size_bytes);
    *out = v;
    return FX_OK;
}

fx_status fxi_load_rows(fxi_loader *ld, fxi_tensor_key key, int n_elem, int n_row, fxi_rows *out,
                        fx_error *err)
{
    *out = (fxi_rows){0};
    const fxi_gguf_tensor *t;
    void *data;
    FX_TRY(take_tensor(ld, key, n_elem, n_row, &t, err));
    FX_TRY(alloc_weights(ld, t->size_bytes, &data, err));
    *out = (fxi_rows){.type = (fxi_dtype)t->type->id,
                      .n_row = n_row,
                      .n_elem = n_elem,
                      .row_bytes = t->size_bytes / (size_t)n_row,
                      .data = data};
    load_job job = {.src = t->data, .dst = data, .row_bytes = out->row_bytes};
    return run_in_parts(ld, t, copy_task, &job, n_row, err);
}
