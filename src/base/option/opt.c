// opt.c - the values of options from their sources, the last one winning: defaults, a file, the
// environment, the command line.
//
// The option that names the file may be on the command line or in the environment, so these are
// read twice: first to find it, then on top of what the file says.
#include "base/option/opt_impl.h"

#include <stdlib.h>
#include <string.h>

typedef struct opt_scan {
    const fxi_opt_table *t;
    unsigned command;
    int argc, i; // argv[i] is the argument being looked at
    char *const *argv;
    void *out;
    fxi_opt_rest *rest;
    fx_error *err;
} opt_scan;

// `where` names the source in errors.
static fx_status set_row(const opt_scan *s, const fxi_opt *o, const char *where, const char *text,
                         fxi_opt_from from, int line)
{
    FX_TRY(fxi_opt_store(o, where, text, s->out, s->err));
    s->rest->set[o - s->t->opt] = (fxi_opt_set){text, from, line};
    return FX_OK;
}

// ---- defaults, file, environment ----------------------------------------------------------------

static fx_status take_presets(const opt_scan *s)
{
    for (size_t i = 0; i < s->t->n_opt; i++) {
        const fxi_opt *o = &s->t->opt[i];
        if ((o->commands & s->command) && o->preset)
            FX_TRY(set_row(s, o, o->name, o->preset, FXI_OPT_FROM_PRESET, 0));
    }
    return FX_OK;
}

// Entries of the command's own section go last, so they win.
static fx_status take_entries(const opt_scan *s, bool of_section)
{
    const fxi_opt_file *f = &s->rest->file;
    for (size_t i = 0; i < f->n_entry; i++) {
        const fxi_opt_entry *e = &f->entry[i];
        const fxi_opt *o = fxi_opt_find(s->t, s->command, e->key, strlen(e->key));
        const bool is_ours = !e->section[0] != of_section;
        char where[FXI_OPT_WHERE_BYTES];
        if (!is_ours || !o) continue;
        if (of_section && fxi_opt_section_bit(s->t, e->section) != s->command) continue;
        fxi_opt_file_where(f, e, where);
        FX_TRY(set_row(s, o, where, e->value, FXI_OPT_FROM_FILE, e->line));
    }
    return FX_OK;
}

static fx_status take_environment(const opt_scan *s)
{
    for (size_t i = 0; i < s->t->n_opt; i++) {
        const fxi_opt *o = &s->t->opt[i];
        if (!(o->commands & s->command)) continue;
        char name[FXI_OPT_ENV_BYTES];
        fxi_opt_env_name(s->t, o, name);
        const char *text = getenv(name);
        if (text && *text) FX_TRY(set_row(s, o, name, text, FXI_OPT_FROM_ENVIRONMENT, 0));
    }
    return FX_OK;
}

// ---- the command line ---------------------------------------------------------------------------

// Stores the value of `o`: `attached`, if there is one, otherwise the next argument.
static fx_status take_value(opt_scan *s, const fxi_opt *o, const char *source, const char *attached)
{
    if (o->type == FXI_OPT_FLAG)
        return set_row(s, o, source, attached ? attached : "yes", FXI_OPT_FROM_FLAG, 0);
    if (attached) return set_row(s, o, source, attached, FXI_OPT_FROM_FLAG, 0);
    if (s->i + 1 >= s->argc)
        return fxi_fail(s->err, FX_EINVAL, "%s: a value is missing (%s)", source, o->arg);
    return set_row(s, o, source, s->argv[++s->i], FXI_OPT_FROM_FLAG, 0);
}

static fx_status unknown_long(const fxi_opt_table *t, unsigned command, const char *name, size_t n,
                              fx_error *err)
{
    const char *near = fxi_opt_nearest(t, command, name, n);
    if (!near)
        return fxi_fail(err, FX_EINVAL, "unknown option '--%.*s'", n < 60 ? (int)n : 60, name);
    return fxi_fail(err, FX_EINVAL, "unknown option '--%.*s'; did you mean '--%s'?", (int)n, name,
                    near);
}

static fx_status take_long(opt_scan *s, const char *name)
{
    size_t n = strcspn(name, "=");
    const fxi_opt *o = fxi_opt_find(s->t, s->command, name, n);
    if (!o) return unknown_long(s->t, s->command, name, n, s->err);
    char source[FXI_OPT_MAX_NAME + 3] = "--";
    strncat(source, o->name, FXI_OPT_MAX_NAME);
    return take_value(s, o, source, name[n] ? name + n + 1 : NULL);
}

static fx_status take_short(opt_scan *s, const char *letters)
{
    const fxi_opt *o = fxi_opt_find_letter(s->t, s->command, letters[0]);
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

static fx_status take_arguments(opt_scan *s)
{
    fxi_opt_rest *rest = s->rest;
    rest->n = 0;
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

// ---- all of them --------------------------------------------------------------------------------

static fx_status take_all(opt_scan *s)
{
    FX_TRY(take_presets(s));
    FX_TRY(take_entries(s, false));
    FX_TRY(take_entries(s, true));
    FX_TRY(take_environment(s));
    return take_arguments(s);
}

// The file that the options name; NULL: none.
static const char *config_path(const opt_scan *s)
{
    for (size_t i = 0; i < s->t->n_opt; i++) {
        const fxi_opt *o = &s->t->opt[i];
        const char *path = s->rest->set[i].text;
        if (o->type == FXI_OPT_CONFIG && (o->commands & s->command) && path && *path) return path;
    }
    return NULL;
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
    *rest = (fxi_opt_rest){.n = 0};
    if (t->n_opt > FXI_OPT_MAX_ROW)
        return fxi_fail(err, FX_EINTERNAL, "more than %d options", FXI_OPT_MAX_ROW);
    FX_TRY(take_all(&s));
    const char *path = config_path(&s);
    if (rest->help || !path) return FX_OK;
    FX_TRY(fxi_opt_file_read(path, &rest->file, err));
    FX_TRY(fxi_opt_file_check(&rest->file, t, err));
    return take_all(&s);
}

void fxi_opt_rest_free(fxi_opt_rest *rest)
{
    fxi_opt_file_free(&rest->file);
}
