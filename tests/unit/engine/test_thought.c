// test_thought.c - reasoning that ends in time: the closing tokens come where the budget is used
// up, the answer goes on as if they had been drawn, and nothing comes where the model closed it.
#include "unit/cmocka_all.h"

#include "unit/engine/support/company.h"
#include "unit/engine/support/unthreaded.h"

#include <stdio.h>
#include <string.h>

enum { N_ANSWER = 24, N_CLOSE = 3, BUDGET = 6 };

static fx_engine *eng;
static const int32_t close_tok[N_CLOSE] = {70, 80, 90};
static char close_text[64];

static int open_once(void **state)
{
    (void)state;
    eng = unthreaded_open(MODEL, (fx_options){.n_thread = 2, .speculate = "auto"});
    for (int i = 0; i < N_CLOSE; i++) {
        size_t n;
        const char *text = fx_token_text(eng, close_tok[i], &n);
        snprintf(close_text + strlen(close_text), sizeof close_text - strlen(close_text), "%.*s",
                 (int)n, text);
    }
    assert_true(close_text[0]);
    return 0;
}

static int close_once(void **state)
{
    (void)state;
    unthreaded_close(eng);
    return 0;
}

static fx_thought thought_of(int max_tok)
{
    return (fx_thought){.open = {"no such mark", "nor this"},
                        .close = {close_text},
                        .opened = true,
                        .max_tok = max_tok,
                        .close_tok = close_tok,
                        .n_close = N_CLOSE};
}

// The answer to a prompt, and to more[0..n_more) after it.
static client_choice answer_with(const fx_thought *t, const int32_t *more, int n_more, int n_tok)
{
    static client c;
    prompt p = make_prompt(3);
    int32_t tok[512];
    memcpy(tok, p.tok, p.n * sizeof *tok);
    for (int i = 0; i < n_more; i++) tok[p.n + (size_t)i] = more[i];
    client_init(&c, eng, tok, p.n + (size_t)n_more, n_tok);
    c.req.thought = t;
    c.req.ignore_eos = true;
    const client_choice answer = *client_answer(&c);
    client_free(&c);
    return answer;
}

FX_TEST(test_the_closing_tokens_come_when_the_budget_is_used_up)
{
    const fx_thought t = thought_of(BUDGET);
    const client_choice free_one = answer_with(NULL, NULL, 0, N_ANSWER);
    const client_choice timed = answer_with(&t, NULL, 0, N_ANSWER);
    assert_int_equal(timed.n_tok, N_ANSWER);
    assert_memory_equal(timed.tok, free_one.tok, BUDGET * sizeof *timed.tok);
    assert_memory_equal(timed.tok + BUDGET, close_tok, sizeof close_tok);
    // It goes on as after a prompt that ends so: the same bits.
    const client_choice rest =
        answer_with(NULL, timed.tok, BUDGET + N_CLOSE, N_ANSWER - BUDGET - N_CLOSE);
    assert_memory_equal(timed.tok + BUDGET + N_CLOSE, rest.tok,
                        (size_t)rest.n_tok * sizeof *rest.tok);
}

FX_TEST(test_no_budget_closes_at_once)
{
    const fx_thought t = thought_of(0);
    assert_memory_equal(answer_with(&t, NULL, 0, N_ANSWER).tok, close_tok, sizeof close_tok);
}

// Reasoning begins after its mark, among the first tokens, or there is none.
FX_TEST(test_reasoning_that_the_answer_opens)
{
    const client_choice free_one = answer_with(NULL, NULL, 0, N_ANSWER);
    char open[64];
    size_t n;
    const char *second = fx_token_text(eng, free_one.tok[1], &n);
    fx_thought t = thought_of(BUDGET);
    snprintf(open, sizeof open, "%.*s", (int)n, second);
    t.opened = false;
    client_choice timed = answer_with(&t, NULL, 0, N_ANSWER);
    assert_memory_equal(timed.tok, free_one.tok, N_ANSWER * sizeof *timed.tok);
    t.open[1] = open;
    timed = answer_with(&t, NULL, 0, N_ANSWER);
    const char *first = fx_token_text(eng, free_one.tok[0], &n);
    const int begin = memmem(first, n, open, strlen(open)) ? 1 : 2;
    assert_memory_equal(timed.tok + begin + BUDGET, close_tok, sizeof close_tok);
}

FX_TEST(test_reasoning_that_closed_itself_is_left_alone)
{
    const client_choice free_one = answer_with(NULL, NULL, 0, N_ANSWER);
    char closed[64];
    size_t n;
    const char *third = fx_token_text(eng, free_one.tok[2], &n);
    fx_thought t = thought_of(BUDGET);
    snprintf(closed, sizeof closed, "%.*s", (int)n, third);
    assert_true(closed[0]);
    t.close[1] = closed;
    const client_choice timed = answer_with(&t, NULL, 0, N_ANSWER);
    assert_memory_equal(timed.tok, free_one.tok, N_ANSWER * sizeof *timed.tok);
}

FX_TEST(test_a_thought_without_marks_is_refused)
{
    static client c;
    fx_error err = {0};
    const prompt p = make_prompt(3);
    fx_thought bad[] = {thought_of(-1), thought_of(1), thought_of(1),
                        thought_of(1),  thought_of(1), thought_of(1)};
    static const int32_t outside = 1 << 30;
    bad[1].n_close = 0;
    bad[2].close[0] = NULL;
    bad[3].close_tok = &outside;
    bad[3].n_close = 1;
    bad[4].open[1] = "";
    bad[5].close[0] = "";
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        client_init(&c, eng, p.tok, p.n, 4);
        c.req.thought = &bad[i];
        assert_int_equal(client_submit(&c, &err), FX_EINVAL);
        client_free(&c);
    }
}

FX_RUN_GROUP(test_thought, open_once, close_once)
