// jinja_library.c - the library of chat templates: its tests, functions, filters of one value, and
// the tables of all.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/jinja/jinja_run.h"

// ---- tojson: JSON text the way Python's json.dumps writes it ------------------------------------

typedef struct json_style { // arguments of json.dumps
    bool ascii, sorted;
    const fxi_jstr *indent; // NULL: on one line
    fxi_jstr item, colon;   // separators
} json_style;

typedef struct json_writer {
    fxi_jrun *r;
    const json_style *d;
    fxi_jout *o;
    size_t depth; // levels of indentation
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

// ---- tojson: the filter, as transformers defines it ---------------------------------------------

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

static fx_status filter_tojson(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
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

// ---- tests: the right side of `is` --------------------------------------------------------------

#define TEST(name) static fx_status name(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)

static fx_status say_bool(fxi_jval *out, bool yes)
{
    *out = fxi_jval_bool(yes);
    return FX_OK;
}

// ---- tests: types -------------------------------------------------------------------------------

// row->how: a set of types
TEST(test_type)
{
    (void)r;
    return say_bool(out, c->row->how >> c->self.type & 1);
}

// row->how: 1 for true
TEST(test_bool)
{
    (void)r;
    return say_bool(out, c->self.type == FXI_JVAL_BOOL && c->self.b == (c->row->how == 1));
}

TEST(test_iterable)
{
    (void)r;
    return say_bool(out, fxi_jval_is_iterable(c->self));
}

// ---- tests: numbers and comparisons -------------------------------------------------------------

// odd, even: row->how is the remainder
TEST(test_parity)
{
    fxi_jval rest;
    bool yes;
    FX_TRY(fxi_jval_need_defined(r, c->self));
    if (!fxi_jval_is_number(c->self))
        return fxi_jrun_fail(r, "%s: expected a number, got a %s", c->row->name,
                             fxi_jval_type_name(c->self));
    FX_TRY(fxi_jop_binary(r, FXI_JOP_MOD, c->self, fxi_jval_int(2), &rest));
    FX_TRY(fxi_jval_equal(r, rest, fxi_jval_int(c->row->how), &yes));
    return say_bool(out, yes);
}

// row->how: fxi_jop
TEST(test_compare)
{
    bool yes;
    FX_TRY(fxi_jop_compare(r, (fxi_jop)c->row->how, c->self, c->arg[0], &yes));
    return say_bool(out, yes);
}

// ---- the table of tests -------------------------------------------------------------------------

#define BIT(type) (1 << FXI_JVAL_##type)
#define ONE       .n_must = 1, .param = {"-"}
enum {
    NUMBERS = BIT(BOOL) | BIT(INT) | BIT(FLOAT),
    SEQUENCES = BIT(STR) | BIT(LIST) | BIT(TUPLE) | BIT(DICT) | BIT(RANGE) | BIT(UNDEFINED),
    CALLABLES = BIT(MACRO) | BIT(METHOD) | BIT(FUNCTION) | BIT(LOOP) | BIT(UNDEFINED),
};

static const fxi_jroutine library_tests[] = {
    {.name = "!=", .run = test_compare, ONE, .how = FXI_JOP_NE},
    {.name = "==", .run = test_compare, ONE, .how = FXI_JOP_EQ},
    {.name = "boolean", .run = test_type, .how = BIT(BOOL)},
    {.name = "callable", .run = test_type, .how = CALLABLES},
    {.name = "defined", .run = test_type, .how = ~BIT(UNDEFINED)},
    {.name = "eq", .run = test_compare, ONE, .how = FXI_JOP_EQ},
    {.name = "equalto", .run = test_compare, ONE, .how = FXI_JOP_EQ},
    {.name = "even", .run = test_parity, .how = 0},
    {.name = "false", .run = test_bool, .how = 0},
    {.name = "float", .run = test_type, .how = BIT(FLOAT)},
    {.name = "ge", .run = test_compare, ONE, .how = FXI_JOP_GE},
    {.name = "gt", .run = test_compare, ONE, .how = FXI_JOP_GT},
    {.name = "in", .run = test_compare, ONE, .how = FXI_JOP_IN},
    {.name = "integer", .run = test_type, .how = BIT(INT)},
    {.name = "iterable", .run = test_iterable},
    {.name = "le", .run = test_compare, ONE, .how = FXI_JOP_LE},
    {.name = "lt", .run = test_compare, ONE, .how = FXI_JOP_LT},
    {.name = "mapping", .run = test_type, .how = BIT(DICT)},
    {.name = "ne", .run = test_compare, ONE, .how = FXI_JOP_NE},
    {.name = "none", .run = test_type, .how = BIT(NONE)},
    {.name = "number", .run = test_type, .how = NUMBERS},
    {.name = "odd", .run = test_parity, .how = 1},
    {.name = "sequence", .run = test_type, .how = SEQUENCES},
    {.name = "string", .run = test_type, .how = BIT(STR)},
    {.name = "true", .run = test_bool, .how = 1},
    {.name = "undefined", .run = test_type, .how = BIT(UNDEFINED)},
    {.name = NULL},
};

// ---- functions ----------------------------------------------------------------------------------

enum { MAX_RANGE = 100000 }; // Jinja's limit

static fx_status fn_range(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    int64_t first, start = 0, stop, step;
    fxi_jrange *range;
    FX_TRY(fxi_jcall_int(r, c, 0, 0, &first));
    FX_TRY(fxi_jcall_int(r, c, 1, first, &stop));
    FX_TRY(fxi_jcall_int(r, c, 2, 1, &step));
    if (c->arg[1].type != FXI_JVAL_ABSENT) start = first;
    if (!step) return fxi_jrun_fail(r, "range: the step must not be 0");
    __int128 width = step > 0 ? (__int128)stop - start : (__int128)start - stop;
    __int128 stride = step > 0 ? step : -(__int128)step;
    __int128 n = width > 0 ? (width + stride - 1) / stride : 0;
    if (n > MAX_RANGE) return fxi_jrun_fail(r, "range: longer than %d", MAX_RANGE);
    FX_TRY(fxi_jrun_take(r, sizeof *range, &range));
    *range = (fxi_jrange){start, stop, step, (size_t)n};
    *out = (fxi_jval){.type = FXI_JVAL_RANGE, .range = range};
    return FX_OK;
}

// The pairs of an optional dictionary or list of pairs, then the named arguments.
static fx_status collect_pairs(fxi_jrun *r, const fxi_jcall *c, fxi_jpair **out, size_t *n)
{
    fxi_jval source = c->all->n ? c->all->v[0] : fxi_jval_undefined(NULL);
    fxi_jseq items = {0}, pair;
    if (c->all->n > 1) return fxi_jrun_fail(r, "%s: takes one mapping at most", c->row->name);
    if (source.type != FXI_JVAL_DICT) FX_TRY(fxi_jval_items(r, source, &items));
    const size_t n_item = source.type == FXI_JVAL_DICT ? source.dict->n : items.n;
    fxi_jpair *e;
    FX_TRY(fxi_jrun_take(r, (n_item + c->all->n_kw) * sizeof *e, &e));
    for (*n = 0; *n < n_item; ++*n) {
        if (source.type == FXI_JVAL_DICT) {
            e[*n] = source.dict->e[*n];
            continue;
        }
        FX_TRY(fxi_jval_items(r, items.v[*n], &pair));
        if (pair.n != 2) return fxi_jrun_fail(r, "%s: expected pairs", c->row->name);
        e[*n] = (fxi_jpair){pair.v[0], pair.v[1]};
    }
    for (size_t i = 0; i < c->all->n_kw; i++)
        e[(*n)++] =
            (fxi_jpair){{.type = FXI_JVAL_STR, .s = c->all->kw[i].name}, c->all->kw[i].value};
    *out = e;
    return FX_OK;
}

static fx_status fn_namespace(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    struct fxi_jnamespace *ns;
    fxi_jpair *e = NULL;
    fxi_jval d;
    size_t n = 0;
    FX_TRY(collect_pairs(r, c, &e, &n));
    for (size_t i = 0; i < n; i++)
        if (e[i].key.type != FXI_JVAL_STR)
            return fxi_jrun_fail(r, "namespace: names must be strings");
    FX_TRY(fxi_jdict_merge(r, e, n, &d));
    FX_TRY(fxi_jrun_take(r, sizeof *ns, &ns));
    *ns = (struct fxi_jnamespace){.e = e, .n = d.dict->n, .cap = n};
    *out = (fxi_jval){.type = FXI_JVAL_NAMESPACE, .ns = ns};
    return FX_OK;
}

static fx_status fn_raise(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jstr *s;
    (void)out;
    FX_TRY(fxi_jval_to_str(r, c->arg[0], &s));
    return fxi_jrun_fail_text(r, "", s);
}

// The caller's clock. libc's strftime has Python's letters; a result that does not fit is empty.
static fx_status fn_strftime(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jstr *s;
    char fmt[128], text[256];
    fxi_jout o = {0};
    FX_TRY(fxi_jcall_str(r, c, 0, &s));
    if (s->n >= sizeof fmt || memchr(s->p, 0, s->n))
        return fxi_jrun_fail(r, "strftime_now: the format is too long");
    memcpy(fmt, s->p, s->n);
    fmt[s->n] = 0;
    size_t n = s->n ? strftime(text, sizeof text, fmt, &r->c->now) : 0;
    FX_TRY(fxi_jout_add_bytes(r, &o, text, n, fxi_jstr_owns(s, 0, s->n)));
    return fxi_jout_finish(r, &o, out);
}

// ---- the table of functions ---------------------------------------------------------------------

static const fxi_jroutine library_functions[] = {
    {.name = "namespace", .run = fn_namespace, .param = {"*"}},
    {.name = "raise_exception", .run = fn_raise, .n_must = 1, .param = {"message"}},
    {.name = "range", .run = fn_range, .n_must = 1, .param = {"-", "-", "-"}},
    {.name = "strftime_now", .run = fn_strftime, .n_must = 1, .param = {"format"}},
    {.name = NULL},
};

// ---- filters: text ------------------------------------------------------------------------------

static fx_status filter_string(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    *out = fxi_jval_str(NULL);
    return fxi_jval_to_str(r, c->self, &out->s);
}

// upper, lower, capitalize: row->how is 'u', 'l', 't'
static fx_status filter_case(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jstr *s;
    const char how = (char)c->row->how;
    FX_TRY(fxi_jval_to_str(r, c->self, &s));
    return fxi_jstr_recase(r, s, how, how == 't' ? 'l' : how, out);
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
        return fxi_jrun_fail(r, "indent: expected a string, got a %s", fxi_jval_type_name(c->self));
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

// ---- filters: numbers ---------------------------------------------------------------------------

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
        return fxi_jrun_fail(r, "int: invalid base %lld", (long long)base);
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

static fx_status filter_abs(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    FX_TRY(fxi_jval_need_defined(r, c->self));
    if (!fxi_jval_is_number(c->self))
        return fxi_jrun_fail(r, "%s: expected a number, got a %s", c->row->name,
                             fxi_jval_type_name(c->self));
    bool negative =
        fxi_jval_to_float(c->self) < 0 || (c->self.type == FXI_JVAL_FLOAT && signbit(c->self.f));
    return negative ? fxi_jop_negate(r, c->self, out) : fxi_jop_plus(r, c->self, out);
}

// ---- filters: any value -------------------------------------------------------------------------

static fx_status filter_default(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    bool missing =
        c->self.type == FXI_JVAL_UNDEFINED || (fxi_jcall_true(c, 1) && !fxi_jval_truth(c->self));
    *out = missing ? c->arg[0] : c->self;
    return missing && out->type == FXI_JVAL_ABSENT ? fxi_jstr_copy(r, "", true, out) : FX_OK;
}

// ---- the table of filters -----------------------------------------------------------------------

static const fxi_jroutine library_filters[] = {
    {.name = "abs", .run = filter_abs},
    {.name = "capitalize", .run = filter_case, .how = 't'},
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
     .run = filter_tojson,
     .param = {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {.name = "trim", .run = filter_trim, .param = {"chars"}},
    {.name = "upper", .run = filter_case, .how = 'u'},
    {.name = NULL},
};

// ---- the library --------------------------------------------------------------------------------

static const fxi_jroutine no_rows[] = {{.name = NULL}};

// `others` are Python's methods that are not supported: no published template calls them.
static const fxi_jmethods methods[FXI_JVAL_N_TYPE] = {
    [FXI_JVAL_STR] = {fxi_jlibrary_str_methods,
                      " casefold center count encode expandtabs format format_map index isalnum "
                      "isalpha isascii isdecimal isdigit isidentifier islower isnumeric "
                      "isprintable isspace istitle isupper ljust maketrans partition rfind rindex "
                      "rjust rpartition swapcase translate zfill "},
    [FXI_JVAL_DICT] = {fxi_jlibrary_dict_methods,
                       " clear copy fromkeys pop popitem setdefault update "},
    [FXI_JVAL_LIST] = {no_rows,
                       " append clear copy count extend index insert pop remove reverse sort "},
    [FXI_JVAL_TUPLE] = {no_rows, " count index "},
};

const fxi_jlibrary fxi_jlibrary_chat = {
    .filters = {library_filters, fxi_jlibrary_seq_filters},
    .tests = library_tests,
    .functions = library_functions,
    .methods = methods,
};
