// allocation_sweep.c - one request for each allocation that it makes; see allocation_sweep.h.
#include "server/allocation_sweep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/system/clock.h"
#include "server/http/http.h"
#include "server/http_client.h"

#define WAIT_S 60.0 // a guard: whatever is waited for happens at once

static bool is_quiet(const sweep *s)
{
    fxi_quota_gauges g;
    fxi_quota_read(s->srv->quota, &g);
    pthread_mutex_lock(&s->srv->mu);
    bool quiet = !s->srv->jobs && !g.used_bytes;
    pthread_mutex_unlock(&s->srv->mu);
    return quiet && s->is_idle(s->eng);
}

static void wait_quiet(const sweep *s)
{
    for (double end_s = fxi_now_s() + WAIT_S; !is_quiet(s);) {
        assert_true(fxi_now_s() < end_s);
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
}

static bool body_has(const http_reply *r, const char *text)
{
    return r->body.p && strstr(r->body.p, text);
}

static bool is_stream(const http_reply *r)
{
    return r->status == 200 && strstr(r->head.p, "text/event-stream");
}

static bool is_usual(const sweep_row *row, const http_reply *r)
{
    return r->status == row->status && !r->cut && body_has(r, row->in_body);
}

// Whether it says that there was no memory: a stream may also break off.
static bool is_honest(const http_reply *r)
{
    if (is_stream(r)) return r->cut || (body_has(r, "\"error\":{") && body_has(r, "memory"));
    return (r->status == 503 || r->status == 529 || r->status == 500) && !r->cut &&
           body_has(r, "memory");
}

// /kv/stream does not end by itself: its client leaves once it has seen what it waits for.
static bool is_endless(const sweep_row *row)
{
    return !strcmp(row->path, "/kv/stream");
}

static http_reply call_row(const sweep *s, const sweep_row *row)
{
    const int port = fxi_server_port(s->srv);
    if (!is_endless(row)) return http_call(port, row->method, row->path, row->body);
    const int fd = http_open(port);
    http_send(fd, "%s %s HTTP/1.1\r\nHost: localhost\r\n\r\n", row->method, row->path);
    http_reply r = http_read_until(fd, row->in_body);
    http_leave(fd);
    return r;
}

// One request while one allocation fails. False: so many are not made.
static bool try_request(const sweep *s, const sweep_row *row, long at, bool and_later)
{
    bool ours;
    const failing_heap plan = {s->spares, at, and_later};
    failing_heap_arm(&plan);
    http_reply r = call_row(s, row);
    wait_quiet(s);
    const long n_failed = failing_heap_disarm(&ours);
    const bool none = !r.status || (!is_stream(&r) && r.cut); // no answer, or part of one
    if (!is_usual(row, &r) && !(n_failed && (is_honest(&r) || (none && (!ours || and_later)))))
        fail_msg("%s %s, allocation %ld%s%s: %d%s: %s", row->path, row->body ? row->body : "", at,
                 and_later ? " and later" : "", ours ? ", ours" : "", r.status,
                 r.cut ? " (cut)" : "", r.body.p ? r.body.p : "");
    http_reply_free(&r);
    return n_failed > 0;
}

static long sweep_row_of(const sweep *s, const sweep_row *row, bool and_later)
{
    long n_hit = 0;
    for (long at = 0, n_missed = 0; n_missed < 3; at++) { // their number varies a little
        const bool hit = try_request(s, row, at, and_later);
        n_hit += hit;
        n_missed += !hit;
    }
    try_request(s, row, -1, false); // served as if nothing had been
    return n_hit;
}

long sweep_requests(const sweep *s, const sweep_row *row, size_t n_row, bool and_later)
{
    long n = 0;
    for (size_t i = 0; i < n_row; i++) // without memory the engine takes no snapshot to wait for
        if (!and_later || strncmp(row[i].path, "/kv/s", 5) != 0)
            n += sweep_row_of(s, &row[i], and_later);
    return n;
}
