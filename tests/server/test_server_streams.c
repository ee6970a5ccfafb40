// test_server_streams.c - the tokens of a stream on their way to its reader: whole, in order, and
// bounded in time where the reader stalls.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "server/http/http.h"
#include "server/waits.h"
#include "unit/cmocka_all.h"

enum { N_BIG = 120, BIG_BYTES = 64 << 10 }; // tokens that no socket takes all of

static const char count_99[] = "{\"prompt\":\"count 99\",\"max_tokens\":99,\"stream\":true}";

// ---- old and new clients ----------------------------------------------------------------------

// All bytes until the connection closes.
static fxi_buf call_raw(int port, const char *version, const char *header)
{
    fxi_buf b = {0};
    char piece[4096];
    const int fd = http_open(port);
    http_send(fd,
              "POST " TEXT " HTTP/%s\r\nHost: localhost\r\nContent-Type: application/json\r\n%s"
              "Content-Length: %zu\r\n\r\n%s",
              version, header, sizeof count_99 - 1, count_99);
    for (ssize_t n; (n = read(fd, piece, sizeof piece)) > 0;)
        assert_true(fxi_buf_add(&b, piece, (size_t)n));
    close(fd);
    return b;
}

static int count_in(const char *text, const char *what)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what)) n++;
    return n;
}

// Chunks are for those who asked with HTTP/1.1.
FX_TEST(test_stream_of_an_old_client_has_no_chunks)
{
    fixture f = fixture_open((fxi_server_options){0});
    fxi_buf b = call_raw(f.port, "1.0", "");
    const char *body = strstr(b.p, "\r\n\r\n");
    assert_non_null(body);
    assert_null(strcasestr(b.p, "transfer-encoding"));
    assert_null(strstr(body + 4, "\r\n"));
    assert_int_equal(count_in(body, "data: "), 101);
    assert_string_equal(b.p + b.n - strlen("data: [DONE]\n\n"), "data: [DONE]\n\n");
    fxi_buf_free(&b);
    b = call_raw(f.port, "1.1", "Connection: close\r\n");
    assert_non_null(strcasestr(b.p, "transfer-encoding: chunked"));
    assert_int_equal(count_in(b.p, "data: "), 101);
    assert_string_equal(b.p + b.n - 7, "\r\n0\r\n\r\n");
    fxi_buf_free(&b);
    fixture_close(&f);
}

FX_TEST(test_streams_follow_each_other_on_a_connection)
{
    fixture f = fixture_open((fxi_server_options){0});
    const int fd = http_open(f.port);
    for (int k = 0; k < 15; k++) {
        http_post(fd, TEXT, count_99);
        http_reply r = http_read(fd);
        assert_true(r.status == 200 && !r.cut);
        assert_int_equal(count_in(r.body.p, "data: "), 101);
        assert_non_null(strstr(r.body.p, "\"text\":\" 99\""));
        http_reply_free(&r);
    }
    close(fd);
    wait_nothing_held(&f);
    fixture_close(&f);
}

// ---- readers that stall -----------------------------------------------------------------------

// Bytes of the one stream that its socket has not taken.
static size_t unsent_bytes(const fixture *f)
{
    size_t n = 0;
    pthread_mutex_lock(&f->srv->mu);
    fxi_http_job *j = f->srv->jobs;
    if (j) {
        pthread_mutex_lock(&j->mu);
        n = j->reply.out.n - j->reply.n_sent;
        pthread_mutex_unlock(&j->mu);
    }
    pthread_mutex_unlock(&f->srv->mu);
    return n;
}

// A stream of N_BIG tokens, of which n have come.
static int begin_stream(const fixture *f, int n)
{
    const int fd = http_open(f->port);
    fake_engine_open(f->eng, n);
    http_post(fd, TEXT, "{\"prompt\":\"dam 120\",\"max_tokens\":120,\"stream\":true}");
    return fd;
}

// The same once the socket takes no more.
static int begin_stalled(const fixture *f, int n)
{
    const int n_before = fake_engine_counts(f->eng).n_submitted, fd = begin_stream(f, n);
    size_t was = 0, now = 0;
    wait_submitted(f, n_before + 1);
    if (n == N_BIG) assert_true(fake_engine_wait_idle(f->eng, WAIT_S));
    for (const double end_s = fxi_now_s() + WAIT_S; !now || now != was;) {
        assert_true(fxi_now_s() < end_s);
        was = unsent_bytes(f);
        for (int i = 0; i < 25; i++) nap();
        now = unsent_bytes(f);
    }
    return fd;
}

static const fxi_server_options roomy = {.max_out_bytes = 64 * MIB, .max_queue_bytes = 256 * MIB};

FX_TEST(test_stalled_reader_gets_the_whole_stream)
{
    fixture f = fixture_open(roomy);
    const int fd = begin_stalled(&f, N_BIG);
    http_reply r = http_read(fd);
    assert_true(r.status == 200 && !r.cut);
    assert_true(r.body.n > (size_t)N_BIG * BIG_BYTES);
    assert_int_equal(count_in(r.body.p, "data: "), N_BIG + 2);
    assert_non_null(strstr(r.body.p, "\n\ndata: [DONE]\n\n"));
    http_reply_free(&r);
    http_post(fd, TEXT, "{\"prompt\":\"say hi\"}"); // and the connection goes on
    expect_reply(http_read(fd), 200, "hi");
    close(fd);
    wait_nothing_held(&f);
    fixture_close(&f);
}

// What came while the socket was full leaves once it is not, though no token follows.
FX_TEST(test_stalled_reader_gets_what_came_meanwhile)
{
    fxi_server_options opt = roomy;
    opt.ping_s = 1e6; // nothing else wakes the stream
    fixture f = fixture_open(opt);
    const int fd = begin_stalled(&f, N_BIG - 1);
    static char piece[64 << 10];
    for (size_t n = 0; n < (size_t)(N_BIG - 1) * BIG_BYTES;) {
        const ssize_t n_more = read(fd, piece, sizeof piece);
        assert_true(n_more > 0);
        n += (size_t)n_more;
    }
    http_reset(fd);
    wait_nothing_held(&f);
    fixture_close(&f);
}

FX_TEST(test_stalled_reader_that_leaves_is_forgotten)
{
    fixture f = fixture_open(roomy);
    http_reset(begin_stalled(&f, N_BIG));
    wait_nothing_held(&f);
    close(begin_stalled(&f, N_BIG));
    wait_nothing_held(&f);
    fixture_close(&f);
}

FX_TEST(test_stalled_reader_that_stays_is_cut_off)
{
    fxi_server_options opt = roomy;
    opt.read_timeout_s = 0.2;
    fixture f = fixture_open(opt);
    const int fd = begin_stream(&f, N_BIG);
    wait_submitted(&f, 1);
    wait_nothing_held(&f);
    http_reply r = http_read(fd);
    assert_true(r.cut);
    http_reply_free(&r);
    close(fd);
    fixture_close(&f);
}

// A stop gives it the time that it gives to all, and no more.
FX_TEST(test_stop_with_a_stalled_reader)
{
    fxi_server_options opt = roomy;
    opt.grace_s = 0.05;
    fixture f = fixture_open(opt);
    const int fd = begin_stalled(&f, N_BIG);
    const double start_s = fxi_now_s();
    fixture_close(&f);
    assert_true(fxi_now_s() - start_s < WAIT_S / 2);
    http_reply r = http_read(fd);
    assert_true(r.status == 200 && r.cut);
    http_reply_free(&r);
    close(fd);
}

FX_TEST(test_stop_waits_for_a_reader_that_goes_on)
{
    fxi_server_options opt = roomy;
    opt.grace_s = WAIT_S;
    fixture f = fixture_open(opt);
    const int fd = begin_stalled(&f, N_BIG);
    const pthread_t stopper = stop_meanwhile(&f);
    http_reply r = http_read(fd);
    assert_true(r.status == 200 && !r.cut);
    assert_non_null(strstr(r.body.p, "\n\ndata: [DONE]\n\n"));
    http_reply_free(&r);
    close(fd);
    pthread_join(stopper, NULL);
    fixture_close(&f);
}

FX_RUN(test_server_streams)
