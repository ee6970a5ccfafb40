// test_span_export.c - spans of requests: who a request belongs to, what is told of it, and a
// collector that is slow, refuses or is not there.
#include <stdlib.h>
#include <string.h>

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "json_doc.h"
#include "server/spans/exporter.h"
#include "server/spans/span.h"
#include "unit/cmocka_all.h"

#define PARENT "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// ---- the recorder of an engine that is not there -----------------------------------------------

static fx_record events[64];
static size_t n_event;

size_t fx_record_copy(const fx_engine *eng, uint64_t from, fx_record *out, size_t max_n,
                      uint64_t *first)
{
    (void)eng;
    size_t n = from < n_event ? n_event - from : 0;
    if (n > max_n) n = max_n;
    *first = from < n_event ? from : n_event;
    memcpy(out, events + *first, n * sizeof *out);
    return n;
}

const char *fx_version(void)
{
    return "1.2.3";
}

static void note_event(int kind, uint64_t request, uint64_t at_us)
{
    events[n_event++] =
        (fx_record){.kind = (uint8_t)kind, .request = request, .at_us = at_us, .n_tok = 9};
}

// ---- traceparent -------------------------------------------------------------------------------

// A later version may have more fields, and is read as far as it is known.
FX_TEST(test_a_valid_traceparent)
{
    static const char *const good[] = {
        PARENT, "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        fxi_trace_span *s = fxi_trace_span_begin(good[i], NULL);
        assert_int_equal(s->context.trace_id[0], 0x4b);
        assert_int_equal(s->context.trace_id[15], 0x36);
        assert_int_equal(s->context.parent_id[7], 0xb7);
        assert_true(s->context.is_sampled);
        free(s);
    }
    assert_null(
        fxi_trace_span_begin("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-02", NULL));
}

FX_TEST(test_invalid_traceparents_begin_a_trace)
{
    static const char *const bad[] = {
        "",
        "00",
        "00-",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 ",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
        "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01what",
    };
    static const uint8_t none[FXI_TRACE_ID_BYTES];
    for (size_t i = 0; i <= sizeof bad / sizeof *bad; i++) {
        fxi_trace_span *s = fxi_trace_span_begin(i ? bad[i - 1] : NULL, "a=b");
        assert_true(s->context.is_sampled);
        assert_memory_not_equal(s->context.trace_id, none, sizeof none);
        if (memcmp(s->context.parent_id, none, FXI_SPAN_ID_BYTES) != 0)
            fail_msg("taken: %s", bad[i - 1]);
        assert_string_equal(s->trace_state, ""); // it belongs to the header that is not valid
        free(s);
    }
}

FX_TEST(test_what_is_not_sampled_has_no_span)
{
    assert_null(
        fxi_trace_span_begin("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", NULL));
}

FX_TEST(test_a_trace_state_is_passed_on)
{
    char long_text[600] = "";
    memset(long_text, 'x', sizeof long_text - 1);
    const char *const rows[][2] = {
        {"rojo=1,congo=2", "rojo=1,congo=2"}, {long_text, ""}, {"a=\n", ""}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fxi_trace_span *s = fxi_trace_span_begin(PARENT, rows[i][0]);
        assert_string_equal(s->trace_state, rows[i][1]);
        free(s);
    }
}

// ---- the JSON ----------------------------------------------------------------------------------

static fxi_trace_span *make_span(void)
{
    fxi_trace_span *s = fxi_trace_span_begin(PARENT, NULL);
    assert_non_null(s);
    s->method = "POST";
    s->route = "/v1/chat/completions";
    s->operation = "chat";
    s->start_us = 1000;
    s->end_us = 9000;
    s->status = 200;
    s->n_prompt = s->n_part = s->n_choice = 1;
    snprintf(s->model, sizeof s->model, "m\"1");
    s->has_usage = true;
    s->n_prompt_tok = 11, s->n_cached_tok = 4, s->n_generated_tok = 7;
    s->finish_reasons = 1u << FX_FINISH_STOP | 1u << FX_FINISH_LENGTH;
    s->part[0] = (fxi_trace_part){.request = 5,
                                  .begun_us = 1500,
                                  .queued_us = 500,
                                  .prefill_us = 2000,
                                  .decode_us = 4000,
                                  .has_token = true};
    return s;
}

static fxi_json_doc written(fxi_trace_span *s, const fxi_preempts *p)
{
    const fxi_otlp o = {.service_name = "svc", .epoch_ns = 1000000, .preempts = p};
    fxi_buf b = {0};
    assert_true(fxi_otlp_write(&b, &o, &s, 1));
    fxi_json_doc v = json_doc_of(b.p);
    if (!v.root) fail_msg("not JSON: %s", b.p);
    fxi_buf_free(&b);
    return v;
}

static const fxi_json *span_of(const fxi_json *all, size_t i)
{
    const fxi_json *r = fxi_json_at(fxi_json_get(all, "resourceSpans"), 0);
    const fxi_json *scope = fxi_json_at(fxi_json_get(r, "scopeSpans"), 0);
    return fxi_json_at(fxi_json_get(scope, "spans"), i);
}

static const char *text_in(const fxi_json *o, const char *key)
{
    return fxi_json_text(fxi_json_get(o, key));
}

// The value of an attribute of this type ("stringValue", ..); "" if there is none.
static const char *attribute(const fxi_json *span, const char *key, const char *type)
{
    for (fxi_json_iter it = fxi_json_items(fxi_json_get(span, "attributes")); fxi_json_next(&it);)
        if (!strcmp(text_in(it.value, "key"), key))
            return text_in(fxi_json_get(it.value, "value"), type);
    return "";
}

static void expect_times(const fxi_json *span, const char *name, const char *from_ns,
                         const char *to_ns)
{
    assert_string_equal(text_in(span, "name"), name);
    assert_string_equal(text_in(span, "startTimeUnixNano"), from_ns);
    assert_string_equal(text_in(span, "endTimeUnixNano"), to_ns);
}

FX_TEST(test_a_request_and_its_phases)
{
    fxi_trace_span *s = make_span();
    fxi_json_doc v = written(s, NULL);
    const fxi_json *root = span_of(v.root, 0);
    expect_times(root, "chat m\"1", "2000000", "10000000");
    assert_string_equal(text_in(root, "traceId"), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_string_equal(text_in(root, "parentSpanId"), "00f067aa0ba902b7");
    assert_string_equal(attribute(root, "gen_ai.operation.name", "stringValue"), "chat");
    assert_string_equal(attribute(root, "gen_ai.request.model", "stringValue"), "m\"1");
    assert_string_equal(attribute(root, "gen_ai.usage.input_tokens", "intValue"), "11");
    assert_string_equal(attribute(root, "gen_ai.usage.output_tokens", "intValue"), "7");
    assert_string_equal(attribute(root, "gen_ai.usage.cache_read.input_tokens", "intValue"), "4");
    assert_string_equal(attribute(root, "error.type", "stringValue"), "");
    const fxi_json *event = fxi_json_at(fxi_json_get(root, "events"), 0);
    assert_string_equal(text_in(event, "name"), "first_token");
    assert_string_equal(text_in(event, "timeUnixNano"), "5000000");
    assert_null(fxi_json_get(root, "status"));
    expect_times(span_of(v.root, 1), "queue", "2500000", "3000000");
    expect_times(span_of(v.root, 2), "prefill", "3000000", "5000000");
    expect_times(span_of(v.root, 3), "decode", "5000000", "9000000");
    assert_null(span_of(v.root, 4));
    for (size_t i = 1; i < 4; i++) {
        assert_string_equal(text_in(span_of(v.root, i), "parentSpanId"), text_in(root, "spanId"));
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(text_in(span_of(v.root, i), "spanId"),
                                    text_in(span_of(v.root, k), "spanId"));
    }
    fxi_json_doc_free(&v);
    free(s);
}

FX_TEST(test_preemptions_are_children)
{
    fxi_preempts *p = calloc(1, sizeof *p);
    n_event = 0;
    note_event(FX_RECORD_admit, 5, 2000);
    note_event(FX_RECORD_preempt, 5, 4000);
    note_event(FX_RECORD_preempt, 6, 4001);
    events[1].is_swap = true;
    fxi_preempts_follow(p, NULL);
    note_event(FX_RECORD_away, 5, 4500);
    note_event(FX_RECORD_admit, 5, 5000);
    note_event(FX_RECORD_preempt, 5, 6000);
    note_event(FX_RECORD_finish, 6, 6500);
    fxi_preempts_follow(p, NULL);
    fxi_trace_span *s = make_span();
    fxi_json_doc v = written(s, p);
    expect_times(span_of(v.root, 4), "preempted", "5000000", "6000000");
    assert_string_equal(attribute(span_of(v.root, 4), "flexinfer.preemption.mode", "stringValue"),
                        "swap");
    expect_times(span_of(v.root, 5), "preempted", "7000000", "10000000"); // to the request's end
    assert_string_equal(attribute(span_of(v.root, 5), "flexinfer.preemption.mode", "stringValue"),
                        "recompute");
    assert_null(span_of(v.root, 6));
    fxi_json_doc_free(&v);
    for (int i = 0; i < 3000; i++) { // the ring forgets the oldest
        n_event = 0;
        p->next = 0;
        note_event(FX_RECORD_preempt, 7, 1);
        fxi_preempts_follow(p, NULL);
    }
    v = written(s, p);
    assert_null(span_of(v.root, 4));
    fxi_json_doc_free(&v);
    free(p);
    free(s);
}

FX_TEST(test_lists_of_pairs)
{
    const char *list = " a = b ,,=x,c,d=e%2Cf%3d , g=%zz,h=%00,i=,Host=x,bad name=x,j=a\tb";
    static const char *const want[][2] = {{"a", "b"},    {"d", "e,f="},     {"i", ""},
                                          {"Host", "x"}, {"bad name", "x"}, {"j", "a\tb"}};
    fxi_otel_pair p;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        assert_true(fxi_otel_pair_next(&list, &p));
        assert_string_equal(p.key, want[i][0]);
        assert_string_equal(p.value, want[i][1]);
        assert_int_equal(fxi_otel_pair_is_header(&p), i < 3);
    }
    assert_false(fxi_otel_pair_next(&list, &p));
    list = NULL;
    assert_false(fxi_otel_pair_next(&list, &p));
}

// The name of the service: given, in the list, or none.
FX_TEST(test_attributes_of_the_process)
{
    static const struct {
        const char *name, *resource, *want;
    } rows[] = {{"svc", "a=b,service.name=x", "svc"},
                {"", "a=b,service.name=x", "x"},
                {NULL, "a=b", "flexinfer"}};
    fxi_trace_span *s = make_span();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const fxi_otlp o = {.service_name = rows[i].name, .resource = rows[i].resource};
        fxi_buf b = {0};
        assert_true(fxi_otlp_write(&b, &o, &s, 1));
        fxi_json_doc v = json_doc_of(b.p);
        const fxi_json *r =
            fxi_json_get(fxi_json_at(fxi_json_get(v.root, "resourceSpans"), 0), "resource");
        assert_string_equal(attribute(r, "service.name", "stringValue"), rows[i].want);
        assert_string_equal(attribute(r, "a", "stringValue"), "b");
        fxi_json_doc_free(&v);
        fxi_buf_free(&b);
    }
    free(s);
}

// The server's faults are errors; those of clients have a type and no status.
FX_TEST(test_errors)
{
    static const struct {
        int status;
        const char *code, *type;
        bool is_error;
    } rows[] = {{500, NULL, "500", true},
                {503, "draining", "draining", true},
                {200, "internal", "internal", true},
                {429, "queue_full", "queue_full", false},
                {499, NULL, "499", false}};
    fxi_trace_span *s = make_span();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        s->status = rows[i].status;
        s->error = rows[i].code;
        fxi_json_doc v = written(s, NULL);
        const fxi_json *root = span_of(v.root, 0);
        assert_string_equal(attribute(root, "error.type", "stringValue"), rows[i].type);
        assert_int_equal(fxi_json_get(root, "status") != NULL, rows[i].is_error);
        fxi_json_doc_free(&v);
    }
    free(s);
}

FX_TEST(test_what_a_collector_did_not_take)
{
    char why[64];
    static const struct {
        const char *body;
        uint64_t n;
        const char *why;
    } rows[] = {
        {"", 0, ""},
        {"{}", 0, ""},
        {"\n\x02", 0, ""},
        {"{\"partialSuccess\":{}}", 0, ""},
        {"{\"partialSuccess\":{\"rejectedSpans\":\"3\",\"errorMessage\":\"no\"}}", 3, "no"},
        {"{\"partialSuccess\":{\"rejectedSpans\":4}}", 4, ""},
        {"{\"partialSuccess\":{\"rejectedSpans\":\"-1\"}}", 0, ""},
        {"{\"partialSuccess\":[1]}", 0, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(fxi_otlp_rejected(rows[i].body, strlen(rows[i].body), why, sizeof why),
                         rows[i].n);
        assert_string_equal(why, rows[i].why);
    }
}

// ---- a collector -------------------------------------------------------------------------------

typedef struct collector {
    int fd;
    char url[64];
    pthread_t thread;
    const char *const *answer; // one after the other, the last one for all that follow; NULL: none
    atomic_int n_request;
    atomic_bool stop;
} collector;

// Reads until the body's end, which is that of the JSON.
static void read_request(const collector *c, int fd)
{
    char text[4096];
    size_t at = 0;
    while (!c->stop) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 20) < 1) continue;
        const ssize_t n = recv(fd, text, sizeof text, 0);
        if (n <= 0) return;
        at += (size_t)n;
        if (at > 4 && text[n - 1] == '\n' && text[n - 2] == '}') return;
    }
}

static void *collect(void *ud)
{
    collector *c = ud;
    while (!c->stop) {
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        if (poll(&p, 1, 20) < 1) continue;
        const int fd = accept(c->fd, NULL, NULL);
        read_request(c, fd);
        const char *a = *c->answer;
        c->n_request++;
        if (a && c->answer[1]) c->answer++;
        if (a && send(fd, a, strlen(a), MSG_NOSIGNAL) < 0) perror("send");
        while (!a && !c->stop) usleep(1000); // silent
        close(fd);
    }
    return NULL;
}

static void open_collector(collector *c, const char *const *answer)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    *c = (collector){.fd = socket(AF_INET, SOCK_STREAM, 0), .answer = answer};
    assert_int_equal(bind(c->fd, (struct sockaddr *)&a, n), 0);
    assert_int_equal(listen(c->fd, 8), 0);
    getsockname(c->fd, (struct sockaddr *)&a, &n);
    snprintf(c->url, sizeof c->url, "http://127.0.0.1:%d/v1/traces", ntohs(a.sin_port));
    assert_int_equal(pthread_create(&c->thread, NULL, collect, c), 0);
}

static void close_collector(collector *c)
{
    c->stop = true;
    pthread_join(c->thread, NULL);
    close(c->fd);
}

typedef struct said {
    pthread_mutex_t mu;
    int n_fail, n_good;
    char last[512];
} said;

static void keep_line(void *ud, bool fails, const char *line)
{
    said *s = ud;
    pthread_mutex_lock(&s->mu);
    *(fails ? &s->n_fail : &s->n_good) += 1;
    snprintf(s->last, sizeof s->last, "%s", line);
    pthread_mutex_unlock(&s->mu);
}

static void expect_said(said *s, const char *want)
{
    pthread_mutex_lock(&s->mu);
    if (!strstr(s->last, want)) fail_msg("%s in %s", want, s->last);
    pthread_mutex_unlock(&s->mu);
}

enum { PATIENT_S = 60 };

static fxi_spans *start_spans(const char *url, double give_up_s, said *s)
{
    fxi_spans *x;
    *s = (said){.mu = PTHREAD_MUTEX_INITIALIZER};
    const fxi_spans_options opt = {.endpoint = url,
                                   .service_name = "svc",
                                   .say = keep_line,
                                   .ud = s,
                                   .first_wait_s = 0.01,
                                   .give_up_s = give_up_s};
    assert_int_equal(fxi_spans_start(&opt, &x, NULL), FX_OK);
    return x;
}

static void wait_until_counted(fxi_spans *x, uint64_t n, fxi_spans_counts *c)
{
    uint64_t sum;
    do {
        usleep(2000);
        fxi_spans_count(x, c);
        sum = c->n_sent;
        for (int i = 0; i < FXI_N_LOST; i++) sum += c->n_lost[i];
    } while (sum < n);
}

#define OK(body) "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" body
#define BUSY     "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"

FX_TEST(test_tried_again_until_it_is_taken)
{
    static const char *const answers[] = {BUSY, "HTTP/1.1 429 Slow\r\nContent-Length: 0\r\n\r\n",
                                          "garbage\r\n\r\n", OK("{}"), NULL};
    collector c;
    said s;
    fxi_spans_counts n;
    open_collector(&c, answers);
    fxi_spans *x = start_spans(c.url, PATIENT_S, &s);
    for (int i = 0; i < 3; i++) fxi_spans_add(x, make_span());
    wait_until_counted(x, 3, &n);
    assert_int_equal(n.n_sent, 3);
    assert_int_equal(c.n_request, 4);
    fxi_spans_stop(x, 1);
    assert_int_equal(s.n_fail, 1); // told once,
    assert_int_equal(s.n_good, 1); // and that it is over
    close_collector(&c);
}

FX_TEST(test_what_is_refused_is_not_tried_again)
{
    static const char *const answers[] = {
        "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n",
        OK("{\"partialSuccess\":{\"rejectedSpans\":\"1\",\"errorMessage\":\"bad\\nid\"}}"), NULL};
    collector c;
    said s;
    fxi_spans_counts n;
    open_collector(&c, answers);
    fxi_spans *x = start_spans(c.url, PATIENT_S, &s);
    fxi_spans_add(x, make_span());
    wait_until_counted(x, 1, &n);
    assert_int_equal(n.n_lost[FXI_LOST_refused], 1);
    expect_said(&s, "status 400");
    for (int i = 0; i < 2; i++) fxi_spans_add(x, make_span());
    wait_until_counted(x, 3, &n);
    assert_int_equal(n.n_lost[FXI_LOST_refused], 2);
    assert_int_equal(n.n_sent, 1);
    assert_int_equal(c.n_request, 2);
    fxi_spans_stop(x, 1);
    close_collector(&c);
}

// Nobody answers: requests go on, the ring drops what it cannot hold, a batch is given up.
FX_TEST(test_a_silent_collector_holds_nobody_up)
{
    static const char *const silent[] = {NULL};
    enum { N = FXI_SPANS_RING + FXI_SPANS_BATCH + 500 };
    collector c;
    said s;
    fxi_spans_counts n;
    open_collector(&c, silent);
    fxi_spans *x = start_spans(c.url, 0.5, &s);
    for (int i = 0; i < N; i++) fxi_spans_add(x, make_span());
    fxi_spans_count(x, &n);
    assert_true(n.n_lost[FXI_LOST_full] > 0);
    while (!n.n_lost[FXI_LOST_unreachable]) {
        usleep(2000);
        fxi_spans_count(x, &n);
    }
    assert_int_equal(n.n_sent, 0);
    fxi_spans_stop(x, 0.05); // in the middle of a batch
    expect_said(&s, "no answer in time");
    close_collector(&c);
}

FX_TEST(test_a_collector_that_is_gone)
{
    static const char *const any[] = {OK(""), NULL};
    collector c;
    said s;
    fxi_spans_counts n;
    open_collector(&c, any);
    close_collector(&c);
    fxi_spans *x = start_spans(c.url, 0.5, &s);
    fxi_spans_add(x, make_span());
    wait_until_counted(x, 1, &n);
    assert_int_equal(n.n_lost[FXI_LOST_unreachable], 1);
    expect_said(&s, "Connection refused");
    fxi_spans_stop(x, 1);
}

// What is there at the end is sent at once.
FX_TEST(test_the_last_ones_are_sent)
{
    static const char *const good[] = {OK(""), OK(""), NULL};
    collector c;
    said s;
    open_collector(&c, good);
    fxi_spans *x = start_spans(c.url, PATIENT_S, &s);
    for (int i = 0; i < FXI_SPANS_BATCH / 2; i++) fxi_spans_add(x, make_span());
    fxi_spans_stop(x, 10);
    assert_int_equal(c.n_request, 1);
    assert_int_equal(s.n_fail, 0);
    close_collector(&c);
}

FX_TEST(test_endpoints_that_are_refused)
{
    fxi_spans *x;
    fx_error err;
    fxi_spans_options opt = {.endpoint = "ftp://a:4318/v1/traces"};
    assert_int_equal(fxi_spans_start(&opt, &x, &err), FX_EINVAL);
    assert_null(x);
    opt = (fxi_spans_options){.endpoint = "https://a:4318/v1/traces", .ca_file = "/no/such/file"};
    assert_int_equal(fxi_spans_start(&opt, &x, &err), FX_EIO);
    assert_non_null(strstr(err.text, "/no/such/file"));
    assert_null(x);
    assert_int_equal(fxi_spans_check("collector:4318", &err), FX_EINVAL);
    assert_int_equal(fxi_spans_check("http://collector:4318/v1/traces", &err), FX_OK);
    fxi_spans_counts n;
    fxi_spans_count(NULL, &n); // off
    assert_int_equal(n.n_sent, 0);
    fxi_spans_stop(NULL, 0);
}

FX_RUN(test_span_export)
