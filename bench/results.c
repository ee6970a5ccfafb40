// results.c - rows of results, as a table and as CSV.
#include "results.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

bool results_open(results *r, const char *csv_path)
{
    const bool to_stdout = csv_path && !strcmp(csv_path, "-");
    r->table = to_stdout ? NULL : stdout;
    r->csv = to_stdout ? stdout : csv_path ? fopen(csv_path, "w") : NULL;
    if (csv_path && !r->csv) return false;
    if (r->csv) fprintf(r->csv, "section,case,model,what,value,unit\n");
    return true;
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
        fprintf(r->csv, "%s,\"%s\",%s,%s%s,%.6g,%s\n", r->section, r->row, r->model_name, what,
                which, value, unit);
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
    samples_clear(s);
}

void row_interval(results *r, const char *what, samples *s, const char *unit)
{
    const double mid = samples_at(s, 0.5), low = samples_bound(s, false),
                 high = samples_bound(s, true);
    if (r->table) fprintf(r->table, "  %s %.2f (95 %%: %.2f..%.2f) %s", what, mid, low, high, unit);
    csv_cell(r, what, "", mid, unit);
    csv_cell(r, what, " low", low, unit);
    csv_cell(r, what, " high", high, unit);
    samples_clear(s);
}

void row_end(results *r)
{
    if (r->table) fprintf(r->table, "\n"), fflush(r->table);
}
