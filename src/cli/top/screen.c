// screen.c - cells, text into them, and cells to ncurses. Attributes (bold, dim, reverse) repeat
// what colours say. Without ncurses (FX_NCURSES), there is no terminal.
#include "cli/top/screen.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h" // defines: fxi_fail

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

bool fxi_screen_text(const fxi_screen *s, fxi_buf *out)
{
    bool ok = true;
    for (int row = 0; ok && row < s->n_row; row++) {
        const fxi_cell *cell = &s->cell[row * s->n_col];
        int n = s->n_col;
        while (n > 0 && !strcmp(cell[n - 1].text, " ")) n--;
        for (int col = 0; ok && col < n; col++) ok = fxi_buf_str(out, cell[col].text);
        ok = ok && fxi_buf_str(out, "\n");
    }
    return ok;
}

// ---- the terminal ------------------------------------------------------------------------------

#ifdef FX_NCURSES

#    include <curses.h>
#    include <langinfo.h>
#    include <locale.h>

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

fx_status fxi_curses_open(fx_error *err)
{
    const char *term = getenv("TERM"), *off = getenv("NO_COLOR");
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
    if ((off && *off) || !has_colors() || start_color() == ERR) return FX_OK;
    const bool has_own = use_default_colors() == OK;
    for (short i = 0; i < FXI_N_STYLE; i++)
        if (looks[i].color >= 0)
            init_pair((short)(i + 1), looks[i].color, (short)(has_own ? -1 : COLOR_BLACK));
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

void fxi_curses_show(const fxi_screen *s)
{
    erase();
    for (int row = 0; row < s->n_row; row++)
        for (int col = 0; col < s->n_col; col++) {
            const fxi_cell *c = &s->cell[row * s->n_col + col];
            const bool has_color = looks[c->style].color >= 0 && has_colors();
            attr_set(looks[c->style].attr, has_color ? (short)(c->style + 1) : 0, NULL);
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

#endif
