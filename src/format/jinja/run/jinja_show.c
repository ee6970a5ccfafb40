// jinja_show.c - values as text, as Python's str() and repr() write them.
//
// The characters of strings keep their marks. Quotes and separators around them count as the
// caller's, and so do the digits of the caller's numbers.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/jinja/run/jinja_run.h"
#include "format/jinja/tree/jinja_str.h"

// ---- numbers ------------------------------------------------------------------------------------

// The shortest "d.ddde+xx" that reads back as the same double.
static void shortest_digits(double f, char text[FXI_JVAL_FLOAT_BYTES])
{
    for (int digits = 0; digits < 17; digits++) {
        snprintf(text, FXI_JVAL_FLOAT_BYTES, "%.*e", digits, f);
        if (strtod(text, NULL) == f) return;
    }
}

// Positional for exponents -4 .. 15, with an exponent of at least two digits otherwise.
size_t fxi_jval_float_text(double f, char text[FXI_JVAL_FLOAT_BYTES])
{
    char sci[FXI_JVAL_FLOAT_BYTES];
    if (isnan(f)) return (size_t)snprintf(text, FXI_JVAL_FLOAT_BYTES, "nan");
    if (isinf(f)) return (size_t)snprintf(text, FXI_JVAL_FLOAT_BYTES, f > 0 ? "inf" : "-inf");
    shortest_digits(f, sci);
    char *e = strchr(sci, 'e');
    const int exponent = atoi(e + 1), digits = (int)(e - sci) - (sci[0] == '-');
    if (exponent < -4 || exponent > 15) {
        *e = 0;
        return (size_t)snprintf(text, FXI_JVAL_FLOAT_BYTES, "%se%c%02d", sci,
                                exponent < 0 ? '-' : '+', abs(exponent));
    }
    int places = (digits > 1 ? digits - 2 : 0) - exponent; // digits after the point
    return (size_t)snprintf(text, FXI_JVAL_FLOAT_BYTES, "%.*f", places > 0 ? places : 1, f);
}

static fx_status show_number(fxi_jrun *r, fxi_jout *o, fxi_jval v)
{
    char text[FXI_JVAL_FLOAT_BYTES];
    size_t n = v.type == FXI_JVAL_FLOAT
                   ? fxi_jval_float_text(v.f, text)
                   : (size_t)snprintf(text, sizeof text, "%lld", (long long)v.i);
    return fxi_jout_add_bytes(r, o, text, n, v.own);
}

// ---- strings ------------------------------------------------------------------------------------

static fx_status show_escape(fxi_jrun *r, fxi_jout *o, uint32_t c, bool own)
{
    static const char plain[] = "\n\r\t\\", letters[] = "nrt\\";
    const char *at = c && c < 128 ? strchr(plain, (int)c) : NULL;
    char text[16];
    int n = at            ? snprintf(text, sizeof text, "\\%c", letters[at - plain])
            : c < 0x100   ? snprintf(text, sizeof text, "\\x%02x", c)
            : c < 0x10000 ? snprintf(text, sizeof text, "\\u%04x", c)
                          : snprintf(text, sizeof text, "\\U%08x", c);
    return fxi_jout_add_bytes(r, o, text, (size_t)n, own);
}

// In single quotes, or in double ones where that saves escapes.
static fx_status show_quoted(fxi_jrun *r, fxi_jout *o, const fxi_jstr *s)
{
    char quote = '\'';
    if (s->n && memchr(s->p, '\'', s->n) && !memchr(s->p, '"', s->n)) quote = '"';
    FX_TRY(fxi_jout_add_bytes(r, o, &quote, 1, false));
    for (size_t at = 0, n; at < s->n; at += n) {
        uint32_t c = fxi_jstr_char_at(s, at, &n);
        if (c == (uint32_t)quote) FX_TRY(fxi_jout_add_bytes(r, o, "\\", 1, false));
        if (c != '\\' && fxi_jchar_is_printable(c))
            FX_TRY(fxi_jout_add_part(r, o, s, at, n));
        else
            FX_TRY(show_escape(r, o, c, fxi_jstr_owns(s, at, n)));
    }
    return fxi_jout_add_bytes(r, o, &quote, 1, false);
}

// ---- containers ---------------------------------------------------------------------------------

static fx_status show_text(fxi_jrun *r, fxi_jout *o, const char *text)
{
    return fxi_jout_add_bytes(r, o, text, strlen(text), false);
}

static fx_status show_seq(fxi_jrun *r, fxi_jout *o, const fxi_jseq *s, const char *open,
                          const char *close)
{
    FX_TRY(show_text(r, o, open));
    for (size_t i = 0; i < s->n; i++) {
        if (i) FX_TRY(show_text(r, o, ", "));
        FX_TRY(fxi_jval_show(r, o, s->v[i], true));
    }
    if (s->n == 1 && *open == '(') FX_TRY(show_text(r, o, ","));
    return show_text(r, o, close);
}

static fx_status show_dict(fxi_jrun *r, fxi_jout *o, const fxi_jpair *e, size_t n)
{
    FX_TRY(show_text(r, o, "{"));
    for (size_t i = 0; i < n; i++) {
        if (i) FX_TRY(show_text(r, o, ", "));
        FX_TRY(fxi_jval_show(r, o, e[i].key, true));
        FX_TRY(show_text(r, o, ": "));
        FX_TRY(fxi_jval_show(r, o, e[i].value, true));
    }
    return show_text(r, o, "}");
}

static fx_status show_view(fxi_jrun *r, fxi_jout *o, fxi_jval v)
{
    static const char *const opens[] = {"dict_items([", "dict_keys([", "dict_values(["};
    fxi_jseq items;
    FX_TRY(fxi_jval_items(r, v, &items));
    return show_seq(r, o, &items, opens[v.view->kind], "])");
}

static fx_status show_range(fxi_jrun *r, fxi_jout *o, const fxi_jrange *range)
{
    char text[96];
    int n = snprintf(text, sizeof text, "range(%lld, %lld", (long long)range->start,
                     (long long)range->stop);
    if (range->step != 1)
        n += snprintf(text + n, sizeof text - (size_t)n, ", %lld", (long long)range->step);
    FX_TRY(fxi_jout_add_bytes(r, o, text, (size_t)n, false));
    return show_text(r, o, ")");
}

static fx_status show_one(fxi_jrun *r, fxi_jout *o, fxi_jval v, bool repr)
{
    switch (v.type) {
    case FXI_JVAL_UNDEFINED: return repr ? show_text(r, o, "Undefined") : FX_OK;
    case FXI_JVAL_NONE: return show_text(r, o, "None");
    case FXI_JVAL_BOOL: return show_text(r, o, v.b ? "True" : "False");
    case FXI_JVAL_INT:
    case FXI_JVAL_FLOAT: return show_number(r, o, v);
    case FXI_JVAL_STR: return repr ? show_quoted(r, o, v.s) : fxi_jout_add(r, o, v.s);
    case FXI_JVAL_LIST: return show_seq(r, o, v.seq, "[", "]");
    case FXI_JVAL_TUPLE: return show_seq(r, o, v.seq, "(", ")");
    case FXI_JVAL_DICT: return show_dict(r, o, v.dict->e, v.dict->n);
    case FXI_JVAL_VIEW: return show_view(r, o, v);
    case FXI_JVAL_RANGE: return show_range(r, o, v.range);
    default: return fxi_jrun_fail(r, "a %s has no text", fxi_jval_type_name(v));
    }
}

fx_status fxi_jval_show(fxi_jrun *r, fxi_jout *o, fxi_jval v, bool repr)
{
    FX_TRY(fxi_jrun_enter(r));
    fx_status st = show_one(r, o, v, repr);
    fxi_jrun_leave(r);
    return st;
}

fx_status fxi_jval_to_str(fxi_jrun *r, fxi_jval v, const fxi_jstr **out)
{
    fxi_jout o = {0};
    fxi_jval text;
    if (v.type == FXI_JVAL_STR) {
        *out = v.s;
        return FX_OK;
    }
    FX_TRY(fxi_jval_show(r, &o, v, false));
    FX_TRY(fxi_jout_finish(r, &o, &text));
    *out = text.s;
    return FX_OK;
}
