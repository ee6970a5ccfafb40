// curses_screen.h - a screen on a terminal, by ncurses, and the keys that are pressed there.
#ifndef FXI_CLI_CURSES_SCREEN_H
#define FXI_CLI_CURSES_SCREEN_H

#include "cli/top/screen.h"
#include "flexinfer/error.h"

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
// where the terminal has some and NO_COLOR is not set. Errors: FX_EIO: no terminal that ncurses
// knows (TERM), FX_EINVAL: the program was built without ncurses.
fx_status fxi_curses_open(fx_error *err);
void fxi_curses_close(void);
bool fxi_curses_is_utf8(void);
void fxi_curses_size(int *n_row, int *n_col);
void fxi_curses_show(const fxi_screen *s);
fxi_top_key fxi_curses_key(void);

#endif
