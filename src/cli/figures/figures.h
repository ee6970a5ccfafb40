// figures.h - `flexinfer bench figures`: rows of CSV as drawings.
//
//   figure_table.c   the figures: one row each
//   figure_data.c    a CSV file as columns
//   figure_script.c  a figure and its data as a gnuplot script
//   figure_draw.c    gnuplot runs the scripts
#ifndef FXI_CLI_FIGURES_H
#define FXI_CLI_FIGURES_H

#include "base/fail.h"
#include "base/text/buf.h"
#include "base/text/str.h"

#include <stdbool.h>
#include <stddef.h>

// ---- a figure ----------------------------------------------------------------------------------

typedef enum fxi_figure_kind {
    FXI_FIGURE_LINES, // y over the numbers x: a line for each series
    FXI_FIGURE_BARS,  // groups for each x: a bar for each series
    FXI_FIGURE_STACKS // a bar for each x: its parts are the columns of y
} fxi_figure_kind;

enum { FXI_FIGURE_MAX_Y = 6, FXI_FIGURE_MAX_ONLY = 3 };

typedef struct fxi_figure_y {
    const char *column;
    const char *name; // in the key; NULL: the series alone
} fxi_figure_y;

typedef struct fxi_figure {
    const char *name; // of its files
    const char *data; // name of the CSV file without ".csv"
    const char *title;
    fxi_figure_kind kind;
    const char *x, *x_label;
    const char *series; // column whose values are the series; NULL: one, without a name
    const char *only;   // column=value[,column=value]: the rows that are drawn; NULL: all
    fxi_figure_y y[FXI_FIGURE_MAX_Y];
    const char *y_label;
    const char *settings; // lines of gnuplot; NULL: none
} fxi_figure;

extern const fxi_figure fxi_figures[];
extern const int fxi_n_figure;

// ---- data --------------------------------------------------------------------------------------

// A CSV file: names of columns, then rows. No field holds a comma or a quote.
typedef struct fxi_csv {
    const char *name; // for error texts
    int n_col;
    size_t n_row, cap_cell;
    fxi_str *cell; // [n_row + 1, n_col] in the text; the first row are the names
} fxi_csv;

// `text` and `name` are kept by reference; the caller frees *out, on errors too. Errors: FX_EFORMAT
// (with the line), FX_ENOMEM.
fx_status fxi_csv_read(fxi_str text, const char *name, fxi_csv *out, fx_error *err);
void fxi_csv_free(fxi_csv *c);
int fxi_csv_column(const fxi_csv *c, fxi_str name); // -1: there is none
static inline fxi_str fxi_csv_cell(const fxi_csv *c, size_t row, int col)
{
    return c->cell[(row + 1) * (size_t)c->n_col + (size_t)col];
}

// ---- drawing -----------------------------------------------------------------------------------

// Appends a gnuplot script that draws the figure as NAME.svg and NAME.png in the working folder.
// Errors: FX_EFORMAT (a column that is not there, no row to draw), FX_ENOMEM.
fx_status fxi_figure_script(const fxi_figure *f, const fxi_csv *data, fxi_buf *script,
                            fx_error *err);

// Draws every figure whose data is in the folder `from`, as NAME.gp, NAME.svg and NAME.png in the
// folder `to`; *n_drawn counts them. Errors: FX_EIO (no data, no gnuplot, or it failed),
// FX_EFORMAT, FX_ENOMEM.
fx_status fxi_figures_draw(const char *from, const char *to, int *n_drawn, fx_error *err);

#endif
