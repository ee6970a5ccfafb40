// test_engine.c - the engine as its users see it, on a small model: outputs that do not depend on
// company, preemption, threads or step size; ends of every kind; bad requests; cancelling and
// closing at any time.
#include "unit/cmocka_all.h"

#include "unit/engine/support/company.h"
#include "unit/engine/support/unthreaded.h"
#include "unit/in_child.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// All requests at once must answer what they answer alone. Closes the engine, which has no thread
// of its own if all are to be there before the first iteration. Returns the number of preemptions.
static uint64_t check_together(fx_engine *eng, bool has_thread)
{
    static client c[N_REQUEST];
    static prompt p[N_REQUEST];
    for (int i = 0; i < N_REQUEST; i++) start_client(&c[i], eng, &p[i], i);
    while (!has_thread && fxi_iteration_run(eng)) {
    }
    for (int i = 0; i < N_REQUEST; i++) {
        client_wait(&c[i]);
        assert_int_equal(c[i].choice[0].finish, FX_FINISH_LENGTH);
        assert_int_equal(c[i].n_event_after_last, 0);
        assert_int_equal(c[i].choice[0].n_tok, N_GEN);
        assert_memory_equal(c[i].choice[0].tok, alone[i], sizeof alone[i]);
    }
    fx_stats st;
    fx_engine_stats(eng, &st);
    assert_int_equal(st.n_request, N_REQUEST);
    assert_true(st.kv_peak_mapped_bytes <= st.kv_budget_bytes);
    if (has_thread)
        fx_engine_close(eng);
    else
        unthreaded_close(eng);
    for (int i = 0; i < N_REQUEST; i++) client_free(&c[i]);
    return st.n_preempt_recompute;
}

FX_TEST(test_same_tokens_in_any_company)
{
    assert_int_equal(check_together(open_engine((fx_options){.n_thread = 2}), true), 0);
    check_together(open_engine((fx_options){.n_thread = 3, .step_tok = 16, .max_seq = 4}), true);
    check_together(open_engine((fx_options){.n_thread = 1, .step_tok = 1, .max_seq = 1}), true);
}

FX_TEST(test_same_tokens_when_preempted)
{
    fx_engine *eng = open_engine((fx_options){.n_thread = 1});
    const fx_model_info *info = fx_engine_info(eng);
    uint64_t bytes = (uint64_t)info->kv_bytes_per_tok * 400; // about two sequences at full length
    fx_engine_close(eng);
    eng = unthreaded_open(MODEL, (fx_options){.n_thread = 2, .kv_memory_bytes = bytes});
    assert_true(check_together(eng, false) > 0);
}

// ---- ends --------------------------------------------------------------------------------------

FX_TEST(test_ends)
{
    fx_engine *eng = open_engine((fx_options){.n_thread = 1});
    const int ctx = fx_engine_info(eng)->ctx_tok;
    const int32_t bos = 1;
    const struct {
        int max_tok, n_tok;
    } row[] = {{0, 0}, {1, 1}, {5, 5}, {-1, ctx - 1}, {1 << 30, ctx - 1}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        client c;
        client_init(&c, eng, &bos, 1, row[i].max_tok);
        assert_int_equal(client_submit(&c, NULL), FX_OK);
        client_wait(&c);
        assert_int_equal(c.choice[0].finish, FX_FINISH_LENGTH);
        assert_int_equal(c.choice[0].n_tok, row[i].n_tok);
        assert_int_equal(c.choice[0].n_generated, row[i].n_tok);
        assert_int_equal(c.choice[0].n_prompt, 1);
        client_free(&c);
    }
    fx_engine_close(eng);
}

// Stops at a piece of the greedy answer.
FX_TEST(test_stop_string)
{
    fx_engine *eng = open_engine((fx_options){.n_thread = 1});
    prompt p = make_prompt(2);
    client whole, cut;
    client_init(&whole, eng, p.tok, p.n, N_GEN);
    assert_int_equal(client_submit(&whole, NULL), FX_OK);
    client_wait(&whole);
    const char *text = whole.choice[0].text.p;
    size_t n = whole.choice[0].text.n, at = n / 2;
    while ((text[at] & 0xC0) == 0x80) at++;
    size_t len = 1;
    while ((text[at + len] & 0xC0) == 0x80) len++;
    char *stop = strndup(text + at, len);
    size_t first = (size_t)(strstr(text, stop) - text);

    client_init(&cut, eng, p.tok, p.n, N_GEN);
    cut.req.stop = (const char *const[]){stop};
    cut.req.n_stop = 1;
    assert_int_equal(client_submit(&cut, NULL), FX_OK);
    client_wait(&cut);
    assert_int_equal(cut.choice[0].finish, FX_FINISH_STOP);
    assert_int_equal(cut.choice[0].text.n, first);
    assert_true(first == 0 || memcmp(cut.choice[0].text.p, text, first) == 0);
    free(stop);
    client_free(&whole);
    client_free(&cut);
    fx_engine_close(eng);
}

FX_TEST(test_choices_differ_and_repeat)
{
    fx_engine *eng = open_engine((fx_options){.n_thread = 2});
    prompt p = make_prompt(3);
    client c[2];
    for (int i = 0; i < 2; i++) {
        client_init(&c[i], eng, p.tok, p.n, 20);
        c[i].req.n_choice = 3;
        c[i].req.sampling = (fx_sampling){.temperature = 1, .top_p = 1, .seed = 99};
        assert_int_equal(client_submit(&c[i], NULL), FX_OK);
    }
    for (int i = 0; i < 2; i++) client_wait(&c[i]);
    for (int k = 0; k < 3; k++)
        assert_memory_equal(c[0].choice[k].tok, c[1].choice[k].tok, 20 * sizeof(int32_t));
    assert_memory_not_equal(c[0].choice[0].tok, c[0].choice[1].tok, 20 * sizeof(int32_t));
    for (int i = 0; i < 2; i++) client_free(&c[i]);
    fx_engine_close(eng);
}

// ---- bad requests ------------------------------------------------------------------------------

static void expect_refusal(fx_engine *eng, fx_request req, fx_status want)
{
    fx_error err = {0};
    uint64_t id;
    assert_int_equal(fx_submit(eng, &req, &id, &err), want);
    assert_int_equal(err.status, want);
    assert_true(strlen(err.text) > 5);
    assert_null(strchr(err.text, '\n'));
}

FX_TEST(test_bad_requests)
{
    fx_engine *eng = open_engine((fx_options){.n_thread = 1, .ctx_tok = 64});
    static const int32_t good[64] = {1, 5, 6}, bad_id[] = {1, 320}, negative[] = {-1};
    client c;
    client_init(&c, eng, good, 3, 4);
    const fx_request ok = c.req;
    fx_request r;
#define EXPECT(status, ...) (r = ok, __VA_ARGS__, expect_refusal(eng, r, status))
    EXPECT(FX_EINVAL, r.n_prompt = 0);
    EXPECT(FX_EINVAL, r.prompt = bad_id, r.n_prompt = 2);
    EXPECT(FX_EINVAL, r.prompt = negative, r.n_prompt = 1);
    EXPECT(FX_ECONTEXT, r.n_prompt = 64);
    EXPECT(FX_EINVAL, r.n_choice = 0);
    EXPECT(FX_EINVAL, r.n_choice = FX_MAX_CHOICE + 1);
    EXPECT(FX_EINVAL, r.on_event = NULL);
    EXPECT(FX_EINVAL, r.sampling.temperature = -1);
    EXPECT(FX_EINVAL, r.sampling.temperature = 0.0f / 0.0f);
    EXPECT(FX_EINVAL, r.sampling.top_p = 0);
    EXPECT(FX_EINVAL, r.sampling.top_p = 1.5f);
    EXPECT(FX_EINVAL, r.sampling.min_p = -0.1f);
    EXPECT(FX_EINVAL, r.sampling.top_k = -3);
    EXPECT(FX_EINVAL, r.stop = (const char *const[]){""}, r.n_stop = 1);
#undef EXPECT
    assert_int_equal(client_submit(&c, NULL), FX_OK); // it still serves
    client_wait(&c);
    assert_int_equal(c.choice[0].n_tok, 4);
    client_free(&c);
    fx_engine_close(eng);
}

static void expect_no_engine(fx_options opt, fx_status want)
{
    fx_engine *eng = (fx_engine *)&opt;
    fx_error err = {0};
    assert_int_equal(fx_engine_open(&opt, &eng, &err), want);
    assert_null(eng);
    assert_true(strlen(err.text) > 5);
}

// With every manager, a budget that nobody can use is refused by a line that says what would do.
FX_TEST(test_budgets_out_of_range)
{
    for (int i = 0; fx_kv_manager_name(i); i++) {
        fx_options opt = {.model_path = MODEL, .kv_manager = fx_kv_manager_name(i), .n_thread = 1};
        fx_engine *eng = NULL;
        fx_error err = {0};
        fx_model_info info;
        opt.kv_memory_bytes = 1000;
        assert_int_equal(fx_engine_open(&opt, &eng, &err), FX_ENOSPACE);
        if (!strstr(err.text, "1000 bytes") || strstr(err.text, "VT_")) fail_msg("%s", err.text);
        opt.kv_memory_bytes = (uint64_t)100 << 40;
        assert_int_equal(fx_engine_open(&opt, &eng, &err), FX_EINVAL);
        assert_non_null(strstr(err.text, "109951162777600 bytes of KV memory; this machine"));
        assert_int_equal(fx_options_check(&opt, &info, &err), FX_EINVAL);
    }
    fx_engine *eng = open_engine((fx_options){.n_thread = 1});
    assert_int_equal(fx_set_kv_memory(eng, (uint64_t)100 << 40, NULL), FX_EINVAL);
    fx_engine_close(eng);
}

FX_TEST(test_bad_options)
{
    expect_no_engine((fx_options){.model_path = NULL}, FX_EINVAL);
    expect_no_engine((fx_options){.model_path = "/no/such/file.gguf"}, FX_EIO);
    expect_no_engine((fx_options){.model_path = FX_SOURCE_DIR "/CMakeLists.txt"}, FX_EFORMAT);
    expect_no_engine((fx_options){.model_path = MODEL, .n_thread = -1}, FX_EINVAL);
    expect_no_engine((fx_options){.model_path = MODEL, .ctx_tok = -1}, FX_EINVAL);
    expect_no_engine((fx_options){.model_path = MODEL, .kv_memory_bytes = 1}, FX_ENOSPACE);
}

// ---- cancelling and closing --------------------------------------------------------------------

FX_TEST(test_cancel)
{
    fx_engine *eng = open_engine((fx_options){.n_thread = 1, .max_seq = 2});
    static client c[4];
    prompt p[4];
    for (int i = 0; i < 4; i++) {
        p[i] = make_prompt(i);
        client_init(&c[i], eng, p[i].tok, p[i].n, i == 0 ? 40 : -1);
        assert_int_equal(client_submit(&c[i], NULL), FX_OK);
    }
    client_wait_tokens(&c[1], 3);
    for (int i = 1; i < 4; i++) fx_cancel(eng, c[i].id); // one runs, the others wait
    fx_cancel(eng, 123456);
    for (int i = 1; i < 4; i++) {
        client_wait(&c[i]);
        assert_int_equal(c[i].n_event_after_last, 0);
    }
    assert_int_equal(c[3].choice[0].finish, FX_FINISH_CANCEL);
    client_wait(&c[0]);
    assert_int_equal(c[0].choice[0].n_tok, 40);
    fx_engine_close(eng);
    for (int i = 0; i < 4; i++) client_free(&c[i]);
}

FX_TEST(test_close_ends_everything)
{
    for (int round = 0; round < 8; round++) {
        fx_engine *eng = open_engine((fx_options){.n_thread = 2, .max_seq = 2});
        static client c[6];
        prompt p[6];
        for (int i = 0; i < 6; i++) {
            p[i] = make_prompt(i);
            client_init(&c[i], eng, p[i].tok, p[i].n, -1);
            c[i].req.n_choice = 1 + i % 2;
            assert_int_equal(client_submit(&c[i], NULL), FX_OK);
        }
        client_wait_tokens(&c[0], round);
        fx_engine_close(eng);
        for (int i = 0; i < 6; i++) {
            assert_true(c[i].last);
            assert_int_equal(c[i].n_event_after_last, 0);
            client_free(&c[i]);
        }
    }
}

// Each request is submitted again from its last event, until that is refused.
typedef struct resubmission {
    fx_engine *eng;
    fx_request req;
    int n_closed;
} resubmission;

static void submit_again(void *ud, const fx_event *ev)
{
    resubmission *r = ud;
    uint64_t id;
    if (ev->last) r->n_closed += fx_submit(r->eng, &r->req, &id, NULL) == FX_ECLOSED;
}

FX_TEST(test_a_closing_engine_refuses)
{
    static const int32_t bos = 1;
    resubmission r = {.eng = open_engine((fx_options){.n_thread = 1, .max_seq = 2})};
    r.req = fx_request_default();
    r.req.prompt = &bos;
    r.req.n_prompt = 1;
    r.req.on_event = submit_again;
    r.req.ud = &r;
    uint64_t id;
    for (int i = 0; i < 4; i++) assert_int_equal(fx_submit(r.eng, &r.req, &id, NULL), FX_OK);
    fx_engine_close(r.eng);
    assert_int_equal(r.n_closed, 4);
}

FX_TEST(test_queue_is_bounded)
{
    fx_engine *eng = open_engine((fx_options){.n_thread = 1, .max_seq = 1, .max_queue = 2});
    static client c[16];
    const int32_t bos = 1;
    int n_ok = 0, n_full = 0;
    for (int i = 0; i < 16; i++) {
        client_init(&c[i], eng, &bos, 1, -1);
        fx_status st = client_submit(&c[i], NULL);
        n_ok += st == FX_OK;
        n_full += st == FX_EQUEUE;
        if (st != FX_OK) c[i].last = true;
    }
    assert_int_equal(n_ok + n_full, 16);
    assert_true(n_full > 0);
    fx_engine_close(eng);
    for (int i = 0; i < 16; i++) client_free(&c[i]);
}

FX_TEST(test_memory_follows_load)
{
    fx_engine *eng = open_engine((fx_options){.n_thread = 1});
    fx_stats st;
    fx_engine_stats(eng, &st);
    assert_int_equal(st.kv_mapped_bytes, 0); // nothing is mapped at start
    client c;
    prompt p = make_prompt(4);
    client_init(&c, eng, p.tok, p.n, 30);
    assert_int_equal(client_submit(&c, NULL), FX_OK);
    client_wait(&c);
    fx_engine_close(eng);
    client_free(&c);
}

static void close_copy(void *of)
{
    fx_engine_close(of);
}

// A child of fork(2) has none of the engine's threads, and the rows are shared with the parent.
FX_TEST(test_a_child_that_closes_leaves_the_parents_streams)
{
    fx_engine *eng = open_engine((fx_options){.n_thread = 2});
    client c;
    prompt p;
    start_client(&c, eng, &p, 3);
    run_in_child(close_copy, eng);
    client_wait(&c);
    assert_int_equal(c.choice[0].n_tok, N_GEN);
    assert_memory_equal(c.choice[0].tok, alone[3], sizeof alone[3]);
    fx_engine_close(eng);
    client_free(&c);
}

FX_RUN_GROUP(test_engine, run_alone, NULL)
