// test_dialects.c - /v1/responses and /v1/messages over the fake engine: what their requests become
// of a chat, answers whole and streamed, event by event, and errors in each API's form.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "server/server_fixture.h"
#include "unit/cmocka_all.h"

#define RESPONSES "/v1/responses"
#define MESSAGES  "/v1/messages"
#define F_TOOL \
    "\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}]"
#define F_CUSTOM "\"tools\":[{\"name\":\"f\",\"input_schema\":{\"type\":\"object\"}}]"
#define CALLS                                                                                \
    "say <think> hm </think> Look. <tool_call>{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": " \
    "{\\\"a\\\": "                                                                           \
    "1}}</tool_call>"
#define TURN(text) "\"max_tokens\":50,\"messages\":[{\"role\":\"user\",\"content\":\"" text "\"}]"

static fixture f;

static int open_once(void **state)
{
    f = fixture_open_hermes();
    return 0;
}

static int close_once(void **state)
{
    fixture_close(&f);
    return 0;
}

// The body's parts stand in the answer in this order.
static void expect_parts(const char *path, const char *body, const char *const *part, size_t n)
{
    fxi_buf b = fixture_post(&f, path, body, 200);
    const char *at = b.p;
    for (size_t i = 0; i < n; i++) {
        const char *found = strstr(at, part[i]);
        if (!found) fail_msg("%s\nhas no '%s' behind\n%s", b.p, part[i], at);
        at = found + strlen(part[i]);
    }
    fxi_buf_free(&b);
}

#define EXPECT(path, body, ...)                                             \
    do {                                                                    \
        static const char *const parts_[] = {__VA_ARGS__};                  \
        expect_parts(path, body, parts_, sizeof parts_ / sizeof parts_[0]); \
    } while (0)

// ---- responses ----------------------------------------------------------------------------------

FX_TEST(test_a_response_has_items)
{
    EXPECT(RESPONSES, "{\"input\":\"" CALLS "\"," F_TOOL ",\"metadata\":{\"k\":\"v\"}}",
           "{\"id\":\"resp_", "\"object\":\"response\"", "\"status\":\"completed\"",
           "\"error\":null,\"incomplete_details\":null,\"model\":\"m\",\"output\":[{\"id\":\"rs_",
           "\"type\":\"reasoning\",\"status\":\"completed\",\"summary\":[],\"content\":[{\"type\":"
           "\"reasoning_text\",\"text\":\"hm\"}]},{\"id\":\"msg_",
           "\"type\":\"message\",\"status\":\"completed\",\"role\":\"assistant\",\"content\":[{"
           "\"type\":\"output_text\",\"text\":\"Look.\",\"annotations\":[],\"logprobs\":[]}]},{"
           "\"id\":\"fc_",
           "\"type\":\"function_call\",\"status\":\"completed\",\"call_id\":\"call_",
           "\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 1}\"}],\"instructions\":null",
           "\"metadata\":{\"k\":\"v\"},\"parallel_tool_calls\":true",
           "\"tools\":[{\"type\":", "\"previous_response_id\":null,\"store\":false",
           "\"usage\":{\"input_tokens\":", "\"output_tokens_details\":{\"reasoning_tokens\":3}");
}

FX_TEST(test_a_response_may_be_incomplete)
{
    EXPECT(RESPONSES, "{\"input\":\"say a b c\",\"max_output_tokens\":2}",
           "\"status\":\"incomplete\"", "\"incomplete_details\":{\"reason\":\"max_output_tokens\"}",
           "\"type\":\"message\",\"status\":\"incomplete\"", "\"text\":\"a b\"");
}

FX_TEST(test_response_events_come_in_order)
{
    EXPECT(RESPONSES, "{\"input\":\"" CALLS "\"," F_TOOL ",\"stream\":true}",
           "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,",
           "\"status\":\"in_progress\"", "\"output\":[]", "\"usage\":null}}\n\n",
           "\"type\":\"response.in_progress\",\"sequence_number\":1,",
           "\"type\":\"response.output_item.added\",\"sequence_number\":2,\"output_index\":0,"
           "\"item\":{\"id\":\"rs_",
           "\"type\":\"response.content_part.added\",\"sequence_number\":3",
           "\"type\":\"response.reasoning_text.delta\",\"sequence_number\":4", "\"delta\":\"hm\"",
           "\"type\":\"response.reasoning_text.done\",\"sequence_number\":5",
           "\"type\":\"response.content_part.done\",\"sequence_number\":6",
           "\"type\":\"response.output_item.done\",\"sequence_number\":7",
           "\"type\":\"response.output_item.added\",\"sequence_number\":8,\"output_index\":1",
           "\"type\":\"response.content_part.added\",\"sequence_number\":9",
           "\"type\":\"response.output_text.delta\",\"sequence_number\":10",
           "\"content_index\":0,\"delta\":\"Look.\",\"logprobs\":[]}\n\n",
           "\"type\":\"response.output_text.done\",\"sequence_number\":11",
           "\"type\":\"response.content_part.done\",\"sequence_number\":12",
           "\"type\":\"response.output_item.done\",\"sequence_number\":13",
           "\"type\":\"response.output_item.added\",\"sequence_number\":14,\"output_index\":2",
           "\"arguments\":\"\"}}\n\n",
           "\"type\":\"response.function_call_arguments.delta\",\"sequence_number\":15",
           "\"delta\":\"{\\\"a\\\":\"}\n\n",
           "\"type\":\"response.function_call_arguments.delta\",\"sequence_number\":16",
           "\"type\":\"response.function_call_arguments.done\",\"sequence_number\":17",
           "\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 1}\"}\n\n",
           "\"type\":\"response.output_item.done\",\"sequence_number\":18",
           "\"type\":\"response.completed\",\"sequence_number\":19", "\"status\":\"completed\"",
           "\"type\":\"function_call\"", "\"usage\":{\"input_tokens\":");
}

FX_TEST(test_a_response_that_fails_says_so)
{
    EXPECT(RESPONSES, "{\"input\":\"fail 2\",\"stream\":true}", "response.created",
           "response.failed", "\"status\":\"failed\"",
           "\"error\":{\"code\":\"server_error\",\"message\":\"");
    EXPECT(RESPONSES, "{\"input\":\"say a b c\",\"max_output_tokens\":2,\"stream\":true}",
           "\"type\":\"response.incomplete\"", "\"reason\":\"max_output_tokens\"");
}

// What was cut off is no input.
FX_TEST(test_a_cut_call_is_incomplete)
{
    EXPECT(RESPONSES, "{\"input\":\"" CALLS "\",\"max_output_tokens\":8," F_TOOL "}",
           "\"type\":\"function_call\",\"status\":\"incomplete\"");
    EXPECT("/v1/messages",
           "{\"max_tokens\":8,\"messages\":[{\"role\":\"user\",\"content\":\"" CALLS
           "\"}],\"tools\":[{\"name\":\"f\",\"input_schema\":{\"type\":\"object\"}}]}",
           "{\"type\":\"text\",\"text\":\"Look.\"}],\"stop_reason\":\"max_tokens\"");
}

// A call that the model writes as plain JSON.
FX_TEST(test_json_that_names_a_tool_is_a_call_in_every_dialect)
{
#define PLAIN "say Look.\\n{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {\\\"a\\\": 1}}"
    EXPECT(RESPONSES, "{\"input\":\"" PLAIN "\"," F_TOOL "}", "\"text\":\"Look.\"",
           "\"type\":\"function_call\",\"status\":\"completed\"",
           "\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 1}\"}]");
    EXPECT("/v1/messages",
           "{\"max_tokens\":99,\"messages\":[{\"role\":\"user\",\"content\":\"" PLAIN
           "\"}],\"tools\":[{\"name\":\"f\",\"input_schema\":{\"type\":\"object\"}}]}",
           "{\"type\":\"text\",\"text\":\"Look.\"}", "{\"type\":\"tool_use\"",
           "\"name\":\"f\",\"input\":{\"a\": 1}}]", "\"stop_reason\":\"tool_use\"");
}

// The call stays in the output, incomplete, and the rest of it is a message.
FX_TEST(test_a_streamed_call_that_breaks_is_incomplete)
{
    EXPECT(RESPONSES,
           "{\"input\":\"say <tool_call>{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {\\\"a\\\": "
           "x}} b\"," F_TOOL ",\"stream\":true}",
           "response.function_call_arguments.delta", "response.output_item.done",
           "\"status\":\"incomplete\"", "\"type\":\"message\"", "\"delta\":\"x}}\"",
           "\"delta\":\" b\"", "response.completed");
}

// ---- messages -----------------------------------------------------------------------------------

FX_TEST(test_a_message_has_blocks)
{
    EXPECT(MESSAGES, "{" TURN(CALLS) "," F_CUSTOM "}", "{\"id\":\"msg_",
           "\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[{\"type\":"
           "\"thinking\",\"thinking\":\"hm\",\"signature\":\"\"},{\"type\":\"text\",\"text\":"
           "\"Look.\"},{\"type\":\"tool_use\",\"id\":\"call_",
           "\"name\":\"f\",\"input\":{\"a\": 1}}],\"stop_reason\":\"tool_use\",\"stop_sequence\":"
           "null,\"usage\":{\"input_tokens\":",
           "\"cache_read_input_tokens\":0,\"output_tokens\":9}}");
    EXPECT(MESSAGES, "{" TURN("say a b") "}", "\"stop_reason\":\"end_turn\"");
    EXPECT(MESSAGES,
           "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"say a b\"}]}",
           "\"stop_reason\":\"max_tokens\"");
    EXPECT(MESSAGES, "{" TURN("halt 2") ",\"stop_sequences\":[\"x\",\"END\"]}",
           "\"stop_reason\":\"stop_sequence\",\"stop_sequence\":\"END\"");
}

FX_TEST(test_message_events_come_in_order)
{
    EXPECT(MESSAGES, "{" TURN(CALLS) "," F_CUSTOM ",\"stream\":true}",
           "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_",
           "\"content\":[],\"stop_reason\":null",
           "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"
           "\"content_block\":{\"type\":\"thinking\"",
           "\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"hm\"}}\n\n",
           "{\"type\":\"content_block_stop\",\"index\":0}\n\n",
           "\"index\":1,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
           "\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"Look.\"}}\n\n",
           "{\"type\":\"content_block_stop\",\"index\":1}\n\n",
           "\"content_block\":{\"type\":\"tool_use\",\"id\":\"call_",
           "\"name\":\"f\",\"input\":{}}}\n\n",
           "{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\":\"}}\n\n",
           "{\"type\":\"content_block_stop\",\"index\":2}\n\n",
           "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\",\"stop_sequence\":"
           "null},\"usage\":{",
           "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
    EXPECT(
        MESSAGES, "{" TURN("fail 1") ",\"stream\":true}", "message_start",
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":");
}

// Where one call is wanted, nothing behind it is generated: CALLS are 9 tokens up to its end.
FX_TEST(test_an_answer_ends_with_its_first_call)
{
    EXPECT(RESPONSES, "{\"input\":\"" CALLS " b c\"," F_TOOL ",\"parallel_tool_calls\":false}",
           "\"status\":\"completed\"", "\"type\":\"function_call\",\"status\":\"completed\"",
           "\"arguments\":\"{\\\"a\\\": 1}\"}],", "\"output_tokens\":9");
    EXPECT(RESPONSES,
           "{\"input\":\"" CALLS " b c\"," F_TOOL ",\"parallel_tool_calls\":false,\"stream\":true}",
           "event: response.function_call_arguments.done", "\"arguments\":\"{\\\"a\\\": 1}\"}],",
           "\"output_tokens\":9");
    EXPECT(MESSAGES,
           "{" TURN(CALLS " b c") "," F_CUSTOM ",\"tool_choice\":{\"type\":\"auto\","
                                  "\"disable_parallel_tool_use\":true}}",
           "\"type\":\"tool_use\"", "\"input\":{\"a\": 1}}],", "\"stop_reason\":\"tool_use\"",
           "\"output_tokens\":9");
    EXPECT(MESSAGES,
           "{" TURN(CALLS " b c") "," F_CUSTOM
                                  ",\"stream\":true,\"tool_choice\":{\"type\":\"auto\","
                                  "\"disable_parallel_tool_use\":true}}",
           "\"type\":\"tool_use\"", "event: message_delta", "\"stop_reason\":\"tool_use\"",
           "\"output_tokens\":9");
}

FX_TEST(test_tokens_of_messages_are_counted)
{
    EXPECT(MESSAGES "/count_tokens",
           "{\"messages\":[{\"role\":\"user\",\"content\":\"abc\"}]," F_CUSTOM
           ",\"tool_choice\":{\"type\":\"any\"}}",
           "{\"input_tokens\":");
    EXPECT(MESSAGES "/count_tokens", "{\"messages\":[{\"role\":\"user\",\"content\":\"abc\"}]}",
           "{\"input_tokens\":4}");
}

// ---- errors -------------------------------------------------------------------------------------

FX_TEST(test_errors_have_each_apis_form)
{
    fixture_expect_in(&f, MESSAGES, "{" TURN("full") "}", 429,
                      "{\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":");
    fixture_expect_in(&f, MESSAGES, "{" TURN("closed") "}", 529, "\"type\":\"overloaded_error\"");
    fixture_expect_in(&f, MESSAGES, "{\"messages\":[]}", 400, "\"request_id\":\"");
    fixture_expect_in(&f, MESSAGES, "{\"model\":\"x\"," TURN("a") "}", 404,
                      "\"type\":\"not_found_error\"");
    fixture_expect_in(&f, RESPONSES, "{\"input\":\"full\"}", 429, "\"code\":\"queue_full\"");
}

// Found before the body is read, and counted under its own status.
FX_TEST(test_errors_of_the_doors_have_it_too)
{
    fixture g = fixture_open((fxi_server_options){.api_key = "sk-1"});
    fixture_expect_in(&g, MESSAGES, "{" TURN("a") "}", 401,
                      "{\"type\":\"error\",\"error\":{\"type\":\"authentication_error\",");
    g.key = "sk-1";
    fixture_expect_in(&g, MESSAGES, "{" TURN("closed") "}", 529, "overloaded_error");
    fxi_buf b = fixture_call(&g, "GET", "/metrics", NULL, 200);
    assert_non_null(strstr(b.p, "route=\"/v1/messages\",code=\"529\"} 1"));
    fxi_buf_free(&b);
    fixture_close(&g);
}

typedef struct refused_body {
    const char *path, *body, *word;
} refused_body;

static const refused_body refused[] = {
    {RESPONSES, "{}", "'input' is required"},
    {RESPONSES, "{\"input\":[]}", "'input' is empty"},
    {RESPONSES, "{\"input\":[1]}", "\"param\":\"input\""},
    {RESPONSES, "{\"input\":[{\"role\":\"spoon\",\"content\":\"a\"}]}", "input[0].role"},
    {RESPONSES, "{\"input\":[{\"type\":\"item_reference\",\"id\":\"a\"}]}",
     "items of type 'item_reference' are not supported"},
    {RESPONSES, "{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]}]}",
     "'input[0].content' has a part of type 'input_image', which is not supported"},
    {"/v1/chat/completions",
     "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{}}]}]}",
     "'messages[0].content' has a part of type 'image_url', which is not supported"},
    {RESPONSES, "{\"input\":\"a\",\"seed\":9223372036854775808}",
     "the body has a number beyond 64 bits"},
    {RESPONSES, "{\"input\":\"a\",\"truncation\":\"auto\"}",
     "'truncation' must be one of: disabled\""},
    {RESPONSES, "{\"input\":[{\"type\":\"function_call\",\"call_id\":\"c\"}]}", "input[0].name"},
    {RESPONSES, "{\"input\":\"a\",\"store\":true}", "\"param\":\"store\""},
    {RESPONSES, "{\"input\":\"a\",\"previous_response_id\":\"r\"}",
     "\"param\":\"previous_response_id\""},
    {RESPONSES, "{\"input\":\"a\",\"background\":true}", "\"param\":\"background\""},
    {RESPONSES, "{\"input\":\"a\",\"tools\":[{\"type\":\"web_search\"}]}", "tools[0].type"},
    {RESPONSES, "{\"input\":\"a\",\"reasoning\":{\"effort\":\"vast\"}}", "reasoning.effort"},
    {RESPONSES, "{\"input\":\"a\",\"text\":{\"format\":{\"type\":\"json_schema\"}}}",
     "'text.format' needs a 'schema'"},
    {MESSAGES, "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}",
     "'max_tokens' is required"},
    {MESSAGES,
     "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]}",
     "blocks of type 'image' are not supported here"},
    {MESSAGES,
     "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_use\"}]}]}",
     "blocks of type 'tool_use' are not supported here"},
    {MESSAGES,
     "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":"
     "\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"i\",\"name\":\"f\",\"input\":{}}]}"
     "]}",
     "results must follow the last calls"},
    {MESSAGES, "{" TURN("a") ",\"tools\":[{\"type\":\"bash_20250124\",\"name\":\"bash\"}]}",
     "tools of type 'bash_20250124' are not supported"},
    {MESSAGES, "{" TURN("a") ",\"tool_choice\":{\"type\":\"tool\",\"name\":\"g\"}," F_CUSTOM "}",
     "there is no tool 'g'"},
    {MESSAGES, "{" TURN("a") ",\"thinking\":{\"type\":\"deep\"}}", "enabled adaptive disabled"},
};

FX_TEST(test_what_is_not_supported_is_refused_by_name)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        fixture_expect_in(&f, refused[i].path, refused[i].body, 400, refused[i].word);
}

FX_RUN_GROUP(test_dialects, open_once, close_once)
