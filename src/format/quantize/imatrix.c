// imatrix.c - reads importance matrices in both forms of llama.cpp's llama-imatrix.
//
//   GGUF    tensors NAME.in_sum2 [n_slice][n_col], sums of squared inputs, and NAME.counts
//           [n_slice], how many inputs; general.type is "imatrix"
//   older   i32 n_entry; each: i32 n_name, name, i32 n_call, i32 n_value, f32 value [n_value]:
//           means x n_call
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/grow.h"
#include "base/system/regions.h"
#include "format/quantize.h"
#include "format/show.h"

enum { MAX_ENTRY = 1 << 20, MAX_ENTRY_NAME = 1024 };

typedef struct matrix_entry {
    fxi_str name; // the tensor's name
    size_t n_value;
    float *value; // [n_value], then the name; owned
} matrix_entry;

struct fxi_imatrix {
    char *path;
    matrix_entry *entry; // [n_entry]
    size_t n_entry, cap;
};

// Copies the name; *out has room for n_value numbers.
static fx_status add_entry(fxi_imatrix *m, const char *name, size_t n_name, size_t n_value,
                           matrix_entry **out, fx_error *err)
{
    float *value = fxi_grow(&m->entry, sizeof *m->entry, m->n_entry, &m->cap)
                       ? malloc(n_value * sizeof *value + n_name)
                       : NULL;
    if (!value) return fxi_fail_memory(err);
    char *copy = memcpy(value + n_value, name, n_name);
    m->entry[m->n_entry] = (matrix_entry){{copy, n_name}, n_value, value};
    *out = &m->entry[m->n_entry++];
    return FX_OK;
}

static fx_status check_values(const fxi_imatrix *m, const matrix_entry *e, fx_error *err)
{
    for (size_t i = 0; i < e->n_value; i++)
        if (!(e->value[i] >= 0 && isfinite(e->value[i])))
            return fxi_fail(err, FX_EFORMAT, "%s: entry '%s': value %zu is negative or not finite",
                            m->path, fxi_show_text(e->name).s, i);
    return FX_OK;
}

// ---- the older form ----------------------------------------------------------------------------

typedef struct matrix_cursor {
    const unsigned char *p;
    size_t n, at;
} matrix_cursor;

static bool take_bytes(matrix_cursor *c, size_t n, const void **out)
{
    if (n > c->n - c->at) return false;
    *out = c->p + c->at;
    c->at += n;
    return true;
}

static bool take_i32(matrix_cursor *c, int32_t lo, int32_t hi, int32_t *out)
{
    const void *p;
    if (!take_bytes(c, sizeof *out, &p)) return false;
    memcpy(out, p, sizeof *out);
    return *out >= lo && *out <= hi;
}

static fx_status fail_older(const fxi_imatrix *m, const matrix_cursor *c, fx_error *err)
{
    return fxi_fail(err, FX_EFORMAT, "%s: not an importance matrix, or truncated, at byte %zu",
                    m->path, c->at);
}

static fx_status read_older(fxi_imatrix *m, const void *p, size_t n, fx_error *err)
{
    matrix_cursor c = {p, n, 0};
    int32_t n_entry, n_name, n_call, n_value;
    const void *name, *value;
    matrix_entry *e;
    if (!take_i32(&c, 1, MAX_ENTRY, &n_entry)) return fail_older(m, &c, err);
    for (int32_t k = 0; k < n_entry; k++) {
        if (!take_i32(&c, 1, MAX_ENTRY_NAME, &n_name) || !take_bytes(&c, (size_t)n_name, &name) ||
            !take_i32(&c, 0, INT32_MAX, &n_call) || !take_i32(&c, 1, INT32_MAX, &n_value) ||
            !take_bytes(&c, (size_t)n_value * sizeof(float), &value))
            return fail_older(m, &c, err);
        FX_TRY(add_entry(m, name, (size_t)n_name, (size_t)n_value, &e, err));
        memcpy(e->value, value, (size_t)n_value * sizeof(float));
        for (int32_t i = 0; n_call > 0 && i < n_value; i++) e->value[i] /= (float)n_call;
        FX_TRY(check_values(m, e, err));
    }
    return FX_OK;
}

// ---- GGUF --------------------------------------------------------------------------------------

static fx_status read_sums(fxi_imatrix *m, const fxi_gguf *g, const fxi_gguf_tensor *t,
                           fx_error *err)
{
    static const char end[] = ".in_sum2";
    char name[MAX_ENTRY_NAME];
    matrix_entry *e;
    if (!fxi_str_ends_in(t->name, end)) return FX_OK;
    const size_t n = t->name.n - (sizeof end - 1);
    snprintf(name, sizeof name, "%.*s.counts", (int)n, t->name.p);
    const fxi_gguf_tensor *c = fxi_gguf_find_tensor(g, name);
    const uint64_t n_slice = t->size_bytes / sizeof(float) / t->ne[0];
    if (!c || t->type->id != FXI_F32 || c->type->id != FXI_F32 ||
        c->size_bytes != n_slice * sizeof(float))
        return fxi_fail(err, FX_EFORMAT, "%s: tensor '%s' does not match its counts", m->path,
                        fxi_show_text(t->name).s);
    FX_TRY(add_entry(m, t->name.p, n, t->size_bytes / sizeof(float), &e, err));
    for (size_t i = 0; i < e->n_value; i++) { // mean = sum / count
        float count, sum;
        memcpy(&count, (const char *)c->data + i / t->ne[0] * sizeof count, sizeof count);
        memcpy(&sum, (const char *)t->data + i * sizeof sum, sizeof sum);
        e->value[i] = count > 0 ? sum / count : 1; // a slice that saw nothing matters evenly
    }
    return check_values(m, e, err);
}

static fx_status read_matrix_gguf(fxi_imatrix *m, const void *p, size_t n, fx_error *err)
{
    fxi_gguf *g;
    FX_TRY(fxi_gguf_parse(p, n, m->path, &g, err));
    fx_status st = FX_OK;
    for (uint64_t i = 0; st == FX_OK && i < fxi_gguf_n_tensor(g); i++)
        st = read_sums(m, g, fxi_gguf_tensor_at(g, i), err);
    fxi_gguf_close(g);
    if (st == FX_OK && !m->n_entry)
        st = fxi_fail(err, FX_EFORMAT, "%s: a GGUF file without an importance matrix", m->path);
    return st;
}

// ---- the face ----------------------------------------------------------------------------------

fx_status fxi_imatrix_parse(const void *data, size_t n_bytes, const char *name, fxi_imatrix **out,
                            fx_error *err)
{
    fxi_imatrix *m = calloc(1, sizeof *m);
    *out = NULL;
    if (m) m->path = strdup(name);
    if (!m || !m->path) {
        free(m);
        return fxi_fail_memory(err);
    }
    const bool gguf = n_bytes >= 4 && !memcmp(data, "GGUF", 4);
    fx_status st = (gguf ? read_matrix_gguf : read_older)(m, data, n_bytes, err);
    if (st == FX_OK)
        *out = m;
    else
        fxi_imatrix_free(m);
    return st;
}

fx_status fxi_imatrix_open(const char *path, fxi_imatrix **out, fx_error *err)
{
    fxi_mapping map;
    *out = NULL;
    FX_TRY(fxi_mapping_open(path, &map, err));
    fx_status st = fxi_imatrix_parse(map.data, map.size_bytes, path, out, err);
    fxi_mapping_close(&map);
    return st;
}

void fxi_imatrix_free(fxi_imatrix *m)
{
    if (!m) return;
    for (size_t i = 0; i < m->n_entry; i++) free(m->entry[i].value);
    free(m->entry);
    free(m->path);
    free(m);
}

size_t fxi_imatrix_n_entry(const fxi_imatrix *m)
{
    return m->n_entry;
}

const float *fxi_imatrix_find(const fxi_imatrix *m, fxi_str tensor, size_t n_col, size_t *n_slice)
{
    for (size_t i = 0; i < m->n_entry; i++) {
        const matrix_entry *e = &m->entry[i];
        if (fxi_str_compare(e->name, tensor) || e->n_value % n_col) continue;
        *n_slice = e->n_value / n_col;
        return e->value;
    }
    return NULL;
}
