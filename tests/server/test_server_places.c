// test_server_places.c - connections that take places and time: how many there may be, which ones
// make room, and how long a request may take to arrive.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <arpa/inet.h>

#include "base/system/clock.h"
#include "server/guard/places.h"
#include "server/waits.h"
#include "unit/cmocka_all.h"

#define STUCK "{\"prompt\":\"stuck\"}"
#define HALF_BODY \
    POST_TEXT     \
    "Content-Length: 1000000\r\n\r\n{"

// ---- the table alone, with a clock of the test's ------------------------------------------------

enum { N_PLACE = 8 };

static struct {
    fxi_places ps;
    fxi_place place[N_PLACE];
    int n, n_due;
    double now_s;
} table;

static void close_place(fxi_place *p)
{
    fxi_places_move(&table.ps, p, FXI_PHASE_CLOSED, table.now_s);
}

static void close_late(fxi_place *p, double now_s)
{
    assert_true(p->due_s <= now_s);
    table.n_due++;
    close_place(p);
}

static void begin_table(int max_conn, int max_per_address)
{
    memset(&table, 0, sizeof table);
    table.now_s = 1000;
    table.ps.max_conn = max_conn;
    table.ps.max_per_address = max_per_address;
    table.ps.give_up = close_place;
    table.ps.on_due = close_late;
    table.ps.next_due_s = INFINITY;
    table.ps.deadline_s[FXI_PHASE_FRESH] = table.ps.deadline_s[FXI_PHASE_HEAD] = 10;
    table.ps.deadline_s[FXI_PHASE_BODY] = 60;
    table.ps.deadline_s[FXI_PHASE_IDLE] = 100;
}

static void end_table(void)
{
    for (int i = 0; i < table.n; i++) fxi_places_leave(&table.ps, &table.place[i]);
    assert_int_equal(table.ps.n_place, 0);
    assert_int_equal(table.ps.n_refused, 0);
    assert_null(table.ps.first);
}

static fxi_place *enter_as(const char *address, fxi_phase phase)
{
    struct sockaddr_in sa = {.sin_family = AF_INET};
    assert_int_equal(inet_pton(AF_INET, address, &sa.sin_addr), 1);
    const fxi_address a = fxi_address_of((struct sockaddr *)&sa);
    fxi_place *p = &table.place[table.n++];
    assert_true(fxi_places_enter(&table.ps, p, &a, table.now_s));
    if (phase != FXI_PHASE_FRESH) fxi_places_move(&table.ps, p, phase, table.now_s);
    return p;
}

static bool is_closed(const fxi_place *p)
{
    return p->phase == FXI_PHASE_CLOSED;
}

// The head's deadline counts from the connection on, whatever arrives, and the body's from the end
// of the head; a request that is being answered has none.
FX_TEST(test_each_phase_has_its_deadline)
{
    begin_table(100, 0);
    fxi_place *fresh = enter_as("203.0.113.1", FXI_PHASE_FRESH);
    fxi_place *head = enter_as("203.0.113.2", FXI_PHASE_FRESH);
    fxi_place *body = enter_as("203.0.113.3", FXI_PHASE_BODY);
    fxi_place *busy = enter_as("203.0.113.4", FXI_PHASE_BUSY);
    fxi_place *idle = enter_as("203.0.113.5", FXI_PHASE_IDLE);
    fxi_places_move(&table.ps, head, FXI_PHASE_HEAD, table.now_s + 5);
    assert_true(fxi_places_expire(&table.ps, table.now_s + 9.9) == table.now_s + 10);
    assert_int_equal(table.n_due, 0);
    assert_true(fxi_places_expire(&table.ps, table.now_s + 10) == table.now_s + 60);
    assert_true(is_closed(fresh) && is_closed(head) && table.n_due == 2);
    assert_true(fxi_places_expire(&table.ps, table.now_s + 60) == table.now_s + 100);
    assert_true(is_closed(body) && !is_closed(idle));
    fxi_places_set_due(&table.ps, busy, table.now_s + 80);
    assert_true(fxi_places_expire(&table.ps, table.now_s + 70) == table.now_s + 80);
    fxi_places_set_due(&table.ps, busy, INFINITY);
    assert_true(isinf(fxi_places_expire(&table.ps, table.now_s + 1000)));
    assert_true(is_closed(idle) && !is_closed(busy));
    assert_int_equal(table.n_due, 4);
    end_table();
}

// When all places are taken, the one that has been idle for longest makes room, then those that
// have not sent their request; one that is being answered never does.
FX_TEST(test_those_that_do_no_work_make_room)
{
    begin_table(3, 0);
    fxi_place *busy = enter_as("203.0.113.1", FXI_PHASE_BUSY);
    fxi_place *head = enter_as("203.0.113.2", FXI_PHASE_HEAD);
    fxi_place *idle = enter_as("203.0.113.3", FXI_PHASE_IDLE);
    fxi_place *fourth = enter_as("203.0.113.4", FXI_PHASE_BUSY);
    assert_true(is_closed(idle) && !is_closed(head) && !fourth->refused);
    fxi_place *fifth = enter_as("203.0.113.5", FXI_PHASE_BUSY);
    assert_true(is_closed(head) && !is_closed(busy) && !fifth->refused);
    fxi_place *sixth = enter_as("203.0.113.6", FXI_PHASE_FRESH);
    assert_int_equal(sixth->refused, 503);
    assert_false(is_closed(busy) || is_closed(fourth) || is_closed(fifth));
    assert_int_equal(table.ps.n_refused, 1);
    end_table();
}

// Among connections that have sent nothing, one of the address with the most connections goes
// first: newcomers from other addresses are not hurt.
FX_TEST(test_the_busiest_address_makes_room_first)
{
    begin_table(4, 0);
    fxi_place *alone = enter_as("203.0.113.9", FXI_PHASE_FRESH);
    for (int i = 0; i < 3; i++, table.now_s++) enter_as("198.51.100.1", FXI_PHASE_FRESH);
    enter_as("198.51.100.1", FXI_PHASE_FRESH);
    assert_false(is_closed(alone));
    assert_true(is_closed(&table.place[1]));
    end_table();
}

FX_TEST(test_an_address_has_so_many_places)
{
    begin_table(100, 2);
    for (int i = 0; i < 2; i++) enter_as("203.0.113.1", FXI_PHASE_BUSY);
    assert_int_equal(enter_as("203.0.113.1", FXI_PHASE_FRESH)->refused, 429);
    assert_int_equal(enter_as("203.0.113.2", FXI_PHASE_FRESH)->refused, 0);
    fxi_places_move(&table.ps, &table.place[0], FXI_PHASE_IDLE, table.now_s);
    assert_int_equal(enter_as("203.0.113.1", FXI_PHASE_FRESH)->refused, 0);
    assert_true(is_closed(&table.place[0])); // its own idle one made room
    end_table();
}

// By default the limit is not for programs of this machine, a proxy among them.
FX_TEST(test_this_machine_is_spared)
{
    for (int spare = 0; spare < 2; spare++) {
        begin_table(100, 1);
        table.ps.spare_loopback = spare;
        enter_as("127.0.0.1", FXI_PHASE_BUSY);
        assert_int_equal(enter_as("127.0.0.1", FXI_PHASE_FRESH)->refused, spare ? 0 : 429);
        end_table();
    }
}

// ---- over a server ------------------------------------------------------------------------------

static void expect_served(const fixture *f)
{
    expect_reply(http_call(f->port, "GET", "/health", NULL), 200, "ok");
}

// Whoever sends a byte now and then holds a place for so long and no longer, as does a silent one.
FX_TEST(test_a_request_that_trickles_is_cut)
{
    static const struct {
        fxi_server_options opt;
        const char *begin, *more;
    } rows[] = {
        {{.header_timeout_s = 0.2}, "GET /health HTTP/1.1\r\nHost: localhost\r\n", "X-A: b\r\n"},
        {{.header_timeout_s = 0.2}, "", ""},
        {{.body_timeout_s = 0.2}, HALF_BODY, " "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fixture f = fixture_open(rows[i].opt);
        const int fd = http_open(f.port);
        char byte;
        http_send(fd, "%s", rows[i].begin);
        for (double end_s = fxi_now_s() + WAIT_S; recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0;
             pause_s(0.01)) {
            if (fxi_now_s() > end_s) fail_msg("row %zu still holds its place", i);
            http_send(fd, "%s", rows[i].more);
        }
        expect_reply(http_read(fd), 408, "request_timeout");
        expect_served(&f);
        close(fd);
        fixture_close(&f);
    }
}

// An answer may take as long as it takes, and so may the pause between two requests, up to its own
// limit.
FX_TEST(test_answers_have_no_deadline)
{
    fixture f = fixture_open(
        (fxi_server_options){.header_timeout_s = 0.1, .body_timeout_s = 0.1, .ping_s = 0.05});
    const int fd = http_begin(f.port, TEXT, "{\"prompt\":\"gate 1\"}");
    wait_running(&f, 1);
    pause_s(0.4);
    fake_engine_open(f.eng, 1);
    expect_reply(http_read(fd), 200, "\"text\":\"1\"");
    pause_s(0.4);
    http_post(fd, TEXT, "{\"prompt\":\"say a\"}");
    expect_reply(http_read(fd), 200, "\"text\":\"a\"");
    close(fd);
    fixture_close(&f);
}

FX_TEST(test_an_idle_connection_is_closed)
{
    fixture f = fixture_open((fxi_server_options){.idle_timeout_s = 1});
    const int fd = http_begin(f.port, TEXT, "{\"prompt\":\"say a\"}");
    expect_reply(http_read(fd), 200, "a");
    expect_reply(http_read(fd), 0, NULL); // ends without a word
    close(fd);
    fixture_close(&f);
}

FX_TEST(test_many_trickling_clients_shut_nobody_out)
{
    enum { N = 200 };
    int fd[N];
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

FX_TEST(test_beyond_all_places_a_client_is_told)
{
    int fd[4];
    fixture f = fixture_open((fxi_server_options){.max_conn = 4});
    for (int i = 0; i < 4; i++) fd[i] = http_begin(f.port, TEXT, STUCK);
    wait_running(&f, 4);
    const int fifth = http_begin(f.port, TEXT, STUCK);
    http_reply r = http_read(fifth);
    assert_non_null(strstr(r.head.p, "Retry-After:"));
    assert_non_null(strstr(r.head.p, "Connection: close"));
    expect_reply(r, 503, "overloaded");
    close(fd[0]); // a place is free again as soon as its request has been cancelled
    close(fifth);
    wait_running(&f, 3);
    WAIT_UNTIL(status_of(&f, "/health") == 200); // a moment after its request has ended
    for (int i = 1; i < 4; i++) close(fd[i]);
    fixture_close(&f);
}

FX_TEST(test_beyond_its_places_an_address_is_told)
{
    int fd[2];
    fixture f = fixture_open((fxi_server_options){.max_conn = 100, .max_per_address = 2});
    for (int i = 0; i < 2; i++) fd[i] = http_begin(f.port, TEXT, STUCK);
    wait_running(&f, 2);
    const int third = http_begin(f.port, TEXT, STUCK);
    expect_reply(http_read(third), 429, "too_many_connections");
    close(third), close(fd[0]), close(fd[1]);
    wait_running(&f, 0);
    expect_served(&f);
    fixture_close(&f);
}

// Where no file is free for a connection, it waits in the queue of the listening socket.
FX_TEST(test_without_a_free_file_a_client_waits)
{
    struct rlimit before, none;
    fixture f = fixture_open((fxi_server_options){0});
    expect_served(&f);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)f.port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    getrlimit(RLIMIT_NOFILE, &before);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    http_send(fd, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
    pause_s(0.25);
    char byte;
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    setrlimit(RLIMIT_NOFILE, &before);
    expect_reply(http_read(fd), 200, "ok");
    close(fd);
    fixture_close(&f);
}

// A client may leave in any phase: with half a head, half a body, while its request waits for the
// engine, and while its answer is made and sent. Its place is free again, and what it had asked for
// is cancelled.
FX_TEST(test_a_hang_up_in_any_phase_frees_its_place)
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

FX_RUN(test_server_places)
