// bench_program.c - the options of a bench, its parts, and rows of results.
#include "bench_program.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY

// ---- options and parts

// The part whose name is the first n bytes of `name`, or NULL.
static const bench_part *find_part(const bench_program *p, const char *name, size_t n)
{
    for (const bench_part *part = p->part; part < p->part + p->n_part; part++)
        if (strlen(part->name) == n && !strncmp(part->name, name, n)) return part;
    return NULL;
}

static fx_status check_names(const bench_program *p, const char *only, fx_error *err)
{
    while (only) {
        const size_t n = strcspn(only, ",");
        if (!find_part(p, only, n))
            return fxi_fail(err, FX_EINVAL, "--only: '%.*s' is no part of this bench", (int)n,
                            only);
        only = only[n] ? only + n + 1 : NULL;
    }
    return FX_OK;
}

bool parts_begin(const bench_program *p, int argc, char **argv, struct bench *b,
                 const char *const *only, int *status)
{
    const fxi_opt_table t = {.opt = p->opt, .n_opt = p->n_opt, .env_prefix = p->env_prefix};
    fxi_opt_rest rest = {0};
    fxi_buf text = {0};
    fx_error err = {0};
    fx_status st = fxi_opt_parse(&t, 1, argc - 1, argv + 1, b, &rest, &err);
    if (!st && rest.n) st = fxi_fail(&err, FX_EINVAL, "'%s' is not understood", rest.arg[0]);
    if (!st) st = check_names(p, *only, &err);
    if (st) fprintf(stderr, "%s: %s\n", p->name, err.text);
    *status = 1;
    if (st || !rest.help) return !st;
    if (fxi_opt_help(&t, 1, &text))
        *status = printf("usage: %s [options]\n%s", p->name, text.p) < 0;
    fxi_buf_free(&text);
    return false;
}

static bool is_listed(const char *only, const char *name)
{
    const size_t n = strlen(name);
    for (; only; only = strchr(only, ',') ? strchr(only, ',') + 1 : NULL)
        if (strcspn(only, ",") == n && !strncmp(only, name, n)) return true;
    return false;
}

void parts_run(const bench_program *p, const char *only, struct bench *b)
{
    for (const bench_part *part = p->part; part < p->part + p->n_part; part++)
        if (!only || is_listed(only, part->name)) part->run(b);
}

// ---- rows

void results_open(results *r, const char *csv_path, const char *columns)
{
    const bool to_stdout = csv_path && !strcmp(csv_path, "-");
    r->table = to_stdout ? NULL : stdout;
    r->csv = to_stdout ? stdout : csv_path ? fopen(csv_path, "w") : NULL;
    if (csv_path && !r->csv) die("%s: cannot be written", csv_path);
    if (r->csv) fprintf(r->csv, "%s\n", columns);
}

bool results_close(results *r)
{
    if (!r->csv || r->csv == stdout) return fflush(stdout) == 0;
    return fclose(r->csv) == 0;
}

void section(results *r, const char *name, const char *title)
{
    r->section = name;
    if (r->table) fprintf(r->table, "\n%s: %s\n", name, title);
}

void row_begin(results *r, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsnprintf(r->row, sizeof r->row, format, ap);
    va_end(ap);
    if (r->table) fprintf(r->table, "  %-40s", r->row);
}

static int n_digit(double value)
{
    if (fabs(value - rint(value)) < 1e-9 || fabs(value) >= 1000) return 0;
    return fabs(value) < 10 ? 2 : 1;
}

static void csv_cell(results *r, const char *what, const char *which, double value,
                     const char *unit)
{
    if (r->csv)
        fprintf(r->csv, "%s,\"%s\",%s,%s%s,%.6g,%s%s\n", r->section, r->row, r->setting, what,
                which, value, unit, r->size);
}

void row_cell(results *r, const char *what, double value, const char *unit)
{
    if (r->table) fprintf(r->table, "  %s %.*f %s", what, n_digit(value), value, unit);
    csv_cell(r, what, "", value, unit);
}

void row_spread(results *r, const char *what, samples *s, const char *unit)
{
    const double mid = samples_at(s, 0.5), least = samples_at(s, 0), most = samples_at(s, 1);
    const int digits = n_digit(mid);
    if (r->table)
        fprintf(r->table, "  %s %.*f (%.*f..%.*f) %s", what, digits, mid, digits, least, digits,
                most, unit);
    csv_cell(r, what, "", mid, unit);
    csv_cell(r, what, " least", least, unit);
    csv_cell(r, what, " most", most, unit);
    samples_free(s);
}

void row_interval(results *r, const char *what, samples *s, const char *unit)
{
    const double mid = samples_at(s, 0.5), low = samples_bound(s, false),
                 high = samples_bound(s, true);
    if (r->table) fprintf(r->table, "  %s %.2f (95 %%: %.2f..%.2f) %s", what, mid, low, high, unit);
    csv_cell(r, what, "", mid, unit);
    csv_cell(r, what, " low", low, unit);
    csv_cell(r, what, " high", high, unit);
    samples_free(s);
}

void row_end(results *r)
{
    if (r->table) fprintf(r->table, "\n"), fflush(r->table);
}
