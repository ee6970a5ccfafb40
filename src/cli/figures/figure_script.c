// figure_script.c - a figure as a gnuplot script that holds its data, so that it can be changed and
// drawn again without anything else.
#include "cli/figures/figures.h"

#include <stdlib.h>

typedef struct drawing {
    const fxi_figure *f;
    const fxi_csv *data;
    fxi_buf *to;
    int x, series; // columns; -1: none
    int y[FXI_FIGURE_MAX_Y], n_y;
    int only[FXI_FIGURE_MAX_ONLY], n_only; // columns, and what they hold
    fxi_str only_value[FXI_FIGURE_MAX_ONLY];
    fxi_str *name; // [n_name] the series, or for stacks the values of x, in order of first use
    size_t n_name;
    bool lacks_memory; // a part of the script is missing
} drawing;

static fx_status find_column(const drawing *d, fxi_str name, int *col, fx_error *err)
{
    *col = fxi_csv_column(d->data, name);
    if (*col >= 0) return FX_OK;
    return fxi_fail(err, FX_EFORMAT, "%s: no column '%.*s'", d->data->name, (int)name.n, name.p);
}

static fx_status find_filters(drawing *d, fx_error *err)
{
    for (const char *at = d->f->only; at && d->n_only < FXI_FIGURE_MAX_ONLY; d->n_only++) {
        const char *equals = strchr(at, '='), *end = strchr(equals, ',');
        const size_t n = end ? (size_t)(end - equals - 1) : strlen(equals + 1);
        d->only_value[d->n_only] = (fxi_str){equals + 1, n};
        FX_TRY(find_column(d, (fxi_str){at, (size_t)(equals - at)}, &d->only[d->n_only], err));
        at = end ? end + 1 : NULL;
    }
    return FX_OK;
}

static fx_status find_columns(drawing *d, fx_error *err)
{
    const fxi_figure *f = d->f;
    d->series = -1;
    FX_TRY(find_column(d, fxi_str_of(f->x), &d->x, err));
    if (f->series) FX_TRY(find_column(d, fxi_str_of(f->series), &d->series, err));
    for (; d->n_y < FXI_FIGURE_MAX_Y && f->y[d->n_y].column; d->n_y++)
        FX_TRY(find_column(d, fxi_str_of(f->y[d->n_y].column), &d->y[d->n_y], err));
    return find_filters(d, err);
}

static bool is_drawn(const drawing *d, size_t row)
{
    for (int i = 0; i < d->n_only; i++)
        if (fxi_str_compare(fxi_csv_cell(d->data, row, d->only[i]), d->only_value[i])) return false;
    return true;
}

static size_t find_series_name(const fxi_str *name, size_t n, fxi_str s)
{
    size_t i = 0;
    while (i < n && fxi_str_compare(name[i], s) != 0) i++;
    return i;
}

static fxi_str series_of(const drawing *d, size_t row)
{
    return d->series < 0 ? (fxi_str){"", 0} : fxi_csv_cell(d->data, row, d->series);
}

static fx_status find_series(drawing *d, fx_error *err)
{
    d->name = malloc(d->data->n_row * sizeof *d->name);
    if (!d->name) return fxi_fail(err, FX_ENOMEM, "no memory for %s", d->f->name);
    for (size_t r = 0; r < d->data->n_row; r++) {
        const fxi_str s = series_of(d, r);
        if (is_drawn(d, r) && find_series_name(d->name, d->n_name, s) == d->n_name)
            d->name[d->n_name++] = s;
    }
    if (d->n_name > 0) return FX_OK;
    return fxi_fail(err, FX_EFORMAT, "%s: no rows for %s", d->data->name, d->f->name);
}

// ---- text ---------------------------------------------------------------------------------------

static void note_written(drawing *d, bool is_written)
{
    if (!is_written) d->lacks_memory = true;
}

static void put_cell(drawing *d, fxi_str s, const char *end)
{
    note_written(d, fxi_buf_fmt(d->to, "%.*s%s", (int)s.n, s.p, end));
}

// A text in gnuplot's double quotes.
static void put_quoted(drawing *d, fxi_str s)
{
    note_written(d, fxi_buf_str(d->to, "\""));
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] != '"' && s.p[i] != '\\') note_written(d, fxi_buf_add(d->to, s.p + i, 1));
    note_written(d, fxi_buf_str(d->to, "\""));
}

static void put_head(drawing *d)
{
    note_written(
        d, fxi_buf_fmt(d->to,
                       "# %s, drawn by `flexinfer bench figures`; draw again: gnuplot %s.gp\n"
                       "set encoding utf8\nset title \"%s\"\nset xlabel \"%s\"\nset ylabel \"%s\"\n"
                       "set grid y lc rgb '#dddddd'\nset border 3\nset tics nomirror\n"
                       "set key outside right top\nset colorsequence podo\nset yrange [0:*]\n%s",
                       d->f->name, d->f->name, d->f->title, d->f->x_label, d->f->y_label,
                       d->f->settings ? d->f->settings : ""));
}

// The key of y column k of a series.
static void put_title(drawing *d, fxi_str series, int k)
{
    const char *y = d->f->y[k].name;
    note_written(d, fxi_buf_str(d->to, " title "));
    if (!y) {
        put_quoted(d, series);
        return;
    }
    note_written(
        d, fxi_buf_fmt(d->to, "\"%.*s%s%s\"", (int)series.n, series.p, series.n ? " " : "", y));
}

static const char outputs[] =
    "set output name.'.svg'\n"
    "set terminal svg size 760,400 dynamic font 'sans-serif,13' background 'white' noenhanced\n"
    "replot\n"
    "set output name.'.png'\n"
    "set terminal pngcairo size 1140,600 font 'sans-serif,13' noenhanced\n"
    "replot\n";

// ---- lines -------------------------------------------------------------------------------------

static void put_points(drawing *d, size_t i)
{
    note_written(d, fxi_buf_fmt(d->to, "$s%zu << END\n", i));
    for (size_t r = 0; r < d->data->n_row; r++) {
        if (!is_drawn(d, r) || fxi_str_compare(series_of(d, r), d->name[i]) != 0) continue;
        put_cell(d, fxi_csv_cell(d->data, r, d->x), "");
        for (int k = 0; k < d->n_y; k++) {
            note_written(d, fxi_buf_str(d->to, " "));
            put_cell(d, fxi_csv_cell(d->data, r, d->y[k]), "");
        }
        note_written(d, fxi_buf_str(d->to, "\n"));
    }
    note_written(d, fxi_buf_str(d->to, "END\n"));
}

static void put_lines(drawing *d)
{
    for (size_t i = 0; i < d->n_name; i++) put_points(d, i);
    note_written(d, fxi_buf_str(d->to, "plot"));
    for (size_t i = 0; i < d->n_name; i++)
        for (int k = 0; k < d->n_y; k++) {
            note_written(
                d,
                fxi_buf_fmt(d->to, "%s $s%zu using 1:%d with linespoints lw 2 dt %d pt %d ps 0.6",
                            i + (size_t)k ? ", \\\n    " : "", i, k + 2, k + 1, (int)i + 1));
            put_title(d, d->name[i], k);
        }
    note_written(d, fxi_buf_str(d->to, "\n"));
}

// ---- bars: one block of data, a line for each x -------------------------------------------------

static fxi_str bar_value(const drawing *d, fxi_str x, fxi_str series, int col)
{
    for (size_t r = 0; r < d->data->n_row; r++)
        if (is_drawn(d, r) && !fxi_str_compare(fxi_csv_cell(d->data, r, d->x), x) &&
            !fxi_str_compare(series_of(d, r), series))
            return fxi_csv_cell(d->data, r, col);
    return fxi_str_of("0");
}

static void put_bar_row(drawing *d, fxi_str x)
{
    put_quoted(d, x);
    for (size_t i = 0; i < d->n_name; i++)
        for (int k = 0; k < d->n_y; k++) {
            note_written(d, fxi_buf_str(d->to, " "));
            put_cell(d, bar_value(d, x, d->name[i], d->y[k]), "");
        }
    note_written(d, fxi_buf_str(d->to, "\n"));
}

static bool is_first_with_x(const drawing *d, size_t row)
{
    const fxi_str x = fxi_csv_cell(d->data, row, d->x);
    if (!is_drawn(d, row)) return false;
    for (size_t r = 0; r < row; r++)
        if (is_drawn(d, r) && !fxi_str_compare(fxi_csv_cell(d->data, r, d->x), x)) return false;
    return true;
}

static void put_bars(drawing *d)
{
    note_written(d, fxi_buf_str(d->to, "$data << END\n"));
    for (size_t r = 0; r < d->data->n_row; r++)
        if (is_first_with_x(d, r)) put_bar_row(d, fxi_csv_cell(d->data, r, d->x));
    note_written(d,
                 fxi_buf_fmt(d->to,
                             "END\nset style data histograms\nset style histogram %s\n"
                             "set style fill solid 0.8\nset boxwidth 0.8 relative\nplot",
                             d->f->kind == FXI_FIGURE_STACKS ? "rowstacked" : "clustered gap 1"));
    for (size_t i = 0; i < d->n_name; i++)
        for (int k = 0; k < d->n_y; k++) {
            const int col = (int)i * d->n_y + k + 2;
            note_written(d, fxi_buf_fmt(d->to, "%s $data using %d:xtic(1)",
                                        col > 2 ? ", \\\n    " : "", col));
            put_title(d, d->name[i], k);
        }
    note_written(d, fxi_buf_str(d->to, "\n"));
}

// ---- the whole ---------------------------------------------------------------------------------

static fx_status put_figure(drawing *d, fx_error *err)
{
    FX_TRY(find_columns(d, err));
    FX_TRY(find_series(d, err));
    put_head(d);
    note_written(d, fxi_buf_str(d->to, "set output '/dev/null'\nset terminal svg\n"));
    d->f->kind == FXI_FIGURE_LINES ? put_lines(d) : put_bars(d);
    note_written(d, fxi_buf_fmt(d->to, "name = '%s'\n%s", d->f->name, outputs));
    return FX_OK;
}

fx_status fxi_figure_script(const fxi_figure *f, const fxi_csv *data, fxi_buf *script,
                            fx_error *err)
{
    drawing d = {.f = f, .data = data, .to = script};
    fx_status st = put_figure(&d, err);
    free(d.name);
    if (st == FX_OK && d.lacks_memory) return fxi_fail(err, FX_ENOMEM, "no memory for %s", f->name);
    return st;
}
