// server_fixture.c - a server on a free port, and its answers as text.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/system/clock.h"

#include "server/open_and_serve.h"
#include "server/server_fixture.h"

struct fixture_log {
    pthread_mutex_t mu;
    fxi_buf text; // guarded by mu
};

static void keep_line(void *ud, const char *line)
{
    struct fixture_log *log = ud;
    pthread_mutex_lock(&log->mu);
    fxi_buf_fmt(&log->text, "%s\n", line);
    pthread_mutex_unlock(&log->mu);
}

bool fixture_log_has(const fixture *f, const char *text)
{
    pthread_mutex_lock(&f->log->mu);
    const bool has = f->log->text.p && strstr(f->log->text.p, text);
    pthread_mutex_unlock(&f->log->mu);
    return has;
}

bool fixture_logs(const fixture *f, const char *text)
{
    const double end_s = fxi_now_s() + 60;
    while (!fixture_log_has(f, text) && fxi_now_s() < end_s)
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    return fixture_log_has(f, text);
}

fixture fixture_open(fxi_server_options opt)
{
    fixture f = {.eng = fake_engine_new(), .log = calloc(1, sizeof *f.log)};
    fx_error err;
    pthread_mutex_init(&f.log->mu, NULL);
    if (!opt.model_id) opt.model_id = "m";
    if (!opt.log) {
        opt.log = keep_line;
        opt.log_ud = f.log;
    }
    if (open_and_serve(f.eng, &opt, &f.srv, &err) != FX_OK) fail_msg("%s", err.text);
    f.port = fxi_server_port(f.srv);
    return f;
}

fixture fixture_open_hermes(void)
{
    return fixture_open((fxi_server_options){.tool_parser = "hermes", .reasoning_parser = "think"});
}

void fixture_close(fixture *f)
{
    fxi_server_stop(f->srv);
    fx_engine_close(f->eng);
    if (!f->log) return; // it was not made by fixture_open
    pthread_mutex_destroy(&f->log->mu);
    fxi_buf_free(&f->log->text);
    free(f->log);
}

void fixture_blank(fxi_buf *b, const char *key, const char *stop, const char *value)
{
    fxi_buf out = {0};
    const char *p = b->p;
    for (const char *at; (at = strstr(p, key)); p = at) {
        at += strlen(key);
        fxi_buf_add(&out, p, (size_t)(at - p));
        fxi_buf_str(&out, value);
        at += strcspn(at, stop);
    }
    fxi_buf_str(&out, p);
    fxi_buf_free(b);
    *b = out;
}

static http_reply call_with_key(const fixture *f, const char *method, const char *path,
                                const char *body)
{
    const int fd = http_open(f->port);
    fxi_buf b = {0};
    fxi_buf_fmt(&b,
                "%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
                "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                method, path, f->key, body ? strlen(body) : 0, body ? body : "");
    assert_int_equal(write(fd, b.p, b.n), b.n);
    fxi_buf_free(&b);
    const http_reply r = http_read(fd);
    close(fd);
    return r;
}

fxi_buf fixture_call(const fixture *f, const char *method, const char *path, const char *body,
                     int status)
{
    http_reply r =
        f->key ? call_with_key(f, method, path, body) : http_call(f->port, method, path, body);
    fxi_buf b = r.body;
    if (r.status != status || r.cut)
        fail_msg("%s %s\nwant %d, got %d%s: %s", path, body ? body : "", status, r.status,
                 r.cut ? " (cut)" : "", b.p ? b.p : "");
    r.body = (fxi_buf){0};
    http_reply_free(&r);
    assert_true(b.p || fxi_buf_reserve(&b, 1));
    return b;
}

fxi_buf fixture_post(const fixture *f, const char *path, const char *body, int status)
{
    fxi_buf b = fixture_call(f, "POST", path, body, status);
    fixture_blank(&b, "\"id\":\"cmpl-", "\"", "1");
    fixture_blank(&b, "\"id\":\"chatcmpl-", "\"", "1");
    fixture_blank(&b, "\"id\":\"rerank-", "\"", "1");
    fixture_blank(&b, "\"id\":\"score-", "\"", "1");
    fixture_blank(&b, "\"id\":\"call_", "\"", "1");
    fixture_blank(&b, "\"created\":", ",", "1");
    fixture_blank(&b, "\"system_fingerprint\":\"", "\"", "fp");
    return b;
}

void fixture_expect(const fixture *f, const char *path, const char *body, const char *want)
{
    fxi_buf b = fixture_post(f, path, body, 200);
    if (strcmp(b.p, want) != 0) fail_msg("%s\nwant: %s\n got: %s", body, want, b.p);
    fxi_buf_free(&b);
}

void fixture_expect_in(const fixture *f, const char *path, const char *body, int status,
                       const char *want)
{
    fxi_buf b = fixture_post(f, path, body, status);
    if (!strstr(b.p, want)) fail_msg("%s\nwant: %s\n  in: %s", body, want, b.p);
    fxi_buf_free(&b);
}
