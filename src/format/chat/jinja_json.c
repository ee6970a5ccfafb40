// jinja_json.c - JSON into values, and values as JSON text the way Python's json.dumps writes it.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/chat/jinja_impl.h"

// ---- in -----------------------------------------------------------------------------------------

typedef struct reader {
    fxi_jrun *r;
    char *marks; // of strings that are the template's own: as long as the longest of them
    size_t n_marks;
} reader;

static fx_status read_value(reader *in, const json_t *j, bool own, fxi_jval *out);

static fx_status marks_for(reader *in, size_t n, const char **out)
{
    if (in->n_marks < n) {
        FX_TRY(fxi_j_take(in->r, n, &in->marks));
        memset(in->marks, 1, n);
        in->n_marks = n;
    }
    *out = in->marks;
    return FX_OK;
}

static fx_status read_text(reader *in, const char *p, size_t n, bool own, fxi_jval *out)
{
    const char *marks = NULL;
    if (own && n) FX_TRY(marks_for(in, n, &marks));
    return fxi_j_str(in->r, p, marks, n, out);
}

static fx_status read_array(reader *in, const json_t *j, bool own, fxi_jval *out)
{
    const size_t n = json_array_size(j);
    fxi_jval *v;
    FX_TRY(fxi_j_take(in->r, n * sizeof *v, &v));
    for (size_t i = 0; i < n; i++) FX_TRY(read_value(in, json_array_get(j, i), own, &v[i]));
    return fxi_j_seq(in->r, FXI_J_LIST, v, n, out);
}

static fx_status read_object(reader *in, const json_t *j, bool own, fxi_jval *out)
{
    fxi_jpair *e;
    size_t i = 0;
    const char *key;
    json_t *value;
    FX_TRY(fxi_j_take(in->r, json_object_size(j) * sizeof *e, &e));
    json_object_foreach((json_t *)j, key, value)
    {
        FX_TRY(read_text(in, key, strlen(key), own, &e[i].key));
        FX_TRY(read_value(in, value, own, &e[i++].value));
    }
    return fxi_j_make_dict(in->r, e, i, out);
}

static fx_status read_any(reader *in, const json_t *j, bool own, fxi_jval *out)
{
    *out = fxi_j_none();
    switch (json_typeof(j)) {
    case JSON_OBJECT: return read_object(in, j, own, out);
    case JSON_ARRAY: return read_array(in, j, own, out);
    case JSON_STRING: return read_text(in, json_string_value(j), json_string_length(j), own, out);
    case JSON_INTEGER: *out = fxi_j_int(json_integer_value(j)); break;
    case JSON_REAL: *out = fxi_j_float(json_real_value(j)); break;
    case JSON_TRUE:
    case JSON_FALSE: *out = fxi_j_bool(json_is_true(j)); break;
    case JSON_NULL: break;
    }
    out->own = own;
    return FX_OK;
}

static fx_status read_value(reader *in, const json_t *j, bool own, fxi_jval *out)
{
    FX_TRY(fxi_j_enter(in->r));
    fx_status st = read_any(in, j, own, out);
    fxi_j_leave(in->r);
    return st;
}

// The words for roles that published templates know. A conversation spells nothing with them.
static bool is_role(const fxi_jstr *s)
{
    static const char *const words[] = {"system",      "user",     "assistant",  "tool",
                                        "developer",   "function", "ipython",    "model",
                                        "observation", "context",  "environment"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (fxi_j_str_is(s, words[i])) return true;
    return false;
}

// Marks messages[i].role as the template's own where it is one of the words.
static fx_status own_roles(reader *in, const fxi_jval *messages)
{
    for (size_t i = 0; messages->type == FXI_J_LIST && i < messages->seq->n; i++) {
        fxi_jval m = messages->seq->v[i];
        for (size_t k = 0; m.type == FXI_J_DICT && k < m.dict->n; k++) {
            const fxi_jpair *e = &m.dict->e[k];
            if (!fxi_j_str_is(e->key.s, "role") || e->value.type != FXI_J_STR) continue;
            if (is_role(e->value.s))
                FX_TRY(marks_for(in, e->value.s->n, &((fxi_jstr *)e->value.s)->own));
        }
    }
    return FX_OK;
}

fx_status fxi_j_from_json(fxi_jrun *r, const json_t *j, fxi_jinja_whose whose, fxi_jval *out)
{
    reader in = {.r = r};
    FX_TRY(read_value(&in, j, whose == FXI_JINJA_OWN, out));
    return whose == FXI_JINJA_MESSAGES ? own_roles(&in, out) : FX_OK;
}

// ---- out ----------------------------------------------------------------------------------------

typedef struct writer {
    fxi_jrun *r;
    const fxi_jdump *d;
    fxi_jout *o;
    size_t depth; // of indentation
} writer;

static fx_status write_value(writer *w, fxi_jval v);

static fx_status put(writer *w, const char *text)
{
    return fxi_jout_bytes(w->r, w->o, text, strlen(text), false);
}

static fx_status write_escape(writer *w, uint32_t c, bool own)
{
    static const char plain[] = "\n\r\t\f\b\"\\", letters[] = "nrtfb\"\\";
    const char *at = c && c < 128 ? strchr(plain, (int)c) : NULL;
    char text[16];
    int n = at            ? snprintf(text, sizeof text, "\\%c", letters[at - plain])
            : c < 0x10000 ? snprintf(text, sizeof text, "\\u%04x", c)
                          : snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xD7C0 + (c >> 10),
                                     0xDC00 + (c & 0x3FF));
    return fxi_jout_bytes(w->r, w->o, text, (size_t)n, own);
}

static fx_status write_string(writer *w, const fxi_jstr *s)
{
    FX_TRY(put(w, "\""));
    size_t from = 0, n;
    for (size_t at = 0; at < s->n; at += n) {
        uint32_t c = fxi_j_char(s, at, &n);
        bool escaped = c < ' ' || c == '"' || c == '\\' || (w->d->ascii && c > 0x7E);
        if (!escaped) continue;
        FX_TRY(fxi_jout_part(w->r, w->o, s, from, at - from));
        FX_TRY(write_escape(w, c, fxi_j_own(s, at, n)));
        from = at + n;
    }
    FX_TRY(fxi_jout_part(w->r, w->o, s, from, s->n - from));
    return put(w, "\"");
}

static fx_status write_float(writer *w, fxi_jval v)
{
    char text[FXI_J_FLOAT_BYTES];
    if (isnan(v.f)) return put(w, "NaN");
    if (isinf(v.f)) return put(w, v.f > 0 ? "Infinity" : "-Infinity");
    return fxi_jout_bytes(w->r, w->o, text, fxi_j_float_text(v.f, text), v.own);
}

static fx_status write_int(writer *w, fxi_jval v)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%lld", (long long)v.i);
    return fxi_jout_bytes(w->r, w->o, text, (size_t)n, v.own);
}

static fx_status new_line(writer *w)
{
    if (!w->d->indent) return FX_OK;
    FX_TRY(put(w, "\n"));
    for (size_t i = 0; i < w->depth; i++) FX_TRY(fxi_jout_add(w->r, w->o, w->d->indent));
    return FX_OK;
}

// What stands in front of member i.
static fx_status write_separator(writer *w, size_t i)
{
    if (i) FX_TRY(fxi_jout_add(w->r, w->o, &w->d->item));
    return new_line(w);
}

static fx_status write_seq(writer *w, const fxi_jseq *s)
{
    if (!s->n) return put(w, "[]");
    FX_TRY(put(w, "["));
    w->depth++;
    for (size_t i = 0; i < s->n; i++) {
        FX_TRY(write_separator(w, i));
        FX_TRY(write_value(w, s->v[i]));
    }
    w->depth--;
    FX_TRY(new_line(w));
    return put(w, "]");
}

static fx_status write_key(writer *w, fxi_jval key)
{
    if (key.type == FXI_J_STR) return write_string(w, key.s);
    if (!fxi_j_is_number(key) && key.type != FXI_J_NONE)
        return fxi_j_fail(w->r, "tojson: a %s cannot be a key", fxi_j_type_name(key));
    FX_TRY(put(w, "\""));
    FX_TRY(write_value(w, key));
    return put(w, "\"");
}

static int compare_pairs(const void *a, const void *b)
{
    return fxi_j_compare_str(((const fxi_jpair *)a)->key.s, ((const fxi_jpair *)b)->key.s);
}

static fx_status sort_pairs(writer *w, const fxi_jdict *d, const fxi_jpair **out)
{
    fxi_jpair *e;
    for (size_t i = 0; i < d->n; i++)
        if (d->e[i].key.type != FXI_J_STR)
            return fxi_j_fail(w->r, "tojson: keys that are no strings cannot be sorted");
    FX_TRY(fxi_j_work(w->r, d->n * 256));
    FX_TRY(fxi_j_take(w->r, d->n * sizeof *e, &e));
    memcpy(e, d->e, d->n * sizeof *e);
    qsort(e, d->n, sizeof *e, compare_pairs);
    *out = e;
    return FX_OK;
}

static fx_status write_dict(writer *w, const fxi_jdict *d)
{
    const fxi_jpair *e = d->e;
    if (!d->n) return put(w, "{}");
    if (w->d->sorted) FX_TRY(sort_pairs(w, d, &e));
    FX_TRY(put(w, "{"));
    w->depth++;
    for (size_t i = 0; i < d->n; i++) {
        FX_TRY(write_separator(w, i));
        FX_TRY(write_key(w, e[i].key));
        FX_TRY(fxi_jout_add(w->r, w->o, &w->d->colon));
        FX_TRY(write_value(w, e[i].value));
    }
    w->depth--;
    FX_TRY(new_line(w));
    return put(w, "}");
}

static fx_status write_any(writer *w, fxi_jval v)
{
    switch (v.type) {
    case FXI_J_NONE: return put(w, "null");
    case FXI_J_BOOL: return put(w, v.b ? "true" : "false");
    case FXI_J_INT: return write_int(w, v);
    case FXI_J_FLOAT: return write_float(w, v);
    case FXI_J_STR: return write_string(w, v.s);
    case FXI_J_LIST:
    case FXI_J_TUPLE: return write_seq(w, v.seq);
    case FXI_J_DICT: return write_dict(w, v.dict);
    default: return fxi_j_fail(w->r, "tojson: a %s is not JSON", fxi_j_type_name(v));
    }
}

static fx_status write_value(writer *w, fxi_jval v)
{
    FX_TRY(fxi_j_enter(w->r));
    fx_status st = write_any(w, v);
    fxi_j_leave(w->r);
    return st;
}

fx_status fxi_j_dump(fxi_jrun *r, const fxi_jdump *d, fxi_jval v, fxi_jout *o)
{
    writer w = {.r = r, .d = d, .o = o};
    return write_value(&w, v);
}
