// screen.c - cells, and text into them.
#include "cli/top/screen.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool fxi_screen_make(fxi_screen *s, int n_row, int n_col)
{
    *s = (fxi_screen){n_row, n_col, calloc((size_t)n_row * (size_t)n_col + 1, sizeof(fxi_cell))};
    for (int i = 0; s->cell && i < n_row * n_col; i++) s->cell[i].text[0] = ' ';
    return s->cell != NULL;
}

void fxi_screen_free(fxi_screen *s)
{
    free(s->cell);
    *s = (fxi_screen){0};
}

void fxi_screen_glyph(fxi_screen *s, int row, int col, fxi_style style, const char *glyph)
{
    if (row < 0 || row >= s->n_row || col < 0 || col >= s->n_col) return;
    fxi_cell *c = &s->cell[row * s->n_col + col];
    snprintf(c->text, sizeof c->text, "%s", glyph);
    c->style = (unsigned char)style;
}

int fxi_screen_put(fxi_screen *s, int row, int col, fxi_style style, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    for (const char *p = text; *p; p++, col++) {
        const char one[2] = {*p >= ' ' && *p <= '~' ? *p : '?', 0};
        fxi_screen_glyph(s, row, col, style, one);
    }
    return col;
}

void fxi_screen_paint(fxi_screen *s, int row, fxi_style style)
{
    if (row < 0 || row >= s->n_row) return;
    for (int col = 0; col < s->n_col; col++)
        s->cell[row * s->n_col + col].style = (unsigned char)style;
}

static bool add_screen_row(const fxi_screen *s, int row, fxi_buf *out)
{
    const fxi_cell *cell = &s->cell[row * s->n_col];
    int n = s->n_col;
    bool ok = true;
    while (n > 0 && !strcmp(cell[n - 1].text, " ")) n--;
    for (int col = 0; ok && col < n; col++) ok = fxi_buf_str(out, cell[col].text);
    return ok && fxi_buf_str(out, "\n");
}

bool fxi_screen_text(const fxi_screen *s, fxi_buf *out)
{
    bool ok = true;
    for (int row = 0; ok && row < s->n_row; row++) ok = add_screen_row(s, row, out);
    return ok;
}
