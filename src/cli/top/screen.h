// screen.h - a screen as data: lines of cells, each a character and a style. It knows no terminal.
#ifndef FXI_CLI_SCREEN_H
#define FXI_CLI_SCREEN_H

#include "base/text/buf.h"

typedef enum fxi_style {
    FXI_STYLE_PLAIN,
    FXI_STYLE_DIM,
    FXI_STYLE_BOLD,
    FXI_STYLE_BAR,  // lines at the edges
    FXI_STYLE_WARN, // what is wrong
    // States of chunks, which have letters, too.
    FXI_STYLE_SPARE,
    FXI_STYLE_OWNED,
    FXI_STYLE_SHARED,
    FXI_STYLE_CACHED,
    FXI_STYLE_SWAPPED,
    FXI_N_STYLE
} fxi_style;

typedef struct fxi_cell {
    char text[4]; // one character of one column, UTF-8
    unsigned char style;
} fxi_cell;

typedef struct fxi_screen { // all zero: none
    int n_row, n_col;
    fxi_cell *cell; // [n_row][n_col]
} fxi_screen;

// Blanks. False: no memory. Free with fxi_screen_free.
bool fxi_screen_make(fxi_screen *s, int n_row, int n_col);
void fxi_screen_free(fxi_screen *s);

// Writes a text from this cell on, cut off at the edge; what is not printable ASCII becomes '?'.
// Returns the column behind it. Rows and columns outside the screen are allowed.
__attribute__((format(printf, 5, 6))) int fxi_screen_put(fxi_screen *s, int row, int col,
                                                         fxi_style style, const char *fmt, ...);
// One character of up to 3 bytes of UTF-8.
void fxi_screen_glyph(fxi_screen *s, int row, int col, fxi_style style, const char *glyph);
// The whole row gets this style.
void fxi_screen_paint(fxi_screen *s, int row, fxi_style style);

// Appends the lines as plain text, without blanks at their ends. False: no memory.
bool fxi_screen_text(const fxi_screen *s, fxi_buf *out);

#endif
