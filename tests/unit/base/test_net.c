// test_net.c - a client's side of HTTP: URLs, answers in pieces, and waits that end.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "base/net/dial.h"
#include "base/net/http_reply.h"
#include "base/system/clock.h"

#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// ---- URLs --------------------------------------------------------------------------------------

static void expect_url(const char *text, const char *host, const char *port, const char *path)
{
    fxi_url u;
    assert_int_equal(fxi_url_parse(text, &u, NULL), FX_OK);
    assert_int_equal(u.is_tls, !strncasecmp(text, "https:", 6));
    assert_string_equal(u.host, host);
    assert_string_equal(u.port, port);
    assert_string_equal(u.path, path);
}

static void test_urls_in_parts(void **state)
{
    (void)state;
    expect_url("http://localhost:4318/v1/traces", "localhost", "4318", "/v1/traces");
    expect_url("HTTP://a.b", "a.b", "80", "/");
    expect_url("http://a.b:/x?y=1", "a.b", "80", "/x?y=1");
    expect_url("http://a.b?y=1", "a.b", "80", "/?y=1");
    expect_url("http://[::1]:8080/", "::1", "8080", "/");
    expect_url("http://[fe80::1]", "fe80::1", "80", "/");
    expect_url("https://a.b", "a.b", "443", "/");
    expect_url("HTTPS://a.b:4318/x", "a.b", "4318", "/x");
}

static void test_urls_that_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "localhost:80",
                                      "ftp://a/",
                                      "http://",
                                      "http:///x",
                                      "http://:80",
                                      "http://a:0",
                                      "http://a:65536",
                                      "http://a:8x",
                                      "http://a:123456",
                                      "http://[::1",
                                      "http://[::1]x:80",
                                      "http://u@h/",
                                      "http://a/b c",
                                      "http://a/\xc3\xa9",
                                      "http://a/#f"};
    char text[2000] = "http://a/";
    fxi_url u;
    fx_error err;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (fxi_url_parse(bad[i], &u, &err) == FX_OK) fail_msg("taken: %s", bad[i]);
        assert_int_equal(err.status, FX_EINVAL);
        assert_null(strchr(err.text, '\n'));
    }
    memset(text + 9, 'a', sizeof text - 10);
    assert_int_equal(fxi_url_parse(text, &u, &err), FX_EINVAL);
}

// ---- answers -----------------------------------------------------------------------------------

static fxi_reply_state read_all(fxi_http_reply *r, const char *text, size_t piece, fxi_buf *body)
{
    fxi_reply_state st = FXI_REPLY_MORE;
    const size_t n = strlen(text);
    for (size_t at = 0; at < n && st == FXI_REPLY_MORE; at += piece)
        st = fxi_http_reply_add(r, text + at, n - at < piece ? n - at : piece, body);
    return st == FXI_REPLY_MORE ? fxi_http_reply_add(r, "", 0, body) : st;
}

// The same whatever the pieces.
static void expect_reply(const char *text, fxi_reply_state want, int status, const char *body)
{
    for (size_t piece = 1; piece <= strlen(text); piece++) {
        fxi_http_reply r = {0};
        fxi_buf b = {0};
        assert_int_equal(read_all(&r, text, piece, &b), want);
        if (want == FXI_REPLY_WHOLE) {
            assert_int_equal(r.status, status);
            assert_string_equal(b.p ? b.p : "", body);
        }
        fxi_http_reply_free(&r);
        fxi_buf_free(&b);
    }
}

static void test_answers_in_pieces(void **state)
{
    (void)state;
    const fxi_reply_state whole = FXI_REPLY_WHOLE;
    expect_reply("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", whole, 200, "hello");
    expect_reply("HTTP/1.1 200 OK\r\ncontent-length:0\r\n\r\n", whole, 200, "");
    expect_reply("HTTP/1.0 200 OK\n\nto the end", whole, 200, "to the end");
    expect_reply("HTTP/1.1 204 No Content\r\n\r\n", whole, 204, "");
    expect_reply("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 Busy\r\nContent-Length: 1\r\n\r\nx",
                 whole, 503, "x");
    expect_reply("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                 "3;a=b\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n",
                 whole, 200, "abc0123456789");
}

static void test_answers_that_are_broken(void **state)
{
    (void)state;
    const fxi_reply_state broken = FXI_REPLY_BROKEN;
    expect_reply("SSH-2.0-OpenSSH\r\n\r\n", broken, 0, "");
    expect_reply("\r\n", broken, 0, "");
    expect_reply("HTTP/1.1 20 OK\r\n\r\n", broken, 0, "");
    expect_reply("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", broken, 0, "");
    expect_reply("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", broken, 0, "");
    expect_reply("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", broken, 0, "");
    expect_reply("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", broken, 0, "");
    expect_reply("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", broken, 0, "");
    expect_reply("HTTP/1.1 200 OK", broken, 0, "");
}

static void test_a_head_is_bounded(void **state)
{
    (void)state;
    fxi_http_reply r = {0};
    fxi_buf b = {0};
    fxi_reply_state st = fxi_http_reply_add(&r, "HTTP/1.1 200 OK\r\n", 17, &b);
    for (int i = 0; i < 10000 && st == FXI_REPLY_MORE; i++)
        st = fxi_http_reply_add(&r, "X-A: b\r\n", 8, &b);
    assert_int_equal(st, FXI_REPLY_BROKEN);
    fxi_http_reply_free(&r);
}

static void test_headers_that_a_client_acts_on(void **state)
{
    (void)state;
    fxi_http_reply r = {0};
    fxi_buf b = {0};
    const char *text = "HTTP/1.1 429 Slow\r\nRetry-After:  7\r\nContent-Type: text/event-stream; "
                       "charset=utf-8\r\nContent-Length: 0\r\n\r\n";
    assert_int_equal(read_all(&r, text, 100, &b), FXI_REPLY_WHOLE);
    assert_int_equal(r.retry_after_s, 7);
    assert_true(r.is_event_stream);
    fxi_http_reply_free(&r);
}

// ---- connections -------------------------------------------------------------------------------

// Listens on a port of this machine and accepts nothing.
static int listen_anywhere(fxi_url *u)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, n), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    *u = (fxi_url){.host = "127.0.0.1", .path = "/"};
    snprintf(u->port, sizeof u->port, "%d", ntohs(a.sin_port));
    return fd;
}

static void test_nobody_waits_beyond_the_deadline(void **state)
{
    (void)state;
    fxi_url u;
    fx_error err;
    char c;
    size_t got;
    const int server = listen_anywhere(&u);
    const fxi_patience wait = {fxi_now_s() + 0.01, -1}, ever = {INFINITY, -1};
    fxi_link line;
    int ends[2];
    assert_int_equal(fxi_dial_open(&u, NULL, &ever, &line, &err), FX_OK);
    assert_int_equal(fxi_dial_receive(&line, &c, 1, &got, &wait, &err), FX_EIO);
    assert_string_equal(err.text, "no answer in time");
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    const fxi_patience stopped = {INFINITY, ends[0]};
    assert_int_equal(fxi_dial_receive(&line, &c, 1, &got, &stopped, &err), FX_EIO);
    assert_string_equal(err.text, "given up");
    fxi_dial_close(&line);
    close(ends[0]);
    close(ends[1]);
    close(server);
    assert_int_equal(fxi_dial_open(&u, NULL, &ever, &line, &err), FX_EIO);
    assert_string_equal(err.text, "Connection refused");
    fxi_dial_close(&line);
    assert_int_equal(line.fd, -1);
}

FX_SUITE(test_net)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urls_in_parts),
        cmocka_unit_test(test_urls_that_are_refused),
        cmocka_unit_test(test_answers_in_pieces),
        cmocka_unit_test(test_answers_that_are_broken),
        cmocka_unit_test(test_a_head_is_bounded),
        cmocka_unit_test(test_headers_that_a_client_acts_on),
        cmocka_unit_test(test_nobody_waits_beyond_the_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
