#include "model/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 96

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
                          fx_error *err)
{
    *ld = (fxi_loader){.g = g, .opt = opt, .total_bytes = all_tensor_bytes(g)};
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

// Finds a tensor of [n_row][n_elem] numbers we can compute with and marks it as taken.
static fx_status take(fxi_loader *ld, fxi_tensor_key key, int n_elem, int n_row,
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

static void progress(fxi_loader *ld, uint64_t more_bytes)
{
    ld->done_bytes += more_bytes;
    if (ld->opt->on_progress)
        ld->opt->on_progress(ld->opt->progress_ud, ld->done_bytes, ld->total_bytes);
}

typedef struct pack_job {
    const fxi_linear *w;
    const void *rows;
} pack_job;

static void pack_task(void *arg, int panel)
{
    const pack_job *job = arg;
    fxi_linear_pack_panel(job->w, job->rows, panel);
}

static fx_status pack(fxi_loader *ld, fxi_dtype type, const void *rows, int n_in, int n_out,
                      fxi_linear *w, fx_error *err)
{
    void *data = aligned_alloc(64, fxi_linear_bytes(type, n_in, n_out));
    if (!data) return fxi_fail(err, FX_ENOMEM, "%s: no memory for weights", fxi_gguf_name(ld->g));
    *w = (fxi_linear){.type = type, .n_in = n_in, .n_out = n_out, .data = data};
    pack_job job = {w, rows};
    fxi_pool_run(ld->opt->pool, pack_task, &job, fxi_linear_n_panel(n_out));
    return FX_OK;
}

fx_status fxi_load_linear(fxi_loader *ld, fxi_tensor_key key, int n_in, int n_out, fxi_linear *w,
                          fx_error *err)
{
    *w = (fxi_linear){0};
    const fxi_gguf_tensor *t;
    FX_TRY(take(ld, key, n_in, n_out, &t, err));
    FX_TRY(pack(ld, (fxi_dtype)t->type->id, t->data, n_in, n_out, w, err));
    progress(ld, t->size_bytes);
    return FX_OK;
}

fx_status fxi_load_vector(fxi_loader *ld, fxi_tensor_key key, int n, float **out, fx_error *err)
{
    *out = NULL;
    const fxi_gguf_tensor *t;
    FX_TRY(take(ld, key, n, 1, &t, err));
    float *v = malloc((size_t)n * sizeof *v);
    if (!v) return fxi_fail(err, FX_ENOMEM, "%s: no memory for weights", fxi_gguf_name(ld->g));
    fxi_row_to_f32((fxi_dtype)t->type->id, t->data, (size_t)n, v);
    progress(ld, t->size_bytes);
    *out = v;
    return FX_OK;
}

fx_status fxi_load_rows(fxi_loader *ld, fxi_tensor_key key, int n_elem, int n_row, fxi_rows *out,
                        fx_error *err)
{
    *out = (fxi_rows){0};
    const fxi_gguf_tensor *t;
    FX_TRY(take(ld, key, n_elem, n_row, &t, err));
    char *data = malloc(t->size_bytes);
    if (!data) return fxi_fail(err, FX_ENOMEM, "%s: no memory for weights", fxi_gguf_name(ld->g));
    memcpy(data, t->data, t->size_bytes);
    *out = (fxi_rows){.type = (fxi_dtype)t->type->id,
                      .n_row = n_row,
                      .n_elem = n_elem,
                      .row_bytes = t->size_bytes / (size_t)n_row,
                      .data = data};
    progress(ld, t->size_bytes);
    return FX_OK;
}

void fxi_linear_free(fxi_linear *w)
{
    free(w->data);
    *w = (fxi_linear){0};
}
