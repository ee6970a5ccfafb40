// test_server_streams.c - the tokens of a stream on their way to its reader: past MHD between two
// chunks of the body, late if steps are fast, and in pieces if the reader is slow.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/system/clock.h"
#include "server/http/http.h"
#include "server/waits.h"
#include "suite.h"

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
static void test_stream_of_an_old_client_has_no_chunks(void **state)
{
    (void)state;
    fixture f = fixture_open((fxi_server_options){.send_percent = 100});
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

// Whether tokens are held or not, the stream is the same, and the connection takes another request.
static void test_streams_are_the_same_however_they_are_sent(void **state)
{
    static const double percents[] = {100, 2, 0.001};
    (void)state;
    for (size_t i = 0; i < sizeof percents / sizeof *percents; i++) {
        fixture f = fixture_open((fxi_server_options){.send_percent = percents[i]});
        const int fd = http_open(f.port);
        for (int k = 0; k < 5; k++) {
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
}

// ---- readers that stall -----------------------------------------------------------------------

// Where the one stream stands: on its way; with a chunk half sent; in MHD's hands, since the socket
// took all of the last chunk and nothing of the next.
typedef enum stall { MOVING, HALF_SENT, LEFT_TO_MHD } stall;

static stall look_at_stream(const fixture *f)
{
    stall st = MOVING;
    pthread_mutex_lock(&f->srv->mu);
    fxi_http_job *j = f->srv->jobs;
    if (j) {
        pthread_mutex_lock(&j->mu);
        if (j->reply.ended) st = j->suspended ? MOVING : LEFT_TO_MHD;
        if (j->suspended && j->chunk_sent) st = HALF_SENT;
        pthread_mutex_unlock(&j->mu);
    }
    pthread_mutex_unlock(&f->srv->mu);
    return st;
}

static bool is_suspended(const fixture *f)
{
    pthread_mutex_lock(&f->srv->mu);
    fxi_http_job *j = f->srv->jobs;
    bool waits = false;
    if (j) {
        pthread_mutex_lock(&j->mu);
        waits = j->n_out >= BIG_BYTES && j->suspended;
        pthread_mutex_unlock(&j->mu);
    }
    pthread_mutex_unlock(&f->srv->mu);
    return waits;
}

static void wait_until(const fixture *f, bool (*is_true)(const fixture *f))
{
    for (const double end_s = fxi_now_s() + WAIT_S; !is_true(f); nap())
        assert_true(fxi_now_s() < end_s);
}

// A stream whose first token has left, and whose reader takes no more than its buffers do.
static int begin_unread(const fixture *f)
{
    const int fd = http_open(f->port);
    fake_engine_open(f->eng, 0);
    http_post(fd, TEXT, "{\"prompt\":\"dam 120\",\"max_tokens\":120,\"stream\":true}");
    fake_engine_open(f->eng, 1);
    wait_until(f, is_suspended);
    fake_engine_open(f->eng, N_BIG);
    assert_true(fake_engine_wait_idle(f->eng, WAIT_S));
    return fd;
}

// The same until a chunk of one is half sent.
static int begin_stalled(const fixture *f)
{
    for (const double end_s = fxi_now_s() + WAIT_S; fxi_now_s() < end_s;) {
        stall st;
        const int fd = begin_unread(f);
        while ((st = look_at_stream(f)) == MOVING && fxi_now_s() < end_s) nap();
        if (st == HALF_SENT) return fd;
        http_reset(fd);
        wait_nothing_held(f);
    }
    fail_msg("no chunk is ever half sent");
    return -1;
}

// All tokens but the last have come, a chunk is half sent, and there is text behind it.
static bool has_text_behind(const fixture *f)
{
    bool has = false;
    pthread_mutex_lock(&f->srv->mu);
    fxi_http_job *j = f->srv->jobs;
    if (j) {
        pthread_mutex_lock(&j->mu);
        const size_t n_left = j->reply.out.n - j->reply.n_sent;
        const bool are_all = j->n_out + n_left >= (uint64_t)(N_BIG - 1) * BIG_BYTES;
        has = are_all && j->suspended && j->chunk_sent && n_left > j->chunk_bytes;
        pthread_mutex_unlock(&j->mu);
    }
    pthread_mutex_unlock(&f->srv->mu);
    return has;
}

static int begin_unended(const fixture *f)
{
    for (const double end_s = fxi_now_s() + WAIT_S; fxi_now_s() < end_s;) {
        const int fd = http_open(f->port);
        fake_engine_open(f->eng, 0);
        http_post(fd, TEXT, "{\"prompt\":\"dam 120\",\"max_tokens\":120,\"stream\":true}");
        fake_engine_open(f->eng, 1);
        wait_until(f, is_suspended);
        fake_engine_open(f->eng, N_BIG - 1);
        for (int i = 0; i < 200; i++, nap())
            if (has_text_behind(f)) return fd;
        http_reset(fd); // MHD has the rest: the socket took all of a chunk
        wait_nothing_held(f);
    }
    fail_msg("no chunk is ever half sent with text behind it");
    return -1;
}

static const fxi_server_options roomy = {.max_out_bytes = 64 * MIB, .max_queue_bytes = 256 * MIB};

static void test_stalled_reader_gets_the_whole_stream(void **state)
{
    (void)state;
    fixture f = fixture_open(roomy);
    const int fd = begin_stalled(&f);
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

// What came while a chunk was half sent leaves once it is whole, though no token follows.
static void test_stalled_reader_gets_what_came_meanwhile(void **state)
{
    (void)state;
    fxi_server_options opt = roomy;
    opt.ping_s = 1e6; // nothing else wakes the stream
    fixture f = fixture_open(opt);
    const int fd = begin_unended(&f);
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

static void test_stalled_reader_that_leaves_is_forgotten(void **state)
{
    (void)state;
    fixture f = fixture_open(roomy);
    http_reset(begin_stalled(&f));
    wait_nothing_held(&f);
    close(begin_stalled(&f));
    wait_nothing_held(&f);
    fixture_close(&f);
}

static void test_stalled_reader_that_stays_is_cut_off(void **state)
{
    (void)state;
    fxi_server_options opt = roomy;
    opt.read_timeout_s = 0.2;
    fixture f = fixture_open(opt);
    const int fd = begin_unread(&f);
    wait_nothing_held(&f);
    assert_int_equal(fxi_peers_look(&f.srv->peers).counts.n_late, 1);
    http_reply r = http_read(fd);
    assert_true(r.cut);
    http_reply_free(&r);
    close(fd);
    fixture_close(&f);
}

// A stop gives it the time that it gives to all, and no more.
static void test_stop_beside_a_stalled_reader(void **state)
{
    (void)state;
    fxi_server_options opt = roomy;
    opt.grace_s = 0.05;
    fixture f = fixture_open(opt);
    const int fd = begin_stalled(&f);
    const double start_s = fxi_now_s();
    fixture_close(&f);
    assert_true(fxi_now_s() - start_s < WAIT_S / 2);
    http_reply r = http_read(fd);
    assert_true(r.status == 200 && r.cut);
    http_reply_free(&r);
    close(fd);
}

static void *stop_server(void *ud)
{
    fxi_server_stop(ud);
    return NULL;
}

static void test_stop_waits_for_a_reader_that_goes_on(void **state)
{
    (void)state;
    fxi_server_options opt = roomy;
    pthread_t stopper;
    opt.grace_s = WAIT_S;
    fixture f = fixture_open(opt);
    const int fd = begin_stalled(&f);
    pthread_create(&stopper, NULL, stop_server, f.srv);
    http_reply r = http_read(fd);
    assert_true(r.status == 200 && !r.cut);
    assert_non_null(strstr(r.body.p, "\n\ndata: [DONE]\n\n"));
    http_reply_free(&r);
    close(fd);
    pthread_join(stopper, NULL);
    fx_engine_close(f.eng);
}

// ---- whose thread sends -----------------------------------------------------------------------

static int fill_cores(void **state)
{
    (void)state;
    fake_engine_threads(1 << 20);
    return 0;
}

static int free_cores(void **state)
{
    (void)state;
    fake_engine_threads(1);
    return 0;
}

// The sender runs beside an engine that leaves a core free, and only there.
static void test_sender_is_where_a_core_is_free(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        fake_engine_threads(i ? 1 << 20 : 0);
        fixture f = fixture_open((fxi_server_options){0});
        pthread_mutex_lock(&f.srv->wakes.mu);
        assert_int_equal(f.srv->wakes.has_sender, !i);
        pthread_mutex_unlock(&f.srv->wakes.mu);
        fixture_close(&f);
    }
    fake_engine_threads(1);
}

FX_SUITE(test_server_streams)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream_of_an_old_client_has_no_chunks),
        cmocka_unit_test(test_streams_are_the_same_however_they_are_sent),
        cmocka_unit_test(test_stalled_reader_gets_the_whole_stream),
        cmocka_unit_test(test_stalled_reader_gets_what_came_meanwhile),
        cmocka_unit_test(test_stalled_reader_that_leaves_is_forgotten),
        cmocka_unit_test(test_stalled_reader_that_stays_is_cut_off),
        cmocka_unit_test(test_stop_beside_a_stalled_reader),
        cmocka_unit_test(test_stop_waits_for_a_reader_that_goes_on),
    };
    const struct CMUnitTest once[] = {cmocka_unit_test(test_sender_is_where_a_core_is_free)};
    return cmocka_run_group_tests_name("whose thread sends", once, NULL, NULL) +
           cmocka_run_group_tests_name("a sender sends", tests, NULL, NULL) +
           cmocka_run_group_tests_name("the engine's thread sends", tests, fill_cores, free_cores);
}
