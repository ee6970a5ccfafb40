// gguf_parse.c - parses GGUF files, and reads the values of a parsed one.
//
//   "GGUF" u32 version, u64 n_tensor, u64 n_kv
//   n_kv     x string key, u32 type, value
//              string = u64 length, bytes          array = u32 element type, u64 count, elements
//   n_tensor x string name, u32 n_dim, u64 ne[n_dim], u32 type, u64 offset
//   padding to general.alignment (32 if absent), then the tensors' bytes; offsets count from here
//
// One pass from front to back. A cursor holds the position; every step first checks that the bytes
// are there, so nothing past the end is read, and a count is accepted only if that many elements of
// the smallest size could still follow. After the pass, names are sorted (for lookup, and to find
// duplicates), and the tensors' ranges are compared (outside the file, overlapping).
#include "format/gguf.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/gguf/gguf_impl.h"
#include "format/show.h"

// ---- what a parsed file holds -------------------------------------------------------------------

const char *fxi_gguf_name(const fxi_gguf *g)
{
    return g->name;
}

uint32_t fxi_gguf_version(const fxi_gguf *g)
{
    return g->version;
}

uint64_t fxi_gguf_size(const fxi_gguf *g)
{
    return g->file_bytes;
}

bool fxi_gguf_reads(const fxi_gguf *g, const char *path)
{
    for (size_t i = 0; i < g->n_part; i++)
        if (fxi_gguf_reads(g->part[i], path)) return true;
    return fxi_mapping_is_of(&g->map, path) ||
           (g->maker.reads && g->maker.reads(g->maker.ud, path));
}

uint64_t fxi_gguf_n_kv(const fxi_gguf *g)
{
    return g->n_kv;
}

uint64_t fxi_gguf_n_tensor(const fxi_gguf *g)
{
    return g->n_tensor;
}

const fxi_gguf_kv *fxi_gguf_kv_at(const fxi_gguf *g, uint64_t i)
{
    return &g->kv[i];
}

const fxi_gguf_tensor *fxi_gguf_tensor_at(const fxi_gguf *g, uint64_t i)
{
    return &g->tensor[i];
}

static int compare_gguf_names(const void *a, const void *b)
{
    return fxi_str_compare(**(const fxi_str *const *)a, **(const fxi_str *const *)b);
}

static const void *find_name(const fxi_str **by_name, size_t n, const char *name)
{
    fxi_str want = {name, strlen(name)};
    const fxi_str *key = &want;
    const fxi_str **hit = n ? bsearch(&key, by_name, n, sizeof *by_name, compare_gguf_names) : NULL;
    return hit ? *hit : NULL;
}

const fxi_gguf_kv *fxi_gguf_find(const fxi_gguf *g, const char *key)
{
    return find_name(g->kv_by_name, g->n_kv, key);
}

const fxi_gguf_tensor *fxi_gguf_find_tensor(const fxi_gguf *g, const char *name)
{
    return find_name(g->tensor_by_name, g->n_tensor, name);
}

// ---- values by key and type: copied out, as their alignment is arbitrary ------------------------

static const struct {
    const char *name;
    uint8_t size_bytes;
    bool is_int, is_signed;
} types[FXI_GGUF_N_TYPE] = {
    [FXI_GGUF_U8] = {"u8", 1, .is_int = true},
    [FXI_GGUF_I8] = {"i8", 1, .is_int = true, .is_signed = true},
    [FXI_GGUF_U16] = {"u16", 2, .is_int = true},
    [FXI_GGUF_I16] = {"i16", 2, .is_int = true, .is_signed = true},
    [FXI_GGUF_U32] = {"u32", 4, .is_int = true},
    [FXI_GGUF_I32] = {"i32", 4, .is_int = true, .is_signed = true},
    [FXI_GGUF_F32] = {"f32", 4},
    [FXI_GGUF_BOOL] = {"bool", 1},
    [FXI_GGUF_STR] = {.name = "string"},
    [FXI_GGUF_ARRAY] = {.name = "array"},
    [FXI_GGUF_U64] = {"u64", 8, .is_int = true},
    [FXI_GGUF_I64] = {"i64", 8, .is_int = true, .is_signed = true},
    [FXI_GGUF_F64] = {"f64", 8},
};

size_t fxi_gguf_type_bytes(fxi_gguf_type type)
{
    return types[type].size_bytes;
}

int64_t fxi_gguf_int_at(const fxi_gguf_kv *kv, uint64_t i)
{
    size_t n_bytes = types[kv->elem_type].size_bytes;
    uint64_t v = 0;
    memcpy(&v, kv->value + i * n_bytes, n_bytes);
    int unused_bits = 64 - 8 * (int)n_bytes;
    if (types[kv->elem_type].is_signed) return (int64_t)(v << unused_bits) >> unused_bits;
    return (int64_t)v;
}

double fxi_gguf_float_at(const fxi_gguf_kv *kv, uint64_t i)
{
    float f;
    double d;
    if (kv->elem_type == FXI_GGUF_F64) {
        memcpy(&d, kv->value + i * sizeof d, sizeof d);
        return d;
    }
    memcpy(&f, kv->value + i * sizeof f, sizeof f);
    return (double)f;
}

fxi_str fxi_gguf_next_str(const unsigned char **cursor)
{
    uint64_t n;
    memcpy(&n, *cursor, sizeof n);
    fxi_str s = {(const char *)*cursor + sizeof n, n};
    *cursor += sizeof n + n;
    return s;
}

size_t fxi_gguf_value_bytes(const fxi_gguf_kv *kv)
{
    const unsigned char *at = kv->value;
    if (kv->elem_type != FXI_GGUF_STR) return kv->n_elem * types[kv->elem_type].size_bytes;
    for (uint64_t i = 0; i < kv->n_elem; i++) fxi_gguf_next_str(&at);
    return (size_t)(at - kv->value);
}

// "FILE: key 'NAME': what is wrong", or of a tensor.
__attribute__((format(printf, 5, 6))) static fx_status refuse_entry(
    const fxi_gguf *g, const char *kind, const fxi_str *name, fx_error *err, const char *fmt, ...)
{
    char text[FX_ERROR_TEXT_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return fxi_fail(err, FX_EFORMAT, "%s: %s '%s'%s", g->name, kind, fxi_show_text(*name).s, text);
}

static fx_status fail_type(const fxi_gguf *g, const fxi_gguf_kv *kv, const char *want,
                           fx_error *err)
{
    return refuse_entry(g, "key", &kv->key, err, " is %s%s, not %s",
                        kv->type == FXI_GGUF_ARRAY ? "an array of " : "of type ",
                        types[kv->elem_type].name, want);
}

// *kv is NULL if the key is absent and not `must`.
static fx_status find_key(const fxi_gguf *g, const char *key, bool must, const fxi_gguf_kv **kv,
                          fx_error *err)
{
    *kv = fxi_gguf_find(g, key);
    if (*kv || !must) return FX_OK;
    return fxi_fail(err, FX_EFORMAT, "%s: missing key '%s'", fxi_gguf_name(g), key);
}

fx_status fxi_gguf_u32(const fxi_gguf *g, const char *key, bool must, uint32_t *out, fx_error *err)
{
    const fxi_gguf_kv *kv;
    FX_TRY(find_key(g, key, must, &kv, err));
    if (!kv) return FX_OK;
    if (!types[kv->type].is_int) return fail_type(g, kv, "an integer", err);
    int64_t v = fxi_gguf_int_at(kv, 0);
    if (v < 0 || v > UINT32_MAX)
        return refuse_entry(g, "key", &kv->key, err, " is out of range (0 to 2^32 - 1)");
    *out = (uint32_t)v;
    return FX_OK;
}

// The same for a key of one type: elements of an array, or a value.
static fx_status find_typed(const fxi_gguf *g, const char *key, bool must, bool is_array,
                            fxi_gguf_type type, const fxi_gguf_kv **kv, fx_error *err)
{
    char want[32];
    FX_TRY(find_key(g, key, must, kv, err));
    if (!*kv || ((*kv)->elem_type == type && ((*kv)->type == FXI_GGUF_ARRAY) == is_array))
        return FX_OK;
    snprintf(want, sizeof want, is_array ? "an array of %s" : "a %s", types[type].name);
    return fail_type(g, *kv, want, err);
}

fx_status fxi_gguf_bool(const fxi_gguf *g, const char *key, bool must, bool *out, fx_error *err)
{
    const fxi_gguf_kv *kv;
    FX_TRY(find_typed(g, key, must, false, FXI_GGUF_BOOL, &kv, err));
    if (kv) *out = kv->value[0];
    return FX_OK;
}

fx_status fxi_gguf_str(const fxi_gguf *g, const char *key, bool must, fxi_str *out, fx_error *err)
{
    const fxi_gguf_kv *kv;
    FX_TRY(find_typed(g, key, must, false, FXI_GGUF_STR, &kv, err));
    if (kv) *out = fxi_gguf_next_str(&(const unsigned char *){kv->value});
    return FX_OK;
}

fx_status fxi_gguf_array(const fxi_gguf *g, const char *key, bool must, fxi_gguf_type elem_type,
                         const fxi_gguf_kv **out, fx_error *err)
{
    return find_typed(g, key, must, true, elem_type, out, err);
}

_Static_assert(sizeof(size_t) == 8, "files are mapped whole");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are read as they lie");

enum {
    HEADER_BYTES = 24,
    MIN_KV_BYTES = 8 + 1 + 4 + 1,             // one byte of key, one of value
    MIN_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8, // one byte of name, one dimension
    MAX_KEY_BYTES = 65535,
    MAX_TENSOR_NAME_BYTES = 255,
    DEFAULT_ALIGNMENT = 32,
    MIN_ALIGNMENT = 8,
    MAX_ALIGNMENT = 1 << 20,
};

typedef struct gguf_cursor {
    fxi_gguf *g;
    size_t pos; // <= g->size_bytes
    fx_error *err;
} gguf_cursor;

// ---- reading ------------------------------------------------------------------------------------

static size_t bytes_left(const gguf_cursor *c)
{
    return c->g->size_bytes - c->pos;
}

static fx_status need_bytes(const gguf_cursor *c, uint64_t n_bytes, const char *what)
{
    if (n_bytes <= bytes_left(c)) return FX_OK;
    return fxi_fail(c->err, FX_EFORMAT,
                    "%s: the file ends inside %s at byte %zu (%" PRIu64 " bytes needed, %zu left)",
                    c->g->name, what, c->pos, n_bytes, bytes_left(c));
}

static fx_status read_bytes(gguf_cursor *c, void *dst, size_t n_bytes, const char *what)
{
    FX_TRY(need_bytes(c, n_bytes, what));
    memcpy(dst, c->g->data + c->pos, n_bytes);
    c->pos += n_bytes;
    return FX_OK;
}

static fx_status read_string(gguf_cursor *c, fxi_str *s, const char *what)
{
    uint64_t n;
    FX_TRY(read_bytes(c, &n, sizeof n, what));
    FX_TRY(need_bytes(c, n, what));
    *s = (fxi_str){(const char *)c->g->data + c->pos, n};
    c->pos += n;
    return FX_OK;
}

// A key or a tensor's name, which must be usable as a C string.
static fx_status read_name(gguf_cursor *c, fxi_str *s, size_t max_bytes, const char *what)
{
    size_t at = c->pos;
    FX_TRY(read_string(c, s, what));
    if (!s->n || s->n > max_bytes)
        return fxi_fail(c->err, FX_EFORMAT, "%s: %s at byte %zu has %zu bytes (1 to %zu allowed)",
                        c->g->name, what, at, s->n, max_bytes);
    if (memchr(s->p, 0, s->n))
        return fxi_fail(c->err, FX_EFORMAT, "%s: %s at byte %zu ('%s') contains a NUL byte",
                        c->g->name, what, at, fxi_show_text(*s).s);
    return FX_OK;
}

// ---- keys and values ----------------------------------------------------------------------------

// Skips n values of a known type that is not an array.
static fx_status skip_values(gguf_cursor *c, const fxi_str *key, fxi_gguf_type type, uint64_t n)
{
    if (type == FXI_GGUF_STR) {
        fxi_str s;
        for (uint64_t i = 0; i < n; i++) FX_TRY(read_string(c, &s, "a string value"));
        return FX_OK;
    }
    uint64_t n_bytes;
    if (__builtin_mul_overflow(n, fxi_gguf_type_bytes(type), &n_bytes)) n_bytes = UINT64_MAX;
    FX_TRY(need_bytes(c, n_bytes, "a value"));
    const unsigned char *at = c->g->data + c->pos;
    for (uint64_t i = 0; type == FXI_GGUF_BOOL && i < n; i++)
        if (at[i] > 1) // not what C's bool may be
            return refuse_entry(c->g, "key", key, c->err, ": the bool at byte %zu is %d",
                                c->pos + i, at[i]);
    c->pos += n_bytes;
    return FX_OK;
}

static fx_status read_type(gguf_cursor *c, const fxi_str *key, fxi_gguf_type *type)
{
    uint32_t id;
    size_t at = c->pos;
    FX_TRY(read_bytes(c, &id, sizeof id, "a value's type"));
    if (id >= FXI_GGUF_N_TYPE)
        return refuse_entry(c->g, "key", key, c->err,
                            ": unknown value type %" PRIu32 " at byte %zu", id, at);
    *type = (fxi_gguf_type)id;
    return FX_OK;
}

static fx_status read_array(gguf_cursor *c, fxi_gguf_kv *kv)
{
    FX_TRY(read_type(c, &kv->key, &kv->elem_type));
    if (kv->elem_type == FXI_GGUF_ARRAY)
        return refuse_entry(c->g, "key", &kv->key, c->err, ": arrays of arrays are not supported");
    FX_TRY(read_bytes(c, &kv->n_elem, sizeof kv->n_elem, "an array's length"));
    size_t smallest = kv->elem_type == FXI_GGUF_STR ? 8 : fxi_gguf_type_bytes(kv->elem_type);
    if (kv->n_elem > bytes_left(c) / smallest)
        return refuse_entry(c->g, "key", &kv->key, c->err,
                            ": an array of %" PRIu64
                            " elements does not fit in the %zu bytes left at byte %zu",
                            kv->n_elem, bytes_left(c), c->pos);
    kv->value = c->g->data + c->pos;
    return skip_values(c, &kv->key, kv->elem_type, kv->n_elem);
}

static fx_status read_kv(gguf_cursor *c, fxi_gguf_kv *kv)
{
    FX_TRY(read_name(c, &kv->key, MAX_KEY_BYTES, "a key"));
    FX_TRY(read_type(c, &kv->key, &kv->type));
    if (kv->type == FXI_GGUF_ARRAY) return read_array(c, kv);
    kv->elem_type = kv->type;
    kv->n_elem = 1;
    kv->value = c->g->data + c->pos;
    return skip_values(c, &kv->key, kv->type, 1);
}

// ---- names --------------------------------------------------------------------------------------

// Sorts n names, `stride` bytes apart from `first` on. A duplicate is an error.
static fx_status index_names(const fxi_gguf *g, const void *first, size_t stride, size_t n,
                             const char *kind, const fxi_str ***out, fx_error *err)
{
    const fxi_str **by_name = malloc((n + 1) * sizeof *by_name);
    if (!by_name) return fxi_fail_memory(err);
    *out = by_name;
    for (size_t i = 0; i < n; i++)
        by_name[i] = (const fxi_str *)(const void *)((const char *)first + i * stride);
    qsort(by_name, n, sizeof *by_name, compare_gguf_names);
    for (size_t i = 1; i < n; i++)
        if (!compare_gguf_names(&by_name[i - 1], &by_name[i]))
            return refuse_entry(g, kind, by_name[i], err, " appears twice");
    return FX_OK;
}

fx_status fxi_gguf_index_tensors(fxi_gguf *g, fx_error *err)
{
    return index_names(g, g->tensor, sizeof *g->tensor, g->n_tensor, "tensor", &g->tensor_by_name,
                       err);
}

// ---- tensors ------------------------------------------------------------------------------------

#define REFUSE_TENSOR(...) refuse_entry(c->g, "tensor", &t->name, c->err, __VA_ARGS__)

static fx_status read_tensor(gguf_cursor *c, fxi_gguf_tensor *t)
{
    uint32_t id;
    FX_TRY(read_name(c, &t->name, MAX_TENSOR_NAME_BYTES, "a tensor's name"));
    FX_TRY(read_bytes(c, &t->n_dim, sizeof t->n_dim, "a tensor's number of dimensions"));
    if (!t->n_dim || t->n_dim > FXI_GGUF_MAX_DIM)
        return REFUSE_TENSOR(" has %" PRIu32 " dimensions (1 to %d allowed)", t->n_dim,
                             FXI_GGUF_MAX_DIM);
    for (uint32_t i = 0; i < FXI_GGUF_MAX_DIM; i++) {
        t->ne[i] = 1;
        if (i < t->n_dim)
            FX_TRY(read_bytes(c, &t->ne[i], sizeof t->ne[i], "a tensor's dimensions"));
        if (!t->ne[i]) return REFUSE_TENSOR(": a dimension is 0");
    }
    FX_TRY(read_bytes(c, &id, sizeof id, "a tensor's type"));
    t->type = fxi_dtype_find(id);
    if (!t->type) return REFUSE_TENSOR(" has the unknown type %" PRIu32, id);
    if (t->ne[0] % t->type->block_elems)
        return REFUSE_TENSOR(": rows of %" PRIu64
                             " numbers are not a multiple of %s's block of %" PRIu32,
                             t->ne[0], t->type->name, t->type->block_elems);
    uint64_t size = t->ne[0] / t->type->block_elems;
    bool over = __builtin_mul_overflow(size, t->type->block_bytes, &size);
    for (int i = 1; i < FXI_GGUF_MAX_DIM; i++)
        over |= __builtin_mul_overflow(size, t->ne[i], &size);
    if (over) return REFUSE_TENSOR(": its dimensions' product is too large");
    t->size_bytes = size;
    return read_bytes(c, &t->offset, sizeof t->offset, "a tensor's offset");
}

static fx_status place_tensor(const gguf_cursor *c, fxi_gguf_tensor *t, uint64_t alignment)
{
    uint64_t end;
    if (t->offset % alignment)
        return REFUSE_TENSOR(": offset %" PRIu64 " is not a multiple of the alignment %" PRIu64,
                             t->offset, alignment);
    if (__builtin_add_overflow(t->offset, t->size_bytes, &end) || end > bytes_left(c))
        return REFUSE_TENSOR(": offset %" PRIu64 " with %" PRIu64
                             " bytes is past the end of the file "
                             "(tensor data: %zu bytes from byte %zu)",
                             t->offset, t->size_bytes, bytes_left(c), c->pos);
    t->data = c->g->data + c->pos + t->offset;
    return FX_OK;
}

static int compare_offsets(const void *a, const void *b)
{
    uint64_t x = (*(const fxi_gguf_tensor *const *)a)->offset;
    uint64_t y = (*(const fxi_gguf_tensor *const *)b)->offset;
    return (x > y) - (x < y);
}

// No two tensors may overlap. Pre: all are placed, so offset + size does not overflow.
static fx_status check_overlap(const gguf_cursor *c)
{
    const fxi_gguf *g = c->g;
    const fxi_gguf_tensor **by_offset = malloc((g->n_tensor + 1) * sizeof *by_offset);
    if (!by_offset) return fxi_fail_memory(c->err);
    for (uint64_t i = 0; i < g->n_tensor; i++) by_offset[i] = &g->tensor[i];
    qsort(by_offset, g->n_tensor, sizeof *by_offset, compare_offsets);
    fx_status st = FX_OK;
    for (uint64_t i = 1; i < g->n_tensor && st == FX_OK; i++) {
        const fxi_gguf_tensor *a = by_offset[i - 1], *b = by_offset[i];
        if (a->offset + a->size_bytes > b->offset)
            st =
                fxi_fail(c->err, FX_EFORMAT, "%s: tensors '%s' and '%s' overlap at offset %" PRIu64,
                         g->name, fxi_show_text(a->name).s, fxi_show_text(b->name).s, b->offset);
    }
    free(by_offset);
    return st;
}

// ---- the passes over a file ---------------------------------------------------------------------

static fx_status check_count(const gguf_cursor *c, uint64_t n, size_t smallest_bytes,
                             const char *what)
{
    if (n <= bytes_left(c) / smallest_bytes) return FX_OK;
    return fxi_fail(c->err, FX_EFORMAT,
                    "%s: %" PRIu64 " %s do not fit in the %zu bytes left at byte %zu", c->g->name,
                    n, what, bytes_left(c), c->pos);
}

static fx_status read_header(gguf_cursor *c)
{
    fxi_gguf *g = c->g;
    if (g->size_bytes < HEADER_BYTES)
        return fxi_fail(c->err, FX_EFORMAT, "%s: too short for a GGUF file: %zu bytes", g->name,
                        g->size_bytes);
    char magic[4];
    FX_TRY(read_bytes(c, magic, sizeof magic, "the header"));
    if (memcmp(magic, "GGUF", sizeof magic))
        return fxi_fail(c->err, FX_EFORMAT, "%s: not a GGUF file: it begins with '%s'", g->name,
                        fxi_show_text((fxi_str){magic, sizeof magic}).s);
    FX_TRY(read_bytes(c, &g->version, sizeof g->version, "the header"));
    const uint32_t version = g->version;
    if (version && version != 2 && version != 3 && __builtin_bswap32(version) <= 255)
        return fxi_fail(c->err, FX_EFORMAT,
                        "%s: a big-endian GGUF file; only little-endian ones are read", g->name);
    if (version != 2 && version != 3)
        return fxi_fail(c->err, FX_EFORMAT,
                        "%s: GGUF version %" PRIu32 " at byte 4; only 2 and 3 are read", g->name,
                        version);
    FX_TRY(read_bytes(c, &g->n_tensor, sizeof g->n_tensor, "the header"));
    FX_TRY(read_bytes(c, &g->n_kv, sizeof g->n_kv, "the header"));
    FX_TRY(check_count(c, g->n_kv, MIN_KV_BYTES, "keys"));
    return check_count(c, g->n_tensor, MIN_TENSOR_BYTES, "tensors");
}

// Moves the cursor to the tensor data and sets every tensor's address there.
static fx_status place_tensors(gguf_cursor *c)
{
    fxi_gguf *g = c->g;
    uint32_t alignment = DEFAULT_ALIGNMENT;
    FX_TRY(fxi_gguf_u32(g, "general.alignment", false, &alignment, c->err));
    if (alignment < MIN_ALIGNMENT || alignment > MAX_ALIGNMENT || alignment & (alignment - 1))
        return fxi_fail(c->err, FX_EFORMAT,
                        "%s: key 'general.alignment': %" PRIu32
                        " is not a power of two from %d to %d",
                        g->name, alignment, MIN_ALIGNMENT, MAX_ALIGNMENT);
    if (!g->n_tensor) return FX_OK; // a file without tensors may lack the padding
    const size_t padding = -c->pos & (alignment - 1);
    FX_TRY(need_bytes(c, padding, "the padding before the tensor data"));
    c->pos += padding;
    for (uint64_t i = 0; i < g->n_tensor; i++) FX_TRY(place_tensor(c, &g->tensor[i], alignment));
    return check_overlap(c);
}

fx_status fxi_gguf_parse_bytes(fxi_gguf *g, bool with_data, fx_error *err)
{
    gguf_cursor c = {.g = g, .err = err};
    FX_TRY(read_header(&c));
    g->kv = calloc(g->n_kv + 1, sizeof *g->kv);
    if (!g->kv) return fxi_fail_memory(err);
    for (uint64_t i = 0; i < g->n_kv; i++) FX_TRY(read_kv(&c, &g->kv[i]));
    FX_TRY(index_names(g, g->kv, sizeof *g->kv, g->n_kv, "key", &g->kv_by_name, err));
    FX_TRY(check_count(&c, g->n_tensor, MIN_TENSOR_BYTES, "tensors"));
    g->tensor = calloc(g->n_tensor + 1, sizeof *g->tensor);
    if (!g->tensor) return fxi_fail_memory(err);
    for (uint64_t i = 0; i < g->n_tensor; i++) FX_TRY(read_tensor(&c, &g->tensor[i]));
    FX_TRY(fxi_gguf_index_tensors(g, err));
    return with_data ? place_tensors(&c) : FX_OK;
}
