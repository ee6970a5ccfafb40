// test_server_endpoints.c - what is served beside completions and chats: models, tokens, templates,
// embeddings, scores, and what only an admin may do.
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/open_and_serve.h"
#include "server/server_fixture.h"
#include "unit/cmocka_all.h"

#define KEY_FILE "test_server_endpoints.keys"
#define EMBED    "/v1/embeddings"
#define RERANK   "/v1/rerank"
#define SCORE    "/v1/score"
#define RETAIN   "/admin/cache/retain"

static fixture f;

static int open_once(void **state)
{
    FILE *keys = fopen(KEY_FILE, "w");
    assert_non_null(keys);
    fputs("root sk-root admin\nann sk-ann\n", keys);
    fclose(keys);
    chmod(KEY_FILE, 0600);
    f = fixture_open((fxi_server_options){.key_file = KEY_FILE});
    f.key = "sk-root";
    return 0;
}

static int close_once(void **state)
{
    fixture_close(&f);
    unlink(KEY_FILE);
    return 0;
}

static void expect_status(const char *path, int status, const char *want)
{
    fxi_buf b = fixture_call(&f, "GET", path, NULL, status);
    if (!strstr(b.p, want)) fail_msg("%s\nwant: %s\n  in: %s", path, want, b.p);
    fxi_buf_free(&b);
}

static void expect_get(const char *path, const char *want)
{
    expect_status(path, 200, want);
}

// ---- what is there ------------------------------------------------------------------------------

// The trace is what the fake engine's recorder holds.
FX_TEST(test_gets)
{
    static const struct {
        const char *path, *want;
    } rows[] = {
        {"/v1/models", "{\"object\":\"list\",\"data\":[{\"id\":\"m\",\"object\":\"model\","},
        {"/v1/models/m", "\"max_model_len\":4096,\"root\":\"m\",\"parent\":null}"},
        {"/props", "\"generates\":true,\"embeds\":true,\"scores\":false,\"embedding_length\":8"},
        {"/props", "\"default_generation_settings\":{\"n_ctx\":4096,\"params\":{"},
        {"/tokenizer_info", "{\"bos_token\":\"<s>\",\"eos_token\":null,"},
        {"/version", "{\"version\":\"0.0.0-fake\"}"},
        {"/ping", "{\"status\":\"ok\"}"},
        {"/health", "{\"status\":\"ok\"}"},
        {"/ready", "{\"status\":\"ready\"}"},
        {"/stats", "\"kv_mapped_bytes\":123456789012,\"kv_live_bytes\":"},
        {"/openapi.json", "{\"openapi\":\"3.1.0\","},
        {"/limits", "{\"max_model_len\":4096,\"max_choices\":1024,\"max_logprobs\":20,"
                    "\"max_body_bytes\":8388608,"},
        {"/kv", "\"mapped_bytes\":123456789012"},
        {"/admin/trace", "\"events\":10,\"lost_events\":7},"},
        {"/admin/trace", "\"name\":\"match\",\"ts\":1007.500,\"dur\":2.500,"},
        {"/admin/trace", "\"name\":\"step\",\"ts\":1020.000,\"dur\":1000,\"args\":{"
                         "\"tokens\":5,\"sequences\":1,\"generated\":2,\"status\":0}}"},
        {"/admin/trace", "\"ts\":2050.000,\"dur\":10,\"args\":{\"tokens\":1,"
                         "\"sequences\":1,\"cut\":true}}"},
        {"/admin/trace", "\"ts\":2060.000,\"args\":{\"mapped\":64,\"live\":40,\"shared\":0}}"},
        {"/admin/trace", "{\"ph\":\"e\",\"pid\":1,\"tid\":3,\"name\":\"running\","
                         "\"ts\":2040.000,\"cat\":\"request\",\"id\":9}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect_get(rows[i].path, rows[i].want);
    expect_status("/v1/models/x", 404, "\"code\":\"model_not_found\"");
}

FX_TEST(test_lost_device)
{
    fake_engine_lose_device(f.eng, true);
    expect_status("/health", 503, "\"code\":\"device_lost\"");
    expect_status("/ready", 503, "\"code\":\"device_lost\"");
    fake_engine_lose_device(f.eng, false);
    expect_get("/health", "{\"status\":\"ok\"}");
    expect_get("/ready", "{\"status\":\"ready\"}");
}

// ---- texts, tokens and vectors ------------------------------------------------------------------

#define MESSAGE(text) "{\"messages\":[{\"role\":\"user\",\"content\":\"" text "\"}]}"

// Of embeddings: "a" is 97 and BOS 256: the count of bytes 1 modulo 8 is 1.
FX_TEST(test_posts)
{
    static const struct {
        const char *path, *body;
        int status; // 0: 200, and `want` is all of the answer
        const char *want;
    } rows[] = {
        {"/tokenize", "{\"prompt\":\"ab\"}", 0,
         "{\"count\":3,\"max_model_len\":4096,\"tokens\":[256,97,98],\"token_strs\":null}"},
        {"/tokenize", "{\"content\":\"a<eot>\",\"add_special_tokens\":false,\"with_pieces\":true}",
         0,
         "{\"count\":2,\"max_model_len\":4096,\"tokens\":[97,263],\"token_strs\":[\"a\","
         "\"<eot>\"]}"},
        {"/tokenize", "{\"prompt\":\"a<eot>\",\"parse_special\":false,\"return_token_strs\":true}",
         200, "\"tokens\":[256,97,60,101,111,116,62],\"token_strs\":[\"<s>\",\"a\",\"<\""},
        {"/tokenize", MESSAGE("hi"), 200, "\"tokens\":[256,104,105]"},
        {"/tokenize", "{\"prompt\":\"\",\"add_special_tokens\":false}", 200, "\"count\":0"},
        {"/tokenize", "{}", 400, "\"param\":\"prompt\""},
        {"/tokenize", "{\"prompt\":\"a\",\"content\":\"b\"}", 400, "exclude each other"},
        {"/detokenize", "{\"tokens\":[256,97,258,263]}", 0,
         "{\"prompt\":\"<s>a b<eot>\",\"content\":\"<s>a b<eot>\"}"},
        {"/detokenize", "{\"tokens\":[256,97],\"skip_special_tokens\":true}", 0,
         "{\"prompt\":\"a\",\"content\":\"a\"}"},
        {"/detokenize", "{\"tokens\":[]}", 0, "{\"prompt\":\"\",\"content\":\"\"}"},
        {"/detokenize", "{\"tokens\":[100000]}", 400, "\"param\":\"tokens\""},
        {"/detokenize", "{\"tokens\":\"a\"}", 400, "\"code\":\"invalid_type\""},
        {"/apply-template", MESSAGE("hi"), 200, "{\"prompt\":\""},
        {"/apply-template", "{\"messages\":[]}", 400, "\"param\":\"messages\""},
        {EMBED, "{\"input\":\"a\",\"normalize\":false}", 0,
         "{\"object\":\"list\",\"data\":[{\"object\":\"embedding\",\"index\":0,"
         "\"embedding\":[0.0,1.0,0.0,0.0,0.0,0.0,0.0,0.0]}],\"model\":\"m\",\"usage\":{"
         "\"prompt_tokens\":2,\"total_tokens\":2}}"},
        {EMBED, "{\"input\":[\"a\",\"bb\"],\"dimensions\":3}", 200,
         "\"index\":1,\"embedding\":[0.0,0.0,1.0]}]"},
        {EMBED, "{\"input\":[[97],[98]],\"normalize\":false}", 200,
         "\"index\":0,\"embedding\":[0.0,1.0,0.0,0.0,0.0,0.0,0.0,0.0]}"},
        {EMBED, "{\"input\":\"a\",\"encoding_format\":\"base64\",\"dimensions\":2}", 200,
         "\"embedding\":\"AAAAAAAAgD8=\""},
        {EMBED, "{}", 400, "\"param\":\"input\""},
        {EMBED, "{\"input\":\"a\",\"dimensions\":9}", 400, "\"param\":\"dimensions\""},
        {EMBED, "{\"input\":\"a\",\"encoding_format\":\"int8\"}", 400,
         "\"param\":\"encoding_format\""},
        {EMBED, "{\"input\":[]}", 400, "no tokens"},
        {EMBED, "{\"input\":\"a\",\"truncate_prompt_tokens\":5}", 400,
         "\"code\":\"unsupported_parameter\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].status)
            fixture_expect_in(&f, rows[i].path, rows[i].body, rows[i].status, rows[i].want);
        else
            fixture_expect(&f, rows[i].path, rows[i].body, rows[i].want);
}

// Of the fake engine's vectors, those of equal bytes are equal, and others here at right angles.
FX_TEST(test_scores_by_vectors)
{
    static const struct {
        const char *path, *body;
        int status; // 0: 200, and `want` is all of the answer
        const char *want;
    } rows[] = {
        {RERANK, "{\"query\":\"a\",\"documents\":[\"b\",{\"text\":\"aa\"},\"c\"]}", 0,
         "{\"id\":\"rerank-1\",\"object\":\"list\",\"model\":\"m\",\"results\":[{\"index\":1,"
         "\"document\":{\"text\":\"aa\"},\"relevance_score\":1.0},{\"index\":0,\"document\":{"
         "\"text\":\"b\"},\"relevance_score\":0.0},{\"index\":2,\"document\":{\"text\":\"c\"},"
         "\"relevance_score\":0.0}],\"usage\":{\"prompt_tokens\":9,\"total_tokens\":9}}"},
        {"/v2/rerank", "{\"query\":\"a\",\"documents\":[\"b\",\"a\"],\"top_n\":1}", 200,
         "\"results\":[{\"index\":1,\"document\":{\"text\":\"a\"},\"relevance_score\":1.0}],"},
        {"/rerank", "{\"query\":\"a\",\"documents\":[\"b\"],\"return_documents\":false}", 200,
         "\"results\":[{\"index\":0,\"relevance_score\":0.0}],"},
        {RERANK, "{\"query\":\"a\",\"documents\":[\"\\u0000\"],\"model\":\"m\",\"user\":\"u\"}",
         200, "\"text\":\"\\u0000\""},
        {RERANK, "{\"documents\":[\"a\"]}", 400, "\"param\":\"query\""},
        {RERANK, "{\"query\":\"a\",\"documents\":[]}", 400, "'documents' has no texts"},
        {RERANK, "{\"query\":\"a\",\"documents\":\"b\"}", 400, "'documents' must be an array"},
        {RERANK, "{\"query\":\"a\",\"documents\":[\"b\",{\"txt\":1}]}", 400,
         "\"param\":\"documents[1]\""},
        {RERANK, "{\"query\":\"a\",\"documents\":[\"b\"],\"top_n\":-1}", 400,
         "\"param\":\"top_n\""},
        {SCORE, "{\"text_1\":\"a\",\"text_2\":[\"a\",\"b\"]}", 0,
         "{\"id\":\"score-1\",\"object\":\"list\",\"created\":1,\"model\":\"m\",\"data\":[{"
         "\"index\":0,\"object\":\"score\",\"score\":1.0},{\"index\":1,\"object\":\"score\","
         "\"score\":0.0}],\"usage\":{\"prompt_tokens\":6,\"total_tokens\":6}}"},
        {"/score", "{\"text_1\":[\"a\",\"b\"],\"text_2\":[\"b\",\"b\"]}", 200,
         "\"score\":0.0},{\"index\":1,\"object\":\"score\",\"score\":1.0}"},
        {SCORE, "{\"text_1\":[\"a\",\"b\"],\"text_2\":\"a\"}", 400,
         "'text_1' must have one text, or as many as 'text_2', which has 1"},
        {SCORE, "{\"text_1\":[],\"text_2\":\"a\"}", 400, "'text_1' has no texts"},
        {SCORE, "{\"text_1\":\"a\",\"text_2\":[3]}", 400, "\"param\":\"text_2[0]\""},
        {SCORE, "{\"text_1\":\"invalid\",\"text_2\":\"a\"}", 400, "the script says"},
        {SCORE, "{\"text_1\":\"fail 0\",\"text_2\":\"a\"}", 500, "the script says so"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].status)
            fixture_expect_in(&f, rows[i].path, rows[i].body, rows[i].status, rows[i].want);
        else
            fixture_expect(&f, rows[i].path, rows[i].body, rows[i].want);
}

static void drop_line(void *ud, const char *line)
{
    (void)ud, (void)line;
}

// The fake engine's score of a pair is a quarter of its second text's tokens.
FX_TEST(test_scores_by_a_cross_encoder)
{
    const fxi_server_options opt = {.model_id = "m", .log = drop_line};
    fixture g = {.eng = fake_engine_new()};
    char body[6000];
    fx_error err;
    fake_engine_scores(g.eng);
    if (open_and_serve(g.eng, &opt, &g.srv, &err) != FX_OK) fail_msg("%s", err.text);
    g.port = fxi_server_port(g.srv);
    fixture_expect(&g, RERANK, "{\"query\":\"q\",\"documents\":[\"bb\",\"ccc\",\"d\"],\"top_n\":2}",
                   "{\"id\":\"rerank-1\",\"object\":\"list\",\"model\":\"m\",\"results\":[{"
                   "\"index\":1,\"document\":{\"text\":\"ccc\"},\"relevance_score\":0.75},{"
                   "\"index\":0,\"document\":{\"text\":\"bb\"},\"relevance_score\":0.5}],"
                   "\"usage\":{\"prompt_tokens\":12,\"total_tokens\":12}}");
    fixture_expect_in(&g, SCORE, "{\"text_1\":[\"a\",\"b\"],\"text_2\":[\"b\",\"bb\"]}", 200,
                      "\"score\":0.25},{\"index\":1,\"object\":\"score\",\"score\":0.5}");
    fixture_expect_in(&g, EMBED, "{\"input\":\"a\"}", 400, "\"param\":\"model\"");
    snprintf(body, sizeof body, "{\"text_1\":\"a\",\"text_2\":\"%0600d\"}", 0);
    fixture_expect_in(&g, SCORE, body, 400, "\"code\":\"context_length_exceeded\"");
    snprintf(body, sizeof body,
             "{\"text_1\":\"a\",\"text_2\":\"%0600d\",\"truncate_prompt_tokens\":-1}", 0);
    fixture_expect_in(&g, SCORE, body, 200, "\"score\":127.5}"); // 512, less BOS and "a"
    fixture_expect_in(&g, SCORE,
                      "{\"text_1\":\"abc\",\"text_2\":\"d\",\"truncate_prompt_tokens\":4}", 400,
                      "the first text alone has 4 tokens");
    fixture_close(&g);
}

FX_TEST(test_scores_need_a_model_for_them)
{
    fixture g = fixture_open((fxi_server_options){0});
    fake_engine_abilities(g.eng, true, false);
    fixture_expect_in(&g, SCORE, "{\"text_1\":\"a\",\"text_2\":\"b\"}", 400, "\"param\":\"model\"");
    fixture_close(&g);
}

// Tokens are counted beyond the context; what is embedded must fit.
FX_TEST(test_long_texts)
{
    char body[6000];
    snprintf(body, sizeof body, "{\"prompt\":\"%05000d\"}", 0);
    fixture_expect_in(&f, "/tokenize", body, 200, "{\"count\":5001,");
    snprintf(body, sizeof body, "{\"input\":\"%0600d\"}", 0);
    fixture_expect_in(&f, EMBED, body, 400, "\"code\":\"context_length_exceeded\"");
}

FX_TEST(test_a_model_does_what_it_can)
{
    fixture g = fixture_open((fxi_server_options){0});
    fake_engine_abilities(g.eng, true, false);
    fixture_expect_in(&g, EMBED, "{\"input\":\"a\"}", 400, "\"param\":\"model\"");
    fake_engine_abilities(g.eng, false, true);
    fixture_expect_in(&g, "/v1/completions", "{\"prompt\":\"a\"}", 400, "\"param\":\"model\"");
    fixture_close(&g);
}

FX_TEST(test_tokens_are_those_that_an_encoder_reads)
{
    fixture g = fixture_open((fxi_server_options){0});
    fixture_expect_in(&g, "/tokenize", "{\"prompt\":\"a\"}", 200, "\"tokens\":[256,97],");
    fake_engine_abilities(g.eng, false, true);
    fixture_expect_in(&g, "/tokenize", "{\"prompt\":\"a\"}", 200, "\"tokens\":[256,97,263],");
    fixture_expect_in(&g, "/tokenize", "{\"prompt\":\"a\",\"add_special_tokens\":false}", 200,
                      "\"tokens\":[97],");
    fixture_close(&g);
}

// ---- for admins ---------------------------------------------------------------------------------

FX_TEST(test_admin_endpoints_need_an_admin)
{
    static const struct {
        const char *method, *path, *body;
    } rows[] = {
        {"GET", "/admin/cache", NULL},
        {"POST", "/admin/cache/clear", "{}"},
        {"POST", "/reset_prefix_cache", "{}"},
        {"POST", RETAIN, "{\"prompt\":\"a\"}"},
        {"GET", "/admin/budget", NULL},
        {"POST", "/admin/budget", "{\"kv_memory_bytes\":5000}"},
        {"POST", "/admin/abort", "{\"id\":\"a\"}"},
        {"POST", "/abort", "{\"id\":\"a\"}"},
        {"GET", "/slots", NULL},
        {"GET", "/kv", NULL},
        {"GET", "/limits", NULL},
        {"POST", "/sleep", ""},
        {"POST", "/wake_up", ""},
        {"GET", "/is_sleeping", NULL},
    };
    fixture open = fixture_open((fxi_server_options){0}); // without keys
    fixture ann = f;
    ann.key = "sk-ann";
    const fake_counts before = fake_engine_counts(f.eng);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fxi_buf b = fixture_call(&open, rows[i].method, rows[i].path, rows[i].body, 403);
        assert_non_null(strstr(b.p, "\"type\":\"permission_error\""));
        fxi_buf_free(&b);
        b = fixture_call(&ann, rows[i].method, rows[i].path, rows[i].body, 403);
        fxi_buf_free(&b);
    }
    const fake_counts after = fake_engine_counts(f.eng);
    assert_memory_equal(&before, &after, sizeof before);
    fixture_close(&open);
}

// With keys an admin's; without keys anyone's. The list of paths is not for those without a key.
FX_TEST(test_who_may_watch)
{
    fixture open = fixture_open((fxi_server_options){0});
    fixture nobody = f, ann = f;
    const struct {
        const fixture *of;
        const char *path;
        int status;
    } rows[] = {
        {&open, "/admin/trace", 200},
        {&f, "/admin/trace", 200},
        {&ann, "/admin/trace", 403},
        {&ann, "/kv/stream", 403},
        {&nobody, "/admin/trace", 401},
        {&nobody, "/kv/stream", 401},
        {&nobody, "/web/index.html", 200},
        {&nobody, "/web/../index.html", 404},
        {&nobody, "/", 401},
    };
    nobody.key = NULL;
    ann.key = "sk-ann";
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fxi_buf b = fixture_call(rows[i].of, "GET", rows[i].path, NULL, rows[i].status);
        fxi_buf_free(&b);
    }
    fixture_close(&open);
}

FX_TEST(test_cache_and_budget)
{
    expect_get("/admin/cache", "\"mapped_bytes\":123456789012");
    fixture_expect(&f, "/admin/cache/clear", "{}", "{\"status\":\"ok\"}");
    fixture_expect(&f, "/reset_prefix_cache", "", "{\"status\":\"ok\"}");
    assert_int_equal(fake_engine_counts(f.eng).n_cleared, 2);
    fixture_expect(&f, "/admin/budget", "{\"kv_memory_bytes\":5000}", "{\"kv_memory_bytes\":5000}");
    assert_int_equal(fake_engine_counts(f.eng).kv_memory_bytes, 5000);
    fixture_expect_in(&f, "/admin/budget", "{\"kv_memory_bytes\":5}", 400,
                      "\"param\":\"kv_memory_bytes\"");
    fixture_expect_in(&f, "/admin/budget", "{}", 400, "\"code\":\"missing_required_parameter\"");
}

// The answer of a request before may have arrived while its place is still being cleared.
static void expect_no_slots(void)
{
    static const char none[] = "{\"object\":\"list\",\"data\":[]}";
    bool is_empty = false;
    for (int n = 0; n < 5000 && !is_empty; n++) {
        fxi_buf b = fixture_call(&f, "GET", "/slots", NULL, 200);
        is_empty = strstr(b.p, none) != NULL;
        fxi_buf_free(&b);
    }
    assert_true(is_empty);
}

// Requests under way are shown without their texts; an id from there ends one.
FX_TEST(test_slots_and_abort)
{
    expect_no_slots();
    fixture mine = f;
    const int fd = http_open(f.port);
    const char *body = "{\"prompt\":\"gate 2 secret\",\"stream\":true,\"request_id\":\"mine\"}";
    http_send(fd,
              "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
              "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
              mine.key, strlen(body), body);
    fake_engine_open(f.eng, 1);
    http_reply r = http_read_until(fd, "\"text\":\"1\"");
    http_reply_free(&r);
    fxi_buf b = fixture_call(&f, "GET", "/slots", NULL, 200);
    assert_non_null(strstr(b.p, "{\"id\":\"cmpl-mine\",\"request_id\":\"req-"));
    assert_non_null(strstr(b.p, "\"path\":\"/v1/completions\",\"tenant\":\"root\",\"state\":"
                                "\"decode\",\"age_s\":"));
    assert_non_null(strstr(b.p, "\"choices\":1,\"prompt_tokens\":14,\"completion_tokens\":1}]}"));
    assert_null(strstr(b.p, "secret"));
    fxi_buf_free(&b);
    fixture_expect(&f, "/abort", "{\"id\":\"cmpl-mine\"}", "{\"aborted\":1}");
    close(fd);
    assert_true(fake_engine_wait_idle(f.eng, 60));
}

// Asleep, the server refuses requests for the engine, and nothing else, until it is woken.
FX_TEST(test_sleep)
{
    const int n_cleared = fake_engine_counts(f.eng).n_cleared;
    fixture_expect(&f, "/sleep", "", "{\"is_sleeping\":true}");
    assert_int_equal(fake_engine_counts(f.eng).n_cleared, n_cleared + 1);
    fixture_expect_in(&f, "/v1/completions", "{\"prompt\":\"say a\"}", 503,
                      "\"code\":\"sleeping\"");
    fixture_expect_in(&f, "/v1/embeddings", "{\"input\":\"a\"}", 503, "\"code\":\"sleeping\"");
    fxi_buf b = fixture_call(&f, "GET", "/ready", NULL, 503);
    fxi_buf_free(&b);
    expect_get("/health", "\"status\":\"ok\"");
    expect_get("/is_sleeping", "true");
    fixture_expect_in(&f, "/tokenize", "{\"prompt\":\"a\"}", 200, "tokens");
    fixture_expect(&f, "/wake_up", "", "{\"is_sleeping\":false}");
    fixture_expect_in(&f, "/v1/completions", "{\"prompt\":\"say a\"}", 200, "\"text\":\"a\"");
}

// What other servers have and this one does not is named.
FX_TEST(test_other_paths_are_named)
{
    static const char *const paths[] = {"/v1/moderations", "/v1/messages/batches",
                                        "/v1/audio/speech"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        fixture_expect_in(&f, paths[i], "{}", 404, paths[i]);
}

// What a client spells as a control token is one in a raw prompt, unless it says otherwise, and
// never in a chat: there it is text that somebody typed.
FX_TEST(test_control_tokens_of_prompts)
{
    static const struct {
        const char *path, *body;
        bool is_token;
    } rows[] = {
        {"/v1/completions", "{\"prompt\":\"a<eot>\"}", true},
        {"/v1/completions", "{\"prompt\":\"a<eot>\",\"parse_special\":false}", false},
        {"/v1/chat/completions", "{\"messages\":[{\"role\":\"user\",\"content\":\"a<eot>\"}]}",
         false},
    };
    enum { BOS = 256, EOT = 263 };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fxi_buf b = fixture_post(&f, rows[i].path, rows[i].body, 200);
        fxi_buf_free(&b);
        const int32_t *id = fake_engine_last(f.eng)->prompt;
        bool found = false;
        for (int k = 0; k < 8; k++) found |= id[k] == EOT;
        assert_true(id[0] == BOS || i == 2);
        assert_int_equal(found, rows[i].is_token);
    }
    fxi_buf b = fixture_post(&f, "/v1/completions",
                             "{\"prompt\":\"ab\",\"add_special_tokens\":false}", 200);
    fxi_buf_free(&b);
    assert_int_equal(fake_engine_last(f.eng)->prompt[0], 'a');
}

// A retained prompt is computed and nothing is generated.
FX_TEST(test_retain)
{
    fixture_expect(&f, RETAIN, "{\"prompt\":[\"abc\",\"d\"],\"keep_seconds\":60}",
                   "{\"object\":\"list\",\"data\":[{\"object\":\"cache.prefix\",\"index\":0,"
                   "\"tokens\":4,\"cached_tokens\":0},{\"object\":\"cache.prefix\",\"index\":1,"
                   "\"tokens\":2,\"cached_tokens\":0}]}");
    const fx_request *r = &fake_engine_last(f.eng)->req;
    assert_int_equal(r->max_tok, 0);
    assert_int_equal(r->keep_priority, 7);
    assert_int_equal(r->keep_s, 60);
    fixture_expect_in(&f, RETAIN, "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}", 200,
                      "\"tokens\":3");
    fixture_expect_in(&f, RETAIN, "{\"keep_priority\":9,\"prompt\":\"a\"}", 400,
                      "\"param\":\"keep_priority\"");
}

FX_TEST(test_abort)
{
    const int fd = http_open(f.port);
    http_send(fd,
              "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk-ann\r\n"
              "X-Request-Id: lost-7\r\nContent-Type: application/json\r\nContent-Length: 18\r\n"
              "\r\n{\"prompt\":\"stuck\"}");
    while (!fake_engine_counts(f.eng).n_running) usleep(1000);
    fixture_expect_in(&f, "/admin/abort", "{\"id\":\"lost-8\"}", 404, "\"param\":\"id\"");
    fixture_expect(&f, "/admin/abort", "{\"id\":\"lost-7\"}", "{\"aborted\":1}");
    http_reply r = http_read(fd);
    assert_int_equal(r.status, 410);
    assert_non_null(strstr(r.body.p, "\"code\":\"aborted\""));
    http_reply_free(&r);
    close(fd);
    assert_true(fake_engine_wait_idle(f.eng, 30));
}

// A prompt that is too long says by how much.
FX_TEST(test_prompts_that_are_too_long)
{
    char body[10000];
    snprintf(body, sizeof body, "{\"prompt\":\"%05000d\"}", 0);
    fixture_expect_in(&f, "/v1/completions", body, 400,
                      "This model's maximum context length is 4096 tokens. However, 'prompt' has "
                      "5001, 905 too many.");
    snprintf(body, sizeof body, "{\"prompt\":\"%09000d\"}", 0);
    fixture_expect_in(&f, "/v1/completions", body, 400, "However, 'prompt' has more than 8192.");
}

FX_TEST(test_embeddings_name_the_option_that_makes_them)
{
    fake_engine_abilities(f.eng, true, false);
    fixture_expect_in(&f, EMBED, "{\"input\":\"a\"}", 400, "--pooling mean");
    fake_engine_abilities(f.eng, true, true);
}

// ---- what operators choose ----------------------------------------------------------------------

FX_TEST(test_operators_choose)
{
    fixture g = fixture_open((fxi_server_options){
        .max_logprobs = 2, .refuse_excess = true, .cut_first = true, .processed_logprobs = true});
    fixture_expect_in(&g, "/v1/completions", "{\"prompt\":\"say a\",\"logprobs\":2}", 200,
                      "\"logprobs\":{\"tokens\"");
    assert_true(fake_engine_last(g.eng)->req.processed_logprobs);
    assert_true(fake_engine_last(g.eng)->req.sampling.cut_first);
    fixture_expect_in(&g, "/v1/completions", "{\"prompt\":\"say a\",\"logprobs\":3}", 400,
                      "\"param\":\"logprobs\"");
    fixture_expect_in(&g, "/v1/completions", "{\"prompt\":\"say a\",\"prompt_logprobs\":3}", 400,
                      "\"param\":\"prompt_logprobs\"");
    fixture_expect_in(&g, "/v1/completions", "{\"prompt\":\"say a\",\"max_tokens\":4091}", 400,
                      "(6 in the prompt, 4091 in the completion).\",\"type\":"
                      "\"invalid_request_error\",\"param\":\"max_tokens\",\"code\":"
                      "\"context_length_exceeded\"");
    fixture_expect_in(&g, "/v1/completions", "{\"prompt\":\"say a\",\"max_tokens\":4090}", 200,
                      "\"text\":\"a\"");
    fixture_close(&g);
    fixture_expect_in(&f, "/v1/completions",
                      "{\"prompt\":\"say a\",\"max_tokens\":9999,\"logprobs\":3}", 200,
                      "\"text\":\"a\"");
    assert_false(fake_engine_last(f.eng)->req.processed_logprobs);
    assert_false(fake_engine_last(f.eng)->req.sampling.cut_first);
}

// What a request does not say comes from the operator, then from the model, then it is usual.
FX_TEST(test_sampling_is_preset)
{
    fixture g = {.eng = fake_engine_new()};
    fx_error err;
    fx_presets own = fx_presets_none(), model = fx_presets_none();
    own.top_k = 7;
    model.top_k = 20;
    model.temperature = 0.25F;
    const fxi_server_options opt = {.presets = &own};
    fake_engine_presets(g.eng, model);
    assert_int_equal(open_and_serve(g.eng, &opt, &g.srv, &err), FX_OK);
    g.port = fxi_server_port(g.srv);
    fixture_expect_in(&g, "/v1/completions", "{\"prompt\":\"say a\",\"min_p\":0.5}", 200,
                      "\"text\"");
    const fx_sampling *s = &fake_engine_last(g.eng)->req.sampling;
    assert_true(s->temperature == 0.25F && s->top_k == 7 && s->top_p == 0.95F && s->min_p == 0.5F &&
                s->repetition_penalty == 1);
    fixture_expect_in(&g, "/v1/chat/completions",
                      "{\"messages\":[{\"role\":\"user\",\"content\":\"say "
                      "a\"}],\"temperature\":1,\"top_k\":0,\"top_p\":1}",
                      200, "\"content\"");
    s = &fake_engine_last(g.eng)->req.sampling;
    assert_true(s->temperature == 1 && s->top_k == 0 && s->top_p == 1);
    fixture_expect_in(&g, "/v1/responses", "{\"input\":\"say a\",\"top_p\":0.5}", 200,
                      "\"temperature\":0.25,");
    fxi_buf b = fixture_call(&g, "GET", "/props", NULL, 200);
    assert_non_null(strstr(b.p, "\"params\":{\"temperature\":0.25,\"top_k\":7,\"top_p\":0.95,\"min_"
                                "p\":0,\"repeat_penalty\":1}"));
    fxi_buf_free(&b);
    fixture_close(&g);
}

// What its makers call the model is a name like those of --alias; none is listed twice.
FX_TEST(test_the_makers_name_is_an_alias)
{
    fixture g = {.eng = fake_engine_new()};
    fx_error err;
    const fxi_server_options opt = {.alias = "gpt-4o"};
    fake_engine_title(g.eng, "Fake Model 1 B");
    assert_int_equal(open_and_serve(g.eng, &opt, &g.srv, &err), FX_OK);
    g.port = fxi_server_port(g.srv);
    fxi_buf b = fixture_call(&g, "GET", "/v1/models", NULL, 200);
    const char *first = strstr(b.p, "\"id\":\"fake\""), *second = strstr(b.p, "\"id\":\"gpt-4o\"");
    const char *third = strstr(b.p, "\"id\":\"Fake Model 1 B\"");
    assert_true(first && second && third && first < second && second < third);
    fxi_buf_free(&b);
    fixture_expect_in(&g, "/v1/completions", "{\"prompt\":\"say a\",\"model\":\"Fake Model 1 B\"}",
                      200, "\"model\":\"Fake Model 1 B\"");
    fixture_close(&g);
    g = (fixture){.eng = fake_engine_new()};
    fake_engine_title(g.eng, "fake");
    assert_int_equal(open_and_serve(g.eng, &opt, &g.srv, &err), FX_OK);
    g.port = fxi_server_port(g.srv);
    b = fixture_call(&g, "GET", "/v1/models", NULL, 200);
    assert_null(strstr(strstr(b.p, "\"id\":\"fake\"") + 1, "\"id\":\"fake\""));
    fxi_buf_free(&b);
    fixture_close(&g);
}

static void keep_line(void *ud, const char *line)
{
    fxi_buf *b = ud;
    fxi_buf_str(b, line);
    fxi_buf_str(b, "\n");
}

// Fields that nobody knows are ignored, and named in the log; what is no name is not repeated.
FX_TEST(test_unknown_fields_are_logged)
{
    fxi_buf lines = {0};
    fixture g = fixture_open((fxi_server_options){.log = keep_line, .log_ud = &lines});
    fixture_expect_in(&g, "/v1/completions",
                      "{\"prompt\":\"say a\",\"store\":true,\"dear diary\":1,\"top_k\":2}", 200,
                      "\"text\":\"a\"");
    fixture_expect_in(&g, "/v1/completions", "{\"prompt\":\"say a\"}", 200, "\"text\":\"a\"");
    fixture_close(&g);
    assert_non_null(strstr(lines.p, " ignored=store,? "));
    const char *second = strchr(lines.p, '\n') + 1;
    assert_non_null(strstr(lines.p, "Z warn POST"));
    assert_non_null(strstr(second, "Z info POST"));
    assert_null(strstr(second, "ignored"));
    fxi_buf_free(&lines);
}

FX_RUN_GROUP(test_server_endpoints, open_once, close_once)
