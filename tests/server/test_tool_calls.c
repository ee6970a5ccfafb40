// test_tool_calls.c - chats whose answers hold reasoning and calls of tools, whole and streamed,
// byte for byte. What each format looks like is tested by test_output_golden.c; here the model
// writes Hermes' and reasons between <think> marks.
#include <stdio.h>
#include <string.h>

#include "server/open_and_serve.h"
#include "server/server_fixture.h"
#include "unit/cmocka_all.h"

#define CHAT "/v1/chat/completions"
#define TOOLS                                                                         \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{" \
    "\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}}}}}]"
#define SAY(text) "{\"messages\":[{\"role\":\"user\",\"content\":\"say " text "\"}]"
#define CALL(args) \
    "<tool_call>\\n{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": " args "}\\n</tool_call>"
#define MESSAGE(content) "\"message\":{\"role\":\"assistant\",\"content\":" content
#define TOLD(id, args)                                                                            \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"" args \
    "\"}}"
#define ENDS(why) "\"logprobs\":null,\"finish_reason\":\"" why "\""

static fixture f;

static int open_once(void **state)
{
    (void)state;
    f = fixture_open_hermes();
    return 0;
}

static int close_once(void **state)
{
    (void)state;
    fixture_close(&f);
    return 0;
}

static void expect(const char *body, const char *want)
{
    fixture_expect_in(&f, CHAT, body, 200, want);
}

// ---- whole --------------------------------------------------------------------------------------

FX_TEST(test_a_call_is_a_member_of_the_message)
{
    expect(SAY(CALL("{\\\"a\\\": 1}")) "," TOOLS "}",
           MESSAGE("null") ",\"refusal\":null,\"tool_calls\":[" TOLD(
               "call_1", "{\\\"a\\\": 1}") "]}," ENDS("tool_calls"));
    expect(SAY("Let me see. " CALL("{}") CALL("{\\\"a\\\": 2}")) "," TOOLS "}",
           MESSAGE("\"Let me see.\"") ",\"refusal\":null,\"tool_calls\":[" TOLD(
               "call_1", "{}") "," TOLD("call_1", "{\\\"a\\\": 2}") "]}," ENDS("tool_calls"));
}

FX_TEST(test_without_tools_calls_are_text)
{
    expect(SAY(CALL("{}")) "}",
           MESSAGE("\"<tool_call>\\n{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {}}\\n"
                   "</tool_call>\"") ",\"refusal\":null}," ENDS("stop"));
    expect(SAY(CALL("{}")) "," TOOLS ",\"tool_choice\":\"none\"}", ENDS("stop"));
}

FX_TEST(test_what_is_no_call_is_text)
{
    expect(SAY("<tool_call> I try.") "," TOOLS "}",
           MESSAGE("\"<tool_call> I try.\"") ",\"refusal\":null}," ENDS("stop"));
    expect(
        SAY("a <tool_call>{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {\\\"a\\\": x}}") "," TOOLS
                                                                                         "}",
        MESSAGE(
            "\"a <tool_call>{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {\\\"a\\\": x}}\"") ",\"re"
                                                                                             "fusal"
                                                                                             "\":"
                                                                                             "null}"
                                                                                             "," ENDS(
                                                                                                 "s"
                                                                                                 "t"
                                                                                                 "o"
                                                                                                 "p"));
}

// The answer ends within the call: what came of it is said, and that it was cut. Marks alone are no
// text.
FX_TEST(test_a_cut_call_leaves_no_marks)
{
    expect(
        SAY("<tool_call>{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {\\\"a\\\": 1} }") ",\"max_"
                                                                                        "tokens\":"
                                                                                        "4," TOOLS
                                                                                        "}",
        MESSAGE("null") ",\"refusal\":null,\"tool_calls\":[" TOLD(
            "call_1", "{\\\"a\\\":") "]}," ENDS("length"));
    expect(SAY("Hm. <tool_call> {\\\"name\\\": \\\"f\\\"}") ",\"max_tokens\":3," TOOLS "}",
           MESSAGE("\"Hm.\"") ",\"refusal\":null}," ENDS("length"));
}

// A model that must call repeats itself: the second of two equal calls ends the answer.
FX_TEST(test_forced_calls_end_where_one_is_repeated)
{
#define MUST ",\"tool_choice\":\"required\""
    expect(SAY(CALL("{\\\"a\\\": 1}") CALL("{\\\"a\\\": 12}") CALL("{\\\"a\\\": 1}")
                   CALL("{\\\"a\\\": 3}")) "," TOOLS MUST "}",
           "\"tool_calls\":[" TOLD("call_1", "{\\\"a\\\": 1}") "," TOLD(
               "call_1", "{\\\"a\\\": 12}") "]}," ENDS("tool_calls"));
    // A free answer may say the same twice.
    expect(
        SAY(CALL("{}") CALL("{}")) "," TOOLS "}",
        "\"tool_calls\":[" TOLD("call_1", "{}") "," TOLD("call_1", "{}") "]}," ENDS("tool_calls"));
    // One that breaks while it is held is text.
    expect(
        SAY(CALL(
            "{\\\"a\\\": 1}") "<tool_call>{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {x") "," TOOLS
            MUST "}",
        MESSAGE(
            "\"<tool_call>{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {x\"") ",\"refusal\":"
                                                                              "null,\"tool_"
                                                                              "calls\":[" TOLD(
                                                                                  "call_1",
                                                                                  "{\\\"a\\\": "
                                                                                  "1}") "]}"
                                                                                        "," ENDS(
                                                                                            "tool_"
                                                                                            "call"
                                                                                            "s"));
}

FX_TEST(test_a_named_function_is_called_once)
{
    expect(SAY(CALL("{}") CALL("{\\\"a\\\": 1}")) "," TOOLS
                                                  ",\"tool_choice\":{\"type\":\"function\","
                                                  "\"function\":{\"name\":\"f\"}}}",
           "\"tool_calls\":[" TOLD("call_1", "{}") "]}," ENDS("tool_calls"));
}

// Nothing behind it is generated.
FX_TEST(test_one_call_ends_the_answer_where_one_is_wanted)
{
    static const char alone[] = ",\"parallel_tool_calls\":false}";
    static const char after[] = " So b c " CALL("{\\\"a\\\": 2}");
    char body[1024];
    snprintf(body, sizeof body, "%s%s\"}]," TOOLS "%s",
             "{\"messages\":[{\"role\":\"user\",\"content\":\"say " CALL("{}"), after, alone);
    expect(body, MESSAGE("null") ",\"refusal\":null,\"tool_calls\":[" TOLD(
                     "call_1", "{}") "]}," ENDS("tool_calls"));
    expect(body, "\"completion_tokens\":4,");
    snprintf(body, sizeof body, "%s%s\"}],\"n\":2," TOOLS "%s",
             "{\"messages\":[{\"role\":\"user\",\"content\":\"say " CALL("{}"), after, alone);
    expect(body, "\"completion_tokens\":8,");
    assert_int_equal(fake_engine_counts(f.eng).n_cancelled, 0);
}

FX_TEST(test_reasoning_is_told_apart)
{
    expect(SAY("<think> so it is </think> Yes.") "}",
           MESSAGE("\"Yes.\"") ",\"refusal\":null,\"reasoning_content\":\"so it is\"},");
    expect(SAY("<think> so it is </think> Yes.") "}",
           "\"completion_tokens\":6,\"total_tokens\":41,\"prompt_tokens_details\":{"
           "\"cached_tokens\":0},\"completion_tokens_details\":{\"reasoning_tokens\":5}}");
    expect(SAY("<think> never ends") "}",
           MESSAGE("null") ",\"refusal\":null,\"reasoning_content\":\"never ends\"},");
    expect(SAY("<think> a </think> b") ",\"include_reasoning\":false}",
           MESSAGE("\"b\"") ",\"refusal\":null}," ENDS("stop"));
    expect(SAY("<think> a </think> b") ",\"separate_reasoning\":false}",
           MESSAGE("\"<think> a </think> b\"") ",\"refusal\":null}," ENDS("stop"));
}

// The prompt ends with the opening mark, as some templates write it.
FX_TEST(test_reasoning_may_be_opened_by_the_prompt)
{
    expect("{\"messages\":[{\"role\":\"user\",\"content\":\"say a </think> b <think>\\n\"}]}",
           MESSAGE("\"b <think>\\n\"") ",\"refusal\":null,\"reasoning_content\":\"a\"}");
}

typedef struct thought_case {
    const char *path, *members;
    int max_tok; // -1: no budget
    bool opened;
} thought_case;

#define HI     "\"messages\":[{\"role\":\"user\",\"content\":\"say a\"}]"
#define OPEN   "\"messages\":[{\"role\":\"user\",\"content\":\"say a <think>\\n\"}]"
#define CLAUDE "/v1/messages", "\"max_tokens\":9," HI
#define BUDGET "\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":5}"

static const thought_case thought_cases[] = {
    {CHAT, HI, -1, false},
    {CHAT, HI ",\"thinking_budget\":7", 7, false},
    {CHAT, OPEN ",\"thinking_token_budget\":7", 7, true},
    {CHAT, HI ",\"reasoning\":{\"max_tokens\":8}", 8, false},
    {CHAT, HI ",\"reasoning_effort\":\"low\"", 1024, false},
    {CHAT, HI ",\"reasoning_effort\":\"low\",\"thinking_budget\":3", 3, false},
    {CHAT, HI ",\"reasoning_effort\":\"none\"", 0, false},
    {CHAT, HI ",\"reasoning_effort\":\"high\"", -1, false},
    {CHAT, OPEN ",\"separate_reasoning\":false,\"thinking_budget\":2", 2, true},
    {CLAUDE "," BUDGET, 5, false},
    {CLAUDE ",\"thinking\":{\"type\":\"disabled\"}", 0, false},
    {"/v1/responses", "\"input\":\"say a\",\"reasoning\":{\"effort\":\"medium\",\"max_tokens\":6}",
     6, false},
    {"/v1/completions", "\"prompt\":\"say a\",\"thinking_budget\":7", -1, false},
};

// What the clients of each API call it. The closing mark is spelled in bytes, one token each.
FX_TEST(test_a_budget_of_reasoning)
{
    for (size_t i = 0; i < sizeof thought_cases / sizeof thought_cases[0]; i++) {
        const thought_case *c = &thought_cases[i];
        char body[512];
        snprintf(body, sizeof body, "{%s}", c->members);
        fixture_expect_in(&f, c->path, body, 200, "a");
        const fx_thought *t = &fake_engine_last(f.eng)->thought;
        const int max_tok = t->n_close ? t->max_tok : -1;
        if (max_tok != c->max_tok || t->opened != c->opened)
            fail_msg("%s: %d", c->members, max_tok);
        assert_true(max_tok < 0 || t->n_close == strlen("</think>"));
    }
    fixture_expect_in(&f, CHAT, "{" HI ",\"thinking_budget\":3,\"use_beam_search\":true,\"n\":2}",
                      400, "\"param\":\"thinking_budget\"");
    fixture_expect_in(&f, CHAT, "{" HI ",\"reasoning\":{\"max_tokens\":-1}}", 400,
                      "\"param\":\"reasoning.max_tokens\"");
    fixture_expect_in(&f, CHAT,
                      "{" HI ",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":\"x\"}}", 400,
                      "\"param\":\"thinking.budget_tokens\"");
}

// A template that reads the effort knows what to make of it.
FX_TEST(test_an_effort_that_the_template_reads_is_no_budget)
{
    fixture g = {.eng = fake_engine_new()};
    fx_error err;
    const fxi_server_options opt = {.model_id = "m"};
    fake_engine_template(g.eng, "{{ reasoning_effort }} <think></think>");
    assert_int_equal(open_and_serve(g.eng, &opt, &g.srv, &err), FX_OK);
    g.port = fxi_server_port(g.srv);
    fixture_expect_in(&g, CHAT, "{" HI ",\"reasoning_effort\":\"low\"}", 200, "a");
    assert_int_equal(fake_engine_last(g.eng)->thought.n_close, 0);
    fixture_expect_in(&g, CHAT, "{" HI ",\"reasoning_effort\":\"none\"}", 200, "a");
    assert_int_equal(fake_engine_last(g.eng)->thought.max_tok, 0);
    assert_true(fake_engine_last(g.eng)->thought.n_close > 0);
    fixture_close(&g);
}

// Granite opens and closes reasoning in two ways each.
FX_TEST(test_a_budget_of_reasoning_with_two_marks)
{
    fixture g = fixture_open((fxi_server_options){.reasoning_parser = "granite"});
    fixture_expect_in(&g, CHAT, "{" HI ",\"thinking_budget\":4}", 200, "a");
    const fx_thought *t = &fake_engine_last(g.eng)->thought;
    assert_int_equal(t->max_tok, 4);
    assert_int_equal(t->n_close, strlen("Here is my response:"));
    assert_string_equal(t->open[1], "Here's my thought process:");
    assert_string_equal(t->close[1], "Here's my response:");
    fixture_close(&g);
}

FX_TEST(test_choices_are_taken_apart_each)
{
    expect(SAY("<think> a </think>" CALL("{}")) "," TOOLS ",\"n\":2}",
           "{\"index\":1," MESSAGE("null") ",\"refusal\":null,\"reasoning_content\":\"a\","
                                           "\"tool_calls\":[" TOLD("call_1",
                                                                   "{}") "]}," ENDS("tool_calls"));
}

// ---- streamed -----------------------------------------------------------------------------------

#define HEAD                                                                           \
    "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1," \
    "\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":"
#define CHUNK(delta) HEAD "{" delta "},\"logprobs\":null,\"finish_reason\":null}]}\n\n"
#define LAST(why)    HEAD "{},\"logprobs\":null,\"finish_reason\":\"" why "\"}]}\n\ndata: [DONE]\n\n"
#define FIRST        CHUNK("\"role\":\"assistant\",\"content\":\"\"")
#define TEXT(text)   CHUNK("\"content\":\"" text "\"")
#define NAME(i)                                                                        \
    CHUNK("\"tool_calls\":[{\"index\":" #i ",\"id\":\"call_1\",\"type\":\"function\"," \
          "\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]")
#define ARGS(i, text) \
    CHUNK("\"tool_calls\":[{\"index\":" #i ",\"function\":{\"arguments\":\"" text "\"}}]")

static void expect_stream(const char *body, const char *want)
{
    fixture_expect(&f, CHAT, body, want);
}

FX_TEST(test_streamed_calls)
{
    expect_stream(SAY("Hm. " CALL("{\\\"a\\\": 1}") CALL("{}")) "," TOOLS ",\"stream\":true}",
                  FIRST TEXT("Hm.") NAME(0) ARGS(0, "{\\\"a\\\":") ARGS(0, " 1}") NAME(1)
                      ARGS(1, "{}") LAST("tool_calls"));
}

FX_TEST(test_a_streamed_call_is_held_while_it_repeats_another)
{
    expect_stream(SAY(CALL("{\\\"a\\\": 1}") CALL("{\\\"a\\\": 2}")
                          CALL("{\\\"a\\\": 2}") " b") "," TOOLS MUST ",\"stream\":true}",
                  FIRST NAME(0) ARGS(0, "{\\\"a\\\":") ARGS(0, " 1}") NAME(1)
                      ARGS(1, "{\\\"a\\\": 2}") LAST("tool_calls"));
}

FX_TEST(test_streamed_reasoning)
{
    expect_stream(SAY("<think> a b </think>\\n\\nc d") ",\"stream\":true}",
                  FIRST CHUNK("\"reasoning_content\":\"a\"") CHUNK("\"reasoning_content\":\" b\"")
                      TEXT("c") TEXT(" d") LAST("stop"));
}

FX_TEST(test_a_stream_ends_with_its_first_call_where_one_is_wanted)
{
    expect_stream(SAY("Hm. " CALL("{}") " So " CALL("{}")) "," TOOLS
                                                           ",\"parallel_tool_calls\":false,"
                                                           "\"stream\":true}",
                  FIRST TEXT("Hm.") NAME(0) ARGS(0, "{}") LAST("tool_calls"));
}

// What has been told of a call stays told; the rest of it is text.
FX_TEST(test_a_streamed_call_that_breaks_goes_on_as_text)
{
    expect_stream(
        SAY("<tool_call>{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {\\\"a\\\": x}} b") "," TOOLS
                                                                                         ",\"stream"
                                                                                         "\":true}",
        FIRST NAME(0) ARGS(0, "{\\\"a\\\":") ARGS(0, " ") TEXT("x}}") TEXT(" b") LAST("stop"));
}

// ---- calls without marks ------------------------------------------------------------------------

#define FENCED(args) "```json\\n{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": " args "}\\n```"
#define BARE(args)   "{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": " args "}"

FX_TEST(test_json_that_names_a_tool_is_a_call)
{
    expect(SAY("Let me see.\\n" FENCED("{\\\"a\\\": 1}")) "," TOOLS "}",
           MESSAGE("\"Let me see.\"") ",\"refusal\":null,\"tool_calls\":[" TOLD(
               "call_1", "{\\\"a\\\": 1}") "]}," ENDS("tool_calls"));
    expect(SAY("[" BARE("{}") ", " BARE("{\\\"a\\\": 2}") "]") "," TOOLS "}",
           MESSAGE("null") ",\"refusal\":null,\"tool_calls\":[" TOLD("call_1", "{}") "," TOLD(
               "call_1", "{\\\"a\\\": 2}") "]}," ENDS("tool_calls"));
    expect(SAY(BARE("{}") "\\n" BARE("{}")) "," TOOLS ",\"parallel_tool_calls\":false}",
           "\"tool_calls\":[" TOLD("call_1", "{}") "]}," ENDS("tool_calls"));
}

// It must fit the schema, the answer must be free to call, and the request must have tools.
FX_TEST(test_other_json_is_text)
{
    expect(SAY(BARE("{\\\"a\\\": \\\"x\\\"}")) "," TOOLS "}", ENDS("stop"));
    expect(SAY("{\\\"name\\\": \\\"g\\\", \\\"arguments\\\": {}}") "," TOOLS "}", ENDS("stop"));
    expect(SAY(BARE("{}")) "}", ENDS("stop"));
    expect(SAY(BARE("{}")) "," TOOLS ",\"tool_choice\":\"none\"}", ENDS("stop"));
    expect(SAY(BARE("{}")) "," TOOLS ",\"response_format\":{\"type\":\"json_object\"}}",
           ENDS("stop"));
}

#define TWO_TOOLS(allowed)                                                                      \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}},"                         \
    "{\"type\":\"function\",\"function\":{\"name\":\"g\"}}],\"tool_choice\":{\"type\":"         \
    "\"allowed_tools\",\"allowed_tools\":{\"mode\":\"auto\",\"tools\":[{\"type\":\"function\"," \
    "\"function\":{\"name\":\"" allowed "\"}}]}}"

FX_TEST(test_json_calls_only_tools_that_are_allowed)
{
    expect(SAY(FENCED("{\\\"a\\\": 1}")) "," TWO_TOOLS("f") "}",
           MESSAGE("null") ",\"refusal\":null,\"tool_calls\":[" TOLD(
               "call_1", "{\\\"a\\\": 1}") "]}," ENDS("tool_calls"));
    expect(SAY(BARE("{}")) "," TWO_TOOLS("g") "}",
           MESSAGE("\"" BARE("{}") "\"") ",\"refusal\":null}," ENDS("stop"));
}

FX_TEST(test_json_that_names_a_tool_is_streamed_as_a_call)
{
    expect_stream(SAY("Hm.\\n" FENCED("{\\\"a\\\": 1}")) "," TOOLS ",\"stream\":true}",
                  FIRST TEXT("Hm.") NAME(0) ARGS(0, "{\\\"a\\\": 1}") LAST("tool_calls"));
    // It is text as soon as it can be no call.
    expect_stream(SAY("{\\\"name\\\": \\\"g\\\", b") "," TOOLS ",\"stream\":true}",
                  FIRST TEXT("{\\\"name\\\": \\\"g\\\",") TEXT(" b") LAST("stop"));
}

FX_TEST(test_an_option_leaves_json_in_the_text)
{
    static const fxi_server_options off[] = {{.tool_parser = "hermes", .marked_calls_only = true},
                                             {.tool_parser = "none"}};
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++) {
        fixture g = fixture_open(off[i]);
        fixture_expect_in(&g, CHAT, SAY(BARE("{}")) "," TOOLS "}", 200, ENDS("stop"));
        fixture_close(&g);
    }
}

// The template of the fake model has no format: none is needed.
FX_TEST(test_a_model_of_no_known_format_calls_in_json)
{
    fixture g = fixture_open((fxi_server_options){0});
    fixture_expect_in(&g, CHAT, SAY(FENCED("{}")) "," TOOLS "}", 200,
                      "\"tool_calls\":[" TOLD("call_1", "{}") "]}," ENDS("tool_calls"));
    fixture_close(&g);
}

// ---- formats ------------------------------------------------------------------------------------

FX_TEST(test_the_template_chooses_the_format)
{
    fixture g = {.eng = fake_engine_new()};
    fx_error err;
    const fxi_server_options opt = {.model_id = "m"};
    fake_engine_template(g.eng, "[AVAILABLE_TOOLS] [TOOL_CALLS]");
    assert_int_equal(open_and_serve(g.eng, &opt, &g.srv, &err), FX_OK);
    g.port = fxi_server_port(g.srv);
    fixture_expect_in(&g, CHAT, SAY("[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{}") "," TOOLS "}", 200,
                      TOLD("abcdefghi", "{}"));
    fixture_expect_in(&g, CHAT, SAY("<think> a </think>") "}", 200, "\"<think> a </think>\"");
    fixture_close(&g);
}

FX_TEST(test_unknown_formats_are_refused_by_name)
{
    fx_error err;
    fxi_server_options opt = {.tool_parser = "hermit"};
    assert_int_equal(fxi_server_check(&opt, &err), FX_EINVAL);
    assert_non_null(strstr(err.text, "tool-parser: 'hermit' is none of auto none"));
    assert_non_null(strstr(err.text, " hermes"));
    opt = (fxi_server_options){.reasoning_parser = "thin"};
    assert_int_equal(fxi_server_check(&opt, &err), FX_EINVAL);
    assert_non_null(strstr(err.text, "reasoning-parser: 'thin'"));
    opt = (fxi_server_options){.tool_parser = "none", .reasoning_parser = "auto"};
    assert_int_equal(fxi_server_check(&opt, &err), FX_OK);
}

FX_RUN_GROUP(test_tool_calls, open_once, close_once)
