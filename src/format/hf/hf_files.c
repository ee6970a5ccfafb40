// hf_files.c - opens the files of a Hugging Face folder: reads JSON, indexes the tensors.
#include "format/hf/hf_files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/system/regions.h"
#include "base/text/utf8.h" // defines: fxi_utf8_vprint
#include "format/show.h"

// ---- a safetensors file -------------------------------------------------------------------------

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
    {"I64", 8, FXI_ST_OTHER},       {"U64", 8, FXI_ST_OTHER},  {"I32", 4, FXI_ST_I32},
    {"U32", 4, FXI_ST_OTHER},       {"I16", 2, FXI_ST_OTHER},  {"U16", 2, FXI_ST_OTHER},
    {"I8", 1, FXI_ST_OTHER},        {"BOOL", 1, FXI_ST_OTHER}, {"F8_E5M2", 1, FXI_ST_OTHER},
    {"F8_E8M0", 1, FXI_ST_OTHER},
};

typedef struct st_cursor {
    fxi_safetensors *s;
    const unsigned char *data; // where the tensors' data begins
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
                    fxi_show_text(fxi_str_of(t->name)).s, what);
}

// ---- safetensors: one tensor --------------------------------------------------------------------

// A whole number from 0 to 2^53, which JSON's numbers hold exactly.
static bool read_count(const fxi_json *v, uint64_t *out)
{
    if (!fxi_json_is_int(v)) return false;
    const int64_t n = fxi_json_int(v);
    *out = (uint64_t)n;
    return n >= 0 && n <= (int64_t)1 << 53;
}

static fx_status read_st_shape(const st_cursor *c, const fxi_json *of, fxi_st_tensor *t)
{
    const fxi_json *shape = fxi_json_get(of, "shape");
    if (!fxi_json_is_array(shape)) return fxi_st_fail(c->err, t, "has no shape");
    const size_t n = fxi_json_array_size(shape);
    if (n > FXI_ST_MAX_DIM)
        return fxi_st_fail(c->err, t, "has %zu dimensions (at most %d)", n, FXI_ST_MAX_DIM);
    t->n_dim = (int)n;
    t->n_elem = 1;
    for (size_t i = 0; i < FXI_ST_MAX_DIM; i++) t->dim[i] = 1;
    for (size_t i = 0; i < n; i++) {
        if (!read_count(fxi_json_at(shape, i), &t->dim[i]))
            return fxi_st_fail(c->err, t, "dimension %zu is not a count", i);
        if (__builtin_mul_overflow(t->n_elem, t->dim[i], &t->n_elem))
            return fxi_st_fail(c->err, t, "its dimensions' product is too large");
    }
    return FX_OK;
}

static fx_status read_st_type(const st_cursor *c, const fxi_json *of, fxi_st_tensor *t)
{
    const char *name = fxi_json_text(fxi_json_get(of, "dtype"));
    if (!name) return fxi_st_fail(c->err, t, "has no dtype");
    for (size_t i = 0; i < sizeof st_types / sizeof *st_types; i++) {
        if (strcmp(st_types[i].name, name) != 0) continue;
        t->type = st_types[i].type;
        t->type_name = st_types[i].name;
        t->elem_bytes = st_types[i].elem_bytes;
        return FX_OK;
    }
    return fxi_st_fail(c->err, t, "has the unknown type '%s'", fxi_show_text(fxi_str_of(name)).s);
}

static fx_status read_range(const st_cursor *c, const fxi_json *of, fxi_st_tensor *t)
{
    const fxi_json *range = fxi_json_get(of, "data_offsets");
    uint64_t from, to, want;
    if (fxi_json_array_size(range) != 2 || !read_count(fxi_json_at(range, 0), &from) ||
        !read_count(fxi_json_at(range, 1), &to))
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

static fx_status read_entry(const st_cursor *c, const char *name, const fxi_json *of,
                            fxi_st_tensor *t)
{
    *t = (fxi_st_tensor){.name = name, .file = c->s->path};
    const size_t n = strlen(name);
    if (!n || n > MAX_NAME_BYTES)
        return fxi_st_fail(c->err, t, "a name of %zu bytes (1 to %d allowed)", n, MAX_NAME_BYTES);
    if (!fxi_json_is_object(of)) return fxi_st_fail(c->err, t, "is not an object");
    FX_TRY(read_st_type(c, of, t));
    FX_TRY(read_st_shape(c, of, t));
    return read_range(c, of, t);
}

// ---- safetensors: all tensors -------------------------------------------------------------------

static int compare_data(const void *a, const void *b)
{
    const fxi_st_tensor *x = a, *y = b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return (x->size_bytes > y->size_bytes) - (x->size_bytes < y->size_bytes);
}

static fx_status check_gaps(const st_cursor *c)
{
    const unsigned char *at = c->data;
    for (size_t i = 0; i < c->s->n_tensor; i++) {
        const fxi_st_tensor *t = &c->s->tensor[i];
        if (t->data < at)
            return fxi_st_fail(c->err, t, "overlaps tensor '%s'",
                               fxi_show_text(fxi_str_of(t[-1].name)).s);
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
    s->tensor = calloc(fxi_json_object_size(s->header.root) + 1, sizeof *s->tensor);
    if (!s->tensor) return fxi_fail_memory(c->err);
    for (fxi_json_iter it = fxi_json_members(s->header.root); fxi_json_next(&it);)
        if (strcmp(it.key, "__metadata__"))
            FX_TRY(read_entry(c, it.key, it.value, &s->tensor[s->n_tensor++]));
    qsort(s->tensor, s->n_tensor, sizeof *s->tensor, compare_data);
    return check_gaps(c);
}

// ---- safetensors: the file ----------------------------------------------------------------------

static fx_status parse_header(fxi_safetensors *s, fxi_str text, fx_error *err)
{
    static const fxi_json_rules rules = {
        .max_depth = MAX_HEADER_DEPTH, .max_value = MAX_HEADER_VALUES, .unique = true};
    fx_error e;
    const fx_status st = fxi_json_parse(&s->header, text, &rules, &e);
    if (st == FX_ENOMEM) return fxi_fail_memory(err);
    if (st == FX_EFORMAT)
        return fxi_fail(err, st, "%s: the header is not JSON: %s", s->path, e.text);
    if (st != FX_OK) return fxi_fail(err, FX_EFORMAT, "%s: the header %s", s->path, e.text);
    if (fxi_json_is_object(s->header.root)) return FX_OK;
    return fxi_fail(err, FX_EFORMAT, "%s: the header is not an object", s->path);
}

fx_status fxi_safetensors_parse(const void *data, size_t n, const char *name, fxi_safetensors *s,
                                fx_error *err)
{
    const unsigned char *p = data;
    uint64_t head;
    *s = (fxi_safetensors){.path = strdup(name)};
    if (!s->path) return fxi_fail_memory(err);
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
    FX_TRY(parse_header(s, (fxi_str){(const char *)p + LENGTH_BYTES, head}, err));
    const st_cursor c = {s, p + LENGTH_BYTES + head, n - LENGTH_BYTES - head, err};
    return read_entries(&c);
}

fx_status fxi_safetensors_open(const char *path, fxi_safetensors *out, fx_error *err)
{
    fxi_mapping map;
    *out = (fxi_safetensors){0};
    FX_TRY(fxi_mapping_open(path, &map, err));
    const fx_status st = fxi_safetensors_parse(map.data, map.size_bytes, path, out, err);
    out->map = map;
    return st;
}

void fxi_safetensors_close(fxi_safetensors *s)
{
    free(s->tensor);
    fxi_json_doc_free(&s->header);
    fxi_mapping_close(&s->map);
    free(s->path);
    *s = (fxi_safetensors){0};
}

// ---- JSON files ---------------------------------------------------------------------------------

enum { MAX_CONFIG_BYTES = 64 << 20, MAX_CONFIG_VALUES = 2000000 };

static fx_status parse_config(fxi_str text, bool may_be_list, fxi_config *out, fx_error *err)
{
    static const fxi_json_rules rules = {.max_depth = FXI_JSON_MAX_DEPTH,
                                         .max_value = MAX_CONFIG_VALUES,
                                         .unique = true,
                                         .reals = true,
                                         .not_finite = true};
    if (text.n > MAX_CONFIG_BYTES)
        return fxi_fail(err, FX_EFORMAT, "%s: too large: %zu bytes", out->path, text.n);
    return fxi_members_parse(text, &rules, may_be_list, out->path, &out->doc, &out->all, err);
}

fx_status fxi_config_open(const char *folder, const char *name, fxi_config_kind kind,
                          fxi_config *out, fx_error *err)
{
    const bool list = kind == FXI_CONFIG_LIST;
    *out = (fxi_config){0};
    if (asprintf(&out->path, "%s/%s", folder, name) < 0) {
        out->path = NULL;
        return fxi_fail_memory(err);
    }
    const bool there = !access(out->path, F_OK);
    if (!there && kind == FXI_CONFIG_MUST)
        return fxi_fail(err, FX_EIO, "%s: a directory without %s", folder, name);
    if (!there) return parse_config(fxi_str_of("{}"), list, out, err);
    fxi_mapping map;
    FX_TRY(fxi_mapping_open(out->path, &map, err));
    fx_status st = parse_config((fxi_str){(const char *)map.data, map.size_bytes}, list, out, err);
    fxi_mapping_close(&map);
    return st;
}

void fxi_config_close(fxi_config *c)
{
    fxi_json_doc_free(&c->doc);
    free(c->path);
    *c = (fxi_config){0};
}

#define INDEX_NAME  "model.safetensors.index.json"
#define SINGLE_NAME "model.safetensors"

enum { MAX_FILES = 4096 };

// ---- the index of a folder's safetensors files --------------------------------------------------

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

fx_status fxi_hf_index_names(const fxi_members *index, const char ***name, size_t *n, fx_error *err)
{
    const fxi_json *map = fxi_members_get(index, "weight_map");
    const size_t n_tensor = fxi_json_object_size(map);
    size_t n_file = 0;
    *n = 0;
    *name = NULL;
    if (!n_tensor)
        return fxi_members_fail(index, "weight_map", "not an object that maps tensors to files");
    const char **list = *name = calloc(n_tensor, sizeof *list);
    if (!list) return fxi_fail_memory(err);
    for (fxi_json_iter it = fxi_json_members(map); fxi_json_next(&it);) {
        // A name in the folder itself: an index must not lead elsewhere.
        const char *text = fxi_json_text(it.value);
        const size_t n_text = text ? strlen(text) : 0;
        if (!n_text || n_text >= 256 || text[0] == '.' || strchr(text, '/'))
            return fxi_members_fail(index, "weight_map", "'%s' is not mapped to a file name",
                                    fxi_show_text((fxi_str){it.key, it.key_bytes}).s);
        list[it.i] = text;
    }
    qsort(list, n_tensor, sizeof *list, compare_texts);
    for (size_t i = 0; i < n_tensor; i++)
        if (!n_file || strcmp(list[i], list[n_file - 1])) list[n_file++] = list[i];
    if (n_file > MAX_FILES)
        return fxi_fail(err, FX_EFORMAT, "%s: more than %d files", index->file, MAX_FILES);
    *n = n_file;
    return FX_OK;
}

// ---- opening them -------------------------------------------------------------------------------

static fx_status add_file(fxi_hf_files *f, const char *folder, const char *name, fx_error *err)
{
    char *path;
    fxi_safetensors *file = realloc(f->file, (f->n_file + 1) * sizeof *file);
    if (!file) return fxi_fail_memory(err);
    f->file = file;
    if (asprintf(&path, "%s/%s", folder, name) < 0) return fxi_fail_memory(err);
    fx_status st = fxi_safetensors_open(path, &file[f->n_file++], err);
    free(path);
    FX_TRY(st);
    f->n_tensor += file[f->n_file - 1].n_tensor;
    f->size_bytes += file[f->n_file - 1].map.size_bytes;
    return FX_OK;
}

bool fxi_hf_has_file(const char *folder, const char *name)
{
    char path[4096];
    return (size_t)snprintf(path, sizeof path, "%s/%s", folder, name) < sizeof path &&
           !access(path, F_OK);
}

static fx_status add_listed(fxi_hf_files *f, const char *folder, const fxi_members *index,
                            fx_error *err)
{
    const char **name;
    size_t n;
    fx_status st = fxi_hf_index_names(index, &name, &n, err);
    for (size_t i = 0; st == FX_OK && i < n; i++)
        st = fxi_hf_has_file(folder, name[i])
                 ? add_file(f, folder, name[i], err)
                 : fxi_fail(err, FX_EIO, "%s/%s: the file is missing, but listed in %s", folder,
                            fxi_show_text(fxi_str_of(name[i])).s, INDEX_NAME);
    free(name);
    return st;
}

static int compare_st_tensors(const void *a, const void *b)
{
    return strcmp((*(const fxi_st_tensor *const *)a)->name,
                  (*(const fxi_st_tensor *const *)b)->name);
}

void fxi_hf_files_sort(fxi_hf_files *f)
{
    qsort(f->tensor, f->n_tensor, sizeof *f->tensor, compare_st_tensors);
}

static fx_status index_files(fxi_hf_files *f, fx_error *err)
{
    size_t n = 0;
    f->tensor = calloc(f->n_tensor + 1, sizeof *f->tensor);
    if (!f->tensor) return fxi_fail_memory(err);
    for (size_t i = 0; i < f->n_file; i++)
        for (size_t k = 0; k < f->file[i].n_tensor; k++) f->tensor[n++] = &f->file[i].tensor[k];
    fxi_hf_files_sort(f);
    for (size_t i = 1; i < n; i++)
        if (!strcmp(f->tensor[i]->name, f->tensor[i - 1]->name))
            return fxi_fail(err, FX_EFORMAT, "%s: tensor '%s' is also in %s", f->tensor[i]->file,
                            fxi_show_text(fxi_str_of(f->tensor[i]->name)).s,
                            f->tensor[i - 1]->file);
    return FX_OK;
}

const fxi_st_tensor *fxi_hf_files_find(const fxi_hf_files *f, const char *name)
{
    const fxi_st_tensor want = {.name = name}, *key = &want;
    const fxi_st_tensor **hit =
        f->n_tensor ? bsearch(&key, f->tensor, f->n_tensor, sizeof *f->tensor, compare_st_tensors)
                    : NULL;
    return hit ? *hit : NULL;
}

// Every tensor of the index must be in the file that it names.
static fx_status check_index(const fxi_members *index, const fxi_hf_files *f, fx_error *err)
{
    for (fxi_json_iter it = fxi_json_members(fxi_json_get(index->root, "weight_map"));
         fxi_json_next(&it);) {
        const fxi_st_tensor *t = fxi_hf_files_find(f, it.key);
        const char *slash = t ? strrchr(t->file, '/') : NULL;
        if (slash && !strcmp(slash + 1, fxi_json_text(it.value))) continue;
        return fxi_fail(err, FX_EFORMAT, "%s: tensor '%s' is not in %s", index->file,
                        fxi_show_text(fxi_str_of(it.key)).s, fxi_json_text(it.value));
    }
    return FX_OK;
}

fx_status fxi_hf_files_open(const char *folder, fxi_hf_files *out, fx_error *err)
{
    *out = (fxi_hf_files){0};
    if (fxi_hf_has_file(folder, INDEX_NAME)) {
        fxi_config index;
        fx_status st = fxi_config_open(folder, INDEX_NAME, FXI_CONFIG_MUST, &index, err);
        if (st == FX_OK) st = add_listed(out, folder, &index.all, err);
        if (st == FX_OK) st = index_files(out, err);
        if (st == FX_OK) st = check_index(&index.all, out, err);
        fxi_config_close(&index);
        return st;
    }
    if (fxi_hf_has_file(folder, SINGLE_NAME)) {
        FX_TRY(add_file(out, folder, SINGLE_NAME, err));
        return index_files(out, err);
    }
    const bool has_program = fxi_hf_has_file(folder, "pytorch_model.bin") ||
                             fxi_hf_has_file(folder, "pytorch_model.bin.index.json");
    return fxi_fail(err, FX_EIO, "%s: a directory without %s%s", folder, SINGLE_NAME,
                    has_program ? "; pytorch_model.bin can hold programs and is never read"
                                : " or " INDEX_NAME);
}

void fxi_hf_files_close(fxi_hf_files *f)
{
    for (size_t i = 0; i < f->n_file; i++) fxi_safetensors_close(&f->file[i]);
    free(f->file);
    free(f->tensor);
    *f = (fxi_hf_files){0};
}
