// test_api_reply.c - events to bodies and streams, without HTTP and threads. The golden texts are
// what clients parse.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/number/rng.h"
#include "base/text/utf8.h"
#include "json_doc.h"
#include "server/http/http.h"
#include "suite.h"

static const fxi_limits limits = {.model_id = "m", .n_vocab = 100, .max_choice = 64};

static fxi_reply reply_of(fxi_api api, const char *members, size_t max_out_bytes)
{
    static const char *const openings[] = {"{\"prompt\":\"a\"",
                                           "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]"};
    char body[512];
    fxi_params par;
    fxi_http_error e;
    fxi_reply r = {.created = 1, .model = "m", .fingerprint = "fp_1"};
    snprintf(body, sizeof body, "%s%s}", openings[api], members);
    snprintf(r.id, sizeof r.id, "%s-1", api == FXI_API_CHAT ? "chatcmpl" : "cmpl");
    assert_true(fxi_params_parse(&par, api, body, strlen(body), &limits, &e));
    fxi_reply_spec spec = fxi_params_reply(&par);
    assert_true(fxi_reply_init(&r, &spec, max_out_bytes));
    fxi_params_free(&par);
    return r;
}

static void give(fxi_reply *r, int choice, const char *text, int n_generated, fx_finish finish)
{
    fx_event ev = {.choice = choice,
                   .token = -1,
                   .text = text,
                   .text_bytes = strlen(text),
                   .finish = finish,
                   .n_prompt = 9,
                   .n_generated = n_generated,
                   .stop_token = -1,
                   .stop_string = -1,
                   .error = finish == FX_FINISH_ERROR ? "it broke" : NULL};
    fxi_reply_event(r, 0, &ev);
}

static void expect_out(fxi_reply *r, const char *want)
{
    static char got[1 << 16];
    size_t n = fxi_reply_take(r, got, sizeof got - 1);
    got[n] = 0;
    assert_string_equal(got, want);
}

#define CHAT_HEAD                                                                      \
    "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1," \
    "\"model\":\"m\",\"choices\":["
#define TEXT_HEAD                                                                            \
    "data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1,\"model\":\"m\"," \
    "\"choices\":["
#define USAGE(p, c, t)                                                                      \
    "\"usage\":{\"prompt_tokens\":" #p ",\"completion_tokens\":" #c ",\"total_tokens\":" #t \
    ",\"prompt_tokens_details\":{\"cached_tokens\":0}}"

static void test_chat_stream_golden(void **state)
{
    (void)state;
    fxi_reply r = reply_of(FXI_API_CHAT,
                           ",\"stream\":true,\"stream_options\":{\"include_usage\":true}", 1000000);
    give(&r, 0, "", 1, FX_FINISH_NONE);
    give(&r, 0, "Hi", 2, FX_FINISH_NONE);
    give(&r, 0, "", 2, FX_FINISH_STOP);
    assert_true(r.ended);
    expect_out(&r, CHAT_HEAD
               "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
               "\"finish_reason\":null}],\"usage\":null}\n\n" CHAT_HEAD
               "{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"logprobs\":null,"
               "\"finish_reason\":null}],\"usage\":null}\n\n" CHAT_HEAD
               "{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":"
               "null}\n\n" CHAT_HEAD "]," USAGE(9, 2, 11) "}\n\n"
                                                          "data: [DONE]\n\n");
    fxi_reply_free(&r);
}

static void test_text_stream(void **state)
{
    (void)state;
    fxi_reply r = reply_of(FXI_API_COMPLETIONS, ",\"stream\":true,\"n\":2", 1000000);
    give(&r, 0, "a", 1, FX_FINISH_NONE);
    give(&r, 1, "b", 1, FX_FINISH_LENGTH);
    assert_false(r.ended);
    give(&r, 0, "", 1, FX_FINISH_STOP);
    assert_true(r.ended);
    expect_out(
        &r, TEXT_HEAD
        "{\"index\":0,\"text\":\"a\",\"logprobs\":null,\"finish_reason\":null}]}\n\n" TEXT_HEAD
        "{\"index\":1,\"text\":\"b\",\"logprobs\":null,\"finish_reason\":null}]}\n\n" TEXT_HEAD
        "{\"index\":1,\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"length\"}]}\n\n" TEXT_HEAD
        "{\"index\":0,\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"stop\"}]}\n\n"
        "data: [DONE]\n\n");
    fxi_reply_free(&r);
}

static void test_continuous_usage(void **state)
{
    (void)state;
    fxi_reply r =
        reply_of(FXI_API_COMPLETIONS,
                 ",\"stream\":true,\"stream_options\":{\"continuous_usage_stats\":true}", 1000000);
    give(&r, 0, "a", 1, FX_FINISH_NONE);
    give(&r, 0, "b", 2, FX_FINISH_NONE);
    expect_out(&r, TEXT_HEAD
               "{\"index\":0,\"text\":\"a\",\"logprobs\":null,\"finish_reason\":null}]," USAGE(
                   9, 1, 10) "}\n\n" TEXT_HEAD "{\"index\":0,\"text\":\"b\",\"logprobs\":null,"
                             "\"finish_reason\":null}]," USAGE(9, 2, 11) "}\n\n");
    fxi_reply_free(&r);
}

static void expect_body(fxi_reply *r, const char *want)
{
    fxi_buf b = {0};
    assert_true(r->ended && !r->err.status);
    assert_true(fxi_whole_body(&b, r));
    assert_string_equal(b.p, want);
    fxi_buf_free(&b);
}

static void test_whole_bodies(void **state)
{
    (void)state;
    fxi_reply r = reply_of(FXI_API_CHAT, "", 1);
    give(&r, 0, "Hi \"you\"", 2, FX_FINISH_NONE);
    give(&r, 0, "\n", 3, FX_FINISH_STOP);
    expect_body(&r, "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":1,"
                    "\"model\":\"m\",\"system_fingerprint\":\"fp_1\",\"choices\":[{\"index\":0,"
                    "\"message\":{\"role\":\"assistant\",\"content\":\"Hi \\\"you\\\"\\n\","
                    "\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"stop\","
                    "\"stop_reason\":null}]," USAGE(9, 3, 12) "}");
    fxi_reply_free(&r);
    r = reply_of(FXI_API_COMPLETIONS, ",\"n\":2", 1);
    give(&r, 1, "y", 1, FX_FINISH_LENGTH);
    give(&r, 0, "", 4, FX_FINISH_STOP);
    expect_body(&r,
                "{\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1,\"model\":\"m\","
                "\"system_fingerprint\":\"fp_1\",\"choices\":[{\"index\":0,\"text\":\"\","
                "\"logprobs\":null,\"finish_reason\":\"stop\",\"stop_reason\":null},"
                "{\"index\":1,\"text\":\"y\",\"logprobs\":null,\"finish_reason\":\"length\","
                "\"stop_reason\":null}]," USAGE(9, 5, 14) "}");
    fxi_reply_free(&r);
}

// stop_reason names what the client asked to stop at, not the model's end-of-text token.
static void test_stop_reason(void **state)
{
    static const struct {
        const char *members;
        fx_finish finish;
        int string, token;
        const char *want;
    } rows[] = {
        {"\"stop\":\"x\"", FX_FINISH_STOP, 0, -1, "\"x\""},
        {"\"stop\":[\"x\",\"\\n\\\"\"]", FX_FINISH_STOP, 1, -1, "\"\\n\\\"\""},
        {"\"stop_token_ids\":[5,7]", FX_FINISH_STOP, -1, 7, "7"},
        {"\"stop_token_ids\":[5,0]", FX_FINISH_STOP, -1, 0, "0"},
        {"\"stop_token_ids\":[5,7]", FX_FINISH_STOP, -1, 2, "null"}, // end-of-text
        {"\"stop\":\"x\"", FX_FINISH_STOP, -1, 2, "null"},
        {"\"stop\":\"x\"", FX_FINISH_STOP, -1, -1, "null"},
        {"\"n\":1", FX_FINISH_STOP, -1, 2, "null"},
        {"\"stop\":\"x\",\"stop_token_ids\":[5]", FX_FINISH_LENGTH, -1, -1, "null"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int stream = 0; stream < 2; stream++) {
            char members[128], want[64];
            fxi_buf b = {0};
            snprintf(members, sizeof members, ",%s%s", rows[i].members,
                     stream ? ",\"stream\":true" : "");
            const bool silent = stream && !strcmp(rows[i].want, "null");
            snprintf(want, sizeof want, "\"%s%s}",
                     silent ? "" : ",\"stop_reason\":", silent ? "" : rows[i].want);
            fxi_reply r = reply_of(FXI_API_CHAT, members, 1000000);
            fx_event ev = {.text = "",
                           .finish = rows[i].finish,
                           .stop_string = rows[i].string,
                           .stop_token = rows[i].token};
            fxi_reply_event(&r, 0, &ev);
            assert_true(r.ended && (stream || fxi_whole_body(&b, &r)));
            if (!strstr(stream ? r.out.p : b.p, want))
                fail_msg("no %s in %s", want, stream ? r.out.p : b.p);
            fxi_buf_free(&b);
            fxi_reply_free(&r);
        }
    }
}

// The prompt counts once whatever the number of its choices; so do its cached tokens.
static void test_cached_tokens(void **state)
{
    (void)state;
    fxi_reply r = reply_of(FXI_API_COMPLETIONS, ",\"n\":2", 1);
    for (int k = 0; k < 2; k++) {
        fx_event ev = {.choice = k,
                       .text = "",
                       .finish = FX_FINISH_LENGTH,
                       .n_prompt = 9,
                       .n_cached = 8,
                       .n_generated = 3};
        fxi_reply_event(&r, 0, &ev);
    }
    fxi_buf b = {0};
    assert_true(fxi_usage_add(&b, &r));
    assert_string_equal(b.p, "{\"prompt_tokens\":9,\"completion_tokens\":6,\"total_tokens\":15,"
                             "\"prompt_tokens_details\":{\"cached_tokens\":8}}");
    fxi_buf_free(&b);
    fxi_reply_free(&r);
}

// ---- errors -----------------------------------------------------------------------------------

static void test_error_before_first_byte(void **state)
{
    static const struct {
        fx_finish finish;
        int status;
    } rows[] = {{FX_FINISH_ERROR, 500}, {FX_FINISH_ABORT, 503}, {FX_FINISH_CANCEL, 500}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fxi_reply r = reply_of(FXI_API_CHAT, ",\"stream\":true", 1000000);
        give(&r, 0, "", 0, rows[i].finish);
        assert_true(r.ended && !r.begun);
        assert_int_equal(r.err.status, rows[i].status);
        assert_non_null(strstr(r.err.message, "chatcmpl-1"));
        expect_out(&r, "");
        fxi_reply_free(&r);
    }
}

// A client that may try again must not: its request would fail again.
static void test_a_request_at_fault_is_no_failure_of_the_server(void **state)
{
    (void)state;
    static const struct {
        fx_status status;
        const char *code;
    } rows[] = {{FX_EINVAL, "invalid_value"}, {FX_ENOSPACE, "kv_budget_exceeded"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fxi_reply r = reply_of(FXI_API_CHAT, "", 1000000);
        const fx_event ev = {.token = -1,
                             .text = "",
                             .finish = FX_FINISH_ERROR,
                             .error = "nothing is left",
                             .error_status = rows[i].status};
        fxi_reply_event(&r, 0, &ev);
        assert_int_equal(r.err.status, 400);
        assert_string_equal(r.err.code, rows[i].code);
        assert_string_equal(r.err.message,
                            "the request cannot be answered: nothing is left (chatcmpl-1)");
        fxi_reply_free(&r);
    }
}

static void test_error_in_stream(void **state)
{
    (void)state;
    fxi_reply r = reply_of(FXI_API_COMPLETIONS, ",\"stream\":true", 1000000);
    give(&r, 0, "a", 1, FX_FINISH_NONE);
    give(&r, 0, "", 1, FX_FINISH_ERROR);
    give(&r, 0, "late", 2, FX_FINISH_NONE);
    expect_out(&r, TEXT_HEAD
               "{\"index\":0,\"text\":\"a\",\"logprobs\":null,\"finish_reason\":null}]}\n\n"
               "data: {\"error\":{\"message\":\"the request failed: it broke (cmpl-1)\","
               "\"type\":\"server_error\",\"param\":null,\"code\":null}}\n\ndata: [DONE]\n\n");
    fxi_reply_free(&r);
}

static void test_slow_reader(void **state)
{
    (void)state;
    fxi_reply r = reply_of(FXI_API_COMPLETIONS, ",\"stream\":true", 4096);
    for (int i = 0; i < 1000; i++) give(&r, 0, "some text", i, FX_FINISH_NONE);
    assert_true(r.ended);
    assert_string_equal(r.err.code, "slow_client");
    assert_true(r.out.n < 8192);
    assert_non_null(strstr(r.out.p, "slow_client"));
    fxi_reply_free(&r);
}

static void test_ping(void **state)
{
    (void)state;
    fxi_reply r = reply_of(FXI_API_CHAT, ",\"stream\":true", 4096);
    fxi_reply_ping(&r);
    assert_true(r.begun);
    fxi_reply_ping(&r); // one ping waits already
    expect_out(&r, ": ping\n\n");
    fxi_reply_free(&r);
}

// Taking odd pieces gives the same bytes.
static void test_take_in_pieces(void **state)
{
    (void)state;
    fxi_reply r = reply_of(FXI_API_COMPLETIONS, ",\"stream\":true", 1 << 20);
    fxi_reply b = reply_of(FXI_API_COMPLETIONS, ",\"stream\":true", 1 << 20);
    static char whole[1 << 16], pieces[1 << 16];
    size_t n_whole = 0, n_pieces = 0;
    for (int i = 0; i < 200; i++) {
        give(&r, 0, "xyz", i, FX_FINISH_NONE);
        give(&b, 0, "xyz", i, FX_FINISH_NONE);
        n_pieces += fxi_reply_take(&b, pieces + n_pieces, (size_t)(i % 300));
    }
    n_whole = fxi_reply_take(&r, whole, sizeof whole);
    for (size_t n; (n = fxi_reply_take(&b, pieces + n_pieces, 17)) > 0;) n_pieces += n;
    assert_int_equal(n_whole, n_pieces);
    assert_memory_equal(whole, pieces, n_whole);
    fxi_reply_free(&r);
    fxi_reply_free(&b);
}

// ---- strings and routes -----------------------------------------------------------------------

static void test_json_strings(void **state)
{
    static const struct {
        const char *s, *want;
    } rows[] = {
        {"", "\"\""},
        {"plain", "\"plain\""},
        {"a\"b\\c", "\"a\\\"b\\\\c\""},
        {"\b\f\n\r\t", "\"\\b\\f\\n\\r\\t\""},
        {"\x01\x1f\x7f", "\"\\u0001\\u001f\\u007f\""},
        {"h\xc3\xa9 \xf0\x9f\x98\x80", "\"h\xc3\xa9 \xf0\x9f\x98\x80\""},
        {"a\xff"
         "b\xc3",
         "\"a\xef\xbf\xbd"
         "b\xef\xbf\xbd\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fxi_buf b = {0};
        assert_true(fxi_json_cstr(&b, rows[i].s));
        assert_string_equal(b.p, rows[i].want);
        fxi_buf_free(&b);
    }
}

// What a text is shown as: a byte that belongs to no character is one U+FFFD.
static void show_text(fxi_buf *b, const char *s, size_t n)
{
    while (n) {
        const size_t len = (size_t)fxi_utf8_len((unsigned char)*s);
        const bool good = len && len <= n && fxi_utf8_check(s, len) == len;
        assert_true(good ? fxi_buf_add(b, s, len) : fxi_buf_str(b, "\xef\xbf\xbd"));
        s += good ? len : 1;
        n -= good ? len : 1;
    }
}

static void expect_read_back(const char *s, size_t n)
{
    fxi_buf json = {0}, want = {0};
    assert_true(fxi_json_str(&json, s, n));
    show_text(&want, s, n);
    fxi_json_doc v_doc = json_doc_sized(json.p, json.n);
    const fxi_json *v = v_doc.root;
    if (!v) fail_msg("%s: not JSON", json.p);
    assert_int_equal(fxi_json_string(v).n, want.n);
    if (want.n) assert_memory_equal(fxi_json_text(v), want.p, want.n);
    assert_null(memchr(json.p, '\n', json.n)); // an event is a line
    fxi_json_doc_free(&v_doc);
    fxi_buf_free(&json);
    fxi_buf_free(&want);
}

// All texts of up to two bytes, and many of the bytes that make characters and break them.
static void test_any_bytes_are_a_json_string(void **state)
{
    static const char likely[] =
        "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xed\xa0\xbf\xf4\x90\xff\0\"\\\na";
    (void)state;
    expect_read_back("", 0);
    for (int i = 0; i < 256; i++) expect_read_back(&(char){(char)i}, 1);
    for (int i = 0; i < 1 << 16; i++) expect_read_back((char[]){(char)i, (char)(i >> 8)}, 2);
    for (uint64_t k = 0; k < 20000; k++) {
        char s[12];
        const size_t n = fxi_rng_u64(1, k, 0) % (sizeof s + 1);
        for (size_t i = 0; i < n; i++)
            s[i] = likely[fxi_rng_u64(1, k, i + 1) % (sizeof likely - 1)];
        expect_read_back(s, n);
    }
}

static void test_routes(void **state)
{
    static const struct {
        const char *method, *path, *allow;
        int status; // 0: found
    } rows[] = {
        {"POST", "/v1/completions", "", 0},
        {"GET", "/v1/models/org/name", "", 0},
        {"HEAD", "/health", "", 0},
        {"GET", "/v1/completions", "POST", 405},
        {"DELETE", "/health", "GET, HEAD", 405},
        {"GET", "/v1", "", 404},
        {"GET", "/v1/completions/x", "", 404},
        {"GET", "", "", 404},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char allow[32];
        fxi_http_error e = {0};
        const fxi_route *row =
            fxi_route_find(rows[i].method, rows[i].path, allow, sizeof allow, &e);
        assert_int_equal(e.status, rows[i].status);
        assert_int_equal(row == NULL, rows[i].status != 0);
        assert_string_equal(allow, rows[i].allow);
    }
}

// What streams without a request to the engine has a reply that was never given a spec.
static void test_a_stream_without_a_spec_is_kept_alive_and_ended(void **state)
{
    (void)state;
    fxi_reply r = {.begun = true};
    fxi_http_error e;
    fxi_reply_ping(&r);
    assert_string_equal(r.out.p, ": ping\n\n");
    r.n_sent = r.out.n;
    fxi_http_fail(&e, 503, "draining", NULL, "over");
    fxi_reply_fail(&r, &e);
    assert_true(r.ended && strstr(r.out.p, "data: {\"error\":{\"message\":\"over\""));
    fxi_reply_free(&r);
}

FX_SUITE(test_api_reply)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stream_without_a_spec_is_kept_alive_and_ended),
        cmocka_unit_test(test_chat_stream_golden),
        cmocka_unit_test(test_text_stream),
        cmocka_unit_test(test_continuous_usage),
        cmocka_unit_test(test_whole_bodies),
        cmocka_unit_test(test_stop_reason),
        cmocka_unit_test(test_cached_tokens),
        cmocka_unit_test(test_error_before_first_byte),
        cmocka_unit_test(test_a_request_at_fault_is_no_failure_of_the_server),
        cmocka_unit_test(test_error_in_stream),
        cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_ping),
        cmocka_unit_test(test_take_in_pieces),
        cmocka_unit_test(test_json_strings),
        cmocka_unit_test(test_any_bytes_are_a_json_string),
        cmocka_unit_test(test_routes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
