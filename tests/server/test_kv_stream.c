// test_kv_stream.c - subscribers of /kv/stream: a text is made once for all of them, slow readers
// get the newest one once they are ready, and the engine is told the cost; /kv/snapshot.
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "server/fake_snapshots.h"
#include "server/http/http.h"
#include "server/waits.h"
#include "unit/cmocka_all.h"

enum { N_TAKEN = 10, N_LARGE = 60000 }; // requests of a snapshot that no socket takes all of

static fxi_stream_counts counts_of(const fixture *f)
{
    pthread_mutex_lock(&f->srv->publisher.mu);
    const fxi_stream_counts c = f->srv->publisher.count;
    pthread_mutex_unlock(&f->srv->publisher.mu);
    return c;
}

static void wait_sent(const fixture *f, uint64_t n_sent)
{
    WAIT_UNTIL(counts_of(f).n_sent == n_sent);
}

// How many could take a text at once, if none is being made.
static int count_ready(const fixture *f)
{
    int n = 0;
    pthread_mutex_lock(&f->srv->publisher.mu);
    for (const fxi_http_job *job = f->srv->publisher.first; job; job = job->kv.next)
        n += !job->kv.text && !fxi_transport_queued_bytes(job->conn->io.fd);
    if (f->srv->publisher.is_busy) n = 0;
    pthread_mutex_unlock(&f->srv->publisher.mu);
    return n;
}

static void read_what_came(int fd)
{
    char piece[65536];
    while (recv(fd, piece, sizeof piece, MSG_DONTWAIT) > 0) {
    }
}

// Until n subscribers could take a text at once, while those of fd[0..n_fd) read: what is sent may
// be more than their sockets take.
static void wait_ready_reading(const fixture *f, int n, const int *fd, int n_fd)
{
    for (const double end_s = fxi_now_s() + WAIT_S; count_ready(f) < n; nap()) {
        assert_true(fxi_now_s() < end_s);
        for (int i = 0; i < n_fd; i++) read_what_came(fd[i]);
    }
}

static void wait_ready(const fixture *f, int n)
{
    wait_ready_reading(f, n, NULL, 0);
}

static int subscribe_from(const fixture *f)
{
    const int fd = http_open(f->port);
    http_send(fd, "GET /kv/stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return fd;
}

static void subscribe_all(const fixture *f, int *fd, int n)
{
    for (int i = 0; i < n; i++) fd[i] = subscribe_from(f);
    wait_ready(f, n);
}

// All have left, and nothing of theirs is kept.
static void close_all(fixture *f, const int *fd, int n)
{
    for (int i = 0; i < n; i++) close(fd[i]);
    WAIT_UNTIL(!fake_snapshots_counts().n_alive);
    wait_nothing_held(f);
    assert_int_equal(fake_snapshots_counts().n_subscriber, 0);
    assert_int_equal(counts_of(f).n_subscriber, 0);
    fixture_close(f);
}

// ---- one text for all --------------------------------------------------------------------------

// However many subscribe, as many texts are made as there are snapshots.
static void shares_among(int n)
{
    fixture f = fixture_open((fxi_server_options){0});
    int fd[FXI_MAX_SUBSCRIBER];
    subscribe_all(&f, fd, n);
    for (int i = 1; i <= N_TAKEN; i++) {
        fake_snapshots_take(i);
        wait_sent(&f, (uint64_t)(i * n));
        wait_ready(&f, n);
    }
    assert_int_equal(counts_of(&f).n_made, N_TAKEN);
    for (int i = 0; i < n; i++)
        expect_reply(http_read_until(fd[i], "{\"id\":10,"), 200, "{\"id\":10,");
    close_all(&f, fd, n);
}

FX_TEST(test_a_text_is_made_once_for_all)
{
    shares_among(1);
    shares_among(4);
    shares_among(FXI_MAX_SUBSCRIBER);
}

// A newcomer gets the text that there is, and shares what follows.
FX_TEST(test_a_newcomer_gets_the_newest_text)
{
    fixture f = fixture_open((fxi_server_options){0});
    int fd[2];
    subscribe_all(&f, fd, 1);
    fake_snapshots_take(1);
    wait_sent(&f, 1);
    fd[1] = subscribe_from(&f);
    wait_sent(&f, 2);
    wait_ready(&f, 2);
    assert_int_equal(counts_of(&f).n_made, 1);
    fake_snapshots_take(2);
    wait_sent(&f, 4);
    assert_int_equal(counts_of(&f).n_made, 2);
    for (int i = 0; i < 2; i++)
        expect_reply(http_read_until(fd[i], "{\"id\":2,"), 200, "{\"id\":2,");
    close_all(&f, fd, 2);
}

// Once all have left, the text is not given to whoever subscribes next.
FX_TEST(test_an_old_text_is_not_sent)
{
    fixture f = fixture_open((fxi_server_options){0});
    int fd[1];
    subscribe_all(&f, fd, 1);
    fake_snapshots_take(5);
    wait_sent(&f, 1);
    close(fd[0]);
    WAIT_UNTIL(!counts_of(&f).n_subscriber);
    subscribe_all(&f, fd, 1);
    assert_int_equal(counts_of(&f).n_sent, 1);
    fake_snapshots_take(2);
    wait_sent(&f, 2);
    http_reply r = http_read_until(fd[0], "{\"id\":2,");
    assert_null(strstr(r.body.p, "{\"id\":5,"));
    http_reply_free(&r);
    close_all(&f, fd, 1);
}

FX_TEST(test_more_subscribers_are_refused)
{
    fixture f = fixture_open((fxi_server_options){0});
    int fd[FXI_MAX_SUBSCRIBER];
    subscribe_all(&f, fd, FXI_MAX_SUBSCRIBER);
    expect_reply(http_call(f.port, "GET", "/kv/stream", NULL), 503, "subscribed already");
    expect_reply(http_call(f.port, "GET", "/kv/snapshot", NULL), 503, "subscribed already");
    close_all(&f, fd, FXI_MAX_SUBSCRIBER);
}

// ---- slow readers ------------------------------------------------------------------------------

// One that does not read is skipped. Once it has read, it gets the newest text, which is not made
// again.
FX_TEST(test_a_slow_reader_skips)
{
    fixture f = fixture_open((fxi_server_options){0});
    int fd[2];
    subscribe_all(&f, fd, 2);
    fake_snapshots_take(N_LARGE);
    wait_sent(&f, 2);
    expect_reply(http_read_until(fd[0], "\"id\":60000,"), 200, "\"id\":60000,");
    wait_ready(&f, 1);
    for (int i = 1; i <= N_TAKEN; i++) {
        fake_snapshots_take(i);
        wait_sent(&f, (uint64_t)(2 + i));
        wait_ready(&f, 1);
    }
    expect_reply(http_read_until(fd[1], "\"id\":60000,"), 200, NULL);
    wait_sent(&f, 2 + N_TAKEN + 1);
    assert_int_equal(counts_of(&f).n_made, 1 + N_TAKEN);
    close_all(&f, fd, 2);
}

// ---- one snapshot ------------------------------------------------------------------------------

FX_TEST(test_a_poll_waits_for_a_snapshot)
{
    fixture f = fixture_open((fxi_server_options){0});
    const int fd = http_open(f.port);
    http_send(fd, "GET /kv/snapshot HTTP/1.1\r\nHost: localhost\r\n\r\n");
    WAIT_UNTIL(fake_snapshots_counts().n_subscriber);
    fake_snapshots_take(2);
    expect_reply(http_read_until(fd, "\"priority\":0,\"submit_us\":0}]}"), 200,
                 "\"priority\":0,\"submit_us\":0}]}");
    close_all(&f, &fd, 1);
}

// ---- what it costs -----------------------------------------------------------------------------

// The engine is told all of it: workers' time, and bytes as time.
FX_TEST(test_the_engine_is_told_the_cost)
{
    fixture f = fixture_open((fxi_server_options){0});
    int fd[4];
    const uint64_t before_us = fake_snapshots_counts().charged_us;
    subscribe_all(&f, fd, 4);
    for (int i = 1; i <= N_TAKEN; i++) {
        fake_snapshots_take(i * 100);
        wait_sent(&f, (uint64_t)i * 4);
        wait_ready_reading(&f, 4, fd, 4);
    }
    const fxi_stream_counts c = counts_of(&f);
    const uint64_t us = fake_snapshots_counts().charged_us - before_us + 2 * N_TAKEN;
    assert_true(c.ns > 0 && us >= c.ns / 1000); // rounded down
    // Each subscriber's bytes may take up the time until the next snapshot, at 2 MiB/s.
    assert_true(us * FX_SNAPSHOT_SHARE >= c.n_bytes / 4 / 2 * 1000000 >> 20);
    close_all(&f, fd, 4);
}

FX_RUN(test_kv_stream)
