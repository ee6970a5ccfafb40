// test_fairness.c - clients take turns: a flood of one does not hold up another, who gets the same
// share of tokens whatever the sizes of their requests; nobody saves turns up; priorities go before
// iterations; no client fills the whole queue.
//
// The test runs the engine's iterations and its clock, and keeps the order in which requests have
// begun to be answered.
#include "unit/cmocka_all.h"

#include "unit/engine/support/company.h"
#include "unit/engine/support/unthreaded.h"

#include <string.h>

enum { N_REQ = 128 };

typedef struct asked {
    int client;
    bool has_begun, is_over;
    fx_finish finish;
} asked;

static asked req[N_REQ];
static int n_req;
static int order[N_REQ], n_order; // the clients of the requests, as they began
static fx_engine *open_here(fx_options opt)
{
    opt.n_thread = 1;
    fx_engine *eng = unthreaded_open(MODEL, opt);
    n_req = n_order = 0;
    (void)unthreaded_set_clock(eng);
    return eng;
}

static void take_event(void *ud, const fx_event *ev)
{
    asked *a = ud;
    if (!a->has_begun) order[n_order++] = a->client;
    a->has_begun = true;
    a->is_over = ev->last;
    a->finish = ev->finish;
}

// A request whose prompt is its own.
static fx_status ask(fx_engine *eng, int whose, int n_prompt, int max_tok, int priority)
{
    prompt p = make_prompt(n_req);
    uint64_t id;
    for (int t = 1; t < MAX_PROMPT; t++) p.tok[t] = 3 + (t * 31 + n_req * 101) % 310;
    fx_request q = fx_request_default();
    q.prompt = p.tok;
    q.n_prompt = (size_t)n_prompt;
    q.max_tok = max_tok;
    q.ignore_eos = true;
    q.priority = priority;
    q.client = (uint64_t)whose;
    q.on_event = take_event;
    q.ud = &req[n_req];
    req[n_req] = (asked){.client = whose};
    const fx_status st = fx_submit(eng, &q, &id, NULL);
    n_req += st == FX_OK;
    unthreaded_clock_us += 1000;
    return st;
}

static void ask_many(fx_engine *eng, int n, int whose, int n_prompt, int max_tok)
{
    for (int i = 0; i < n; i++) assert_int_equal(ask(eng, whose, n_prompt, max_tok, 0), FX_OK);
}

static void run_until(fx_engine *eng, int n_begun)
{
    for (int i = 0; n_order < n_begun; i++) {
        unthreaded_clock_us += 10000;
        (void)fxi_iteration_run(eng);
        assert_true(i < 20000);
    }
}

static void run_out(fx_engine *eng)
{
    while (fxi_iteration_run(eng)) unthreaded_clock_us += 10000;
    for (int i = 0; i < n_req; i++) {
        assert_true(req[i].is_over);
        assert_int_equal(req[i].finish, FX_FINISH_LENGTH);
    }
    assert_int_equal(n_order, n_req);
}

static void expect_order(const char *want)
{
    char got[N_REQ + 1];
    for (int i = 0; i < n_order; i++) got[i] = (char)('0' + order[i]);
    got[n_order] = 0;
    assert_string_equal(got, want);
}

// ---- iterations ---------------------------------------------------------------------------------

// One place. The victim waits for the request that runs, and for no other.
FX_TEST(test_a_flood_does_not_hold_up_others)
{
    fx_engine *eng = open_here((fx_options){.max_seq = 1});
    ask_many(eng, 12, 1, 10, 6);
    run_until(eng, 2);
    ask_many(eng, 1, 2, 10, 6);
    run_until(eng, 4);
    ask_many(eng, 3, 3, 10, 6);
    ask_many(eng, 1, 2, 10, 6);
    run_out(eng);
    assert_memory_equal(order, ((int[]){1, 1, 2}), 3 * sizeof(int));
    // From the fourth on: 1 ran, and those that were behind come alternately, before the flood.
    int last_of_others = 0;
    for (int i = 0; i < n_order; i++)
        if (order[i] != 1) last_of_others = i;
    assert_true(last_of_others <= 11);
    unthreaded_close(eng);
}

// Without numbers all requests are one client's: first come, first served.
FX_TEST(test_without_numbers_the_first_goes_first)
{
    fx_engine *eng = open_here((fx_options){.max_seq = 1});
    for (int i = 0; i < 6; i++) ask_many(eng, 1, 0, 5 + 10 * i, 6);
    run_out(eng);
    for (int i = 0; i < 6; i++) assert_true(req[i].has_begun);
    expect_order("000000");
    assert_null(eng->sched.waiting.head);
    assert_null(eng->sched.aside.head);
    unthreaded_close(eng);
}

// Served tokens count, not requests: five short ones for each long one.
FX_TEST(test_shares_are_of_tokens)
{
    fx_engine *eng = open_here((fx_options){.max_seq = 1});
    ask_many(eng, 8, 1, 100, 10); // 120 each
    ask_many(eng, 40, 2, 12, 6);  // 24 each
    int served[3] = {0};
    while (n_order < 40) {
        run_until(eng, n_order + 1);
        served[order[n_order - 1]] += order[n_order - 1] == 1 ? 120 : 24;
        assert_true(served[1] - served[2] <= 120 + 24 && served[2] - served[1] <= 120 + 24);
    }
    run_out(eng);
    unthreaded_close(eng);
}

// A client that had nothing to ask for meanwhile has no iterations left over, one that comes again
// owes none that the others have had since.
FX_TEST(test_nobody_saves_up)
{
    fx_engine *eng = open_here((fx_options){.max_seq = 1});
    ask_many(eng, 16, 1, 10, 5);
    run_until(eng, 8);
    ask_many(eng, 6, 2, 10, 5);
    run_until(eng, 14);
    int n_of_2 = 0;
    for (int i = 8; i < 14; i++) n_of_2 += order[i] == 2;
    assert_int_equal(n_of_2, 3);
    run_out(eng);
    assert_null(eng->sched.clients.known.root); // nobody is ahead of anybody any more
    unthreaded_close(eng);
}

// A client that has just left is remembered: leaving between two requests buys no iteration.
FX_TEST(test_leaving_does_not_help)
{
    fx_engine *eng = open_here((fx_options){.max_seq = 1});
    ask_many(eng, 4, 1, 10, 5);
    run_until(eng, 1);
    ask_many(eng, 1, 2, 100, 10); // a long one goes second
    run_until(eng, 3);            // it has ended
    assert_int_equal(order[1], 2);
    ask_many(eng, 1, 2, 10, 5);
    run_out(eng);
    expect_order("121112");
    unthreaded_close(eng);
}

// A client that has had much waits until the others have had as much. Clients that have never been
// there come one after the other, and hold it up no longer than that.
FX_TEST(test_a_chain_of_new_clients_holds_nobody_up)
{
    fx_engine *eng = open_here((fx_options){.max_seq = 1});
    ask_many(eng, 1, 1, 100, 10); // 120
    for (int i = 0; i < 3; i++) ask_many(eng, 1, 10 + i, 12, 6);
    run_until(eng, 2);
    ask_many(eng, 1, 1, 12, 6);
    while (order[n_order - 1] != 1) {
        assert_true(n_order < 40); // of 24 tokens each
        ask_many(eng, 1, 100 + n_order, 12, 6);
        run_until(eng, n_order + 1);
    }
    run_out(eng);
    unthreaded_close(eng);
}

// A higher priority goes before turns; turns are taken within each.
FX_TEST(test_priority_goes_before_turns)
{
    fx_engine *eng = open_here((fx_options){.max_seq = 1});
    ask_many(eng, 1, 9, 5, 6);
    run_until(eng, 1);
    ask_many(eng, 3, 1, 10, 6);
    ask_many(eng, 1, 2, 10, 6);
    for (int i = 0; i < 3; i++) assert_int_equal(ask(eng, 3, 10, 6, 1), FX_OK);
    assert_int_equal(ask(eng, 4, 10, 6, 1), FX_OK);
    run_out(eng);
    expect_order("934331211");
    unthreaded_close(eng);
}

// Whoever has passed others is preempted after them, and goes on before them.
FX_TEST(test_who_has_passed_keeps_the_place)
{
    fx_engine *eng = open_here((fx_options){.max_seq = 2});
    ask_many(eng, 4, 1, 20, 40);
    run_until(eng, 2);
    ask_many(eng, 1, 2, 20, 40);
    run_until(eng, 4);
    assert_int_equal(order[2], 2);
    const fxi_live_request *last = eng->sched.running.tail;
    assert_int_equal(last->spec.client, 1);
    assert_int_equal(eng->sched.running.head->spec.client, 2);
    run_out(eng);
    unthreaded_close(eng);
}

// ---- the queue ----------------------------------------------------------------------------------

// Of 16 places one client may have all; one that has at most two finds two more.
FX_TEST(test_no_client_fills_the_queue)
{
    fx_engine *eng = open_here((fx_options){.max_seq = 8, .max_queue = 8});
    ask_many(eng, 16, 1, 5, 2);
    assert_int_equal(ask(eng, 1, 5, 2, 0), FX_EQUEUE);
    assert_int_equal(ask(eng, 0, 5, 2, 0), FX_EQUEUE);
    ask_many(eng, 2, 2, 5, 2);
    assert_int_equal(ask(eng, 2, 5, 2, 0), FX_EQUEUE);
    assert_int_equal(ask(eng, 3, 5, 2, 0), FX_EQUEUE); // they are taken
    run_out(eng);
    ask_many(eng, 16, 0, 5, 2);
    ask_many(eng, 1, 2, 5, 2);
    assert_int_equal(ask(eng, 0, 5, 2, 0), FX_EQUEUE);
    run_out(eng);
    unthreaded_close(eng);
}

FX_TEST(test_no_client_fills_the_queue_with_tokens)
{
    fx_engine *eng = open_here((fx_options){.max_seq = 8, .max_queue_tok = 160});
    ask_many(eng, 2, 1, 80, 2);
    assert_int_equal(ask(eng, 1, 1, 2, 0), FX_EQUEUE);
    assert_int_equal(ask(eng, 2, 21, 2, 0), FX_EQUEUE);
    assert_int_equal(ask(eng, 2, 15, 2, 0), FX_OK);
    assert_int_equal(ask(eng, 3, 5, 2, 0), FX_OK);
    assert_int_equal(ask(eng, 3, 1, 2, 0), FX_EQUEUE);
    run_out(eng);
    unthreaded_close(eng);
}

FX_RUN(test_fairness)
