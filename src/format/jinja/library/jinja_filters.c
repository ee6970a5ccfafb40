// jinja_filters.c - filters of single values: text and numbers.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/jinja/library/jinja_library.h"
#include "format/jinja/tree/jinja_str.h"

// ---- text ---------------------------------------------------------------------------------------

static fx_status filter_string(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    *out = fxi_jval_str(NULL);
    return fxi_jval_to_str(r, c->self, &out->s);
}

// upper, lower: row->how
static fx_status filter_case(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jstr *s;
    FX_TRY(fxi_jval_to_str(r, c->self, &s));
    return fxi_jstr_recase(r, s, (char)c->row->how, out);
}

static fx_status filter_capitalize(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jstr *s;
    FX_TRY(fxi_jval_to_str(r, c->self, &s));
    return fxi_jstr_capitalize(r, s, out);
}

// Words begin at the start of the text and after white space, '-' and opening brackets.
static fx_status filter_title(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jstr *s;
    fxi_jout o = {0};
    bool begins = true;
    FX_TRY(fxi_jval_to_str(r, c->self, &s));
    for (size_t at = 0, n; at < s->n; at += n) {
        uint32_t ch = fxi_jstr_char_at(s, at, &n);
        FX_TRY(fxi_jout_add_cased(r, &o, ch, begins ? 'u' : 'l', fxi_jstr_owns(s, at, n)));
        begins = fxi_jchar_is_space(ch) || (ch < 128 && ch && strchr("-({[<", (int)ch));
    }
    return fxi_jout_finish(r, &o, out);
}

static fx_status filter_trim(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jstr *s, *chars = NULL;
    FX_TRY(fxi_jval_to_str(r, c->self, &s));
    if (fxi_jcall_given(c, 0)) FX_TRY(fxi_jcall_str(r, c, 0, &chars));
    FX_TRY(fxi_jrun_work_chars(r, s->n, chars ? chars->n : 0));
    fxi_jstr rest = fxi_jstr_strip(s, chars, true, true);
    return fxi_jstr_make(r, rest.p, rest.own, rest.n, out);
}

static fx_status filter_replace(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jstr *s, *old, *by;
    int64_t count = -1;
    FX_TRY(fxi_jval_to_str(r, c->self, &s));
    FX_TRY(fxi_jval_to_str(r, c->arg[0], &old));
    FX_TRY(fxi_jval_to_str(r, c->arg[1], &by));
    if (fxi_jcall_given(c, 2)) FX_TRY(fxi_jcall_int(r, c, 2, -1, &count));
    return fxi_jstr_replace(r, s, old, by, count < 0 ? UINT64_MAX : (uint64_t)count, out);
}

static fx_status indent_text(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    int64_t width;
    fxi_jout o = {0};
    if (c->arg[0].type == FXI_JVAL_STR) {
        *out = c->arg[0];
        return FX_OK;
    }
    FX_TRY(fxi_jcall_int(r, c, 0, 4, &width));
    FX_TRY(fxi_jout_add_spaces(r, &o, width));
    return fxi_jout_finish(r, &o, out);
}

static fx_status filter_indent(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    static const fxi_jstr newline = {.p = "\n", .n = 1};
    const fxi_jstr *s;
    fxi_jval by, text;
    fxi_jseq lines;
    fxi_jout o = {0};
    const bool first = fxi_jcall_true(c, 1), blank = fxi_jcall_true(c, 2);
    FX_TRY(fxi_jval_need_defined(r, c->self));
    if (c->self.type != FXI_JVAL_STR)
        return fxi_jrun_fail(r, "indent: wants a string, got a %s", fxi_jval_type_name(c->self));
    s = c->self.s;
    FX_TRY(indent_text(r, c, &by));
    FX_TRY(fxi_jstr_concat(r, s, &newline, &text)); // so that an empty last line counts
    FX_TRY(fxi_jstr_lines(r, text.s, false, &lines));
    for (size_t i = 0; i < lines.n; i++) {
        bool indented = i ? blank || lines.v[i].s->n : first;
        if (i) FX_TRY(fxi_jout_add_bytes(r, &o, "\n", 1, fxi_jstr_owns(s, 0, s->n)));
        if (indented) FX_TRY(fxi_jout_add(r, &o, by.s));
        FX_TRY(fxi_jout_add(r, &o, lines.v[i].s));
    }
    return fxi_jout_finish(r, &o, out);
}

// ---- numbers ------------------------------------------------------------------------------------

// A number's text without surrounding white space and '_' between digits; false: too long, or a '_'
// elsewhere.
static bool plain_number(const fxi_jstr *s, char text[64])
{
    fxi_jstr t = fxi_jstr_strip(s, NULL, true, true);
    size_t n = 0;
    if (!t.n || t.n > 63) return false;
    for (size_t i = 0; i < t.n; i++) {
        bool digits = i && i + 1 < t.n && strchr("0123456789", t.p[i - 1]) && t.p[i - 1] &&
                      t.p[i + 1] && strchr("0123456789", t.p[i + 1]);
        if (t.p[i] == '_' && !digits) return false;
        if (t.p[i] != '_') text[n++] = t.p[i];
    }
    text[n] = 0;
    return strlen(text) == n;
}

static bool text_to_int(const fxi_jstr *s, int base, int64_t *out)
{
    char text[64], *end;
    if (!plain_number(s, text)) return false;
    errno = 0;
    *out = strtoll(text, &end, base);
    return !*end && end != text && !errno;
}

static bool text_to_float(const fxi_jstr *s, double *out)
{
    char text[64], *end;
    if (!plain_number(s, text) || strpbrk(text, "xXpP(")) return false;
    *out = strtod(text, &end);
    return !*end && end != text;
}

static bool to_whole(double f, int64_t *out)
{
    if (!(f > -0x1p63 && f < 0x1p63)) return false;
    *out = (int64_t)f;
    return true;
}

static fx_status filter_int(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    int64_t i, base;
    double f;
    FX_TRY(fxi_jval_need_defined(r, c->self));
    FX_TRY(fxi_jcall_int(r, c, 1, 10, &base));
    if (base != 0 && (base < 2 || base > 36))
        return fxi_jrun_fail(r, "int: the base %lld", (long long)base);
    bool ok = fxi_jval_is_integer(c->self)     ? (i = fxi_jval_to_int(c->self), true)
              : c->self.type == FXI_JVAL_FLOAT ? to_whole(c->self.f, &i)
              : c->self.type == FXI_JVAL_STR   ? text_to_int(c->self.s, (int)base, &i) ||
                                                   (text_to_float(c->self.s, &f) && to_whole(f, &i))
                                             : false;
    *out = ok ? fxi_jval_int(i) : c->arg[0].type != FXI_JVAL_ABSENT ? c->arg[0] : fxi_jval_int(0);
    if (ok) out->own = c->self.own;
    return FX_OK;
}

static fx_status filter_float(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    double f = 0;
    FX_TRY(fxi_jval_need_defined(r, c->self));
    bool ok = fxi_jval_is_number(c->self)    ? (f = fxi_jval_to_float(c->self), true)
              : c->self.type == FXI_JVAL_STR ? text_to_float(c->self.s, &f)
                                             : false;
    *out = ok                                  ? fxi_jval_float(f)
           : c->arg[0].type != FXI_JVAL_ABSENT ? c->arg[0]
                                               : fxi_jval_float(0);
    if (ok) out->own = c->self.own;
    return FX_OK;
}

static fx_status need_number(fxi_jrun *r, const fxi_jcall *c)
{
    FX_TRY(fxi_jval_need_defined(r, c->self));
    if (fxi_jval_is_number(c->self)) return FX_OK;
    return fxi_jrun_fail(r, "%s: wants a number, got a %s", c->row->name,
                         fxi_jval_type_name(c->self));
}

static fx_status filter_abs(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    FX_TRY(need_number(r, c));
    bool negative =
        fxi_jval_to_float(c->self) < 0 || (c->self.type == FXI_JVAL_FLOAT && signbit(c->self.f));
    return negative ? fxi_jop_negate(r, c->self, out) : fxi_jop_plus(r, c->self, out);
}

// ---- any value ----------------------------------------------------------------------------------

static fx_status filter_default(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    bool missing =
        c->self.type == FXI_JVAL_UNDEFINED || (fxi_jcall_true(c, 1) && !fxi_jval_truth(c->self));
    *out = missing ? c->arg[0] : c->self;
    return missing && out->type == FXI_JVAL_ABSENT ? fxi_jstr_copy(r, "", true, out) : FX_OK;
}

// ---- the table ----------------------------------------------------------------------------------

const fxi_jroutine fxi_jlibrary_filters[] = {
    {.name = "abs", .run = filter_abs},
    {.name = "capitalize", .run = filter_capitalize},
    {.name = "d", .run = filter_default, .param = {"default_value", "boolean"}},
    {.name = "default", .run = filter_default, .param = {"default_value", "boolean"}},
    {.name = "float", .run = filter_float, .param = {"default"}},
    {.name = "indent", .run = filter_indent, .param = {"width", "first", "blank"}},
    {.name = "int", .run = filter_int, .param = {"default", "base"}},
    {.name = "lower", .run = filter_case, .how = 'l'},
    {.name = "replace", .run = filter_replace, .n_must = 2, .param = {"old", "new", "count"}},
    {.name = "safe", .run = filter_string},
    {.name = "string", .run = filter_string},
    {.name = "title", .run = filter_title},
    {.name = "tojson",
     .run = fxi_jfilter_tojson,
     .param = {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {.name = "trim", .run = filter_trim, .param = {"chars"}},
    {.name = "upper", .run = filter_case, .how = 'u'},
    {.name = NULL},
};
