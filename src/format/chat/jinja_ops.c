// jinja_ops.c - operators, attributes, items and slices, as in Python.
//
// An attribute of a value is looked for among Python's methods of its type first, then among its
// items; x["key"] the other way round. What is found in neither is undefined, and only undefined
// values fail when they are asked for more.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/chat/jinja_impl.h"

static const char *const op_names[FXI_J_N_OP] = {
    [FXI_J_ADD] = "+",       [FXI_J_SUB] = "-", [FXI_J_MUL] = "*",  [FXI_J_DIV] = "/",
    [FXI_J_FLOORDIV] = "//", [FXI_J_MOD] = "%", [FXI_J_POW] = "**", [FXI_J_CONCAT] = "~",
    [FXI_J_EQ] = "==",       [FXI_J_NE] = "!=", [FXI_J_LT] = "<",   [FXI_J_LE] = "<=",
    [FXI_J_GT] = ">",        [FXI_J_GE] = ">=", [FXI_J_IN] = "in",  [FXI_J_NOT_IN] = "not in",
};

static fx_status no_such(fxi_jrun *r, fxi_jop op, fxi_jval a, fxi_jval b)
{
    FX_TRY(fxi_j_defined(r, a));
    FX_TRY(fxi_j_defined(r, b));
    return fxi_j_fail(r, "'%s' is not supported between %s and %s", op_names[op],
                      fxi_j_type_name(a), fxi_j_type_name(b));
}

// ---- numbers ------------------------------------------------------------------------------------

static fx_status too_large(fxi_jrun *r)
{
    return fxi_j_fail(r, "a number is too large");
}

static fx_status int_floordiv(fxi_jrun *r, int64_t a, int64_t b, int64_t *q, int64_t *rest)
{
    if (!b) return fxi_j_fail(r, "division by zero");
    if (a == INT64_MIN && b == -1) return too_large(r);
    *q = a / b;
    *rest = a % b;
    if (*rest && (*rest < 0) != (b < 0)) {
        *rest += b;
        --*q;
    }
    return FX_OK;
}

static fx_status int_pow(fxi_jrun *r, int64_t base, int64_t exponent, int64_t *out)
{
    int64_t x = 1;
    for (; exponent; exponent >>= 1) {
        if (exponent & 1 && __builtin_mul_overflow(x, base, &x)) return too_large(r);
        if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) return too_large(r);
    }
    *out = x;
    return FX_OK;
}

static fx_status int_arithmetic(fxi_jrun *r, fxi_jop op, int64_t a, int64_t b, int64_t *out)
{
    int64_t other;
    bool over = false;
    if (op == FXI_J_FLOORDIV) return int_floordiv(r, a, b, out, &other);
    if (op == FXI_J_MOD) return int_floordiv(r, a, b, &other, out);
    if (op == FXI_J_POW) return int_pow(r, a, b, out);
    if (op == FXI_J_ADD) over = __builtin_add_overflow(a, b, out);
    if (op == FXI_J_SUB) over = __builtin_sub_overflow(a, b, out);
    if (op == FXI_J_MUL) over = __builtin_mul_overflow(a, b, out);
    return over ? too_large(r) : FX_OK;
}

static double float_mod(double a, double b)
{
    double m = fmod(a, b);
    if (m == 0) return copysign(0, b);
    return (m < 0) != (b < 0) ? m + b : m;
}

// As Python has it: from the remainder, so that (a // b) * b + a % b is near a.
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
    bool divides = op == FXI_J_DIV || op == FXI_J_FLOORDIV || op == FXI_J_MOD;
    if ((divides && b == 0) || (op == FXI_J_POW && a == 0 && b < 0))
        return fxi_j_fail(r, "division by zero");
    if (op == FXI_J_POW && a < 0 && b != floor(b)) return fxi_j_fail(r, "a root of a negative");
    *out = op == FXI_J_ADD        ? a + b
           : op == FXI_J_SUB      ? a - b
           : op == FXI_J_MUL      ? a * b
           : op == FXI_J_DIV      ? a / b
           : op == FXI_J_MOD      ? float_mod(a, b)
           : op == FXI_J_FLOORDIV ? float_floordiv(a, b)
                                  : pow(a, b);
    if (op == FXI_J_POW && isinf(*out) && !isinf(a) && !isinf(b)) return too_large(r);
    return FX_OK;
}

static fx_status arithmetic(fxi_jrun *r, fxi_jop op, fxi_jval a, fxi_jval b, fxi_jval *out)
{
    bool whole = fxi_j_is_integer(a) && fxi_j_is_integer(b) && op != FXI_J_DIV;
    if (whole && op == FXI_J_POW && fxi_j_int_of(b) < 0) whole = false;
    *out = whole ? fxi_j_int(0) : fxi_j_float(0);
    out->own = a.own && b.own;
    if (whole) return int_arithmetic(r, op, fxi_j_int_of(a), fxi_j_int_of(b), &out->i);
    return float_arithmetic(r, op, fxi_j_float_of(a), fxi_j_float_of(b), &out->f);
}

fx_status fxi_j_negate(fxi_jrun *r, fxi_jval a, fxi_jval *out)
{
    FX_TRY(fxi_j_defined(r, a));
    if (!fxi_j_is_number(a)) return fxi_j_fail(r, "'-' in front of a %s", fxi_j_type_name(a));
    fxi_jval zero = a.type == FXI_J_FLOAT ? fxi_j_float(-0.0) : fxi_j_int(0);
    return arithmetic(r, FXI_J_SUB, zero, a, out);
}

fx_status fxi_j_plus(fxi_jrun *r, fxi_jval a, fxi_jval *out)
{
    FX_TRY(fxi_j_defined(r, a));
    if (!fxi_j_is_number(a)) return fxi_j_fail(r, "'+' in front of a %s", fxi_j_type_name(a));
    *out = a.type == FXI_J_BOOL ? fxi_j_int(a.b) : a;
    return FX_OK;
}

// ---- strings and lists --------------------------------------------------------------------------

static bool is_seq(fxi_jval v)
{
    return v.type == FXI_J_LIST || v.type == FXI_J_TUPLE;
}

static fx_status concat(fxi_jrun *r, fxi_jval a, fxi_jval b, fxi_jval *out)
{
    const fxi_jstr *sa, *sb;
    FX_TRY(fxi_j_to_str(r, a, &sa));
    FX_TRY(fxi_j_to_str(r, b, &sb));
    return fxi_j_concat(r, sa, sb, out);
}

static fx_status join_seqs(fxi_jrun *r, fxi_jval a, fxi_jval b, fxi_jval *out)
{
    fxi_jval *v;
    const size_t n = a.seq->n + b.seq->n;
    FX_TRY(fxi_j_work(r, n * 16));
    FX_TRY(fxi_j_take(r, n * sizeof *v, &v));
    if (a.seq->n) memcpy(v, a.seq->v, a.seq->n * sizeof *v);
    if (b.seq->n) memcpy(v + a.seq->n, b.seq->v, b.seq->n * sizeof *v);
    return fxi_j_seq(r, a.type, v, n, out);
}

static fx_status repeat_str(fxi_jrun *r, const fxi_jstr *s, size_t times, fxi_jval *out)
{
    fxi_jout o = {0};
    for (size_t i = 0; i < times && s->n; i++) FX_TRY(fxi_jout_add(r, &o, s));
    return fxi_jout_done(r, &o, out);
}

static fx_status repeat_seq(fxi_jrun *r, fxi_jval s, size_t times, fxi_jval *out)
{
    FX_TRY(fxi_j_seq(r, s.type, NULL, 0, out));
    const size_t n = s.seq->n;
    size_t n_bytes;
    if (__builtin_mul_overflow(n * sizeof(fxi_jval), times, &n_bytes))
        return fxi_j_fail(r, "a list is too long");
    fxi_jval *v;
    if (!n_bytes) return FX_OK;
    FX_TRY(fxi_j_work(r, n_bytes));
    FX_TRY(fxi_j_take(r, n_bytes, &v));
    for (size_t i = 0; i < times; i++) memcpy(v + i * n, s.seq->v, n * sizeof *v);
    return fxi_j_seq(r, s.type, v, n * times, out);
}

static fx_status repeat(fxi_jrun *r, fxi_jval what, fxi_jval times, fxi_jval *out)
{
    int64_t n = fxi_j_int_of(times);
    if (n < 0) n = 0;
    return what.type == FXI_J_STR ? repeat_str(r, what.s, (size_t)n, out)
                                  : repeat_seq(r, what, (size_t)n, out);
}

fx_status fxi_j_binary(fxi_jrun *r, fxi_jop op, fxi_jval a, fxi_jval b, fxi_jval *out)
{
    if (op == FXI_J_CONCAT) return concat(r, a, b, out);
    if (fxi_j_is_number(a) && fxi_j_is_number(b)) return arithmetic(r, op, a, b, out);
    if (op == FXI_J_ADD && a.type == FXI_J_STR && b.type == FXI_J_STR)
        return fxi_j_concat(r, a.s, b.s, out);
    if (op == FXI_J_ADD && a.type == b.type && is_seq(a)) return join_seqs(r, a, b, out);
    if (op == FXI_J_MUL && (is_seq(a) || a.type == FXI_J_STR) && fxi_j_is_integer(b))
        return repeat(r, a, b, out);
    if (op == FXI_J_MUL && (is_seq(b) || b.type == FXI_J_STR) && fxi_j_is_integer(a))
        return repeat(r, b, a, out);
    if (op == FXI_J_MOD && a.type == FXI_J_STR) return fxi_j_format(r, a.s, b, out);
    return no_such(r, op, a, b);
}

fx_status fxi_j_compares(fxi_jrun *r, fxi_jop op, fxi_jval a, fxi_jval b, bool *out)
{
    int c;
    if (op == FXI_J_IN || op == FXI_J_NOT_IN) {
        FX_TRY(fxi_j_contains(r, b, a, out));
        *out ^= op == FXI_J_NOT_IN;
        return FX_OK;
    }
    if (op == FXI_J_EQ || op == FXI_J_NE) {
        FX_TRY(fxi_j_equal(r, a, b, out));
        *out ^= op == FXI_J_NE;
        return FX_OK;
    }
    FX_TRY(fxi_j_compare(r, a, b, op_names[op], &c));
    bool nan = (a.type == FXI_J_FLOAT && isnan(a.f)) || (b.type == FXI_J_FLOAT && isnan(b.f));
    *out = !nan && (op == FXI_J_LT   ? c < 0
                    : op == FXI_J_LE ? c <= 0
                    : op == FXI_J_GT ? c > 0
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
        {"index", fxi_j_int(i + 1)},
        {"index0", fxi_j_int(i)},
        {"first", fxi_j_bool(i == 0)},
        {"last", fxi_j_bool(i == n - 1)},
        {"length", fxi_j_int(n)},
        {"revindex", fxi_j_int(n - i)},
        {"revindex0", fxi_j_int(n - i - 1)},
        {"depth", fxi_j_int(1)}, // of recursive loops, which there are none of
        {"depth0", fxi_j_int(0)},
        {"previtem", i ? l->v[i - 1] : fxi_j_undefined(name)},
        {"nextitem", i + 1 < n ? l->v[i + 1] : fxi_j_undefined(name)},
    };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        if (!fxi_j_str_is(name, all[k].name)) continue;
        *out = all[k].v;
        return FX_OK;
    }
    return fxi_j_work(r, 0);
}

static fxi_jval namespace_member(const struct fxi_jnamespace *ns, const fxi_jstr *name)
{
    for (size_t i = 0; i < ns->n; i++)
        if (!fxi_j_compare_str(ns->e[i].key.s, name)) return ns->e[i].value;
    return fxi_j_undefined(name);
}

// A method of v's type, bound to it; *found is false if Python's type has none of this name. One
// that may not be called here is undefined.
static fx_status method_of(fxi_jrun *r, fxi_jval v, const fxi_jstr *name, bool *found,
                           fxi_jval *out)
{
    const fxi_jroutine *row = fxi_j_find_method(v, name, found);
    struct fxi_jmethod *m;
    if (!row) return FX_OK;
    FX_TRY(fxi_j_take(r, sizeof *m, &m));
    *m = (struct fxi_jmethod){v, row};
    *out = (fxi_jval){.type = FXI_J_METHOD, .method = m};
    return FX_OK;
}

fx_status fxi_j_attribute(fxi_jrun *r, fxi_jval v, const fxi_jstr *name, fxi_jval *out)
{
    const fxi_jval *item;
    bool found;
    FX_TRY(fxi_j_defined(r, v));
    *out = fxi_j_undefined(name);
    FX_TRY(method_of(r, v, name, &found, out));
    if (found) return FX_OK;
    if (v.type == FXI_J_LOOP) return loop_attribute(r, v.loop, name, out);
    if (v.type == FXI_J_CYCLER && fxi_j_str_is(name, "current"))
        *out = v.cycler->seq->v[v.cycler->at];
    if (v.type == FXI_J_NAMESPACE) *out = namespace_member(v.ns, name);
    if (v.type != FXI_J_DICT) return FX_OK;
    fxi_jval key = {.type = FXI_J_STR, .s = name};
    FX_TRY(fxi_j_lookup(r, v.dict, key, &item));
    if (item) *out = *item;
    return FX_OK;
}

static fx_status char_at(fxi_jrun *r, const fxi_jstr *s, int64_t i, fxi_jval *out)
{
    FX_TRY(fxi_j_work(r, s->n));
    if (i < 0) i += (int64_t)fxi_j_n_char(s);
    if (i < 0) return FX_OK;
    size_t n, at = fxi_j_byte_of(s, (size_t)i);
    if (at >= s->n) return FX_OK;
    fxi_j_char(s, at, &n);
    return fxi_j_part(r, s, at, n, out);
}

static fx_status item_at(fxi_jrun *r, fxi_jval v, int64_t i, fxi_jval *out)
{
    size_t n;
    if (v.type == FXI_J_STR) return char_at(r, v.s, i, out);
    if (!is_seq(v) && v.type != FXI_J_RANGE) return FX_OK;
    fxi_j_length(v, &n);
    if (i < 0) i += (int64_t)n;
    if (i < 0 || i >= (int64_t)n) return FX_OK;
    *out = is_seq(v) ? v.seq->v[i] : fxi_j_int(v.range->start + i * v.range->step);
    return FX_OK;
}

fx_status fxi_j_subscript(fxi_jrun *r, fxi_jval v, fxi_jval key, fxi_jval *out)
{
    const fxi_jval *item = NULL;
    FX_TRY(fxi_j_defined(r, v));
    *out = fxi_j_undefined(key.type == FXI_J_STR ? key.s : NULL);
    if (v.type == FXI_J_DICT && fxi_j_hashable(key)) FX_TRY(fxi_j_lookup(r, v.dict, key, &item));
    if (item) {
        *out = *item;
        return FX_OK;
    }
    if (fxi_j_is_integer(key) && v.type != FXI_J_DICT) return item_at(r, v, fxi_j_int_of(key), out);
    return key.type == FXI_J_STR ? fxi_j_attribute(r, v, key.s, out) : FX_OK;
}

// ---- slices -------------------------------------------------------------------------------------

typedef struct slice {
    int64_t start, stop, step;
    size_t n; // items that it has
} slice;

static int64_t bound_of(fxi_jval v, int64_t preset)
{
    return v.type == FXI_J_NONE ? preset : fxi_j_int_of(v);
}

static int64_t clamp(int64_t i, int64_t n, int64_t least, int64_t most)
{
    if (i < 0) i += n;
    return i < least ? least : i > most ? most : i;
}

// Python's rules: bounds count from the end if negative, and are cut to what there is.
static fx_status make_slice(fxi_jrun *r, const fxi_jval bound[3], size_t length, slice *out)
{
    const int64_t n = (int64_t)length;
    int64_t step = bound_of(bound[2], 1);
    if (!step) return fxi_j_fail(r, "a slice's step is 0");
    if (step < -INT64_MAX) step = -INT64_MAX;
    int64_t start = bound_of(bound[0], step > 0 ? 0 : INT64_MAX);
    int64_t stop = bound_of(bound[1], step > 0 ? INT64_MAX : INT64_MIN);
    int64_t least = step > 0 ? 0 : -1, most = step > 0 ? n : n - 1;
    start = clamp(start, n, least, most);
    stop = stop == INT64_MIN ? least : clamp(stop, n, least, most);
    uint64_t width = step > 0 ? (stop > start ? (uint64_t)(stop - start) : 0)
                              : (start > stop ? (uint64_t)(start - stop) : 0);
    uint64_t stride = step > 0 ? (uint64_t)step : (uint64_t)-step;
    *out = (slice){start, stop, step, (size_t)((width + stride - 1) / stride)};
    if (width == 0) out->n = 0;
    return FX_OK;
}

static fx_status slice_seq(fxi_jrun *r, fxi_jval v, const slice *s, fxi_jval *out)
{
    fxi_jval *items;
    if (s->step == 1) return fxi_j_seq(r, v.type, v.seq->v + s->start, s->n, out);
    FX_TRY(fxi_j_work(r, s->n * 16));
    FX_TRY(fxi_j_take(r, s->n * sizeof *items, &items));
    for (size_t i = 0; i < s->n; i++) items[i] = v.seq->v[s->start + (int64_t)i * s->step];
    return fxi_j_seq(r, v.type, items, s->n, out);
}

static fx_status slice_str(fxi_jrun *r, const fxi_jstr *str, const slice *s, fxi_jval *out)
{
    FX_TRY(fxi_j_work(r, 2 * str->n));
    if (s->step == 1) {
        size_t from = fxi_j_byte_of(str, (size_t)s->start);
        fxi_jstr rest = {.p = str->p + from, .n = str->n - from};
        return fxi_j_part(r, str, from, fxi_j_byte_of(&rest, s->n), out);
    }
    fxi_jval all = {.type = FXI_J_STR, .s = str};
    fxi_jseq chars;
    fxi_jout o = {0};
    FX_TRY(fxi_j_items(r, all, &chars));
    for (size_t i = 0; i < s->n; i++)
        FX_TRY(fxi_jout_add(r, &o, chars.v[s->start + (int64_t)i * s->step].s));
    return fxi_jout_done(r, &o, out);
}

static fx_status slice_range(fxi_jrun *r, const fxi_jrange *of, const slice *s, fxi_jval *out)
{
    fxi_jrange *range;
    FX_TRY(fxi_j_take(r, sizeof *range, &range));
    *range = (fxi_jrange){.n = s->n};
    if (__builtin_mul_overflow(of->step, s->step, &range->step) ||
        __builtin_mul_overflow(of->step, s->start, &range->start) ||
        __builtin_add_overflow(of->start, range->start, &range->start) ||
        __builtin_mul_overflow(of->step, s->stop, &range->stop) ||
        __builtin_add_overflow(of->start, range->stop, &range->stop))
        return too_large(r);
    *out = (fxi_jval){.type = FXI_J_RANGE, .range = range};
    return FX_OK;
}

fx_status fxi_j_slice(fxi_jrun *r, fxi_jval v, const fxi_jval bound[3], fxi_jval *out)
{
    size_t n;
    slice s = {0};
    FX_TRY(fxi_j_defined(r, v));
    if (v.type != FXI_J_STR && v.type != FXI_J_RANGE && !is_seq(v))
        return fxi_j_fail(r, "a %s cannot be sliced", fxi_j_type_name(v));
    for (int i = 0; i < 3; i++)
        if (bound[i].type != FXI_J_NONE && !fxi_j_is_integer(bound[i]))
            return fxi_j_fail(r, "a slice by a %s", fxi_j_type_name(bound[i]));
    fxi_j_length(v, &n);
    FX_TRY(make_slice(r, bound, n, &s));
    if (v.type == FXI_J_RANGE) return slice_range(r, v.range, &s, out);
    return v.type == FXI_J_STR ? slice_str(r, v.s, &s, out) : slice_seq(r, v, &s, out);
}

// ---- paths --------------------------------------------------------------------------------------

static bool whole_number(const fxi_jstr *s, int64_t *out)
{
    if (!s->n || s->n > 9) return false;
    *out = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (s->p[i] < '0' || s->p[i] > '9') return false;
        *out = *out * 10 + (s->p[i] - '0');
    }
    return true;
}

fx_status fxi_j_path(fxi_jrun *r, fxi_jval v, fxi_jval path, fxi_jval *out)
{
    *out = v;
    if (path.type != FXI_J_STR) return fxi_j_subscript(r, v, path, out);
    for (size_t from = 0; from <= path.s->n;) {
        fxi_jval part;
        const char *dot = memchr(path.s->p + from, '.', path.s->n - from);
        size_t to = dot ? (size_t)(dot - path.s->p) : path.s->n;
        FX_TRY(fxi_j_part(r, path.s, from, to - from, &part));
        int64_t i;
        if (whole_number(part.s, &i)) part = fxi_j_int(i);
        FX_TRY(fxi_j_subscript(r, *out, part, out));
        from = to + 1;
    }
    return FX_OK;
}
