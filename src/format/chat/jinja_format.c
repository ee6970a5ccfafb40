// jinja_format.c - "..." % values, and "{} {name}".format(..): the parts that templates use.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/chat/jinja_impl.h"

// ---- % ------------------------------------------------------------------------------------------

typedef struct spec { // %[flags][width][.precision]kind
    char flags[8];
    int width, precision; // -1: none
    char kind;
} spec;

typedef struct formatter {
    fxi_jrun *r;
    const fxi_jstr *fmt;
    size_t at;
    fxi_jseq values; // by position
    size_t n_used;
    const fxi_jdict *named; // %(name)s; NULL: none
    bool spare;             // values may be left over: what has items need not be used
    fxi_jout *o;
} formatter;

static char next_char(formatter *f)
{
    return f->at < f->fmt->n ? f->fmt->p[f->at++] : 0;
}

static fx_status next_value(formatter *f, fxi_jval *out)
{
    if (f->n_used == f->values.n) return fxi_j_fail(f->r, "%%: more places than values");
    *out = f->values.v[f->n_used++];
    return FX_OK;
}

static fx_status named_value(formatter *f, fxi_jval *out)
{
    const char *from = f->fmt->p + f->at, *end = memchr(from, ')', f->fmt->n - f->at);
    const fxi_jval *found = NULL;
    fxi_jval key;
    if (!end || !f->named) return fxi_j_fail(f->r, "%%: a name needs a mapping");
    FX_TRY(fxi_j_part(f->r, f->fmt, f->at, (size_t)(end - from), &key));
    FX_TRY(fxi_j_lookup(f->r, f->named, key, &found));
    if (!found) return fxi_j_fail(f->r, "%%: the mapping does not have the name");
    f->at += (size_t)(end - from) + 1;
    *out = *found;
    return FX_OK;
}

static fx_status read_count(formatter *f, int *out)
{
    for (*out = 0; f->at < f->fmt->n && f->fmt->p[f->at] >= '0' && f->fmt->p[f->at] <= '9';
         f->at++) {
        *out = *out * 10 + (f->fmt->p[f->at] - '0');
        if (*out > 4096) return fxi_j_fail(f->r, "%%: a width of more than 4096");
    }
    return FX_OK;
}

static fx_status read_spec(formatter *f, spec *s)
{
    size_t n = 0;
    *s = (spec){.precision = -1};
    while (f->at < f->fmt->n && memchr("-+ 0#", f->fmt->p[f->at], 5) && n < sizeof s->flags - 1)
        s->flags[n++] = f->fmt->p[f->at++];
    FX_TRY(read_count(f, &s->width));
    if (f->at < f->fmt->n && f->fmt->p[f->at] == '.') {
        f->at++;
        FX_TRY(read_count(f, &s->precision));
    }
    s->kind = next_char(f);
    return FX_OK;
}

static fx_status pad(formatter *f, int64_t n)
{
    for (; n > 0; n--) FX_TRY(fxi_jout_bytes(f->r, f->o, " ", 1, false));
    return FX_OK;
}

static fx_status put_text(formatter *f, const spec *s, fxi_jval v)
{
    fxi_jout o = {0};
    fxi_jval text;
    FX_TRY(fxi_j_show(f->r, &o, v, s->kind == 'r'));
    FX_TRY(fxi_jout_done(f->r, &o, &text));
    size_t n = text.s->n;
    if (s->precision >= 0) n = fxi_j_byte_of(text.s, (size_t)s->precision);
    fxi_jstr cut = {.p = text.s->p, .own = text.s->own, .n = n};
    int64_t more = s->width - (int64_t)fxi_j_n_char(&cut);
    bool left = strchr(s->flags, '-');
    if (!left) FX_TRY(pad(f, more));
    FX_TRY(fxi_jout_add(f->r, f->o, &cut));
    return left ? pad(f, more) : FX_OK;
}

// printf's own rules for numbers are Python's too.
static fx_status put_number(formatter *f, const spec *s, fxi_jval v)
{
    char fmt[48], text[8192];
    int n;
    FX_TRY(fxi_j_defined(f->r, v));
    if (!fxi_j_is_number(v))
        return fxi_j_fail(f->r, "%%%c: wants a number, got a %s", s->kind, fxi_j_type_name(v));
    bool whole = strchr("diuxXo", s->kind);
    if (strchr("xXo", s->kind) && v.type == FXI_J_FLOAT)
        return fxi_j_fail(f->r, "%%%c: wants an integer", s->kind);
    if (strchr("xXo", s->kind) && fxi_j_int_of(v) < 0)
        return fxi_j_fail(f->r, "%%%c: of a negative number", s->kind);
    n = snprintf(fmt, sizeof fmt, "%%%s%d", s->flags, s->width);
    if (!s->width) n = snprintf(fmt, sizeof fmt, "%%%s", s->flags);
    if (s->precision >= 0) n += snprintf(fmt + n, sizeof fmt - (size_t)n, ".%d", s->precision);
    snprintf(fmt + n, sizeof fmt - (size_t)n, "%s%c", whole ? "ll" : "",
             s->kind == 'i' || s->kind == 'u' ? 'd' : s->kind);
    if (whole && v.type == FXI_J_FLOAT && !(fabs(v.f) < 0x1p63))
        return fxi_j_fail(f->r, "%%%c: a number is too large", s->kind);
    long long i = v.type == FXI_J_FLOAT && whole ? (long long)v.f : 0;
    if (whole && v.type != FXI_J_FLOAT) i = fxi_j_int_of(v);
    n = whole ? snprintf(text, sizeof text, fmt, i)
              : snprintf(text, sizeof text, fmt, fxi_j_float_of(v));
    if (n < 0 || (size_t)n >= sizeof text) return fxi_j_fail(f->r, "%%: a number is too long");
    return fxi_jout_bytes(f->r, f->o, text, (size_t)n, v.own);
}

static fx_status put_place(formatter *f)
{
    fxi_jval v = fxi_j_none();
    spec s;
    bool named = f->at < f->fmt->n && f->fmt->p[f->at] == '(';
    if (named) {
        f->at++;
        FX_TRY(named_value(f, &v));
    }
    FX_TRY(read_spec(f, &s));
    if (s.kind == '%') return fxi_jout_part(f->r, f->o, f->fmt, f->at - 1, 1);
    if (!s.kind || !strchr("srdiuxXofFeEgG", s.kind))
        return fxi_j_fail(f->r, "%%: a place of a kind that is not supported");
    if (!named) FX_TRY(next_value(f, &v));
    return s.kind == 's' || s.kind == 'r' ? put_text(f, &s, v) : put_number(f, &s, v);
}

static fx_status run_format(formatter *f)
{
    while (f->at < f->fmt->n) {
        const char *from = f->fmt->p + f->at, *to = memchr(from, '%', f->fmt->n - f->at);
        size_t n = to ? (size_t)(to - from) : f->fmt->n - f->at;
        FX_TRY(fxi_jout_part(f->r, f->o, f->fmt, f->at, n));
        f->at += n + (to != NULL);
        if (to) FX_TRY(put_place(f));
    }
    if (f->n_used < f->values.n && !f->spare)
        return fxi_j_fail(f->r, "%%: more values than places");
    return FX_OK;
}

fx_status fxi_j_format(fxi_jrun *r, const fxi_jstr *fmt, fxi_jval values, fxi_jval *out)
{
    fxi_jout o = {0};
    formatter f = {.r = r, .fmt = fmt, .values = {&values, 1}, .o = &o};
    if (values.type == FXI_J_TUPLE) f.values = *values.seq;
    if (values.type == FXI_J_DICT) f.named = values.dict;
    f.spare = values.type == FXI_J_DICT || values.type == FXI_J_LIST ||
              values.type == FXI_J_RANGE || values.type == FXI_J_UNDEFINED;
    FX_TRY(run_format(&f));
    return fxi_jout_done(r, &o, out);
}

// ---- str.format ---------------------------------------------------------------------------------

// The value of a field "", "0" or "name".
static fx_status field(fxi_jrun *r, const fxi_jargs *a, const fxi_jstr *s, size_t from, size_t to,
                       size_t *next, fxi_jval *out)
{
    size_t i = from == to ? (*next)++ : 0;
    bool number = true;
    for (size_t k = from; k < to; k++) {
        number &= s->p[k] >= '0' && s->p[k] <= '9' && to - from < 6;
        if (number) i = i * 10 + (size_t)(s->p[k] - '0');
    }
    if (number && i < a->n) {
        *out = a->v[i];
        return FX_OK;
    }
    for (size_t k = 0; !number && k < a->n_kw; k++) {
        const fxi_jstr *name = a->kw[k].name;
        if (name->n != to - from || memcmp(name->p, s->p + from, name->n)) continue;
        *out = a->kw[k].value;
        return FX_OK;
    }
    return fxi_j_fail(r, "format: no value for {%.*s}, or a field that is not supported",
                      to - from < 40 ? (int)(to - from) : 40, s->p + from);
}

fx_status fxi_j_str_format(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jstr *s = c->self.s;
    fxi_jout o = {0};
    size_t next = 0;
    for (size_t at = 0; at < s->n; at++) {
        const char ch = s->p[at];
        bool doubled = at + 1 < s->n && s->p[at + 1] == ch;
        if ((ch != '{' && ch != '}') || doubled) {
            FX_TRY(fxi_jout_part(r, &o, s, at, 1));
            at += (ch == '{' || ch == '}') && doubled;
            continue;
        }
        const char *end = ch == '{' ? memchr(s->p + at, '}', s->n - at) : NULL;
        fxi_jval v;
        if (!end) return fxi_j_fail(r, "format: a single '%c'", ch);
        FX_TRY(field(r, c->all, s, at + 1, (size_t)(end - s->p), &next, &v));
        FX_TRY(fxi_j_show(r, &o, v, false));
        at = (size_t)(end - s->p);
    }
    return fxi_jout_done(r, &o, out);
}
