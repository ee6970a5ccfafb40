// test_serve_allocation.c - every allocation of the server and the engine under it fails once, and
// once together with all later ones: from the body of a request to its last token. See
// allocation_sweep.h; nothing leaks (ASan checks), and the KV cache holds nothing at the end.
#include <stdlib.h>

#include "server/allocation_sweep.h"
#include "server/open_and_serve.h"
#include "unit/cmocka_all.h"

#define TEXT "/v1/completions"
#define CHAT "/v1/chat/completions"

static const sweep_row rows[] = {
    {"POST", TEXT, "{\"prompt\":\"Once upon\",\"max_tokens\":2,\"temperature\":0}", 200,
     "\"finish_reason\":\"length\""},
    {"POST", TEXT,
     "{\"prompt\":\"The\",\"max_tokens\":3,\"n\":2,\"stop\":[\"qqqq\"],\"logprobs\":2,\"echo\":"
     "true,"
     "\"seed\":1,\"ignore_eos\":true}",
     200, "\"finish_reason\":\"length\""},
    {"POST", TEXT,
     "{\"prompt\":\"A dog\",\"max_tokens\":3,\"use_beam_search\":true,\"n\":2,\"ignore_eos\":true,"
     "\"temperature\":0}",
     200, "\"finish_reason\":\"length\""},
    {"POST", CHAT,
     "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"max_tokens\":2,\"stream\":true,"
     "\"ignore_eos\":true}",
     200, "\"finish_reason\":\"length\""},
    {"GET", "/kv/stream", NULL, 200, "\"requests\":[]"},
    {"GET", "/kv/snapshot", NULL, 200, "\"requests\":[]"},
};

static bool is_idle(const fx_engine *eng)
{
    fx_stats st;
    fx_engine_stats(eng, &st);
    return !st.n_running && !st.n_waiting;
}

static void drop_line(void *ud, const char *line)
{
    (void)ud, (void)line;
}

static fx_options engine_options(void)
{
    fx_options opt = fx_options_default();
    opt.model_path = FX_SOURCE_DIR "/models/storyteller.gguf";
    opt.n_thread = 1;
    opt.kv_memory_bytes = 64 << 20;
    return opt;
}

static void sweep_engine(bool and_later)
{
    const fx_options opt = engine_options();
    fx_error err;
    fx_stats st;
    sweep s = {.is_idle = is_idle};
    if (fx_engine_open(&opt, &s.eng, &err) != FX_OK) fail_msg("%s", err.text);
    const fxi_server_options serve = {.n_worker = 1, .log = drop_line};
    if (open_and_serve(s.eng, &serve, &s.srv, &err) != FX_OK) fail_msg("%s", err.text);
    assert_true(sweep_requests(&s, rows, sizeof rows / sizeof rows[0], and_later) > 100);
    fxi_server_stop(s.srv);
    fx_engine_stats(s.eng, &st);
    assert_int_equal(st.kv_live_bytes, 0);
    fx_engine_close(s.eng);
}

FX_TEST(test_answers_survive_each_failed_allocation)
{
    sweep_engine(false);
}

FX_TEST(test_answers_survive_when_memory_stays_short)
{
    sweep_engine(true);
}

// False: so many allocations are not made.
static bool try_open(long at, bool and_later)
{
    const failing_heap plan = {NULL, at, and_later};
    const fx_options opt = engine_options();
    fx_engine *eng = NULL;
    fx_error err = {0};
    bool ours;
    failing_heap_spare(false);
    failing_heap_arm(&plan);
    const fx_status st = fx_engine_open(&opt, &eng, &err);
    const long n_failed = failing_heap_disarm(&ours);
    failing_heap_spare(true);
    if (st == FX_OK)
        fx_engine_close(eng);
    else
        assert_true(n_failed && !eng && err.status == st && err.text[0]);
    return n_failed > 0;
}

FX_TEST(test_a_load_survives_failed_allocations)
{
    long n[2] = {0};
    while (try_open(n[0], false)) n[0]++;
    while (try_open(n[1], true)) n[1]++;
    assert_true(n[0] > 50 && n[1] > 50);
}

static int set_up(void **state)
{
    failing_heap_spare(true);
    return 0;
}

FX_RUN_GROUP(test_serve_allocation, set_up, NULL)
