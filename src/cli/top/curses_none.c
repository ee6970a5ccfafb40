// curses_none.c - in place of curses_screen.c where the build found no ncurses.
#include "cli/top/curses_screen.h"

#include "base/fail.h" // defines: fxi_fail

fx_status fxi_curses_open(fx_error *err)
{
    return fxi_fail(err, FX_EINVAL,
                    "this program was built without ncurses: --once prints one screen");
}

void fxi_curses_close(void)
{
}

bool fxi_curses_is_utf8(void)
{
    return false;
}

void fxi_curses_size(int *n_row, int *n_col)
{
    *n_row = *n_col = 0;
}

void fxi_curses_show(const fxi_screen *s)
{
    (void)s;
}

fxi_top_key fxi_curses_key(void)
{
    return FXI_KEY_QUIT;
}
