// test_server_queue.c - the queue in front of the workers, over HTTP: clients take turns whatever
// their connections, a client that leaves takes its work and its bytes along, and large answers are
// work, too.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pthread.h>

#include "base/system/clock.h"
#include "server/http/http.h"
#include "server/waits.h"
#include "unit/cmocka_all.h"

#define EMBED "/v1/embeddings"

// ---- clients that leave -----------------------------------------------------------------------

// The only worker is busy: work that waits for it goes with its client, at once.
FX_TEST(test_hang_up_drops_queued_work)
{
    enum { N = 6 };
    int fd[N];
    char *large = huge_body("{\"prompt\":\"", "1 ", "\"}", MIB);
    fixture f = fixture_open((fxi_server_options){.n_worker = 1, .max_queue_bytes = 16 * MIB});
    int busy = http_begin(f.port, TEXT, "{\"prompt\":\"grind\"}");
    wait_grinding(&f, 1);
    for (int i = 0; i < N; i++)
        fd[i] = http_begin(f.port, TEXT, i % 3 ? large : "{\"prompt\":\"say never\"}");
    wait_queued(&f, 2, 4);
    assert_true(server_quota(&f).of_bytes[FXI_BYTES_BODY] >= 4 * MIB);
    const int order[N] = {1, 0, 5, 2, 3, 4}; // first, last and middle of their queues
    for (int i = 0; i < N; i++) close(fd[order[i]]);
    wait_queued(&f, 0, 0);
    wait_held(&f, FXI_BYTES_BODY, 0, 1000);
    assert_int_equal(fake_engine_grinding(f.eng), 1); // nothing else has run
    fake_engine_release(f.eng);
    expect_reply(http_read(busy), 200, "grind");
    assert_int_equal(fake_engine_counts(f.eng).n_submitted, 1);
    close(busy);
    wait_nothing_held(&f);
    fixture_close(&f);
    free(large);
}

// ---- clients ----------------------------------------------------------------------------------

static void post_with_key(int fd, const char *key, const char *prompt)
{
    http_send(fd,
              "POST " TEXT " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
              "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n{\"prompt\":\"%s\"}",
              key, strlen(prompt) + strlen("{\"prompt\":\"\"}"), prompt);
}

// A flooder with a connection for each of its requests, then a victim with one: the only worker,
// which was busy meanwhile, takes the victim's second.
static void expect_victim_second(fixture *f, int busy, const int *fd, int n)
{
    wait_queued(f, n, 0);
    fake_engine_release(f->eng);
    wait_submitted(f, n + 1);
    assert_string_equal(fake_engine_text(f->eng, 0), "grind");
    assert_string_equal(fake_engine_text(f->eng, 2), "say victim");
    for (int i = 0; i < n; i++) close(fd[i]);
    close(busy);
    fixture_close(f);
}

FX_TEST(test_connections_of_an_address_take_one_turn)
{
    enum { N = 7 };
    int fd[N];
    fixture f = fixture_open((fxi_server_options){.n_worker = 1});
    int busy = http_open_from(f.port, 3);
    http_post(busy, TEXT, "{\"prompt\":\"grind\"}");
    wait_grinding(&f, 1);
    for (int i = 0; i < N; i++) {
        fd[i] = http_open_from(f.port, i < N - 1 ? 1 : 2);
        http_post(fd[i], TEXT,
                  i < N - 1 ? "{\"prompt\":\"say flood\"}" : "{\"prompt\":\"say victim\"}");
        wait_queued(&f, i + 1, 0);
    }
    expect_victim_second(&f, busy, fd, N);
}

FX_TEST(test_keys_of_a_tenant_take_one_turn)
{
    static const char *const keys[] = {"a1", "a2", "a3", "a4", "bob"};
    enum { N = 5 };
    int fd[N];
    char name[] = "/tmp/test_server_queue.XXXXXX";
    static const char text[] = "ann a1\nann a2\nann a3\nann a4\nbob bob\neve eve\n";
    const int file = mkstemp(name);
    assert_int_equal(write(file, text, sizeof text - 1), sizeof text - 1);
    close(file);
    fixture f = fixture_open((fxi_server_options){.n_worker = 1, .key_file = name});
    int busy = http_open(f.port);
    post_with_key(busy, "eve", "grind");
    wait_grinding(&f, 1);
    for (int i = 0; i < N; i++) {
        fd[i] = http_open(f.port);
        post_with_key(fd[i], keys[i], i < N - 1 ? "say flood" : "say victim");
        wait_queued(&f, i + 1, 0);
    }
    expect_victim_second(&f, busy, fd, N);
    unlink(name);
}

// ---- large answers ----------------------------------------------------------------------------

enum { N_TEXT = 1000 };

// Vectors of N_TEXT texts, of which the last waits for the test.
static char *many_texts(void)
{
    return huge_body("{\"model\":\"m\",\"input\":[\"gate\"", ",\"abc\"", "]}",
                     sizeof "{\"model\":\"m\",\"input\":[\"gate\"]}" + N_TEXT * 6);
}

// Work of which all but the gate's text has been done.
static int begin_embedding(const fixture *f, const char *body)
{
    const int fd = http_begin(f->port, EMBED, body);
    WAIT_UNTIL(fake_engine_counts(f->eng).n_submitted >= N_TEXT &&
               fake_engine_counts(f->eng).n_running <= 1);
    return fd;
}

// Until the workers have done so much; they do no more.
static void wait_done(const fixture *f, uint64_t n)
{
    WAIT_UNTIL(server_workers(f).n_done >= n);
    assert_int_equal(server_workers(f).n_done, n);
}

FX_TEST(test_large_answers_are_made_by_a_worker)
{
    char *body = many_texts();
    fixture f = fixture_open((fxi_server_options){.n_worker = 2});
    int fd = begin_embedding(&f, body);
    wait_done(&f, 1);
    fake_engine_open(f.eng, 1);
    expect_reply(http_read(fd), 200, "\"object\":\"embedding\"");
    wait_done(&f, 2);
    assert_true(server_quota(&f).peak_bytes > 64 << 10);
    close(fd);
    wait_nothing_held(&f);
    expect_reply(http_call(f.port, "POST", EMBED, "{\"input\":\"abc\"}"), 200, "embedding");
    wait_done(&f, 3); // small ones are sent as they are
    fixture_close(&f);
    free(body);
}

// There is no room for the answer when it is to be made: it is not made.
FX_TEST(test_large_answers_are_charged_first)
{
    enum { LIMIT = 8 };
    char *body = many_texts();
    fixture f = fixture_open((fxi_server_options){.max_queue_bytes = LIMIT * MIB});
    int fd = begin_embedding(&f, body), filler = http_open(f.port);
    wait_held(&f, FXI_BYTES_QUEUE, 0, 16384);
    const size_t n_free = LIMIT * MIB / 8 * 7 - server_quota(&f).used_bytes - 32768;
    http_send(filler, POST_TEXT "Content-Length: %zu\r\n\r\n{", n_free);
    wait_held(&f, FXI_BYTES_BODY, n_free, n_free);
    fake_engine_open(f.eng, 1);
    expect_reply(http_read(fd), 503, "\"code\":\"overloaded\"");
    assert_true(server_quota(&f).peak_bytes <= LIMIT * MIB);
    close(fd), close(filler);
    wait_nothing_held(&f);
    fixture_close(&f);
    free(body);
}

// A client leaves while its answer waits to be made.
FX_TEST(test_large_answers_that_nobody_waits_for)
{
    char *body = many_texts();
    fixture f = fixture_open((fxi_server_options){.n_worker = 1, .grace_s = 30});
    int fd = begin_embedding(&f, body), busy = http_begin(f.port, TEXT, "{\"prompt\":\"grind\"}");
    wait_grinding(&f, 1);
    fake_engine_open(f.eng, 1);
    wait_queued(&f, 0, 1);
    close(fd);
    wait_queued(&f, 0, 0);
    fake_engine_release(f.eng);
    expect_reply(http_read(busy), 200, "grind");
    close(busy);
    wait_nothing_held(&f);
    fixture_close(&f);
    free(body);
}

FX_TEST(test_stop_while_an_answer_waits_to_be_made)
{
    char *body = many_texts();
    fixture f = fixture_open((fxi_server_options){.n_worker = 1, .grace_s = 30});
    int fd = begin_embedding(&f, body), busy = http_begin(f.port, TEXT, "{\"prompt\":\"grind\"}");
    wait_grinding(&f, 1);
    fake_engine_open(f.eng, 1);
    wait_queued(&f, 0, 1);
    const pthread_t stopper = stop_meanwhile(&f);
    expect_reply(http_read(fd), 503, "draining");
    expect_reply(http_read(busy), 503, "draining");
    fake_engine_release(f.eng);
    pthread_join(stopper, NULL);
    close(fd), close(busy);
    fixture_close(&f);
    free(body);
}

// ---- slow readers -----------------------------------------------------------------------------

static bool has_jobs(const fixture *f)
{
    pthread_mutex_lock(&f->srv->mu);
    const bool has = f->srv->jobs != NULL;
    pthread_mutex_unlock(&f->srv->mu);
    return has;
}

// One that takes a byte now and then is cut off, whether its answer streams or is whole; one that
// takes what comes is not.
static void read_slowly(bool stream)
{
    fixture f = fixture_open((fxi_server_options){
        .read_timeout_s = 0.5, .max_out_bytes = 256 * MIB, .max_queue_bytes = 256 * MIB});
    fxi_buf body = {0};
    fxi_buf_fmt(&body, "{\"prompt\":\"flood 160\",\"max_tokens\":160,\"stream\":%s}",
                stream ? "true" : "false");
    int slow = http_begin(f.port, TEXT, body.p);
    const double end_s = fxi_now_s() + WAIT_S;
    char c;
    while (!has_jobs(&f)) nap();
    while (has_jobs(&f)) {
        assert_int_equal(read(slow, &c, 1), 1);
        nap();
        assert_true(fxi_now_s() < end_s);
    }
    int good = http_begin(f.port, TEXT, body.p);
    http_reply r = http_read(good);
    assert_int_equal(r.status, 200);
    assert_false(r.cut);
    assert_true(r.body.n > 9 * MIB);
    http_reply_free(&r);
    close(slow), close(good);
    wait_nothing_held(&f);
    fxi_buf_free(&body);
    fixture_close(&f);
}

FX_TEST(test_slow_readers_are_cut_off)
{
    read_slowly(true);
    read_slowly(false);
}

FX_RUN(test_server_queue)
