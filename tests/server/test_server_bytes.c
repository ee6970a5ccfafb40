// test_server_bytes.c - what waits is bounded in bytes, and what takes long holds nobody up: half
// sent bodies, huge requests, deaf readers, a busy tokenizer.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <pthread.h>

#include "base/system/regions.h"
#include "server/http/http.h"
#include "server/waits.h"
#include "unit/cmocka_all.h"

// ---- bodies -----------------------------------------------------------------------------------

// Announced bytes are taken at once: 150 clients that never send their bodies take no more than the
// limit, and small requests still have room.
FX_TEST(test_half_sent_bodies_are_bounded)
{
    int fd[150];
    fixture f =
        fixture_open((fxi_server_options){.max_queue_bytes = 16 * MIB, .max_body_bytes = MIB});
    for (int i = 0; i < 150; i++) {
        fd[i] = http_open(f.port);
        http_send(fd[i], POST_TEXT "Content-Length: %zu\r\n\r\n{", MIB);
    }
    wait_held(&f, FXI_BYTES_BODY, 14 * MIB, 14 * MIB);
    WAIT_UNTIL(server_quota(&f).n_refused >= 136);
    int late = http_open(f.port); // is told before it sends
    http_send(late,
              POST_TEXT "Expect: 100-continue\r\n"
                        "Content-Length: %zu\r\n\r\n",
              MIB);
    http_reply r = http_read(late);
    assert_non_null(strstr(r.head.p, "Retry-After: 2\r\n"));
    expect_reply(r, 503, "\"code\":\"overloaded\"");
    close(late);
    expect_small(&f);
    assert_true(server_quota(&f).peak_bytes <= 15 * MIB);
    for (int i = 0; i < 150; i++) close(fd[i]);
    wait_nothing_held(&f);
    fixture_close(&f);
}

// ---- turns ----

enum { N_PIECE = 256, KEPT_BYTES = 128 << 10 }; // KEPT_BYTES: the least that two sockets hold

fxi_quota_result __real_fxi_body_add(fxi_body *b, fxi_charge *charge, const char *data, size_t n);
fxi_quota_result __wrap_fxi_body_add(fxi_body *b, fxi_charge *charge, const char *data, size_t n);

// The pieces of bodies in the order in which the one I/O thread takes them. The first waits.
static struct {
    pthread_mutex_t mu;
    pthread_cond_t changed;
    bool is_on, begun, released;
    int n;
    struct {
        const fxi_body *body;
        size_t n_bytes;
    } piece[N_PIECE];
} turns = {.mu = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

fxi_quota_result __wrap_fxi_body_add(fxi_body *b, fxi_charge *charge, const char *data, size_t n)
{
    pthread_mutex_lock(&turns.mu);
    if (turns.is_on && turns.n < N_PIECE) {
        turns.piece[turns.n].body = b;
        turns.piece[turns.n++].n_bytes = n;
    }
    turns.begun = true;
    pthread_cond_broadcast(&turns.changed);
    while (turns.is_on && !turns.released) pthread_cond_wait(&turns.changed, &turns.mu);
    pthread_mutex_unlock(&turns.mu);
    return __real_fxi_body_add(b, charge, data, n);
}

static void wait_begun(void)
{
    pthread_mutex_lock(&turns.mu);
    while (!turns.begun) pthread_cond_wait(&turns.changed, &turns.mu);
    pthread_mutex_unlock(&turns.mu);
}

// Sends until the sockets take no more; returns how much.
static size_t fill_socket(int fd)
{
    static const char fill[4096];
    size_t sum = 0;
    for (ssize_t n; (n = send(fd, fill, sizeof fill, MSG_DONTWAIT | MSG_NOSIGNAL)) > 0;)
        sum += (size_t)n;
    return sum;
}

static int begin_filled(const fixture *f)
{
    const int fd = http_open(f->port);
    http_send(fd, POST_TEXT "Content-Length: 8000000\r\n\r\n");
    return fd;
}

// The bytes that one body gets before another one's turn comes, once the other has had its first,
// while both have more.
static size_t longest_run(const fxi_body *first)
{
    size_t had[2] = {0, 0}, run = 0, longest = 0;
    const fxi_body *last = NULL;
    for (int i = 0; i < turns.n; i++) {
        const bool is_first = turns.piece[i].body == first;
        run = turns.piece[i].body == last ? run + turns.piece[i].n_bytes : turns.piece[i].n_bytes;
        last = turns.piece[i].body;
        had[!is_first] += turns.piece[i].n_bytes;
        if (had[0] > KEPT_BYTES || had[1] > KEPT_BYTES) break;
        if (had[1]) longest = run > longest ? run : longest;
    }
    assert_true(had[0] && had[1]);
    return longest;
}

// Two bodies that are there already are read in turns, of which none takes more than what a
// connection's buffer holds, though one thread reads them.
FX_TEST(test_bodies_are_read_in_turns)
{
    fixture f = fixture_open((fxi_server_options){0});
    turns.n = 0, turns.begun = turns.released = false, turns.is_on = true;
    const int a = begin_filled(&f);
    assert_true(fill_socket(a) > KEPT_BYTES);
    wait_begun();
    const int b = begin_filled(&f);
    assert_true(fill_socket(b) > KEPT_BYTES);
    pthread_mutex_lock(&turns.mu);
    turns.released = true;
    pthread_cond_broadcast(&turns.changed);
    pthread_mutex_unlock(&turns.mu);
    expect_small(&f); // in between
    pthread_mutex_lock(&turns.mu);
    turns.is_on = false;
    pthread_mutex_unlock(&turns.mu);
    assert_true(longest_run(turns.piece[0].body) <= 64 << 10);
    close(a), close(b);
    wait_nothing_held(&f);
    fixture_close(&f);
}

// A chunked body is charged as it comes.
FX_TEST(test_chunked_bodies_are_bounded)
{
    static char piece[1001];
    fixture f = fixture_open((fxi_server_options){.max_queue_bytes = MIB, .max_body_bytes = MIB});
    int fd[4];
    memset(piece, ' ', sizeof piece - 1);
    for (int i = 0; i < 4; i++) {
        fd[i] = http_open(f.port);
        http_send(fd[i], POST_TEXT "Transfer-Encoding: chunked\r\n\r\n");
        for (int k = 0; k < 300; k++) http_send(fd[i], "3e8\r\n%s\r\n", piece);
    }
    WAIT_UNTIL(server_quota(&f).n_refused);
    int n_bad = 0;
    for (int i = 0; i < 4; i++) {
        http_send(fd[i], "0\r\n\r\n");
        http_reply r = http_read(fd[i]);
        n_bad += r.status == 400; // all of it arrived, and it is not JSON
        assert_true(r.status == 503 || r.status == 400);
        http_reply_free(&r);
    }
    assert_true(n_bad < 4 && server_quota(&f).peak_bytes <= MIB);
    for (int i = 0; i < 4; i++) close(fd[i]);
    wait_nothing_held(&f);
    fixture_close(&f);
}

// ---- many huge requests -----------------------------------------------------------------------

static size_t resident_bytes(void)
{
    unsigned long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_int_equal(fscanf(file, "%lu %lu", &size, &resident), 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

// Stop strings are held by the engine with what it takes to find them, and by the reply, which
// names them. All of it is charged for as long as the request runs.
FX_TEST(test_stop_strings_are_charged)
{
    enum { N = 8, STOP_BYTES = 1000 };
    char stop[N * (STOP_BYTES + 8)], *at = stop;
    at += sprintf(at, "{\"prompt\":\"stuck\",\"stop\":[");
    for (int i = 0; i < N; i++) at += sprintf(at, "%s\"%0*d\"", i ? "," : "", STOP_BYTES, i);
    sprintf(at, "]}");
    fixture f = fixture_open((fxi_server_options){.max_queue_bytes = 64 * MIB});
    int fd = http_begin(f.port, TEXT, stop);
    wait_held(&f, FXI_BYTES_QUEUE, 5 * N * STOP_BYTES, 6 * N * STOP_BYTES);
    wait_held(&f, FXI_BYTES_ANSWER, N * STOP_BYTES, 2 * N * STOP_BYTES);
    wait_held(&f, FXI_BYTES_TREE, 0, 0);
    wait_held(&f, FXI_BYTES_BODY, 0, 0);
    http_reset(fd);
    wait_nothing_held(&f);
    fixture_close(&f);
}

// Logprobs of prompts, an echo and ids are kept until the answer is whole, charged as they come.
FX_TEST(test_what_a_reply_keeps_is_charged)
{
    enum { N_TOK = 3000, PROB_BYTES = 40 };
    char *body = huge_body("{\"prompt\":\"gate 2 ", "x",
                           "\",\"echo\":true,\"logprobs\":5,\"prompt_logprobs\":5}", N_TOK + 80);
    fixture f = fixture_open((fxi_server_options){0});
    int fd = http_begin(f.port, TEXT, body);
    wait_held(&f, FXI_BYTES_ANSWER, 9 * N_TOK, 50 * N_TOK); // the echo, and its offsets
    fake_engine_open(f.eng, 1);
    wait_held(&f, FXI_BYTES_ANSWER, 6 * N_TOK * PROB_BYTES, (size_t)8 * MIB);
    fake_engine_open(f.eng, 2);
    expect_reply(http_read(fd), 200, "prompt_logprobs");
    close(fd);
    wait_nothing_held(&f);
    fixture_close(&f);
    free(body);
}

// What is held only while a text is rendered, cut into tokens or spelled is charged, too: bodies
// that fit, with an outcome that does not.
FX_TEST(test_outcomes_are_charged)
{
    char *chat =
        huge_body("{\"messages\":[{\"role\":\"user\",\"content\":\"", "text", "\"}]}", MIB);
    char *text = huge_body("{\"prompt\":\"", "text", "\"}", MIB / 2);
    char *ids = huge_body("{\"tokens\":[263", ",263", "]}", MIB / 2);
    fixture f = fixture_open((fxi_server_options){.max_queue_bytes = 4 * MIB});
    expect_reply(http_call(f.port, "POST", "/apply-template", chat), 413, "request_too_large");
    expect_reply(http_call(f.port, "POST", "/v1/chat/completions", chat), 413, "request_too_large");
    expect_reply(http_call(f.port, "POST", "/tokenize", text), 413, "request_too_large");
    expect_reply(http_call(f.port, "POST", "/detokenize", ids), 413, "request_too_large");
    wait_nothing_held(&f);
    fixture_close(&f);
    free(chat);
    free(text);
    free(ids);
}

enum { N_HUGE = 15 }; // bodies of a client

typedef struct client {
    pthread_t thread;
    int port, n_ok, n_refused, n_other;
    char *const *body;
    int n_body;
} client;

static void *send_bodies(void *ud)
{
    client *c = ud;
    for (int i = 0; i < N_HUGE; i++) {
        http_reply r = http_call(c->port, "POST", TEXT, c->body[i % c->n_body]);
        c->n_ok += r.status == 200;
        c->n_refused += r.status == 503 || r.status == 413 || r.status == 400;
        c->n_other += r.status != 200 && r.status != 503 && r.status != 413 && r.status != 400;
        http_reply_free(&r);
    }
    return NULL;
}

// What sanitizers keep of freed memory is not the server's.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SLACK_MIB = 320, LEFT_MIB = 4096 };
#else
enum { SLACK_MIB = 64, LEFT_MIB = 8 };
#endif

// 120 requests of about 4 MiB each, eight at a time: all are answered, and the resident set, which
// would be gigabytes, stays within the limit, and goes back to where it was.
FX_TEST(test_huge_requests_leave_nothing)
{
    enum { N_CLIENT = 8, LIMIT_MIB = 48 };
    char *body[] = {
        huge_body("{\"prompt\":\"say a\",\"stop\":\"", "stop", "\"}", 4 * MIB),
        huge_body("{\"prompt\":\"say a\",\"user\":\"", "user", "\"}", 4 * MIB),
        huge_body("{\"prompt\":\"say a\",\"x\":[1", ",\"abcdefghijklmno\"", "]}", 3 * MIB),
        huge_body("{\"prompt\":\"say a\",\"x\":[1", ",[1]", "]}", MIB),
        huge_body("{\"prompt\":\"", "prompt ", "\"}", 4 * MIB),
    };
    fixture f = fixture_open((fxi_server_options){.max_queue_bytes = LIMIT_MIB * MIB});
    client c[N_CLIENT];
    size_t before = resident_bytes(), most = 0;
    for (int i = 0; i < N_CLIENT; i++) {
        c[i] = (client){.port = f.port, .body = body, .n_body = 5};
        pthread_create(&c[i].thread, NULL, send_bodies, &c[i]);
    }
    while (fake_engine_counts(f.eng).n_submitted < 24 && server_quota(&f).n_refused < 72) {
        size_t now = resident_bytes();
        if (now > most) most = now;
        nap();
    }
    int n_ok = 0, n_refused = 0;
    for (int i = 0; i < N_CLIENT; i++) {
        pthread_join(c[i].thread, NULL);
        assert_int_equal(c[i].n_other, 0);
        n_ok += c[i].n_ok, n_refused += c[i].n_refused;
    }
    assert_int_equal(n_ok + n_refused, N_HUGE * N_CLIENT);
    assert_true(n_ok > 0);
    expect_small(&f);
    wait_nothing_held(&f);
    WAIT_UNTIL(resident_bytes() <= before + LEFT_MIB * MIB);
    if (most > before + (LIMIT_MIB + SLACK_MIB) * MIB)
        fail_msg("%zu MiB more", (most - before) / MIB);
    assert_true(server_quota(&f).peak_bytes <= LIMIT_MIB * MIB);
    fixture_close(&f);
    for (size_t i = 0; i < 5; i++) free(body[i]);
}

// ---- answers ----------------------------------------------------------------------------------

// Readers that do not read: their streams are cut when all of them together hold too much, long
// before each one alone does.
FX_TEST(test_unread_answers_are_bounded)
{
    enum { N = 24 };
    int fd[N];
    fixture f =
        fixture_open((fxi_server_options){.max_queue_bytes = 8 * MIB, .max_out_bytes = 64 * MIB});
    for (int i = 0; i < N; i++)
        fd[i] = http_begin(f.port, TEXT,
                           "{\"prompt\":\"flood 400\",\"max_tokens\":400,\"stream\":true}");
    WAIT_UNTIL(fake_engine_counts(f.eng).n_submitted >= N);
    assert_true(fake_engine_wait_idle(f.eng, WAIT_S));
    assert_true(fake_engine_counts(f.eng).n_cancelled > 0);
    // Beyond half the limit by one token of each, in a buffer that doubles.
    assert_true(server_quota(&f).peak_bytes < 5 * MIB + N * 256 * 1024);
    expect_small(&f);
    expect_reply(http_read(fd[0]), 200, "data: [DONE]\n\n");
    for (int i = 0; i < N; i++) close(fd[i]);
    wait_nothing_held(&f);
    fixture_close(&f);
}

// ---- workers ----------------------------------------------------------------------------------

// While large prompts are being tokenized, small requests, streams and /health are served.
FX_TEST(test_large_work_holds_nobody_up)
{
    enum { N = 8 };
    int fd[N];
    char *large = huge_body("{\"prompt\":\"grind", " 1", "\"}", 200000);
    fixture f = fixture_open((fxi_server_options){0});
    int stream = http_begin(f.port, TEXT, "{\"prompt\":\"gate 2\",\"stream\":true}");
    for (int i = 0; i < N; i++) fd[i] = http_begin(f.port, TEXT, large);
    wait_grinding(&f, 1); // one of two workers
    fake_engine_open(f.eng, 1);
    expect_reply(http_read_until(stream, "\"text\":\"1\""), 200, NULL);
    for (int i = 0; i < 5; i++) expect_small(&f);
    assert_int_equal(fake_engine_grinding(f.eng), 1);
    fake_engine_release(f.eng);
    for (int i = 0; i < N; i++) {
        expect_reply(http_read(fd[i]), 400, "context_length_exceeded");
        close(fd[i]);
    }
    close(stream);
    wait_nothing_held(&f);
    fixture_close(&f);
    free(large);
}

// Clients that leave while their request waits for a worker, or is with one: nothing of it reaches
// the engine.
FX_TEST(test_hang_up_before_submission)
{
    fixture f = fixture_open((fxi_server_options){.n_worker = 1});
    int busy = http_open(f.port), queued = http_open(f.port), last = http_open(f.port);
    http_post(busy, TEXT, "{\"prompt\":\"grind\",\"stream\":true}");
    wait_grinding(&f, 1);
    http_post(queued, TEXT, "{\"prompt\":\"stuck\"}");
    http_post(last, TEXT, "{\"prompt\":\"say done\"}");
    wait_queued(&f, 2, 0);
    close(queued);
    http_reset(busy);
    for (bool gone = false; !gone; nap()) { // both are off the list of the live
        pthread_mutex_lock(&f.srv->mu);
        gone = f.srv->jobs && !f.srv->jobs->next;
        pthread_mutex_unlock(&f.srv->mu);
    }
    fake_engine_release(f.eng);
    expect_reply(http_read(last), 200, "done");
    assert_int_equal(fake_engine_counts(f.eng).n_submitted, 1);
    close(last);
    wait_nothing_held(&f);
    fixture_close(&f);
}

// A stop does not lose what waits for a worker, and does not wait for it longer than it must.
FX_TEST(test_stop_while_work_waits)
{
    fixture f = fixture_open((fxi_server_options){.n_worker = 1, .grace_s = 30});
    int busy = http_open(f.port), queued = http_open(f.port);
    http_post(busy, TEXT, "{\"prompt\":\"grind\"}");
    wait_grinding(&f, 1);
    http_post(queued, TEXT, "{\"prompt\":\"say never\"}");
    wait_queued(&f, 1, 0);
    const pthread_t stopper = stop_meanwhile(&f);
    expect_reply(http_read(busy), 503, "draining");
    expect_reply(http_read(queued), 503, "draining");
    fake_engine_release(f.eng);
    pthread_join(stopper, NULL);
    assert_int_equal(fake_engine_counts(f.eng).n_submitted, 0);
    close(busy), close(queued);
    fixture_close(&f);
}

// ---- the heap ---------------------------------------------------------------------------------

static atomic_int n_trim;

void __real_fxi_heap_trim(void);
void __wrap_fxi_heap_trim(void);

void __wrap_fxi_heap_trim(void)
{
    atomic_fetch_add(&n_trim, 1);
    __real_fxi_heap_trim();
}

// What is free inside the heap goes back to the system once the last request has gone, not while
// one still runs, and not again and again.
FX_TEST(test_heap_is_trimmed_when_idle)
{
    fixture f = fixture_open((fxi_server_options){0});
    int stuck = http_begin(f.port, TEXT, "{\"prompt\":\"stuck\"}");
    WAIT_UNTIL(fake_engine_counts(f.eng).n_running);
    atomic_store(&n_trim, 0);
    expect_small(&f);
    pause_s(1.5); // long enough to go wrong
    assert_int_equal(atomic_load(&n_trim), 0);
    http_reset(stuck);
    WAIT_UNTIL(atomic_load(&n_trim));
    pause_s(1.5);
    assert_int_equal(atomic_load(&n_trim), 1);
    fixture_close(&f);
}

static int set_up(void **state)
{
    fxi_heap_map_large();
    return 0;
}

FX_RUN_GROUP(test_server_bytes, set_up, NULL)
