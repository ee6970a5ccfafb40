// test_http_client.c - HTTP as a client: URLs, answers, and waits that end.
#include "unit/cmocka_all.h"

#include "base/net/http_client.h"
#include "base/system/clock.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

FX_TEST(test_urls_that_are_taken)
{
    static const char *const good[] = {"http://localhost:4318/v1/traces",
                                       "HTTP://a.b",
                                       "http://a.b:8080/x?y=1",
                                       "http://[::1]:8080/",
                                       "https://a.b",
                                       "HTTPS://a.b:4318/x"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (fxi_http_url_check(good[i], NULL) != FX_OK) fail_msg("refused: %s", good[i]);
}

FX_TEST(test_urls_that_are_refused)
{
    // clang-format off
    static const char *const bad[] = {
        "", "localhost:80", "ftp://a/", "http://", "http:///x", "http://:80", "http://a:0",
        "http://a:65536", "http://a:8x", "http://a:123456", "http://[::1", "http://[::1]x:80",
        "http://u@h/", "http://a/b c", "http://a/\xc3\xa9", "http://a/#f",
    };
    // clang-format on
    fx_error err;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (fxi_http_url_check(bad[i], &err) == FX_OK) fail_msg("taken: %s", bad[i]);
        assert_int_equal(err.status, FX_EINVAL);
        assert_null(strchr(err.text, '\n'));
    }
}

// ---- a server ----------------------------------------------------------------------------------

// Accepts connections, reads a request, and sends one text; silent where that is NULL.
typedef struct small_server {
    int fd;
    char url[64];
    const char *answer;
    char request[4096]; // the last one
    pthread_t thread;
    atomic_bool stop;
} small_server;

static void *serve(void *ud)
{
    small_server *s = ud;
    for (int fd; (fd = accept(s->fd, NULL, NULL)) >= 0; close(fd)) {
        size_t n = 0;
        for (ssize_t got; n < sizeof s->request - 1; n += (size_t)got) {
            s->request[n] = 0;
            const char *end = strstr(s->request, "\r\n\r\n");
            if (end && (strncmp(s->request, "POST", 4) || strstr(end, "}"))) break;
            got = recv(fd, s->request + n, sizeof s->request - 1 - n, 0);
            if (got <= 0) break;
        }
        if (s->answer && send(fd, s->answer, strlen(s->answer), MSG_NOSIGNAL) < 0) perror("send");
        while (!s->answer && !s->stop) usleep(1000);
    }
    return NULL;
}

static void start_small(small_server *s, const char *answer)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    *s = (small_server){.fd = socket(AF_INET, SOCK_STREAM, 0), .answer = answer};
    assert_int_equal(bind(s->fd, (struct sockaddr *)&a, n), 0);
    assert_int_equal(listen(s->fd, 8), 0);
    assert_int_equal(getsockname(s->fd, (struct sockaddr *)&a, &n), 0);
    snprintf(s->url, sizeof s->url, "http://127.0.0.1:%d/x", ntohs(a.sin_port));
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void stop_small(small_server *s)
{
    s->stop = true;
    shutdown(s->fd, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->fd);
}

static fx_status ask(const char *url, int stop_fd, double timeout_s, fxi_http_answer *a,
                     fx_error *err)
{
    fxi_http_client *c;
    assert_int_equal(fxi_http_client_open(NULL, stop_fd, &c, err), FX_OK);
    const fxi_http_call call = {.url = url, .timeout_s = timeout_s, .max_bytes = 20};
    const fx_status st = fxi_http_client_call(c, &call, a, err);
    fxi_http_client_close(c);
    return st;
}

// body NULL: an error that has this reason.
static void expect_answer(const char *text, int status, const char *body, const char *why)
{
    small_server s;
    fxi_http_answer a;
    fx_error err;
    start_small(&s, text);
    const fx_status st = ask(s.url, -1, 60, &a, &err);
    stop_small(&s);
    if (body && st != FX_OK) fail_msg("%s: %s", text, err.text);
    assert_int_equal(st, body ? FX_OK : FX_EIO);
    if (!body && !strstr(err.text, why)) fail_msg("%s: %s", text, err.text);
    if (!body) return;
    assert_int_equal(a.status, status);
    assert_string_equal(a.body.p ? a.body.p : "", body);
    fxi_buf_free(&a.body);
}

#define OK "HTTP/1.1 200 OK\r\n"

FX_TEST(test_answers)
{
    expect_answer(OK "Content-Length: 5\r\n\r\nhello", 200, "hello", NULL);
    expect_answer("HTTP/1.0 200 OK\r\n\r\nto the end", 200, "to the end", NULL);
    expect_answer("HTTP/1.1 204 No Content\r\n\r\n", 204, "", NULL);
    expect_answer("HTTP/1.1 503 Busy\r\nContent-Length: 1\r\n\r\nx", 503, "x", NULL);
    expect_answer("HTTP/1.1 302 Found\r\nLocation: http://a/\r\nContent-Length: 0\r\n\r\n", 302, "",
                  NULL);
    expect_answer(OK "Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\nA\r\n0123456789\r\n0\r\n"
                     "Trailer: x\r\n\r\n",
                  200, "abc0123456789", NULL);
    expect_answer(OK "Content-Length: 21\r\n\r\n012345678901234567890", 200, NULL, "too long");
    expect_answer(OK "Content-Length: 9\r\n\r\nshort", 200, NULL, "");
    expect_answer(OK "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 200, NULL, "");
    expect_answer("SSH-2.0-OpenSSH\r\n\r\n", 0, NULL, "it does not answer in HTTP");
    expect_answer("\r\n", 0, NULL, "it does not answer in HTTP");
    expect_answer("", 0, NULL, "it closed the connection");
}

FX_TEST(test_a_post)
{
    small_server s;
    fxi_http_client *c;
    fxi_http_answer a;
    fxi_buf body = {0};
    fx_error err;
    start_small(&s, "HTTP/1.1 429 Slow\r\nRetry-After:  7\r\nContent-Length: 0\r\n\r\n");
    assert_true(fxi_buf_str(&body, "{\"a\":1}"));
    assert_int_equal(fxi_http_client_open(NULL, -1, &c, &err), FX_OK);
    const char *const header[] = {"Content-Type: application/json", "X-Key: k v"};
    const fxi_http_call call = {.url = s.url,
                                .header = header,
                                .n_header = 2,
                                .body = &body,
                                .timeout_s = 60,
                                .max_bytes = 9};
    for (int i = 0; i < 3; i++) { // also over connections that have been closed
        if (fxi_http_client_call(c, &call, &a, &err) != FX_OK) fail_msg("%s", err.text);
        assert_int_equal(a.status, 429);
        assert_int_equal(a.retry_after_s, 7);
        fxi_buf_free(&a.body);
    }
    fxi_http_client_close(c);
    stop_small(&s);
    fxi_buf_free(&body);
    static const char *const want[] = {"POST /x HTTP/1.1\r\n", "\r\nContent-Length: 7\r\n",
                                       "\r\nContent-Type: application/json\r\n",
                                       "\r\nX-Key: k v\r\n", "\r\n\r\n{\"a\":1}"};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        if (!strstr(s.request, want[i])) fail_msg("no %s in %s", want[i], s.request);
    assert_null(strstr(s.request, "Expect"));
}

FX_TEST(test_no_wait_is_longer_than_it_may_be)
{
    small_server s;
    fxi_http_answer a;
    fx_error err;
    int ends[2];
    start_small(&s, NULL);
    assert_int_equal(ask(s.url, -1, 0.05, &a, &err), FX_EIO);
    assert_string_equal(err.text, "no answer in time");
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(ask(s.url, ends[0], 60, &a, &err), FX_EIO);
    assert_string_equal(err.text, "given up");
    close(ends[0]);
    close(ends[1]);
    stop_small(&s);
    assert_int_equal(ask(s.url, -1, 60, &a, &err), FX_EIO);
    assert_string_equal(err.text, "Connection refused");
}

FX_TEST(test_a_file_of_authorities_is_there)
{
    fxi_http_client *c;
    fx_error err;
    assert_int_equal(fxi_http_client_open("no such file", -1, &c, &err), FX_EIO);
    assert_non_null(strstr(err.text, "no such file"));
    assert_null(c);
    fxi_http_client_close(NULL);
}

// ---- bodies that are taken as they come, and heads ----------------------------------------------

typedef struct taker {
    size_t n, max; // bytes; more than max are refused
    int status;
    char head[200];
} taker;

static bool take_some(void *ud, const fxi_http_answer *a, const char *p, size_t n)
{
    taker *t = ud;
    t->status = a->status;
    snprintf(t->head, sizeof t->head, "%s", a->head.p);
    t->n += n;
    return t->n <= t->max;
}

static fx_status take_answer(const char *text, taker *t, fxi_http_answer *a, fx_error *err)
{
    small_server s;
    fxi_http_client *c;
    start_small(&s, text);
    const fxi_http_call call = {.url = s.url, .on_body = take_some, .ud = t, .keeps_head = true};
    assert_int_equal(fxi_http_client_open(NULL, -1, &c, err), FX_OK);
    const fx_status st = fxi_http_client_call(c, &call, a, err);
    fxi_http_client_close(c);
    stop_small(&s);
    return st;
}

FX_TEST(test_a_body_is_taken_as_it_comes)
{
    taker t = {.max = 5};
    fxi_http_answer a;
    fx_error err;
    static const char text[] = "HTTP/1.1 100 Continue\r\nOld: 1\r\n\r\nHTTP/1.1 206 Part\r\n"
                               "New: 2\r\nContent-Length: 5\r\n\r\nhello";
    if (take_answer(text, &t, &a, &err) != FX_OK) fail_msg("%s", err.text);
    assert_int_equal(t.n, 5);
    assert_int_equal(t.status, 206);
    assert_int_equal(a.body.n, 0);
    assert_string_equal(t.head, "HTTP/1.1 206 Part\r\nNew: 2\r\nContent-Length: 5\r\n\r\n");
    fxi_http_answer_free(&a);
    t = (taker){.max = 4};
    assert_int_equal(take_answer(text, &t, &a, &err), FX_EIO);
    assert_string_equal(err.text, "its answer is not what was asked for");
    fxi_http_answer_free(&a);
}

FX_TEST(test_where_a_redirect_leads)
{
    taker t = {0};
    fxi_http_answer a;
    fx_error err;
    static const char text[] = "HTTP/1.1 302 Found\r\nLocation: /y?z\r\nContent-Length: 0\r\n\r\n";
    if (take_answer(text, &t, &a, &err) != FX_OK) fail_msg("%s", err.text);
    assert_int_equal(a.status, 302);
    if (strncmp(a.location.p, "http://127.0.0.1:", 17) || !strstr(a.location.p, "/y?z"))
        fail_msg("%s", a.location.p);
    fxi_http_answer_free(&a);
}

FX_RUN(test_http_client)
