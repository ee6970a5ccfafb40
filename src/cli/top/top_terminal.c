// top_terminal.c - the terminal of `flexinfer top`, by ncurses. Attributes (bold, dim, reverse)
// repeat what colours say.
#ifdef FX_NCURSES

#    include "cli/top/top.h"

#    include <curses.h>
#    include <langinfo.h>
#    include <locale.h>
#    include <stdlib.h>
#    include <string.h>

#    include "base/fail.h" // defines: fxi_fail

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

fx_status fxi_curses_open(bool *is_utf8, fx_error *err)
{
    const char *term = getenv("TERM"), *off = getenv("NO_COLOR");
    setlocale(LC_CTYPE, "");
    if (!newterm(NULL, stdout, stdin))
        return fxi_fail(err, FX_EIO, "the terminal '%.40s' is not known: --once prints one screen",
                        term ? term : "");
    *is_utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
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

bool fxi_curses_draw(const fxi_top_state *now, fxi_top_view *v)
{
    fxi_screen s;
    const size_t n = fxi_top_rows(now), n_shown = fxi_top_rows_shown(LINES);
    const size_t last = n > n_shown ? n - n_shown : 0;
    if (v->first > last) v->first = last;
    const bool ok = fxi_top_draw(&s, LINES, COLS, now, v);
    erase();
    for (int i = 0; ok && i < s.n_row * s.n_col; i++) {
        const unsigned char style = s.cell[i].style;
        const bool has_color = looks[style].color >= 0 && has_colors();
        attr_set(looks[style].attr, has_color ? (short)(style + 1) : 0, NULL);
        mvaddstr(i / s.n_col, i % s.n_col, s.cell[i].text);
    }
    refresh();
    fxi_screen_free(&s);
    return ok;
}

bool fxi_curses_take_keys(fxi_top_view *v)
{
    for (int key; (key = getch()) != ERR;) {
        const size_t page = fxi_top_rows_shown(LINES);
        switch (key) {
        case 'q':
        case 'Q': return false;
        case 'p':
        case ' ': v->is_paused = !v->is_paused; break;
        case 's': v->sort = (v->sort + 1) % FXI_TOP_N_SORT; break;
        case 'r': v->is_reversed = !v->is_reversed; break;
        case '?':
        case 'h': v->shows_help = !v->shows_help; break;
        case KEY_HOME:
        case 'g': v->first = 0; break;
        case KEY_END:
        case 'G': v->first = SIZE_MAX / 2; break; // drawing brings it back
        case KEY_UP:
        case 'k': v->first -= v->first > 0; break;
        case KEY_DOWN:
        case 'j': v->first++; break;
        case KEY_PPAGE: v->first -= v->first < page ? v->first : page; break;
        case KEY_NPAGE: v->first += page; break;
        default: break; // one without a meaning, or a new size
        }
    }
    return true;
}

#endif
