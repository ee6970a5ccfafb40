// rows.c - rows of results, as a table and as CSV.
#include "bench_serving.h"

#include <stdarg.h>

void section(bench *b, const char *name, const char *title)
{
    b->section = name;
    if (b->table) fprintf(b->table, "\n%s: %s\n", name, title);
}

void row_begin(bench *b, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsnprintf(b->row, sizeof b->row, format, ap);
    va_end(ap);
    if (b->table) fprintf(b->table, "  %-40s", b->row);
}

static int n_digit(double value)
{
    if (fabs(value - rint(value)) < 1e-9 || fabs(value) >= 1000) return 0;
    return fabs(value) < 10 ? 2 : 1;
}

static void csv_cell(bench *b, const char *what, const char *which, double value, const char *unit)
{
    if (b->csv)
        fprintf(b->csv, "%s,\"%s\",%s,%s%s,%.6g,%s\n", b->section, b->row, b->model_name, what,
                which, value, unit);
}

void row_cell(bench *b, const char *what, double value, const char *unit)
{
    if (b->table) fprintf(b->table, "  %s %.*f %s", what, n_digit(value), value, unit);
    csv_cell(b, what, "", value, unit);
}

void row_spread(bench *b, const char *what, samples *s, const char *unit)
{
    const double mid = samples_at(s, 0.5), least = samples_at(s, 0), most = samples_at(s, 1);
    const int digits = n_digit(mid);
    if (b->table)
        fprintf(b->table, "  %s %.*f (%.*f..%.*f) %s", what, digits, mid, digits, least, digits,
                most, unit);
    csv_cell(b, what, "", mid, unit);
    csv_cell(b, what, " least", least, unit);
    csv_cell(b, what, " most", most, unit);
    samples_clear(s);
}

void row_end(bench *b)
{
    if (b->table) fprintf(b->table, "\n"), fflush(b->table);
}
