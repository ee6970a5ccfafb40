// test_sim_scale.c - the engine at any size (scale_world.h). What an iteration runs of the engine
// and the manager does not grow with what it does not touch: nodes of the prefix tree, tokens of
// prompts, requests that wait; and with the sequences that decode it grows by so much for each. A
// world of that size, whose requests come, share, leave early, are swapped out and have less memory
// now and then, ends each of them once, with the right tokens, and in time.
//
//   FX_SIM_SCALE=1 test_sim_scale     10,000 sequences, 1,000,000 nodes, 1,000,000 tokens
#include "suite.h"
#include "unit/cmocka_all.h"

#include "unit/engine/sim/scale_world.h"
#include "unit/engine/sim/sim_law.h"

#include "engine/iteration.h"
#include "engine/memory/kv_memory.h"
#include "vtensor/core/manager.h"
#include "vtensor/team.h"

#include <stdlib.h>

#define KIB_64 ((size_t)64 << 10)
#define MIB_2  ((size_t)2 << 20)

enum { ENDLESS = 1 << 11, N_REPEAT = 4 };

static scale_world w;

static bool is_full_size(void)
{
    return getenv("FX_SIM_SCALE") != NULL;
}

// ---- what an iteration runs ---------------------------------------------------------------------

// Blocks of code: of an iteration in which all decode, and beyond that. Of several the least: now
// and then memory is made ready for others.
typedef struct costs {
    uint64_t iteration, arrival, end, cancel, swap, budget, stats;
    uint64_t looks; // of the manager's step, at sequences
} costs;

static void keep_least(uint64_t *least, uint64_t n)
{
    if (n < *least) *least = n;
}

static uint64_t beyond(uint64_t n, uint64_t iteration)
{
    return n > iteration ? n - iteration : 0;
}

static vt_manager *manager(void)
{
    return vt_team_seq_rank((vt_team_seq *)w.r.eng->sched.running.head->seq[0].kv, 0)->m;
}

static void measure_iteration(costs *c)
{
    const uint64_t had = manager()->looks;
    c->iteration = scale_iteration(&w);
    c->looks = manager()->looks - had;
}

static void measure_one(costs *c)
{
    fx_stats st;
    measure_iteration(c);
    const uint64_t id = scale_ask_for(&w, 0, SCALE_BLOCK_TOK, 30, ENDLESS);
    keep_least(&c->arrival, beyond(scale_iteration(&w), c->iteration));
    (void)scale_ask_for(&w, 0, SCALE_BLOCK_TOK, 30, 1);
    keep_least(&c->end, beyond(scale_iteration(&w), c->iteration));
    fx_cancel(w.r.eng, id);
    keep_least(&c->cancel, beyond(scale_iteration(&w), c->iteration));
    const uint64_t before = scale_work();
    fx_engine_stats(w.r.eng, &st);
    keep_least(&c->stats, scale_work() - before);
}

static void measure_memory(costs *c, int i)
{
    uint64_t sum = scale_work();
    fxi_preempt_request(&w.r.eng->memory, w.r.eng->sched.running.tail, FXI_SWAP);
    sum = scale_work() - sum;
    for (int k = 0; k < 10; k++) sum += beyond(scale_iteration(&w), c->iteration); // out, and back
    keep_least(&c->swap, sum);
    const uint64_t bytes = (uint64_t)(8 - i % 2) << 40;
    assert_int_equal(fx_set_kv_memory(w.r.eng, bytes, NULL), FX_OK);
    keep_least(&c->budget, beyond(scale_iteration(&w), c->iteration));
}

static costs measure(scale_size size, int n_wait)
{
    costs c;
    memset(&c, 0xff, sizeof c);
    const int n_seq = size.n_seq;
    size.n_seq += n_wait ? 0 : 2; // room for newcomers, but where others wait
    scale_open(&w, size);
    scale_forget_long(&w);
    for (int i = 0; i < n_seq; i++) (void)scale_ask_for(&w, 0, 0, 12 + i % 4, ENDLESS);
    for (int i = 0; i < 4; i++) (void)scale_iteration(&w);
    assert_int_equal(w.r.eng->sched.running.n_seq, n_seq);
    for (int i = 0; i < n_wait; i++) (void)scale_ask_for(&w, 0, 0, 12 + i % 4, ENDLESS);
    for (int i = 0; i < 4; i++) (void)scale_iteration(&w);
    if (n_wait) measure_iteration(&c);
    for (int i = 0; i < N_REPEAT && !n_wait; i++) measure_one(&c);
    for (int i = 0; i < N_REPEAT && !n_wait; i++) measure_memory(&c, i);
    scale_check(&w, false);
    scale_close(&w);
    return c;
}

static void print_costs(const char *what, int n, const costs *c)
{
    print_message("%s %d: an iteration %llu, newcomer %llu, end %llu, cancel %llu, swap %llu, "
                  "budget %llu, stats %llu; looks %llu\n",
                  what, n, (unsigned long long)c->iteration, (unsigned long long)c->arrival,
                  (unsigned long long)c->end, (unsigned long long)c->cancel,
                  (unsigned long long)c->swap, (unsigned long long)c->budget,
                  (unsigned long long)c->stats, (unsigned long long)c->looks);
}

static void assert_no_more(const char *what, uint64_t is, uint64_t was, uint64_t more)
{
    if (is > was + more)
        fail_msg("%s runs %llu blocks, not %llu", what, (unsigned long long)is,
                 (unsigned long long)was);
}

// `more` allows for the logarithm, and for what is made ready; it is less than one block for each
// thing that there are more of.
static void assert_alike(const costs *is, const costs *was, uint64_t more)
{
    assert_no_more("an iteration", is->iteration, was->iteration, 200);
    assert_no_more("a newcomer", is->arrival, was->arrival, more);
    assert_no_more("an end", is->end, was->end, more);
    assert_no_more("a cancelled request", is->cancel, was->cancel, more);
    assert_no_more("a swap", is->swap, was->swap, more);
    assert_no_more("another budget", is->budget, was->budget, more);
    assert_no_more("fx_engine_stats", is->stats, was->stats, 0);
    assert_int_equal(is->looks, was->looks);
}

static void compare(const char *what, scale_size small, scale_size large, int n_small, int n_large,
                    uint64_t more)
{
    const costs was = measure(small, 0), is = measure(large, 0);
    print_costs(what, n_small, &was);
    print_costs(what, n_large, &is);
    assert_alike(&is, &was, more);
}

static void test_nodes_cost_an_iteration_nothing(void **state)
{
    const size_t chunk = *(const size_t *)*state;
    const int most = is_full_size() ? 1000000 : 20000;
    compare("nodes", (scale_size){chunk, 10, 100, 6400, 0, false},
            (scale_size){chunk, 10, most, 6400, 0, false}, 100, most, 9000);
}

static void test_long_prompts_cost_an_iteration_nothing(void **state)
{
    const size_t chunk = *(const size_t *)*state;
    const int most = is_full_size() ? 1000000 : 200000; // 3,125 chunks
    compare("tokens", (scale_size){chunk, 10, 100, 6400, 0, false},
            (scale_size){chunk, 10, 100, most, 0, false}, 6400, most, 2500);
}

// An iteration of sequences that have come last, behind a long prompt: memory for another such is
// ready.
static uint64_t iteration_behind(size_t chunk, int ctx_tok)
{
    costs c;
    scale_open(&w, (scale_size){chunk, 10, 100, ctx_tok, 0, false});
    for (int i = 0; i < 10; i++) (void)scale_ask_for(&w, 0, 0, 12, ENDLESS);
    const int n_chunk =
        ctx_tok / SCALE_BLOCK_TOK; // of which an iteration makes some hundreds ready
    for (int i = 0; i < 20 + n_chunk / 100; i++) (void)scale_iteration(&w);
    measure_iteration(&c);
    assert_true(manager()->vset.mapped_free_bytes[VTI_SPAN_IDLE] >= (uint64_t)n_chunk * chunk);
    scale_close(&w);
    return c.iteration;
}

static void test_memory_that_is_ready_costs_an_iteration_nothing(void **state)
{
    const size_t chunk = *(const size_t *)*state;
    const int most = is_full_size() ? 1000000 : 100000;
    const uint64_t was = iteration_behind(chunk, 6400), is = iteration_behind(chunk, most);
    print_message("ready for %d: an iteration %llu; for %d: %llu\n", 6400, (unsigned long long)was,
                  most, (unsigned long long)is);
    assert_no_more("an iteration", is, was, 200);
}

static void test_requests_that_wait_cost_an_iteration_nothing(void **state)
{
    const size_t chunk = *(const size_t *)*state;
    const int most = is_full_size() ? 10000 : 1000;
    const costs was = measure((scale_size){chunk, 10, 100, 6400, 0, false}, 200);
    const costs is = measure((scale_size){chunk, 10, 100, 6400, 0, false}, most);
    print_message("waiting %d: an iteration %llu; %d: %llu\n", 200,
                  (unsigned long long)was.iteration, most, (unsigned long long)is.iteration);
    assert_no_more("an iteration", is.iteration, was.iteration, 200);
}

// Iterations in which a prefix is being computed, for which n requests wait.
static uint64_t iterations_beside(size_t chunk, int n)
{
    enum { PREFIX_TOK = 20 * SCALE_BLOCK_TOK, N_TURN = 10 };
    uint64_t sum = 0;
    scale_open(&w, (scale_size){chunk, 12, 100, 6400, 0, false});
    w.r.eng->opt.step_tok = SCALE_BLOCK_TOK; // so that it takes turns
    for (int i = 0; i < 10; i++) (void)scale_ask_for(&w, 0, 0, 12, ENDLESS);
    for (int i = 0; i < 4; i++) (void)scale_iteration(&w);
    for (int i = 0; i <= n; i++) (void)scale_ask_for(&w, w.n_doc, PREFIX_TOK, 30, 1);
    for (int i = 0; i < 4; i++) (void)scale_iteration(&w);
    assert_int_equal(w.r.eng->sched.aside.n_seq, n);
    for (int i = 0; i < N_TURN; i++) sum += scale_iteration(&w);
    assert_int_equal(w.r.eng->sched.aside.n_seq, n);
    while (w.r.eng->sched.aside.n_seq) (void)scale_iteration(&w); // all of them begin with it
    while (w.n_ended < w.n_asked - 10 && w.n_ended < 400) (void)scale_iteration(&w);
    scale_close(&w);
    return sum / N_TURN;
}

static void test_requests_that_wait_for_a_prefix_cost_an_iteration_nothing(void **state)
{
    const size_t chunk = *(const size_t *)*state;
    const int most = is_full_size() ? 10000 : 1000;
    const uint64_t was = iterations_beside(chunk, 200), is = iterations_beside(chunk, most);
    print_message("waiting for a prefix %d: an iteration %llu; %d: %llu\n", 200,
                  (unsigned long long)was, most, (unsigned long long)is);
    assert_no_more("an iteration", is, was, 200);
}

// An iteration in which all decode costs so much for each; an admission adds up what is promised to
// those that run. A step of the manager looks at those that have grown.
static void test_an_iteration_costs_so_much_for_each_sequence(void **state)
{
    const size_t chunk = *(const size_t *)*state;
    const int most = is_full_size() ? 10000 : 1000;
    const costs was = measure((scale_size){chunk, 100, 100, 6400, 0, false}, 0);
    const costs is = measure((scale_size){chunk, most, 100, 6400, 0, false}, 0);
    const uint64_t times = (uint64_t)most / 100, more = (uint64_t)most * 60;
    print_costs("sequences", 100, &was);
    print_costs("sequences", most, &is);
    assert_no_more("an iteration", is.iteration, times * was.iteration, 0);
    assert_no_more("a newcomer", is.arrival, was.arrival, more);
    assert_no_more("an end", is.end, was.end, more);
    assert_no_more("a cancelled request", is.cancel, was.cancel, 2000);
    assert_no_more("fx_engine_stats", is.stats, was.stats, 0);
    assert_no_more("a swap", is.swap, was.swap, more);
    assert_no_more("another budget", is.budget, was.budget, more);
    assert_no_more("a step looks, it", is.looks - was.looks, (uint64_t)most - 100, 0);
}

// ---- a world -----------------------------------------------------------------------------------

enum { MOST_ANSWER_TOK = 64, MOST_TURNS_MORE = 400 };

// Most share little of a document, some all of it, and some nothing.
static uint64_t ask_something(sim_rng *rng)
{
    const int all = w.size.ctx_tok - w.size.ctx_tok % SCALE_BLOCK_TOK;
    const int some = all < 2000 ? all : 2000;
    int n_doc_tok = sim_one_in(rng, 3) ? 0 : sim_int(rng, 1, some);
    if (sim_one_in(rng, 400)) n_doc_tok = all - sim_int(rng, 0, 100);
    return scale_ask_for(&w, sim_int(rng, 0, w.n_doc - 1), n_doc_tok, sim_int(rng, 1, 100),
                         sim_int(rng, 1, MOST_ANSWER_TOK));
}

static void befall(sim_rng *rng, uint64_t last_id)
{
    fx_engine *eng = w.r.eng;
    const uint64_t most = w.size.kv_bytes;
    for (int i = 0; i < 4; i++)
        if (sim_one_in(rng, 3)) fx_cancel(eng, last_id - (uint64_t)sim_int(rng, 0, 200));
    if (sim_one_in(rng, 3) && eng->sched.running.tail)
        fxi_preempt_request(&eng->memory, eng->sched.running.tail,
                            sim_one_in(rng, 2) ? FXI_SWAP : FXI_RECOMPUTE);
    if (sim_one_in(rng, 10))
        (void)fx_set_kv_memory(eng, sim_one_in(rng, 2) ? most : most - most / 8, NULL);
}

static void live_on(sim_rng *rng, int n_iteration)
{
    const uint64_t n_live = (uint64_t)w.size.n_seq + (uint64_t)w.size.n_seq / 4; // some wait
    for (int i = 0; i < n_iteration; i++) {
        uint64_t id = 0;
        while (w.n_asked - w.n_ended < n_live) id = ask_something(rng);
        if (id > 300) befall(rng, id);
        (void)scale_iteration(&w);
        scale_check(&w, false);
    }
}

static void test_a_world_of_that_size(void **state)
{
    const size_t chunk = *(const size_t *)*state;
    const bool is_full = is_full_size();
    scale_size size = {
        chunk, is_full ? 10000 : 400, is_full ? 1000000 : 10000, is_full ? 1000000 : 50000, 0,
        true};
    sim_rng rng = {sim_mix(chunk)};
    size.kv_bytes = ((uint64_t)size.n_node + 2 * (uint64_t)size.n_seq) * chunk; // prefixes go
    scale_open(&w, size);
    live_on(&rng, is_full ? 60 : 80);
    scale_check(&w, true);
    live_on(&rng, is_full ? 60 : 80);
    scale_check(&w, true);
    // It was worth living in.
    fx_stats st;
    fx_engine_stats(w.r.eng, &st);
    assert_true(w.n_cut > 0 && st.n_preempt_swap > 0 && st.n_preempt_recompute > 0);
    assert_true(st.n_cached_tok > st.n_prompt_tok / 4);
    assert_true(w.r.eng->stats.n_evicted > 0);
    for (int i = 0; i < 8 * MOST_TURNS_MORE && w.n_ended < w.n_asked; i++)
        (void)scale_iteration(&w);
    assert_int_equal(w.n_ended, w.n_asked);
    print_message("%llu requests, %llu cancelled, %llu iterations; at most %llu iterations beside "
                  "their own\n",
                  (unsigned long long)w.n_asked, (unsigned long long)w.n_cut,
                  (unsigned long long)w.iteration, (unsigned long long)w.longest);
    assert_true(w.longest <= MOST_TURNS_MORE);
    scale_close(&w);
}

FX_SUITE(test_sim_scale)
{
    static size_t small = KIB_64, large = MIB_2;
#define OF(test, chunk)                                                  \
    {                                                                    \
#        test " " #        chunk, test, NULL, NULL, &(chunk) /* state */ \
    }
    const struct CMUnitTest tests[] = {
        OF(test_nodes_cost_an_iteration_nothing, small),
        OF(test_nodes_cost_an_iteration_nothing, large),
        OF(test_long_prompts_cost_an_iteration_nothing, small),
        OF(test_long_prompts_cost_an_iteration_nothing, large),
        OF(test_memory_that_is_ready_costs_an_iteration_nothing, small),
        OF(test_memory_that_is_ready_costs_an_iteration_nothing, large),
        OF(test_requests_that_wait_cost_an_iteration_nothing, small),
        OF(test_requests_that_wait_cost_an_iteration_nothing, large),
        OF(test_requests_that_wait_for_a_prefix_cost_an_iteration_nothing, small),
        OF(test_requests_that_wait_for_a_prefix_cost_an_iteration_nothing, large),
        OF(test_an_iteration_costs_so_much_for_each_sequence, small),
        OF(test_an_iteration_costs_so_much_for_each_sequence, large),
        OF(test_a_world_of_that_size, small),
        OF(test_a_world_of_that_size, large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
