// jinja_access.c - attributes, items, slices and paths, as in Python.
//
// x.name looks among the methods of Python's type first, then among the items; x["key"] the other
// way round. A name in neither is undefined; only access to an undefined value fails.
#include <string.h>

#include "format/jinja/run/jinja_run.h"
#include "format/jinja/tree/jinja_str.h"

// ---- attributes and items -----------------------------------------------------------------------

static fx_status loop_attribute(fxi_jrun *r, const struct fxi_jloop *l, const fxi_jstr *name,
                                fxi_jval *out)
{
    const int64_t i = (int64_t)l->i, n = (int64_t)l->n;
    const struct {
        const char *name;
        fxi_jval v;
    } all[] = {
        {"index", fxi_jval_int(i + 1)},
        {"index0", fxi_jval_int(i)},
        {"first", fxi_jval_bool(i == 0)},
        {"last", fxi_jval_bool(i == n - 1)},
        {"length", fxi_jval_int(n)},
        {"revindex", fxi_jval_int(n - i)},
        {"revindex0", fxi_jval_int(n - i - 1)},
        {"depth", fxi_jval_int(1)}, // recursive loops are refused
        {"depth0", fxi_jval_int(0)},
        {"previtem", i ? l->v[i - 1] : fxi_jval_undefined(name)},
        {"nextitem", i + 1 < n ? l->v[i + 1] : fxi_jval_undefined(name)},
    };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        if (!fxi_jstr_is(name, all[k].name)) continue;
        *out = all[k].v;
        return FX_OK;
    }
    out->own = true; // Jinja's other members of loop are methods
    return fxi_jrun_work(r, 0);
}

static fxi_jval namespace_member(const struct fxi_jnamespace *ns, const fxi_jstr *name)
{
    for (size_t i = 0; i < ns->n; i++)
        if (!fxi_jstr_compare(ns->e[i].key.s, name)) return ns->e[i].value;
    return fxi_jval_undefined(name);
}

// A method of v's type, bound to it. *found: whether Python's type has one of this name; a method
// that the library lacks is undefined.
static fx_status method_of(fxi_jrun *r, fxi_jval v, const fxi_jstr *name, bool *found,
                           fxi_jval *out)
{
    const fxi_jroutine *row = fxi_jmethod_find(r->t->lib, v.type, name, found);
    struct fxi_jmethod *m;
    out->own = *found;
    if (!row) return FX_OK;
    FX_TRY(fxi_jrun_take(r, sizeof *m, &m));
    *m = (struct fxi_jmethod){v, row};
    *out = (fxi_jval){.type = FXI_JVAL_METHOD, .method = m};
    return FX_OK;
}

fx_status fxi_jval_attribute(fxi_jrun *r, fxi_jval v, const fxi_jstr *name, fxi_jval *out)
{
    const fxi_jval *item;
    bool found;
    FX_TRY(fxi_jval_need_defined(r, v));
    *out = fxi_jval_undefined(name);
    FX_TRY(method_of(r, v, name, &found, out));
    if (found) return FX_OK;
    if (v.type == FXI_JVAL_LOOP) return loop_attribute(r, v.loop, name, out);
    if (v.type == FXI_JVAL_NAMESPACE) *out = namespace_member(v.ns, name);
    if (v.type != FXI_JVAL_DICT) return FX_OK;
    fxi_jval key = {.type = FXI_JVAL_STR, .s = name};
    FX_TRY(fxi_jdict_lookup(r, v.dict, key, &item));
    if (item) *out = *item;
    return FX_OK;
}

static fx_status char_at(fxi_jrun *r, const fxi_jstr *s, int64_t i, fxi_jval *out)
{
    FX_TRY(fxi_jrun_work(r, s->n));
    if (i < 0) i += (int64_t)fxi_jstr_count_chars(s);
    if (i < 0) return FX_OK;
    size_t n, at = fxi_jstr_byte_of(s, (size_t)i);
    if (at >= s->n) return FX_OK;
    fxi_jstr_char_at(s, at, &n);
    return fxi_jstr_part(r, s, at, n, out);
}

static fx_status item_at(fxi_jrun *r, fxi_jval v, int64_t i, fxi_jval *out)
{
    size_t n;
    if (v.type == FXI_JVAL_STR) return char_at(r, v.s, i, out);
    if (!fxi_jval_is_seq(v) && v.type != FXI_JVAL_RANGE) return FX_OK;
    fxi_jval_length(v, &n);
    if (i < 0) i += (int64_t)n;
    if (i < 0 || i >= (int64_t)n) return FX_OK;
    *out = fxi_jval_is_seq(v) ? v.seq->v[i] : fxi_jval_int(v.range->start + i * v.range->step);
    return FX_OK;
}

fx_status fxi_jval_subscript(fxi_jrun *r, fxi_jval v, fxi_jval key, fxi_jval *out)
{
    const fxi_jval *item = NULL;
    FX_TRY(fxi_jval_need_defined(r, v));
    *out = fxi_jval_undefined(key.type == FXI_JVAL_STR ? key.s : NULL);
    if (v.type == FXI_JVAL_DICT && fxi_jval_is_hashable(key))
        FX_TRY(fxi_jdict_lookup(r, v.dict, key, &item));
    if (item) {
        *out = *item;
        return FX_OK;
    }
    if (fxi_jval_is_integer(key) && v.type != FXI_JVAL_DICT)
        return item_at(r, v, fxi_jval_to_int(key), out);
    return key.type == FXI_JVAL_STR ? fxi_jval_attribute(r, v, key.s, out) : FX_OK;
}

// ---- slices -------------------------------------------------------------------------------------

typedef struct slice_bounds {
    int64_t start, stop, step;
    size_t n; // items
} slice_bounds;

static int64_t bound_of(fxi_jval v, int64_t preset)
{
    return v.type == FXI_JVAL_NONE ? preset : fxi_jval_to_int(v);
}

static int64_t clamp_bound(int64_t i, int64_t n, int64_t least, int64_t most)
{
    if (i < 0) i += n;
    return i < least ? least : i > most ? most : i;
}

// Python's rules: negative bounds count from the end, all are clamped to the length.
static fx_status make_slice(fxi_jrun *r, const fxi_jval bound[3], size_t length, slice_bounds *out)
{
    const int64_t n = (int64_t)length;
    int64_t step = bound_of(bound[2], 1);
    if (!step) return fxi_jrun_fail(r, "a slice's step is 0");
    if (step < -INT64_MAX) step = -INT64_MAX;
    int64_t start = bound_of(bound[0], step > 0 ? 0 : INT64_MAX);
    int64_t stop = bound_of(bound[1], step > 0 ? INT64_MAX : INT64_MIN);
    int64_t least = step > 0 ? 0 : -1, most = step > 0 ? n : n - 1;
    start = clamp_bound(start, n, least, most);
    stop = stop == INT64_MIN ? least : clamp_bound(stop, n, least, most);
    uint64_t width = step > 0 ? (stop > start ? (uint64_t)(stop - start) : 0)
                              : (start > stop ? (uint64_t)(start - stop) : 0);
    uint64_t stride = step > 0 ? (uint64_t)step : (uint64_t)-step;
    *out = (slice_bounds){start, stop, step, (size_t)((width + stride - 1) / stride)};
    if (width == 0) out->n = 0;
    return FX_OK;
}

static fx_status slice_seq(fxi_jrun *r, fxi_jval v, const slice_bounds *s, fxi_jval *out)
{
    fxi_jval *items;
    if (s->step == 1) return fxi_jval_make_seq(r, v.type, v.seq->v + s->start, s->n, out);
    FX_TRY(fxi_jrun_work(r, s->n * 16));
    FX_TRY(fxi_jrun_take(r, s->n * sizeof *items, &items));
    for (size_t i = 0; i < s->n; i++) items[i] = v.seq->v[s->start + (int64_t)i * s->step];
    return fxi_jval_make_seq(r, v.type, items, s->n, out);
}

static fx_status slice_str(fxi_jrun *r, const fxi_jstr *str, const slice_bounds *s, fxi_jval *out)
{
    FX_TRY(fxi_jrun_work(r, 2 * str->n));
    if (s->step == 1) {
        size_t from = fxi_jstr_byte_of(str, (size_t)s->start);
        fxi_jstr rest = {.p = str->p + from, .n = str->n - from};
        return fxi_jstr_part(r, str, from, fxi_jstr_byte_of(&rest, s->n), out);
    }
    fxi_jval all = {.type = FXI_JVAL_STR, .s = str};
    fxi_jseq chars;
    fxi_jout o = {0};
    FX_TRY(fxi_jval_items(r, all, &chars));
    for (size_t i = 0; i < s->n; i++)
        FX_TRY(fxi_jout_add(r, &o, chars.v[s->start + (int64_t)i * s->step].s));
    return fxi_jout_finish(r, &o, out);
}

static fx_status slice_range(fxi_jrun *r, const fxi_jrange *of, const slice_bounds *s,
                             fxi_jval *out)
{
    fxi_jrange *range;
    FX_TRY(fxi_jrun_take(r, sizeof *range, &range));
    *range = (fxi_jrange){.n = s->n};
    if (__builtin_mul_overflow(of->step, s->step, &range->step) ||
        __builtin_mul_overflow(of->step, s->start, &range->start) ||
        __builtin_add_overflow(of->start, range->start, &range->start) ||
        __builtin_mul_overflow(of->step, s->stop, &range->stop) ||
        __builtin_add_overflow(of->start, range->stop, &range->stop))
        return fxi_jrun_fail(r, "a number is too large");
    *out = (fxi_jval){.type = FXI_JVAL_RANGE, .range = range};
    return FX_OK;
}

fx_status fxi_jval_slice(fxi_jrun *r, fxi_jval v, const fxi_jval bound[3], fxi_jval *out)
{
    size_t n;
    slice_bounds s = {0};
    FX_TRY(fxi_jval_need_defined(r, v));
    if (v.type != FXI_JVAL_STR && v.type != FXI_JVAL_RANGE && !fxi_jval_is_seq(v))
        return fxi_jrun_fail(r, "a %s cannot be sliced", fxi_jval_type_name(v));
    for (int i = 0; i < 3; i++)
        if (bound[i].type != FXI_JVAL_NONE && !fxi_jval_is_integer(bound[i]))
            return fxi_jrun_fail(r, "a slice by a %s", fxi_jval_type_name(bound[i]));
    fxi_jval_length(v, &n);
    FX_TRY(make_slice(r, bound, n, &s));
    if (v.type == FXI_JVAL_RANGE) return slice_range(r, v.range, &s, out);
    return v.type == FXI_JVAL_STR ? slice_str(r, v.s, &s, out) : slice_seq(r, v, &s, out);
}

// ---- paths --------------------------------------------------------------------------------------

static bool read_index(const fxi_jstr *s, int64_t *out)
{
    if (!s->n || s->n > 9) return false;
    *out = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (s->p[i] < '0' || s->p[i] > '9') return false;
        *out = *out * 10 + (s->p[i] - '0');
    }
    return true;
}

// One part of a path.
static fx_status take_step(fxi_jrun *r, fxi_jval v, fxi_jval key, fxi_jval preset, fxi_jval *out)
{
    FX_TRY(fxi_jval_subscript(r, v, key, out));
    if (out->type == FXI_JVAL_UNDEFINED && preset.type != FXI_JVAL_NONE) *out = preset;
    return FX_OK;
}

fx_status fxi_jval_path_or(fxi_jrun *r, fxi_jval v, fxi_jval path, fxi_jval preset, fxi_jval *out)
{
    *out = v;
    if (path.type != FXI_JVAL_STR) return take_step(r, v, path, preset, out);
    for (size_t from = 0; from <= path.s->n;) {
        fxi_jval part;
        const char *dot = memchr(path.s->p + from, '.', path.s->n - from);
        size_t to = dot ? (size_t)(dot - path.s->p) : path.s->n;
        FX_TRY(fxi_jstr_part(r, path.s, from, to - from, &part));
        int64_t i;
        if (read_index(part.s, &i)) part = fxi_jval_int(i);
        FX_TRY(take_step(r, *out, part, preset, out));
        from = to + 1;
    }
    return FX_OK;
}

fx_status fxi_jval_path(fxi_jrun *r, fxi_jval v, fxi_jval path, fxi_jval *out)
{
    return fxi_jval_path_or(r, v, path, fxi_jval_none(), out);
}
