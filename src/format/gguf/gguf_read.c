// gguf_read.c - values of a parsed file, by key and type. The parser has checked that all bytes of
// a value are there; they are copied out, as their alignment is arbitrary.
#include <float.h>
#include <math.h>
#include <string.h>

#include "format/gguf.h"
#include "format/show.h"

static const struct {
    const char *name;
    uint8_t size_bytes;
    bool is_int, is_signed, is_float;
} types[FXI_GGUF_N_TYPE] = {
    [FXI_GGUF_U8] = {"u8", 1, .is_int = true},
    [FXI_GGUF_I8] = {"i8", 1, .is_int = true, .is_signed = true},
    [FXI_GGUF_U16] = {"u16", 2, .is_int = true},
    [FXI_GGUF_I16] = {"i16", 2, .is_int = true, .is_signed = true},
    [FXI_GGUF_U32] = {"u32", 4, .is_int = true},
    [FXI_GGUF_I32] = {"i32", 4, .is_int = true, .is_signed = true},
    [FXI_GGUF_F32] = {"f32", 4, .is_float = true},
    [FXI_GGUF_BOOL] = {.name = "bool", .size_bytes = 1},
    [FXI_GGUF_STR] = {.name = "string"},
    [FXI_GGUF_ARRAY] = {.name = "array"},
    [FXI_GGUF_U64] = {"u64", 8, .is_int = true},
    [FXI_GGUF_I64] = {"i64", 8, .is_int = true, .is_signed = true},
    [FXI_GGUF_F64] = {"f64", 8, .is_float = true},
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

static fx_status fail_key(const fxi_gguf *g, const char *key, const char *what, fx_error *err)
{
    return fxi_fail(err, FX_EFORMAT, "%s: key '%s' %s", fxi_gguf_name(g), key, what);
}

static fx_status fail_type(const fxi_gguf *g, const fxi_gguf_kv *kv, const char *want,
                           fx_error *err)
{
    bool is_array = kv->type == FXI_GGUF_ARRAY;
    return fxi_fail(err, FX_EFORMAT, "%s: key '%s' is %s%s, not %s", fxi_gguf_name(g),
                    fxi_show_text(kv->key.p, kv->key.n).s, is_array ? "an array of " : "of type ",
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
    if (v < 0 || v > UINT32_MAX) return fail_key(g, key, "is out of range (0 to 2^32 - 1)", err);
    *out = (uint32_t)v;
    return FX_OK;
}

fx_status fxi_gguf_f32(const fxi_gguf *g, const char *key, bool must, float *out, fx_error *err)
{
    const fxi_gguf_kv *kv;
    FX_TRY(find_key(g, key, must, &kv, err));
    if (!kv) return FX_OK;
    if (!types[kv->type].is_int && !types[kv->type].is_float)
        return fail_type(g, kv, "a number", err);
    double v = types[kv->type].is_int ? (double)fxi_gguf_int_at(kv, 0) : fxi_gguf_float_at(kv, 0);
    if (!(fabs(v) <= (double)FLT_MAX)) return fail_key(g, key, "is not a finite f32", err);
    *out = (float)v;
    return FX_OK;
}

fx_status fxi_gguf_bool(const fxi_gguf *g, const char *key, bool must, bool *out, fx_error *err)
{
    const fxi_gguf_kv *kv;
    FX_TRY(find_key(g, key, must, &kv, err));
    if (!kv) return FX_OK;
    if (kv->type != FXI_GGUF_BOOL) return fail_type(g, kv, "a bool", err);
    *out = kv->value[0];
    return FX_OK;
}

fx_status fxi_gguf_str(const fxi_gguf *g, const char *key, bool must, fxi_str *out, fx_error *err)
{
    const fxi_gguf_kv *kv;
    FX_TRY(find_key(g, key, must, &kv, err));
    if (!kv) return FX_OK;
    if (kv->type != FXI_GGUF_STR) return fail_type(g, kv, "a string", err);
    const unsigned char *at = kv->value;
    *out = fxi_gguf_next_str(&at);
    return FX_OK;
}

fx_status fxi_gguf_array(const fxi_gguf *g, const char *key, bool must, fxi_gguf_type elem_type,
                         const fxi_gguf_kv **out, fx_error *err)
{
    FX_TRY(find_key(g, key, must, out, err));
    if (!*out) return FX_OK;
    if ((*out)->type == FXI_GGUF_ARRAY && (*out)->elem_type == elem_type) return FX_OK;
    char want[32] = "an array of ";
    return fail_type(g, *out, strcat(want, types[elem_type].name), err);
}
