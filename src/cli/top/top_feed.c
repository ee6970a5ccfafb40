// top_feed.c - ask for a snapshot, take it in, wait, begin again.
#include "cli/top/top_feed.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY
#include "base/json/json.h"
#include "base/net/http_client.h"
#include "base/system/clock.h" // defines: fxi_now_s

#define POLL_S         0.25 // between snapshots
#define PAGE_S         1.0  // between pages of /metrics
#define CALL_S         60.0 // a snapshot waits for the end of a forward pass
#define AGAIN_S        0.5  // before the next attempt, up to
#define MAX_AGAIN_S    5.0
#define MAX_BODY_BYTES (64u << 20)

struct fxi_top_feed {
    char *url, *header; // header: with the key; NULL: there is none
    fxi_http_client *client;
    int stop_fd, news_fd;
    pthread_t thread;

    pthread_mutex_t mu;
    pthread_cond_t resumed;
    bool is_paused, is_stopping; // guarded by mu, as is all below
    fxi_top_state state;
    char trouble[FX_ERROR_TEXT_BYTES];
};

// ---- what the screen sees ----------------------------------------------------------------------

const fxi_top_state *fxi_top_feed_lock(fxi_top_feed *f, const char **trouble)
{
    pthread_mutex_lock(&f->mu);
    *trouble = f->trouble[0] ? f->trouble : NULL;
    return &f->state;
}

void fxi_top_feed_unlock(fxi_top_feed *f)
{
    pthread_mutex_unlock(&f->mu);
}

int fxi_top_feed_fd(const fxi_top_feed *f)
{
    return f->news_fd;
}

void fxi_top_feed_seen(fxi_top_feed *f)
{
    eventfd_t n;
    (void)eventfd_read(f->news_fd, &n); // fails if nothing was there
}

void fxi_top_feed_pause(fxi_top_feed *f, bool is_paused)
{
    pthread_mutex_lock(&f->mu);
    f->is_paused = is_paused;
    pthread_cond_broadcast(&f->resumed);
    pthread_mutex_unlock(&f->mu);
}

// Locks the state once it is not paused. False: the feed stops.
static bool lock_unpaused(fxi_top_feed *f)
{
    pthread_mutex_lock(&f->mu);
    while (f->is_paused && !f->is_stopping) pthread_cond_wait(&f->resumed, &f->mu);
    return !f->is_stopping;
}

static void unlock_changed(fxi_top_feed *f)
{
    pthread_mutex_unlock(&f->mu);
    (void)eventfd_write(f->news_fd, 1); // fails if the count is full, and then it is readable
}

// ---- requests ----------------------------------------------------------------------------------

// The server's own words for a refusal.
static fx_status fail_status(const fxi_http_answer *a, fx_error *err)
{
    fxi_json_doc doc = {0};
    const char *text = NULL;
    if (fxi_json_parse(&doc, (fxi_str){a->body.p, a->body.n}, &(fxi_json_rules){0}, NULL) == FX_OK)
        text = fxi_json_text(fxi_json_get(fxi_json_get(doc.root, "error"), "message"));
    const fx_status st =
        fxi_fail(err, FX_EIO, "status %d%s%.200s", a->status, text ? ": " : "", text ? text : "");
    fxi_json_doc_free(&doc);
    return st;
}

// *body is the caller's to free after FX_OK.
static fx_status get_path(fxi_top_feed *f, const char *path, fxi_buf *body, fx_error *err)
{
    const size_t n = strlen(f->url), n_base = n - (f->url[n - 1] == '/');
    fxi_buf url = {0};
    if (!fxi_buf_fmt(&url, "%.*s%s", (int)n_base, f->url, path))
        return fxi_fail(err, FX_ENOMEM, "out of memory");
    const char *const header[] = {f->header};
    const fxi_http_call call = {.url = url.p,
                                .header = header,
                                .n_header = f->header != NULL,
                                .timeout_s = CALL_S,
                                .max_bytes = MAX_BODY_BYTES};
    fxi_http_answer a;
    fx_status st = fxi_http_client_call(f->client, &call, &a, err);
    fxi_buf_free(&url);
    if (st == FX_OK && a.status != 200) st = fail_status(&a, err);
    if (st == FX_OK)
        *body = a.body;
    else
        fxi_buf_free(&a.body);
    return st;
}

static fx_status poll_snapshot(fxi_top_feed *f, fx_error *err)
{
    fxi_buf body;
    FX_TRY(get_path(f, "/kv/snapshot", &body, err));
    fx_status st = FX_OK;
    if (lock_unpaused(f)) {
        st = fxi_top_take_snapshot(&f->state, body.p ? body.p : "", body.n, err);
        if (st == FX_OK) f->trouble[0] = 0;
    }
    unlock_changed(f);
    fxi_buf_free(&body);
    return st;
}

// The snapshot shows most without it: where it fails, its figures stay.
static void poll_metrics(fxi_top_feed *f)
{
    fxi_buf body;
    fx_error err;
    if (get_path(f, "/metrics", &body, &err) != FX_OK) return;
    if (lock_unpaused(f)) fxi_top_take_metrics(&f->state, body.p ? body.p : "", body.n);
    unlock_changed(f);
    fxi_buf_free(&body);
}

// ---- the thread --------------------------------------------------------------------------------

static void set_trouble(fxi_top_feed *f, const char *text)
{
    pthread_mutex_lock(&f->mu);
    snprintf(f->trouble, sizeof f->trouble, "%s", text);
    unlock_changed(f);
}

// Sleeps, unless the feed stops.
static void rest_feed(const fxi_top_feed *f, double s)
{
    struct pollfd p = {.fd = f->stop_fd, .events = POLLIN};
    poll(&p, 1, (int)(s * 1e3));
}

static bool may_go_on(fxi_top_feed *f)
{
    const bool ok = lock_unpaused(f);
    pthread_mutex_unlock(&f->mu);
    return ok;
}

static void *feed_main(void *ud)
{
    fxi_top_feed *f = ud;
    double again_s = AGAIN_S, page_s = 0;
    while (may_go_on(f)) {
        fx_error err;
        const bool ok = poll_snapshot(f, &err) == FX_OK;
        if (!ok) set_trouble(f, err.text);
        if (ok && fxi_now_s() >= page_s) {
            poll_metrics(f);
            page_s = fxi_now_s() + PAGE_S;
        }
        rest_feed(f, ok ? POLL_S : again_s);
        again_s = ok ? AGAIN_S : again_s * 2 < MAX_AGAIN_S ? again_s * 2 : MAX_AGAIN_S;
    }
    return NULL;
}

// ---- life --------------------------------------------------------------------------------------

static void free_feed(fxi_top_feed *f)
{
    if (f->stop_fd >= 0) close(f->stop_fd);
    if (f->news_fd >= 0) close(f->news_fd);
    fxi_http_client_close(f->client);
    fxi_top_free(&f->state);
    pthread_cond_destroy(&f->resumed);
    pthread_mutex_destroy(&f->mu);
    free(f->url);
    free(f->header);
    free(f);
}

static fx_status open_feed(fxi_top_feed *f, const char *url, const char *key, const char *ca_file,
                           fx_error *err)
{
    fxi_buf header = {0};
    FX_TRY(fxi_http_url_check(url, err));
    f->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    f->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (f->stop_fd < 0 || f->news_fd < 0) return fxi_fail(err, FX_EIO, "%s", strerror(errno));
    FX_TRY(fxi_http_client_open(ca_file, f->stop_fd, &f->client, err));
    f->url = strdup(url);
    const bool ok = !key || fxi_buf_fmt(&header, "Authorization: Bearer %s", key);
    f->header = header.p;
    if (!f->url || !ok) return fxi_fail(err, FX_ENOMEM, "out of memory");
    const int e = pthread_create(&f->thread, NULL, feed_main, f);
    return e ? fxi_fail(err, FX_EINTERNAL, "cannot start a thread: %s", strerror(e)) : FX_OK;
}

fx_status fxi_top_feed_start(const char *url, const char *key, const char *ca_file,
                             fxi_top_feed **out, fx_error *err)
{
    fxi_top_feed *f = calloc(1, sizeof *f);
    *out = NULL;
    if (!f) return fxi_fail(err, FX_ENOMEM, "out of memory");
    f->stop_fd = f->news_fd = -1;
    pthread_mutex_init(&f->mu, NULL);
    pthread_cond_init(&f->resumed, NULL);
    const fx_status st = open_feed(f, url, key, ca_file, err);
    if (st == FX_OK)
        *out = f;
    else
        free_feed(f);
    return st;
}

void fxi_top_feed_stop(fxi_top_feed *f)
{
    pthread_mutex_lock(&f->mu);
    f->is_stopping = true;
    pthread_cond_broadcast(&f->resumed);
    pthread_mutex_unlock(&f->mu);
    (void)eventfd_write(f->stop_fd, 1);
    pthread_join(f->thread, NULL);
    free_feed(f);
}
