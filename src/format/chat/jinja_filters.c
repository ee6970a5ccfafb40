// jinja_filters.c - filters of single values: text and numbers.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/chat/jinja_impl.h"

// ---- text ---------------------------------------------------------------------------------------

static fx_status filter_string(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    *out = (fxi_jval){.type = FXI_J_STR};
    return fxi_j_to_str(r, c->self, &out->s);
}

// upper, lower: row->how
static fx_status filter_case(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jstr *s;
    fxi_jout o = {0};
    size_t n;
    FX_TRY(fxi_j_to_str(r, c->self, &s));
    for (size_t at = 0; at < s->n; at += n) {
        uint32_t ch = fxi_j_char(s, at, &n);
        FX_TRY(fxi_jout_cased(r, &o, ch, (char)c->row->how, fxi_j_own(s, at, n)));
    }
    return fxi_jout_done(r, &o, out);
}

// The first character of a word in upper case, the rest in lower case. Words begin as row->how
// says: 'c': at the start of the text, 't': also behind white space, '-' and opening brackets.
static fx_status filter_title(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jstr *s;
    fxi_jout o = {0};
    size_t n;
    bool begins = true;
    FX_TRY(fxi_j_to_str(r, c->self, &s));
    for (size_t at = 0; at < s->n; at += n) {
        uint32_t ch = fxi_j_char(s, at, &n);
        bool between = c->row->how == 't' &&
                       (fxi_j_is_space(ch) || (ch < 128 && ch && strchr("-({[<", (int)ch)));
        char how = !begins ? 'l' : c->row->how == 't' ? 'u' : 't';
        FX_TRY(fxi_jout_cased(r, &o, ch, how, fxi_j_own(s, at, n)));
        begins = between;
    }
    return fxi_jout_done(r, &o, out);
}

static fx_status filter_trim(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jstr *s, *chars = NULL;
    FX_TRY(fxi_j_to_str(r, c->self, &s));
    if (fxi_j_given(c, 0)) FX_TRY(fxi_j_arg_str(r, c, 0, &chars));
    FX_TRY(fxi_j_work_chars(r, s->n, chars ? chars->n : 0));
    fxi_jstr rest = fxi_j_stripped(s, chars, true, true);
    return fxi_j_str(r, rest.p, rest.own, rest.n, out);
}

static fx_status filter_replace(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jstr *s;
    FX_TRY(fxi_j_to_str(r, c->self, &s));
    fxi_jval arg[3] = {{.type = FXI_J_STR}, {.type = FXI_J_STR}, c->arg[2]};
    FX_TRY(fxi_j_to_str(r, c->arg[0], &arg[0].s));
    FX_TRY(fxi_j_to_str(r, c->arg[1], &arg[1].s));
    const fxi_jargs a = {.v = arg, .n = fxi_j_given(c, 2) ? 3 : 2};
    return fxi_jroutine_call(r, fxi_jroutine_find(fxi_j_str_methods, "replace", 7),
                             (fxi_jval){.type = FXI_J_STR, .s = s}, &a, out);
}

static fx_status filter_escape(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    static const char from[] = "&<>'\"";
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    const fxi_jstr *s;
    fxi_jout o = {0};
    FX_TRY(fxi_j_to_str(r, c->self, &s));
    for (size_t i = 0; i < s->n; i++) {
        const char *at = s->p[i] ? strchr(from, s->p[i]) : NULL;
        if (at)
            FX_TRY(fxi_jout_bytes(r, &o, to[at - from], strlen(to[at - from]), fxi_j_own(s, i, 1)));
        else
            FX_TRY(fxi_jout_part(r, &o, s, i, 1));
    }
    return fxi_jout_done(r, &o, out);
}

static fx_status spaces(fxi_jrun *r, fxi_jout *o, int64_t n)
{
    for (int64_t i = 0; i < n; i++) FX_TRY(fxi_jout_bytes(r, o, " ", 1, true));
    return FX_OK;
}

static fx_status filter_center(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jstr *s;
    fxi_jout o = {0};
    int64_t width;
    FX_TRY(fxi_j_to_str(r, c->self, &s));
    FX_TRY(fxi_j_arg_int(r, c, 0, 80, &width));
    if (width < 0) width = 0;
    int64_t more = width - (int64_t)fxi_j_n_char(s);
    int64_t left = more <= 0 ? 0 : more / 2 + (more & width & 1);
    FX_TRY(spaces(r, &o, left));
    FX_TRY(fxi_jout_add(r, &o, s));
    FX_TRY(spaces(r, &o, more - left));
    return fxi_jout_done(r, &o, out);
}

static fx_status filter_format(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jstr *s;
    fxi_jval values;
    FX_TRY(fxi_j_to_str(r, c->self, &s));
    if (c->all->n_kw) return fxi_j_fail(r, "format: named values are not supported");
    FX_TRY(fxi_j_seq(r, FXI_J_TUPLE, c->all->v, c->all->n, &values));
    return fxi_j_format(r, s, values, out);
}

static bool is_word_char(uint32_t c)
{
    return c == '_' || fxi_j_is_alpha(c) || fxi_j_is_digit(c);
}

static fx_status filter_wordcount(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jstr *s;
    int64_t n_word = 0;
    size_t n;
    bool inside = false;
    FX_TRY(fxi_j_to_str(r, c->self, &s));
    FX_TRY(fxi_j_work_chars(r, s->n, 0));
    for (size_t at = 0; at < s->n; at += n) {
        bool word = is_word_char(fxi_j_char(s, at, &n));
        n_word += word && !inside;
        inside = word;
    }
    *out = fxi_j_int(n_word);
    return FX_OK;
}

// ---- indent -------------------------------------------------------------------------------------

static fx_status indentation(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    int64_t width;
    fxi_jout o = {0};
    if (c->arg[0].type == FXI_J_STR) {
        *out = c->arg[0];
        return FX_OK;
    }
    FX_TRY(fxi_j_arg_int(r, c, 0, 4, &width));
    FX_TRY(spaces(r, &o, width));
    return fxi_jout_done(r, &o, out);
}

// Lines are those of str.splitlines, of the text and one more newline.
static fx_status lines_of(fxi_jrun *r, const fxi_jstr *s, fxi_jseq *out)
{
    static const fxi_jstr newline = {.p = "\n", .n = 1};
    fxi_jval text, lines;
    FX_TRY(fxi_j_concat(r, s, &newline, &text));
    FX_TRY(fxi_jroutine_call(r, fxi_jroutine_find(fxi_j_str_methods, "splitlines", 10), text,
                             &(fxi_jargs){0}, &lines));
    *out = *lines.seq;
    return FX_OK;
}

static fx_status filter_indent(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jstr *s;
    fxi_jval by;
    fxi_jseq lines;
    fxi_jout o = {0};
    const bool first = fxi_j_arg_true(c, 1), blank = fxi_j_arg_true(c, 2);
    FX_TRY(fxi_j_defined(r, c->self));
    if (c->self.type != FXI_J_STR)
        return fxi_j_fail(r, "indent: wants a string, got a %s", fxi_j_type_name(c->self));
    s = c->self.s;
    FX_TRY(indentation(r, c, &by));
    FX_TRY(lines_of(r, s, &lines));
    for (size_t i = 0; i < lines.n; i++) {
        bool indented = i ? blank || lines.v[i].s->n : first;
        if (i) FX_TRY(fxi_jout_bytes(r, &o, "\n", 1, fxi_j_own(s, 0, s->n)));
        if (indented) FX_TRY(fxi_jout_add(r, &o, by.s));
        FX_TRY(fxi_jout_add(r, &o, lines.v[i].s));
    }
    return fxi_jout_done(r, &o, out);
}

// ---- numbers ------------------------------------------------------------------------------------

// The text of a number without white space around it and '_' between its digits; false: too long,
// or a '_' that stands elsewhere.
static bool plain_number(const fxi_jstr *s, char text[64])
{
    fxi_jstr t = fxi_j_stripped(s, NULL, true, true);
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

static bool read_int(const fxi_jstr *s, int base, int64_t *out)
{
    char text[64], *end;
    if (!plain_number(s, text)) return false;
    errno = 0;
    *out = strtoll(text, &end, base);
    return !*end && end != text && !errno;
}

static bool read_float(const fxi_jstr *s, double *out)
{
    char text[64], *end;
    if (!plain_number(s, text) || strpbrk(text, "xXpP(")) return false;
    *out = strtod(text, &end);
    return !*end && end != text;
}

static bool whole(double f, int64_t *out)
{
    if (!(f > -0x1p63 && f < 0x1p63)) return false;
    *out = (int64_t)f;
    return true;
}

static fx_status filter_int(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    int64_t i, base;
    double f;
    FX_TRY(fxi_j_defined(r, c->self));
    FX_TRY(fxi_j_arg_int(r, c, 1, 10, &base));
    if (base != 0 && (base < 2 || base > 36))
        return fxi_j_fail(r, "int: the base %lld", (long long)base);
    bool ok = fxi_j_is_integer(c->self)     ? (i = fxi_j_int_of(c->self), true)
              : c->self.type == FXI_J_FLOAT ? whole(c->self.f, &i)
              : c->self.type == FXI_J_STR   ? read_int(c->self.s, (int)base, &i) ||
                                                (read_float(c->self.s, &f) && whole(f, &i))
                                          : false;
    *out = ok ? fxi_j_int(i) : c->arg[0].type != FXI_J_ABSENT ? c->arg[0] : fxi_j_int(0);
    if (ok) out->own = c->self.own;
    return FX_OK;
}

static fx_status filter_float(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    double f = 0;
    FX_TRY(fxi_j_defined(r, c->self));
    bool ok = fxi_j_is_number(c->self)    ? (f = fxi_j_float_of(c->self), true)
              : c->self.type == FXI_J_STR ? read_float(c->self.s, &f)
                                          : false;
    *out = ok ? fxi_j_float(f) : c->arg[0].type != FXI_J_ABSENT ? c->arg[0] : fxi_j_float(0);
    if (ok) out->own = c->self.own;
    return FX_OK;
}

static fx_status need_number(fxi_jrun *r, const fxi_jcall *c)
{
    FX_TRY(fxi_j_defined(r, c->self));
    if (fxi_j_is_number(c->self)) return FX_OK;
    return fxi_j_fail(r, "%s: wants a number, got a %s", c->row->name, fxi_j_type_name(c->self));
}

static fx_status filter_abs(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    FX_TRY(need_number(r, c));
    bool negative =
        fxi_j_float_of(c->self) < 0 || (c->self.type == FXI_J_FLOAT && signbit(c->self.f));
    return negative ? fxi_j_negate(r, c->self, out) : fxi_j_plus(r, c->self, out);
}

// To the nearest, of two as near the even one: what printf does with the exact value.
static double round_to(double f, int64_t places)
{
    char text[400];
    if (!isfinite(f) || places > 300) return f;
    if (places < 0) {
        double scale = pow(10, (double)-places);
        return isfinite(scale) ? nearbyint(f / scale) * scale : 0;
    }
    snprintf(text, sizeof text, "%.*f", (int)places, f);
    return strlen(text) + 1 < sizeof text ? strtod(text, NULL) : f;
}

static fx_status round_int(fxi_jrun *r, int64_t i, int64_t places, fxi_jval *out)
{
    __int128 scale = 1;
    *out = fxi_j_int(places >= 0 ? i : 0);
    if (places >= 0 || places < -19) return FX_OK;
    for (; places < 0; places++) scale *= 10;
    __int128 rest = i % scale, low = i - rest, half = scale / 2;
    if (rest < 0) low -= scale, rest += scale;
    bool up = rest > half || (rest == half && (low / scale) % 2);
    if (up) low += scale;
    if (low > INT64_MAX || low < INT64_MIN) return fxi_j_fail(r, "a number is too large");
    out->i = (int64_t)low;
    return FX_OK;
}

static fx_status filter_round(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    int64_t places;
    const fxi_jstr *method = &(fxi_jstr){.p = "common", .n = 6};
    FX_TRY(need_number(r, c));
    FX_TRY(fxi_j_arg_int(r, c, 0, 0, &places));
    if (c->arg[1].type != FXI_J_ABSENT) FX_TRY(fxi_j_arg_str(r, c, 1, &method));
    const double f = fxi_j_float_of(c->self), scale = pow(10, (double)places);
    if (fxi_j_str_is(method, "common") && c->self.type == FXI_J_FLOAT)
        *out = fxi_j_float(round_to(f, places));
    else if (fxi_j_str_is(method, "common"))
        FX_TRY(round_int(r, fxi_j_int_of(c->self), places, out));
    else if (fxi_j_str_is(method, "ceil"))
        *out = fxi_j_float(ceil(f * scale) / scale);
    else if (fxi_j_str_is(method, "floor"))
        *out = fxi_j_float(floor(f * scale) / scale);
    else
        return fxi_j_fail(r, "round: the method is 'common', 'ceil' or 'floor'");
    out->own = c->self.own;
    return FX_OK;
}

// ---- any value ----------------------------------------------------------------------------------

static fx_status filter_default(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    bool missing =
        c->self.type == FXI_J_UNDEFINED || (fxi_j_arg_true(c, 1) && !fxi_j_truth(c->self));
    *out = missing ? c->arg[0] : c->self;
    return missing && out->type == FXI_J_ABSENT ? fxi_j_text(r, "", true, out) : FX_OK;
}

static fx_status filter_attr(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jstr *name;
    FX_TRY(fxi_j_arg_str(r, c, 0, &name));
    FX_TRY(fxi_j_defined(r, c->self));
    *out = fxi_j_undefined(name);
    return c->self.type == FXI_J_DICT ? FX_OK : fxi_j_attribute(r, c->self, name, out);
}

// ---- tojson: as transformers defines it ---------------------------------------------------------

static fx_status json_indent(fxi_jrun *r, const fxi_jcall *c, fxi_jdump *d)
{
    int64_t width;
    fxi_jval text;
    fxi_jout o = {0};
    if (!fxi_j_given(c, 1)) return FX_OK;
    d->item.n = 1; // no blank at the end of a line
    if (c->arg[1].type == FXI_J_STR) {
        d->indent = c->arg[1].s;
        return FX_OK;
    }
    FX_TRY(fxi_j_arg_int(r, c, 1, 0, &width));
    FX_TRY(spaces(r, &o, width));
    FX_TRY(fxi_jout_done(r, &o, &text));
    d->indent = text.s;
    return FX_OK;
}

static fx_status json_separators(fxi_jrun *r, const fxi_jcall *c, fxi_jdump *d)
{
    fxi_jseq pair;
    if (!fxi_j_given(c, 2)) return FX_OK;
    FX_TRY(fxi_j_items(r, c->arg[2], &pair));
    if (pair.n != 2 || pair.v[0].type != FXI_J_STR || pair.v[1].type != FXI_J_STR)
        return fxi_j_fail(r, "tojson: separators are two strings");
    d->item = *pair.v[0].s;
    d->colon = *pair.v[1].s;
    return FX_OK;
}

static fx_status filter_tojson(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    fxi_jout o = {0};
    fxi_jdump d = {.item = {.p = ", ", .n = 2}, .colon = {.p = ": ", .n = 2}};
    d.ascii = fxi_j_arg_true(c, 0);
    d.sorted = fxi_j_arg_true(c, 3);
    FX_TRY(json_indent(r, c, &d));
    FX_TRY(json_separators(r, c, &d));
    FX_TRY(fxi_j_dump(r, &d, c->self, &o));
    return fxi_jout_done(r, &o, out);
}

// ---- the table ----------------------------------------------------------------------------------

const fxi_jroutine fxi_j_filters[] = {
    {.name = "abs", .run = filter_abs},
    {.name = "attr", .run = filter_attr, .n_must = 1, .param = {"name"}},
    {.name = "capitalize", .run = filter_title, .how = 'c'},
    {.name = "center", .run = filter_center, .param = {"width"}},
    {.name = "d", .run = filter_default, .param = {"default_value", "boolean"}},
    {.name = "default", .run = filter_default, .param = {"default_value", "boolean"}},
    {.name = "e", .run = filter_escape},
    {.name = "escape", .run = filter_escape},
    {.name = "float", .run = filter_float, .param = {"default"}},
    {.name = "format", .run = filter_format, .param = {"*"}},
    {.name = "indent", .run = filter_indent, .param = {"width", "first", "blank"}},
    {.name = "int", .run = filter_int, .param = {"default", "base"}},
    {.name = "lower", .run = filter_case, .how = 'l'},
    {.name = "replace", .run = filter_replace, .n_must = 2, .param = {"old", "new", "count"}},
    {.name = "round", .run = filter_round, .param = {"precision", "method"}},
    {.name = "safe", .run = filter_string},
    {.name = "string", .run = filter_string},
    {.name = "title", .run = filter_title, .how = 't'},
    {.name = "tojson",
     .run = filter_tojson,
     .param = {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {.name = "trim", .run = filter_trim, .param = {"chars"}},
    {.name = "upper", .run = filter_case, .how = 'u'},
    {.name = "wordcount", .run = filter_wordcount},
    {.name = NULL},
};

const fxi_jroutine *fxi_j_find_filter(const char *name, size_t n)
{
    const fxi_jroutine *row = fxi_jroutine_find(fxi_j_filters, name, n);
    return row ? row : fxi_jroutine_find(fxi_j_seq_filters, name, n);
}
