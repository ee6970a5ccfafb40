// safetensors.c - the parser of safetensors files.
#include "format/hf/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json_shape.h"
#include "base/text/utf8.h" // defines: fxi_utf8_vprint
#include "format/json_text.h"
#include "format/show.h"

// Limits of a header: a model of a terabyte has some 10^5 tensors, with 8 values each.
enum { MAX_HEADER_BYTES = 100000000, MAX_HEADER_VALUES = 2000000, MAX_HEADER_DEPTH = 8 };

enum { LENGTH_BYTES = 8, MAX_NAME_BYTES = 512 };

static const struct st_type {
    const char *name;
    uint32_t elem_bytes;
    fxi_st_type type;
} st_types[] = {
    {"F32", 4, FXI_ST_F32},         {"F16", 2, FXI_ST_F16},    {"BF16", 2, FXI_ST_BF16},
    {"F8_E4M3", 1, FXI_ST_F8_E4M3}, {"U8", 1, FXI_ST_U8},      {"F64", 8, FXI_ST_OTHER},
    {"I64", 8, FXI_ST_OTHER},       {"U64", 8, FXI_ST_OTHER},  {"I32", 4, FXI_ST_OTHER},
    {"U32", 4, FXI_ST_OTHER},       {"I16", 2, FXI_ST_OTHER},  {"U16", 2, FXI_ST_OTHER},
    {"I8", 1, FXI_ST_OTHER},        {"BOOL", 1, FXI_ST_OTHER}, {"F8_E5M2", 1, FXI_ST_OTHER},
    {"F8_E8M0", 1, FXI_ST_OTHER},
};

static const struct st_type *find_st_type(const char *name)
{
    for (size_t i = 0; i < sizeof st_types / sizeof *st_types; i++)
        if (!strcmp(st_types[i].name, name)) return &st_types[i];
    return NULL;
}

typedef struct st_cursor {
    fxi_safetensors *s;
    const unsigned char *data; // of the tensors
    uint64_t data_bytes;
    fx_error *err;
} st_cursor;

fx_status fxi_st_fail(fx_error *err, const fxi_st_tensor *t, const char *fmt, ...)
{
    char what[256];
    va_list ap;
    va_start(ap, fmt);
    fxi_utf8_vprint(what, sizeof what, fmt, ap);
    va_end(ap);
    return fxi_fail(err, FX_EFORMAT, "%s: tensor '%s': %s", t->file,
                    fxi_show_text(t->name, strlen(t->name)).s, what);
}

// ---- one tensor --------------------------------------------------------------------------------

// A whole number from 0 to 2^53, which JSON's numbers hold exactly.
static bool read_count(const json_t *v, uint64_t *out)
{
    if (!json_is_integer(v)) return false;
    const json_int_t n = json_integer_value(v);
    *out = (uint64_t)n;
    return n >= 0 && n <= (json_int_t)1 << 53;
}

static fx_status read_st_shape(const st_cursor *c, const json_t *of, fxi_st_tensor *t)
{
    const json_t *shape = json_object_get(of, "shape");
    if (!json_is_array(shape)) return fxi_st_fail(c->err, t, "has no shape");
    const size_t n = json_array_size(shape);
    if (n > FXI_ST_MAX_DIM)
        return fxi_st_fail(c->err, t, "has %zu dimensions (at most %d)", n, FXI_ST_MAX_DIM);
    t->n_dim = (int)n;
    t->n_elem = 1;
    for (size_t i = 0; i < FXI_ST_MAX_DIM; i++) t->dim[i] = 1;
    for (size_t i = 0; i < n; i++) {
        if (!read_count(json_array_get(shape, i), &t->dim[i]))
            return fxi_st_fail(c->err, t, "dimension %zu is not a count", i);
        if (__builtin_mul_overflow(t->n_elem, t->dim[i], &t->n_elem))
            return fxi_st_fail(c->err, t, "its dimensions' product is too large");
    }
    return FX_OK;
}

static fx_status read_st_type(const st_cursor *c, const json_t *of, fxi_st_tensor *t)
{
    const char *name = json_string_value(json_object_get(of, "dtype"));
    if (!name) return fxi_st_fail(c->err, t, "has no dtype");
    const struct st_type *type = find_st_type(name);
    if (!type)
        return fxi_st_fail(c->err, t, "has the unknown type '%s'",
                           fxi_show_text(name, strlen(name)).s);
    t->type = type->type;
    t->type_name = type->name;
    t->elem_bytes = type->elem_bytes;
    return FX_OK;
}

static fx_status read_range(const st_cursor *c, const json_t *of, fxi_st_tensor *t)
{
    const json_t *range = json_object_get(of, "data_offsets");
    uint64_t from, to, want;
    if (json_array_size(range) != 2 || !read_count(json_array_get(range, 0), &from) ||
        !read_count(json_array_get(range, 1), &to))
        return fxi_st_fail(c->err, t, "data_offsets are not two counts");
    if (from > to || to > c->data_bytes)
        return fxi_st_fail(c->err, t,
                           "bytes %" PRIu64 " to %" PRIu64 " are not within the %" PRIu64
                           " bytes of tensor data",
                           from, to, c->data_bytes);
    if (__builtin_mul_overflow(t->n_elem, t->elem_bytes, &want) || want != to - from)
        return fxi_st_fail(c->err, t,
                           "%" PRIu64 " bytes of data for %" PRIu64 " numbers of type %s",
                           to - from, t->n_elem, t->type_name);
    t->data = c->data + from;
    t->size_bytes = to - from;
    return FX_OK;
}

static fx_status read_entry(const st_cursor *c, const char *name, const json_t *of,
                            fxi_st_tensor *t)
{
    *t = (fxi_st_tensor){.name = name, .file = c->s->path};
    const size_t n = strlen(name);
    if (!n || n > MAX_NAME_BYTES)
        return fxi_st_fail(c->err, t, "a name of %zu bytes (1 to %d allowed)", n, MAX_NAME_BYTES);
    if (!json_is_object(of)) return fxi_st_fail(c->err, t, "is not an object");
    FX_TRY(read_st_type(c, of, t));
    FX_TRY(read_st_shape(c, of, t));
    return read_range(c, of, t);
}

// ---- all tensors -------------------------------------------------------------------------------

static int compare_st_names(const void *a, const void *b)
{
    return strcmp(((const fxi_st_tensor *)a)->name, ((const fxi_st_tensor *)b)->name);
}

static int compare_data(const void *a, const void *b)
{
    const fxi_st_tensor *x = *(const fxi_st_tensor *const *)a,
                        *y = *(const fxi_st_tensor *const *)b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return (x->size_bytes > y->size_bytes) - (x->size_bytes < y->size_bytes);
}

static fx_status check_gaps(const st_cursor *c, const fxi_st_tensor *const *by_data)
{
    const unsigned char *at = c->data;
    for (size_t i = 0; i < c->s->n_tensor; i++) {
        const fxi_st_tensor *t = by_data[i];
        if (t->data < at)
            return fxi_st_fail(c->err, t, "overlaps tensor '%s'",
                               fxi_show_text(by_data[i - 1]->name, strlen(by_data[i - 1]->name)).s);
        if (t->data > at)
            return fxi_st_fail(c->err, t, "%zu bytes before it belong to no tensor",
                               (size_t)(t->data - at));
        at = t->data + t->size_bytes;
    }
    const size_t rest = (size_t)(c->data + c->data_bytes - at);
    if (!rest) return FX_OK;
    return fxi_fail(c->err, FX_EFORMAT, "%s: the last %zu bytes belong to no tensor", c->s->path,
                    rest);
}

static fx_status read_entries(const st_cursor *c)
{
    fxi_safetensors *s = c->s;
    const char *name;
    json_t *of;
    s->tensor = calloc(json_object_size(s->header) + 1, sizeof *s->tensor);
    if (!s->tensor) return fxi_fail(c->err, FX_ENOMEM, "%s: no memory", s->path);
    json_object_foreach(s->header, name, of) if (strcmp(name, "__metadata__"))
        FX_TRY(read_entry(c, name, of, &s->tensor[s->n_tensor++]));
    qsort(s->tensor, s->n_tensor, sizeof *s->tensor, compare_st_names);
    const fxi_st_tensor **by_data = malloc((c->s->n_tensor + 1) * sizeof *by_data);
    if (!by_data) return fxi_fail(c->err, FX_ENOMEM, "%s: no memory", c->s->path);
    for (size_t i = 0; i < c->s->n_tensor; i++) by_data[i] = &c->s->tensor[i];
    qsort(by_data, c->s->n_tensor, sizeof *by_data, compare_data);
    fx_status st = check_gaps(c, by_data);
    free(by_data);
    return st;
}

// ---- the file ----------------------------------------------------------------------------------

static fx_status parse_header(fxi_safetensors *s, const char *text, size_t n, fx_error *err)
{
    json_error_t e;
    bool no_memory;
    const fxi_json_shape shape = fxi_json_measure(text, n);
    if (shape.max_depth > MAX_HEADER_DEPTH || shape.n_value > MAX_HEADER_VALUES)
        return fxi_fail(
            err, FX_EFORMAT, "%s: the header has %zu values, %zu deep (%d, %d deep are allowed)",
            s->path, shape.n_value, shape.max_depth, MAX_HEADER_VALUES, MAX_HEADER_DEPTH);
    s->header = fxi_json_text(text, n, JSON_REJECT_DUPLICATES, &no_memory, &e);
    if (no_memory) return fxi_fail(err, FX_ENOMEM, "%s: no memory for the header", s->path);
    if (!s->header)
        return fxi_fail(err, FX_EFORMAT, "%s: the header is not JSON: %s at byte %d", s->path,
                        fxi_show_text(e.text, strlen(e.text)).s, LENGTH_BYTES + e.position);
    if (json_is_object(s->header)) return FX_OK;
    return fxi_fail(err, FX_EFORMAT, "%s: the header is not an object", s->path);
}

static fx_status parse_st_bytes(fxi_safetensors *s, const unsigned char *p, size_t n, fx_error *err)
{
    uint64_t head;
    if (n < LENGTH_BYTES)
        return fxi_fail(err, FX_EFORMAT, "%s: too short for a safetensors file: %zu bytes", s->path,
                        n);
    memcpy(&head, p, sizeof head);
    if (head > MAX_HEADER_BYTES)
        return fxi_fail(err, FX_EFORMAT,
                        "%s: a header of %" PRIu64 " bytes (at most %d): not a safetensors file",
                        s->path, head, MAX_HEADER_BYTES);
    if (head > n - LENGTH_BYTES)
        return fxi_fail(err, FX_EFORMAT,
                        "%s: the file ends inside the header of %" PRIu64 " bytes (%zu left)",
                        s->path, head, n - LENGTH_BYTES);
    FX_TRY(parse_header(s, (const char *)p + LENGTH_BYTES, head, err));
    const st_cursor c = {s, p + LENGTH_BYTES + head, n - LENGTH_BYTES - head, err};
    return read_entries(&c);
}

fx_status fxi_safetensors_parse(const void *data, size_t n_bytes, const char *name,
                                fxi_safetensors *out, fx_error *err)
{
    *out = (fxi_safetensors){.path = strdup(name)};
    if (!out->path) return fxi_fail(err, FX_ENOMEM, "%s: no memory", name);
    return parse_st_bytes(out, data, n_bytes, err);
}

fx_status fxi_safetensors_open(const char *path, fxi_safetensors *out, fx_error *err)
{
    *out = (fxi_safetensors){.path = strdup(path)};
    if (!out->path) return fxi_fail(err, FX_ENOMEM, "%s: no memory", path);
    FX_TRY(fxi_mapping_open(path, &out->map, err));
    return parse_st_bytes(out, out->map.data, out->map.size_bytes, err);
}

void fxi_safetensors_close(fxi_safetensors *s)
{
    free(s->tensor);
    json_decref(s->header);
    fxi_mapping_close(&s->map);
    free(s->path);
    *s = (fxi_safetensors){0};
}
