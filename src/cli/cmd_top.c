// cmd_top.c - `flexinfer top`: what a server and its memory are doing, on a terminal.
//
// One thread polls the server (top_feed.h). This one waits for its news, keys and signals, and
// draws.
#include "cli/command.h"
#include "cli/terminal/terminal.h"
#include "cli/top/screen.h"
#include "cli/top/top_feed.h"
#include "cli/top/top_view.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"         // defines: fxi_fail, FX_TRY
#include "base/system/clock.h" // defines: fxi_now_s

#define DEFAULT_URL "http://127.0.0.1:8080"
#define DRAW_MS     1000 // at least as often: ages move on
#define ONCE_COLS   120
#define ONCE_WAIT_S 15.0
#define ONCE_RATE_S 3.0 // for a second snapshot of a busy server

// ---- the key -----------------------------------------------------------------------------------

// A file of keys as the server reads it, NAME KEY [admin] ..: the first admin's key; or a file with
// one key alone.
static bool find_client_key(FILE *f, char key[256])
{
    char line[1024], first[256], second[256], rest[512];
    bool is_admin = false;
    key[0] = 0;
    while (!is_admin && fgets(line, sizeof line, f)) {
        rest[0] = second[0] = 0;
        const int n = sscanf(line, " %255s %255s %511[^\n]", first, second, rest);
        if (n < 1 || first[0] == '#') continue;
        is_admin = n == 3 && strstr(rest, "admin");
        if (is_admin || !key[0]) snprintf(key, 256, "%s", n == 1 ? first : second);
    }
    return key[0] != 0;
}

static fx_status read_client_key(const char *path, char key[256], fx_error *err)
{
    FILE *f = fopen(path, "re");
    if (!f) return fxi_fail(err, FX_EIO, "%s: %s", path, strerror(errno));
    const bool found = find_client_key(f, key);
    fclose(f);
    return found ? FX_OK : fxi_fail(err, FX_EINVAL, "%s: it holds no key", path);
}

// ---- one screen as text ------------------------------------------------------------------------

static int columns_of_terminal(void)
{
    const char *text = getenv("COLUMNS");
    const int n = text ? atoi(text) : 0;
    return n >= 40 && n <= 1000 ? n : ONCE_COLS;
}

static fx_status print_screen(fxi_top_feed *feed, fxi_top_view *v, fx_error *err)
{
    fxi_screen s;
    fxi_buf text = {0};
    const fxi_top_state *w = fxi_top_feed_lock(feed, &v->trouble);
    bool ok = fxi_screen_make(&s, fxi_top_height(w), columns_of_terminal());
    ok = ok && fxi_top_draw(&s, w, v) && fxi_screen_text(&s, &text);
    fxi_top_feed_unlock(feed);
    if (ok) fwrite(text.p, 1, text.n, stdout);
    fxi_buf_free(&text);
    fxi_screen_free(&s);
    return ok ? FX_OK : fxi_fail(err, FX_ENOMEM, "out of memory");
}

// Waits for the first snapshot and page; then for as long as rates need. Errors: FX_EIO.
static fx_status wait_for_snapshots(fxi_top_feed *feed, const char *url, fx_error *err)
{
    const double give_up_s = fxi_now_s() + ONCE_WAIT_S;
    double enough_s = 0;
    for (;;) {
        struct pollfd p = {.fd = fxi_top_feed_fd(feed), .events = POLLIN};
        const double now_s = fxi_now_s();
        const char *trouble;
        const fxi_top_state *w = fxi_top_feed_lock(feed, &trouble);
        const bool is_there = w->number && w->n_page, is_rated = w->n_rate || !w->stats.n_running;
        const fx_status st =
            trouble ? fxi_fail(err, FX_EIO, "%.100s: %.300s", url, trouble) : FX_OK;
        fxi_top_feed_unlock(feed);
        FX_TRY(st);
        if (is_there && !enough_s) enough_s = now_s + ONCE_RATE_S;
        if (is_there && (is_rated || now_s >= enough_s)) return FX_OK;
        if (now_s > give_up_s) return fxi_fail(err, FX_EIO, "%.100s: no answer in time", url);
        fxi_top_feed_seen(feed);
        poll(&p, 1, 100);
        if (fxi_signals_stop()) return fxi_fail(err, FX_EIO, "interrupted");
    }
}

static fx_status show_once(fxi_top_feed *feed, fxi_top_view *v, fx_error *err)
{
    v->has_no_keys = true;
    FX_TRY(wait_for_snapshots(feed, v->url, err));
    return print_screen(feed, v, err);
}

// ---- on a terminal -----------------------------------------------------------------------------

static bool draw_terminal(fxi_top_feed *feed, fxi_top_view *v)
{
    fxi_screen s;
    int n_row, n_col;
    fxi_curses_size(&n_row, &n_col);
    bool ok = fxi_screen_make(&s, n_row, n_col);
    const fxi_top_state *w = fxi_top_feed_lock(feed, &v->trouble);
    const size_t n = fxi_top_rows(w), n_shown = fxi_top_rows_shown(n_row);
    const size_t last = n > n_shown ? n - n_shown : 0;
    if (v->first > last) v->first = last;
    ok = ok && fxi_top_draw(&s, w, v);
    fxi_top_feed_unlock(feed);
    if (ok) fxi_curses_show(&s);
    fxi_screen_free(&s);
    return ok;
}

static void scroll_list(fxi_top_view *v, fxi_top_key key)
{
    int n_row, n_col;
    fxi_curses_size(&n_row, &n_col);
    const size_t page = fxi_top_rows_shown(n_row);
    const bool is_page = key == FXI_KEY_PAGE_UP || key == FXI_KEY_PAGE_DOWN;
    const size_t by = is_page ? page : 1;
    if (key == FXI_KEY_HOME) v->first = 0;
    if (key == FXI_KEY_END) v->first = SIZE_MAX / 2; // drawing brings it back
    if (key == FXI_KEY_UP || key == FXI_KEY_PAGE_UP) v->first = v->first > by ? v->first - by : 0;
    if (key == FXI_KEY_DOWN || key == FXI_KEY_PAGE_DOWN) v->first += by;
}

// False: the user has seen enough.
static bool take_pressed_keys(fxi_top_feed *feed, fxi_top_view *v)
{
    for (fxi_top_key key; (key = fxi_curses_key()) != FXI_KEY_NONE;) {
        if (key == FXI_KEY_QUIT) return false;
        if (key == FXI_KEY_PAUSE) fxi_top_feed_pause(feed, v->is_paused = !v->is_paused);
        if (key == FXI_KEY_SORT) v->sort = (v->sort + 1) % FXI_TOP_N_SORT;
        if (key == FXI_KEY_REVERSE) v->is_reversed = !v->is_reversed;
        if (key == FXI_KEY_HELP) v->shows_help = !v->shows_help;
        scroll_list(v, key);
    }
    return true;
}

static fx_status run_terminal(fxi_top_feed *feed, fxi_top_view *v, fx_error *err)
{
    bool ok = true;
    FX_TRY(fxi_curses_open(err));
    v->is_utf8 = fxi_curses_is_utf8();
    while (ok && take_pressed_keys(feed, v) && !fxi_signals_stop()) {
        struct pollfd p[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                             {.fd = fxi_top_feed_fd(feed), .events = POLLIN}};
        fxi_top_feed_seen(feed);
        ok = draw_terminal(feed, v);
        poll(p, 2, DRAW_MS);
        if (p[0].revents & (POLLHUP | POLLERR)) break; // the terminal has gone
    }
    fxi_curses_close();
    return ok ? FX_OK : fxi_fail(err, FX_ENOMEM, "out of memory");
}

// ---- the command -------------------------------------------------------------------------------

static fx_status watch_server(const fxi_cli_options *o, fxi_top_view *v, fx_error *err)
{
    fxi_top_feed *feed;
    char key[256];
    if (o->client_key_file) FX_TRY(read_client_key(o->client_key_file, key, err));
    if (!o->once && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
        return fxi_fail(err, FX_EINVAL, "there is no terminal: --once prints one screen");
    if (!fxi_signals_catch()) return fxi_fail(err, FX_EINTERNAL, "no file descriptors");
    FX_TRY(fxi_top_feed_start(v->url, o->client_key_file ? key : NULL, o->ca_file, &feed, err));
    const fx_status st = o->once ? show_once(feed, v, err) : run_terminal(feed, v, err);
    fxi_top_feed_stop(feed);
    return st;
}

int fxi_cmd_top(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    fxi_top_view v = {.url = rest->n ? rest->arg[0] : DEFAULT_URL};
    fx_error err;
    if (watch_server(o, &v, &err) != FX_OK) return fxi_cli_fail("%s", err.text);
    return 0;
}
