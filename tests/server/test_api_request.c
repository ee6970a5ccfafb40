// test_api_request.c - request bodies to parameters or to the error a client sees; no HTTP.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "server/request/api_request.h"
#include "unit/cmocka_all.h"

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
    // U+0000 where it is no text for the model
    {C, "{\"prompt\":\"a\",\"stop\":[\"b\",\"a\\u0000b\"]}", 400, "stop", "invalid_value"},
    {C, "{\"prompt\":\"a\",\"model\":\"m\\u0000\"}", 400, "model", "invalid_value"},
    {C, "{\"prompt\":\"a\",\"unknown\":{\"x\":[[\"\\u0000\"]]}}", 400, "x", "invalid_value"},
    {C, "{\"prompt\":\"a\",\"a\\u0000\":1}", 400, "", "invalid_json"},
    {H, "{\"messages\":[{\"role\":\"user\\u0000\",\"content\":\"a\"}]}", 400, "role",
     "invalid_value"},
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
    {H,
     "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{}}]}]}",
     400, "messages[0].content", "unsupported_parameter"},
    {H, "{\"messages\":[{\"role\":\"user\",\"name\":1,\"content\":\"a\"}]}", 400,
     "messages[0].name", "invalid_type"},
    {H, "{\"messages\":[{\"role\":\"tool\",\"tool_call_id\":1,\"content\":\"a\"}]}", 400,
     "messages[0].tool_call_id", "invalid_type"},
    {H, "{\"messages\":[{\"role\":\"tool\",\"tool_call_id\":\"x\"}]}", 400, "messages[0].content",
     "invalid_type"},
    {H, "{\"messages\":[{\"role\":\"assistant\",\"content\":null}]}", 400, "messages[0].content",
     "invalid_type"},
    {H, "{\"messages\":[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[]}]}", 400,
     "messages[0].content", "invalid_type"},
    {H, "{\"messages\":[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":{}}]}", 400,
     "messages[0].tool_calls", "invalid_type"},
    {H, "{\"messages\":[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{}]}]}", 400,
     "messages[0].tool_calls", "invalid_type"},
    {H,
     "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\","
     "\"arguments\":[1]}}]}]}",
     400, "messages[0].tool_calls", "invalid_type"},
    {H,
     "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"type\":\"spell\",\"function\":{}}]}"
     "]}",
     400, "messages[0].tool_calls", "invalid_value"},
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
    {"\"presence_penalty\":-2.01", 400, "presence_penalty", "invalid_value", 3},
    {"\"presence_penalty\":\"1\"", 400, "presence_penalty", "invalid_type", 3},
    {"\"frequency_penalty\":2.01", 400, "frequency_penalty", "invalid_value", 3},
    {"\"frequency_penalty\":true", 400, "frequency_penalty", "invalid_type", 3},
    {"\"repetition_penalty\":0", 400, "repetition_penalty", "invalid_value", 3},
    {"\"repetition_penalty\":-1", 400, "repetition_penalty", "invalid_value", 3},
    {"\"repetition_penalty\":1e31", 400, "repetition_penalty", "invalid_value", 3},
    {"\"dry_multiplier\":-1", 400, "dry_multiplier", "invalid_value", 3},
    {"\"dry_base\":\"2\"", 400, "dry_base", "invalid_type", 3},
    {"\"dry_allowed_length\":-1", 400, "dry_allowed_length", "invalid_value", 3},
    {"\"dry_penalty_last_n\":-2", 400, "dry_penalty_last_n", "invalid_value", 3},
    {"\"dry_sequence_breakers\":\"a\"", 400, "dry_sequence_breakers", "invalid_type", 3},
    {"\"dry_sequence_breakers\":[\"a\",1]", 400, "dry_sequence_breakers[1]", "invalid_type", 3},
    {"\"dry_sequence_breakers\":[\"\"]", 400, "dry_sequence_breakers[0]", "invalid_value", 3},
    {"\"xtc_probability\":1.5", 400, "xtc_probability", "invalid_value", 3},
    {"\"xtc_threshold\":-0.1", 400, "xtc_threshold", "invalid_value", 3},
    {"\"typical_p\":0", 400, "typical_p", "invalid_value", 3},
    {"\"typical_p\":1.1", 400, "typical_p", "invalid_value", 3},
    {"\"min_tokens\":-1", 400, "min_tokens", "invalid_value", 3},
    {"\"min_tokens\":1.5", 400, "min_tokens", "invalid_type", 3},
    {"\"min_tokens\":4294967296", 400, "min_tokens", "invalid_value", 3},
    {"\"min_tokens\":6,\"max_tokens\":5", 400, "min_tokens", "invalid_value", 3},
    {"\"min_tokens\":6,\"max_tokens\":9,\"max_completion_tokens\":5", 400, "min_tokens",
     "invalid_value", 2},
    {"\"min_tokens\":17", 400, "min_tokens", "invalid_value", 1}, // over the default of 16
    {"\"stop_token_ids\":5", 400, "stop_token_ids", "invalid_type", 3},
    {"\"stop_token_ids\":[\"5\"]", 400, "stop_token_ids", "invalid_type", 3},
    {"\"stop_token_ids\":[1,100]", 400, "stop_token_ids", "invalid_value", 3},
    {"\"stop_token_ids\":[-1]", 400, "stop_token_ids", "invalid_value", 3},
    {"\"include_stop_str_in_output\":1", 400, "include_stop_str_in_output", "invalid_type", 3},
    {"\"allowed_token_ids\":[]", 400, "allowed_token_ids", "invalid_value", 3},
    {"\"allowed_token_ids\":[1.5]", 400, "allowed_token_ids", "invalid_type", 3},
    {"\"allowed_token_ids\":[4294967297]", 400, "allowed_token_ids", "invalid_value", 3},
    {"\"best_of\":0", 400, "best_of", "invalid_value", 1},
    {"\"best_of\":65", 400, "best_of", "invalid_value", 1},
    {"\"use_beam_search\":1", 400, "use_beam_search", "invalid_type", 3},
    {"\"use_beam_search\":true,\"n\":33", 400, "n", "invalid_value", 3},
    {"\"use_beam_search\":true,\"n\":4,\"best_of\":3", 400, "best_of", "invalid_value", 1},
    {"\"use_beam_search\":true,\"best_of\":33", 400, "best_of", "invalid_value", 1},
    {"\"length_penalty\":\"1\"", 400, "length_penalty", "invalid_type", 3},
    {"\"length_penalty\":101", 400, "length_penalty", "invalid_value", 3},
    {"\"early_stopping\":\"soon\"", 400, "early_stopping", "invalid_value", 3},
    {"\"early_stopping\":1", 400, "early_stopping", "invalid_type", 3},
    {"\"priority\":101", 400, "priority", "invalid_value", 3},
    {"\"priority\":-101", 400, "priority", "invalid_value", 3},
    {"\"priority\":\"high\"", 400, "priority", "invalid_type", 3},
    {"\"cache_salt\":\"\"", 400, "cache_salt", "invalid_value", 3},
    {"\"cache_salt\":7", 400, "cache_salt", "invalid_type", 3},
    {"\"cache_prompt\":\"yes\"", 400, "cache_prompt", "invalid_type", 3},
    {"\"logit_bias\":{\"x\":1}", 400, "logit_bias", "invalid_value", 3},
    {"\"logit_bias\":{\"100\":1}", 400, "logit_bias", "invalid_value", 3},
    {"\"logit_bias\":{\"-1\":1}", 400, "logit_bias", "invalid_value", 3},
    {"\"logit_bias\":{\"01\":1}", 400, "logit_bias", "invalid_value", 3},
    {"\"logit_bias\":{\" 1\":1}", 400, "logit_bias", "invalid_value", 3},
    {"\"logit_bias\":{\"\":1}", 400, "logit_bias", "invalid_value", 3},
    {"\"logit_bias\":{\"99999999999999999999\":1}", 400, "logit_bias", "invalid_value", 3},
    {"\"logit_bias\":{\"1\":null}", 400, "logit_bias", "invalid_value", 3},
    {"\"logit_bias\":{\"1\":101}", 400, "logit_bias", "invalid_value", 3},
    {"\"logit_bias\":{\"1\":\"a\"}", 400, "logit_bias", "invalid_value", 3},
    {"\"logit_bias\":[1]", 400, "logit_bias", "invalid_type", 3},
    {"\"response_format\":{}", 400, "response_format", "invalid_value", 3},
    {"\"response_format\":{\"type\":\"xml\"}", 400, "response_format", "invalid_value", 3},
    {"\"response_format\":{\"type\":\"json_schema\"}", 400, "response_format", "invalid_value", 3},
    {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":1}}", 400,
     "response_format", "invalid_value", 3},
    {"\"guided_json\":1", 400, "guided_json", "invalid_type", 3},
    {"\"guided_json\":\"{\"", 400, "guided_json", "invalid_json", 3},
    {"\"guided_json\":\"3\"", 400, "guided_json", "invalid_type", 3},
    {"\"guided_regex\":{}", 400, "guided_regex", "invalid_type", 3},
    {"\"guided_choice\":[1]", 400, "guided_choice", "invalid_type", 3},
    {"\"guided_choice\":\"a\"", 400, "guided_choice", "invalid_type", 3},
    {"\"guided_regex\":\"a\",\"guided_choice\":[\"a\"]", 400, "guided_choice", "invalid_value", 3},
    {"\"guided_regex\":\"a\",\"response_format\":{\"type\":\"json_object\"}", 400, "guided_regex",
     "invalid_value", 3},
    {"\"structured_outputs\":{\"regex\":\"a\",\"json\":{}}", 400, "structured_outputs",
     "invalid_value", 3},
    {"\"structured_outputs\":{\"regex\":\"\"}", 400, "structured_outputs", "invalid_value", 3},
    {"\"structured_outputs\":{\"choice\":[]}", 400, "structured_outputs", "invalid_value", 3},
    {"\"structured_outputs\":{\"whitespace_pattern\":\"x\"}", 400, "structured_outputs",
     "invalid_value", 3},
    {"\"tool_choice\":\"maybe\"", 400, "tool_choice", "invalid_value", 2},
    {"\"tool_choice\":\"required\"", 400, "tool_choice", "invalid_value", 2},
    {"\"tool_choice\":{\"type\":\"function\"}", 400, "tool_choice.function.name", "invalid_type",
     2},
    {"\"tools\":{}", 400, "tools", "invalid_type", 2},
    {"\"tools\":[{}]", 400, "tools[0].type", "invalid_type", 2},
    {"\"tools\":[{\"type\":\"spoon\"}]", 400, "tools[0].type", "invalid_value", 2},
    {"\"tools\":[{\"type\":\"function\"}]", 400, "tools[0].function.name", "invalid_type", 2},
    {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":1}}]", 400,
     "tools[0].function.parameters", "invalid_type", 2},
    {"\"chat_template_kwargs\":[]", 400, "chat_template_kwargs", "invalid_type", 2},
    {"\"chat_template_kwargs\":{\"tools\":1}", 400, "chat_template_kwargs", "invalid_value", 2},
    {"\"add_generation_prompt\":1", 400, "add_generation_prompt", "invalid_type", 2},
    // known, not supported
    {"\"echo\":true", 400, "echo", "unsupported_parameter", 2},
    {"\"suffix\":\"x\"", 400, "suffix", "unsupported_parameter", 1},
    {"\"add_special_tokens\":true", 400, "add_special_tokens", "unsupported_parameter", 2},
    {"\"mirostat\":1", 400, "mirostat", "unsupported_parameter", 3},
    {"\"continue_final_message\":true,\"add_generation_prompt\":true", 400,
     "continue_final_message", "invalid_value", 2},
    {"\"continue_final_message\":1", 400, "continue_final_message", "invalid_type", 2},
    {"\"chat_template\":\"x\"", 400, "chat_template", "unsupported_parameter", 2},
    // what an answer says
    {"\"echo\":1", 400, "echo", "invalid_type", 1},
    {"\"logprobs\":21", 400, "logprobs", "invalid_value", 1},
    {"\"logprobs\":true", 400, "logprobs", "invalid_type", 1},
    {"\"logprobs\":true,\"top_logprobs\":21", 400, "top_logprobs", "invalid_value", 2},
    {"\"prompt_logprobs\":21", 400, "prompt_logprobs", "invalid_value", 3},
    {"\"prompt_logprobs\":-1", 400, "prompt_logprobs", "invalid_value", 3},
    {"\"prompt_logprobs\":0,\"stream\":true", 400, "prompt_logprobs", "invalid_value", 3},
    {"\"return_token_ids\":\"yes\"", 400, "return_token_ids", "invalid_type", 3},
    {"\"truncate_prompt_tokens\":-2", 400, "truncate_prompt_tokens", "invalid_value", 3},
    {"\"bad_words\":\"a\"", 400, "bad_words", "invalid_type", 3},
    {"\"bad_words\":[1]", 400, "bad_words", "invalid_type", 3},
    {"\"bad_words\":[\"a\",\"\"]", 400, "bad_words", "invalid_value", 3},
    {"\"request_id\":\"a/b\"", 400, "request_id", "invalid_value", 3},
    {"\"request_id\":\"\"", 400, "request_id", "invalid_value", 3},
    {"\"keep_priority\":8", 400, "keep_priority", "invalid_value", 3},
    {"\"keep_seconds\":-1", 400, "keep_seconds", "invalid_value", 3},
    {"\"tool_choice\":\"none auto\"", 400, "tool_choice", "invalid_value", 2},
    // a wrong value outranks what is not supported
    {"\"mirostat\":1,\"use_beam_search\":\"x\"", 400, "use_beam_search", "invalid_type", 3},
    {"\"mirostat\":1,\"model\":\"other\"", 404, "model", "model_not_found", 3},
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
    assert_int_equal(fxi_utf8_check(e.message, strlen(e.message)), strlen(e.message));
    assert_null(par.root);
}

FX_TEST(test_bad_bodies)
{
    for (size_t i = 0; i < sizeof bad_bodies / sizeof bad_bodies[0]; i++) {
        const struct bad *b = &bad_bodies[i];
        expect_error(b->api, b->body, b->status, b->param, b->code);
    }
}

static const char *const openings[] = {
    [C] = "{\"prompt\":\"a\"",
    [H] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]",
};

FX_TEST(test_bad_fields)
{
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

// Every known field at its neutral value or at null, and unknown fields.
FX_TEST(test_neutral)
{
    static const char *const members[] = {
        "\"model\":\"m\"",
        "\"logprobs\":null,\"echo\":false",
        "\"suffix\":\"\"",
        "\"presence_penalty\":0",
        "\"frequency_penalty\":0.0",
        "\"repetition_penalty\":1",
        "\"logit_bias\":{}",
        "\"logit_bias\":{\"5\":0}",
        "\"response_format\":{\"type\":\"text\"}",
        "\"use_beam_search\":false",
        "\"structured_outputs\":null",
        "\"structured_outputs\":{\"json\":null,\"disable_fallback\":false}",
        "\"guided_regex\":\"\"",
        "\"guided_choice\":[]",
        "\"guided_grammar\":\"\"",
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
        "\"cache_prompt\":true,\"speculate\":false",
        "\"typical_p\":1",
        "\"length_penalty\":1",
        "\"early_stopping\":false",
        "\"best_of\":1",
        "\"best_of\":1,\"stream\":true",
        "\"priority\":0",
        "\"cache_salt\":null",
        "\"allowed_token_ids\":null",
        "\"metadata\":{}",
    };
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        for (int api = C; api <= H; api++) {
            char body[512];
            snprintf(body, sizeof body, "%s,%s}", openings[api], members[i]);
            fxi_params par = parse((fxi_api)api, body);
            fxi_params_free(&par);
        }
    }
}

FX_TEST(test_defaults)
{
    fxi_params par = parse(C, "{\"prompt\":\"\"}");
    assert_int_equal(par.n_prompt, 1);
    assert_int_equal(par.prompt[0].n_bytes, 0);
    assert_int_equal(par.max_tok, -1);
    assert_int_equal(par.n, 1);
    const fx_sampling *s = &par.request.sampling;
    assert_true(s->temperature == 1 && s->top_p == 1 && s->min_p == 0 && s->top_k == 0);
    assert_false(par.reply.stream || par.has_seed || par.request.ignore_eos || par.n_stop);
    fxi_params_free(&par);
}

FX_TEST(test_values)
{
    fxi_params par =
        parse(C, "{\"prompt\":\"a\",\"max_tokens\":7,\"temperature\":0.5,\"top_p\":0.9,"
                 "\"top_k\":40,\"min_p\":0.05,\"n\":2,\"seed\":-3,\"stop\":[\"x\",\"yz\"],"
                 "\"stream\":true,\"stream_options\":{\"include_usage\":true,"
                 "\"continuous_usage_stats\":true},\"ignore_eos\":true}");
    assert_int_equal(par.max_tok, 7);
    const fx_sampling *s = &par.request.sampling;
    assert_true(s->temperature == 0.5f && s->top_p == 0.9f && s->min_p == 0.05f);
    assert_int_equal(s->top_k, 40);
    assert_int_equal(par.n, 2);
    assert_true(par.has_seed && s->seed == (uint64_t)-3);
    assert_int_equal(par.n_stop, 2);
    assert_string_equal(par.stop[1], "yz");
    assert_true(par.reply.stream && par.reply.include_usage && par.reply.continuous_usage);
    assert_true(par.request.ignore_eos);
    fxi_params_free(&par);
}

// ---- what the engine is asked for -------------------------------------------------------------

static fx_request request_of(fxi_params *par, fxi_api api, const char *members)
{
    char body[512];
    snprintf(body, sizeof body, "%s%s}", openings[api], members);
    *par = parse(api, body);
    return fxi_params_request(par, 99);
}

FX_TEST(test_request_default)
{
    static const int max_tok[] = {[C] = 16, [H] = -1};
    for (int api = C; api <= H; api++) {
        fxi_params par;
        fx_request r = request_of(&par, (fxi_api)api, "");
        const fx_sampling *s = &r.sampling;
        assert_int_equal(r.max_tok, max_tok[api]);
        assert_true(r.n_choice == 1 && !r.n_best && !r.beam_width && r.length_penalty == 1);
        assert_true(s->temperature == 1 && s->top_p == 1 && s->typical_p == 1 && s->min_p == 0);
        assert_true(s->repetition_penalty == 1 && !s->presence_penalty && !s->frequency_penalty);
        assert_true(!s->dry_multiplier && s->dry_base == 1.75F && s->dry_allowed_length == 2);
        assert_true(s->dry_last_tok == -1 && s->n_dry_breaker == 4 && !s->xtc_probability);
        assert_true(!s->top_k && !s->min_tok && s->seed == 99);
        assert_true(!s->n_bias && !s->n_allow && !s->n_ban && !r.n_stop && !r.n_stop_token);
        assert_true(!r.include_stop && !r.ignore_eos && !r.logprobs && !r.prompt_logprobs);
        assert_true(!r.priority && !r.tenant && !r.no_cache && !r.keep_priority && !r.keep_s);
        fxi_params_free(&par);
    }
}

FX_TEST(test_request_sampling)
{
    fxi_params par;
    fx_request r = request_of(
        &par, C,
        ",\"presence_penalty\":0.5,\"frequency_penalty\":-0.25,\"repetition_penalty\":1.5,"
        "\"dry_multiplier\":0.5,\"dry_base\":3,\"dry_allowed_length\":1,\"dry_penalty_last_n\":64,"
        "\"dry_sequence_breakers\":[\"x y\"],\"xtc_probability\":0.25,\"xtc_threshold\":0.125,"
        "\"typical_p\":0.75,\"logit_bias\":{\"5\":-100,\"99\":2.5},\"allowed_token_ids\":[5,0,99],"
        "\"min_tokens\":3,\"seed\":-1,\"top_k\":-1");
    const fx_sampling *s = &r.sampling;
    assert_true(s->presence_penalty == 0.5F && s->frequency_penalty == -0.25F);
    assert_true(s->repetition_penalty == 1.5F && s->typical_p == 0.75F);
    assert_true(s->dry_multiplier == 0.5F && s->dry_base == 3 && s->dry_allowed_length == 1);
    assert_int_equal(s->dry_last_tok, 64);
    assert_int_equal(s->n_dry_breaker, 1);
    assert_string_equal(s->dry_breaker[0], "x y");
    assert_true(s->xtc_probability == 0.25F && s->xtc_threshold == 0.125F);
    assert_int_equal(s->n_bias, 2);
    for (size_t i = 0; i < 2; i++) // in any order
        assert_true(s->bias[i].token == 5 ? s->bias[i].bias == -100
                                          : s->bias[i].token == 99 && s->bias[i].bias == 2.5F);
    assert_true(s->bias[0].token != s->bias[1].token);
    assert_int_equal(s->n_allow, 3);
    assert_true(s->allow[0] == 5 && s->allow[1] == 0 && s->allow[2] == 99);
    assert_int_equal(s->min_tok, 3);
    assert_true(s->seed == UINT64_MAX && s->top_k == 0);
    fxi_params_free(&par);
    r = request_of(&par, C, ",\"top_p\":1e-300,\"typical_p\":1e-300,\"repetition_penalty\":1e-300");
    assert_true(r.sampling.top_p > 0 && r.sampling.typical_p > 0); // 0 would turn them off
    assert_true(r.sampling.repetition_penalty > 0);
    fxi_params_free(&par);
}

FX_TEST(test_request_ends)
{
    fxi_params par;
    fx_request r = request_of(&par, H,
                              ",\"stop\":\"x\",\"stop_token_ids\":[7,8],\"ignore_eos\":true,"
                              "\"include_stop_str_in_output\":true,\"max_tokens\":5,"
                              "\"max_completion_tokens\":9223372036854775807");
    assert_int_equal(r.n_stop, 1);
    assert_string_equal(r.stop[0], "x");
    assert_int_equal(r.n_stop_token, 2);
    assert_true(r.stop_token[0] == 7 && r.stop_token[1] == 8);
    assert_true(r.include_stop && r.ignore_eos && r.max_tok == INT32_MAX);
    fxi_params_free(&par);
}

FX_TEST(test_request_counts)
{
    static const struct {
        const char *members;
        int n_choice, n_best, beam_width;
        fx_early_stop early_stop;
    } rows[] = {
        {",\"n\":3", 3, 0, 0, FX_STOP_HEURISTIC},
        {",\"n\":3,\"best_of\":3", 3, 0, 0, FX_STOP_HEURISTIC},
        {",\"n\":3,\"best_of\":5", 3, 5, 0, FX_STOP_HEURISTIC},
        {",\"best_of\":64", 1, 64, 0, FX_STOP_HEURISTIC},
        {",\"use_beam_search\":true", 1, 0, 1, FX_STOP_HEURISTIC},
        {",\"use_beam_search\":true,\"n\":4", 4, 0, 4, FX_STOP_HEURISTIC},
        {",\"use_beam_search\":true,\"best_of\":32,\"early_stopping\":false", 1, 0, 32,
         FX_STOP_HEURISTIC},
        {",\"use_beam_search\":true,\"n\":2,\"best_of\":5,\"early_stopping\":true", 2, 0, 5,
         FX_STOP_EARLY},
        {",\"use_beam_search\":true,\"n\":2,\"early_stopping\":\"never\"", 2, 0, 2, FX_STOP_NEVER},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fxi_params par;
        fx_request r = request_of(&par, C, rows[i].members);
        assert_int_equal(r.n_choice, rows[i].n_choice);
        assert_int_equal(r.n_best, rows[i].n_best);
        assert_int_equal(r.beam_width, rows[i].beam_width);
        assert_int_equal(r.early_stop, rows[i].early_stop);
        fxi_params_free(&par);
    }
    fxi_params par;
    fx_request r = request_of(&par, H, ",\"use_beam_search\":true,\"length_penalty\":-0.5");
    assert_true(r.beam_width == 1 && r.length_penalty == -0.5F);
    fxi_params_free(&par);
}

FX_TEST(test_request_cache)
{
    static const struct {
        const char *members;
        int priority;
        const char *tenant; // NULL: none
        bool no_cache;
    } rows[] = {
        {",\"priority\":100,\"cache_prompt\":true", -100, NULL,
         false}, // vLLM: the lower goes first
        {",\"priority\":-100,\"cache_prompt\":false", 100, NULL, true},
        {",\"cache_salt\":\"s\"", 0, "s", false},
        {",\"cache_salt\":\"\\u00e9 \\\"\",\"cache_prompt\":false", 0, "\xc3\xa9 \"", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fxi_params par;
        fx_request r = request_of(&par, C, rows[i].members);
        assert_int_equal(r.priority, rows[i].priority);
        assert_int_equal(r.no_cache, rows[i].no_cache);
        assert_int_equal(r.tenant == NULL, rows[i].tenant == NULL);
        if (r.tenant) assert_string_equal(r.tenant, rows[i].tenant);
        fxi_params_free(&par);
    }
}

FX_TEST(test_request_speculation)
{
    static const struct {
        const char *members;
        bool no_speculate;
    } rows[] = {{"", false}, {",\"speculate\":true", false}, {",\"speculate\":false", true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fxi_params par;
        assert_int_equal(request_of(&par, C, rows[i].members).no_speculate, rows[i].no_speculate);
        fxi_params_free(&par);
        assert_int_equal(request_of(&par, H, rows[i].members).no_speculate, rows[i].no_speculate);
        fxi_params_free(&par);
    }
}

// Which field an error names when the engine refuses.
FX_TEST(test_blame)
{
    static const struct {
        fxi_api api;
        const char *members;
        fx_status st;
        const char *want, *line;
    } rows[] = {
        {C, "", FX_ECONTEXT, "prompt", ""},
        {H, "", FX_ECONTEXT, "messages", ""},
        {C, "", FX_EINVAL, "n", "9 sequences are asked for"},
        {C, "", FX_EINVAL, "min_tokens", "min_tok: every token"},
        {C, "", FX_EINVAL, "allowed_token_ids", "allow: every token"},
        {C, "", FX_EINVAL, "repetition_penalty", "repetition_penalty: 1e31"},
        {C, "", FX_EINVAL, "model", "the model embeds texts"},
        {C, ",\"n\":2,\"best_of\":4", FX_EINVAL, "best_of", ""},
        {H, "", FX_ENOSPACE, "max_tokens", ""},
        {H, ",\"max_completion_tokens\":5", FX_ENOSPACE, "max_completion_tokens", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fxi_params par;
        (void)request_of(&par, rows[i].api, rows[i].members);
        fx_error e = {rows[i].st, ""};
        snprintf(e.text, sizeof e.text, "%s", rows[i].line);
        assert_string_equal(fxi_params_blame(&par, &e), rows[i].want);
        fxi_params_free(&par);
    }
}

// ---- prompts and messages ---------------------------------------------------------------------

FX_TEST(test_prompts)
{
    fxi_params par = parse(C, "{\"prompt\":[\"a\",\"bc\"]}");
    assert_int_equal(par.n_prompt, 2);
    assert_string_equal(par.prompt[1].text, "bc");
    fxi_params_free(&par);
    par = parse(C, "{\"prompt\":[1,2,99]}");
    assert_int_equal(par.n_prompt, 1);
    assert_int_equal(par.prompt[0].ids.n, 3);
    assert_int_equal(par.prompt[0].ids.id[2], 99);
    fxi_params_free(&par);
    par = parse(C, "{\"prompt\":[[1],[2,3]]}");
    assert_int_equal(par.n_prompt, 2);
    assert_int_equal(par.prompt[1].ids.id[1], 3);
    fxi_params_free(&par);
    par = parse(C, "{\"prompt\":[\"a\\u0000b\"]}");
    assert_int_equal(par.prompt[0].n_bytes, 3);
    assert_memory_equal(par.prompt[0].text, "a\0b", 3);
    fxi_params_free(&par);
}

static void assert_json(const char *got, size_t n, const char *want)
{
    assert_int_equal(n, strlen(want));
    assert_memory_equal(got, want, n);
}

FX_TEST(test_messages)
{
    fxi_params par = parse(
        H, "{\"messages\":[{\"role\":\"developer\",\"content\":\"d\"},"
           "{\"role\":\"user\",\"name\":\"x\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
           "{\"type\":\"text\",\"text\":\"b\"}]},{\"role\":\"assistant\",\"content\":\"\"}],"
           "\"max_tokens\":4,\"max_completion_tokens\":9,\"tools\":[],\"tool_choice\":\"auto\"}");
    fx_chat_request q = fxi_params_chat(&par);
    assert_json(
        q.messages, q.messages_bytes,
        "[{\"role\":\"developer\",\"content\":\"d\"},{\"role\":\"user\",\"name\":\"x\","
        "\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]},"
        "{\"role\":\"assistant\",\"content\":\"\"}]");
    assert_null(q.tools);
    assert_null(q.kwargs);
    assert_false(q.no_answer);
    assert_false(q.continue_final);
    assert_int_equal(par.max_completion_tok, 9);
    fxi_params_free(&par);
    par = parse(H, "{\"messages\":[{\"role\":\"assistant\",\"content\":\"I\"}],"
                   "\"continue_final_message\":true}");
    assert_true(fxi_params_chat(&par).continue_final);
    fxi_params_free(&par);
}

#define TOOL \
    "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}}"

FX_TEST(test_tools)
{
    fxi_params par = parse(H, "{\"messages\":[{\"role\":\"assistant\",\"content\":null,\"tool_"
                              "calls\":[{\"id\":\"1\",\"type\":"
                              "\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{"
                              "\\\"a\\\": 1.5}\"}},{\"function\":{"
                              "\"name\":\"g\",\"arguments\":\"not "
                              "JSON\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":"
                              "\"9\"}],\"tools\":[" TOOL
                              "],\"tool_choice\":\"auto\",\"add_generation_prompt\":false,"
                              "\"chat_template_kwargs\":{\"enable_thinking\":false}}");
    fx_chat_request q = fxi_params_chat(&par);
    assert_json(q.messages, q.messages_bytes,
                "[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"1\",\"type\":"
                "\"function\","
                "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": "
                "1.5}\"}},{\"function\":{\"name\":\"g\","
                "\"arguments\":\"not "
                "JSON\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"9\"}]");
    assert_json(q.tools, q.tools_bytes, "[" TOOL "]");
    assert_json(q.kwargs, q.kwargs_bytes, "{\"enable_thinking\":false}");
    assert_true(q.no_answer);
    fxi_params_free(&par);
    par = parse(H, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"tools\":[" TOOL
                   "],\"tool_choice\":\"none\"}");
    assert_null(fxi_params_chat(&par).tools);
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

FX_TEST(test_bounds)
{
    expect_too_big("{\"prompt\":", "[", 100000, "", "", "invalid_json");
    expect_too_big("{\"prompt\":[", "[],", 400000, "[]]}", "", "invalid_json");
    expect_too_big("{\"prompt\":[", "\"a\",", 64, "\"a\"]}", "prompt", "invalid_value");
    expect_too_big("{\"n\":8,\"prompt\":[", "\"a\",", 8, "\"a\"]}", "n", "invalid_value");
    expect_too_big("{\"prompt\":\"a\",\"best_of\":8,\"n\":1,\"stop\":[", "\"a\",", 16, "\"a\"]}",
                   "stop", "invalid_value");
    expect_too_big("{\"best_of\":8,\"prompt\":[", "\"a\",", 8, "\"a\"]}", "best_of",
                   "invalid_value");
    expect_too_big("{\"prompt\":\"a\",\"stop\":\"", "x", 1025, "\"}", "stop", "invalid_value");
    expect_too_big("{\"prompt\":\"a\",\"stop_token_ids\":[", "1,", 1024, "1]}", "stop_token_ids",
                   "invalid_value");
    expect_too_big("{\"prompt\":\"a\",\"cache_salt\":\"", "\xc3\xa9", 1025, "\"}", "cache_salt",
                   "invalid_value");
    char *salt = repeat("{\"prompt\":\"a\",\"cache_salt\":\"", "\xc3\xa9", 1024, "\"}");
    fxi_params salted = parse(C, salt); // characters, not bytes
    assert_int_equal(strlen(salted.cache_salt), 2048);
    fxi_params_free(&salted);
    free(salt);
    char *quoted = repeat("{\"prompt\":\"", "[{,", 200000, "\"}"); // brackets in text do not count
    fxi_params par = parse(C, quoted);
    assert_int_equal(par.prompt[0].n_bytes, 600000);
    fxi_params_free(&par);
    free(quoted);
}

// A body cut anywhere is an error, never a crash.
FX_TEST(test_truncated)
{
    const char *body = "{\"prompt\":[[1,2],[3]],\"stop\":[\"\\u00e9\",\"\\\"\"],\"stream\":true,"
                       "\"logit_bias\":{\"1\":4},\"stop_token_ids\":[1,2],"
                       "\"stream_options\":{\"include_usage\":true}}";
    for (size_t n = 0; n < strlen(body); n++) {
        fxi_params par;
        fxi_http_error e = {0};
        assert_false(fxi_params_parse(&par, C, body, n, &limits, &e));
        assert_int_equal(e.status, 400);
    }
}

FX_RUN(test_api_request)
