// server_fixture.c - a server on a free port, and its answers as text.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/server_fixture.h"

fixture fixture_open(fxi_server_options opt)
{
    fixture f = {.eng = fake_engine_new()};
    fx_error err;
    if (!opt.model_id) opt.model_id = "m";
    if (fxi_server_start(f.eng, &opt, &f.srv, &err) != FX_OK) fail_msg("%s", err.text);
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
}

// Replaces what follows `key` up to one of `stop`.
static void blank(fxi_buf *b, const char *key, const char *stop, const char *value)
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
    blank(&b, "\"id\":\"cmpl-", "\"", "1");
    blank(&b, "\"id\":\"chatcmpl-", "\"", "1");
    blank(&b, "\"id\":\"call_", "\"", "1");
    blank(&b, "\"created\":", ",", "1");
    blank(&b, "\"system_fingerprint\":\"", "\"", "fp");
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
