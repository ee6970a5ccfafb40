// test_server_viewers.c - those who watch /kv/stream: an event is made once for all who have the
// same picture, slow readers catch up later, and the engine is told what it all costs.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/system/clock.h"
#include "server/fake_pictures.h"
#include "server/http/http.h"
#include "server/waits.h"
#include "suite.h"

enum { N_PICTURE = 10, N_LARGE = 60000 }; // requests of a picture that no socket takes all of

static fxi_viewers_counts viewers_of(const fixture *f)
{
    pthread_mutex_lock(&f->srv->viewers.mu);
    const fxi_viewers_counts c = f->srv->viewers.count;
    pthread_mutex_unlock(&f->srv->viewers.mu);
    return c;
}

static void wait_sent(const fixture *f, uint64_t n_sent)
{
    for (const double end_s = fxi_now_s() + WAIT_S; viewers_of(f).n_sent != n_sent; nap())
        assert_true(fxi_now_s() < end_s);
}

static bool are_ready_locked(const fixture *f, int n)
{
    for (fxi_viewer *v = f->srv->viewers.first; v; v = v->next)
        n -= !v->seen || fxi_http_job_waits(v->job);
    return n <= 0 && !f->srv->viewers.is_busy;
}

static void read_what_came(int fd)
{
    char piece[65536];
    while (recv(fd, piece, sizeof piece, MSG_DONTWAIT) > 0) {
    }
}

// Until n viewers could take an event at once, while those of fd[0..n_fd) read: what is sent may be
// more than their sockets take.
static void wait_ready_reading(const fixture *f, int n, const int *fd, int n_fd)
{
    bool ready = false;
    for (const double end_s = fxi_now_s() + WAIT_S; !ready; nap()) {
        assert_true(fxi_now_s() < end_s);
        for (int i = 0; i < n_fd; i++) read_what_came(fd[i]);
        pthread_mutex_lock(&f->srv->viewers.mu);
        ready = are_ready_locked(f, n);
        pthread_mutex_unlock(&f->srv->viewers.mu);
    }
}

static void wait_ready(const fixture *f, int n)
{
    wait_ready_reading(f, n, NULL, 0);
}

static int watch_from(const fixture *f)
{
    const int fd = http_open(f->port);
    http_send(fd, "GET /kv/stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return fd;
}

static void wait_viewers(const fixture *f, uint64_t n)
{
    for (const double end_s = fxi_now_s() + WAIT_S; viewers_of(f).n_viewer < n; nap())
        assert_true(fxi_now_s() < end_s);
}

static void watch_all(const fixture *f, int *fd, int n)
{
    for (int i = 0; i < n; i++) fd[i] = watch_from(f);
    wait_viewers(f, (uint64_t)n);
    wait_ready(f, n);
}

static void expect_until(int fd, const char *text)
{
    http_reply r = http_read_until(fd, text);
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.body.p, text));
    http_reply_free(&r);
}

// All have left, and nothing of theirs is kept.
static void close_all(fixture *f, const int *fd, int n)
{
    for (int i = 0; i < n; i++) close(fd[i]);
    for (const double end_s = fxi_now_s() + WAIT_S; fake_pictures_counts().n_alive; nap())
        assert_true(fxi_now_s() < end_s);
    wait_nothing_held(f);
    assert_int_equal(fake_pictures_counts().n_viewer, 0);
    assert_int_equal(viewers_of(f).n_viewer, 0);
    fixture_close(f);
}

// ---- one text for all --------------------------------------------------------------------------

// However many watch, as many events are made as there are pictures.
static void shares_among(int n)
{
    fixture f = fixture_open((fxi_server_options){0});
    int fd[FXI_MAX_VIEWER];
    watch_all(&f, fd, n);
    for (int i = 1; i <= N_PICTURE; i++) {
        fake_pictures_take(i);
        wait_sent(&f, (uint64_t)(i * n));
        wait_ready(&f, n);
    }
    assert_int_equal(viewers_of(&f).n_made, N_PICTURE);
    for (int i = 0; i < n; i++) expect_until(fd[i], "\"requests\":[{\"id\":10,");
    close_all(&f, fd, n);
}

static void test_an_event_is_made_once_for_all(void **state)
{
    (void)state;
    shares_among(1);
    shares_among(4);
    shares_among(FXI_MAX_VIEWER);
}

// One who comes later gets a whole picture with the next one, and shares what follows.
static void test_who_comes_later_joins_the_others(void **state)
{
    (void)state;
    fixture f = fixture_open((fxi_server_options){0});
    int fd[2];
    watch_all(&f, fd, 1);
    fake_pictures_take(1);
    wait_sent(&f, 1);
    fd[1] = watch_from(&f);
    wait_viewers(&f, 2);
    wait_ready(&f, 2);
    fake_pictures_take(2);
    wait_sent(&f, 3);
    assert_int_equal(viewers_of(&f).n_made, 3); // the first, a change and a whole one
    wait_ready(&f, 2);
    fake_pictures_take(3);
    wait_sent(&f, 5);
    assert_int_equal(viewers_of(&f).n_made, 4);
    for (int i = 0; i < 2; i++) expect_until(fd[i], "\"requests\":[{\"id\":3,");
    close_all(&f, fd, 2);
}

static void test_more_than_may_watch_are_refused(void **state)
{
    (void)state;
    fixture f = fixture_open((fxi_server_options){0});
    int fd[FXI_MAX_VIEWER];
    watch_all(&f, fd, FXI_MAX_VIEWER);
    expect_reply(http_call(f.port, "GET", "/kv/stream", NULL), 503, "watch already");
    close_all(&f, fd, FXI_MAX_VIEWER);
}

// ---- slow readers ------------------------------------------------------------------------------

// One that does not read is left alone. Once it has read, and nothing else happens, the engine is
// asked for a picture, and one change brings it to where the others are.
static void test_a_slow_reader_is_left_alone(void **state)
{
    (void)state;
    fixture f = fixture_open((fxi_server_options){0});
    int fd[2];
    watch_all(&f, fd, 1);
    fd[1] = watch_from(&f);
    wait_viewers(&f, 2);
    wait_ready(&f, 2);
    fake_pictures_take(N_LARGE);
    wait_sent(&f, 2);
    expect_until(fd[0], "\"id\":60000,");
    wait_ready(&f, 1);
    for (int i = 1; i <= N_PICTURE; i++) {
        fake_pictures_take(i);
        wait_sent(&f, (uint64_t)(2 + i));
        wait_ready_reading(&f, 1, fd, 1); // the first change names all that are gone
    }
    assert_int_equal(viewers_of(&f).n_made, 1 + N_PICTURE);
    const int n_want = fake_pictures_counts().n_want;
    http_reply whole = http_read_until(fd[1], "\"id\":60000,");
    http_reply_free(&whole);
    for (const double end_s = fxi_now_s() + WAIT_S; fake_pictures_counts().n_want == n_want; nap())
        assert_true(fxi_now_s() < end_s);
    wait_ready(&f, 2);
    fake_pictures_take(N_PICTURE + 1);
    wait_sent(&f, 2 + N_PICTURE + 2);
    assert_int_equal(viewers_of(&f).n_made, 1 + N_PICTURE + 2);
    close_all(&f, fd, 2);
}

// ---- what it costs -----------------------------------------------------------------------------

// The engine hears of all of it: of workers' time, of whole pictures apart, and of bytes.
static void test_the_engine_is_told_the_cost(void **state)
{
    (void)state;
    fixture f = fixture_open((fxi_server_options){0});
    int fd[4];
    const fake_pictures before = fake_pictures_counts();
    watch_all(&f, fd, 4);
    uint64_t whole_bytes = 0;
    for (int i = 1; i <= N_PICTURE; i++) {
        fake_pictures_take(i * 100);
        wait_sent(&f, (uint64_t)i * 4);
        wait_ready_reading(&f, 4, fd, 4);
        if (i == 1) whole_bytes = viewers_of(&f).n_bytes;
    }
    const fxi_viewers_counts c = viewers_of(&f);
    const fake_pictures after = fake_pictures_counts();
    const uint64_t change_us = after.charged_us - before.charged_us,
                   whole_us = after.whole_us - before.whole_us;
    assert_true(c.ns > 0 && whole_us > 0);
    assert_true(change_us + whole_us + 2 * N_PICTURE >= c.ns / 1000); // rounded down
    // Each viewer's changes may take up the time until the next picture, at 2 MiB/s.
    const uint64_t change_bytes = (c.n_bytes - whole_bytes) / 4;
    assert_true((change_us + 2 * N_PICTURE) * FX_PICTURE_SHARE >= change_bytes / 2 * 1000000 >> 20);
    close_all(&f, fd, 4);
}

// While too much is owed for whole pictures, those who have one get their changes, and those who
// come wait. Then one text is made for all of these.
static void test_who_comes_while_much_is_owed_waits(void **state)
{
    (void)state;
    fixture f = fixture_open((fxi_server_options){0});
    int fd[4];
    watch_all(&f, fd, 1);
    fake_pictures_take(1);
    wait_sent(&f, 1);
    wait_ready(&f, 1);
    fake_pictures_hold_wholes(20000);
    const uint64_t whole_us = fake_pictures_counts().whole_us;
    for (int i = 1; i < 4; i++) fd[i] = watch_from(&f);
    wait_viewers(&f, 4);
    for (int i = 2; i <= N_PICTURE; i++) {
        fake_pictures_take(i);
        wait_sent(&f, (uint64_t)i);
        wait_ready(&f, 1);
    }
    assert_int_equal(viewers_of(&f).n_made, N_PICTURE); // a whole one, and changes
    assert_int_equal(fake_pictures_counts().whole_us, whole_us);
    const int n_want = fake_pictures_counts().n_want;
    fake_pictures_hold_wholes(0);
    for (const double end_s = fxi_now_s() + WAIT_S; fake_pictures_counts().n_want == n_want; nap())
        assert_true(fxi_now_s() < end_s);
    fake_pictures_take(N_PICTURE + 1);
    wait_sent(&f, N_PICTURE + 4);
    assert_int_equal(viewers_of(&f).n_made, N_PICTURE + 2);
    for (int i = 0; i < 4; i++) expect_until(fd[i], "\"id\":11,");
    close_all(&f, fd, 4);
}

FX_SUITE(test_server_viewers)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_event_is_made_once_for_all),
        cmocka_unit_test(test_who_comes_later_joins_the_others),
        cmocka_unit_test(test_more_than_may_watch_are_refused),
        cmocka_unit_test(test_a_slow_reader_is_left_alone),
        cmocka_unit_test(test_the_engine_is_told_the_cost),
        cmocka_unit_test(test_who_comes_while_much_is_owed_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
