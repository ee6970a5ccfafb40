// test_server_places.c - connections that take places and time: how many there may be, who makes
// room for whom, and how long a request may take to arrive.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include "base/system/clock.h"
#include "server/guard/peers.h"
#include "server/server_fixture.h"
#include "suite.h"

#define TEXT  "/v1/completions"
#define STUCK "{\"prompt\":\"stuck\"}"
#define HALF_BODY                                                                     \
    "POST " TEXT " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" \
    "Content-Length: 1000000\r\n\r\n{"
#define WAIT_S 60.0 // a guard: whatever is waited for happens soon

// ---- the table alone, with a clock of the test's ------------------------------------------------

// A table of sockets without a server; pairs[i][1] is the client's end.
typedef struct table {
    fxi_peers ps;
    int pair[8][2];
    fxi_peer *peer[8];
    int n;
} table;

static fxi_address address_named(const char *text)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    assert_int_equal(inet_pton(AF_INET, text, &a.sin_addr), 1);
    return fxi_address_of((struct sockaddr *)&a);
}

static fxi_peer *enter_table(table *t, const char *address)
{
    bool wake;
    const fxi_address a = address_named(address);
    const int i = t->n++;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, t->pair[i]), 0);
    t->peer[i] = fxi_peers_enter(&t->ps, t->pair[i][0], &a, &wake);
    assert_non_null(t->peer[i]);
    return t->peer[i];
}

static void move_peer(table *t, fxi_peer *p, fxi_peer_phase phase)
{
    bool wake;
    assert_true(fxi_peers_move(&t->ps, p, phase, &wake));
}

static void begin_table(table *t, int max_conn, int max_per_address)
{
    *t = (table){.ps = {.max_conn = max_conn, .max_per_address = max_per_address}};
    t->ps.wake_s = INFINITY;
    t->ps.deadline_s[FXI_PEER_FRESH] = t->ps.deadline_s[FXI_PEER_HEAD] = 10;
    t->ps.deadline_s[FXI_PEER_BODY] = 60;
    t->ps.deadline_s[FXI_PEER_IDLE] = 100;
    pthread_mutex_init(&t->ps.mu, NULL);
}

static void end_table(table *t)
{
    for (int i = 0; i < t->n; i++) {
        fxi_peers_leave(&t->ps, t->peer[i]);
        close(t->pair[i][0]), close(t->pair[i][1]);
    }
    assert_int_equal(fxi_peers_look(&t->ps).n_conn, 0);
    pthread_mutex_destroy(&t->ps.mu);
}

// What the client reads before its connection ends.
static const char *told(table *t, int i, char text[512])
{
    size_t n = 0;
    for (ssize_t k; (k = recv(t->pair[i][1], text + n, 511 - n, 0)) > 0;) n += (size_t)k;
    text[n] = 0;
    return text;
}

static bool is_cut(const fxi_peer *p)
{
    return p->phase == FXI_PEER_CUT;
}

// Whoever looks at deadlines looks often enough that a request need not wake it.
static void test_requests_wake_nobody(void **state)
{
    static const fxi_peer_phase phases[] = {FXI_PEER_HEAD, FXI_PEER_BODY, FXI_PEER_BUSY,
                                            FXI_PEER_IDLE};
    table t;
    bool wake;
    (void)state;
    begin_table(&t, 100, 0);
    fxi_peer *p = enter_table(&t, "203.0.113.1");
    assert_true(fxi_peers_expire(&t.ps, fxi_now_s()) <= fxi_now_s() + FXI_PEERS_LOOK_S);
    for (size_t i = 0; i < 3 * sizeof phases / sizeof *phases; i++) {
        assert_true(fxi_peers_move(&t.ps, p, phases[i % 4], &wake));
        assert_false(wake);
    }
    end_table(&t);
}

// The head's deadline counts from the connection on, whatever arrives, and the body's from the end
// of the head; a request that is being answered has none.
static void test_each_phase_has_its_deadline(void **state)
{
    table t;
    char text[512];
    (void)state;
    begin_table(&t, 100, 0);
    fxi_peer *fresh = enter_table(&t, "203.0.113.1"), *head = enter_table(&t, "203.0.113.2");
    fxi_peer *body = enter_table(&t, "203.0.113.3"), *busy = enter_table(&t, "203.0.113.4");
    fxi_peer *idle = enter_table(&t, "203.0.113.5");
    const double now_s = fxi_now_s();
    move_peer(&t, head, FXI_PEER_HEAD);
    move_peer(&t, body, FXI_PEER_BODY);
    move_peer(&t, busy, FXI_PEER_BUSY);
    move_peer(&t, idle, FXI_PEER_IDLE);
    assert_true(fxi_peers_expire(&t.ps, now_s + 9) <= now_s + 10);
    assert_false(is_cut(fresh) || is_cut(head));
    assert_true(fxi_peers_expire(&t.ps, now_s + 59) <= now_s + 61);
    assert_true(is_cut(fresh) && is_cut(head));
    assert_false(is_cut(body) || is_cut(idle));
    assert_non_null(strstr(told(&t, 1, text), "HTTP/1.1 408 Request Timeout\r\n"));
    assert_non_null(strstr(text, "Connection: close\r\n"));
    assert_non_null(strstr(text, "\"code\":\"request_timeout\""));
    assert_true(fxi_peers_expire(&t.ps, now_s + 1000) == now_s + 1000 + FXI_PEERS_LOOK_S);
    assert_true(is_cut(body) && is_cut(idle));
    assert_false(is_cut(busy));
    assert_string_equal(told(&t, 4, text), ""); // nobody waits for an answer there
    assert_int_equal(fxi_peers_look(&t.ps).counts.n_late, 3);
    end_table(&t);
}

// When all places are taken, the one that has been idle for longest makes room, then those that
// have not sent their request; who is being answered never does.
static void test_those_that_do_no_work_make_room(void **state)
{
    table t;
    (void)state;
    begin_table(&t, 3, 0);
    fxi_peer *busy = enter_table(&t, "203.0.113.1"), *head = enter_table(&t, "203.0.113.2");
    fxi_peer *idle = enter_table(&t, "203.0.113.3");
    move_peer(&t, busy, FXI_PEER_BUSY);
    move_peer(&t, head, FXI_PEER_HEAD);
    move_peer(&t, idle, FXI_PEER_IDLE);
    fxi_peer *fourth = enter_table(&t, "203.0.113.4");
    assert_true(is_cut(idle) && !is_cut(head) && !fourth->refused);
    move_peer(&t, fourth, FXI_PEER_BUSY);
    fxi_peer *fifth = enter_table(&t, "203.0.113.5");
    assert_true(is_cut(head) && !is_cut(busy) && !fifth->refused);
    move_peer(&t, fifth, FXI_PEER_BUSY);
    fxi_peer *sixth = enter_table(&t, "203.0.113.6");
    assert_int_equal(fxi_peers_refusal(&t.ps, sixth), 503);
    assert_false(is_cut(busy) || is_cut(fourth) || is_cut(fifth));
    assert_int_equal(fxi_peers_look(&t.ps).counts.n_crowded_out, 2);
    assert_int_equal(fxi_peers_look(&t.ps).counts.n_refused, 1);
    end_table(&t);
}

// Of those that have sent nothing, one of the address with most connections goes first: others that
// have just come are not hurt.
static void test_a_crowd_makes_room_before_others_do(void **state)
{
    table t;
    (void)state;
    begin_table(&t, 4, 0);
    fxi_peer *alone = enter_table(&t, "203.0.113.9");
    for (int i = 0; i < 3; i++) enter_table(&t, "198.51.100.1");
    enter_table(&t, "198.51.100.1");
    assert_false(is_cut(alone));
    assert_true(is_cut(t.peer[1]));
    end_table(&t);
}

static void test_an_address_has_so_many_places(void **state)
{
    table t;
    (void)state;
    begin_table(&t, 100, 2);
    for (int i = 0; i < 2; i++) move_peer(&t, enter_table(&t, "203.0.113.1"), FXI_PEER_BUSY);
    assert_int_equal(fxi_peers_refusal(&t.ps, enter_table(&t, "203.0.113.1")), 429);
    assert_int_equal(fxi_peers_refusal(&t.ps, enter_table(&t, "203.0.113.2")), 0);
    move_peer(&t, t.peer[0], FXI_PEER_IDLE);
    assert_int_equal(fxi_peers_refusal(&t.ps, enter_table(&t, "203.0.113.1")), 0);
    assert_true(is_cut(t.peer[0])); // its own idle one made room
    end_table(&t);
}

// By default the limit is not for programs of this machine, a proxy among them.
static void test_this_machine_is_spared(void **state)
{
    table t;
    (void)state;
    for (int spare = 0; spare < 2; spare++) {
        begin_table(&t, 100, 1);
        t.ps.spare_loopback = spare;
        move_peer(&t, enter_table(&t, "127.0.0.1"), FXI_PEER_BUSY);
        fxi_peer *second = enter_table(&t, "127.0.0.1");
        assert_int_equal(fxi_peers_refusal(&t.ps, second), spare ? 0 : 429);
        end_table(&t);
    }
}

// ---- over a server ------------------------------------------------------------------------------

static void nap(double s)
{
    nanosleep(&(struct timespec){.tv_sec = (time_t)s, .tv_nsec = (long)((s - (time_t)s) * 1e9)},
              NULL);
}

static void wait_running(const fixture *f, int n)
{
    for (double end_s = fxi_now_s() + WAIT_S; fake_engine_counts(f->eng).n_running != n; nap(0.002))
        if (fxi_now_s() > end_s) fail_msg("still not %d running", n);
}

static void expect(http_reply r, int status, const char *in_body)
{
    if (r.status != status || (in_body && !strstr(r.body.p, in_body)))
        fail_msg("want %d with '%s', got %d: %s", status, in_body ? in_body : "", r.status,
                 r.body.p ? r.body.p : "");
    http_reply_free(&r);
}

static void expect_served(const fixture *f)
{
    expect(http_call(f->port, "GET", "/health", NULL), 200, "ok");
}

// Its place may be given back a moment after its request has ended.
static void await_served(const fixture *f)
{
    for (double end_s = fxi_now_s() + WAIT_S;; nap(0.01)) {
        http_reply r = http_call(f->port, "GET", "/health", NULL);
        const bool is_full = r.status == 503 && fxi_now_s() < end_s;
        if (!is_full) {
            expect(r, 200, NULL);
            return;
        }
        http_reply_free(&r);
    }
}

// Whoever sends a byte now and then holds a place for so long and no longer.
static void test_a_head_that_trickles_is_cut(void **state)
{
    (void)state;
    fixture f = fixture_open((fxi_server_options){.header_timeout_s = 0.2});
    const int silent = http_open(f.port), slow = http_open(f.port);
    http_send(slow, "GET /health HTTP/1.1\r\nHost: localhost\r\n");
    char byte;
    for (double end_s = fxi_now_s() + WAIT_S; recv(slow, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0;
         nap(0.01)) {
        if (fxi_now_s() > end_s) fail_msg("it still holds its place");
        http_send(slow, "X-A: b\r\n");
    }
    expect(http_read(slow), 408, "request_timeout");
    expect(http_read(silent), 408, "request_timeout");
    expect_served(&f);
    close(silent), close(slow);
    fixture_close(&f);
}

static void test_a_body_that_trickles_is_cut(void **state)
{
    (void)state;
    fixture f = fixture_open((fxi_server_options){.body_timeout_s = 0.2});
    const int slow = http_open(f.port);
    http_send(slow, HALF_BODY);
    char byte;
    for (double end_s = fxi_now_s() + WAIT_S; recv(slow, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0;
         nap(0.01)) {
        if (fxi_now_s() > end_s) fail_msg("it still holds its place");
        http_send(slow, " ");
    }
    expect(http_read(slow), 408, "request_timeout");
    expect_served(&f);
    close(slow);
    fixture_close(&f);
}

// An answer may take as long as it takes, and so may the pause between two requests, up to its own
// limit.
static void test_answers_have_no_deadline(void **state)
{
    (void)state;
    fixture f = fixture_open(
        (fxi_server_options){.header_timeout_s = 0.1, .body_timeout_s = 0.1, .ping_s = 0.05});
    const int fd = http_open(f.port);
    http_post(fd, TEXT, "{\"prompt\":\"gate 1\"}");
    wait_running(&f, 1);
    nap(0.4);
    fake_engine_open(f.eng, 1);
    expect(http_read(fd), 200, "\"text\":\"1\"");
    nap(0.4);
    http_post(fd, TEXT, "{\"prompt\":\"say a\"}");
    expect(http_read(fd), 200, "\"text\":\"a\"");
    close(fd);
    fixture_close(&f);
}

static void test_an_idle_connection_is_closed(void **state)
{
    (void)state;
    fixture f = fixture_open((fxi_server_options){.idle_timeout_s = 1});
    const int fd = http_open(f.port);
    http_post(fd, TEXT, "{\"prompt\":\"say a\"}");
    expect(http_read(fd), 200, "a");
    expect(http_read(fd), 0, NULL); // ends without a word
    close(fd);
    fixture_close(&f);
}

static void test_many_trickling_clients_shut_nobody_out(void **state)
{
    enum { N = 200 };
    int fd[N];
    (void)state;
    fixture f = fixture_open((fxi_server_options){.max_conn = 16});
    for (int i = 0; i < N; i++) {
        fd[i] = http_open(f.port);
        http_send(fd[i], i % 2 ? "GET /health HTTP/1.1\r\nHost: local" : "G");
        if (i % 20 == 0) expect_served(&f);
    }
    for (int i = 0; i < 20; i++) expect_served(&f);
    for (int i = 0; i < N; i++) close(fd[i]);
    expect_served(&f);
    fixture_close(&f);
}

static void test_beyond_all_places_a_client_is_told(void **state)
{
    int fd[4];
    (void)state;
    fixture f = fixture_open((fxi_server_options){.max_conn = 4});
    for (int i = 0; i < 4; i++) {
        fd[i] = http_open(f.port);
        http_post(fd[i], TEXT, STUCK);
    }
    wait_running(&f, 4);
    const int fifth = http_open(f.port);
    http_post(fifth, TEXT, STUCK);
    http_reply r = http_read(fifth);
    assert_non_null(strstr(r.head.p, "Retry-After:"));
    assert_non_null(strstr(r.head.p, "Connection: close"));
    expect(r, 503, "overloaded");
    close(fd[0]); // a place is free again as soon as its request has been cancelled
    close(fifth);
    wait_running(&f, 3);
    await_served(&f);
    for (int i = 1; i < 4; i++) close(fd[i]);
    fixture_close(&f);
}

static void test_beyond_its_places_an_address_is_told(void **state)
{
    int fd[2];
    (void)state;
    fixture f = fixture_open((fxi_server_options){.max_conn = 100, .max_per_address = 2});
    for (int i = 0; i < 2; i++) {
        fd[i] = http_open(f.port);
        http_post(fd[i], TEXT, STUCK);
    }
    wait_running(&f, 2);
    const int third = http_open(f.port);
    http_post(third, TEXT, STUCK);
    expect(http_read(third), 429, "too_many_connections");
    close(third), close(fd[0]), close(fd[1]);
    wait_running(&f, 0);
    expect_served(&f);
    fixture_close(&f);
}

// A client may leave in any phase: with half a head, half a body, while its request waits for the
// engine, and while its answer is made and sent. Its place is free again, and what it had asked for
// is cancelled.
static void test_a_hang_up_in_any_phase_frees_its_place(void **state)
{
    static const struct {
        const char *body; // NULL: as far as `head`
        const char *head;
        bool is_cancelled;
    } rows[] = {
        {NULL, "", false},
        {NULL, "POST " TEXT " HTT", false},
        {NULL, "POST " TEXT " HTTP/1.1\r\nHost: local", false},
        {NULL, HALF_BODY, false},
        {STUCK, NULL, true},
        {"{\"prompt\":\"stuck\",\"stream\":true}", NULL, true},
        {"{\"prompt\":\"slow 999999 1\",\"max_tokens\":999999,\"stream\":true}", NULL, true},
    };
    (void)state;
    // As many places as one client takes: the next one is served only once the place is free.
    fixture f = fixture_open((fxi_server_options){.max_conn = 2});
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int reset = 0; reset < 2; reset++) {
            const int n_cancelled = fake_engine_counts(f.eng).n_cancelled;
            const int fd = http_open(f.port);
            if (rows[i].body)
                http_post(fd, TEXT, rows[i].body);
            else
                http_send(fd, "%s", rows[i].head);
            if (rows[i].is_cancelled) wait_running(&f, 1);
            if (reset)
                http_reset(fd);
            else
                close(fd);
            wait_running(&f, 0);
            assert_int_equal(fake_engine_counts(f.eng).n_cancelled - n_cancelled,
                             rows[i].is_cancelled);
            expect_served(&f);
        }
    fixture_close(&f);
}

FX_SUITE(test_server_places)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_wake_nobody),
        cmocka_unit_test(test_each_phase_has_its_deadline),
        cmocka_unit_test(test_those_that_do_no_work_make_room),
        cmocka_unit_test(test_a_crowd_makes_room_before_others_do),
        cmocka_unit_test(test_an_address_has_so_many_places),
        cmocka_unit_test(test_this_machine_is_spared),
        cmocka_unit_test(test_a_head_that_trickles_is_cut),
        cmocka_unit_test(test_a_body_that_trickles_is_cut),
        cmocka_unit_test(test_answers_have_no_deadline),
        cmocka_unit_test(test_an_idle_connection_is_closed),
        cmocka_unit_test(test_many_trickling_clients_shut_nobody_out),
        cmocka_unit_test(test_beyond_all_places_a_client_is_told),
        cmocka_unit_test(test_beyond_its_places_an_address_is_told),
        cmocka_unit_test(test_a_hang_up_in_any_phase_frees_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
