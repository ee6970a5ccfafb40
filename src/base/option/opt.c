// opt.c - the values of options from their sources: defaults, a file, the environment, the command
// line.
#include "base/option/opt.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text/str.h"

enum { MAX_NAME = 32, WHERE_BYTES = 160 };

// ---- the text of a value becomes a value: one parser for each type -----------------------------
//
// A parser stores the value and returns true, or returns false and leaves the field unchanged; the
// error is made from the type's `what` and the row's bounds.

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
    static const char *const words[] = {"0", "no", "off", "false", "1", "yes", "on", "true"};
    (void)o;
    for (int i = 0; i < 8; i++) {
        if (strcmp(s, words[i]) != 0) continue;
        *(bool *)field = i >= 4;
        return true;
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

static bool parse_real(const fxi_opt *o, const char *s, void *field)
{
    double v;
    const char *end;
    if (!leading_decimal(s, &v, &end) || *end || isspace((unsigned char)s[0])) return false;
    if (!in_bounds(o, v)) return false;
    *(double *)field = v;
    return true;
}

static bool parse_float(const fxi_opt *o, const char *s, void *field)
{
    double v;
    if (!parse_real(o, s, &v)) return false;
    *(float *)field = (float)v;
    return true;
}

// The suffix is a power of 1024: "", "K", "M", "GB", "TiB".
static bool parse_size(const fxi_opt *o, const char *s, void *field)
{
    static const char units[] = "KMGT";
    double v;
    const char *end;
    if (!isdigit((unsigned char)s[0]) || !leading_decimal(s, &v, &end)) return false;
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (*end && !unit) return false;
    if (*end && end[1] && strcmp(end + 1, "B") != 0 && strcmp(end + 1, "iB") != 0) return false;
    const double bytes = ldexp(v, unit ? 10 * (int)(unit - units + 1) : 0);
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

// One of the words in "a|b|c", in letters of any case.
static bool parse_choice(const fxi_opt *o, const char *s, void *field)
{
    return fxi_list_has(o->arg, "|", s) && parse_str(o, s, field);
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
    [FXI_OPT_DOUBLE] = {parse_real, "a number", true},
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
    if (o->max >= (double)INT_MAX)
        return fxi_fail(err, FX_EINVAL, "%s: '%.60s' is not %s of at least %g", source, s, what,
                        o->min);
    return fxi_fail(err, FX_EINVAL, "%s: '%.60s' is not %s from %.10g to %.10g", source, s, what,
                    o->min, o->max);
}

// ---- the row with a name, or the name most similar to a mistyped one ---------------------------

// The row of the commands in the bits of `command`; NULL: none.
static const fxi_opt *find_option(const fxi_opt_table *t, unsigned command, const char *name,
                                  size_t n)
{
    for (size_t i = 0; i < t->n_opt; i++) {
        const fxi_opt *o = &t->opt[i];
        if ((o->commands & command) && strlen(o->name) == n && memcmp(o->name, name, n) == 0)
            return o;
    }
    return NULL;
}

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

// ---- the entries of a file, against the table ---------------------------------------------------

static unsigned section_bit(const fxi_opt_table *t, const char *section)
{
    for (size_t i = 0; i < t->n_section; i++)
        if (strcmp(t->section[i].name, section) == 0) return t->section[i].command;
    return 0;
}

static fx_status check_entry(const fxi_opt_file *f, const fxi_opt_entry *e, const fxi_opt_table *t,
                             fx_error *err)
{
    const unsigned command = e->section[0] ? section_bit(t, e->section) : ~0u;
    const size_t n = strlen(e->key);
    if (!command)
        return fxi_fail(err, FX_EINVAL, "%.80s:%d: unknown command '%.40s'", f->name, e->line,
                        e->section);
    const fxi_opt *o = find_option(t, command, e->key, n);
    if (o && o->type == FXI_OPT_CONFIG)
        return fxi_fail(err, FX_EINVAL, "%.80s:%d: '%.40s' cannot be set in a file", f->name,
                        e->line, e->key);
    if (o) return FX_OK;
    const char *near = nearest_name(t, command, e->key, n);
    return fxi_fail(err, FX_EINVAL, "%.80s:%d: unknown option '%.40s'%s%s%s", f->name, e->line,
                    e->key, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

// ---- sources, the last one winning -------------------------------------------------------------
//
// The option that names the file may be on the command line or in the environment, so these are
// read twice: first to find it, then on top of what the file says.

typedef struct opt_scan {
    const fxi_opt_table *t;
    unsigned command;
    int argc, i; // argv[i] is the argument being looked at
    char *const *argv;
    void *out;
    fxi_opt_rest *rest;
    fx_error *err;
} opt_scan;

// `where` names the source in errors. An old value becomes what it is called now.
static fx_status set_row(const opt_scan *s, const fxi_opt *o, const char *where, const char *text,
                         fxi_opt_from from, int line)
{
    for (size_t i = 0; i < s->t->n_renamed; i++) {
        const fxi_opt_renamed *r = &s->t->renamed[i];
        if (strcmp(r->name, o->name) || strcasecmp(r->old, text)) continue;
        s->rest->used_renamed |= 1u << i;
        text = r->now;
        break;
    }
    if (!type_table[o->type].parse(o, text, (char *)s->out + o->offset))
        return wrong_value(o, where, text, s->err);
    s->rest->set[o - s->t->opt] = (fxi_opt_set){text, from, line};
    return FX_OK;
}

// Those in the section of this command; 0: those before any section.
static fx_status take_entries(const opt_scan *s, unsigned section)
{
    const fxi_opt_file *f = &s->rest->file;
    for (size_t i = 0; i < f->n_entry; i++) {
        const fxi_opt_entry *e = &f->entry[i];
        const fxi_opt *o = find_option(s->t, s->command, e->key, strlen(e->key));
        char where[WHERE_BYTES];
        if (!o || section_bit(s->t, e->section) != section) continue;
        snprintf(where, WHERE_BYTES, "%.80s:%d: %.40s", f->name, e->line, e->key);
        FX_TRY(set_row(s, o, where, e->value, FXI_OPT_FROM_FILE, e->line));
    }
    return FX_OK;
}

static fx_status take_environment(const opt_scan *s)
{
    for (const fxi_opt *o = s->t->opt; o < s->t->opt + s->t->n_opt; o++) {
        char name[FXI_OPT_ENV_BYTES];
        fxi_opt_env_name(s->t, o->name, name);
        const char *text = o->commands & s->command ? getenv(name) : NULL;
        if (text && *text) FX_TRY(set_row(s, o, name, text, FXI_OPT_FROM_ENVIRONMENT, 0));
    }
    return FX_OK;
}

// ---- the command line ---------------------------------------------------------------------------

// Stores the value of `o`: `attached`, if there is one, otherwise the next argument.
static fx_status take_value(opt_scan *s, const fxi_opt *o, const char *source, const char *attached)
{
    if (!attached && o->type == FXI_OPT_FLAG) attached = "yes";
    if (!attached && s->i + 1 >= s->argc)
        return fxi_fail(s->err, FX_EINVAL, "%s: missing value (%s)", source, o->arg);
    return set_row(s, o, source, attached ? attached : s->argv[++s->i], FXI_OPT_FROM_FLAG, 0);
}

static fx_status take_long(opt_scan *s, const char *name)
{
    const size_t n = strcspn(name, "=");
    const fxi_opt *o = find_option(s->t, s->command, name, n);
    const char *near = o ? NULL : nearest_name(s->t, s->command, name, n);
    char source[MAX_NAME + 3] = "--";
    if (!o)
        return fxi_fail(s->err, FX_EINVAL, "unknown option '--%.*s'%s%s%s", n < 60 ? (int)n : 60,
                        name, near ? "; did you mean '--" : "", near ? near : "", near ? "'?" : "");
    strncat(source, o->name, MAX_NAME);
    return take_value(s, o, source, name[n] ? name + n + 1 : NULL);
}

static fx_status take_short(opt_scan *s, const char *letters)
{
    const fxi_opt *o = s->t->opt, *end = o + s->t->n_opt;
    const char source[] = {'-', letters[0], 0};
    while (o < end && (!(o->commands & s->command) || o->letter != letters[0])) o++;
    if (o == end || (o->type == FXI_OPT_FLAG && letters[1]))
        return fxi_fail(s->err, FX_EINVAL, "unknown option '-%.60s'", letters);
    return take_value(s, o, source, letters[1] ? letters + 1 : NULL);
}

static fx_status take_arguments(opt_scan *s)
{
    fxi_opt_rest *rest = s->rest;
    rest->n = 0;
    bool options = true;
    for (s->i = 0; s->i < s->argc; s->i++) {
        const char *arg = s->argv[s->i];
        if (!options || arg[0] != '-' || !arg[1]) {
            if (rest->n == FXI_OPT_MAX_REST)
                return fxi_fail(s->err, FX_EINVAL, "unexpected argument '%.60s'", arg);
            rest->arg[rest->n++] = arg;
        } else if (strcmp(arg, "--") == 0) {
            options = false;
        } else if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            rest->help = true;
            return FX_OK;
        } else {
            FX_TRY(arg[1] == '-' ? take_long(s, arg + 2) : take_short(s, arg + 1));
        }
    }
    return FX_OK;
}

static fx_status take_all(opt_scan *s)
{
    for (size_t i = 0; i < s->t->n_opt; i++) {
        const fxi_opt *o = &s->t->opt[i];
        if ((o->commands & s->command) && o->preset)
            FX_TRY(set_row(s, o, o->name, o->preset, FXI_OPT_FROM_PRESET, 0));
    }
    FX_TRY(take_entries(s, 0));
    FX_TRY(take_entries(s, s->command)); // wins
    FX_TRY(take_environment(s));
    return take_arguments(s);
}

fx_status fxi_opt_parse(const fxi_opt_table *t, unsigned command, int argc, char *const *argv,
                        void *out, fxi_opt_rest *rest, fx_error *err)
{
    opt_scan s = {.t = t,
                  .command = command,
                  .argc = argc,
                  .argv = argv,
                  .out = out,
                  .rest = rest,
                  .err = err};
    const char *path = NULL; // of the file that the options name
    *rest = (fxi_opt_rest){.n = 0};
    if (t->n_opt > FXI_OPT_MAX_ROW)
        return fxi_fail(err, FX_EINTERNAL, "more than %d options", FXI_OPT_MAX_ROW);
    FX_TRY(take_all(&s));
    for (size_t i = 0; i < t->n_opt && !path; i++)
        if (t->opt[i].type == FXI_OPT_CONFIG && (t->opt[i].commands & command))
            path = rest->set[i].text;
    if (rest->help || !path || !*path) return FX_OK;
    FX_TRY(fxi_opt_file_read(path, &rest->file, err));
    for (size_t i = 0; i < rest->file.n_entry; i++)
        FX_TRY(check_entry(&rest->file, &rest->file.entry[i], t, err));
    return take_all(&s);
}

void fxi_opt_rest_free(fxi_opt_rest *rest)
{
    fxi_opt_file_free(&rest->file);
}

bool fxi_opt_note(const fxi_opt_table *t, const fxi_opt_rest *rest, size_t i, char *text,
                  size_t size)
{
    const fxi_opt_renamed *r = &t->renamed[i];
    if (!(rest->used_renamed & 1u << i)) return false;
    snprintf(text, size, "--%s %s is now --%s %s; the next version will not know the old name",
             r->name, r->old, r->name, r->now);
    return true;
}
