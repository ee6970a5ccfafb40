// test_server_allocation.c - every allocation of the server fails once, and once together with all
// later ones: from its start to its stop, on every thread, over a fake engine. See
// allocation_sweep.h; nothing leaks (ASan checks).
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/allocation_sweep.h"
#include "server/fake_engine.h"
#include "server/open_and_serve.h"
#include "unit/cmocka_all.h"

#define TEXT "/v1/completions"
#define CHAT "/v1/chat/completions"

typedef struct fixture {
    fx_engine *eng;
    fxi_server *srv;
} fixture;

static void drop_line(void *ud, const char *line)
{
    (void)ud, (void)line;
}

static const fxi_server_options options = {
    .n_worker = 1, .log = drop_line, .tool_parser = "hermes", .reasoning_parser = "think"};

static fixture begin(void)
{
    fixture f = {.eng = fake_engine_new()};
    fx_error err;
    if (open_and_serve(f.eng, &options, &f.srv, &err) != FX_OK) fail_msg("%s", err.text);
    return f;
}

static void end(fixture *f)
{
    fxi_server_stop(f->srv);
    fx_engine_close(f->eng);
}

// ---- requests ---------------------------------------------------------------------------------

static const sweep_row rows[] = {
    {"GET", "/health", NULL, 200, "{\"status\":\"ok\"}"},
    {"GET", "/", NULL, 200, "POST /v1/chat/completions"},
    {"GET", "/web/app.js", NULL, 200, "app.js"},
    {"GET", "/stats", NULL, 200, "}"},
    {"GET", "/v1/models", NULL, 200, "\"data\":[{\"id\":\"fake\""},
    {"GET", "/v1/models/fake", NULL, 200, "\"max_model_len\":4096"},
    {"GET", "/nothing", NULL, 404, "not_found_error"},
    {"GET", TEXT, NULL, 405, "invalid_request_error"},
    {"POST", TEXT, "{\"prompt\":\"say a b\"}", 200, "\"text\":\"a b\""},
    {"POST", TEXT, "{\"prompt\":[115,97,121,32,122],\"stop_token_ids\":[1,2]}", 200,
     "\"text\":\"z\""},
    {"POST", TEXT,
     "{\"prompt\":[\"say a\",\"halt 2\"],\"n\":2,\"stop\":[\"q\\u0041\",\"r\"],\"logit_bias\":"
     "{\"7\":1.5},\"cache_salt\":\"s\"}",
     200, "\"stop_reason\":\"r\""},
    {"POST", TEXT, "{\"prompt\":\"fail 3\"}", 500, "the script says so"},
    {"POST", TEXT, "{\"prompt\":\"full\"}", 429, "queue_full"},
    {"POST", TEXT, "{\"prompt\":", 400, "invalid_json"},
    {"POST", TEXT, "{\"prompt\":\"flood 3\"}", 200, "ffff"},
    {"POST", TEXT,
     "{\"prompt\":\"count 4\",\"n\":2,\"stream\":true,\"stream_options\":{\"include_usage\":true}}",
     200, "\"usage\":{"},
    {"POST", CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"count 5\"}]}", 200,
     "\"completion_tokens\":5"},
    {"POST", CHAT,
     "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"count 5\"}]}],"
     "\"stream\":true}",
     200, "\"finish_reason\":\"stop\""},
    {"POST", CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":\"refuse\"}]}", 400,
     "line 3: no"},
    {"POST", "/apply-template", "{\"messages\":[{\"role\":\"user\",\"content\":\"a \\\"b\"}]}", 200,
     "{\"prompt\":\"a \\\"b\"}"},
    {"POST", CHAT,
     "{\"messages\":[{\"role\":\"user\",\"content\":\"say <think> a </think> "
     "<tool_call>{\\\"name\\\": \\\"f\\\"}\"}],\"tools\":[{\"type\":\"function\",\"function\":{"
     "\"name\":\"f\"}}],\"stream\":true}",
     200, "\"finish_reason\":\"tool_calls\""},
    {"POST", CHAT,
     "{\"messages\":[{\"role\":\"user\",\"content\":\"say a\\n{\\\"name\\\": \\\"f\\\", "
     "\\\"arguments\\\": \\\"{}\\\"}\"}],\"tools\":[{\"type\":\"function\",\"function\":{"
     "\"name\":\"f\"}}]}",
     200, "\"finish_reason\":\"tool_calls\""},
    {"POST", "/v1/responses",
     "{\"input\":[{\"role\":\"user\",\"content\":\"say <think> a </think> b "
     "<tool_call>{\\\"name\\\": \\\"f\\\"}\"}],\"tools\":[{\"type\":\"function\",\"name\":\"f\"}],"
     "\"reasoning\":{\"effort\":\"low\"},\"stream\":true}",
     200, "response.completed"},
    {"POST", "/v1/messages",
     "{\"max_tokens\":50,\"system\":\"s\",\"messages\":[{\"role\":\"user\",\"content\":\"say a\"}],"
     "\"tools\":[{\"name\":\"f\",\"input_schema\":{}}],\"tool_choice\":{\"type\":\"any\"}}",
     200, "\"stop_reason\":\"end_turn\""},
    {"POST", "/v1/messages/count_tokens",
     "{\"messages\":[{\"role\":\"user\",\"content\":\"abc\"}]}", 200, "{\"input_tokens\":4}"},
    {"GET", "/metrics", NULL, 200, "# TYPE"},
    {"GET", "/openapi.json", NULL, 200, "\"openapi\":\"3.1"},
    {"POST", "/tokenize", "{\"prompt\":\"ab\",\"return_token_strs\":true}", 200, "\"count\":3"},
    {"POST", "/detokenize", "{\"tokens\":[97,98]}", 200, "\"prompt\":\"ab\""},
    {"POST", "/v1/rerank", "{\"query\":\"a\",\"documents\":[\"b\",{\"text\":\"a\"}]}", 200,
     "\"results\":[{\"index\":1"},
    {"POST", "/v1/score", "{\"text_1\":\"a\",\"text_2\":[\"b\",\"a\"]}", 200, "\"score\":1.0"},
    {"POST", "/v1/embeddings", "{\"input\":[\"a\",\"b\"]}", 200, "\"embedding\":["},
    {"POST", TEXT,
     "{\"prompt\":\"say a b\",\"echo\":true,\"logprobs\":2,\"prompt_logprobs\":1,\"bad_words\":["
     "\"x\"],\"return_token_ids\":true}",
     200, "\"finish_reason\":\"stop\""},
    {"POST", CHAT,
     "{\"messages\":[{\"role\":\"user\",\"content\":\"count 3\"}],\"logprobs\":true,"
     "\"top_logprobs\":2,\"stream\":true}",
     200, "\"finish_reason\":\"stop\""},
};

static bool is_fake_idle(const fx_engine *eng)
{
    return !fake_engine_counts((fx_engine *)eng).n_running; // only the lock changes
}

static void sweep_rows(bool and_later)
{
    fixture f = begin();
    const sweep s = {f.eng, f.srv, fake_engine_is_own, is_fake_idle};
    assert_true(sweep_requests(&s, rows, sizeof rows / sizeof rows[0], and_later) > 200);
    end(&f);
}

FX_TEST(test_requests_survive_each_failed_allocation)
{
    sweep_rows(false);
}

FX_TEST(test_requests_survive_when_memory_stays_short)
{
    sweep_rows(true);
}

// ---- start and stop ---------------------------------------------------------------------------

static int count_files(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir)) n++;
    closedir(dir);
    return n;
}

// False: so many allocations are not made.
static bool try_start(long at, bool and_later)
{
    bool ours;
    const failing_heap plan = {fake_engine_is_own, at, and_later};
    fx_error err = {0};
    fxi_server *srv = NULL;
    fx_engine *eng = fake_engine_new();
    const int n_file = count_files();
    failing_heap_spare(false);
    failing_heap_arm(&plan);
    fx_status st = open_and_serve(eng, &options, &srv, &err);
    fxi_server_stop(srv);
    const long n_failed = failing_heap_disarm(&ours);
    failing_heap_spare(true);
    if (st != FX_OK) assert_true(!srv && n_failed && err.status == st && err.text[0]);
    assert_int_equal(count_files(), n_file);
    fx_engine_close(eng);
    return n_failed > 0;
}

FX_TEST(test_start_and_stop_survive_failed_allocations)
{
    long n[2] = {0};
    while (try_start(n[0], false)) n[0]++;
    while (try_start(n[1], true)) n[1]++;
    assert_true(n[0] >= 10 && n[1] >= 10);
}

static int set_up(void **state)
{
    failing_heap_spare(true);
    return 0;
}

FX_RUN_GROUP(test_server_allocation, set_up, NULL)
