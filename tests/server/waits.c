// waits.c - polls what only threads of the server know.
#include "server/waits.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "server/http/http.h"

void nap(void)
{
    pause_s(0.002);
}

void pause_s(double s)
{
    nanosleep(&(struct timespec){.tv_sec = (time_t)s, .tv_nsec = (long)((s - (time_t)s) * 1e9)},
              NULL);
}

fxi_quota_gauges server_quota(const fixture *f)
{
    fxi_quota_gauges g;
    fxi_quota_read(f->srv->quota, &g);
    return g;
}

fxi_workers_gauges server_workers(const fixture *f)
{
    fxi_workers_gauges g;
    fxi_workers_read(f->srv->workers, &g);
    return g;
}

void wait_held(const fixture *f, fxi_bytes_of of, size_t least, size_t most)
{
    for (double end_s = fxi_now_s() + WAIT_S;; nap()) {
        const size_t n = server_quota(f).of_bytes[of];
        if (n >= least && n <= most) return;
        if (fxi_now_s() > end_s) fail_msg("bytes of kind %d: still %zu", (int)of, n);
    }
}

void wait_nothing_held(const fixture *f)
{
    for (double end_s = fxi_now_s() + WAIT_S; server_quota(f).used_bytes; nap())
        if (fxi_now_s() > end_s) fail_msg("still %zu bytes", server_quota(f).used_bytes);
}

void wait_grinding(const fixture *f, int n)
{
    for (double end_s = fxi_now_s() + WAIT_S; fake_engine_grinding(f->eng) != n; nap())
        if (fxi_now_s() > end_s) fail_msg("still %d grinding", fake_engine_grinding(f->eng));
}

void wait_queued(const fixture *f, uint64_t n_small, uint64_t n_large)
{
    for (double end_s = fxi_now_s() + WAIT_S;; nap()) {
        const fxi_workers_gauges g = server_workers(f);
        if (g.n_small == n_small && g.n_large == n_large) return;
        if (fxi_now_s() > end_s) fail_msg("still %d and %d queued", (int)g.n_small, (int)g.n_large);
    }
}

static void *stop_server(void *srv)
{
    fxi_server_stop(srv);
    return NULL;
}

pthread_t stop_meanwhile(fixture *f)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, stop_server, f->srv), 0);
    f->srv = NULL;
    return thread;
}

// Whether a count is one of these, as soon as it may be.
static void wait_count(const fixture *f, size_t offset, int least, int most, const char *what)
{
    for (double end_s = fxi_now_s() + WAIT_S;; nap()) {
        const fake_counts c = fake_engine_counts(f->eng);
        const int n = *(const int *)(const void *)((const char *)&c + offset);
        if (n >= least && n <= most) return;
        if (fxi_now_s() > end_s) fail_msg("still %d %s", n, what);
    }
}

void wait_submitted(const fixture *f, int n)
{
    wait_count(f, offsetof(fake_counts, n_submitted), n, INT_MAX, "submitted");
}

void wait_cancelled(const fixture *f, int n)
{
    wait_count(f, offsetof(fake_counts, n_cancelled), n, INT_MAX, "cancelled");
}

void wait_running(const fixture *f, int n)
{
    wait_count(f, offsetof(fake_counts, n_running), n, n, "running");
}

int status_of(const fixture *f, const char *path)
{
    http_reply r = http_call(f->port, "GET", path, NULL);
    const int status = r.status;
    http_reply_free(&r);
    return status;
}

void expect_reply(http_reply r, int status, const char *in_body)
{
    if (r.status != status || r.cut || (in_body && !(r.body.p && strstr(r.body.p, in_body))))
        fail_msg("want %d with '%s', got %d%s: %.300s", status, in_body ? in_body : "", r.status,
                 r.cut ? " (cut)" : "", r.body.p ? r.body.p : "");
    http_reply_free(&r);
}

void expect_small(const fixture *f)
{
    expect_reply(http_call(f->port, "POST", TEXT, "{\"prompt\":\"say hi\"}"), 200,
                 "\"text\":\"hi\"");
    expect_reply(http_call(f->port, "GET", "/health", NULL), 200, "ok");
}

char *huge_body(const char *before, const char *fill, const char *after, size_t n_bytes)
{
    fxi_buf b = {0};
    fxi_buf_reserve(&b, n_bytes);
    fxi_buf_str(&b, before);
    while (b.n + strlen(fill) + strlen(after) < n_bytes) fxi_buf_str(&b, fill);
    fxi_buf_str(&b, after);
    return b.p;
}
