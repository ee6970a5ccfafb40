// test_server_allocation.c - every allocation of the server fails once, and once together with all
// later ones: from its start to its stop, on every thread, in libmicrohttpd and jansson too. The
// request that needed it gets an answer that says so; where a library needed it, the connection may
// end without one. Nothing stays billed, nothing leaks (ASan checks), and the next request is
// served.
#include <dirent.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/system/clock.h"
#include "server/failing_heap.h"
#include "server/fake_engine.h"
#include "server/http/http.h"
#include "server/http_client.h"

#define TEXT   "/v1/completions"
#define CHAT   "/v1/chat/completions"
#define WAIT_S 60.0 // a guard: whatever is waited for happens at once

typedef struct fixture {
    fx_engine *eng;
    fxi_server *srv;
    int port;
} fixture;

static void drop_line(void *ud, const char *line)
{
    (void)ud, (void)line;
}

static const fxi_server_options options = {.n_io_thread = 1, .n_worker = 1, .log = drop_line};

static fixture begin(void)
{
    fixture f = {.eng = fake_engine_new()};
    fx_error err;
    if (fxi_server_start(f.eng, &options, &f.srv, &err) != FX_OK) fail_msg("%s", err.text);
    f.port = fxi_server_port(f.srv);
    return f;
}

static void end(fixture *f)
{
    fxi_server_stop(f->srv);
    fx_engine_close(f->eng);
}

static bool is_quiet(const fixture *f)
{
    fxi_ledger_gauges g;
    fxi_ledger_read(f->srv->ledger, &g);
    pthread_mutex_lock(&f->srv->mu);
    bool quiet = !f->srv->jobs && !g.used_bytes;
    pthread_mutex_unlock(&f->srv->mu);
    return quiet;
}

static void wait_quiet(const fixture *f)
{
    assert_true(fake_engine_wait_idle(f->eng, WAIT_S));
    for (double end_s = fxi_now_s() + WAIT_S; !is_quiet(f);) {
        assert_true(fxi_now_s() < end_s);
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
}

// ---- requests ---------------------------------------------------------------------------------

static const struct row {
    const char *method, *path, *body;
    int status;
    const char *in_body; // of a stream: in its last chunk
} rows[] = {
    {"GET", "/health", NULL, 200, "{\"status\":\"ok\"}"},
    {"GET", "/", NULL, 200, "POST /v1/chat/completions"},
    {"GET", "/stats", NULL, 200, "}"},
    {"GET", "/v1/models", NULL, 200, "\"data\":[{\"id\":\"fake\""},
    {"GET", "/v1/models/fake", NULL, 200, "\"max_model_len\":4096"},
    {"GET", "/nothing", NULL, 404, "not_found_error"},
    {"GET", TEXT, NULL, 405, "invalid_request_error"},
    {"POST", TEXT, "{\"prompt\":\"say a b\"}", 200, "\"text\":\"a b\""},
    {"POST", TEXT, "{\"prompt\":[115,97,121,32,122],\"stop_token_ids\":[1,2]}", 200,
     "\"text\":\"z\""},
    {"POST", TEXT,
     "{\"prompt\":[\"say a\",\"halt 2\"],\"n\":2,\"stop\":[\"q\\u0041\",\"r\"],\"logit_bias\":"
     "{\"7\":1.5},\"cache_salt\":\"s\"}",
     200, "\"stop_reason\":\"r\""},
    {"POST", TEXT, "{\"prompt\":\"fail 3\"}", 500, "the script says so"},
    {"POST", TEXT, "{\"prompt\":\"full\"}", 429, "queue_full"},
    {"POST", TEXT, "{\"prompt\":", 400, "invalid_json"},
    {"POST", TEXT, "{\"prompt\":\"flood 3\"}", 200, "ffff"},
    {"POST", TEXT,
     "{\"prompt\":\"count 4\",\"n\":2,\"stream\":true,\"stream_options\":{\"include_usage\":true}}",
     200, "\"usage\":{"},
    {"POST", CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"count 5\"}]}", 200,
     "\"completion_tokens\":5"},
    {"POST", CHAT,
     "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"count 5\"}]}],"
     "\"stream\":true}",
     200, "\"finish_reason\":\"stop\""},
    {"POST", CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"refuse\"}]}", 400,
     "line 3: no"},
    {"POST", "/apply-template", "{\"messages\":[{\"role\":\"user\",\"content\":\"a \\\"b\"}]}", 200,
     "{\"prompt\":\"a \\\"b\"}"},
};

static bool body_has(const http_reply *r, const char *text)
{
    return r->body.p && strstr(r->body.p, text);
}

static bool is_stream(const http_reply *r)
{
    return r->status == 200 && strstr(r->head.p, "text/event-stream");
}

// Whether it is the answer of a request for which there was memory, or an error that says that
// there was none: a stream may also break off.
static bool is_honest(const struct row *row, const http_reply *r)
{
    if (r->status == row->status && !r->cut && body_has(r, row->in_body)) return true;
    if (is_stream(r))
        return r->cut || body_has(r, "data: {\"error\":{\"message\":\"out of memory\"");
    return r->status == 503 && !r->cut && body_has(r, "\"code\":\"overloaded\"") &&
           body_has(r, "out of memory");
}

// Not libmicrohttpd's poll set: where that cannot be made (0.9.75), a connection that has just been
// resumed waits until anything else happens on its thread.
static failing_heap plan_of(long at, bool and_later)
{
    return (failing_heap){fake_engine_is_own, at, and_later, sizeof(struct pollfd)};
}

// One request while one allocation fails. False: so many are not made.
static bool try_request(const fixture *f, const struct row *row, long at, bool and_later)
{
    bool ours;
    const failing_heap plan = plan_of(at, and_later);
    failing_heap_arm(&plan);
    http_reply r = http_call(f->port, row->method, row->path, row->body);
    wait_quiet(f);
    const long n_failed = failing_heap_disarm(&ours);
    const bool none = !r.status || (!is_stream(&r) && r.cut); // no answer, or part of one
    if (!is_honest(row, &r) && !(none && n_failed && (!ours || and_later)))
        fail_msg("%s %s, allocation %ld%s%s: %d%s: %s", row->path, row->body ? row->body : "", at,
                 and_later ? " and later" : "", ours ? ", ours" : "", r.status,
                 r.cut ? " (cut)" : "", r.body.p ? r.body.p : "");
    http_reply_free(&r);
    return n_failed > 0;
}

static void sweep_rows(bool and_later, long least)
{
    fixture f = begin();
    long n_all = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (long at = 0, n_missed = 0; n_missed < 3; at++) { // their number varies a little
            const bool hit = try_request(&f, &rows[i], at, and_later);
            n_all += hit;
            n_missed += !hit;
        }
        try_request(&f, &rows[i], -1, false); // served as if nothing had been
    }
    assert_true(n_all >= least);
    end(&f);
}

static void test_requests_survive_each_failed_allocation(void **state)
{
    (void)state;
    sweep_rows(false, 200);
}

static void test_requests_survive_when_memory_stays_short(void **state)
{
    (void)state;
    sweep_rows(true, 200);
}

// ---- start and stop ---------------------------------------------------------------------------

static int count_files(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir)) n++;
    closedir(dir);
    return n;
}

// False: so many allocations are not made.
static bool try_start(long at, bool and_later)
{
    bool ours;
    const failing_heap plan = plan_of(at, and_later);
    fx_error err = {0};
    fxi_server *srv = NULL;
    fx_engine *eng = fake_engine_new();
    const int n_file = count_files();
    failing_heap_spare(false);
    failing_heap_arm(&plan);
    fx_status st = fxi_server_start(eng, &options, &srv, &err);
    fxi_server_stop(srv);
    const long n_failed = failing_heap_disarm(&ours);
    failing_heap_spare(true);
    if (st != FX_OK) assert_true(!srv && n_failed && err.status == st && err.text[0]);
    if (!n_failed || ours) assert_int_equal(count_files(), n_file); // libmicrohttpd may lose one
    fx_engine_close(eng);
    return n_failed > 0;
}

static void test_start_and_stop_survive_failed_allocations(void **state)
{
    (void)state;
    long n[2] = {0};
    while (try_start(n[0], false)) n[0]++;
    while (try_start(n[1], true)) n[1]++;
    assert_true(n[0] >= 10 && n[1] >= 10);
}

int main(void)
{
    failing_heap_spare(true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_start_and_stop_survive_failed_allocations),
        cmocka_unit_test(test_requests_survive_each_failed_allocation),
        cmocka_unit_test(test_requests_survive_when_memory_stays_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
