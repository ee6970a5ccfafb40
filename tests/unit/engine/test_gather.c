// test_gather.c - an idle engine waits for companions of its first request: those that come share
// its first pass, a lone one waits 1 % of it, small passes and busy engines wait for nobody; a full
// pass, a cancelled request and the end of the engine end the wait.
//
// The tests run the clock. In the last ones the engine has its thread and the clock stands still,
// so that a wait which is not ended from outside would last for ever.
#include "unit/cmocka_all.h"

#include "unit/engine/support/company.h"
#include "unit/engine/support/unthreaded.h"

#include <sched.h>
#include <string.h>

enum { N_CLIENT = 6, N_TOK = 100, LATE_US = 100 };

static client c[N_CLIENT];
static prompt p[N_CLIENT];
static fx_engine *open_here(double us_per_tok)
{
    fx_engine *eng =
        unthreaded_open(MODEL, (fx_options){.n_thread = 1, .max_seq = 4, .step_tok = 350});
    (void)unthreaded_set_clock(eng);
    eng->memory.us_per_tok = us_per_tok;
    return eng;
}

static void close_here(fx_engine *eng, int n)
{
    unthreaded_close(eng);
    for (int i = 0; i < n; i++) client_free(&c[i]);
}

// A prompt of its own.
static void submit(fx_engine *eng, int i, int n_tok)
{
    for (int t = 0; t < n_tok; t++) p[i].tok[t] = t ? 3 + (t * 31 + i * 101) % 310 : 1;
    client_init(&c[i], eng, p[i].tok, (size_t)n_tok, 8);
    assert_int_equal(client_submit(&c[i], NULL), FX_OK);
}

static uint64_t n_step(const fx_engine *eng)
{
    fx_stats st;
    fx_engine_stats(eng, &st);
    return st.n_step;
}

static void run_all(int n)
{
    for (int i = 0; i < n; i++) client_run(&c[i]);
}

// ---- how long ----------------------------------------------------------------------------------

FX_TEST(test_a_lone_request_waits_one_percent_of_its_pass)
{
    static const struct {
        double us_per_tok;
        uint64_t wait_us;
    } row[] = {{0, 0}, {90, 0}, {100, 0}, {200, 100}, {1000, 900}, {2000, 1900}, {1e6, 1900}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        fx_engine *eng = open_here(row[i].us_per_tok);
        assert_int_equal(fxi_batching_delay_us(eng), 0); // nobody is there
        submit(eng, 0, N_TOK);
        const uint64_t us = fxi_batching_delay_us(eng);
        assert_int_equal(us, row[i].wait_us);
        if (us) assert_true((double)(us + LATE_US) <= 0.01 * row[i].us_per_tok * N_TOK);
        unthreaded_clock_us += us / 2;
        assert_int_equal(fxi_batching_delay_us(eng), us - us / 2);
        unthreaded_clock_us += us - us / 2;
        assert_int_equal(fxi_batching_delay_us(eng), 0);
        run_all(1);
        assert_int_equal(c[0].choice[0].n_tok, 8);
        close_here(eng, 1);
    }
}

// Each makes the pass longer, and with it the wait, which counts from the first.
FX_TEST(test_companions_share_the_first_pass)
{
    fx_engine *eng = open_here(500);
    submit(eng, 0, N_TOK);
    assert_int_equal(fxi_batching_delay_us(eng), 400);
    unthreaded_clock_us += 300;
    submit(eng, 1, N_TOK);
    assert_int_equal(fxi_batching_delay_us(eng), 900 - 300);
    unthreaded_clock_us += 599;
    submit(eng, 2, N_TOK);
    assert_int_equal(fxi_batching_delay_us(eng), 1400 - 899);
    assert_int_equal(n_step(eng), 0);
    unthreaded_clock_us += 501;
    assert_int_equal(fxi_batching_delay_us(eng), 0);
    (void)fxi_iteration_run(eng);
    assert_int_equal(n_step(eng), 1);
    for (int i = 0; i < 3; i++) assert_int_equal(c[i].choice[0].n_tok, 1);
    run_all(3);
    assert_int_equal(n_step(eng), 8);
    close_here(eng, 3);
}

FX_TEST(test_what_is_cached_does_not_count)
{
    fx_engine *eng = open_here(1000);
    submit(eng, 0, N_TOK);
    run_all(1);
    client_free(&c[0]);
    eng->memory.us_per_tok = 1000;
    submit(eng, 0, N_TOK);
    assert_int_equal(fxi_batching_delay_us(eng), 0); // all but a token or two
    run_all(1);
    assert_true(c[0].choice[0].n_cached > N_TOK / 2);
    close_here(eng, 1);
}

// ---- what does not wait -------------------------------------------------------------------------

FX_TEST(test_nobody_waits_where_others_run)
{
    fx_engine *eng = open_here(1000);
    submit(eng, 0, N_TOK);
    (void)fxi_iteration_run(eng); // by hand: at once
    assert_int_equal(c[0].choice[0].n_tok, 1);
    eng->memory.us_per_tok = 1000;
    submit(eng, 1, N_TOK);
    assert_int_equal(fxi_batching_delay_us(eng), 0);
    run_all(2);
    close_here(eng, 2);
}

// Four may run: the two that are left when these have ended have waited long enough.
FX_TEST(test_nobody_waits_who_waited_for_a_place)
{
    fx_engine *eng = open_here(1000);
    for (int i = 0; i < N_CLIENT; i++) submit(eng, i, 40);
    assert_int_equal(fxi_batching_delay_us(eng), 0); // as many as may run
    while (!c[0].last) (void)fxi_iteration_run(eng);
    assert_null(eng->sched.running.head);
    assert_non_null(eng->sched.waiting.head);
    eng->memory.us_per_tok = 1000;
    assert_int_equal(fxi_batching_delay_us(eng), 0);
    run_all(N_CLIENT);
    close_here(eng, N_CLIENT);
}

FX_TEST(test_a_full_pass_goes_at_once)
{
    fx_engine *eng = open_here(1000);
    for (int i = 0; i < 3; i++) submit(eng, i, 116);
    assert_true(fxi_batching_delay_us(eng) > 0);
    close_here(eng, 3);
    eng = open_here(1000);
    for (int i = 0; i < 3; i++) submit(eng, i, 117); // 351 tokens
    assert_int_equal(fxi_batching_delay_us(eng), 0);
    close_here(eng, 3);
}

FX_TEST(test_what_computes_nothing_is_not_delayed)
{
    fx_engine *eng = open_here(1000);
    client_init(&c[0], eng, make_prompt(3).tok, 50, 0);
    assert_int_equal(client_submit(&c[0], NULL), FX_OK);
    assert_int_equal(fxi_batching_delay_us(eng), 0);
    run_all(1);
    close_here(eng, 1);
}

// A wait that ends because all were cancelled leaves nothing to the next one.
FX_TEST(test_the_next_wait_begins_anew)
{
    fx_engine *eng = open_here(1000);
    submit(eng, 0, N_TOK);
    assert_int_equal(fxi_batching_delay_us(eng), 900);
    fx_cancel(eng, c[0].id);
    (void)fxi_iteration_run(eng);
    assert_int_equal(c[0].choice[0].finish, FX_FINISH_CANCEL);
    unthreaded_clock_us += 5000;
    submit(eng, 1, N_TOK);
    assert_int_equal(fxi_batching_delay_us(eng), 900);
    unthreaded_clock_us += 900;
    assert_int_equal(fxi_batching_delay_us(eng), 0);
    run_all(2);
    close_here(eng, 2);
}

// ---- with the engine's thread ------------------------------------------------------------------

static void *engine_main(void *eng)
{
    fxi_engine_run(eng);
    return NULL;
}

static void start_thread(fx_engine *eng)
{
    assert_int_equal(pthread_create(&eng->thread, NULL, engine_main, eng), 0);
}

static void stop_thread(fx_engine *eng)
{
    fxi_mailbox_signal(&eng->mailbox, &eng->mailbox.is_closing);
    pthread_join(eng->thread, NULL);
}

// Until the thread has collected request i, and so waits for others, or is about to.
static void await_collected(const fx_engine *eng, int i)
{
    fx_record ev[256];
    uint64_t first;
    for (bool found = false; !found; sched_yield()) {
        const size_t n = fx_record_copy(eng, 0, ev, 256, &first);
        for (size_t k = 0; k < n && !found; k++)
            found = ev[k].request == c[i].id && ev[k].kind == FX_RECORD_arrive;
    }
}

FX_TEST(test_a_cancelled_request_ends_the_wait)
{
    fx_engine *eng = open_here(1000);
    start_thread(eng);
    for (int i = 0; i < 3; i++) { // the second and third find an engine that has waited already
        submit(eng, i, N_TOK);
        await_collected(eng, i);
        fx_cancel(eng, c[i].id);
        client_wait(&c[i]);
        assert_int_equal(c[i].choice[0].finish, FX_FINISH_CANCEL);
    }
    assert_int_equal(n_step(eng), 0);
    stop_thread(eng);
    close_here(eng, 3);
}

FX_TEST(test_the_end_of_the_engine_ends_the_wait)
{
    fx_engine *eng = open_here(1000);
    start_thread(eng);
    submit(eng, 0, N_TOK);
    await_collected(eng, 0);
    stop_thread(eng);
    assert_int_equal(c[0].choice[0].finish, FX_FINISH_ABORT);
    assert_int_equal(n_step(eng), 0);
    close_here(eng, 1);
}

// The fourth, which is the last that may run, starts them all. Their answers are those of requests
// that are alone.
FX_TEST(test_the_last_companion_ends_the_wait)
{
    fx_engine *eng = open_here(1000);
    start_thread(eng);
    for (int i = 0; i < 4; i++) start_client(&c[i], eng, &p[i], i + 1);
    for (int i = 0; i < 4; i++) {
        client_wait(&c[i]);
        assert_memory_equal(c[i].choice[0].tok, alone[i + 1], sizeof alone[i + 1]);
    }
    assert_int_equal(n_step(eng), N_GEN);
    stop_thread(eng);
    close_here(eng, 4);
}

FX_RUN_GROUP(test_gather, run_alone, NULL)
