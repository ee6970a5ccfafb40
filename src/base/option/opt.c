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

// The row of the commands in the bits of `command` that has this name; NULL: none.
static const fxi_opt *find_row(const fxi_opt_table *t, unsigned command, const char *name, size_t n)
{
    for (size_t i = 0; i < t->n_opt; i++) {
        const fxi_opt *o = &t->opt[i];
        if ((o->commands & command) && strlen(o->name) == n && memcmp(o->name, name, n) == 0)
            return o;
    }
    return NULL;
}

// The next word of an alias, of *n bytes; *at starts at `words`. NULL: there are no more.
static const char *next_spelling(const char **at, size_t *n)
{
    const char *word = *at + strspn(*at, " ");
    *n = strcspn(word, " ");
    *at = word + *n;
    return *n ? word : NULL;
}

// The alias that has the word of n bytes after these dashes; NULL: none.
static const fxi_opt_alias *find_alias(const fxi_opt_table *t, const char *dashes, const char *name,
                                       size_t n)
{
    const size_t n_dash = strlen(dashes);
    for (size_t i = 0; i < t->n_alias; i++) {
        size_t n_word;
        for (const char *at = t->alias[i].words, *w; (w = next_spelling(&at, &n_word));)
            if (n_word == n_dash + n && !memcmp(w, dashes, n_dash) && !memcmp(w + n_dash, name, n))
                return &t->alias[i];
    }
    return NULL;
}

// The row that the name means after these dashes: it has this name, or an alias of it.
static const fxi_opt *find_option(const fxi_opt_table *t, unsigned command, const char *dashes,
                                  const char *name, size_t n)
{
    const fxi_opt *o = dashes[1] ? find_row(t, command, name, n) : NULL;
    const fxi_opt_alias *a = o ? NULL : find_alias(t, dashes, name, n);
    return a && a->name ? find_row(t, command, a->name, strlen(a->name)) : o;
}

static const fxi_opt *find_letter(const fxi_opt_table *t, unsigned command, char letter)
{
    for (const fxi_opt *o = t->opt; o < t->opt + t->n_opt; o++)
        if ((o->commands & command) && o->letter == letter) return o;
    return NULL;
}

const fxi_opt *fxi_opt_find(const fxi_opt_table *t, unsigned command, const char *word)
{
    if (word[0] != '-' || !word[1]) return NULL;
    if (word[1] == '-') return find_option(t, command, "--", word + 2, strcspn(word + 2, "="));
    const fxi_opt *o = find_option(t, command, "-", word + 1, strlen(word + 1));
    return o || word[2] ? o : find_letter(t, command, word[1]);
}

int fxi_opt_distance(const char *a, size_t n, const char *b, size_t m)
{
    int row[MAX_NAME + 1];
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

// The long name most similar to a mistyped one, of *n_near bytes; NULL: none is similar.
static const char *nearest_name(const fxi_opt_table *t, unsigned command, const char *name,
                                size_t n, size_t *n_near)
{
    const char *best = NULL;
    int best_distance = 3; // too different
    for (size_t i = 0; i < t->n_opt + t->n_alias; i++) {
        const fxi_opt_alias *a = i < t->n_opt ? NULL : &t->alias[i - t->n_opt];
        const char *at = a ? a->words : t->opt[i].name, *w;
        size_t n_word;
        if (a ? !a->name || !find_row(t, command, a->name, strlen(a->name))
              : !(t->opt[i].commands & command))
            continue;
        while ((w = next_spelling(&at, &n_word))) {
            const size_t n_dash = strspn(w, "-");
            const int d = fxi_opt_distance(name, n, w + n_dash, n_word - n_dash);
            if (n_dash == 1 || d >= best_distance || d >= (int)n) continue;
            best_distance = d;
            best = w + n_dash;
            *n_near = n_word - n_dash;
        }
    }
    return best;
}

// `where` and `dashes` precede the name in the error.
static fx_status unknown_option(const fxi_opt_table *t, unsigned command, const char *where,
                                const char *dashes, const char *name, size_t n, fx_error *err)
{
    const fxi_opt_alias *a = find_alias(t, *dashes ? dashes : "--", name, n);
    size_t n_near = 0;
    const char *near = dashes[0] && !dashes[1] ? NULL : nearest_name(t, command, name, n, &n_near);
    const int n_shown = n < 60 ? (int)n : 60;
    if (a && a->hint)
        return fxi_fail(err, FX_EINVAL, "%sno option '%s%.*s' here: %s", where, dashes, n_shown,
                        name, a->hint);
    return fxi_fail(err, FX_EINVAL, "%sunknown option '%s%.*s'%s%s%.*s%s", where, dashes, n_shown,
                    name, near ? "; did you mean '" : "", near ? dashes : "", (int)n_near,
                    near ? near : "", near ? "'?" : "");
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
    const fxi_opt *o = find_option(t, command, "--", e->key, strlen(e->key));
    char where[WHERE_BYTES];
    snprintf(where, WHERE_BYTES, "%.80s:%d: ", f->name, e->line);
    if (!command) return fxi_fail(err, FX_EINVAL, "%sunknown command '%.40s'", where, e->section);
    if (!o) return unknown_option(t, command, where, "", e->key, strlen(e->key), err);
    if (o->type == FXI_OPT_CONFIG)
        return fxi_fail(err, FX_EINVAL, "%s'%.40s' cannot be set in a file", where, e->key);
    for (const fxi_opt_entry *first = f->entry; first < e; first++)
        if (!strcmp(first->section, e->section) &&
            o == find_option(t, command, "--", first->key, strlen(first->key)))
            return fxi_fail(err, FX_EINVAL, "%s'%.60s' is set twice, first in line %d", where,
                            e->key, first->line);
    return FX_OK;
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
    s->rest->set[o - s->t->opt] = (fxi_opt_set){.text = text, .from = from, .line = line};
    return FX_OK;
}

// Those in the section of this command; 0: those before any section.
static fx_status take_entries(const opt_scan *s, unsigned section)
{
    const fxi_opt_file *f = &s->rest->file;
    for (size_t i = 0; i < f->n_entry; i++) {
        const fxi_opt_entry *e = &f->entry[i];
        const fxi_opt *o = find_option(s->t, s->command, "--", e->key, strlen(e->key));
        char where[WHERE_BYTES];
        if (!o || section_bit(s->t, e->section) != section) continue;
        snprintf(where, WHERE_BYTES, "%.80s:%d: %.40s", f->name, e->line, e->key);
        FX_TRY(set_row(s, o, where, e->value, FXI_OPT_FROM_FILE, e->line));
    }
    return FX_OK;
}

// From the variable of a name of n bytes: the option's own or an alias.
static fx_status take_variable(const opt_scan *s, const fxi_opt *o, const char *option, size_t n)
{
    char copy[MAX_NAME + 1], name[FXI_OPT_ENV_BYTES];
    snprintf(copy, sizeof copy, "%.*s", (int)n, option);
    fxi_opt_env_name(s->t, copy, name);
    const char *text = o && (o->commands & s->command) ? getenv(name) : NULL;
    if (!text || !*text) return FX_OK;
    FX_TRY(set_row(s, o, name, text, FXI_OPT_FROM_ENVIRONMENT, 0));
    s->rest->set[o - s->t->opt].variable = (fxi_str){option, n};
    return FX_OK;
}

static fx_status take_environment(const opt_scan *s)
{
    for (size_t i = 0; i < s->t->n_alias; i++) {
        const fxi_opt_alias *a = &s->t->alias[i];
        size_t n;
        for (const char *at = a->words, *w; a->name && (w = next_spelling(&at, &n));)
            if (w[1] == '-')
                FX_TRY(take_variable(s, find_row(s->t, s->command, a->name, strlen(a->name)), w + 2,
                                     n - 2));
    }
    for (const fxi_opt *o = s->t->opt; o < s->t->opt + s->t->n_opt; o++) // wins
        FX_TRY(take_variable(s, o, o->name, strlen(o->name)));
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

// "--name", "--name=VALUE", "-np", "-x" or "-xVALUE".
static fx_status take_option(opt_scan *s, const char *word)
{
    const bool is_long = word[1] == '-';
    const size_t n_dash = is_long ? 2 : 1, n = strcspn(word + n_dash, is_long ? "=" : "");
    const fxi_opt *o = fxi_opt_find(s->t, s->command, word);
    const char *attached = is_long && word[n_dash + n] ? word + n_dash + n + 1 : NULL;
    char source[MAX_NAME + 3];
    snprintf(source, sizeof source, "%.*s", (int)(n_dash + n), word);
    if (!o && !is_long && !find_alias(s->t, "-", word + 1, n)) {
        o = find_letter(s->t, s->command, word[1]);
        if (o && o->type == FXI_OPT_FLAG) o = NULL; // takes no value
        attached = word + 2;
        source[2] = 0;
    }
    if (!o)
        return unknown_option(s->t, s->command, "", is_long ? "--" : "-", word + n_dash, n, s->err);
    return take_value(s, o, source, attached);
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
            FX_TRY(take_option(s, arg));
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

fx_status fxi_opt_give(const fxi_opt_table *t, const fxi_opt *o, const char *text, void *out,
                       fxi_opt_rest *rest, fx_error *err)
{
    const opt_scan s = {.t = t, .out = out, .rest = rest, .err = err};
    return set_row(&s, o, o->name, text, FXI_OPT_FROM_FLAG, 0);
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
