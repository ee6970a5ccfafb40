// cmd_top.c - `flexinfer top`: what a server and its memory are doing, on a terminal.
//
// It asks for /kv/snapshot four times a second and for /metrics once, draws, and waits. A key or a
// signal ends a request that takes long, which is made again once the key has had its effect.
#include "cli/cli.h"
#include "cli/terminal/terminal.h"
#include "cli/top/top.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY
#include "base/json/json.h"
#include "base/net/http_client.h"
#include "base/system/clock.h" // defines: fxi_now_s

#define DEFAULT_URL    "http://127.0.0.1:8080"
#define POLL_S         0.25 // between snapshots
#define PAGE_S         1.0  // between pages of /metrics
#define CALL_S         60.0 // a snapshot waits for the end of a forward pass
#define AGAIN_S        0.5  // before the next attempt after a failure, up to
#define MAX_AGAIN_S    5.0
#define MAX_BODY_BYTES (64u << 20)
#define ONCE_COLS      120
#define ONCE_WAIT_S    15.0
#define ONCE_RATE_S    3.0 // for a second snapshot of a busy server

typedef struct top_run {
    const char *name;   // the server's, as it is shown
    const char *url;    // where it is asked
    const char *socket; // NULL, or the file of a Unix socket
    char header[300];   // with the key; "": there is none
    fxi_http_client *client;
    int stop_fd;   // can be read: a signal or a key has come
    double page_s; // when /metrics is asked for again
    fxi_top_state state;
    fxi_top_view view;
} top_run;

// ---- the key -----------------------------------------------------------------------------------

// A file of keys as the server reads it, NAME KEY [admin] ..: the first admin's key; or a file with
// one key alone.
static fx_status read_client_key(const char *path, char key[256], fx_error *err)
{
    char line[1024], first[256], second[256], rest[512];
    bool is_admin = false;
    FILE *f = fopen(path, "re");
    if (!f) return fxi_fail(err, FX_EIO, "%s: %s", path, strerror(errno));
    key[0] = 0;
    while (!is_admin && fgets(line, sizeof line, f)) {
        rest[0] = second[0] = 0;
        const int n = sscanf(line, " %255s %255s %511[^\n]", first, second, rest);
        if (n < 1 || first[0] == '#') continue;
        is_admin = n == 3 && strstr(rest, "admin");
        if (is_admin || !key[0]) snprintf(key, 256, "%s", n == 1 ? first : second);
    }
    fclose(f);
    return key[0] ? FX_OK : fxi_fail(err, FX_EINVAL, "%s: it holds no key", path);
}

// ---- the server --------------------------------------------------------------------------------

// *body is the caller's to free. A refusal has the server's own words.
static fx_status get_path(top_run *t, const char *path, double limit_s, fxi_buf *body,
                          fx_error *err)
{
    const size_t n = strlen(t->url), n_base = n - (t->url[n - 1] == '/');
    const char *const header[] = {t->header};
    fxi_http_answer a = {0};
    fxi_buf url = {0};
    fx_status st = FX_OK;
    if (!fxi_buf_fmt(&url, "%.*s%s", (int)n_base, t->url, path))
        st = fxi_fail(err, FX_ENOMEM, "out of memory");
    const fxi_http_call call = {.url = url.p,
                                .socket = t->socket,
                                .header = header,
                                .n_header = t->header[0] != 0,
                                .timeout_s = limit_s,
                                .max_bytes = MAX_BODY_BYTES};
    if (st == FX_OK) st = fxi_http_client_call(t->client, &call, &a, err);
    if (st == FX_OK && a.status != 200) {
        fxi_json_doc doc = {0};
        const char *text = NULL;
        if (fxi_json_parse(&doc, (fxi_str){a.body.p, a.body.n}, &(fxi_json_rules){0}, NULL) ==
            FX_OK)
            text = fxi_json_text(fxi_json_get(fxi_json_get(doc.root, "error"), "message"));
        st = fxi_fail(err, FX_EIO, "status %d%s%.200s", a.status, text ? ": " : "",
                      text ? text : "");
        fxi_json_doc_free(&doc);
    }
    fxi_buf_free(&url);
    *body = a.body;
    return st;
}

// Takes in the next snapshot, and a page of /metrics when it is time: the screen shows most without
// it, so where that fails its figures stay.
static fx_status ask_server(top_run *t, double limit_s, fx_error *err)
{
    fxi_buf body;
    fx_error ignored;
    fx_status st = get_path(t, "/kv/snapshot", limit_s, &body, err);
    if (st == FX_OK) st = fxi_top_take_snapshot(&t->state, body.p ? body.p : "", body.n, err);
    fxi_buf_free(&body);
    if (st != FX_OK || fxi_now_s() < t->page_s) return st;
    if (get_path(t, "/metrics", limit_s, &body, &ignored) == FX_OK)
        fxi_top_take_metrics(&t->state, body.p ? body.p : "");
    fxi_buf_free(&body);
    t->page_s = fxi_now_s() + PAGE_S;
    return FX_OK;
}

// ---- one screen as text ------------------------------------------------------------------------

static fx_status print_screen(const top_run *t, fx_error *err)
{
    fxi_screen s;
    fxi_buf text = {0};
    const char *columns = getenv("COLUMNS");
    const int n = columns ? atoi(columns) : 0;
    const int n_col = n >= 40 && n <= 1000 ? n : ONCE_COLS;
    const bool ok = fxi_top_draw(&s, fxi_top_height(&t->state), n_col, &t->state, &t->view) &&
                    fxi_screen_text(&s, &text);
    if (ok) fwrite(text.p, 1, text.n, stdout);
    fxi_buf_free(&text);
    fxi_screen_free(&s);
    return ok ? FX_OK : fxi_fail(err, FX_ENOMEM, "out of memory");
}

// Waits for the first snapshot and page; then for as long as rates need. Errors: FX_EIO.
static fx_status show_once(top_run *t, fx_error *err)
{
    const fxi_top_state *s = &t->state;
    const double give_up_s = fxi_now_s() + ONCE_WAIT_S;
    double enough_s = 0;
    t->view.has_no_keys = true;
    for (;;) {
        struct pollfd p = {.fd = t->stop_fd, .events = POLLIN};
        fx_error why;
        const fx_status st = ask_server(t, ONCE_WAIT_S, &why);
        const double now_s = fxi_now_s();
        if (fxi_signals_stop()) return fxi_fail(err, FX_EIO, "interrupted");
        if (st != FX_OK) return fxi_fail(err, FX_EIO, "%.100s: %.300s", t->name, why.text);
        if (s->n_page && !enough_s) enough_s = now_s + ONCE_RATE_S;
        if (s->n_page && (s->n_rate || !s->stats.n_running || now_s >= enough_s))
            return print_screen(t, err);
        if (now_s > give_up_s) return fxi_fail(err, FX_EIO, "%.100s: no answer in time", t->name);
        poll(&p, 1, (int)(POLL_S * 1e3));
    }
}

// ---- on a terminal -----------------------------------------------------------------------------

#ifdef FX_NCURSES

static fx_status run_terminal(top_run *t, fx_error *err)
{
    fx_error trouble;
    double ask_s = 0, again_s = AGAIN_S;
    bool ok = true;
    FX_TRY(fxi_curses_open(&t->view.is_utf8, err));
    while (ok && fxi_curses_take_keys(&t->view) && !fxi_signals_stop()) {
        struct pollfd p[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                             {.fd = t->stop_fd, .events = POLLIN}};
        const double left_s = t->view.is_paused ? MAX_AGAIN_S : fmax(ask_s - fxi_now_s(), 0);
        ok = fxi_curses_draw(&t->state, &t->view);
        const int n_ready = poll(p, 2, (int)ceil(left_s * 1e3));
        if (p[0].revents & (POLLHUP | POLLERR)) break; // the terminal has gone
        if (n_ready || t->view.is_paused) continue;
        const fx_status st = ask_server(t, CALL_S, &trouble);
        if (st != FX_OK && poll(p + 1, 1, 0) > 0) continue; // that ended it
        t->view.trouble = st == FX_OK ? NULL : trouble.text;
        ask_s = fxi_now_s() + (st == FX_OK ? POLL_S : again_s);
        again_s = st == FX_OK ? AGAIN_S : fmin(again_s * 2, MAX_AGAIN_S);
    }
    fxi_curses_close();
    return ok ? FX_OK : fxi_fail(err, FX_ENOMEM, "out of memory");
}

#else

static fx_status run_terminal(top_run *t, fx_error *err)
{
    (void)t;
    return fxi_fail(err, FX_EINVAL,
                    "this program was built without ncurses: --once prints one screen");
}

#endif

// ---- the command -------------------------------------------------------------------------------

static fx_status watch_server(const fxi_cli_options *o, top_run *t, fx_error *err)
{
    char key[256];
    struct epoll_event ev = {.events = EPOLLIN};
    if (o->client_key_file) {
        FX_TRY(read_client_key(o->client_key_file, key, err));
        snprintf(t->header, sizeof t->header, "Authorization: Bearer %s", key);
    }
    if (!o->once && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)))
        return fxi_fail(err, FX_EINVAL, "there is no terminal: --once prints one screen");
    if (t->socket && !t->socket[0]) return fxi_fail(err, FX_EINVAL, "unix: needs a file's name");
    FX_TRY(fxi_http_url_check(t->url, err));
    t->stop_fd = epoll_create1(EPOLL_CLOEXEC);
    if (!fxi_signals_catch() || t->stop_fd < 0 ||
        epoll_ctl(t->stop_fd, EPOLL_CTL_ADD, fxi_signals_fd(), &ev) ||
        (!o->once && epoll_ctl(t->stop_fd, EPOLL_CTL_ADD, STDIN_FILENO, &ev)))
        return fxi_fail(err, FX_EINTERNAL, "no file descriptors");
    FX_TRY(fxi_http_client_open(o->ca_file, t->stop_fd, &t->client, err));
    return o->once ? show_once(t, err) : run_terminal(t, err);
}

int fxi_cmd_top(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    static const char by_file[] = "unix:";
    const char *given = rest->n ? rest->arg[0] : DEFAULT_URL;
    const char *file =
        strncmp(given, by_file, sizeof by_file - 1) ? NULL : given + sizeof by_file - 1;
    fxi_buf url = {0};
    fx_error err;
    if (!fxi_buf_fmt(&url, "%s%s", strstr(given, "://") ? "" : "http://",
                     file ? "localhost" : given))
        return fxi_cli_fail("out of memory");
    top_run t = {.url = url.p, .socket = file, .name = file ? given : url.p, .stop_fd = -1};
    t.view.url = t.name;
    const fx_status st = watch_server(o, &t, &err);
    fxi_http_client_close(t.client);
    if (t.stop_fd >= 0) close(t.stop_fd);
    fxi_top_free(&t.state);
    fxi_buf_free(&url);
    return st == FX_OK ? 0 : fxi_cli_fail("%s", err.text);
}
