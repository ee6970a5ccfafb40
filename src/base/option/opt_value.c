// opt_value.c - the text of a value becomes a value: one parser for each type.
//
// A parser stores the value and returns true, or returns false and leaves the field unchanged; the
// error is made from the type's `what` and the row's bounds.
#include "base/option/opt_impl.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool in_bounds(const fxi_opt *o, double v)
{
    return v >= o->min && v <= o->max;
}

static bool is_unsigned(const char *s)
{
    return s[0] && s[strspn(s, "0123456789")] == 0;
}

static bool parse_flag(const fxi_opt *o, const char *s, void *field)
{
    static const char *const word[2][4] = {{"0", "no", "off", "false"}, {"1", "yes", "on", "true"}};
    (void)o;
    for (int v = 0; v < 2; v++) {
        for (int i = 0; i < 4; i++) {
            if (strcmp(s, word[v][i]) != 0) continue;
            *(bool *)field = v == 1;
            return true;
        }
    }
    return false;
}

static bool parse_int(const fxi_opt *o, const char *s, void *field)
{
    if (!is_unsigned(s[0] == '-' ? s + 1 : s)) return false;
    errno = 0;
    long v = strtol(s, NULL, 10);
    if (errno || v < INT_MIN || v > INT_MAX || !in_bounds(o, (double)v)) return false;
    *(int *)field = (int)v;
    return true;
}

static bool parse_u64(const fxi_opt *o, const char *s, void *field)
{
    if (!is_unsigned(s)) return false;
    errno = 0;
    unsigned long long v = strtoull(s, NULL, 10);
    if (errno || !in_bounds(o, (double)v)) return false;
    *(uint64_t *)field = v;
    return true;
}

// A decimal number at the start of s: its value, and where it ends; false for hex, "inf" and "nan".
static bool leading_decimal(const char *s, double *v, const char **end)
{
    size_t n = strspn(s, "+-.0123456789eE");
    char *stop;
    *v = strtod(s, &stop);
    *end = stop;
    return stop > s && (size_t)(stop - s) <= n && isfinite(*v);
}

static bool parse_float(const fxi_opt *o, const char *s, void *field)
{
    double v;
    const char *end;
    if (!leading_decimal(s, &v, &end) || *end || isspace((unsigned char)s[0])) return false;
    if (!in_bounds(o, v)) return false;
    *(float *)field = (float)v;
    return true;
}

// The power of two of a size's suffix ("", "K", "M", "GB", "TiB"), -1 for other suffixes.
static int size_shift(const char *s)
{
    static const char unit[] = "KMGT";
    if (!*s) return 0;
    const char *u = strchr(unit, toupper((unsigned char)*s));
    if (!u) return -1;
    s++;
    if (*s && strcmp(s, "B") != 0 && strcmp(s, "iB") != 0) return -1;
    return 10 * (int)(u - unit + 1);
}

static bool parse_size(const fxi_opt *o, const char *s, void *field)
{
    double v;
    const char *end;
    if (!isdigit((unsigned char)s[0]) || !leading_decimal(s, &v, &end)) return false;
    int shift = size_shift(end);
    if (shift < 0) return false;
    double bytes = v * (double)(1ull << shift);
    if (bytes >= 0x1p63 || !in_bounds(o, bytes)) return false;
    *(uint64_t *)field = (uint64_t)bytes;
    return true;
}

static bool parse_str(const fxi_opt *o, const char *s, void *field)
{
    (void)o;
    *(const char **)field = s;
    return true;
}

// Whether s is one of the words in "a|b|c", in letters of any case.
static bool is_choice(const char *words, const char *s)
{
    const size_t n = strlen(s);
    for (; *words; words += strcspn(words, "|"), words += *words == '|')
        if (strcspn(words, "|") == n && strncasecmp(words, s, n) == 0) return n > 0;
    return false;
}

static bool parse_choice(const fxi_opt *o, const char *s, void *field)
{
    return is_choice(o->arg, s) && parse_str(o, s, field);
}

static bool parse_ints(const fxi_opt *o, const char *s, void *field)
{
    fxi_opt_ints list = {.n = 0};
    for (;;) {
        char one[16];
        size_t n = strcspn(s, ",");
        if (n >= sizeof one || list.n == FXI_OPT_MAX_INTS) return false;
        memcpy(one, s, n);
        one[n] = 0;
        if (!parse_int(o, one, &list.v[list.n++])) return false;
        if (!s[n]) break;
        s += n + 1;
    }
    *(fxi_opt_ints *)field = list;
    return true;
}

static const struct {
    bool (*parse)(const fxi_opt *o, const char *s, void *field);
    const char *what; // names a value of this type in errors
    bool bounded;     // errors show the bounds
} type_table[FXI_OPT_N_TYPE] = {
    [FXI_OPT_FLAG] = {parse_flag, "yes or no", false},
    [FXI_OPT_INT] = {parse_int, "a whole number", true},
    [FXI_OPT_U64] = {parse_u64, "a whole number", true},
    [FXI_OPT_SIZE] = {parse_size, "a size in bytes (like 512M or 2G)", false},
    [FXI_OPT_FLOAT] = {parse_float, "a number", true},
    [FXI_OPT_STR] = {parse_str, "a text", false},
    [FXI_OPT_CHOICE] = {parse_choice, "one of", false},
    [FXI_OPT_CONFIG] = {parse_str, "a file", false},
    [FXI_OPT_INTS] = {parse_ints, "a list of whole numbers", true},
};

static fx_status wrong_value(const fxi_opt *o, const char *source, const char *s, fx_error *err)
{
    const char *what = type_table[o->type].what;
    if (o->type == FXI_OPT_CHOICE)
        return fxi_fail(err, FX_EINVAL, "%s: '%.60s' is not %s %s", source, s, what, o->arg);
    if (!type_table[o->type].bounded)
        return fxi_fail(err, FX_EINVAL, "%s: '%.60s' is not %s", source, s, what);
    bool open = o->max >= (double)INT_MAX;
    return open ? fxi_fail(err, FX_EINVAL, "%s: '%.60s' is not %s of at least %g", source, s, what,
                           o->min)
                : fxi_fail(err, FX_EINVAL, "%s: '%.60s' is not %s from %.10g to %.10g", source, s,
                           what, o->min, o->max);
}

fx_status fxi_opt_store(const fxi_opt *o, const char *source, const char *s, void *out,
                        fx_error *err)
{
    if (type_table[o->type].parse(o, s, (char *)out + o->offset)) return FX_OK;
    return wrong_value(o, source, s, err);
}
