// jinja_text.c - values as text: str() and repr() of Python, and JSON the way its json.dumps writes
// it. One writer makes both; a style says which.
//
// In a text the characters of strings keep their marks. Quotes and separators around them count as
// the caller's, and so do the digits of the caller's numbers.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "format/jinja/jinja_run.h"

typedef struct value_writer {
    fxi_jrun *r;
    const fxi_jstyle *d;
    fxi_jout *o;
    size_t depth; // levels of indentation
} value_writer;

static fx_status write_value(value_writer *w, fxi_jval v);

static fx_status write_text(value_writer *w, const char *text)
{
    return fxi_jout_add_bytes(w->r, w->o, text, strlen(text), false);
}

// ---- numbers ------------------------------------------------------------------------------------

enum { FLOAT_BYTES = 64 };

// As repr(): the shortest digits that read back as the same double; positional for exponents
// -4 .. 15, with an exponent of at least two digits otherwise.
static void print_float(double f, char text[FLOAT_BYTES])
{
    char sci[32];
    for (int digits = 0; digits < 17; digits++) {
        snprintf(sci, sizeof sci, "%.*e", digits, f);
        if (strtod(sci, NULL) == f) break;
    }
    char *e = strchr(sci, 'e');
    const int exponent = atoi(e + 1), digits = (int)(e - sci) - (sci[0] == '-');
    const int places = (digits > 1 ? digits - 2 : 0) - exponent; // digits after the point
    if (exponent >= -4 && exponent <= 15) {
        snprintf(text, FLOAT_BYTES, "%.*f", places > 0 ? places : 1, f);
        return;
    }
    *e = 0;
    snprintf(text, FLOAT_BYTES, "%se%c%02d", sci, exponent < 0 ? '-' : '+', abs(exponent));
}

static fx_status write_numeral(value_writer *w, fxi_jval v)
{
    char text[FLOAT_BYTES];
    bool own = v.own;
    if (v.type == FXI_JVAL_INT) {
        snprintf(text, sizeof text, "%lld", (long long)v.i);
    } else if (isfinite(v.f)) {
        print_float(v.f, text);
    } else {
        const char *name = isnan(v.f)   ? (w->d->json ? "NaN" : "nan")
                           : w->d->json ? "Infinity"
                                        : "inf";
        snprintf(text, sizeof text, "%s%s", isinf(v.f) && v.f < 0 ? "-" : "", name);
        own &= !w->d->json;
    }
    return fxi_jout_add_bytes(w->r, w->o, text, strlen(text), own);
}

// ---- strings ------------------------------------------------------------------------------------

static bool is_printable(uint32_t c)
{
    const utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
    return c == ' ' || (k != UTF8PROC_CATEGORY_CN && k < UTF8PROC_CATEGORY_ZS);
}

static fx_status write_escape(value_writer *w, uint32_t c, bool own)
{
    const char *plain = w->d->json ? "\n\r\t\\\f\b\"" : "\n\r\t\\", *letters = "nrt\\fb\"";
    const char *at = c && c < 128 ? strchr(plain, (int)c) : NULL;
    char text[16];
    int n = at                         ? snprintf(text, sizeof text, "\\%c", letters[at - plain])
            : c < 0x100 && !w->d->json ? snprintf(text, sizeof text, "\\x%02x", c)
            : c < 0x10000              ? snprintf(text, sizeof text, "\\u%04x", c)
            : !w->d->json              ? snprintf(text, sizeof text, "\\U%08x", c)
                          : snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xD7C0 + (c >> 10),
                                     0xDC00 + (c & 0x3FF));
    return fxi_jout_add_bytes(w->r, w->o, text, (size_t)n, own);
}

// repr() quotes with ' or, where that saves escapes, with ".
static fx_status write_str(value_writer *w, const fxi_jstr *s)
{
    const bool json = w->d->json;
    const bool has_single = s->n && memchr(s->p, '\'', s->n),
               has_double = s->n && memchr(s->p, '"', s->n);
    const char *quote = json || (has_single && !has_double) ? "\"" : "'";
    size_t from = 0;
    FX_TRY(write_text(w, quote));
    for (size_t at = 0, n; at < s->n; at += n) {
        const uint32_t c = fxi_jstr_char_at(s, at, &n);
        const bool quoted = !json && c == (uint32_t)*quote;
        const bool escaped = json ? c < ' ' || c == '"' || c == '\\' || (w->d->ascii && c > 0x7E)
                                  : c == '\\' || !is_printable(c);
        if (!quoted && !escaped) continue;
        FX_TRY(fxi_jout_add_part(w->r, w->o, s, from, at - from));
        FX_TRY(quoted ? write_text(w, "\\") : write_escape(w, c, fxi_jstr_owns(s, at, n)));
        from = quoted ? at : at + n;
    }
    FX_TRY(fxi_jout_add_part(w->r, w->o, s, from, s->n - from));
    return write_text(w, quote);
}

// ---- containers ---------------------------------------------------------------------------------

static fx_status write_newline(value_writer *w)
{
    if (!w->d->indent) return FX_OK;
    FX_TRY(write_text(w, "\n"));
    for (size_t i = 0; i < w->depth; i++) FX_TRY(fxi_jout_add(w->r, w->o, w->d->indent));
    return FX_OK;
}

static fx_status write_key(value_writer *w, fxi_jval key)
{
    if (!w->d->json || key.type == FXI_JVAL_STR) return write_value(w, key);
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

static fx_status sort_pairs(fxi_jrun *r, const fxi_jdict *d, const fxi_jpair **out)
{
    fxi_jpair *e;
    for (size_t i = 0; i < d->n; i++)
        if (d->e[i].key.type != FXI_JVAL_STR)
            return fxi_jrun_fail(r, "tojson: keys that are not strings cannot be sorted");
    FX_TRY(fxi_jrun_work(r, d->n * 256));
    FX_TRY(fxi_jrun_take(r, d->n * sizeof *e, &e));
    if (d->n) memcpy(e, d->e, d->n * sizeof *e);
    qsort(e, d->n, sizeof *e, compare_pairs);
    *out = e;
    return FX_OK;
}

// n items v or (v NULL) pairs e, between two texts.
static fx_status write_members(value_writer *w, const fxi_jval *v, const fxi_jpair *e, size_t n,
                               const char *open, const char *close)
{
    FX_TRY(write_text(w, open));
    w->depth++;
    for (size_t i = 0; i < n; i++) {
        if (i) FX_TRY(fxi_jout_add(w->r, w->o, &w->d->item));
        FX_TRY(write_newline(w));
        if (e) FX_TRY(write_key(w, e[i].key));
        if (e) FX_TRY(fxi_jout_add(w->r, w->o, &w->d->colon));
        FX_TRY(write_value(w, e ? e[i].value : v[i]));
    }
    w->depth--;
    if (n) FX_TRY(write_newline(w));
    if (n == 1 && *open == '(') FX_TRY(write_text(w, ","));
    return write_text(w, close);
}

// ---- any value ----------------------------------------------------------------------------------

static fx_status write_any(value_writer *w, fxi_jval v)
{
    static const char *const views[] = {"dict_items([", "dict_keys([", "dict_values(["};
    const bool json = w->d->json;
    char text[96], step[32] = "";
    fxi_jseq items;
    const fxi_jpair *e;
    switch (v.type) {
    case FXI_JVAL_NONE: return write_text(w, json ? "null" : "None");
    case FXI_JVAL_BOOL:
        return write_text(w, v.b ? (json ? "true" : "True") : json ? "false" : "False");
    case FXI_JVAL_INT:
    case FXI_JVAL_FLOAT: return write_numeral(w, v);
    case FXI_JVAL_STR: return write_str(w, v.s);
    case FXI_JVAL_TUPLE:
        return write_members(w, v.seq->v, NULL, v.seq->n, json ? "[" : "(", json ? "]" : ")");
    case FXI_JVAL_LIST: return write_members(w, v.seq->v, NULL, v.seq->n, "[", "]");
    case FXI_JVAL_DICT:
        e = v.dict->e;
        if (w->d->sorted) FX_TRY(sort_pairs(w->r, v.dict, &e));
        return write_members(w, NULL, e, v.dict->n, "{", "}");
    default: break;
    }
    if (json) return fxi_jrun_fail(w->r, "tojson: a %s cannot be converted", fxi_jval_type_name(v));
    switch (v.type) {
    case FXI_JVAL_UNDEFINED: return write_text(w, "Undefined");
    case FXI_JVAL_VIEW:
        FX_TRY(fxi_jval_items(w->r, v, &items));
        return write_members(w, items.v, NULL, items.n, views[v.view->kind], "])");
    case FXI_JVAL_RANGE:
        if (v.range->step != 1) snprintf(step, sizeof step, ", %lld", (long long)v.range->step);
        snprintf(text, sizeof text, "range(%lld, %lld%s)", (long long)v.range->start,
                 (long long)v.range->stop, step);
        return write_text(w, text);
    default: return fxi_jrun_fail(w->r, "a %s cannot be printed", fxi_jval_type_name(v));
    }
}

static fx_status write_value(value_writer *w, fxi_jval v)
{
    FX_TRY(fxi_jrun_enter(w->r));
    FX_TRY(write_any(w, v));
    fxi_jrun_leave(w->r);
    return FX_OK;
}

fx_status fxi_jval_write(fxi_jrun *r, fxi_jout *o, fxi_jval v, const fxi_jstyle *style)
{
    value_writer w = {.r = r, .d = style, .o = o};
    return write_value(&w, v);
}

fx_status fxi_jval_show(fxi_jrun *r, fxi_jout *o, fxi_jval v)
{
    static const fxi_jstyle repr = {.item = {.p = ", ", .n = 2}, .colon = {.p = ": ", .n = 2}};
    if (v.type == FXI_JVAL_STR) return fxi_jout_add(r, o, v.s);
    return v.type == FXI_JVAL_UNDEFINED ? FX_OK : fxi_jval_write(r, o, v, &repr);
}

fx_status fxi_jval_to_str(fxi_jrun *r, fxi_jval v, const fxi_jstr **out)
{
    fxi_jout o = {0};
    fxi_jval text = v;
    if (v.type != FXI_JVAL_STR) {
        FX_TRY(fxi_jval_show(r, &o, v));
        FX_TRY(fxi_jout_finish(r, &o, &text));
    }
    *out = text.s;
    return FX_OK;
}
