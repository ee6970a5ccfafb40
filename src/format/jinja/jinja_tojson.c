// jinja_tojson.c - values as JSON text, the way Python's json.dumps writes it.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/jinja/jinja_library.h"
#include "format/jinja/jinja_tree.h"

typedef struct json_style { // arguments of json.dumps
    bool ascii, sorted;
    const fxi_jstr *indent; // NULL: on one line
    fxi_jstr item, colon;   // separators
} json_style;

typedef struct json_writer {
    fxi_jrun *r;
    const json_style *d;
    fxi_jout *o;
    size_t depth; // of indentation
} json_writer;

static fx_status write_value(json_writer *w, fxi_jval v);

static fx_status write_text(json_writer *w, const char *text)
{
    return fxi_jout_add_bytes(w->r, w->o, text, strlen(text), false);
}

static fx_status write_escape(json_writer *w, uint32_t c, bool own)
{
    static const char plain[] = "\n\r\t\f\b\"\\", letters[] = "nrtfb\"\\";
    const char *at = c && c < 128 ? strchr(plain, (int)c) : NULL;
    char text[16];
    int n = at            ? snprintf(text, sizeof text, "\\%c", letters[at - plain])
            : c < 0x10000 ? snprintf(text, sizeof text, "\\u%04x", c)
                          : snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xD7C0 + (c >> 10),
                                     0xDC00 + (c & 0x3FF));
    return fxi_jout_add_bytes(w->r, w->o, text, (size_t)n, own);
}

static fx_status write_str(json_writer *w, const fxi_jstr *s)
{
    FX_TRY(write_text(w, "\""));
    size_t from = 0, n;
    for (size_t at = 0; at < s->n; at += n) {
        uint32_t c = fxi_jstr_char_at(s, at, &n);
        bool escaped = c < ' ' || c == '"' || c == '\\' || (w->d->ascii && c > 0x7E);
        if (!escaped) continue;
        FX_TRY(fxi_jout_add_part(w->r, w->o, s, from, at - from));
        FX_TRY(write_escape(w, c, fxi_jstr_owns(s, at, n)));
        from = at + n;
    }
    FX_TRY(fxi_jout_add_part(w->r, w->o, s, from, s->n - from));
    return write_text(w, "\"");
}

static fx_status write_float(json_writer *w, fxi_jval v)
{
    char text[FXI_JVAL_FLOAT_BYTES];
    if (isnan(v.f)) return write_text(w, "NaN");
    if (isinf(v.f)) return write_text(w, v.f > 0 ? "Infinity" : "-Infinity");
    return fxi_jout_add_bytes(w->r, w->o, text, fxi_jval_float_text(v.f, text), v.own);
}

static fx_status write_int(json_writer *w, fxi_jval v)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%lld", (long long)v.i);
    return fxi_jout_add_bytes(w->r, w->o, text, (size_t)n, v.own);
}

static fx_status write_newline(json_writer *w)
{
    if (!w->d->indent) return FX_OK;
    FX_TRY(write_text(w, "\n"));
    for (size_t i = 0; i < w->depth; i++) FX_TRY(fxi_jout_add(w->r, w->o, w->d->indent));
    return FX_OK;
}

// The separator before member i.
static fx_status write_separator(json_writer *w, size_t i)
{
    if (i) FX_TRY(fxi_jout_add(w->r, w->o, &w->d->item));
    return write_newline(w);
}

static fx_status write_seq(json_writer *w, const fxi_jseq *s)
{
    if (!s->n) return write_text(w, "[]");
    FX_TRY(write_text(w, "["));
    w->depth++;
    for (size_t i = 0; i < s->n; i++) {
        FX_TRY(write_separator(w, i));
        FX_TRY(write_value(w, s->v[i]));
    }
    w->depth--;
    FX_TRY(write_newline(w));
    return write_text(w, "]");
}

static fx_status write_key(json_writer *w, fxi_jval key)
{
    if (key.type == FXI_JVAL_STR) return write_str(w, key.s);
    if (!fxi_jval_is_number(key) && key.type != FXI_JVAL_NONE)
        return fxi_jrun_fail(w->r, "tojson: a %s cannot be a key", fxi_jval_type_name(key));
    FX_TRY(write_text(w, "\""));
    FX_TRY(write_value(w, key));
    return write_text(w, "\"");
}

static int compare_pairs(const void *a, const void *b)
{
    return fxi_jstr_compare(((const fxi_jpair *)a)->key.s, ((const fxi_jpair *)b)->key.s);
}

static fx_status sort_pairs(json_writer *w, const fxi_jdict *d, const fxi_jpair **out)
{
    fxi_jpair *e;
    for (size_t i = 0; i < d->n; i++)
        if (d->e[i].key.type != FXI_JVAL_STR)
            return fxi_jrun_fail(w->r, "tojson: keys that are not strings cannot be sorted");
    FX_TRY(fxi_jrun_work(w->r, d->n * 256));
    FX_TRY(fxi_jrun_take(w->r, d->n * sizeof *e, &e));
    memcpy(e, d->e, d->n * sizeof *e);
    qsort(e, d->n, sizeof *e, compare_pairs);
    *out = e;
    return FX_OK;
}

static fx_status write_dict(json_writer *w, const fxi_jdict *d)
{
    const fxi_jpair *e = d->e;
    if (!d->n) return write_text(w, "{}");
    if (w->d->sorted) FX_TRY(sort_pairs(w, d, &e));
    FX_TRY(write_text(w, "{"));
    w->depth++;
    for (size_t i = 0; i < d->n; i++) {
        FX_TRY(write_separator(w, i));
        FX_TRY(write_key(w, e[i].key));
        FX_TRY(fxi_jout_add(w->r, w->o, &w->d->colon));
        FX_TRY(write_value(w, e[i].value));
    }
    w->depth--;
    FX_TRY(write_newline(w));
    return write_text(w, "}");
}

static fx_status write_any(json_writer *w, fxi_jval v)
{
    switch (v.type) {
    case FXI_JVAL_NONE: return write_text(w, "null");
    case FXI_JVAL_BOOL: return write_text(w, v.b ? "true" : "false");
    case FXI_JVAL_INT: return write_int(w, v);
    case FXI_JVAL_FLOAT: return write_float(w, v);
    case FXI_JVAL_STR: return write_str(w, v.s);
    case FXI_JVAL_LIST:
    case FXI_JVAL_TUPLE: return write_seq(w, v.seq);
    case FXI_JVAL_DICT: return write_dict(w, v.dict);
    default: return fxi_jrun_fail(w->r, "tojson: a %s cannot be converted", fxi_jval_type_name(v));
    }
}

static fx_status write_value(json_writer *w, fxi_jval v)
{
    FX_TRY(fxi_jrun_enter(w->r));
    fx_status st = write_any(w, v);
    fxi_jrun_leave(w->r);
    return st;
}

// ---- the filter, as transformers defines it -----------------------------------------------------

static fx_status json_indent(fxi_jrun *r, const fxi_jcall *c, json_style *d)
{
    int64_t width;
    fxi_jval text;
    fxi_jout o = {0};
    if (!fxi_jcall_given(c, 1)) return FX_OK;
    d->item.n = 1; // no blank at a line's end
    if (c->arg[1].type == FXI_JVAL_STR) {
        d->indent = c->arg[1].s;
        return FX_OK;
    }
    FX_TRY(fxi_jcall_int(r, c, 1, 0, &width));
    FX_TRY(fxi_jout_add_spaces(r, &o, width));
    FX_TRY(fxi_jout_finish(r, &o, &text));
    d->indent = text.s;
    return FX_OK;
}

static fx_status json_separators(fxi_jrun *r, const fxi_jcall *c, json_style *d)
{
    fxi_jseq pair;
    if (!fxi_jcall_given(c, 2)) return FX_OK;
    FX_TRY(fxi_jval_items(r, c->arg[2], &pair));
    if (pair.n != 2 || pair.v[0].type != FXI_JVAL_STR || pair.v[1].type != FXI_JVAL_STR)
        return fxi_jrun_fail(r, "tojson: separators must be two strings");
    d->item = *pair.v[0].s;
    d->colon = *pair.v[1].s;
    return FX_OK;
}

fx_status fxi_jfilter_tojson(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    fxi_jout o = {0};
    json_style style = {.item = {.p = ", ", .n = 2}, .colon = {.p = ": ", .n = 2}};
    json_writer w = {.r = r, .d = &style, .o = &o};
    style.ascii = fxi_jcall_true(c, 0);
    style.sorted = fxi_jcall_true(c, 3);
    FX_TRY(json_indent(r, c, &style));
    FX_TRY(json_separators(r, c, &style));
    FX_TRY(write_value(&w, c->self));
    return fxi_jout_finish(r, &o, out);
}
