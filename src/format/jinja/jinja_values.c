// jinja_values.c - what values are, as in Python: truth, equality, order, members, dictionaries,
// and their text by str() and repr().
//
// In a text the characters of strings keep their marks. Quotes and separators around them count as
// the caller's, and so do the digits of the caller's numbers.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "format/jinja/jinja_run.h"

static const char *const type_names[FXI_JVAL_N_TYPE] = {
    [FXI_JVAL_UNDEFINED] = "Undefined", [FXI_JVAL_NONE] = "NoneType",
    [FXI_JVAL_BOOL] = "bool",           [FXI_JVAL_INT] = "int",
    [FXI_JVAL_FLOAT] = "float",         [FXI_JVAL_STR] = "str",
    [FXI_JVAL_LIST] = "list",           [FXI_JVAL_TUPLE] = "tuple",
    [FXI_JVAL_DICT] = "dict",           [FXI_JVAL_RANGE] = "range",
    [FXI_JVAL_VIEW] = "dict view",      [FXI_JVAL_GENERATOR] = "generator",
    [FXI_JVAL_NAMESPACE] = "Namespace", [FXI_JVAL_LOOP] = "LoopContext",
    [FXI_JVAL_MACRO] = "Macro",         [FXI_JVAL_METHOD] = "method",
    [FXI_JVAL_FUNCTION] = "function",
};

const char *fxi_jval_type_name(fxi_jval v)
{
    return type_names[v.type];
}

fx_status fxi_jval_need_defined(fxi_jrun *r, fxi_jval v)
{
    if (v.type != FXI_JVAL_UNDEFINED) return FX_OK;
    if (!v.s) return fxi_jrun_fail(r, "a value is undefined");
    return fxi_jrun_fail(r, v.own ? "the method '%.*s' is not supported" : "'%.*s' is undefined",
                         v.s->n < 80 ? (int)v.s->n : 80, v.s->p);
}

// ---- numbers ------------------------------------------------------------------------------------

bool fxi_jval_is_integer(fxi_jval v)
{
    return v.type == FXI_JVAL_INT || v.type == FXI_JVAL_BOOL;
}

bool fxi_jval_is_number(fxi_jval v)
{
    return fxi_jval_is_integer(v) || v.type == FXI_JVAL_FLOAT;
}

int64_t fxi_jval_to_int(fxi_jval v)
{
    return v.type == FXI_JVAL_BOOL ? v.b : v.i;
}

double fxi_jval_to_float(fxi_jval v)
{
    return v.type == FXI_JVAL_FLOAT ? v.f : (double)fxi_jval_to_int(v);
}

// Exact: a double cannot hold every int64.
static int compare_mixed(int64_t i, double f)
{
    if (f >= 0x1p63) return -1;
    if (f < -0x1p63 || isnan(f)) return 1;
    int64_t whole = (int64_t)f;
    if (i != whole) return i < whole ? -1 : 1;
    double rest = f - (double)whole;
    return rest > 0 ? -1 : rest < 0;
}

static int compare_numbers(fxi_jval a, fxi_jval b)
{
    bool ia = fxi_jval_is_integer(a), ib = fxi_jval_is_integer(b);
    if (ia && ib) {
        int64_t x = fxi_jval_to_int(a), y = fxi_jval_to_int(b);
        return x < y ? -1 : x > y;
    }
    if (ia) return compare_mixed(fxi_jval_to_int(a), b.f);
    if (ib) return -compare_mixed(fxi_jval_to_int(b), a.f);
    return a.f < b.f ? -1 : a.f > b.f;
}

static bool is_nan(fxi_jval v)
{
    return v.type == FXI_JVAL_FLOAT && isnan(v.f);
}

// ---- truth and length ---------------------------------------------------------------------------

bool fxi_jval_length(fxi_jval v, size_t *out)
{
    switch (v.type) {
    case FXI_JVAL_UNDEFINED: *out = 0; return true;
    case FXI_JVAL_STR: *out = fxi_utf8_count(v.s->p, v.s->n); return true;
    case FXI_JVAL_LIST:
    case FXI_JVAL_TUPLE: *out = v.seq->n; return true;
    case FXI_JVAL_DICT: *out = v.dict->n; return true;
    case FXI_JVAL_RANGE: *out = v.range->n; return true;
    case FXI_JVAL_VIEW: *out = v.view->dict->n; return true;
    case FXI_JVAL_LOOP: *out = v.loop->n; return true;
    default: return false;
    }
}

bool fxi_jval_truth(fxi_jval v)
{
    size_t n;
    if (v.type == FXI_JVAL_NONE) return false;
    if (v.type == FXI_JVAL_STR) return v.s->n != 0;
    if (fxi_jval_is_integer(v)) return fxi_jval_to_int(v) != 0;
    if (v.type == FXI_JVAL_FLOAT) return v.f != 0;
    return !fxi_jval_length(v, &n) || n;
}

// ---- equality -----------------------------------------------------------------------------------

static fx_status equal_seqs(fxi_jrun *r, const fxi_jseq *a, const fxi_jseq *b, bool *out)
{
    *out = a->n == b->n;
    for (size_t i = 0; *out && i < a->n; i++) FX_TRY(fxi_jval_equal(r, a->v[i], b->v[i], out));
    return FX_OK;
}

static fx_status equal_dicts(fxi_jrun *r, const fxi_jdict *a, const fxi_jdict *b, bool *out)
{
    *out = a->n == b->n;
    for (size_t i = 0; *out && i < a->n; i++) {
        const fxi_jval *other;
        FX_TRY(fxi_jdict_lookup(r, b, a->e[i].key, &other));
        *out = other != NULL;
        if (other) FX_TRY(fxi_jval_equal(r, a->e[i].value, *other, out));
    }
    return FX_OK;
}

static bool equal_ranges(const fxi_jrange *a, const fxi_jrange *b)
{
    return a->n == b->n && (!a->n || a->start == b->start) && (a->n < 2 || a->step == b->step);
}

fx_status fxi_jval_equal(fxi_jrun *r, fxi_jval a, fxi_jval b, bool *out)
{
    *out = false;
    FX_TRY(fxi_jrun_work(r, 0));
    if (fxi_jval_is_number(a) && fxi_jval_is_number(b)) {
        *out = !is_nan(a) && !is_nan(b) && compare_numbers(a, b) == 0;
        return FX_OK;
    }
    if (a.type != b.type) return FX_OK;
    FX_TRY(fxi_jrun_enter(r));
    fx_status st = FX_OK;
    switch (a.type) {
    case FXI_JVAL_UNDEFINED:
    case FXI_JVAL_NONE: *out = true; break;
    case FXI_JVAL_STR:
        st = fxi_jrun_work(r, a.s->n == b.s->n ? a.s->n : 0);
        *out = a.s->n == b.s->n && !memcmp(a.s->p, b.s->p, a.s->n);
        break;
    case FXI_JVAL_LIST:
    case FXI_JVAL_TUPLE: st = equal_seqs(r, a.seq, b.seq, out); break;
    case FXI_JVAL_DICT: st = equal_dicts(r, a.dict, b.dict, out); break;
    case FXI_JVAL_RANGE: *out = equal_ranges(a.range, b.range); break;
    default: *out = a.seq == b.seq; break; // identity
    }
    fxi_jrun_leave(r);
    return st;
}

// ---- order --------------------------------------------------------------------------------------

static fx_status compare_seqs(fxi_jrun *r, const fxi_jseq *a, const fxi_jseq *b, const char *op,
                              int *out)
{
    for (size_t i = 0; i < a->n && i < b->n; i++) {
        bool same;
        FX_TRY(fxi_jval_equal(r, a->v[i], b->v[i], &same));
        if (!same) return fxi_jval_compare(r, a->v[i], b->v[i], op, out);
    }
    *out = a->n < b->n ? -1 : a->n > b->n;
    return FX_OK;
}

fx_status fxi_jval_compare(fxi_jrun *r, fxi_jval a, fxi_jval b, const char *op, int *out)
{
    FX_TRY(fxi_jrun_work(r, 0));
    FX_TRY(fxi_jval_need_defined(r, a));
    FX_TRY(fxi_jval_need_defined(r, b));
    if (fxi_jval_is_number(a) && fxi_jval_is_number(b)) {
        *out = compare_numbers(a, b);
        return FX_OK;
    }
    if (a.type == b.type && a.type == FXI_JVAL_STR) {
        *out = fxi_jstr_compare(a.s, b.s);
        return fxi_jrun_work(r, a.s->n < b.s->n ? a.s->n : b.s->n);
    }
    if (a.type == b.type && (a.type == FXI_JVAL_LIST || a.type == FXI_JVAL_TUPLE)) {
        FX_TRY(fxi_jrun_enter(r));
        fx_status st = compare_seqs(r, a.seq, b.seq, op, out);
        fxi_jrun_leave(r);
        return st;
    }
    return fxi_jrun_fail(r, "'%s' is not supported between %s and %s", op, fxi_jval_type_name(a),
                         fxi_jval_type_name(b));
}

// ---- dictionaries -------------------------------------------------------------------------------

enum { NO_INDEX_UP_TO = 8 }; // members

bool fxi_jval_is_hashable(fxi_jval v)
{
    if (v.type == FXI_JVAL_TUPLE)
        for (size_t i = 0; i < v.seq->n; i++)
            if (!fxi_jval_is_hashable(v.seq->v[i])) return false;
    return v.type != FXI_JVAL_LIST && v.type != FXI_JVAL_DICT && v.type != FXI_JVAL_VIEW;
}

static int compare_keys(const void *pa, const void *pb, void *pairs)
{
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    const fxi_jpair *e = pairs;
    int c = fxi_jstr_compare(e[a].key.s, e[b].key.s);
    return c ? c : a < b ? -1 : a > b;
}

// Orders the keys: strings by their text, then all others in no particular order.
static fx_status index_keys(fxi_jrun *r, fxi_jdict *d)
{
    uint32_t *by_key;
    size_t n_other = 0;
    if (d->n <= NO_INDEX_UP_TO) return FX_OK;
    FX_TRY(fxi_jrun_work(r, d->n * 256));
    FX_TRY(fxi_jrun_take(r, d->n * sizeof *by_key, &by_key));
    for (size_t i = 0; i < d->n; i++) {
        if (d->e[i].key.type == FXI_JVAL_STR)
            by_key[d->n_str++] = (uint32_t)i;
        else
            by_key[d->n - ++n_other] = (uint32_t)i;
    }
    qsort_r(by_key, d->n_str, sizeof *by_key, compare_keys, (void *)d->e);
    d->by_key = by_key;
    return FX_OK;
}

static const fxi_jval *search_keys(const fxi_jdict *d, const fxi_jstr *key)
{
    size_t lo = 0, hi = d->n_str;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (fxi_jstr_compare(d->e[d->by_key[mid]].key.s, key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == d->n_str) return NULL;
    const fxi_jpair *e = &d->e[d->by_key[lo]];
    return fxi_jstr_compare(e->key.s, key) ? NULL : &e->value;
}

fx_status fxi_jdict_lookup(fxi_jrun *r, const fxi_jdict *d, fxi_jval key, const fxi_jval **out)
{
    *out = NULL;
    if (d->by_key && key.type == FXI_JVAL_STR) {
        *out = search_keys(d, key.s);
        return fxi_jrun_work(r, 0);
    }
    for (size_t i = d->by_key ? d->n_str : 0; i < d->n; i++) {
        const fxi_jpair *e = &d->e[d->by_key ? d->by_key[i] : i];
        bool same;
        if (key.type == FXI_JVAL_STR && e->key.type != FXI_JVAL_STR) continue;
        FX_TRY(fxi_jval_equal(r, e->key, key, &same));
        if (!same) continue;
        *out = &e->value;
        return FX_OK;
    }
    return FX_OK;
}

// Gives the first of equal keys the last value. Only a template's own {..} can have equal keys, so
// there are few.
static fx_status merge_equal(fxi_jrun *r, fxi_jpair *e, size_t *n)
{
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++) {
        size_t k = 0;
        bool same = false;
        for (; k < kept && !same; k += !same) FX_TRY(fxi_jval_equal(r, e[k].key, e[i].key, &same));
        if (same)
            e[k].value = e[i].value;
        else
            e[kept++] = e[i];
    }
    *n = kept;
    return FX_OK;
}

fx_status fxi_jdict_make(fxi_jrun *r, const fxi_jpair *e, size_t n, fxi_jval *out)
{
    fxi_jdict *d;
    FX_TRY(fxi_jrun_take(r, sizeof *d, &d));
    *d = (fxi_jdict){.e = e, .n = n};
    FX_TRY(index_keys(r, d));
    *out = (fxi_jval){.type = FXI_JVAL_DICT, .dict = d};
    return FX_OK;
}

fx_status fxi_jdict_merge(fxi_jrun *r, fxi_jpair *e, size_t n, fxi_jval *out)
{
    for (size_t i = 0; i < n; i++) {
        FX_TRY(fxi_jval_need_defined(r, e[i].key));
        if (!fxi_jval_is_hashable(e[i].key))
            return fxi_jrun_fail(r, "a %s cannot be a key", fxi_jval_type_name(e[i].key));
    }
    FX_TRY(merge_equal(r, e, &n));
    return fxi_jdict_make(r, e, n, out);
}

// ---- members ------------------------------------------------------------------------------------

fx_status fxi_jval_make_seq(fxi_jrun *r, fxi_jtype type, const fxi_jval *v, size_t n, fxi_jval *out)
{
    fxi_jseq *s;
    FX_TRY(fxi_jrun_take(r, sizeof *s, &s));
    *s = (fxi_jseq){v, n};
    *out = (fxi_jval){.type = (uint8_t)type, .seq = s};
    return FX_OK;
}

fx_status fxi_jval_make_generator(fxi_jrun *r, const fxi_jval *v, size_t n, fxi_jval *out)
{
    struct fxi_jgenerator *g;
    FX_TRY(fxi_jrun_take(r, sizeof *g, &g));
    *g = (struct fxi_jgenerator){.seq = {v, n}};
    *out = (fxi_jval){.type = FXI_JVAL_GENERATOR, .gen = g};
    return FX_OK;
}

fx_status fxi_jval_generator_source(fxi_jrun *r, fxi_jval v, fxi_jseq *items, fxi_jval *out)
{
    out->type = FXI_JVAL_ABSENT;
    const char *dead = v.type == FXI_JVAL_GENERATOR ? v.gen->of : NULL;
    if (!dead && fxi_jval_is_iterable(v)) return fxi_jval_items(r, v, items);
    FX_TRY(fxi_jval_make_generator(r, NULL, 0, out));
    out->gen->of = dead ? dead : fxi_jval_type_name(v);
    return FX_OK;
}

static fx_status chars_of(fxi_jrun *r, const fxi_jstr *s, fxi_jseq *out)
{
    fxi_jval *v;
    size_t n = fxi_utf8_count(s->p, s->n), i = 0, len;
    FX_TRY(fxi_jrun_work(r, s->n * 8));
    FX_TRY(fxi_jrun_take(r, n * sizeof *v, &v));
    for (size_t at = 0; at < s->n; at += len) {
        fxi_jstr_char_at(s, at, &len);
        FX_TRY(fxi_jstr_part(r, s, at, len, &v[i++]));
    }
    *out = (fxi_jseq){v, n};
    return FX_OK;
}

static fx_status members_of(fxi_jrun *r, const fxi_jdict *d, fxi_jview_kind kind, fxi_jseq *out)
{
    fxi_jval *v;
    FX_TRY(fxi_jrun_work(r, d->n * 8));
    FX_TRY(fxi_jrun_take(r, d->n * sizeof *v, &v));
    for (size_t i = 0; i < d->n; i++) {
        v[i] = kind == FXI_JVIEW_VALUES ? d->e[i].value : d->e[i].key;
        if (kind == FXI_JVIEW_ITEMS)
            FX_TRY(fxi_jval_make_seq(r, FXI_JVAL_TUPLE, &d->e[i].key, 2, &v[i]));
    }
    *out = (fxi_jseq){v, d->n};
    return FX_OK;
}

static fx_status numbers_of(fxi_jrun *r, const fxi_jrange *range, fxi_jseq *out)
{
    fxi_jval *v;
    FX_TRY(fxi_jrun_work(r, range->n * 8));
    FX_TRY(fxi_jrun_take(r, range->n * sizeof *v, &v));
    for (size_t i = 0; i < range->n; i++)
        v[i] = fxi_jval_int(range->start + (int64_t)i * range->step);
    *out = (fxi_jseq){v, range->n};
    return FX_OK;
}

static fx_status rest_of(fxi_jrun *r, struct fxi_jgenerator *g, fxi_jseq *out)
{
    if (g->of) return fxi_jrun_fail(r, "a %s cannot be looped over", g->of);
    *out = (fxi_jseq){g->seq.v + g->at, g->seq.n - g->at};
    g->at = g->seq.n;
    return FX_OK;
}

bool fxi_jval_is_iterable(fxi_jval v)
{
    size_t n;
    return v.type == FXI_JVAL_GENERATOR || fxi_jval_length(v, &n);
}

fx_status fxi_jval_items(fxi_jrun *r, fxi_jval v, fxi_jseq *out)
{
    *out = (fxi_jseq){0};
    switch (v.type) {
    case FXI_JVAL_UNDEFINED: return FX_OK;
    case FXI_JVAL_STR: return chars_of(r, v.s, out);
    case FXI_JVAL_LIST:
    case FXI_JVAL_TUPLE: *out = *v.seq; return FX_OK;
    case FXI_JVAL_DICT: return members_of(r, v.dict, FXI_JVIEW_KEYS, out);
    case FXI_JVAL_VIEW: return members_of(r, v.view->dict, v.view->kind, out);
    case FXI_JVAL_RANGE: return numbers_of(r, v.range, out);
    case FXI_JVAL_GENERATOR: return rest_of(r, v.gen, out);
    default: return fxi_jrun_fail(r, "a %s cannot be looped over", fxi_jval_type_name(v));
    }
}

static fx_status contains_text(fxi_jrun *r, const fxi_jstr *in, fxi_jval what, bool *out)
{
    if (what.type != FXI_JVAL_STR)
        return fxi_jrun_fail(r, "'in' a string needs a string, not a %s", fxi_jval_type_name(what));
    FX_TRY(fxi_jrun_work(r, 4 * in->n));
    *out = fxi_jstr_find(in, what.s, 0, in->n) != SIZE_MAX;
    return FX_OK;
}

fx_status fxi_jval_contains(fxi_jrun *r, fxi_jval in, fxi_jval what, bool *out)
{
    fxi_jseq items;
    *out = false;
    if (in.type == FXI_JVAL_STR) return contains_text(r, in.s, what, out);
    if (in.type == FXI_JVAL_DICT) {
        const fxi_jval *found;
        if (!fxi_jval_is_hashable(what))
            return fxi_jrun_fail(r, "a %s cannot be a key", fxi_jval_type_name(what));
        FX_TRY(fxi_jdict_lookup(r, in.dict, what, &found));
        *out = found != NULL;
        return FX_OK;
    }
    FX_TRY(fxi_jval_items(r, in, &items));
    for (size_t i = 0; !*out && i < items.n; i++) FX_TRY(fxi_jval_equal(r, items.v[i], what, out));
    return FX_OK;
}

// ---- text: numbers ------------------------------------------------------------------------------

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

// ---- text: strings ------------------------------------------------------------------------------

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

// ---- text: containers ---------------------------------------------------------------------------

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
    default: return fxi_jrun_fail(r, "a %s cannot be printed", fxi_jval_type_name(v));
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
