// jinja_values.c - what values are, as in Python: truth, equality, order, members, dictionaries.
#include <math.h>
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

// Of values of one type, and neither numbers.
static fx_status equal_members(fxi_jrun *r, fxi_jval a, fxi_jval b, bool *out)
{
    switch (a.type) {
    case FXI_JVAL_UNDEFINED:
    case FXI_JVAL_NONE: *out = true; return FX_OK;
    case FXI_JVAL_STR:
        *out = a.s->n == b.s->n && !memcmp(a.s->p, b.s->p, a.s->n);
        return fxi_jrun_work(r, a.s->n == b.s->n ? a.s->n : 0);
    case FXI_JVAL_LIST:
    case FXI_JVAL_TUPLE:
        *out = a.seq->n == b.seq->n;
        for (size_t i = 0; *out && i < a.seq->n; i++)
            FX_TRY(fxi_jval_equal(r, a.seq->v[i], b.seq->v[i], out));
        return FX_OK;
    case FXI_JVAL_DICT:
        *out = a.dict->n == b.dict->n;
        for (size_t i = 0; *out && i < a.dict->n; i++) {
            const fxi_jval *other;
            FX_TRY(fxi_jdict_lookup(r, b.dict, a.dict->e[i].key, &other));
            *out = other != NULL;
            if (other) FX_TRY(fxi_jval_equal(r, a.dict->e[i].value, *other, out));
        }
        return FX_OK;
    case FXI_JVAL_RANGE:
        *out = a.range->n == b.range->n && (!a.range->n || a.range->start == b.range->start) &&
               (a.range->n < 2 || a.range->step == b.range->step);
        return FX_OK;
    default: *out = a.seq == b.seq; return FX_OK; // identity
    }
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
    FX_TRY(equal_members(r, a, b, out));
    fxi_jrun_leave(r);
    return FX_OK;
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
    if (a.type == b.type && fxi_jval_is_seq(a)) {
        FX_TRY(fxi_jrun_enter(r));
        FX_TRY(compare_seqs(r, a.seq, b.seq, op, out));
        fxi_jrun_leave(r);
        return FX_OK;
    }
    return fxi_jrun_fail(r, "'%s' is not supported between %s and %s", op, fxi_jval_type_name(a),
                         fxi_jval_type_name(b));
}

// ---- dictionaries -------------------------------------------------------------------------------

bool fxi_jval_is_hashable(fxi_jval v)
{
    if (v.type == FXI_JVAL_TUPLE)
        for (size_t i = 0; i < v.seq->n; i++)
            if (!fxi_jval_is_hashable(v.seq->v[i])) return false;
    return v.type != FXI_JVAL_LIST && v.type != FXI_JVAL_DICT && v.type != FXI_JVAL_VIEW;
}

// The dictionaries of templates and messages have few members.
fx_status fxi_jdict_lookup(fxi_jrun *r, const fxi_jdict *d, fxi_jval key, const fxi_jval **out)
{
    *out = NULL;
    for (size_t i = 0; i < d->n && !*out; i++) {
        const fxi_jpair *e = &d->e[i];
        bool same = false;
        if (key.type != FXI_JVAL_STR)
            FX_TRY(fxi_jval_equal(r, e->key, key, &same));
        else if (e->key.type == FXI_JVAL_STR)
            same = !fxi_jstr_compare(e->key.s, key.s);
        if (same) *out = &e->value;
    }
    return fxi_jrun_work(r, 4 * d->n);
}

fx_status fxi_jdict_make(fxi_jrun *r, const fxi_jpair *e, size_t n, fxi_jval *out)
{
    fxi_jdict *d;
    FX_TRY(fxi_jrun_take(r, sizeof *d, &d));
    *d = (fxi_jdict){.e = e, .n = n};
    *out = (fxi_jval){.type = FXI_JVAL_DICT, .dict = d};
    return FX_OK;
}

// Only a template's own {..} can have equal keys, so there are few.
fx_status fxi_jdict_merge(fxi_jrun *r, fxi_jpair *e, size_t n, fxi_jval *out)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        FX_TRY(fxi_jval_need_defined(r, e[i].key));
        if (!fxi_jval_is_hashable(e[i].key))
            return fxi_jrun_fail(r, "a %s cannot be a key", fxi_jval_type_name(e[i].key));
        size_t k = 0;
        bool same = false;
        for (; k < kept && !same; k += !same) FX_TRY(fxi_jval_equal(r, e[k].key, e[i].key, &same));
        if (same)
            e[k].value = e[i].value;
        else
            e[kept++] = e[i];
    }
    return fxi_jdict_make(r, e, kept, out);
}

fxi_jval *fxi_jnamespace_find(const struct fxi_jnamespace *ns, const fxi_jstr *name)
{
    for (size_t i = 0; i < ns->n; i++)
        if (!fxi_jstr_compare(ns->e[i].key.s, name)) return &ns->e[i].value;
    return NULL;
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

bool fxi_jval_is_iterable(fxi_jval v)
{
    size_t n;
    return v.type == FXI_JVAL_GENERATOR || fxi_jval_length(v, &n);
}

fx_status fxi_jval_items(fxi_jrun *r, fxi_jval v, fxi_jseq *out)
{
    size_t n = 0;
    fxi_jval *items;
    *out = (fxi_jseq){0};
    if (fxi_jval_is_seq(v)) *out = *v.seq;
    if (fxi_jval_is_seq(v) || v.type == FXI_JVAL_UNDEFINED) return FX_OK;
    if (v.type == FXI_JVAL_GENERATOR) {
        struct fxi_jgenerator *g = v.gen;
        if (g->of) return fxi_jrun_fail(r, "a %s cannot be looped over", g->of);
        *out = (fxi_jseq){g->seq.v + g->at, g->seq.n - g->at};
        g->at = g->seq.n;
        return FX_OK;
    }
    if (v.type == FXI_JVAL_LOOP || !fxi_jval_length(v, &n))
        return fxi_jrun_fail(r, "a %s cannot be looped over", fxi_jval_type_name(v));
    FX_TRY(fxi_jrun_work(r, (v.type == FXI_JVAL_STR ? v.s->n : n) * 8));
    FX_TRY(fxi_jrun_take(r, n * sizeof *items, &items));
    const fxi_jdict *d = v.type == FXI_JVAL_VIEW ? v.view->dict : v.dict;
    for (size_t i = 0, at = 0, len; i < n; i++, at += len) {
        len = 0;
        if (v.type == FXI_JVAL_STR) {
            fxi_jstr_char_at(v.s, at, &len);
            FX_TRY(fxi_jstr_part(r, v.s, at, len, &items[i]));
        } else if (v.type == FXI_JVAL_RANGE) {
            items[i] = fxi_jval_int(v.range->start + (int64_t)i * v.range->step);
        } else if (v.type == FXI_JVAL_VIEW && v.view->kind == FXI_JVIEW_ITEMS) {
            FX_TRY(fxi_jval_make_seq(r, FXI_JVAL_TUPLE, &d->e[i].key, 2, &items[i]));
        } else {
            bool value = v.type == FXI_JVAL_VIEW && v.view->kind == FXI_JVIEW_VALUES;
            items[i] = value ? d->e[i].value : d->e[i].key;
        }
    }
    *out = (fxi_jseq){items, n};
    return FX_OK;
}

fx_status fxi_jval_contains(fxi_jrun *r, fxi_jval in, fxi_jval what, bool *out)
{
    fxi_jseq items;
    *out = false;
    if (in.type == FXI_JVAL_STR) {
        if (what.type != FXI_JVAL_STR)
            return fxi_jrun_fail(r, "'in' a string needs a string, not a %s",
                                 fxi_jval_type_name(what));
        FX_TRY(fxi_jrun_work(r, 4 * in.s->n));
        *out = fxi_jstr_find(in.s, what.s, 0, in.s->n) != SIZE_MAX;
        return FX_OK;
    }
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
