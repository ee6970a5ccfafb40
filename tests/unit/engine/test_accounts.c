// test_accounts.c - what the engine counts: where the time of each request went, the sizes of its
// steps, and its calls of the KV cache and of the system below.
#include "unit/cmocka_all.h"

#include "unit/engine/support/company.h"
#include "unit/engine/support/unthreaded.h"

#include <string.h>

enum { ANSWER_TOK = 4, PROMPT_TOK = 40 };

typedef struct seen {
    fx_event first, end;
    uint64_t gap_us[2 * ANSWER_TOK];
    int n_tok;
    bool last;
} seen;

static void note_event(void *ud, const fx_event *ev)
{
    seen *s = ud;
    if (ev->token >= 0 && !s->n_tok) s->first = *ev;
    if (ev->token >= 0) s->gap_us[s->n_tok++] = ev->gap_us;
    if (ev->last) s->end = *ev;
    s->last = ev->last;
}

static fx_engine *open_here(fx_options opt)
{
    fx_engine *eng = unthreaded_open_single(MODEL, opt);
    (void)unthreaded_set_clock(eng);
    return eng;
}

static void submit(fx_engine *eng, fx_request req, const prompt *p, seen *s)
{
    req.on_event = note_event;
    req.ud = s;
    *s = (seen){.n_tok = 0};
    (void)unthreaded_submit(eng, req, p->tok, PROMPT_TOK, ANSWER_TOK);
}

// 10 ms before each iteration.
static void finish(fx_engine *eng, const seen *s)
{
    while (!s->last) {
        unthreaded_clock_us += 10000;
        (void)fxi_iteration_run(eng);
    }
}

// The second request waits until the only place is free. The times add up to its age.
FX_TEST(test_the_times_of_a_request)
{
    fx_engine *eng = open_here((fx_options){.max_seq = 1});
    prompt a = make_prompt(0), b = make_prompt(1);
    seen sa, sb;
    submit(eng, fx_request_default(), &a, &sa);
    submit(eng, fx_request_default(), &b, &sb);
    finish(eng, &sb);
    assert_int_equal(sa.first.queued_us, 10000);
    assert_int_equal(sa.first.prefill_us, 0); // one step computes the prompt and draws
    assert_int_equal(sa.end.decode_us, (ANSWER_TOK - 1) * 10000);
    assert_int_equal(sb.end.queued_us, (ANSWER_TOK + 1) * 10000);
    assert_int_equal(sb.end.queued_us + sb.end.prefill_us + sb.end.decode_us,
                     unthreaded_clock_us - 1000000000);
    assert_int_equal(sa.gap_us[0], 0);
    for (int i = 1; i < ANSWER_TOK; i++) assert_int_equal(sa.gap_us[i], 10000);
    unthreaded_close(eng);
}

// A prompt in chunks takes several iterations until its first token.
FX_TEST(test_prefill_is_counted_apart)
{
    fx_engine *eng = open_here((fx_options){.max_seq = 1, .step_tok = 16});
    prompt a = make_prompt(0);
    seen s;
    submit(eng, fx_request_default(), &a, &s);
    finish(eng, &s);
    assert_int_equal(s.end.queued_us, 10000);
    assert_int_equal(s.end.prefill_us, 2 * 10000); // 16 + 16 + 8
    fx_details d;
    fx_engine_details(eng, &d);
    assert_int_equal(d.step_tok.count[4], 2); // 9 .. 16 tokens
    assert_int_equal(d.step_tok.count[3], 1); // 5 .. 8
    assert_int_equal(d.step_tok.count[0], ANSWER_TOK - 1);
    assert_int_equal(d.step_tok.sum, PROMPT_TOK + ANSWER_TOK - 1);
    unthreaded_close(eng);
}

FX_TEST(test_hidden_tokens_have_no_gaps)
{
    fx_engine *eng = open_here((fx_options){0});
    prompt a = make_prompt(0);
    seen s;
    fx_request req = fx_request_default();
    req.n_best = 2;
    submit(eng, req, &a, &s);
    finish(eng, &s);
    assert_int_equal(s.n_tok, ANSWER_TOK);
    for (int i = 0; i < ANSWER_TOK; i++) assert_int_equal(s.gap_us[i], 0);
    assert_int_equal(s.end.decode_us, (ANSWER_TOK - 1) * 10000);
    unthreaded_close(eng);
}

// The same prompt twice: the second is looked up, and all of it but the last token is found.
FX_TEST(test_lookups_and_calls)
{
    fx_engine *eng = open_here((fx_options){0});
    prompt a = make_prompt(0);
    seen s;
    for (int i = 0; i < 2; i++) {
        submit(eng, fx_request_default(), &a, &s);
        finish(eng, &s);
    }
    fx_stats st;
    fx_details d;
    (void)fxi_iteration_run(eng); // the mapper's work of the last step is taken back
    fx_engine_stats(eng, &st);
    fx_engine_details(eng, &d);
    assert_int_equal(st.n_lookup_tok, 2 * PROMPT_TOK);
    assert_int_equal(st.n_cached_tok, PROMPT_TOK - 1);
    assert_int_equal(st.kv_mapped_bytes, st.kv_cached_bytes + st.kv_spare_bytes);
    assert_int_equal(st.kv_shared_bytes + st.kv_internal_bytes + st.kv_used_bytes, 0);
    assert_int_equal(d.kv[FX_KV_match].n_call, 2);
    assert_int_equal(d.kv[FX_KV_match].n_failure, 0);
    assert_int_equal(d.block_reuse_ms.count[4], 1); // 10 ms after the first request ended
    assert_int_equal(d.block_reuse_ms.sum, 10);
    assert_int_equal(d.block_life_ms.sum + d.block_idle_ms.sum, 0);
    assert_true(d.kv[FX_KV_extend].n_call >= 2 * ANSWER_TOK);
    assert_true(d.driver[FX_DRIVER_map].n_call > 0 && d.driver[FX_DRIVER_create].n_call > 0);
    assert_true(d.driver[FX_DRIVER_map].ns > 0);
    unthreaded_close(eng);
}

FX_RUN(test_accounts)
