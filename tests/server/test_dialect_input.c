// test_dialect_input.c - what requests of /v1/responses and /v1/messages become: messages, tools
// and template variables of a chat.
#include "suite.h"
#include "unit/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/request/api_request.h"

static const fxi_limits limits = {.model_id = "m", .n_vocab = 100, .max_choice = 64};

typedef struct input_case {
    fxi_api api;
    const char *body, *messages, *tools, *kwargs; // "": none
} input_case;

static const input_case input_cases[] = {
    {FXI_API_RESPONSES, "{\"input\":\"a\",\"instructions\":\"i\"}",
     "[{\"role\":\"system\",\"content\":\"i\"},{\"role\":\"user\",\"content\":\"a\"}]", "", ""},
    {FXI_API_RESPONSES,
     "{\"input\":[{\"role\":\"developer\",\"content\":\"d\"},{\"role\":\"user\",\"content\":[{"
     "\"type\":\"input_text\",\"text\":\"a\"},{\"type\":\"input_text\",\"text\":\"b\"}]},{\"type\":"
     "\"reasoning\",\"id\":\"rs\",\"summary\":[],\"content\":[{\"type\":\"reasoning_text\","
     "\"text\":"
     "\"r\"}]},{\"type\":\"message\",\"id\":\"x\",\"role\":\"assistant\",\"status\":\"completed\","
     "\"content\":[{\"type\":\"output_text\",\"text\":\"t\",\"annotations\":[]}]},{\"type\":"
     "\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\"},{\"type\":"
     "\"function_call\",\"call_id\":\"e\",\"name\":\"g\",\"arguments\":\"{}\"},{\"type\":"
     "\"function_call_output\",\"call_id\":\"c\",\"output\":\"o\"}]}",
     "[{\"role\":\"developer\",\"content\":\"d\"},{\"role\":\"user\",\"content\":\"a\\nb\"},{"
     "\"role\":\"assistant\",\"content\":\"t\",\"reasoning_content\":\"r\",\"tool_calls\":[{\"id\":"
     "\"c\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}},{\"id\":"
     "\"e\","
     "\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]},{\"role\":"
     "\"tool\",\"content\":\"o\",\"tool_call_id\":\"c\"}]",
     "", ""},
    {FXI_API_RESPONSES,
     "{\"input\":\"a\",\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"description\":\"d\","
     "\"parameters\":{\"type\":\"object\"},\"strict\":true}],\"reasoning\":{\"effort\":\"low\"}}",
     "[{\"role\":\"user\",\"content\":\"a\"}]",
     "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\",\"parameters\":{"
     "\"type\":\"object\"},\"strict\":true}}]",
     "{\"reasoning_effort\":\"low\"}"},
    {FXI_API_MESSAGES,
     "{\"max_tokens\":1,\"system\":[{\"type\":\"text\",\"text\":\"s\"}],\"messages\":[{\"role\":"
     "\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\","
     "\"thinking\":\"r\",\"signature\":\"\"},{\"type\":\"text\",\"text\":\"t\"},{\"type\":"
     "\"tool_use\",\"id\":\"c\",\"name\":\"f\",\"input\":{\"x\":1}}]},{\"role\":\"user\","
     "\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"c\",\"content\":[{\"type\":\"text\","
     "\"text\":\"o\"}]},{\"type\":\"text\",\"text\":\"u\"}]}],\"tools\":[{\"name\":\"f\","
     "\"input_schema\":{\"type\":\"object\"}}],\"thinking\":{\"type\":\"enabled\",\"budget_"
     "tokens\":"
     "2000},\"chat_template_kwargs\":{\"k\":[1]}}",
     "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"a\"},{\"role\":"
     "\"assistant\",\"content\":\"t\",\"reasoning_content\":\"r\",\"tool_calls\":[{\"id\":\"c\","
     "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"x\":1}}}]},{\"role\":"
     "\"tool\",\"content\":\"o\",\"tool_call_id\":\"c\"},{\"role\":\"user\",\"content\":\"u\"}]",
     "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}}]",
     "{\"enable_thinking\":true,\"thinking\":true,\"k\":[1]}"},
    {FXI_API_COUNT,
     "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":"
     "\"c\"}]}]}",
     "[{\"role\":\"tool\",\"content\":\"\",\"tool_call_id\":\"c\"}]", "", ""},
    {FXI_API_CHAT,
     "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"reasoning_effort\":\"none\","
     "\"chat_template_kwargs\":{\"enable_thinking\":true}}",
     "[{\"role\":\"user\",\"content\":\"a\"}]", "",
     "{\"reasoning_effort\":\"none\",\"thinking\":false,\"enable_thinking\":true}"},
};

static void assert_json(const char *got, size_t n, const char *want)
{
    assert_int_equal(n, strlen(want));
    if (n) assert_memory_equal(got, want, n);
}

static void test_each_request_becomes_a_chat(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof input_cases / sizeof input_cases[0]; i++) {
        const input_case *c = &input_cases[i];
        fxi_params par;
        fxi_http_error e = {0};
        if (!fxi_params_parse(&par, c->api, c->body, strlen(c->body), &limits, &e))
            fail_msg("%s: %s", c->body, e.message);
        const fx_chat_request q = fxi_params_chat(&par);
        assert_json(q.messages, q.messages_bytes, c->messages);
        assert_json(q.tools, q.tools_bytes, c->tools);
        assert_json(q.kwargs, q.kwargs_bytes, c->kwargs);
        fxi_params_free(&par);
    }
}

// An assistant's message at the end begins the answer.
static void test_a_begun_answer_is_continued(void **state)
{
    static const struct {
        const char *last;
        bool is_begun;
    } rows[] = {
        {"{\"role\":\"assistant\",\"content\":\"I\"}", true},
        {"{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"I\"}]}", true},
        {"{\"role\":\"assistant\",\"content\":\"I\"},{\"role\":\"user\",\"content\":\"b\"}", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char body[256];
        fxi_params par;
        fxi_http_error e = {0};
        snprintf(body, sizeof body,
                 "{\"max_tokens\":7,\"messages\":[{\"role\":\"user\",\"content\":\"a\"},%s]}",
                 rows[i].last);
        assert_true(fxi_params_parse(&par, FXI_API_MESSAGES, body, strlen(body), &limits, &e));
        assert_int_equal(fxi_params_chat(&par).continue_final, rows[i].is_begun);
        fxi_params_free(&par);
    }
}

static fxi_params parse_messages(const char *choice)
{
    char body[512];
    fxi_params par;
    fxi_http_error e = {0};
    snprintf(body, sizeof body,
             "{\"max_tokens\":7,\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[{"
             "\"name\":\"f\",\"input_schema\":{}}],\"tool_choice\":%s}",
             choice);
    if (!fxi_params_parse(&par, FXI_API_MESSAGES, body, strlen(body), &limits, &e))
        fail_msg("%s: %s", body, e.message);
    return par;
}

static void test_choices_of_tools(void **state)
{
    (void)state;
    fxi_params par = parse_messages("{\"type\":\"any\",\"disable_parallel_tool_use\":true}");
    assert_true(par.must_call && !par.parallel_calls && !par.only_tool);
    assert_int_equal(fxi_params_max_tok(&par), 7);
    fxi_params_free(&par);
    par = parse_messages("{\"type\":\"tool\",\"name\":\"f\"}");
    assert_string_equal(par.only_tool, "f");
    fxi_params_free(&par);
    par = parse_messages("{\"type\":\"none\"}");
    assert_true(par.hide_tools && !fxi_params_chat(&par).tools);
    fxi_params_free(&par);
    par = parse_messages("{\"type\":\"auto\"}");
    assert_true(!par.must_call && !par.hide_tools && par.parallel_calls);
    fxi_params_free(&par);
}

FX_SUITE(test_dialect_input)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_request_becomes_a_chat),
        cmocka_unit_test(test_a_begun_answer_is_continued),
        cmocka_unit_test(test_choices_of_tools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
