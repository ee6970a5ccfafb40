// feed.c - connect, read events into the state, ask for figures between them, begin again.
#include "cli/top/feed.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY
#include "base/json/json_doc.h"
#include "base/net/dial.h"
#include "base/net/http_reply.h"
#include "base/system/clock.h" // defines: fxi_now_s
#include "cli/top/sse.h"

#define CONNECT_S       5.0
#define PAGE_S          1.0  // between pages of /metrics
#define SILENT_S        60.0 // the server pings a stream more often: a silent one is dead
#define AGAIN_S         0.5  // before the next attempt, up to
#define MAX_AGAIN_S     5.0
#define MAX_EVENT_BYTES (64u << 20)
#define MAX_PAGE_BYTES  (4u << 20)

struct fxi_feed {
    fxi_url url;
    fxi_trust *trust; // NULL: the URL is plain http
    char *key;
    int stop_fd, news_fd;
    pthread_t thread;

    pthread_mutex_t mu;
    pthread_cond_t resumed;
    bool is_paused, is_stopping; // guarded by mu, as is all below
    fxi_watched watched;
    char trouble[FX_ERROR_TEXT_BYTES];
};

// ---- what the screen sees ----------------------------------------------------------------------

const fxi_watched *fxi_feed_lock(fxi_feed *f, const char **trouble)
{
    pthread_mutex_lock(&f->mu);
    *trouble = f->trouble[0] ? f->trouble : NULL;
    return &f->watched;
}

void fxi_feed_unlock(fxi_feed *f)
{
    pthread_mutex_unlock(&f->mu);
}

int fxi_feed_fd(const fxi_feed *f)
{
    return f->news_fd;
}

void fxi_feed_seen(fxi_feed *f)
{
    uint64_t n;
    const ssize_t k = read(f->news_fd, &n, sizeof n);
    (void)k; // nothing was there
}

static void tell_news(fxi_feed *f)
{
    const uint64_t one = 1;
    const ssize_t k = write(f->news_fd, &one, sizeof one);
    (void)k; // fails only if the count is full, and then it is readable
}

static void set_trouble(fxi_feed *f, const char *text)
{
    pthread_mutex_lock(&f->mu);
    snprintf(f->trouble, sizeof f->trouble, "%s", text);
    pthread_mutex_unlock(&f->mu);
    tell_news(f);
}

void fxi_feed_pause(fxi_feed *f, bool is_paused)
{
    pthread_mutex_lock(&f->mu);
    f->is_paused = is_paused;
    pthread_cond_broadcast(&f->resumed);
    pthread_mutex_unlock(&f->mu);
}

// What is shown does not change while it is paused.
static void wait_while_paused_locked(fxi_feed *f)
{
    while (f->is_paused && !f->is_stopping) pthread_cond_wait(&f->resumed, &f->mu);
}

// Waits while it is paused. False: it is to stop.
static bool may_go_on(fxi_feed *f)
{
    pthread_mutex_lock(&f->mu);
    wait_while_paused_locked(f);
    const bool ok = !f->is_stopping;
    pthread_mutex_unlock(&f->mu);
    return ok;
}

// ---- one request -------------------------------------------------------------------------------

static fx_status send_get(const fxi_feed *f, const fxi_link *line, const char *path,
                          const fxi_patience *wait, fx_error *err)
{
    const fxi_url *u = &f->url;
    const size_t n_base = strlen(u->path) - (u->path[strlen(u->path) - 1] == '/');
    fxi_buf b = {0};
    bool ok = fxi_buf_fmt(&b, "GET %.*s%s HTTP/1.1\r\nHost: %s%s%s:%s\r\nConnection: close\r\n",
                          (int)n_base, u->path, path, u->is_v6 ? "[" : "", u->host,
                          u->is_v6 ? "]" : "", u->port);
    if (f->key) ok = ok && fxi_buf_fmt(&b, "Authorization: Bearer %s\r\n", f->key);
    ok = ok && fxi_buf_str(&b, "\r\n");
    const fx_status st =
        ok ? fxi_dial_send(line, b.p, b.n, wait, err) : fxi_fail(err, FX_ENOMEM, "out of memory");
    fxi_buf_free(&b);
    return st;
}

// *line is the caller's to close, also after an error.
static fx_status open_get(const fxi_feed *f, const char *path, fxi_link *line, fx_error *err)
{
    const fxi_patience wait = {fxi_now_s() + CONNECT_S, f->stop_fd};
    FX_TRY(fxi_dial_open(&f->url, f->trust, &wait, line, err));
    return send_get(f, line, path, &wait, err);
}

// Reads a piece of the answer. Errors: FX_EIO, FX_ENOMEM.
static fx_status read_reply_piece(const fxi_link *line, fxi_http_reply *r, fxi_buf *body,
                                  const fxi_patience *wait, fxi_reply_state *state, fx_error *err)
{
    char piece[16384];
    size_t n;
    FX_TRY(fxi_dial_receive(line, piece, sizeof piece, &n, wait, err));
    *state = fxi_http_reply_add(r, piece, n, body);
    if (*state == FXI_REPLY_NO_MEMORY) return fxi_fail(err, FX_ENOMEM, "out of memory");
    if (*state == FXI_REPLY_BROKEN)
        return fxi_fail(err, FX_EIO, n ? "it does not answer in HTTP" : "it has gone");
    return FX_OK;
}

static fx_status read_whole(const fxi_link *line, fxi_http_reply *r, fxi_buf *body,
                            const fxi_patience *wait, fx_error *err)
{
    fxi_reply_state state = FXI_REPLY_MORE;
    while (state == FXI_REPLY_MORE) {
        FX_TRY(read_reply_piece(line, r, body, wait, &state, err));
        if (body->n > MAX_PAGE_BYTES) return fxi_fail(err, FX_EIO, "its answer is too long");
    }
    return FX_OK;
}

// The server's own words for a refusal.
static fx_status fail_status(const fxi_http_reply *r, const fxi_buf *body, fx_error *err)
{
    fxi_json_doc doc = {0};
    json_error_t e;
    const char *text = NULL;
    if (fxi_json_doc_parse(&doc, body->p ? body->p : "", body->n, 0, NULL, &e) == FXI_JSON_OK)
        text = json_string_value(json_object_get(json_object_get(doc.root, "error"), "message"));
    const fx_status st =
        fxi_fail(err, FX_EIO, "status %d%s%.200s", r->status, text ? ": " : "", text ? text : "");
    fxi_json_doc_free(&doc);
    return st;
}

// ---- /metrics ----------------------------------------------------------------------------------

static fx_status fetch_page(fxi_feed *f, fxi_buf *body, fx_error *err)
{
    const fxi_patience wait = {fxi_now_s() + CONNECT_S, f->stop_fd};
    fxi_http_reply r = {0};
    fxi_link line;
    fx_status st = open_get(f, "/metrics", &line, err);
    if (st == FX_OK) st = read_whole(&line, &r, body, &wait, err);
    if (st == FX_OK && r.status != 200) st = fail_status(&r, body, err);
    fxi_dial_close(&line);
    fxi_http_reply_free(&r);
    return st;
}

// The stream shows most without it: where it fails, its figures stay.
static void take_page(fxi_feed *f)
{
    fxi_buf body = {0};
    fx_error err;
    if (fetch_page(f, &body, &err) == FX_OK && body.n) {
        pthread_mutex_lock(&f->mu);
        wait_while_paused_locked(f);
        fxi_watched_page(&f->watched, body.p, body.n);
        pthread_mutex_unlock(&f->mu);
        tell_news(f);
    }
    fxi_buf_free(&body);
}

// ---- the stream --------------------------------------------------------------------------------

static fx_status take_event(fxi_feed *f, const fxi_sse_event *ev, fx_error *err)
{
    const bool is_whole = fxi_str_is(ev->name, "picture");
    if (!is_whole && !fxi_str_is(ev->name, "change")) return FX_OK;
    pthread_mutex_lock(&f->mu);
    wait_while_paused_locked(f);
    const fx_status st = fxi_watched_take(&f->watched, is_whole, ev->data.p, ev->data.n, err);
    if (st == FX_OK) f->trouble[0] = 0;
    pthread_mutex_unlock(&f->mu);
    tell_news(f);
    return st;
}

static fx_status take_events(fxi_feed *f, fxi_buf *body, fx_error *err)
{
    fxi_sse_event ev;
    size_t from = 0;
    while (fxi_sse_next(body, &from, &ev)) FX_TRY(take_event(f, &ev, err));
    fxi_buf_drop_front(body, from);
    if (body->n > MAX_EVENT_BYTES) return fxi_fail(err, FX_EIO, "an event of it is too long");
    return FX_OK;
}

// Reads what comes until the next page is due.
static fx_status read_events(fxi_feed *f, const fxi_link *line, fxi_http_reply *r, fxi_buf *body,
                             double *heard_s, fx_error *err)
{
    const fxi_patience wait = {fxi_now_s() + PAGE_S, f->stop_fd};
    fxi_reply_state state = FXI_REPLY_MORE;
    while (fxi_now_s() < wait.until_s) {
        const fx_status st = read_reply_piece(line, r, body, &wait, &state, err);
        const double now_s = fxi_now_s();
        if (st == FX_EIO && now_s >= wait.until_s && now_s - *heard_s < SILENT_S) return FX_OK;
        FX_TRY(st);
        if (state == FXI_REPLY_WHOLE && r->status == 200)
            return fxi_fail(err, FX_EIO, "it has ended the stream");
        if (r->status == 200) FX_TRY(take_events(f, body, err));
        *heard_s = fxi_now_s();
        if (state == FXI_REPLY_WHOLE) return fail_status(r, body, err);
    }
    return FX_OK;
}

static fx_status follow_stream(fxi_feed *f, const fxi_link *line, fx_error *err)
{
    fxi_http_reply r = {0};
    fxi_buf body = {0};
    double heard_s = fxi_now_s();
    fx_status st = FX_OK;
    while (st == FX_OK && may_go_on(f)) {
        st = read_events(f, line, &r, &body, &heard_s, err);
        if (st == FX_OK && r.status == 200) take_page(f);
    }
    fxi_http_reply_free(&r);
    fxi_buf_free(&body);
    return st;
}

static fx_status follow_once(fxi_feed *f, fx_error *err)
{
    fxi_link line;
    fx_status st = open_get(f, "/kv/stream", &line, err);
    if (st == FX_OK) st = follow_stream(f, &line, err);
    fxi_dial_close(&line);
    return st;
}

// ---- life --------------------------------------------------------------------------------------

static bool has_picture(fxi_feed *f)
{
    pthread_mutex_lock(&f->mu);
    const bool has = f->watched.number && !f->trouble[0];
    pthread_mutex_unlock(&f->mu);
    return has;
}

static void *feed_main(void *ud)
{
    fxi_feed *f = ud;
    double again_s = AGAIN_S;
    while (may_go_on(f)) {
        fx_error err;
        const fx_status st = follow_once(f, &err);
        if (has_picture(f)) again_s = AGAIN_S; // it was there
        if (st == FX_OK) continue;
        set_trouble(f, err.text);
        struct pollfd p = {.fd = f->stop_fd, .events = POLLIN};
        poll(&p, 1, (int)(again_s * 1e3));
        again_s = again_s * 2 < MAX_AGAIN_S ? again_s * 2 : MAX_AGAIN_S;
    }
    return NULL;
}

static void free_feed(fxi_feed *f)
{
    if (f->stop_fd >= 0) close(f->stop_fd);
    if (f->news_fd >= 0) close(f->news_fd);
    fxi_watched_free(&f->watched);
    pthread_cond_destroy(&f->resumed);
    pthread_mutex_destroy(&f->mu);
    fxi_trust_close(f->trust);
    free(f->key);
    free(f);
}

static fx_status start_feed(fxi_feed *f, const char *key, const char *ca_file, fx_error *err)
{
    if (f->url.is_tls) FX_TRY(fxi_trust_open(ca_file, &f->trust, err));
    f->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    f->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    f->key = key ? strdup(key) : NULL;
    if (key && !f->key) return fxi_fail(err, FX_ENOMEM, "out of memory");
    if (f->stop_fd < 0 || f->news_fd < 0) return fxi_fail(err, FX_EIO, "%s", strerror(errno));
    const int e = pthread_create(&f->thread, NULL, feed_main, f);
    if (e) return fxi_fail(err, FX_EINTERNAL, "cannot start a thread: %s", strerror(e));
    return FX_OK;
}

fx_status fxi_feed_start(const fxi_url *url, const char *key, const char *ca_file, fxi_feed **out,
                         fx_error *err)
{
    fxi_feed *f = calloc(1, sizeof *f);
    *out = NULL;
    if (!f) return fxi_fail(err, FX_ENOMEM, "out of memory");
    f->url = *url;
    f->stop_fd = f->news_fd = -1;
    pthread_mutex_init(&f->mu, NULL);
    pthread_cond_init(&f->resumed, NULL);
    const fx_status st = start_feed(f, key, ca_file, err);
    if (st == FX_OK)
        *out = f;
    else
        free_feed(f);
    return st;
}

void fxi_feed_stop(fxi_feed *f)
{
    const uint64_t one = 1;
    if (!f) return;
    pthread_mutex_lock(&f->mu);
    f->is_stopping = true;
    pthread_cond_broadcast(&f->resumed);
    pthread_mutex_unlock(&f->mu);
    const ssize_t k = write(f->stop_fd, &one, sizeof one);
    (void)k;
    pthread_join(f->thread, NULL);
    free_feed(f);
}
