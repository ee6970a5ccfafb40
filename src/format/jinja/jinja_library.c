// jinja_library.c - the library of chat templates: its tests, functions, filters of one value,
// methods of dictionaries, and the tables of all.
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "format/jinja/jinja_run.h"

// ---- tests: the right side of `is` --------------------------------------------------------------

// row->how: a set of types
FXI_JROUTINE(test_type)
{
    (void)r;
    *out = fxi_jval_bool(c->row->how >> c->self.type & 1);
    return FX_OK;
}

// row->how: 1 for true
FXI_JROUTINE(test_bool)
{
    (void)r;
    *out = fxi_jval_bool(c->self.type == FXI_JVAL_BOOL && c->self.b == (c->row->how == 1));
    return FX_OK;
}

FXI_JROUTINE(test_iterable)
{
    (void)r;
    *out = fxi_jval_bool(fxi_jval_is_iterable(c->self));
    return FX_OK;
}

// odd, even: row->how is the remainder
FXI_JROUTINE(test_parity)
{
    fxi_jval rest;
    bool yes;
    FX_TRY(fxi_jop_binary(r, FXI_JOP_MOD, c->self, fxi_jval_int(2), &rest));
    FX_TRY(fxi_jval_equal(r, rest, fxi_jval_int(c->row->how), &yes));
    *out = fxi_jval_bool(yes);
    return FX_OK;
}

// row->how: fxi_jop
FXI_JROUTINE(test_compare)
{
    bool yes;
    FX_TRY(fxi_jop_compare(r, (fxi_jop)c->row->how, c->self, c->arg[0], &yes));
    *out = fxi_jval_bool(yes);
    return FX_OK;
}

#define BIT(type) (1 << FXI_JVAL_##type)
#define COMPARE   .run = test_compare, .types = "v", .n_must = 1
enum {
    NUMBERS = BIT(BOOL) | BIT(INT) | BIT(FLOAT),
    SEQUENCES = BIT(STR) | BIT(LIST) | BIT(TUPLE) | BIT(DICT) | BIT(RANGE) | BIT(UNDEFINED),
    CALLABLES = BIT(MACRO) | BIT(METHOD) | BIT(FUNCTION) | BIT(LOOP) | BIT(UNDEFINED),
};

static const fxi_jroutine library_tests[] = {
    {"!=", COMPARE, .how = FXI_JOP_NE},
    {"==", COMPARE, .how = FXI_JOP_EQ},
    {"boolean", .run = test_type, .how = BIT(BOOL)},
    {"callable", .run = test_type, .how = CALLABLES},
    {"defined", .run = test_type, .how = ~BIT(UNDEFINED)},
    {"eq", COMPARE, .how = FXI_JOP_EQ},
    {"equalto", COMPARE, .how = FXI_JOP_EQ},
    {"even", .run = test_parity, .self = 'n', .how = 0},
    {"false", .run = test_bool, .how = 0},
    {"float", .run = test_type, .how = BIT(FLOAT)},
    {"ge", COMPARE, .how = FXI_JOP_GE},
    {"gt", COMPARE, .how = FXI_JOP_GT},
    {"in", COMPARE, .how = FXI_JOP_IN},
    {"integer", .run = test_type, .how = BIT(INT)},
    {"iterable", .run = test_iterable},
    {"le", COMPARE, .how = FXI_JOP_LE},
    {"lt", COMPARE, .how = FXI_JOP_LT},
    {"mapping", .run = test_type, .how = BIT(DICT)},
    {"ne", COMPARE, .how = FXI_JOP_NE},
    {"none", .run = test_type, .how = BIT(NONE)},
    {"number", .run = test_type, .how = NUMBERS},
    {"odd", .run = test_parity, .self = 'n', .how = 1},
    {"sequence", .run = test_type, .how = SEQUENCES},
    {"string", .run = test_type, .how = BIT(STR)},
    {"true", .run = test_bool, .how = 1},
    {"undefined", .run = test_type, .how = BIT(UNDEFINED)},
    {.name = NULL},
};

// ---- functions ----------------------------------------------------------------------------------

enum { MAX_RANGE = 100000 }; // Jinja's limit

FXI_JROUTINE(fn_range)
{
    const int64_t first = fxi_jcall_int(c, 0, 0), step = fxi_jcall_int(c, 2, 1);
    const int64_t start = fxi_jcall_given(c, 1) ? first : 0, stop = fxi_jcall_int(c, 1, first);
    fxi_jrange *range;
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
        e[(*n)++] = (fxi_jpair){fxi_jval_str(c->all->kw[i].name), c->all->kw[i].value};
    *out = e;
    return FX_OK;
}

FXI_JROUTINE(fn_namespace)
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

// The message is cut at the end of a character; its control characters become blanks.
FXI_JROUTINE(fn_raise)
{
    const fxi_jstr *s = c->arg[0].s;
    char text[400];
    size_t n = s->n < sizeof text ? s->n : sizeof text - 1;
    (void)out;
    memcpy(text, s->p, n);
    n = fxi_utf8_complete(text, n);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7F) text[i] = ' ';
    return fxi_jrun_fail(r, "%.*s", (int)n, text);
}

// The caller's clock. libc's strftime has Python's letters; a result that does not fit is empty.
FXI_JROUTINE(fn_strftime)
{
    const fxi_jstr *s = c->arg[0].s;
    char fmt[128], text[256];
    fxi_jout o = {0};
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
    {"namespace", .run = fn_namespace, .types = "*"},
    {"raise_exception", .run = fn_raise, .types = "t", .n_must = 1, .param = {"message"}},
    {"range", .run = fn_range, .types = "iii", .n_must = 1},
    {"strftime_now", .run = fn_strftime, .types = "s", .n_must = 1, .param = {"format"}},
    {.name = NULL},
};

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

static bool text_to_float(const fxi_jstr *s, double *out)
{
    char text[64], *end;
    if (!plain_number(s, text) || strpbrk(text, "xXpP(")) return false;
    *out = strtod(text, &end);
    return !*end && end != text;
}

// The number, as much the template's own as what it was made from; or else the given default.
static fx_status number_or_default(const fxi_jcall *c, bool ok, fxi_jval number, fxi_jval zero,
                                   fxi_jval *out)
{
    number.own = c->self.own;
    *out = ok ? number : fxi_jcall_given(c, 0) ? c->arg[0] : zero;
    return FX_OK;
}

FXI_JROUTINE(filter_int)
{
    const int64_t base = fxi_jcall_int(c, 1, 10);
    const fxi_jval v = c->self;
    int64_t i = 0;
    double f = v.type == FXI_JVAL_FLOAT ? v.f : 0;
    bool ok = fxi_jval_is_integer(v);
    if (base != 0 && (base < 2 || base > 36))
        return fxi_jrun_fail(r, "int: invalid base %lld", (long long)base);
    if (ok) i = fxi_jval_to_int(v);
    char text[64], *end;
    if (v.type == FXI_JVAL_STR && plain_number(v.s, text)) {
        errno = 0;
        i = strtoll(text, &end, (int)base);
        ok = !*end && end != text && !errno;
    }
    if (v.type == FXI_JVAL_FLOAT || (v.type == FXI_JVAL_STR && !ok && text_to_float(v.s, &f))) {
        ok = f > -0x1p63 && f < 0x1p63;
        if (ok) i = (int64_t)f;
    }
    return number_or_default(c, ok, fxi_jval_int(i), fxi_jval_int(0), out);
}

FXI_JROUTINE(filter_float)
{
    double f = 0;
    bool ok = fxi_jval_is_number(c->self);
    (void)r;
    if (ok) f = fxi_jval_to_float(c->self);
    if (c->self.type == FXI_JVAL_STR) ok = text_to_float(c->self.s, &f);
    return number_or_default(c, ok, fxi_jval_float(f), fxi_jval_float(0), out);
}

FXI_JROUTINE(filter_abs)
{
    const fxi_jval v = c->self;
    bool negative = fxi_jval_to_float(v) < 0 || (v.type == FXI_JVAL_FLOAT && signbit(v.f));
    return fxi_jop_sign(r, negative ? '-' : '+', v, out);
}

// ---- filters: any value -------------------------------------------------------------------------

FXI_JROUTINE(filter_default)
{
    static const fxi_jstr empty = {.p = "", .own = ""};
    const fxi_jval v = c->self;
    (void)r;
    *out = v;
    if (v.type == FXI_JVAL_UNDEFINED || (fxi_jcall_true(c, 1) && !fxi_jval_truth(v)))
        *out = fxi_jcall_given(c, 0) ? c->arg[0] : fxi_jval_str(&empty);
    return FX_OK;
}

// As transformers defines it.
FXI_JROUTINE(filter_tojson)
{
    fxi_jstyle style = {.json = true, .item = {.p = ", ", .n = 2}, .colon = {.p = ": ", .n = 2}};
    fxi_jout o = {0};
    style.ascii = fxi_jcall_true(c, 0);
    style.sorted = fxi_jcall_true(c, 3);
    if (fxi_jcall_given(c, 1)) {
        style.item.n = 1; // no blank at a line's end
        FX_TRY(fxi_jcall_blanks(r, c, 1, &style.indent));
    }
    if (fxi_jcall_given(c, 2)) {
        fxi_jseq pair;
        FX_TRY(fxi_jval_items(r, c->arg[2], &pair));
        if (pair.n != 2 || pair.v[0].type != FXI_JVAL_STR || pair.v[1].type != FXI_JVAL_STR)
            return fxi_jrun_fail(r, "tojson: separators must be two strings");
        style.item = *pair.v[0].s;
        style.colon = *pair.v[1].s;
    }
    FX_TRY(fxi_jval_write(r, &o, c->self, &style));
    return fxi_jout_finish(r, &o, out);
}

// ---- methods of dictionaries --------------------------------------------------------------------

FXI_JROUTINE(dict_get)
{
    const fxi_jval *found;
    if (!fxi_jval_is_hashable(c->arg[0]))
        return fxi_jrun_fail(r, "a %s cannot be a key", fxi_jval_type_name(c->arg[0]));
    FX_TRY(fxi_jdict_lookup(r, c->self.dict, c->arg[0], &found));
    *out = found ? *found : fxi_jcall_given(c, 1) ? c->arg[1] : fxi_jval_none();
    return FX_OK;
}

// items, keys, values: row->how
FXI_JROUTINE(dict_view)
{
    struct fxi_jview *v;
    FX_TRY(fxi_jrun_take(r, sizeof *v, &v));
    *v = (struct fxi_jview){c->self.dict, (fxi_jview_kind)c->row->how};
    *out = (fxi_jval){.type = FXI_JVAL_VIEW, .view = v};
    return FX_OK;
}

// ---- the library --------------------------------------------------------------------------------

static const fxi_jroutine library_filters[] = {
    {"abs", .run = filter_abs, .self = 'n'},
    {"d", .run = filter_default, .types = "vv", .param = {"default_value", "boolean"}},
    {"default", .run = filter_default, .types = "vv", .param = {"default_value", "boolean"}},
    {"float", .run = filter_float, .self = 'd', .types = "v", .param = {"default"}},
    {"int", .run = filter_int, .self = 'd', .types = "vi", .param = {"default", "base"}},
    {"tojson", .run = filter_tojson, .types = "vVVv",
     .param = {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {.name = NULL},
};

static const fxi_jroutine dict_methods[] = {
    {"get", .run = dict_get, .types = "vv", .n_must = 1},
    {"items", .run = dict_view, .how = FXI_JVIEW_ITEMS},
    {"keys", .run = dict_view, .how = FXI_JVIEW_KEYS},
    {"values", .run = dict_view, .how = FXI_JVIEW_VALUES},
    {.name = NULL},
};

static const fxi_jroutine no_rows[] = {{.name = NULL}};

// `others` are Python's methods that are not supported: no published template calls them.
static const fxi_jmethods methods[FXI_JVAL_N_TYPE] = {
    [FXI_JVAL_STR] = {fxi_jlibrary_str_methods,
                      " casefold center count encode expandtabs format format_map index isalnum "
                      "isalpha isascii isdecimal isdigit isidentifier islower isnumeric "
                      "isprintable isspace istitle isupper ljust maketrans partition rfind rindex "
                      "rjust rpartition swapcase translate zfill "},
    [FXI_JVAL_DICT] = {dict_methods, " clear copy fromkeys pop popitem setdefault update "},
    [FXI_JVAL_LIST] = {no_rows,
                       " append clear copy count extend index insert pop remove reverse sort "},
    [FXI_JVAL_TUPLE] = {no_rows, " count index "},
};

const fxi_jlibrary fxi_jlibrary_chat = {
    .filters = {library_filters, fxi_jlibrary_str_filters, fxi_jlibrary_seq_filters},
    .tests = library_tests,
    .functions = library_functions,
    .methods = methods,
};
