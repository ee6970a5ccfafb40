// test_golden_answers.c - answers byte for byte: streams, echoes, logprobs and token ids, whole and
// streamed, as clients parse them. The fake engine's words and logprobs: fake_engine.h.
#include <stdio.h>
#include <string.h>

#include "server/server_fixture.h"
#include "unit/cmocka_all.h"

#define TEXT "/v1/completions"
#define CHAT "/v1/chat/completions"

#define CHAT_HEAD                                                                      \
    "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1," \
    "\"model\":\"m\",\"choices\":["
#define TEXT_HEAD                                                                            \
    "data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1,\"model\":\"m\"," \
    "\"choices\":["
#define WHOLE                                                                          \
    "{\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1,\"model\":\"m\"," \
    "\"system_fingerprint\":\"fp\",\"choices\":["
#define USAGE(p, c, t)                                                                      \
    "\"usage\":{\"prompt_tokens\":" #p ",\"completion_tokens\":" #c ",\"total_tokens\":" #t \
    ",\"prompt_tokens_details\":{\"cached_tokens\":0}}"
#define SAY(text) "{\"messages\":[{\"role\":\"user\",\"content\":\"" text "\"}]"
#define NULLS     "\"logprobs\":null,\"finish_reason\":null}]"
#define DONE      "data: [DONE]\n\n"

static fixture f;

static int open_once(void **state)
{
    (void)state;
    f = fixture_open((fxi_server_options){0});
    return 0;
}

static int close_once(void **state)
{
    (void)state;
    fixture_close(&f);
    return 0;
}

FX_TEST(test_chat_stream)
{
    fixture_expect(
        &f, CHAT, SAY("say Hi") ",\"stream\":true,\"stream_options\":{\"include_usage\":true}}",
        CHAT_HEAD "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}," NULLS
                  ",\"usage\":null}\n\n" CHAT_HEAD
                  "{\"index\":0,\"delta\":{\"content\":\"Hi\"}," NULLS
                  ",\"usage\":null}\n\n" CHAT_HEAD
                  "{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}]"
                  ",\"usage\":null}\n\n" CHAT_HEAD "]," USAGE(7, 1, 8) "}\n\n" DONE);
}

// Prompt "A b", echoed, with its logprobs and those of one token more.
#define ECHO_PROBS                                                      \
    "\"logprobs\":{\"tokens\":[\"A\",\" b\",\" c\"],"                   \
    "\"token_logprobs\":[null,-3.25,-0.5],"                             \
    "\"top_logprobs\":[null,{\" b\":-3.25,\" x\":-1.5},{\" c\":-0.5}]," \
    "\"text_offset\":[0,1,3]},\"finish_reason\":\"length\""

FX_TEST(test_echo_with_logprobs)
{
    fixture_expect(&f, TEXT, "{\"prompt\":[257,258],\"echo\":true,\"logprobs\":1,\"max_tokens\":1}",
                   WHOLE "{\"index\":0,\"text\":\"A b c\"," ECHO_PROBS
                         ",\"stop_reason\":null}]," USAGE(2, 1, 3) "}");
}

#define TIMINGS(n, ms, each, rate)                                                              \
    ",\"timings\":{\"cache_n\":0,\"prompt_n\":2,\"prompt_ms\":3.000,\"prompt_per_token_ms\":1." \
    "500,"                                                                                      \
    "\"prompt_per_second\":666.667,\"predicted_n\":" #n ",\"predicted_ms\":" #ms                \
    ",\"predicted_per_"                                                                         \
    "token_ms\":" #each ",\"predicted_per_second\":" #rate "}"

// The times are those that the fake engine makes up: 3 ms, then 1 ms between tokens.
FX_TEST(test_timings)
{
    fixture_expect_in(&f, TEXT,
                      "{\"prompt\":[257,258],\"max_tokens\":3,\"timings_per_token\":true}", 200,
                      "}" TIMINGS(3, 2.000, 0.667, 1500.000) "}");
    fixture_expect_in(
        &f, TEXT,
        "{\"prompt\":[257,258],\"max_tokens\":3,\"timings_per_token\":true,\"stream\":true}", 200,
        "\"finish_reason\":null}]" TIMINGS(1, 0.000, 0.000, 0.000) "}\n\n");
    fixture_expect_in(
        &f, TEXT,
        "{\"prompt\":[257,258],\"max_tokens\":3,\"timings_per_token\":true,\"stream\":true}", 200,
        "\"finish_reason\":\"length\"}]" TIMINGS(3, 2.000, 0.667,
                                                 1500.000) "}\n\ndata: [DONE]\n\n");
}

// max_tokens 0: the prompt is scored and nothing is generated.
FX_TEST(test_scoring)
{
    fixture_expect_in(&f, TEXT,
                      "{\"prompt\":[257,258],\"echo\":true,\"logprobs\":0,\"max_tokens\":0}", 200,
                      "{\"index\":0,\"text\":\"A b\",\"logprobs\":{\"tokens\":[\"A\",\" b\"],"
                      "\"token_logprobs\":[null,-3.25],\"top_logprobs\":[null,{\" b\":-3.25}],"
                      "\"text_offset\":[0,1]},\"finish_reason\":\"length\"");
    fixture_expect_in(&f, TEXT, "{\"prompt\":[257,258],\"echo\":true,\"max_tokens\":0}", 200,
                      "\"text\":\"A b\",\"logprobs\":null,\"finish_reason\":\"length\"");
    fixture_expect_in(
        &f, TEXT, "{\"prompt\":[257,258],\"prompt_logprobs\":1,\"max_tokens\":0}", 200,
        "\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"length\",\"stop_reason\":"
        "null,\"prompt_logprobs\":[null,{\"258\":{\"logprob\":-3.25,\"rank\":2,"
        "\"decoded_token\":\" b\"},\"260\":{\"logprob\":-1.5,\"rank\":1,"
        "\"decoded_token\":\" x\"}}]");
}

// Each choice of each prompt has the whole of it.
FX_TEST(test_echo_of_several)
{
    fixture_expect_in(
        &f, TEXT,
        "{\"prompt\":[[257],[257,258]],\"n\":2,\"echo\":true,\"logprobs\":0,\"max_tokens\":1}", 200,
        "{\"index\":3,\"text\":\"A b c\",\"logprobs\":{\"tokens\":[\"A\",\" b\",\" c\"],"
        "\"token_logprobs\":[null,-3.25,-0.5],\"top_logprobs\":[null,{\" b\":-3.25},"
        "{\" c\":-0.5}],\"text_offset\":[0,1,3]}");
    fixture_expect_in(&f, TEXT,
                      "{\"prompt\":[[257],[257,258]],\"n\":2,\"echo\":true,\"max_tokens\":1}", 200,
                      "{\"index\":1,\"text\":\"A b\",");
}

// A text is echoed as it was sent; BOS, which the server adds, has no characters of it.
FX_TEST(test_echo_of_a_text)
{
    fixture_expect_in(
        &f, TEXT, "{\"prompt\":\"h\xc3\xa9\",\"echo\":true,\"logprobs\":0,\"max_tokens\":0}", 200,
        "\"text\":\"h\xc3\xa9\",\"logprobs\":{\"tokens\":[\"<s>\",\"h\",\"bytes:\\\\xc3\","
        "\"bytes:\\\\xa9\"],\"token_logprobs\":[null,-3.25,-3.25,-3.25],\"top_logprobs\":[null,"
        "{\"h\":-3.25},{\"bytes:\\\\xc3\":-3.25},{\"bytes:\\\\xa9\":-3.25}],"
        "\"text_offset\":[0,0,1,2]}");
}

// The logprobs of a character in two tokens, and of a token without text, ride in the next chunk.
FX_TEST(test_streamed_logprobs)
{
    fixture_expect(
        &f, TEXT, "{\"prompt\":[257,258],\"echo\":true,\"logprobs\":0,\"stream\":true}",
        TEXT_HEAD
        "{\"index\":0,\"text\":\"A b\",\"logprobs\":{\"tokens\":[\"A\",\" b\"],\"token_logprobs\":"
        "[null,-3.25],\"top_logprobs\":[null,{\" b\":-3.25}],\"text_offset\":[0,1]},"
        "\"finish_reason\":null}]}\n\n" TEXT_HEAD
        "{\"index\":0,\"text\":\" c\",\"logprobs\":{\"tokens\":[\" c\"],\"token_logprobs\":[-0.5],"
        "\"top_logprobs\":[{\" c\":-0.5}],\"text_offset\":[3]},\"finish_reason\":null}]}"
        "\n\n" TEXT_HEAD
        "{\"index\":0,\"text\":\" x\",\"logprobs\":{\"tokens\":[\" x\"],\"token_logprobs\":[-0.5],"
        "\"top_logprobs\":[{\" x\":-0.5}],\"text_offset\":[5]},\"finish_reason\":null}]}"
        "\n\n" TEXT_HEAD
        "{\"index\":0,\"text\":\"\xc3\xa9\",\"logprobs\":{\"tokens\":[\"bytes:\\\\xc3\","
        "\"bytes:\\\\xa9\"],\"token_logprobs\":[-0.5,-0.5],\"top_logprobs\":["
        "{\"bytes:\\\\xc3\":-0.5},{\"bytes:\\\\xa9\":-0.5}],\"text_offset\":[7,7]},"
        "\"finish_reason\":null}]}\n\n" TEXT_HEAD
        "{\"index\":0,\"text\":\"\",\"logprobs\":{\"tokens\":[\"<eot>\"],\"token_logprobs\":[-0.5],"
        "\"top_logprobs\":[{\"<eot>\":-0.5}],\"text_offset\":[8]},\"finish_reason\":\"stop\"}]}"
        "\n\n" DONE);
}

FX_TEST(test_chat_logprobs)
{
    fixture_expect_in(&f, CHAT, SAY("say A") ",\"logprobs\":true,\"top_logprobs\":2}", 200,
                      "\"message\":{\"role\":\"assistant\",\"content\":\"A\",\"refusal\":null},"
                      "\"logprobs\":{\"content\":[{\"token\":\"A\",\"logprob\":-0.5,\"bytes\":[65],"
                      "\"top_logprobs\":[{\"token\":\"A\",\"logprob\":-0.5,\"bytes\":[65]},"
                      "{\"token\":\" b\",\"logprob\":-1.5,\"bytes\":[32,98]}]}],\"refusal\":null},"
                      "\"finish_reason\":\"stop\"");
    fixture_expect_in(&f, CHAT, SAY("say A") ",\"logprobs\":true,\"stream\":true}", 200,
                      CHAT_HEAD
                      "{\"index\":0,\"delta\":{\"content\":\"A\"},\"logprobs\":{"
                      "\"content\":[{\"token\":\"A\",\"logprob\":-0.5,\"bytes\":[65],"
                      "\"top_logprobs\":[]}],\"refusal\":null},\"finish_reason\":null}]}");
    fixture_expect_in(&f, CHAT,
                      SAY("say A") ",\"logprobs\":true,\"return_tokens_as_token_ids\":true}", 200,
                      "{\"token\":\"token_id:257\",\"logprob\":-0.5,\"bytes\":[65],");
}

FX_TEST(test_token_ids)
{
    fixture_expect_in(
        &f, TEXT, "{\"prompt\":[257,258],\"max_tokens\":2,\"return_token_ids\":true}", 200,
        "\"stop_reason\":null,\"token_ids\":[259,260],\"prompt_token_ids\":[257,258]}");
    fixture_expect(
        &f, TEXT, "{\"prompt\":[258],\"max_tokens\":1,\"return_token_ids\":true,\"stream\":true}",
        TEXT_HEAD "{\"index\":0,\"text\":\" c\",\"logprobs\":null,\"finish_reason\":null,"
                  "\"token_ids\":[259],\"prompt_token_ids\":[258]}]}\n\n" TEXT_HEAD
                  "{\"index\":0,\"text\":\"\",\"logprobs\":null,"
                  "\"finish_reason\":\"length\",\"token_ids\":[]}]}\n\n" DONE);
    fixture_expect_in(&f, CHAT, SAY("say A") ",\"return_token_ids\":true,\"prompt_logprobs\":0}",
                      200, "\"token_ids\":[257]}],\"usage\":");
    fixture_expect_in(&f, CHAT, SAY("say A") ",\"return_token_ids\":true,\"stream\":true}", 200,
                      "\"prompt_token_ids\":[256,115,97,121,32,65]}\n\n");
}

// The answer has the name that the client used, and its own id.
FX_TEST(test_names)
{
    fixture g = fixture_open((fxi_server_options){.alias = "gpt-4o,other"});
    fxi_buf b =
        fixture_call(&g, "POST", TEXT,
                     "{\"model\":\"other\",\"prompt\":\"say a\",\"request_id\":\"mine_7\"}", 200);
    assert_non_null(strstr(b.p, "{\"id\":\"cmpl-mine_7\","));
    assert_non_null(strstr(b.p, "\"model\":\"other\","));
    fxi_buf_free(&b);
    b = fixture_call(&g, "GET", "/v1/models", NULL, 200);
    assert_non_null(strstr(b.p, "{\"id\":\"gpt-4o\",\"object\":\"model\","));
    assert_non_null(strstr(b.p, "\"root\":\"m\""));
    fxi_buf_free(&b);
    b = fixture_call(&g, "GET", "/v1/models/gpt-4o", NULL, 200);
    fxi_buf_free(&b);
    fixture_expect_in(&g, TEXT, "{\"model\":\"gpt-4\",\"prompt\":\"a\"}", 404, "model_not_found");
    fixture_close(&g);
}

FX_RUN_GROUP(test_golden_answers, open_once, close_once)
