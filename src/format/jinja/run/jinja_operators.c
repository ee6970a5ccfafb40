// jinja_operators.c - operators, as in Python.
#include <math.h>
#include <string.h>

#include "format/jinja/run/jinja_run.h"

static const char *const op_names[FXI_JOP_N_OP] = {
    [FXI_JOP_ADD] = "+",         [FXI_JOP_SUB] = "-",       [FXI_JOP_MUL] = "*",
    [FXI_JOP_DIV] = "/",         [FXI_JOP_FLOORDIV] = "//", [FXI_JOP_MOD] = "%",
    [FXI_JOP_POW] = "**",        [FXI_JOP_CONCAT] = "~",    [FXI_JOP_EQ] = "==",
    [FXI_JOP_NE] = "!=",         [FXI_JOP_LT] = "<",        [FXI_JOP_LE] = "<=",
    [FXI_JOP_GT] = ">",          [FXI_JOP_GE] = ">=",       [FXI_JOP_IN] = "in",
    [FXI_JOP_NOT_IN] = "not in",
};

static fx_status fail_operator(fxi_jrun *r, fxi_jop op, fxi_jval a, fxi_jval b)
{
    FX_TRY(fxi_jval_need_defined(r, a));
    FX_TRY(fxi_jval_need_defined(r, b));
    return fxi_jrun_fail(r, "'%s' is not supported between %s and %s", op_names[op],
                         fxi_jval_type_name(a), fxi_jval_type_name(b));
}

// ---- numbers ------------------------------------------------------------------------------------

static fx_status fail_too_large(fxi_jrun *r)
{
    return fxi_jrun_fail(r, "a number is too large");
}

static fx_status int_floordiv(fxi_jrun *r, int64_t a, int64_t b, int64_t *q, int64_t *rest)
{
    if (!b) return fxi_jrun_fail(r, "division by zero");
    if (a == INT64_MIN && b == -1) return fail_too_large(r);
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
        if (exponent & 1 && __builtin_mul_overflow(x, base, &x)) return fail_too_large(r);
        if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) return fail_too_large(r);
    }
    *out = x;
    return FX_OK;
}

static fx_status int_arithmetic(fxi_jrun *r, fxi_jop op, int64_t a, int64_t b, int64_t *out)
{
    int64_t other;
    bool over = false;
    if (op == FXI_JOP_FLOORDIV) return int_floordiv(r, a, b, out, &other);
    if (op == FXI_JOP_MOD) return int_floordiv(r, a, b, &other, out);
    if (op == FXI_JOP_POW) return int_pow(r, a, b, out);
    if (op == FXI_JOP_ADD) over = __builtin_add_overflow(a, b, out);
    if (op == FXI_JOP_SUB) over = __builtin_sub_overflow(a, b, out);
    if (op == FXI_JOP_MUL) over = __builtin_mul_overflow(a, b, out);
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
        return fxi_jrun_fail(r, "a root of a negative");
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

fx_status fxi_jop_negate(fxi_jrun *r, fxi_jval a, fxi_jval *out)
{
    FX_TRY(fxi_jval_need_defined(r, a));
    if (!fxi_jval_is_number(a))
        return fxi_jrun_fail(r, "'-' in front of a %s", fxi_jval_type_name(a));
    fxi_jval zero = a.type == FXI_JVAL_FLOAT ? fxi_jval_float(-0.0) : fxi_jval_int(0);
    return number_arithmetic(r, FXI_JOP_SUB, zero, a, out);
}

fx_status fxi_jop_plus(fxi_jrun *r, fxi_jval a, fxi_jval *out)
{
    FX_TRY(fxi_jval_need_defined(r, a));
    if (!fxi_jval_is_number(a))
        return fxi_jrun_fail(r, "'+' in front of a %s", fxi_jval_type_name(a));
    *out = a.type == FXI_JVAL_BOOL ? fxi_jval_int(a.b) : a;
    return FX_OK;
}

// ---- strings and lists --------------------------------------------------------------------------

static fx_status concat_values(fxi_jrun *r, fxi_jval a, fxi_jval b, fxi_jval *out)
{
    const fxi_jstr *sa, *sb;
    FX_TRY(fxi_jval_to_str(r, a, &sa));
    FX_TRY(fxi_jval_to_str(r, b, &sb));
    return fxi_jstr_concat(r, sa, sb, out);
}

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

static fx_status repeat_str(fxi_jrun *r, const fxi_jstr *s, size_t times, fxi_jval *out)
{
    fxi_jout o = {0};
    for (size_t i = 0; i < times && s->n; i++) FX_TRY(fxi_jout_add(r, &o, s));
    return fxi_jout_finish(r, &o, out);
}

static fx_status repeat_seq(fxi_jrun *r, fxi_jval s, size_t times, fxi_jval *out)
{
    FX_TRY(fxi_jval_make_seq(r, s.type, NULL, 0, out));
    const size_t n = s.seq->n;
    size_t n_bytes;
    if (__builtin_mul_overflow(n * sizeof(fxi_jval), times, &n_bytes))
        return fxi_jrun_fail(r, "a list is too long");
    fxi_jval *v;
    if (!n_bytes) return FX_OK;
    FX_TRY(fxi_jrun_work(r, n_bytes));
    FX_TRY(fxi_jrun_take(r, n_bytes, &v));
    for (size_t i = 0; i < times; i++) memcpy(v + i * n, s.seq->v, n * sizeof *v);
    return fxi_jval_make_seq(r, s.type, v, n * times, out);
}

static fx_status repeat_value(fxi_jrun *r, fxi_jval what, fxi_jval times, fxi_jval *out)
{
    int64_t n = fxi_jval_to_int(times);
    if (n < 0) n = 0;
    return what.type == FXI_JVAL_STR ? repeat_str(r, what.s, (size_t)n, out)
                                     : repeat_seq(r, what, (size_t)n, out);
}

fx_status fxi_jop_binary(fxi_jrun *r, fxi_jop op, fxi_jval a, fxi_jval b, fxi_jval *out)
{
    if (op == FXI_JOP_CONCAT) return concat_values(r, a, b, out);
    if (fxi_jval_is_number(a) && fxi_jval_is_number(b)) return number_arithmetic(r, op, a, b, out);
    if (op == FXI_JOP_ADD && a.type == FXI_JVAL_STR && b.type == FXI_JVAL_STR)
        return fxi_jstr_concat(r, a.s, b.s, out);
    if (op == FXI_JOP_ADD && a.type == b.type && fxi_jval_is_seq(a)) return join_seqs(r, a, b, out);
    if (op == FXI_JOP_MUL && (fxi_jval_is_seq(a) || a.type == FXI_JVAL_STR) &&
        fxi_jval_is_integer(b))
        return repeat_value(r, a, b, out);
    if (op == FXI_JOP_MUL && (fxi_jval_is_seq(b) || b.type == FXI_JVAL_STR) &&
        fxi_jval_is_integer(a))
        return repeat_value(r, b, a, out);
    return fail_operator(r, op, a, b);
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
