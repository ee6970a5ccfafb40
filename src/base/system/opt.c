// opt.c - the option table: parsers of values, sources of values, the command line, help.
#include "base/system/opt.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// ---- values: one parser per type ----------------------------------------------------------------
//
// A parser stores the value and returns true, or returns false and leaves the field unchanged; the
// caller makes the error from the type's `what` and the row's bounds.

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
    [FXI_OPT_INTS] = {parse_ints, "a list of whole numbers", true},
};

static fx_status wrong_value(const fxi_opt *o, const char *source, const char *s, fx_error *err)
{
    const char *what = type_table[o->type].what;
    if (!type_table[o->type].bounded)
        return fxi_fail(err, FX_EINVAL, "%s: '%.60s' is not %s", source, s, what);
    bool open = o->max >= (double)INT_MAX;
    return open ? fxi_fail(err, FX_EINVAL, "%s: '%.60s' is not %s of at least %g", source, s, what,
                           o->min)
                : fxi_fail(err, FX_EINVAL, "%s: '%.60s' is not %s from %.10g to %.10g", source, s,
                           what, o->min, o->max);
}

static fx_status store_value(const fxi_opt *o, const char *source, const char *s, void *out,
                             fx_error *err)
{
    if (type_table[o->type].parse(o, s, (char *)out + o->offset)) return FX_OK;
    return wrong_value(o, source, s, err);
}

// ---- defaults and environment -------------------------------------------------------------------

void fxi_opt_env_name(const fxi_opt_table *t, const fxi_opt *o, char name[FXI_OPT_ENV_BYTES])
{
    size_t n = 0;
    for (const char *s = t->env_prefix; *s && n < FXI_OPT_ENV_BYTES - 1; s++) name[n++] = *s;
    for (const char *s = o->name; *s && n < FXI_OPT_ENV_BYTES - 1; s++)
        name[n++] = *s == '-' ? '_' : (char)toupper((unsigned char)*s);
    name[n] = 0;
}

static fx_status preset_all(const fxi_opt_table *t, unsigned command, void *out, fx_error *err)
{
    for (size_t i = 0; i < t->n_opt; i++) {
        const fxi_opt *o = &t->opt[i];
        if ((o->commands & command) && o->preset)
            FX_TRY(store_value(o, o->name, o->preset, out, err));
    }
    return FX_OK;
}

static fx_status take_environment(const fxi_opt_table *t, unsigned command, void *out,
                                  fx_error *err)
{
    for (size_t i = 0; i < t->n_opt; i++) {
        const fxi_opt *o = &t->opt[i];
        if (!(o->commands & command)) continue;
        char name[FXI_OPT_ENV_BYTES];
        fxi_opt_env_name(t, o, name);
        const char *s = getenv(name);
        if (s && *s) FX_TRY(store_value(o, name, s, out, err));
    }
    return FX_OK;
}

// ---- finding a row ------------------------------------------------------------------------------

static const fxi_opt *find_long(const fxi_opt_table *t, unsigned command, const char *name,
                                size_t n)
{
    for (size_t i = 0; i < t->n_opt; i++) {
        const fxi_opt *o = &t->opt[i];
        if ((o->commands & command) && strlen(o->name) == n && memcmp(o->name, name, n) == 0)
            return o;
    }
    return NULL;
}

static const fxi_opt *find_short(const fxi_opt_table *t, unsigned command, char letter)
{
    for (size_t i = 0; i < t->n_opt; i++) {
        const fxi_opt *o = &t->opt[i];
        if ((o->commands & command) && o->letter == letter) return o;
    }
    return NULL;
}

#define MAX_NAME 32

// The Levenshtein distance of a[0..n) and b.
static int edit_distance(const char *a, size_t n, const char *b)
{
    int row[MAX_NAME + 1];
    size_t m = strlen(b);
    if (n > MAX_NAME || m > MAX_NAME) return MAX_NAME;
    for (size_t j = 0; j <= m; j++) row[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[m];
}

// The name most similar to a mistyped one; NULL: none is similar.
static const char *nearest_name(const fxi_opt_table *t, unsigned command, const char *name,
                                size_t n)
{
    const char *best = NULL;
    int best_distance = 3; // too different
    for (size_t i = 0; i < t->n_opt; i++) {
        if (!(t->opt[i].commands & command)) continue;
        int d = edit_distance(name, n, t->opt[i].name);
        if (d >= best_distance || d >= (int)n) continue;
        best_distance = d;
        best = t->opt[i].name;
    }
    return best;
}

static fx_status unknown_long(const fxi_opt_table *t, unsigned command, const char *name, size_t n,
                              fx_error *err)
{
    const char *near = nearest_name(t, command, name, n);
    if (!near)
        return fxi_fail(err, FX_EINVAL, "unknown option '--%.*s'", n < 60 ? (int)n : 60, name);
    return fxi_fail(err, FX_EINVAL, "unknown option '--%.*s'; did you mean '--%s'?", (int)n, name,
                    near);
}

// ---- the command line ---------------------------------------------------------------------------

typedef struct opt_scan {
    const fxi_opt_table *t;
    unsigned command;
    int argc, i; // argv[i] is the argument being looked at
    char *const *argv;
    void *out;
    fx_error *err;
} opt_scan;

// Stores the value of `o`: `attached`, if there is one, otherwise the next argument.
static fx_status take_value(opt_scan *s, const fxi_opt *o, const char *source, const char *attached)
{
    if (o->type == FXI_OPT_FLAG)
        return store_value(o, source, attached ? attached : "yes", s->out, s->err);
    if (attached) return store_value(o, source, attached, s->out, s->err);
    if (s->i + 1 >= s->argc)
        return fxi_fail(s->err, FX_EINVAL, "%s: a value is missing (%s)", source, o->arg);
    return store_value(o, source, s->argv[++s->i], s->out, s->err);
}

static fx_status take_long(opt_scan *s, const char *name)
{
    size_t n = strcspn(name, "=");
    const fxi_opt *o = find_long(s->t, s->command, name, n);
    if (!o) return unknown_long(s->t, s->command, name, n, s->err);
    char source[MAX_NAME + 3] = "--";
    strncat(source, o->name, MAX_NAME);
    return take_value(s, o, source, name[n] ? name + n + 1 : NULL);
}

static fx_status take_short(opt_scan *s, const char *letters)
{
    const fxi_opt *o = find_short(s->t, s->command, letters[0]);
    if (!o || (o->type == FXI_OPT_FLAG && letters[1]))
        return fxi_fail(s->err, FX_EINVAL, "unknown option '-%.60s'", letters);
    const char source[] = {'-', letters[0], 0};
    return take_value(s, o, source, letters[1] ? letters + 1 : NULL);
}

static fx_status take_rest(fxi_opt_rest *rest, const char *arg, fx_error *err)
{
    if (rest->n == FXI_OPT_MAX_REST)
        return fxi_fail(err, FX_EINVAL, "unexpected argument '%.60s'", arg);
    rest->arg[rest->n++] = arg;
    return FX_OK;
}

static bool asks_help(const char *arg)
{
    return strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0;
}

static fx_status take_arguments(opt_scan *s, fxi_opt_rest *rest)
{
    bool options = true;
    for (s->i = 0; s->i < s->argc; s->i++) {
        const char *arg = s->argv[s->i];
        if (!options || arg[0] != '-' || !arg[1]) {
            FX_TRY(take_rest(rest, arg, s->err));
        } else if (strcmp(arg, "--") == 0) {
            options = false;
        } else if (asks_help(arg)) {
            rest->help = true;
            return FX_OK;
        } else {
            FX_TRY(arg[1] == '-' ? take_long(s, arg + 2) : take_short(s, arg + 1));
        }
    }
    return FX_OK;
}

fx_status fxi_opt_parse(const fxi_opt_table *t, unsigned command, int argc, char *const *argv,
                        void *out, fxi_opt_rest *rest, fx_error *err)
{
    opt_scan s = {.t = t, .command = command, .argc = argc, .argv = argv, .out = out, .err = err};
    *rest = (fxi_opt_rest){.n = 0};
    FX_TRY(preset_all(t, command, out, err));
    FX_TRY(take_environment(t, command, out, err));
    return take_arguments(&s, rest);
}

// ---- help ---------------------------------------------------------------------------------------

#define HELP_COLUMN 28

static bool help_row(const fxi_opt *o, fxi_buf *out)
{
    char letter[8] = "    ";
    if (o->letter) memcpy(letter, (char[]){'-', o->letter, ',', ' ', 0}, 5);
    size_t start = out->n;
    if (!fxi_buf_fmt(out, "  %s--%s %s", letter, o->name, o->arg ? o->arg : "")) return false;
    int used = (int)(out->n - start);
    int pad = used < HELP_COLUMN ? HELP_COLUMN - used : 1;
    if (!fxi_buf_fmt(out, "%*s%s", pad, "", o->help)) return false;
    if (o->preset && !fxi_buf_fmt(out, " (default %s)", o->preset)) return false;
    return fxi_buf_str(out, "\n");
}

bool fxi_opt_help(const fxi_opt_table *t, unsigned command, fxi_buf *out)
{
    for (size_t i = 0; i < t->n_opt; i++) {
        const fxi_opt *o = &t->opt[i];
        if ((o->commands & command) && o->help && !help_row(o, out)) return false;
    }
    return true;
}
