// jinja_operators.c - operators, attributes, items, slices and paths, as in Python.
//
// x.name looks among the methods of Python's type first, then among the items; x["key"] the other
// way round. A name in neither is undefined; only access to an undefined value fails.
#include <math.h>
#include <string.h>

#include "base/text/utf8.h"
#include "format/jinja/jinja_run.h"

static const char *const op_names[] = {
    [FXI_JOP_ADD] = "+",         [FXI_JOP_SUB] = "-",       [FXI_JOP_MUL] = "*",
    [FXI_JOP_DIV] = "/",         [FXI_JOP_FLOORDIV] = "//", [FXI_JOP_MOD] = "%",
    [FXI_JOP_POW] = "**",        [FXI_JOP_CONCAT] = "~",    [FXI_JOP_EQ] = "==",
    [FXI_JOP_NE] = "!=",         [FXI_JOP_LT] = "<",        [FXI_JOP_LE] = "<=",
    [FXI_JOP_GT] = ">",          [FXI_JOP_GE] = ">=",       [FXI_JOP_IN] = "in",
    [FXI_JOP_NOT_IN] = "not in",
};

// ---- numbers ------------------------------------------------------------------------------------

static fx_status fail_too_large(fxi_jrun *r)
{
    return fxi_jrun_fail(r, "a number is too large");
}

// Rounds towards minus infinity.
static fx_status divide_ints(fxi_jrun *r, fxi_jop op, int64_t a, int64_t b, int64_t *out)
{
    if (!b) return fxi_jrun_fail(r, "division by zero");
    if (a == INT64_MIN && b == -1) return fail_too_large(r);
    int64_t q = a / b, rest = a % b;
    if (rest && (rest < 0) != (b < 0)) {
        rest += b;
        q--;
    }
    *out = op == FXI_JOP_MOD ? rest : q;
    return FX_OK;
}

static fx_status int_arithmetic(fxi_jrun *r, fxi_jop op, int64_t a, int64_t b, int64_t *out)
{
    bool over = false;
    if (op == FXI_JOP_FLOORDIV || op == FXI_JOP_MOD) return divide_ints(r, op, a, b, out);
    if (op == FXI_JOP_ADD) over = __builtin_add_overflow(a, b, out);
    if (op == FXI_JOP_SUB) over = __builtin_sub_overflow(a, b, out);
    if (op == FXI_JOP_MUL) over = __builtin_mul_overflow(a, b, out);
    if (op == FXI_JOP_POW) {
        *out = 1;
        for (; b && !over; b >>= 1) {
            if (b & 1) over = __builtin_mul_overflow(*out, a, out);
            if (b > 1) over |= __builtin_mul_overflow(a, a, &a);
        }
    }
    return over ? fail_too_large(r) : FX_OK;
}

static double float_mod(double a, double b)
{
    double m = fmod(a, b);
    if (m == 0) return copysign(0, b);
    return (m < 0) != (b < 0) ? m + b : m;
}

// As Python computes it, from the remainder, so that (a // b) * b + a % b is near a.
static double float_floordiv(double a, double b)
{
    double m = fmod(a, b), q = (a - m) / b;
    if (m != 0 && (m < 0) != (b < 0)) q -= 1;
    if (q == 0) return copysign(0, a / b);
    double whole = floor(q);
    return q - whole > 0.5 ? whole + 1 : whole;
}

static fx_status float_arithmetic(fxi_jrun *r, fxi_jop op, double a, double b, double *out)
{
    bool divides = op == FXI_JOP_DIV || op == FXI_JOP_FLOORDIV || op == FXI_JOP_MOD;
    if ((divides && b == 0) || (op == FXI_JOP_POW && a == 0 && b < 0))
        return fxi_jrun_fail(r, "division by zero");
    if (op == FXI_JOP_POW && a < 0 && b != floor(b))
        return fxi_jrun_fail(r, "a root of a negative number");
    *out = op == FXI_JOP_ADD        ? a + b
           : op == FXI_JOP_SUB      ? a - b
           : op == FXI_JOP_MUL      ? a * b
           : op == FXI_JOP_DIV      ? a / b
           : op == FXI_JOP_MOD      ? float_mod(a, b)
           : op == FXI_JOP_FLOORDIV ? float_floordiv(a, b)
                                    : pow(a, b);
    if (op == FXI_JOP_POW && isinf(*out) && !isinf(a) && !isinf(b)) return fail_too_large(r);
    return FX_OK;
}

static fx_status number_arithmetic(fxi_jrun *r, fxi_jop op, fxi_jval a, fxi_jval b, fxi_jval *out)
{
    bool whole = fxi_jval_is_integer(a) && fxi_jval_is_integer(b) && op != FXI_JOP_DIV;
    if (whole && op == FXI_JOP_POW && fxi_jval_to_int(b) < 0) whole = false;
    *out = whole ? fxi_jval_int(0) : fxi_jval_float(0);
    out->own = a.own && b.own;
    if (whole) return int_arithmetic(r, op, fxi_jval_to_int(a), fxi_jval_to_int(b), &out->i);
    return float_arithmetic(r, op, fxi_jval_to_float(a), fxi_jval_to_float(b), &out->f);
}

fx_status fxi_jop_sign(fxi_jrun *r, char sign, fxi_jval a, fxi_jval *out)
{
    FX_TRY(fxi_jval_need_defined(r, a));
    if (!fxi_jval_is_number(a))
        return fxi_jrun_fail(r, "'%c' cannot be applied to a %s", sign, fxi_jval_type_name(a));
    fxi_jval zero = a.type == FXI_JVAL_FLOAT ? fxi_jval_float(-0.0) : fxi_jval_int(0);
    if (sign == '-') return number_arithmetic(r, FXI_JOP_SUB, zero, a, out);
    *out = a.type == FXI_JVAL_BOOL ? fxi_jval_int(a.b) : a;
    return FX_OK;
}

// ---- strings and lists --------------------------------------------------------------------------

static fx_status join_seqs(fxi_jrun *r, fxi_jval a, fxi_jval b, fxi_jval *out)
{
    fxi_jval *v;
    const size_t n = a.seq->n + b.seq->n;
    FX_TRY(fxi_jrun_work(r, n * 16));
    FX_TRY(fxi_jrun_take(r, n * sizeof *v, &v));
    if (a.seq->n) memcpy(v, a.seq->v, a.seq->n * sizeof *v);
    if (b.seq->n) memcpy(v + a.seq->n, b.seq->v, b.seq->n * sizeof *v);
    return fxi_jval_make_seq(r, a.type, v, n, out);
}

static fx_status repeat_value(fxi_jrun *r, fxi_jval what, int64_t count, fxi_jval *out)
{
    const size_t times = count < 0 ? 0 : (size_t)count;
    if (what.type == FXI_JVAL_STR) {
        fxi_jout o = {0};
        for (size_t i = 0; i < times && what.s->n; i++) FX_TRY(fxi_jout_add(r, &o, what.s));
        return fxi_jout_finish(r, &o, out);
    }
    const size_t n = what.seq->n;
    size_t n_bytes;
    fxi_jval *v;
    if (__builtin_mul_overflow(n * sizeof *v, times, &n_bytes))
        return fxi_jrun_fail(r, "a list is too long");
    FX_TRY(fxi_jrun_work(r, n_bytes));
    FX_TRY(fxi_jrun_take(r, n_bytes, &v));
    for (size_t i = 0; n && i < times; i++) memcpy(v + i * n, what.seq->v, n * sizeof *v);
    return fxi_jval_make_seq(r, what.type, v, n * times, out);
}

// Whether a * b repeats a.
static bool repeats_first(fxi_jval a, fxi_jval b)
{
    return (fxi_jval_is_seq(a) || a.type == FXI_JVAL_STR) && fxi_jval_is_integer(b);
}

fx_status fxi_jop_binary(fxi_jrun *r, fxi_jop op, fxi_jval a, fxi_jval b, fxi_jval *out)
{
    if (op == FXI_JOP_CONCAT) {
        FX_TRY(fxi_jval_to_str(r, a, &a.s));
        FX_TRY(fxi_jval_to_str(r, b, &b.s));
        return fxi_jstr_concat(r, a.s, b.s, out);
    }
    if (fxi_jval_is_number(a) && fxi_jval_is_number(b)) return number_arithmetic(r, op, a, b, out);
    if (op == FXI_JOP_ADD && a.type == FXI_JVAL_STR && b.type == FXI_JVAL_STR)
        return fxi_jstr_concat(r, a.s, b.s, out);
    if (op == FXI_JOP_ADD && a.type == b.type && fxi_jval_is_seq(a)) return join_seqs(r, a, b, out);
    if (op == FXI_JOP_MUL && repeats_first(a, b))
        return repeat_value(r, a, fxi_jval_to_int(b), out);
    if (op == FXI_JOP_MUL && repeats_first(b, a))
        return repeat_value(r, b, fxi_jval_to_int(a), out);
    FX_TRY(fxi_jval_need_defined(r, a));
    FX_TRY(fxi_jval_need_defined(r, b));
    return fxi_jrun_fail(r, "'%s' is not supported between %s and %s", op_names[op],
                         fxi_jval_type_name(a), fxi_jval_type_name(b));
}

fx_status fxi_jop_compare(fxi_jrun *r, fxi_jop op, fxi_jval a, fxi_jval b, bool *out)
{
    int c;
    if (op == FXI_JOP_IN || op == FXI_JOP_NOT_IN) {
        FX_TRY(fxi_jval_contains(r, b, a, out));
        *out ^= op == FXI_JOP_NOT_IN;
        return FX_OK;
    }
    if (op == FXI_JOP_EQ || op == FXI_JOP_NE) {
        FX_TRY(fxi_jval_equal(r, a, b, out));
        *out ^= op == FXI_JOP_NE;
        return FX_OK;
    }
    FX_TRY(fxi_jval_compare(r, a, b, op_names[op], &c));
    bool nan = (a.type == FXI_JVAL_FLOAT && isnan(a.f)) || (b.type == FXI_JVAL_FLOAT && isnan(b.f));
    *out = !nan && (op == FXI_JOP_LT   ? c < 0
                    : op == FXI_JOP_LE ? c <= 0
                    : op == FXI_JOP_GT ? c > 0
                                       : c >= 0);
    return FX_OK;
}

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

fx_status fxi_jval_attribute(fxi_jrun *r, fxi_jval v, const fxi_jstr *name, fxi_jval *out)
{
    const fxi_jval *item = NULL;
    bool is_method;
    FX_TRY(fxi_jval_need_defined(r, v));
    *out = fxi_jval_undefined(name);
    const fxi_jroutine *row = fxi_jmethod_find(r->t->lib, v.type, name, &is_method);
    out->own = is_method;
    if (row) {
        struct fxi_jmethod *m;
        FX_TRY(fxi_jrun_take(r, sizeof *m, &m));
        *m = (struct fxi_jmethod){v, row};
        *out = (fxi_jval){.type = FXI_JVAL_METHOD, .method = m};
    }
    if (is_method) return FX_OK;
    if (v.type == FXI_JVAL_LOOP) return loop_attribute(r, v.loop, name, out);
    if (v.type == FXI_JVAL_NAMESPACE) item = fxi_jnamespace_find(v.ns, name);
    if (v.type == FXI_JVAL_DICT) FX_TRY(fxi_jdict_lookup(r, v.dict, fxi_jval_str(name), &item));
    if (item) *out = *item;
    return FX_OK;
}

// Item i of a string, sequence or range; *out stays where there is none.
static fx_status item_at(fxi_jrun *r, fxi_jval v, int64_t i, fxi_jval *out)
{
    size_t n;
    if (v.type == FXI_JVAL_STR) FX_TRY(fxi_jrun_work(r, v.s->n));
    if ((v.type != FXI_JVAL_STR && v.type != FXI_JVAL_RANGE && !fxi_jval_is_seq(v)) ||
        !fxi_jval_length(v, &n))
        return FX_OK;
    if (i < 0) i += (int64_t)n;
    if (i < 0 || i >= (int64_t)n) return FX_OK;
    if (v.type == FXI_JVAL_STR) {
        const size_t at = fxi_jstr_byte_of(v.s, (size_t)i);
        fxi_jstr_char_at(v.s, at, &n);
        return fxi_jstr_part(r, v.s, at, n, out);
    }
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
    if (item)
        *out = *item;
    else if (fxi_jval_is_integer(key) && v.type != FXI_JVAL_DICT)
        return item_at(r, v, fxi_jval_to_int(key), out);
    else if (key.type == FXI_JVAL_STR)
        return fxi_jval_attribute(r, v, key.s, out);
    return FX_OK;
}

// ---- slices -------------------------------------------------------------------------------------

typedef struct slice_bounds {
    int64_t start, stop, step;
    size_t n; // items
} slice_bounds;

static int64_t clamp_bound(int64_t i, int64_t n, int64_t least, int64_t most)
{
    if (i < 0) i += n;
    return i < least ? least : i > most ? most : i;
}

// Python's rules: negative bounds count from the end, all are clamped to the length.
static fx_status make_slice(fxi_jrun *r, const fxi_jval bound[3], size_t length, slice_bounds *out)
{
    const int64_t n = (int64_t)length;
    int64_t given[3];
    for (int i = 0; i < 3; i++) {
        if (bound[i].type != FXI_JVAL_NONE && !fxi_jval_is_integer(bound[i]))
            return fxi_jrun_fail(r, "a slice's bound is a %s", fxi_jval_type_name(bound[i]));
        given[i] = bound[i].type == FXI_JVAL_NONE ? 0 : fxi_jval_to_int(bound[i]);
    }
    int64_t step = bound[2].type == FXI_JVAL_NONE ? 1 : given[2];
    if (!step) return fxi_jrun_fail(r, "a slice's step must not be 0");
    if (step < -INT64_MAX) step = -INT64_MAX;
    const int64_t least = step > 0 ? 0 : -1, most = step > 0 ? n : n - 1;
    const int64_t start = bound[0].type == FXI_JVAL_NONE ? (step > 0 ? least : most)
                                                         : clamp_bound(given[0], n, least, most);
    const int64_t stop = bound[1].type == FXI_JVAL_NONE ? (step > 0 ? most : least)
                                                        : clamp_bound(given[1], n, least, most);
    const int64_t width = step > 0 ? stop - start : start - stop;
    const uint64_t stride = (uint64_t)(step > 0 ? step : -step);
    *out =
        (slice_bounds){start, stop, step, width > 0 ? ((uint64_t)width + stride - 1) / stride : 0};
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
    fxi_jseq chars;
    fxi_jout o = {0};
    FX_TRY(fxi_jval_items(r, fxi_jval_str(str), &chars));
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
    fxi_jval_length(v, &n);
    FX_TRY(make_slice(r, bound, n, &s));
    if (v.type == FXI_JVAL_RANGE) return slice_range(r, v.range, &s, out);
    return v.type == FXI_JVAL_STR ? slice_str(r, v.s, &s, out) : slice_seq(r, v, &s, out);
}

// ---- paths --------------------------------------------------------------------------------------

// Text of up to nine digits is an index.
static fxi_jval path_key(fxi_jval part)
{
    int64_t i = 0;
    if (!part.s->n || part.s->n > 9) return part;
    for (size_t k = 0; k < part.s->n; k++) {
        if (part.s->p[k] < '0' || part.s->p[k] > '9') return part;
        i = i * 10 + (part.s->p[k] - '0');
    }
    return fxi_jval_int(i);
}

fx_status fxi_jval_path(fxi_jrun *r, fxi_jval v, fxi_jval path, fxi_jval preset, fxi_jval *out)
{
    const bool is_text = path.type == FXI_JVAL_STR;
    *out = v;
    for (size_t from = 0, to; from <= (is_text ? path.s->n : 0); from = to + 1) {
        fxi_jval key = path;
        const char *dot = is_text ? memchr(path.s->p + from, '.', path.s->n - from) : NULL;
        to = dot ? (size_t)(dot - path.s->p) : is_text ? path.s->n : 0;
        if (is_text) {
            FX_TRY(fxi_jstr_part(r, path.s, from, to - from, &key));
            key = path_key(key);
        }
        FX_TRY(fxi_jval_subscript(r, *out, key, out));
        if (out->type == FXI_JVAL_UNDEFINED && preset.type != FXI_JVAL_NONE) *out = preset;
    }
    return FX_OK;
}
