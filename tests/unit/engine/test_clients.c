// test_clients.c - turns of 10,000 clients, in virtual time: an engine without a model, whose
// requests wait, are picked, get their tokens and end. Nobody waits for longer than the rule says,
// and to find the next one takes few comparisons.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "engine/engine.h"

#include <stdlib.h>

enum { N_CLIENT = 10000, N_PROMPT = 10, N_ANSWER = 20, COST = N_PROMPT + 2 * N_ANSWER };

static fx_engine *eng;
static uint64_t next_id, n_compared;
static bool (*by_turn)(const fxi_treap_node *a, const fxi_treap_node *b);

static bool count_turn(const fxi_treap_node *a, const fxi_treap_node *b)
{
    n_compared++;
    return by_turn(a, b);
}

static int set_up(void **state)
{
    (void)state;
    eng = calloc(1, sizeof *eng);
    next_id = n_compared = 0;
    pthread_mutex_init(&eng->mu, NULL);
    fxi_lists_init(eng, 5);
    by_turn = eng->turn[0].before;
    for (int i = 0; i <= 2 * FX_MAX_PRIORITY; i++) eng->turn[i].before = count_turn;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_null(eng->client.root);
    pthread_mutex_destroy(&eng->mu);
    free(eng);
    return 0;
}

// A request arrives and waits.
static fxi_group *come(uint64_t client, int priority)
{
    fxi_group *g = calloc(1, sizeof *g + sizeof g->seq[0]);
    g->id = ++next_id;
    g->n_seq = 1;
    g->seq[0].group = g;
    g->req = (fx_request){.client = client, .n_prompt = N_PROMPT, .tenant = "", .no_cache = true};
    g->req.priority = priority;
    g->order_ms = (int64_t)next_id - 10000 * priority;
    g->client = fxi_clients_make(client, 7);
    fxi_clients_enter_locked(eng, g);
    fxi_lists_queue_locked(eng, g);
    fxi_clients_collect(eng, g);
    fxi_lists_move(eng, g, FXI_WAITING);
    return g;
}

static fxi_group *begin_next(void)
{
    fxi_group *g = fxi_waiting_first(eng);
    fxi_waiting_pick(eng, g);
    fxi_lists_move(eng, g, FXI_RUNNING);
    fxi_clients_serve_prompt(eng, g->client, N_PROMPT);
    return g;
}

static void end_group(fxi_group *g)
{
    fxi_lists_move(eng, g, FXI_ENDED);
    fxi_clients_leave_locked(eng, g);
    free(g);
}

// The next one in line gets all its tokens. Returns its client.
static uint64_t serve_next(void)
{
    fxi_group *g = begin_next();
    const uint64_t client = g->client->number;
    fxi_clients_serve_tokens(eng, g->client, N_ANSWER);
    end_group(g);
    return client;
}

static void serve_all(void)
{
    while (eng->waiting.head) (void)serve_next();
}

// One client has had 500 tokens more than the others. For each request that is served another
// client comes that has never been there. It waits until the others, 10,000 at a time, have had as
// much, and not for ever.
static void test_no_chain_of_newcomers_is_endless(void **state)
{
    (void)state;
    const int lead = 500;
    uint64_t next = 2;
    fxi_group *g = come(1, 0);
    while (next < N_CLIENT) (void)come(next++, 0);
    (void)begin_next();
    fxi_clients_serve_tokens(eng, g->client, lead / 2);
    end_group(g);
    (void)come(1, 0);
    int n_served = 0;
    while (serve_next() != 1) {
        (void)come(next++, 0);
        assert_true(++n_served <= N_CLIENT * (2 + lead / COST));
    }
    assert_true(n_served >= N_CLIENT - 2); // they were behind it by 500 tokens
    serve_all();
}

// The same where all those tokens are generated while others run, who never wait and ask for much
// less than their share: the virtual time keeps to those that wait.
static void test_the_time_keeps_to_those_that_wait(void **state)
{
    (void)state;
    enum { N_LIGHT = 1000, N_ROUND = 200 };
    fxi_group *light[N_LIGHT];
    for (int i = 0; i < N_LIGHT; i++) (void)come(100 + (uint64_t)i, 0);
    for (int i = 0; i < N_LIGHT; i++) light[i] = begin_next();
    for (int i = 0; i < N_ROUND; i++)
        for (uint64_t c = 1; c <= 2; c++) (void)come(c, 0);
    for (int i = 0; i < N_ROUND; i++) (void)serve_next();
    for (int i = 0; i < N_ROUND; i++) (void)come(3, 0);
    int n_of[4] = {0};
    for (int i = 0; i < 30; i++) n_of[serve_next()]++;
    assert_in_range(n_of[3], 9, 12); // not all of them
    serve_all();
    for (int i = 0; i < N_LIGHT; i++) end_group(light[i]);
}

// Nor does it run away from them: others get nearly all tokens while two wait for a place.
static void test_the_time_does_not_run_away(void **state)
{
    (void)state;
    const uint64_t spread_tok = 65536;
    (void)come(4, 0);
    fxi_group *runs = begin_next();
    for (uint64_t c = 1; c <= 2; c++)
        for (int i = 0; i < 10000; i++) (void)come(c, 0);
    for (int i = 0; i < 100; i++) fxi_clients_serve_tokens(eng, runs->client, 100000);
    (void)come(3, 0);
    int n_before = 0;
    while (serve_next() != 3) n_before++;
    assert_in_range(n_before, 1, 2 * (spread_tok / COST + 1));
    end_group(runs);
    serve_all();
}

// Lines of one client with two priorities are two; each is in order.
static void test_lines_are_by_priority(void **state)
{
    (void)state;
    fxi_group *low = come(1, 0), *low2 = come(1, 0), *high = come(1, 5), *other = come(2, 5);
    assert_ptr_equal(fxi_waiting_first(eng), high);
    assert_ptr_equal(fxi_clients_behind(low), low2);
    assert_null(fxi_clients_behind(low2));
    assert_null(fxi_clients_behind(high));
    assert_int_equal(serve_next(), 1);
    assert_ptr_equal(fxi_waiting_first(eng), other);
    fxi_lists_move(eng, low, FXI_JOINING); // out of line, and in again
    assert_int_equal(serve_next(), 2);
    assert_ptr_equal(fxi_waiting_first(eng), low2);
    fxi_lists_move(eng, low, FXI_WAITING);
    assert_ptr_equal(fxi_waiting_first(eng), low);
    serve_all();
}

// Of those without a request only some are remembered, whatever they have had.
static void test_few_idle_clients_are_remembered(void **state)
{
    (void)state;
    (void)come(1, 0);
    fxi_group *g = begin_next();
    for (uint64_t c = 2; c < 5000; c++) {
        (void)come(c, 0);
        (void)serve_next();
        assert_true(eng->n_idle_client <= 1024);
    }
    assert_true(eng->n_idle_client > 0);
    end_group(g);
    assert_int_equal(eng->n_idle_client, 0);
}

// With 10,000 clients that have many requests each, in any order of arrival.
static void test_the_next_is_found_with_few_comparisons(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++)
        for (uint64_t c = 1; c <= N_CLIENT; c++) (void)come(c, 0);
    const int n_pick = 2 * N_CLIENT;
    n_compared = 0;
    for (int i = 0; i < n_pick; i++) (void)serve_next();
    assert_true(n_compared < 200ull * (uint64_t)n_pick);
    serve_all();
}

FX_SUITE(test_clients)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_chain_of_newcomers_is_endless, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_time_keeps_to_those_that_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_time_does_not_run_away, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lines_are_by_priority, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_few_idle_clients_are_remembered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_next_is_found_with_few_comparisons, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
