// screen.h - a screen as data: lines of cells, each a character and a style; and the terminal that
// shows it, by ncurses.
#ifndef FXI_CLI_SCREEN_H
#define FXI_CLI_SCREEN_H

#include "base/text/buf.h"
#include "flexinfer/error.h"

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
// Returns the column after it. Rows and columns outside the screen are allowed.
__attribute__((format(printf, 5, 6))) int fxi_screen_put(fxi_screen *s, int row, int col,
                                                         fxi_style style, const char *fmt, ...);
// One character of up to 3 bytes of UTF-8.
void fxi_screen_glyph(fxi_screen *s, int row, int col, fxi_style style, const char *glyph);
// The whole row gets this style.
void fxi_screen_paint(fxi_screen *s, int row, fxi_style style);

// Appends the lines as plain text, without blanks at their ends. False: no memory.
bool fxi_screen_text(const fxi_screen *s, fxi_buf *out);

// ---- the terminal, if the program was built with ncurses (FX_NCURSES) --------------------------

typedef enum fxi_top_key {
    FXI_KEY_NONE, // none is waiting
    FXI_KEY_QUIT,
    FXI_KEY_PAUSE,
    FXI_KEY_SORT,
    FXI_KEY_REVERSE,
    FXI_KEY_HELP,
    FXI_KEY_UP,
    FXI_KEY_DOWN,
    FXI_KEY_PAGE_UP,
    FXI_KEY_PAGE_DOWN,
    FXI_KEY_HOME,
    FXI_KEY_END,
    FXI_KEY_OTHER, // one without a meaning, or a new size
} fxi_top_key;

// Takes over the terminal of stdin and stdout until fxi_curses_close. One at a time. Colours only
// where the terminal has some and NO_COLOR is not set. Error: FX_EIO: no terminal that ncurses
// knows (TERM).
fx_status fxi_curses_open(fx_error *err);
void fxi_curses_close(void);
bool fxi_curses_is_utf8(void);
void fxi_curses_size(int *n_row, int *n_col);
void fxi_curses_show(const fxi_screen *s);
fxi_top_key fxi_curses_key(void);

#endif
