// parts.c - the options of a bench, and its parts, by name.
#include "parts.h"

#include <stdio.h>
#include <string.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY

static bool is_named(const bench_part *p, const char *name, size_t n)
{
    return strlen(p->name) == n && !strncmp(p->name, name, n);
}

static const char *after_comma(const char *at)
{
    const char *comma = strchr(at, ',');
    return comma ? comma + 1 : NULL;
}

static bool is_listed(const char *only, const bench_part *p)
{
    for (const char *at = only; at; at = after_comma(at))
        if (is_named(p, at, strcspn(at, ","))) return true;
    return !only;
}

static bool is_part(const bench_program *p, const char *name, size_t n)
{
    for (int i = 0; i < p->n_part; i++)
        if (is_named(&p->part[i], name, n)) return true;
    return false;
}

static fx_status check_names(const bench_program *p, const char *only, fx_error *err)
{
    for (const char *at = only; at; at = after_comma(at)) {
        const size_t n = strcspn(at, ",");
        if (!is_part(p, at, n))
            return fxi_fail(err, FX_EINVAL, "--only: '%.*s' is no part of this bench", (int)n, at);
    }
    return FX_OK;
}

static fx_status take_options(const bench_program *p, int argc, char **argv, struct bench *b,
                              const char *const *only, bool *help, fx_error *err)
{
    fxi_opt_rest rest;
    FX_TRY(fxi_opt_parse(p->table, 1, argc - 1, argv + 1, b, &rest, err));
    *help = rest.help;
    if (rest.n) return fxi_fail(err, FX_EINVAL, "'%s' is not understood", rest.arg[0]);
    return check_names(p, *only, err);
}

static int print_help(const bench_program *p)
{
    fxi_buf text = {0};
    if (!fxi_opt_help(p->table, 1, &text)) return 1;
    printf("usage: %s [options]\n%s", p->name, text.p);
    fxi_buf_free(&text);
    return 0;
}

bool parts_begin(const bench_program *p, int argc, char **argv, struct bench *b,
                 const char *const *only, int *status)
{
    fx_error err = {0};
    bool help = false;
    *status = 1;
    if (take_options(p, argc, argv, b, only, &help, &err) != FX_OK) {
        fprintf(stderr, "%s: %s\n", p->name, err.text);
        return false;
    }
    if (help) *status = print_help(p);
    return !help;
}

void parts_run(const bench_program *p, const char *only, struct bench *b)
{
    for (int i = 0; i < p->n_part; i++)
        if (is_listed(only, &p->part[i])) p->part[i].run(b);
}
