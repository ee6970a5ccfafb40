// test_server_http.c - the server over the fake engine, with clients that behave, that misbehave,
// and that leave.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <pthread.h>

#include "base/system/clock.h"
#include "server/open_and_serve.h"
#include "server/waits.h"
#include "unit/cmocka_all.h"

#define CHAT "/v1/chat/completions"

static bool has(const fxi_buf *b, const char *text)
{
    return b->p && strstr(b->p, text);
}

// ---- plain requests ---------------------------------------------------------------------------

static const struct plain_row {
    const char *method, *path, *body;
    int status;
    const char *in_body;
} plain_rows[] = {
    {"HEAD", "/health", NULL, 200, NULL},
    {"GET", "/", NULL, 200, "POST /v1/chat/completions"},
    {"GET", "/nothing", NULL, 404, "\"type\":\"not_found_error\""},
    {"GET", "/nothing", NULL, 404, "there is no such path here: /nothing\","},
    {"POST", "/completion", "{}", 404, "here: /completion; POST /v1/completions completes"},
    {"POST", "/api/chat", "{}", 404, "here: /api/chat; POST /v1/chat/completions"},
    {"GET", "/api/tags", NULL, 404, "here: /api/tags; GET /v1/models"},
    {"POST", "/v1/images/generations", "{}", 404, "this server reads and writes text only"},
    {"GET", "/v1/responses/resp_1", NULL, 404, "nothing is stored between requests"},
    {"GET", "/%FF%22", NULL, 404, "/\xef\xbf\xbd\\\""},
    {"GET", TEXT, NULL, 405, "invalid_request_error"},
    {"BREW", "/health", NULL, 405, "GET, HEAD"},
    {"POST", TEXT, "{\"prompt\":\"say a b\"}", 200, "\"text\":\"a b\""},
    {"POST", TEXT, "{\"prompt\":\"count 30\"}", 200, "\"completion_tokens\":16"},
    {"POST", TEXT, "{\"prompt\":\"count 30\"}", 200, "\"finish_reason\":\"length\""},
    {"POST", TEXT, "{\"prompt\":[\"say a\",\"say b\"],\"n\":2}", 200, "\"index\":3,\"text\":\"b\""},
    {"POST", TEXT, "{\"prompt\":[115,97,121,32,122]}", 200, "\"text\":\"z\""},
    {"POST", CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"count 30\"}]}", 200,
     "\"completion_tokens\":30"},
    {"POST", CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"refuse\"}]}", 400,
     "\"message\":\"chat template, line 3: no\",\"type\":\"invalid_request_error\",\"param\":"
     "\"messages\""},
    {"POST", "/apply-template", "{\"messages\":[{\"role\":\"user\",\"content\":\"a \\\"b\"}]}", 200,
     "{\"prompt\":\"a \\\"b\"}"},
    {"POST", "/apply-template", "{\"messages\":[{\"role\":\"user\",\"content\":\"refuse\"}]}", 400,
     "chat template, line 3: no"},
    {"GET", "/apply-template", NULL, 405, "POST"},
    {"POST", TEXT, "nonsense", 400, "invalid_json"},
    {"POST", TEXT, "{\"prompt\":\"a\",\"temperature\":9}", 400, "\"param\":\"temperature\""},
    {"POST", TEXT, "{\"prompt\":\"a\",\"model\":\"x\"}", 404, "model_not_found"},
    {"POST", TEXT, "{\"prompt\":\"a\",\"suffix\":\"b\"}", 400, "\"param\":\"suffix\""},
    {"POST", TEXT, "{\"prompt\":\"full\"}", 429, "queue_full"},
    {"POST", TEXT, "{\"prompt\":\"closed\"}", 503, "draining"},
    {"POST", TEXT, "{\"prompt\":\"nospace\"}", 400, "the script says 'nospace'"},
    {"POST", TEXT, "{\"prompt\":\"nospace\"}", 400, "\"param\":\"max_tokens\""},
    {"POST", CHAT,
     "{\"messages\":[{\"role\":\"user\",\"content\":\"nospace\"}],"
     "\"max_completion_tokens\":5}",
     400, "\"param\":\"max_completion_tokens\",\"code\":\"kv_budget_exceeded\""},
    {"POST", TEXT, "{\"prompt\":\"invalid\",\"n\":2}", 400, "\"param\":\"n\""},
    {"POST", TEXT, "{\"prompt\":\"invalid\",\"best_of\":2}", 400, "\"param\":\"best_of\""},
    {"POST", TEXT, "{\"prompt\":\"halt 2\",\"stop\":[\"x\",\"yz\"]}", 200,
     "\"stop_reason\":\"yz\""},
    {"POST", TEXT, "{\"prompt\":\"halt 2\",\"stop_token_ids\":[3,4]}", 200,
     "\"finish_reason\":\"stop\",\"stop_reason\":4"},
    {"POST", TEXT, "{\"prompt\":\"halt 2\",\"stop_token_ids\":[3],\"stream\":true}", 200,
     "\"finish_reason\":\"stop\",\"stop_reason\":3"},
    {"POST", TEXT, "{\"prompt\":\"say a\",\"stop_token_ids\":[3]}", 200,
     "\"finish_reason\":\"stop\",\"stop_reason\":null"},
    {"POST", TEXT, "{\"prompt\":\"say a\",\"n\":2,\"best_of\":4}", 200, "\"index\":1,"},
    {"POST", TEXT, "{\"prompt\":\"broken\"}", 500, "server_error"},
    {"POST", TEXT, "{\"prompt\":\"fail 3\"}", 500, "server_error"},
    {"POST", TEXT, "{\"prompt\":\"fail 0\",\"stream\":true}", 500, "server_error"},
    {"POST", TEXT, "{\"prompt\":\"full\",\"stream\":true}", 429, "queue_full"},
};

FX_TEST(test_plain)
{
    fixture f = fixture_open((fxi_server_options){.model_id = "fake"});
    for (size_t i = 0; i < sizeof plain_rows / sizeof plain_rows[0]; i++)
        expect_reply(
            http_call(f.port, plain_rows[i].method, plain_rows[i].path, plain_rows[i].body),
            plain_rows[i].status, plain_rows[i].in_body);
    assert_true(fixture_logs(&f, "error=queue_full"));
    assert_true(fixture_logs(&f, "error=not_found path=/v1/images/generations "));
    assert_false(fixture_log_has(&f, "count")); // never text of prompts
    fixture_close(&f);
}

// The engine gets what the client asked for.
FX_TEST(test_request_fields)
{
    fixture f = fixture_open((fxi_server_options){0});
    expect_reply(
        http_call(f.port, "POST", TEXT,
                  "{\"prompt\":\"say a\",\"logit_bias\":{\"65\":-7.5},"
                  "\"allowed_token_ids\":[65,66],\"stop_token_ids\":[67],\"stop\":[\"x\",\"yz\"],"
                  "\"cache_salt\":\"pepper\",\"priority\":7,\"best_of\":3,\"n\":2}"),
        200, NULL);
    const fx_request *r = &fake_engine_last(f.eng)->req;
    assert_int_equal(r->sampling.n_bias, 1);
    assert_int_equal(r->sampling.bias[0].token, 65);
    assert_true(r->sampling.bias[0].bias == -7.5F);
    assert_int_equal(r->sampling.n_allow, 2);
    assert_int_equal(r->sampling.allow[1], 66);
    assert_int_equal(r->n_stop_token, 1);
    assert_int_equal(r->stop_token[0], 67);
    assert_int_equal(r->n_stop, 2);
    assert_string_equal(r->stop[1], "yz");
    assert_string_equal(r->tenant, "anonymous/127.0.0.1/pepper");
    assert_int_equal(r->priority, -7);
    assert_int_equal(r->n_choice, 2);
    assert_int_equal(r->n_best, 3);
    fixture_close(&f);
}

FX_TEST(test_headers)
{
    fixture f = fixture_open((fxi_server_options){0});
    http_reply r = http_call(f.port, "POST", TEXT, "{\"prompt\":\"full\"}");
    assert_true(has(&r.head, "Retry-After: 1\r\n") && has(&r.head, "application/json"));
    http_reply_free(&r);
    r = http_call(f.port, "DELETE", "/v1/models", NULL);
    assert_true(has(&r.head, "Allow: GET, HEAD\r\n"));
    http_reply_free(&r);
    r = http_call(f.port, "POST", TEXT, "{\"prompt\":\"say a\",\"stream\":true}");
    assert_true(has(&r.head, "Content-Type: text/event-stream\r\n"));
    assert_true(has(&r.head, "Cache-Control: no-cache\r\n"));
    assert_true(has(&r.head, "X-Request-Id: req-"));
    http_reply_free(&r);
    int fd = http_open(f.port);
    http_send(fd, "GET /health HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: mine-7\r\n\r\n");
    r = http_read(fd);
    assert_true(has(&r.head, "X-Request-Id: mine-7\r\n"));
    http_reply_free(&r);
    close(fd);
    fixture_close(&f);
}

FX_TEST(test_limits)
{
    fixture f = fixture_open((fxi_server_options){.max_body_bytes = 100000});
    char *fits = huge_body("{\"prompt\":\"", "a", "\"}", 99000);
    char *large = huge_body("{\"prompt\":\"", "a", "\"}", 200000);
    char *huge = huge_body("{\"prompt\":\"", "a", "\"}", 900000);
    expect_reply(http_call(f.port, "POST", TEXT, fits), 400, "context_length_exceeded");
    expect_reply(http_call(f.port, "POST", TEXT, large), 413, "invalid_request_error");
    int fd = http_open(f.port);
    http_send(fd, POST_TEXT "Content-Length: 900000\r\n\r\n");
    expect_reply(http_read(fd), 413, "invalid_request_error"); // at once, without the body
    close(fd);
    fd = http_open(f.port);
    http_send(fd, "GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: %.1500s\r\n", huge);
    for (int i = 0; i < 12; i++) http_send(fd, "X-Long%d: %.1500s\r\n", i, huge);
    http_send(fd, "\r\n");
    expect_reply(http_read(fd), 431, "invalid_request_error");
    char rest[16];
    assert_int_equal(read(fd, rest, sizeof rest), 0); // closed: its framing was not checked
    close(fd);
    free(fits), free(large), free(huge);
    fixture_close(&f);
}

FX_TEST(test_content_types)
{
    static const struct {
        const char *header;
        int status;
    } rows[] = {
        {"Content-Type: application/json", 200},
        {"Content-Type: Application/JSON; charset=utf-8", 200},
        {"Content-Type: application/json\r\nContent-Encoding: identity", 200},
        {"X-None: 1", 415},
        {"Content-Type:", 415},
        {"Content-Type: application/x-www-form-urlencoded", 415},
        {"Content-Type: text/plain", 415},
        {"Content-Type: text/plain; application/json", 415},
        {"Content-Type: application/jsonx", 415},
        {"Content-Type: text/xml", 415},
        {"Content-Type: multipart/form-data; boundary=x", 415},
        {"Content-Type: application/json\r\nContent-Encoding: gzip", 415},
    };
    fixture f = fixture_open((fxi_server_options){0});
    int fd = http_open(f.port); // all on one connection
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        http_send(fd,
                  "POST " TEXT " HTTP/1.1\r\nHost: localhost\r\n%s\r\nContent-Length: 18\r\n\r\n%s",
                  rows[i].header, "{\"prompt\":\"say a\"}");
        expect_reply(http_read(fd), rows[i].status,
                     rows[i].status == 200 ? "\"text\":\"a\"" : "error");
    }
    close(fd);
    fixture_close(&f);
}

FX_TEST(test_expect_continue)
{
    fixture f = fixture_open((fxi_server_options){.max_body_bytes = 1000});
    int fd = http_open(f.port);
    http_send(fd, POST_TEXT "Expect: 100-continue\r\n"
                            "Content-Length: 18\r\n\r\n");
    expect_reply(http_read(fd), 100, NULL);
    http_send(fd, "{\"prompt\":\"say a\"}");
    expect_reply(http_read(fd), 200, "\"text\":\"a\"");
    close(fd);
    fd = http_open(f.port);
    http_send(fd, POST_TEXT "Expect: 100-continue\r\n"
                            "Content-Length: 1001\r\n\r\n");
    expect_reply(http_read(fd), 413, "error");
    close(fd);
    fixture_close(&f);
}

FX_TEST(test_keep_alive)
{
    fixture f = fixture_open((fxi_server_options){0});
    int fd = http_open(f.port);
    for (int i = 0; i < 20; i++) {
        http_post(fd, TEXT, "{\"prompt\":\"count 3\",\"stream\":true}");
        expect_reply(http_read(fd), 200, "data: [DONE]");
        http_post(fd, CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"slow 2 1\"}]}");
        expect_reply(http_read(fd), 200, "\"content\":\"1 2\"");
        http_post(fd, "/nowhere", "{}");
        expect_reply(http_read(fd), 404, "error");
    }
    http_post(fd, TEXT, "{\"prompt\":\"say a\"}"); // two at once
    http_post(fd, TEXT, "{\"prompt\":\"say b\"}");
    expect_reply(http_read(fd), 200, "\"text\":\"a\"");
    expect_reply(http_read(fd), 200, "\"text\":\"b\"");
    close(fd);
    fixture_close(&f);
}

FX_TEST(test_chunked_body)
{
    fixture f = fixture_open((fxi_server_options){.max_body_bytes = 1000});
    int fd = http_open(f.port);
    http_send(fd, POST_TEXT "Transfer-Encoding: chunked\r\n\r\n");
    http_send(fd, "9\r\n{\"prompt\"\r\n");
    pause_s(0.02);
    http_send(fd, "9\r\n:\"say a\"}\r\n0\r\n\r\n");
    expect_reply(http_read(fd), 200, "\"text\":\"a\"");
    http_send(fd, POST_TEXT "Transfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 3; i++) http_send(fd, "190\r\n%0400d\r\n", 0);
    http_send(fd, "0\r\n\r\n");
    expect_reply(http_read(fd), 413, "error");
    close(fd);
    fd = http_open(f.port); // one that never ends is cut off
    http_send(fd, POST_TEXT "Transfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 20; i++) http_send(fd, "190\r\n%0400d\r\n", 0);
    expect_reply(http_read(fd), 0, NULL);
    close(fd);
    fixture_close(&f);
}

// ---- streams ----------------------------------------------------------------------------------

FX_TEST(test_golden_stream)
{
#define HEAD                                                                           \
    "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1," \
    "\"model\":\"m\",\"choices\":["
#define NULLS "\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n"
    static const char want[] = HEAD
        "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}," NULLS HEAD
        "{\"index\":0,\"delta\":{\"content\":\"Hi\"}," NULLS HEAD
        "{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":null}"
        "\n\n" HEAD "],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":1,\"total_tokens\":8,"
        "\"prompt_tokens_details\":{\"cached_tokens\":0}}}\n\ndata: [DONE]\n\n";
    fixture f = fixture_open((fxi_server_options){.model_id = "m"});
    http_reply r = http_call(f.port, "POST", CHAT,
                             "{\"messages\":[{\"role\":\"user\",\"content\":\"say Hi\"}],"
                             "\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    assert_false(r.cut);
    fixture_blank(&r.body, "\"id\":\"", "\"", "chatcmpl-1");
    fixture_blank(&r.body, "\"created\":", ",", "1");
    assert_string_equal(r.body.p, want);
    http_reply_free(&r);
    fixture_close(&f);
}

FX_TEST(test_stream_error)
{
    fixture f = fixture_open((fxi_server_options){0});
    http_reply r = http_call(f.port, "POST", TEXT, "{\"prompt\":\"fail 2\",\"stream\":true}");
    assert_int_equal(r.status, 200);
    assert_true(has(&r.body, "\"text\":\" 2\""));
    assert_true(has(&r.body, "data: {\"error\":{\"message\":\"the request failed: the script"));
    const char *done = strstr(r.body.p, "data: [DONE]\n\n");
    assert_true(done && !done[strlen("data: [DONE]\n\n")]);
    http_reply_free(&r);
    fixture_close(&f);
}

// A token is sent before the next one has been made.
FX_TEST(test_stream_sends_each_token)
{
    fixture f = fixture_open((fxi_server_options){0});
    int fd = http_begin(f.port, TEXT, "{\"prompt\":\"gate 3\",\"stream\":true}");
    fake_engine_open(f.eng, 1);
    http_reply r = http_read_until(fd, "\"text\":\"1\"");
    assert_int_equal(r.status, 200);
    assert_false(r.cut || has(&r.body, "\"text\":\" 2\""));
    http_reply_free(&r);
    close(fd);
    fixture_close(&f);
}

FX_TEST(test_ping)
{
    fixture f = fixture_open((fxi_server_options){.ping_s = 0.05});
    int fd = http_begin(f.port, TEXT, "{\"prompt\":\"stuck\",\"stream\":true}");
    http_reply r = http_read_until(fd, ": ping\n\n: ping\n\n");
    assert_int_equal(r.status, 200);
    assert_string_equal(r.body.p, ": ping\n\n: ping\n\n");
    http_reply_free(&r);
    close(fd);
    wait_running(&f, 0);
    fixture_close(&f);
}

FX_TEST(test_slow_reader)
{
    fixture f = fixture_open((fxi_server_options){.max_out_bytes = 1 << 20});
    int fd = http_begin(f.port, TEXT,
                        "{\"prompt\":\"flood 100000\",\"max_tokens\":100000,\"stream\":true}");
    wait_submitted(&f, 1);
    wait_running(&f, 0); // cut off, although nobody has read a byte
    assert_int_equal(fake_engine_counts(f.eng).n_cancelled, 1);
    http_reply r = http_read(fd);
    assert_true(r.status == 200 && !r.cut);
    assert_true(r.body.n < 32u << 20);
    assert_true(has(&r.body, "\"code\":\"slow_client\"}}\n\ndata: [DONE]\n\n"));
    http_reply_free(&r);
    close(fd);
    assert_true(fixture_logs(&f, "error=slow_client"));
    fixture_close(&f);
}

// ---- clients that leave -----------------------------------------------------------------------

FX_TEST(test_hang_up)
{
    static const struct {
        const char *body;
        const char *until; // NULL: leave before anything has come
        bool reset;
    } rows[] = {
        {"{\"prompt\":\"stuck\"}", NULL, false},
        {"{\"prompt\":\"stuck\"}", NULL, true},
        {"{\"prompt\":\"stuck\",\"stream\":true}", NULL, false},
        {"{\"prompt\":\"slow 999999 5\",\"stream\":true,\"max_tokens\":999999}", "\" 3\"", false},
        {"{\"prompt\":\"slow 999999 5\",\"stream\":true,\"max_tokens\":999999}", "\" 3\"", true},
        {"{\"prompt\":\"slow 999999 5\",\"max_tokens\":999999}", NULL, false},
        {"{\"prompt\":[\"stuck\",\"slow 999999 5\",\"stuck\"],\"n\":3,\"stream\":true}", NULL,
         true},
    };
    fixture f = fixture_open((fxi_server_options){0});
    // Lives through all of it.
    int other = http_begin(f.port, TEXT, "{\"prompt\":\"gate 60\",\"max_tokens\":999}");
    wait_running(&f, 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int fd = http_begin(f.port, TEXT, rows[i].body);
        wait_submitted(&f, rows[i].body[10] == '[' ? 10 : 2 + (int)i); // all prompts of a batch
        http_reply r = {0};
        if (rows[i].until) r = http_read_until(fd, rows[i].until);
        http_reply_free(&r);
        if (rows[i].reset)
            http_reset(fd);
        else
            close(fd);
        wait_running(&f, 1);
    }
    wait_cancelled(&f, 9);
    wait_running(&f, 1);
    fake_engine_open(f.eng, 60);
    expect_reply(http_read(other), 200, "59 60\"");
    assert_int_equal(fake_engine_counts(f.eng).n_cancelled, 9);
    close(other);
    assert_true(fixture_logs(&f, " 499 "));
    fixture_close(&f);
}

// If one prompt of a batch is refused, the others are cancelled.
FX_TEST(test_batch_refused)
{
    fixture f = fixture_open((fxi_server_options){0});
    expect_reply(http_call(f.port, "POST", TEXT, "{\"prompt\":[\"stuck\",\"stuck\",\"full\"]}"),
                 429, "queue_full");
    wait_running(&f, 0);
    assert_int_equal(fake_engine_counts(f.eng).n_cancelled, 2);
    fixture_close(&f);
}

// ---- many at once -----------------------------------------------------------------------------

typedef struct worker {
    pthread_t thread;
    int port, i, n_bad;
} worker;

// A "draw" depends on its seed alone, whatever else runs.
static void *work(void *ud)
{
    worker *w = ud;
    for (int k = 0; k < 12; k++) {
        char body[128], same[128];
        snprintf(body, sizeof body, "{\"prompt\":\"draw 16\",\"seed\":%d%s}", w->i,
                 k % 3 == 1 ? ",\"stream\":true" : "");
        snprintf(same, sizeof same, "{\"prompt\":\"draw 16\",\"seed\":%d}", w->i);
        http_reply a = http_call(w->port, "POST", TEXT, body);
        http_reply b = http_call(w->port, "POST", TEXT, same);
        fixture_blank(&a.body, "\"id\":\"", "\"", ""),
            fixture_blank(&b.body, "\"id\":\"", "\"", "");
        fixture_blank(&a.body, "\"created\":", ",", ""),
            fixture_blank(&b.body, "\"created\":", ",", "");
        bool ok = a.status == 200 && b.status == 200 && !a.cut;
        if (k % 3 == 1)
            ok = ok && has(&a.body, "[DONE]");
        else
            ok = ok && !strcmp(a.body.p, b.body.p);
        w->n_bad += !ok;
        http_reply_free(&a), http_reply_free(&b);
        if (k % 4 == 3) { // and a client that leaves
            int fd = http_begin(w->port, TEXT,
                                "{\"prompt\":\"slow 50 1\",\"stream\":true,\"max_tokens\":99}");
            http_reset(fd);
        }
    }
    return NULL;
}

FX_TEST(test_many)
{
    fixture f = fixture_open((fxi_server_options){0});
    worker w[16];
    for (int i = 0; i < 16; i++) {
        w[i] = (worker){.port = f.port, .i = i};
        pthread_create(&w[i].thread, NULL, work, &w[i]);
    }
    for (int i = 0; i < 16; i++) {
        pthread_join(w[i].thread, NULL);
        assert_int_equal(w[i].n_bad, 0);
    }
    wait_running(&f, 0);
    fixture_close(&f);
}

// ---- start and stop ---------------------------------------------------------------------------

#define PATIENCE_S 30 // a stop that needs no patience ends long before

FX_TEST(test_stop)
{
    fixture f = fixture_open((fxi_server_options){.grace_s = PATIENCE_S});
    int idle = http_open(f.port), whole = http_open(f.port), fresh = http_open(f.port);
    int stream = http_open(f.port), half = http_open(f.port);
    http_post(whole, TEXT, "{\"prompt\":\"stuck\"}");
    http_post(fresh, TEXT, "{\"prompt\":\"stuck\",\"stream\":true}");
    http_post(stream, TEXT, "{\"prompt\":\"slow 999999 5\",\"max_tokens\":999999,\"stream\":true}");
    http_send(half, POST_TEXT "Content-Length: 99\r\n\r\n{");
    expect_reply(http_read_until(stream, "\" 3\""), 200, NULL);
    wait_running(&f, 3);
    fxi_server_stop(f.srv);
    f.srv = NULL;
    expect_reply(http_read(whole), 503, "draining");
    expect_reply(http_read(fresh), 503, "draining");
    fxi_buf rest = {0};
    char piece[4096];
    for (ssize_t n; (n = read(stream, piece, sizeof piece)) > 0;)
        fxi_buf_add(&rest, piece, (size_t)n);
    assert_true(has(&rest, "\"type\":\"unavailable_error\"") && has(&rest, "data: [DONE]\n\n"));
    fxi_buf_free(&rest);
    assert_true(fake_engine_wait_idle(f.eng, WAIT_S));
    assert_int_equal(fake_engine_counts(f.eng).n_cancelled, 3);
    close(idle), close(whole), close(fresh), close(stream), close(half);
    fixture_close(&f);
}

// A client that does not read its answer holds a stop for grace_s, not until its connection is idle
// for too long, which would be 60 seconds.
FX_TEST(test_stop_with_a_deaf_client)
{
    fixture f = fixture_open((fxi_server_options){.grace_s = 0.05});
    int deaf =
        http_begin(f.port, TEXT, "{\"prompt\":\"flood 40\",\"max_tokens\":40,\"stream\":true}");
    wait_submitted(&f, 1);
    wait_running(&f, 0);
    double start_s = fxi_now_s();
    fxi_server_stop(f.srv);
    f.srv = NULL;
    assert_true(fxi_now_s() - start_s < PATIENCE_S);
    close(deaf);
    fixture_close(&f);
}

// Stops while the serving thread takes a connection, reads a request or answers it: a little later
// each time.
FX_TEST(test_stop_at_once)
{
    for (int i = 0; i < 400; i++) {
        fixture f = fixture_open((fxi_server_options){0});
        int fd = http_open(f.port);
        http_send(fd, "GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n");
        for (volatile int spin = 0; spin < i % 200 * 100; spin++) continue;
        fixture_close(&f);
        close(fd);
    }
}

FX_TEST(test_engine_closes_first)
{
    fixture f = fixture_open((fxi_server_options){.grace_s = PATIENCE_S});
    int fd = http_open(f.port), late = http_open(f.port);
    http_post(fd, TEXT, "{\"prompt\":\"stuck\"}");
    wait_running(&f, 1);
    fxi_server_stop(f.srv); // the engine still has the request
    f.srv = NULL;
    expect_reply(http_read(fd), 503, "draining");
    close(fd), close(late);
    fixture_close(&f);
}

FX_TEST(test_listen_errors)
{
    static const struct {
        fxi_server_options opt;
        fx_status st;
        const char *text;
    } rows[] = {
        {{.host = "example"}, FX_EINVAL, "'example' is not an IPv4 or IPv6 address"},
        {{.host = "127.0.0.1.5"}, FX_EINVAL, "'127.0.0.1.5' is not an IPv4 or IPv6 address"},
        {{.port = 65536}, FX_EINVAL, "port 65536 is not between 0 and 65535"},
        {{.port = -1}, FX_EINVAL, "port -1 is not between 0 and 65535"},
        {{.max_conn = -1}, FX_EINVAL, "a limit of the server is negative"},
        {{.host = "203.0.113.7", .port = 9},
         FX_EIO,
         "cannot listen on 203.0.113.7:9: Cannot assign requested address"},
    };
    fx_engine *eng = fake_engine_new();
    fxi_server *srv;
    fx_error err;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(open_and_serve(eng, &rows[i].opt, &srv, &err), rows[i].st);
        assert_string_equal(err.text, rows[i].text);
        assert_null(srv);
    }
    fx_engine_close(eng);
}

FX_TEST(test_busy_port)
{
    fixture f = fixture_open((fxi_server_options){0});
    fxi_server *srv;
    fx_error err;
    char want[96];
    snprintf(want, sizeof want, "cannot listen on 127.0.0.1:%d: Address already in use", f.port);
    fxi_server_options opt = {.port = f.port};
    assert_int_equal(open_and_serve(f.eng, &opt, &srv, &err), FX_EIO);
    assert_string_equal(err.text, want);
    expect_reply(http_call(f.port, "GET", "/health", NULL), 200,
                 "ok"); // the first one still serves
    fixture_close(&f);
}

FX_TEST(test_ipv6)
{
    fx_engine *eng = fake_engine_new();
    fxi_server_options opt = {.host = "::1"};
    fxi_server *srv;
    fx_error err;
    if (open_and_serve(eng, &opt, &srv, &err) == FX_OK) {
        int fd = http_open_v6(fxi_server_port(srv));
        http_post(fd, TEXT, "{\"prompt\":\"say six\"}");
        expect_reply(http_read(fd), 200, "six");
        close(fd);
        fxi_server_stop(srv);
    } else { // a machine without IPv6
        assert_non_null(strstr(err.text, "cannot listen on [::1]:0: "));
    }
    fx_engine_close(eng);
}

FX_RUN(test_server_http)
