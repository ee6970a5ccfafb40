// test_clients.c - iterations of 10,000 clients, in virtual time: a scheduler without an engine,
// whose requests wait, are picked, get their tokens and end. Nobody waits for longer than the rule
// says, and to find the next one takes few comparisons.
#include "unit/cmocka_all.h"

#include "engine/sched/sched.h"

#include <stdlib.h>

enum { N_CLIENT = 10000, N_PROMPT = 10, N_ANSWER = 20, COST = N_PROMPT + 2 * N_ANSWER };

static fxi_sched sched;
static fxi_clients *const clients = &sched.clients;
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
    static const fxi_journal silent;
    sched = (fxi_sched){0};
    next_id = n_compared = 0;
    fxi_sched_init(&sched, &silent, 5);
    by_turn = clients->turn[0].before;
    for (int i = 0; i <= 2 * FX_MAX_PRIORITY; i++) clients->turn[i].before = count_turn;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_null(clients->known.root);
    return 0;
}

// A request arrives and waits.
static fxi_live_request *come(uint64_t client, int priority)
{
    fxi_live_request *r = calloc(1, sizeof *r + sizeof r->seq[0]);
    r->id = ++next_id;
    r->n_seq = 1;
    r->seq[0] = (fxi_seq){.request = r, .state = FXI_SEQ_LIVE};
    r->spec = (fx_request){.client = client, .n_prompt = N_PROMPT, .tenant = "", .no_cache = true};
    r->spec.priority = priority;
    r->order_ms = (int64_t)next_id - 10000 * priority;
    r->client = fxi_client_make(clients, client);
    fxi_clients_enter_locked(clients, r);
    fxi_sched_count_queued(&sched, r, +1);
    fxi_clients_collect(clients, r);
    fxi_sched_move(&sched, r, FXI_WAITING);
    return r;
}

static fxi_live_request *begin_next(void)
{
    fxi_live_request *r = fxi_sched_first(&sched);
    fxi_sched_pick(&sched, r);
    fxi_sched_move(&sched, r, FXI_RUNNING);
    fxi_clients_serve(clients, r->client, N_PROMPT, 0);
    return r;
}

static void end_request(fxi_live_request *r)
{
    fxi_sched_move(&sched, r, FXI_ENDED);
    fxi_clients_leave_locked(clients, r);
    free(r);
}

// The next one in line gets all its tokens. Returns its client.
static uint64_t serve_next(void)
{
    fxi_live_request *r = begin_next();
    const uint64_t client = r->client->number;
    fxi_clients_serve(clients, r->client, 0, N_ANSWER);
    end_request(r);
    return client;
}

static void serve_all(void)
{
    while (sched.waiting.head) (void)serve_next();
}

// One client has had 500 tokens more than the others. For each request that is served another
// client comes that has never been there. It waits until the others, 10,000 at a time, have had as
// much, and not for ever.
FX_TEST(test_no_chain_of_newcomers_is_endless)
{
    const int lead = 500;
    uint64_t next = 2;
    fxi_live_request *r = come(1, 0);
    while (next < N_CLIENT) (void)come(next++, 0);
    (void)begin_next();
    fxi_clients_serve(clients, r->client, 0, lead / 2);
    end_request(r);
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
FX_TEST(test_the_time_keeps_to_those_that_wait)
{
    enum { N_LIGHT = 1000, N_ROUND = 200 };
    fxi_live_request *light[N_LIGHT];
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
    for (int i = 0; i < N_LIGHT; i++) end_request(light[i]);
}

// Nor does it run away from them: others get nearly all tokens while two wait for a place.
FX_TEST(test_the_time_does_not_run_away)
{
    const uint64_t spread_tok = 65536;
    (void)come(4, 0);
    fxi_live_request *runs = begin_next();
    for (uint64_t c = 1; c <= 2; c++)
        for (int i = 0; i < 10000; i++) (void)come(c, 0);
    for (int i = 0; i < 100; i++) fxi_clients_serve(clients, runs->client, 0, 100000);
    (void)come(3, 0);
    int n_before = 0;
    while (serve_next() != 3) n_before++;
    assert_in_range(n_before, 1, 2 * (spread_tok / COST + 1));
    end_request(runs);
    serve_all();
}

// Lines of one client with two priorities are two; each is in order.
FX_TEST(test_lines_are_by_priority)
{
    fxi_live_request *low = come(1, 0), *low2 = come(1, 0), *high = come(1, 5), *other = come(2, 5);
    assert_ptr_equal(fxi_sched_first(&sched), high);
    assert_ptr_equal(fxi_clients_after(low), low2);
    assert_null(fxi_clients_after(low2));
    assert_null(fxi_clients_after(high));
    assert_int_equal(serve_next(), 1);
    assert_ptr_equal(fxi_sched_first(&sched), other);
    fxi_sched_move(&sched, low, FXI_JOINING); // out of line, and in again
    assert_int_equal(serve_next(), 2);
    assert_ptr_equal(fxi_sched_first(&sched), low2);
    fxi_sched_move(&sched, low, FXI_WAITING);
    assert_ptr_equal(fxi_sched_first(&sched), low);
    serve_all();
}

// Of those without a request only some are remembered, whatever they have had.
FX_TEST(test_few_idle_clients_are_remembered)
{
    (void)come(1, 0);
    fxi_live_request *r = begin_next();
    for (uint64_t c = 2; c < 5000; c++) {
        (void)come(c, 0);
        (void)serve_next();
        assert_true(clients->n_idle <= 1024);
    }
    assert_true(clients->n_idle > 0);
    end_request(r);
    assert_int_equal(clients->n_idle, 0);
}

// With 10,000 clients that have many requests each, in any order of arrival.
FX_TEST(test_the_next_is_found_with_few_comparisons)
{
    for (int round = 0; round < 3; round++)
        for (uint64_t c = 1; c <= N_CLIENT; c++) (void)come(c, 0);
    const int n_pick = 2 * N_CLIENT;
    n_compared = 0;
    for (int i = 0; i < n_pick; i++) (void)serve_next();
    assert_true(n_compared < 200ull * (uint64_t)n_pick);
    serve_all();
}

FX_RUN_EACH(test_clients, set_up, tear_down)
