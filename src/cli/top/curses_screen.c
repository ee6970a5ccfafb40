// curses_screen.c - cells to ncurses. Attributes (bold, dim, reverse) say what colours say, too.
// Where the build found no ncurses (FX_NCURSES), the functions at the end take its place.
#include "cli/top/curses_screen.h"

#include "base/fail.h" // defines: fxi_fail

#ifdef FX_NCURSES

#    include <curses.h>
#    include <langinfo.h>
#    include <locale.h>
#    include <stdlib.h>
#    include <string.h>

static const struct {
    attr_t attr;
    short color; // of the text; -1: the terminal's own
} looks[FXI_N_STYLE] = {
    [FXI_STYLE_PLAIN] = {A_NORMAL, -1},
    [FXI_STYLE_DIM] = {A_DIM, -1},
    [FXI_STYLE_BOLD] = {A_BOLD, -1},
    [FXI_STYLE_BAR] = {A_REVERSE, -1},
    [FXI_STYLE_WARN] = {A_REVERSE | A_BOLD, -1},
    [FXI_STYLE_SPARE] = {A_DIM, -1},
    [FXI_STYLE_OWNED] = {A_NORMAL, COLOR_BLUE},
    [FXI_STYLE_SHARED] = {A_BOLD, COLOR_YELLOW},
    [FXI_STYLE_CACHED] = {A_NORMAL, COLOR_CYAN},
    [FXI_STYLE_SWAPPED] = {A_UNDERLINE, COLOR_MAGENTA},
};

static void start_colors(void)
{
    const char *off = getenv("NO_COLOR");
    if ((off && *off) || !has_colors() || start_color() == ERR) return;
    const bool has_own = use_default_colors() == OK;
    for (short i = 0; i < FXI_N_STYLE; i++)
        if (looks[i].color >= 0)
            init_pair((short)(i + 1), looks[i].color, (short)(has_own ? -1 : COLOR_BLACK));
}

fx_status fxi_curses_open(fx_error *err)
{
    const char *term = getenv("TERM");
    setlocale(LC_CTYPE, "");
    if (!newterm(NULL, stdout, stdin))
        return fxi_fail(err, FX_EIO, "the terminal '%.40s' is not known: --once prints one screen",
                        term ? term : "");
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(25);
    curs_set(0);
    start_colors();
    return FX_OK;
}

void fxi_curses_close(void)
{
    SCREEN *s = set_term(NULL);
    set_term(s);
    endwin();
    delscreen(s);
}

bool fxi_curses_is_utf8(void)
{
    return !strcmp(nl_langinfo(CODESET), "UTF-8");
}

void fxi_curses_size(int *n_row, int *n_col)
{
    getmaxyx(stdscr, *n_row, *n_col);
}

static void set_look(int style)
{
    attr_set(looks[style].attr, looks[style].color >= 0 && has_colors() ? (short)(style + 1) : 0,
             NULL);
}

void fxi_curses_show(const fxi_screen *s)
{
    erase();
    for (int row = 0; row < s->n_row; row++)
        for (int col = 0; col < s->n_col; col++) {
            const fxi_cell *c = &s->cell[row * s->n_col + col];
            set_look(c->style);
            mvaddstr(row, col, c->text);
        }
    refresh();
}

fxi_top_key fxi_curses_key(void)
{
    static const struct {
        int code;
        fxi_top_key key;
    } keys[] = {
        {ERR, FXI_KEY_NONE},
        {'q', FXI_KEY_QUIT},
        {'Q', FXI_KEY_QUIT},
        {'p', FXI_KEY_PAUSE},
        {' ', FXI_KEY_PAUSE},
        {'s', FXI_KEY_SORT},
        {'r', FXI_KEY_REVERSE},
        {'?', FXI_KEY_HELP},
        {'h', FXI_KEY_HELP},
        {KEY_UP, FXI_KEY_UP},
        {'k', FXI_KEY_UP},
        {KEY_DOWN, FXI_KEY_DOWN},
        {'j', FXI_KEY_DOWN},
        {KEY_PPAGE, FXI_KEY_PAGE_UP},
        {KEY_NPAGE, FXI_KEY_PAGE_DOWN},
        {KEY_HOME, FXI_KEY_HOME},
        {'g', FXI_KEY_HOME},
        {KEY_END, FXI_KEY_END},
        {'G', FXI_KEY_END},
    };
    const int code = getch();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i].code == code) return keys[i].key;
    return FXI_KEY_OTHER;
}

#else

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

#endif
