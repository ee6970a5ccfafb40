// test_api_request.c - request bodies to parameters or to the error a client sees; no HTTP.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/server_internal.h"

static const fxi_limits limits = {.model_id = "m", .n_vocab = 100, .max_choice = 64};

#define C FXI_API_COMPLETIONS
#define H FXI_API_CHAT

// ---- what is refused --------------------------------------------------------------------------

static const struct bad {
    fxi_api api;
    const char *body;
    int status;
    const char *param; // "": none
    const char *code;
} bad_bodies[] = {
    // not JSON, or not an object
    {C, "", 400, "", "invalid_json"},
    {C, "{", 400, "", "invalid_json"},
    {C, "hello", 400, "", "invalid_json"},
    {C, "[]", 400, "", "invalid_json"},
    {C, "\"prompt\"", 400, "", "invalid_json"},
    {C, "{\"prompt\":\"a\"} x", 400, "", "invalid_json"},
    {C, "{\"prompt\":\"a\",\"temperature\":NaN}", 400, "", "invalid_json"},
    {C, "{\"prompt\":\"a\",\"temperature\":1e999}", 400, "", "invalid_json"},
    {C, "{\"prompt\":\"a\",\"seed\":99999999999999999999}", 400, "", "invalid_json"},
    {C, "{\"prompt\":\"\xff\"}", 400, "", "invalid_json"},
    {C, "{\"prompt\":\"\\ud800\"}", 400, "", "invalid_json"},
    {C, "{\"prompt\":\"a\\u0000b\"}", 400, "", "invalid_json"},
    // the prompt
    {C, "{}", 400, "prompt", "missing_required_parameter"},
    {C, "{\"prompt\":null}", 400, "prompt", "missing_required_parameter"},
    {C, "{\"prompt\":1}", 400, "prompt", "invalid_type"},
    {C, "{\"prompt\":{}}", 400, "prompt", "invalid_type"},
    {C, "{\"prompt\":[]}", 400, "prompt", "invalid_value"},
    {C, "{\"prompt\":[[]]}", 400, "prompt", "invalid_value"},
    {C, "{\"prompt\":[null]}", 400, "prompt", "invalid_type"},
    {C, "{\"prompt\":[\"a\",1]}", 400, "prompt", "invalid_type"},
    {C, "{\"prompt\":[1,\"a\"]}", 400, "prompt", "invalid_type"},
    {C, "{\"prompt\":[1,2.5]}", 400, "prompt", "invalid_type"},
    {C, "{\"prompt\":[[1],\"a\"]}", 400, "prompt", "invalid_type"},
    {C, "{\"prompt\":[1,100]}", 400, "prompt", "invalid_value"},
    {C, "{\"prompt\":[-1]}", 400, "prompt", "invalid_value"},
    {C, "{\"prompt\":[9223372036854775807]}", 400, "prompt", "invalid_value"},
    // messages
    {H, "{}", 400, "messages", "missing_required_parameter"},
    {H, "{\"messages\":\"hi\"}", 400, "messages", "invalid_type"},
    {H, "{\"messages\":[]}", 400, "messages", "invalid_value"},
    {H, "{\"messages\":[1]}", 400, "messages", "invalid_type"},
    {H, "{\"messages\":[{}]}", 400, "messages[0].role", "invalid_type"},
    {H, "{\"messages\":[{\"role\":3,\"content\":\"a\"}]}", 400, "messages[0].role", "invalid_type"},
    {H, "{\"messages\":[{\"role\":\"boss\",\"content\":\"a\"}]}", 400, "messages[0].role",
     "invalid_value"},
    {H, "{\"messages\":[{\"role\":\"user\"}]}", 400, "messages[0].content", "invalid_type"},
    {H, "{\"messages\":[{\"role\":\"user\",\"content\":null}]}", 400, "messages[0].content",
     "invalid_type"},
    {H, "{\"messages\":[{\"role\":\"user\",\"content\":5}]}", 400, "messages[0].content",
     "invalid_type"},
    {H, "{\"messages\":[{\"role\":\"user\",\"content\":[]}]}", 400, "messages[0].content",
     "invalid_type"},
    {H, "{\"messages\":[{\"role\":\"user\",\"content\":[\"a\"]}]}", 400, "messages[0].content",
     "invalid_type"},
    {H, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]}", 400,
     "messages[0].content", "invalid_type"},
    {H, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"smell\"}]}]}", 400,
     "messages[0].content", "invalid_value"},
    {H,
     "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"user\",\"content\":false}]}",
     400, "messages[1].content", "invalid_type"},
    {H, "{\"messages\":[{\"role\":\"tool\",\"content\":\"a\"}]}", 501, "messages[0].role",
     "unsupported_parameter"},
    {H,
     "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{}}]}]}",
     501, "messages[0].content", "unsupported_parameter"},
    {H, "{\"messages\":[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{}]}]}", 501,
     "messages[0].tool_calls", "unsupported_parameter"},
};

// One field beside a good prompt or a good message.
static const struct bad_field {
    const char *member;
    int status;
    const char *param, *code;
    int apis; // 1: completions, 2: chat, 3: both
} bad_fields[] = {
    {"\"model\":\"other\"", 404, "model", "model_not_found", 3},
    {"\"model\":7", 400, "model", "invalid_type", 3},
    {"\"max_tokens\":\"5\"", 400, "max_tokens", "invalid_type", 3},
    {"\"max_tokens\":-1", 400, "max_tokens", "invalid_value", 3},
    {"\"max_tokens\":0", 400, "max_tokens", "invalid_value", 3},
    {"\"max_tokens\":1.5", 400, "max_tokens", "invalid_type", 3},
    {"\"max_tokens\":true", 400, "max_tokens", "invalid_type", 3},
    {"\"max_completion_tokens\":0", 400, "max_completion_tokens", "invalid_value", 2},
    {"\"temperature\":-0.1", 400, "temperature", "invalid_value", 3},
    {"\"temperature\":2.1", 400, "temperature", "invalid_value", 3},
    {"\"temperature\":\"hot\"", 400, "temperature", "invalid_type", 3},
    {"\"top_p\":0", 400, "top_p", "invalid_value", 3},
    {"\"top_p\":1.01", 400, "top_p", "invalid_value", 3},
    {"\"top_k\":-2", 400, "top_k", "invalid_value", 3},
    {"\"top_k\":3000000000", 400, "top_k", "invalid_value", 3},
    {"\"min_p\":1.5", 400, "min_p", "invalid_value", 3},
    {"\"n\":0", 400, "n", "invalid_value", 3},
    {"\"n\":65", 400, "n", "invalid_value", 3},
    {"\"n\":9223372036854775807", 400, "n", "invalid_value", 3},
    {"\"seed\":1.5", 400, "seed", "invalid_type", 3},
    {"\"seed\":1e300", 400, "seed", "invalid_type", 3},
    {"\"stop\":5", 400, "stop", "invalid_type", 3},
    {"\"stop\":\"\"", 400, "stop", "invalid_value", 3},
    {"\"stop\":[\"a\",null]", 400, "stop", "invalid_type", 3},
    {"\"stop\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", 400, "stop", "invalid_value", 3},
    {"\"stream\":\"yes\"", 400, "stream", "invalid_type", 3},
    {"\"stream\":1", 400, "stream", "invalid_type", 3},
    {"\"stream_options\":{}", 400, "stream_options", "invalid_value", 3},
    {"\"stream\":true,\"stream_options\":[]", 400, "stream_options", "invalid_type", 3},
    {"\"stream\":true,\"stream_options\":{\"include_usage\":1}", 400, "include_usage",
     "invalid_type", 3},
    {"\"ignore_eos\":0", 400, "ignore_eos", "invalid_type", 3},
    {"\"user\":1", 400, "user", "invalid_type", 3},
    {"\"top_logprobs\":3", 400, "top_logprobs", "invalid_value", 2},
    {"\"logprobs\":-1", 400, "logprobs", "invalid_value", 1},
    {"\"logprobs\":1", 400, "logprobs", "invalid_type", 2},
    {"\"n\":3,\"best_of\":2", 400, "best_of", "invalid_value", 1},
    {"\"best_of\":2,\"stream\":true", 400, "best_of", "invalid_value", 1},
    {"\"use_beam_search\":true,\"stream\":true", 400, "use_beam_search", "invalid_value", 3},
    {"\"prompt_logprobs\":1,\"stream\":true", 400, "prompt_logprobs", "invalid_value", 3},
    {"\"presence_penalty\":3", 400, "presence_penalty", "invalid_value", 3},
    {"\"logit_bias\":{\"x\":1}", 400, "logit_bias", "invalid_value", 3},
    {"\"logit_bias\":{\"100\":1}", 400, "logit_bias", "invalid_value", 3},
    {"\"logit_bias\":{\"1\":101}", 400, "logit_bias", "invalid_value", 3},
    {"\"logit_bias\":{\"1\":\"a\"}", 400, "logit_bias", "invalid_value", 3},
    {"\"logit_bias\":[1]", 400, "logit_bias", "invalid_type", 3},
    {"\"response_format\":{}", 400, "response_format", "invalid_value", 3},
    {"\"response_format\":{\"type\":\"xml\"}", 400, "response_format", "invalid_value", 3},
    {"\"tool_choice\":\"maybe\"", 400, "tool_choice", "invalid_value", 2},
    {"\"tools\":{}", 400, "tools", "invalid_type", 2},
    // known, not to be had
    {"\"logprobs\":0", 501, "logprobs", "unsupported_parameter", 1},
    {"\"logprobs\":true", 501, "logprobs", "unsupported_parameter", 2},
    {"\"logprobs\":true,\"top_logprobs\":2", 501, "logprobs", "unsupported_parameter", 2},
    {"\"echo\":true", 501, "echo", "unsupported_parameter", 3},
    {"\"echo\":true,\"max_tokens\":0", 501, "echo", "unsupported_parameter", 3},
    {"\"best_of\":2", 501, "best_of", "unsupported_parameter", 1},
    {"\"suffix\":\"x\"", 501, "suffix", "unsupported_parameter", 1},
    {"\"presence_penalty\":0.5", 501, "presence_penalty", "unsupported_parameter", 3},
    {"\"frequency_penalty\":-0.5", 501, "frequency_penalty", "unsupported_parameter", 3},
    {"\"repetition_penalty\":1.1", 501, "repetition_penalty", "unsupported_parameter", 3},
    {"\"logit_bias\":{\"1\":5}", 501, "logit_bias", "unsupported_parameter", 3},
    {"\"response_format\":{\"type\":\"json_object\"}", 501, "response_format",
     "unsupported_parameter", 3},
    {"\"tools\":[{}]", 501, "tools", "unsupported_parameter", 2},
    {"\"tool_choice\":\"required\"", 501, "tool_choice", "unsupported_parameter", 2},
    {"\"tool_choice\":{\"type\":\"function\"}", 501, "tool_choice", "unsupported_parameter", 2},
    {"\"use_beam_search\":true", 501, "use_beam_search", "unsupported_parameter", 3},
    {"\"structured_outputs\":{\"regex\":\"a\"}", 501, "structured_outputs", "unsupported_parameter",
     3},
    {"\"min_tokens\":3", 501, "min_tokens", "unsupported_parameter", 3},
    {"\"stop_token_ids\":[1]", 501, "stop_token_ids", "unsupported_parameter", 3},
    {"\"prompt_logprobs\":1", 501, "prompt_logprobs", "unsupported_parameter", 3},
    {"\"chat_template\":\"x\"", 501, "chat_template", "unsupported_parameter", 2},
    // a wrong value outranks a missing ability
    {"\"echo\":true,\"use_beam_search\":\"x\"", 400, "use_beam_search", "invalid_type", 3},
    {"\"echo\":true,\"model\":\"other\"", 404, "model", "model_not_found", 3},
};

static void expect_error(fxi_api api, const char *body, int status, const char *param,
                         const char *code)
{
    fxi_params par;
    fxi_http_error e = {0};
    bool ok = fxi_params_parse(&par, api, body, strlen(body), &limits, &e);
    if (ok || e.status != status || strcmp(e.param, param) || !e.code || strcmp(e.code, code))
        fail_msg("%s\n-> %d %d '%s' %s: %s", body, ok, e.status, e.param, e.code ? e.code : "-",
                 e.message);
    assert_true(e.message[0] && !strchr(e.message, '\n'));
    assert_null(par.root);
}

static void test_bad_bodies(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_bodies / sizeof bad_bodies[0]; i++) {
        const struct bad *b = &bad_bodies[i];
        expect_error(b->api, b->body, b->status, b->param, b->code);
    }
}

static const char *const openings[] = {
    [C] = "{\"prompt\":\"a\"",
    [H] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]",
};

static void test_bad_fields(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_fields / sizeof bad_fields[0]; i++) {
        const struct bad_field *f = &bad_fields[i];
        for (int api = C; api <= H; api++) {
            char body[512];
            snprintf(body, sizeof body, "%s,%s}", openings[api], f->member);
            if (f->apis & 1 << api) expect_error((fxi_api)api, body, f->status, f->param, f->code);
        }
    }
}

// ---- what is taken ----------------------------------------------------------------------------

static fxi_params parse(fxi_api api, const char *body)
{
    fxi_params par;
    fxi_http_error e = {0};
    if (!fxi_params_parse(&par, api, body, strlen(body), &limits, &e))
        fail_msg("%s\n-> %d '%s': %s", body, e.status, e.param, e.message);
    return par;
}

// Every known field at its neutral value, at null, and a field nobody knows.
static void test_neutral(void **state)
{
    static const char *const members[] = {
        "\"model\":\"m\"",
        "\"logprobs\":null",
        "\"echo\":false",
        "\"suffix\":\"\"",
        "\"presence_penalty\":0",
        "\"frequency_penalty\":0.0",
        "\"repetition_penalty\":1",
        "\"logit_bias\":{}",
        "\"logit_bias\":{\"5\":0}",
        "\"response_format\":{\"type\":\"text\"}",
        "\"use_beam_search\":false",
        "\"structured_outputs\":null",
        "\"min_tokens\":0",
        "\"stop_token_ids\":[]",
        "\"include_stop_str_in_output\":false",
        "\"skip_special_tokens\":true",
        "\"prompt_logprobs\":null",
        "\"stop\":null",
        "\"stop\":[]",
        "\"seed\":null",
        "\"n\":null",
        "\"stream\":null",
        "\"stream_options\":null",
        "\"temperature\":null",
        "\"max_tokens\":null",
        "\"user\":\"u\"",
        "\"top_k\":-1",
        "\"top_k\":0",
        "\"max_tokens\":16.0",
        "\"max_tokens\":9223372036854775807",
        "\"temperature\":2",
        "\"top_p\":1e-300",
        "\"seed\":-9223372036854775807",
        "\"frobnicate\":{\"a\":[1]}",
        "\"n\":64",
        "\"cache_prompt\":true",
        "\"metadata\":{}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        for (int api = C; api <= H; api++) {
            char body[512];
            snprintf(body, sizeof body, "%s,%s}", openings[api], members[i]);
            fxi_params par = parse((fxi_api)api, body);
            fxi_params_free(&par);
        }
    }
}

static void test_defaults(void **state)
{
    (void)state;
    fxi_params par = parse(C, "{\"prompt\":\"\"}");
    assert_int_equal(par.n_prompt, 1);
    assert_int_equal(par.prompt[0].n_bytes, 0);
    assert_int_equal(par.max_tok, -1);
    assert_int_equal(par.n, 1);
    assert_true(par.temperature == 1 && par.top_p == 1 && par.min_p == 0 && par.top_k == 0);
    assert_false(par.stream || par.has_seed || par.ignore_eos || par.n_stop);
    fxi_params_free(&par);
}

static void test_values(void **state)
{
    (void)state;
    fxi_params par =
        parse(C, "{\"prompt\":\"a\",\"max_tokens\":7,\"temperature\":0.5,\"top_p\":0.9,"
                 "\"top_k\":40,\"min_p\":0.05,\"n\":2,\"seed\":-3,\"stop\":[\"x\",\"yz\"],"
                 "\"stream\":true,\"stream_options\":{\"include_usage\":true,"
                 "\"continuous_usage_stats\":true},\"ignore_eos\":true}");
    assert_int_equal(par.max_tok, 7);
    assert_true(par.temperature == 0.5 && par.top_p == 0.9 && par.min_p == 0.05);
    assert_int_equal(par.top_k, 40);
    assert_int_equal(par.n, 2);
    assert_true(par.has_seed && par.seed == -3);
    assert_int_equal(par.n_stop, 2);
    assert_string_equal(par.stop[1], "yz");
    assert_true(par.stream && par.include_usage && par.continuous_usage && par.ignore_eos);
    fxi_params_free(&par);
}

static void test_prompts(void **state)
{
    (void)state;
    fxi_params par = parse(C, "{\"prompt\":[\"a\",\"bc\"]}");
    assert_int_equal(par.n_prompt, 2);
    assert_string_equal(par.prompt[1].text, "bc");
    fxi_params_free(&par);
    par = parse(C, "{\"prompt\":[1,2,99]}");
    assert_int_equal(par.n_prompt, 1);
    assert_int_equal(par.prompt[0].n_id, 3);
    assert_int_equal(par.prompt[0].id[2], 99);
    fxi_params_free(&par);
    par = parse(C, "{\"prompt\":[[1],[2,3]]}");
    assert_int_equal(par.n_prompt, 2);
    assert_int_equal(par.prompt[1].id[1], 3);
    fxi_params_free(&par);
}

static void test_messages(void **state)
{
    (void)state;
    fxi_params par = parse(
        H, "{\"messages\":[{\"role\":\"developer\",\"content\":\"d\"},"
           "{\"role\":\"user\",\"name\":\"x\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
           "{\"type\":\"text\",\"text\":\"b\"}]},{\"role\":\"assistant\",\"content\":\"\"}],"
           "\"max_tokens\":4,\"max_completion_tokens\":9,\"tools\":[],\"tool_choice\":\"auto\"}");
    assert_int_equal(par.n_msg, 3);
    assert_string_equal(par.msg[0].role, "system");
    assert_string_equal(par.msg[1].content, "a\nb");
    assert_int_equal(par.msg[1].content_bytes, 3);
    assert_int_equal(par.msg[2].content_bytes, 0);
    assert_int_equal(par.max_completion_tok, 9);
    fxi_params_free(&par);
}

// ---- bounds -----------------------------------------------------------------------------------

// "<front><unit repeated n times><back>"
static char *repeat(const char *front, const char *unit, size_t n, const char *back)
{
    fxi_buf b = {0};
    fxi_buf_str(&b, front);
    for (size_t i = 0; i < n; i++) fxi_buf_str(&b, unit);
    fxi_buf_str(&b, back);
    return b.p;
}

static void expect_too_big(const char *front, const char *unit, size_t n, const char *back,
                           const char *param, const char *code)
{
    char *body = repeat(front, unit, n, back);
    expect_error(C, body, 400, param, code);
    free(body);
}

static void test_bounds(void **state)
{
    (void)state;
    expect_too_big("{\"prompt\":", "[", 100000, "", "", "invalid_json");
    expect_too_big("{\"prompt\":[", "[],", 400000, "[]]}", "", "invalid_json");
    expect_too_big("{\"prompt\":[", "\"a\",", 64, "\"a\"]}", "prompt", "invalid_value");
    expect_too_big("{\"n\":8,\"prompt\":[", "\"a\",", 8, "\"a\"]}", "n", "invalid_value");
    char *quoted = repeat("{\"prompt\":\"", "[{,", 200000, "\"}"); // brackets in text do not count
    fxi_params par = parse(C, quoted);
    assert_int_equal(par.prompt[0].n_bytes, 600000);
    fxi_params_free(&par);
    free(quoted);
}

// A body cut anywhere is an error, never a crash.
static void test_truncated(void **state)
{
    (void)state;
    const char *body = "{\"prompt\":[[1,2],[3]],\"stop\":[\"\\u00e9\",\"\\\"\"],\"stream\":true,"
                       "\"logit_bias\":{\"1\":0},\"stream_options\":{\"include_usage\":true}}";
    for (size_t n = 0; n < strlen(body); n++) {
        fxi_params par;
        fxi_http_error e = {0};
        assert_false(fxi_params_parse(&par, C, body, n, &limits, &e));
        assert_int_equal(e.status, 400);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_bodies), cmocka_unit_test(test_bad_fields),
        cmocka_unit_test(test_neutral),    cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_values),     cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_messages),   cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_truncated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
