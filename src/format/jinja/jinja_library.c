// jinja_library.c - the library of chat templates: its tests, functions, filters of one value, and
// the tables of all.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/jinja/jinja_library.h"
#include "format/jinja/jinja_tree.h"

// ---- tests: the right side of `is` --------------------------------------------------------------

#define TEST(name) static fx_status name(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)

static fx_status say_bool(fxi_jval *out, bool yes)
{
    *out = fxi_jval_bool(yes);
    return FX_OK;
}

// ---- types --------------------------------------------------------------------------------------

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

TEST(test_defined)
{
    (void)r;
    return say_bool(out, c->self.type != FXI_JVAL_UNDEFINED);
}

TEST(test_iterable)
{
    (void)r;
    return say_bool(out, fxi_jval_is_iterable(c->self));
}

TEST(test_callable)
{
    (void)r;
    uint8_t t = c->self.type;
    return say_bool(out, t == FXI_JVAL_MACRO || t == FXI_JVAL_METHOD || t == FXI_JVAL_FUNCTION ||
                             t == FXI_JVAL_LOOP || t == FXI_JVAL_UNDEFINED);
}

// ---- numbers and comparisons --------------------------------------------------------------------

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

// ---- the table ----------------------------------------------------------------------------------

#define BIT(type) (1 << FXI_JVAL_##type)
#define ONE       .n_must = 1, .param = {"-"}
enum {
    NUMBERS = BIT(BOOL) | BIT(INT) | BIT(FLOAT),
    SEQUENCES = BIT(STR) | BIT(LIST) | BIT(TUPLE) | BIT(DICT) | BIT(RANGE) | BIT(UNDEFINED),
};

static const fxi_jroutine library_tests[] = {
    {.name = "!=", .run = test_compare, ONE, .how = FXI_JOP_NE},
    {.name = "==", .run = test_compare, ONE, .how = FXI_JOP_EQ},
    {.name = "boolean", .run = test_type, .how = BIT(BOOL)},
    {.name = "callable", .run = test_callable},
    {.name = "defined", .run = test_defined},
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

// ---- functions that every template can call -----------------------------------------------------

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

// ---- the table ----------------------------------------------------------------------------------

static const fxi_jroutine library_functions[] = {
    {.name = "namespace", .run = fn_namespace, .param = {"*"}},
    {.name = "raise_exception", .run = fn_raise, .n_must = 1, .param = {"message"}},
    {.name = "range", .run = fn_range, .n_must = 1, .param = {"-", "-", "-"}},
    {.name = "strftime_now", .run = fn_strftime, .n_must = 1, .param = {"format"}},
    {.name = NULL},
};

// ---- text ---------------------------------------------------------------------------------------

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

// ---- any value ----------------------------------------------------------------------------------

static fx_status filter_default(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    bool missing =
        c->self.type == FXI_JVAL_UNDEFINED || (fxi_jcall_true(c, 1) && !fxi_jval_truth(c->self));
    *out = missing ? c->arg[0] : c->self;
    return missing && out->type == FXI_JVAL_ABSENT ? fxi_jstr_copy(r, "", true, out) : FX_OK;
}

// ---- the table ----------------------------------------------------------------------------------

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
     .run = fxi_jfilter_tojson,
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
