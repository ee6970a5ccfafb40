// waits.c - polls what only threads of the server know.
#include "server/waits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/system/clock.h"
#include "server/http/http.h"

void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
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

void wait_queued(const fixture *f, int n_small, int n_large)
{
    for (double end_s = fxi_now_s() + WAIT_S;; nap()) {
        const fxi_workers_gauges g = server_workers(f);
        if (g.n_small == n_small && g.n_large == n_large) return;
        if (fxi_now_s() > end_s) fail_msg("still %d and %d queued", g.n_small, g.n_large);
    }
}

void wait_submitted(const fixture *f, int n)
{
    for (double end_s = fxi_now_s() + WAIT_S; fake_engine_counts(f->eng).n_submitted != n; nap())
        if (fxi_now_s() > end_s)
            fail_msg("still %d submitted", fake_engine_counts(f->eng).n_submitted);
}

void expect_reply(http_reply r, int status, const char *in_body)
{
    if (r.status != status || r.cut || !r.body.p || !strstr(r.body.p, in_body))
        fail_msg("want %d with '%s', got %d%s: %.300s", status, in_body, r.status,
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
