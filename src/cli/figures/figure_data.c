// figure_data.c - a CSV file as a table of texts: a line of names, and lines with as many fields.
#include "cli/figures/figures.h"

#include "base/system/grow.h"

#include <string.h>

// Adds the line's fields behind n_cell others; *n_field: how many.
static fx_status add_fields(fxi_csv *c, size_t n_cell, fxi_str line, int *n_field, fx_error *err)
{
    *n_field = 0;
    for (bool more = true; more; (*n_field)++) {
        const char *end = memchr(line.p, ',', line.n);
        const fxi_str field = {line.p, end ? (size_t)(end - line.p) : line.n};
        if (!fxi_grow(&c->cell, sizeof *c->cell, n_cell, &c->cap_cell))
            return fxi_fail(err, FX_ENOMEM, "no memory for %s", c->name);
        c->cell[n_cell++] = field;
        more = end != NULL;
        line.p += field.n + more;
        line.n -= field.n + more;
    }
    return FX_OK;
}

fx_status fxi_csv_read(fxi_str text, const char *name, fxi_csv *out, fx_error *err)
{
    *out = (fxi_csv){.name = name};
    size_t n_line = 0;
    fxi_str line;
    for (fxi_str rest = text; fxi_str_next_line(&rest, &line);) {
        int n_field;
        FX_TRY(add_fields(out, n_line * (size_t)out->n_col, line, &n_field, err));
        if (n_line++ == 0) out->n_col = n_field;
        if (n_field != out->n_col)
            return fxi_fail(err, FX_EFORMAT, "%s:%zu: %d fields, expected %d", name, n_line,
                            n_field, out->n_col);
    }
    if (n_line < 2) return fxi_fail(err, FX_EFORMAT, "%s: no rows", name);
    out->n_row = n_line - 1;
    return FX_OK;
}

void fxi_csv_free(fxi_csv *c)
{
    free(c->cell);
    *c = (fxi_csv){0};
}

int fxi_csv_column(const fxi_csv *c, fxi_str name)
{
    for (int i = 0; i < c->n_col; i++)
        if (fxi_str_compare(c->cell[i], name) == 0) return i;
    return -1;
}
