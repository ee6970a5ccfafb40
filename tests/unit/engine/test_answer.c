// test_answer.c - the events of a request: which tokens end an answer and which text they emit, the
// probabilities of answers and prompts, scores, positions, and the end of every choice.
#include "unit/cmocka_all.h"

#include "unit/engine/support/company.h"
#include "unit/engine/support/unthreaded.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_ANSWER = 24 };

static fx_engine *eng;
static client c;

static int open_once(void **state)
{
    (void)state;
    eng = unthreaded_open(MODEL, (fx_options){.n_thread = 2});
    return 0;
}

static int close_once(void **state)
{
    (void)state;
    unthreaded_close(eng);
    return 0;
}

// The request that all of these tests vary; greedy.
static void prepare(prompt *p, int max_tok)
{
    *p = make_prompt(3);
    client_init(&c, eng, p->tok, p->n, max_tok);
}

static const client_choice *run(void)
{
    return client_answer(&c);
}

// The greedy answer that the others are compared with.
static void plain_answer(client_choice *out)
{
    prompt p;
    prepare(&p, N_ANSWER);
    *out = *run();
    out->text = (fxi_buf){0};
    client_free(&c);
}

// The first token from `from` on that adds text and does not occur earlier in the answer.
static int fresh_token(const client_choice *ch, int from)
{
    for (int i = from; i < ch->n_tok; i++) {
        bool seen = false;
        size_t n_bytes;
        for (int k = 0; k < i; k++) seen |= ch->tok[k] == ch->tok[i];
        (void)fx_token_bytes(eng, ch->tok[i], &n_bytes);
        if (!seen && n_bytes) return i;
    }
    fail_msg("the greedy answer repeats itself from the start");
    return -1;
}

// ---- ends --------------------------------------------------------------------------------------

FX_TEST(test_stop_token)
{
    client_choice plain;
    plain_answer(&plain);
    const int at = fresh_token(&plain, 2);
    size_t n_text[2];
    for (int include = 0; include < 2; include++) {
        prompt p;
        prepare(&p, N_ANSWER);
        c.req.stop_token = &plain.tok[at];
        c.req.n_stop_token = 1;
        c.req.include_stop = include;
        const client_choice *ch = run();
        assert_int_equal(ch->finish, FX_FINISH_STOP);
        assert_int_equal(ch->stop_token, plain.tok[at]);
        assert_int_equal(ch->stop_string, -1);
        assert_int_equal(ch->n_tok, at + 1);
        assert_int_equal(ch->n_generated, at + 1);
        n_text[include] = ch->text.n;
        client_free(&c);
    }
    assert_true(n_text[0] < n_text[1]);
}

FX_TEST(test_stop_string_is_named)
{
    client_choice plain;
    plain_answer(&plain);
    const int at = fresh_token(&plain, 2);
    size_t n_bytes;
    const char *bytes = fx_token_bytes(eng, plain.tok[at], &n_bytes);
    char *stop = strndup(bytes, n_bytes);
    for (int include = 0; include < 2; include++) {
        prompt p;
        prepare(&p, N_ANSWER);
        c.req.stop = (const char *const[]){"never to be found", stop};
        c.req.n_stop = 2;
        c.req.include_stop = include;
        const client_choice *ch = run();
        assert_int_equal(ch->finish, FX_FINISH_STOP);
        assert_int_equal(ch->stop_token, -1);
        assert_int_equal(ch->stop_string, 1);
        const char *found = ch->text.p ? strstr(ch->text.p, stop) : NULL;
        assert_int_equal(found != NULL, include);
        if (include) assert_int_equal(strlen(found), n_bytes); // nothing after it
        client_free(&c);
    }
    free(stop);
}

// Before min_tok neither stop tokens nor stop strings end an answer; the tokens are not even drawn.
FX_TEST(test_min_tok)
{
    client_choice plain;
    plain_answer(&plain);
    const int at = fresh_token(&plain, 2);
    prompt p;
    prepare(&p, N_ANSWER);
    c.req.stop_token = &plain.tok[at];
    c.req.n_stop_token = 1;
    c.req.sampling.min_tok = at + 3;
    const client_choice *ch = run();
    assert_true(ch->n_tok >= at + 3);
    for (int i = 0; i < at + 3; i++) assert_int_not_equal(ch->tok[i], plain.tok[at]);
    client_free(&c);

    size_t n_bytes;
    const char *bytes = fx_token_bytes(eng, plain.tok[at], &n_bytes);
    char *stop = strndup(bytes, n_bytes);
    prepare(&p, N_ANSWER);
    c.req.stop = (const char *const[]){stop};
    c.req.n_stop = 1;
    c.req.sampling.min_tok = at + 1 + 3;
    ch = run();
    assert_true(ch->n_tok >= at + 3);
    assert_memory_equal(ch->tok, plain.tok, (size_t)(at + 3) * sizeof(int32_t));
    free(stop);
    client_free(&c);
}

// The end-of-text token is forced by allowing nothing else.
FX_TEST(test_end_of_text)
{
    for (int ignore = 0; ignore < 2; ignore++) {
        prompt p;
        prepare(&p, 5);
        c.req.sampling.allow = eng->service.end_tok;
        c.req.sampling.n_allow = 1;
        c.req.ignore_eos = ignore;
        const client_choice *ch = run();
        assert_int_equal(ch->n_tok, ignore ? 5 : 1);
        assert_int_equal(ch->finish, ignore ? FX_FINISH_LENGTH : FX_FINISH_STOP);
        assert_int_equal(ch->stop_token, ignore ? -1 : eng->service.end_tok[0]);
        client_free(&c);
    }
}

// The only token that is allowed must not come twice: the request ends with an error, one line.
FX_TEST(test_rules_that_leave_nothing)
{
    prompt p;
    prepare(&p, 5);
    const int32_t twice[] = {7, 7};
    const fx_id_run run_of_two = {twice, 2};
    c.req.sampling.allow = twice;
    c.req.sampling.n_allow = 1;
    c.req.sampling.ban_run = &run_of_two;
    c.req.sampling.n_ban_run = 1;
    const client_choice *ch = run();
    assert_int_equal(ch->finish, FX_FINISH_ERROR);
    assert_int_equal(ch->n_tok, 1);
    assert_true(strlen(ch->error) > 5 && !strchr(ch->error, '\n'));
    assert_int_equal(ch->error_status, FX_EINVAL);
    client_free(&c);
}

// ---- probabilities -----------------------------------------------------------------------------

FX_TEST(test_logprobs_of_the_answer)
{
    prompt p;
    prepare(&p, N_ANSWER);
    c.req.logprobs = true;
    c.req.n_top = 3;
    const client_choice *ch = run();
    for (int i = 0; i < ch->n_tok; i++) {
        assert_int_equal(ch->prob[i].n_top, 3);
        assert_int_equal(ch->prob[i].rank, 1); // greedy
        assert_int_equal(ch->top[i].token, ch->tok[i]);
        assert_true(ch->top[i].logprob == ch->prob[i].logprob);
        assert_true(ch->prob[i].logprob <= 0);
    }
    client_free(&c);
}

// Logprobs are the model's own: a ban changes the token, not its logprob.
FX_TEST(test_logprobs_come_before_the_rules)
{
    client_choice plain;
    plain_answer(&plain);
    prompt p;
    prepare(&p, 1);
    c.req.logprobs = true;
    c.req.n_top = 2;
    c.req.sampling.ban = plain.tok;
    c.req.sampling.n_ban = 1;
    const client_choice *ch = run();
    assert_int_not_equal(ch->tok[0], plain.tok[0]);
    assert_int_equal(ch->prob[0].rank, 2);
    assert_int_equal(ch->top[0].token, plain.tok[0]);
    client_free(&c);
}

// Of the first token with this temperature; only the likeliest is drawn.
static float first_logprob(float temperature, bool processed, const int32_t *only)
{
    prompt p;
    prepare(&p, 1);
    c.req.logprobs = true;
    c.req.processed_logprobs = processed;
    c.req.sampling.temperature = temperature;
    c.req.sampling.top_k = 1;
    c.req.sampling.allow = only;
    c.req.sampling.n_allow = only != NULL;
    const float logprob = run()->prob[0].logprob;
    client_free(&c);
    return logprob;
}

// With processed_logprobs they are those of the draw: of the only token that is allowed 0, of the
// likeliest more when the temperature is low, and less when it is high.
FX_TEST(test_processed_logprobs)
{
    static const int32_t only = 7;
    (void)state;
    const float raw = first_logprob(1, false, NULL);
    assert_true(first_logprob(2, false, NULL) == raw);
    assert_true(first_logprob(1, true, NULL) == raw);
    assert_true(first_logprob(0, true, NULL) == raw);
    assert_true(first_logprob(0.5f, true, NULL) > raw);
    assert_true(first_logprob(2, true, NULL) < raw);
    assert_true(first_logprob(1, false, &only) < 0);
    assert_true(first_logprob(1, true, &only) == 0);
}

FX_TEST(test_prompt_probs)
{
    prompt p;
    client_choice plain;
    plain_answer(&plain); // the prompt is in the prefix cache now
    prepare(&p, N_ANSWER);
    c.req.prompt_logprobs = true;
    c.req.n_prompt_top = 1;
    const client_choice *ch = run();
    assert_int_equal(c.n_prompt_prob, (int)p.n - 1);
    assert_int_equal(ch->n_cached, 0);
    for (size_t i = 1; i < p.n; i++) assert_int_equal(c.prompt_prob[i].n_top, 1);
    assert_memory_equal(ch->tok, plain.tok, sizeof(int32_t) * (size_t)plain.n_tok);
    client_free(&c);

    prepare(&p, 0); // scoring alone
    c.req.prompt_logprobs = true;
    ch = run();
    assert_int_equal(c.n_prompt_prob, (int)p.n - 1);
    assert_int_equal(ch->n_tok, 0);
    assert_int_equal(ch->finish, FX_FINISH_LENGTH);
    client_free(&c);
}

// ---- ends of all choices -----------------------------------------------------------------------

static void check_cancelled(int n_iteration)
{
    assert_int_equal(client_submit(&c, NULL), FX_OK);
    for (int i = 0; i < n_iteration; i++) (void)fxi_iteration_run(eng);
    fx_cancel(eng, c.id);
    (void)fxi_iteration_run(eng);
    assert_true(c.last); // in the same iteration
    for (int k = 0; k < c.req.n_choice; k++) assert_int_equal(c.choice[k].finish, FX_FINISH_CANCEL);
    assert_int_equal(c.n_event_after_last, 0);
    client_free(&c);
}

typedef struct stopper { // stops choice 1 with its third token
    fx_engine *eng;
    void (*then)(void *ud, const fx_event *ev);
    void *ud;
    int n_tok;
} stopper;

static void stop_at_three(void *ud, const fx_event *ev)
{
    stopper *s = ud;
    if (ev->choice == 1 && ev->token >= 0 && ++s->n_tok == 3)
        fx_stop_choice(s->eng, ev->request_id, 1);
    s->then(s->ud, ev);
}

FX_TEST(test_a_choice_may_be_stopped)
{
    prompt p;
    stopper s;
    prepare(&p, N_ANSWER);
    c.req.n_choice = 3;
    c.req.sampling.min_tok = 5; // does not hold it
    s = (stopper){.eng = eng, .then = c.req.on_event, .ud = c.req.ud};
    c.req.on_event = stop_at_three;
    c.req.ud = &s;
    (void)run();
    for (int k = 0; k < 3; k++) {
        assert_int_equal(c.choice[k].n_tok, k == 1 ? 3 : N_ANSWER);
        assert_int_equal(c.choice[k].finish, k == 1 ? FX_FINISH_STOP : FX_FINISH_LENGTH);
        assert_int_equal(c.choice[k].stop_token, -1);
        assert_memory_equal(c.choice[k].tok, c.choice[0].tok, 3 * sizeof(int32_t));
    }
    fx_stop_choice(eng, c.id, 0); // finished ids, and choices that there cannot be, are ignored
    fx_stop_choice(eng, c.id, FX_MAX_CHOICE);
    client_free(&c);
}

// They are chosen among whole answers.
FX_TEST(test_hidden_choices_are_not_stopped)
{
    prompt p;
    prepare(&p, N_ANSWER);
    c.req.n_best = 2;
    assert_int_equal(client_submit(&c, NULL), FX_OK);
    (void)fxi_iteration_run(eng);
    fx_stop_choice(eng, c.id, 0);
    client_run(&c);
    assert_int_equal(c.choice[0].n_tok, N_ANSWER);
    client_free(&c);
}

FX_TEST(test_every_choice_ends_once)
{
    for (int n_iteration = 0; n_iteration < 6; n_iteration++) {
        prompt p;
        prepare(&p, 200);
        c.req.n_choice = 4;
        check_cancelled(n_iteration);
        prepare(&p, 200);
        c.req.n_choice = 3;
        c.req.n_best = 6;
        check_cancelled(n_iteration);
        prepare(&p, 200);
        c.req.n_choice = 2;
        c.req.beam_width = 5;
        check_cancelled(n_iteration);
    }
    assert_null(eng->sched.running.head);
    fxi_kv_stats st;
    const char *what = "";
    assert_int_equal(fxi_kv_check(eng->kv, &what), FX_OK);
    assert_int_equal(fxi_kv_forget_idle(eng->kv), FX_OK);
    assert_int_equal(fxi_kv_trim(eng->kv, 0), FX_OK);
    fxi_kv_get_stats(eng->kv, &st);
    assert_int_equal(st.mapped_bytes, 0);
}

FX_RUN_GROUP(test_answer, open_once, close_once)
