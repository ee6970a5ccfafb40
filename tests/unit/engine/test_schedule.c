// test_schedule.c - who is served when: decodes never wait for prompts, short prompts do not wait
// for long ones; order and priorities; who is preempted and how; requests do not move in and out.
//
// The test runs the engine's iterations and its clock.
#include "unit/cmocka_all.h"

#include "unit/engine/support/company.h"
#include "unit/engine/support/unthreaded.h"

#include <stdlib.h>
#include <string.h>

enum { N_CLIENT = 6 };

static client c[N_CLIENT];
static prompt p[N_CLIENT];
static fx_engine *open_here(fx_options opt)
{
    return unthreaded_set_clock(unthreaded_open(MODEL, opt));
}

// Swapping continues in iterations.
static fx_engine *open_single(fx_options opt)
{
    return unthreaded_set_clock(unthreaded_open_single(MODEL, opt));
}

// Request i with n_prompt tokens of its own; greedy.
static void submit(fx_engine *eng, int i, int n_prompt, int max_tok, int priority)
{
    p[i] = make_prompt(i);
    for (int t = 1; t < MAX_PROMPT; t++) p[i].tok[t] = 3 + (t * 31 + i * 101) % 310;
    client_init(&c[i], eng, p[i].tok, (size_t)n_prompt, max_tok);
    c[i].req.priority = priority;
    assert_int_equal(client_submit(&c[i], NULL), FX_OK);
}

static fxi_live_request *group_of(const fx_engine *eng, int i)
{
    return fxi_mailbox_find_locked(&eng->mailbox, c[i].id);
}

static void iterations(fx_engine *eng, int n)
{
    for (int i = 0; i < n; i++) {
        unthreaded_clock_us += 10000;
        (void)fxi_iteration_run(eng);
    }
}

// Runs iterations until the first n requests have ended; returns the number of iterations.
static int run_all(fx_engine *eng, int n)
{
    int n_iteration = 0;
    for (int i = 0; i < n; i++)
        for (; !c[i].last; n_iteration++) {
            iterations(eng, 1);
            assert_true(n_iteration < 20000);
        }
    return n_iteration;
}

static void close_here(fx_engine *eng, int n)
{
    unthreaded_close(eng);
    for (int i = 0; i < n; i++) client_free(&c[i]);
}

static uint64_t n_recompute(const fx_engine *eng)
{
    return eng->stats.now.n_preempt_recompute;
}

// ---- prompts and streams -----------------------------------------------------------------------

// Two streams get a token in every iteration while a prompt of many steps is computed.
FX_TEST(test_prompts_do_not_stall_streams)
{
    fx_engine *eng = open_here((fx_options){.n_thread = 1, .max_seq = 8, .step_tok = 8});
    submit(eng, 0, 4, 100, 0);
    submit(eng, 1, 4, 100, 0);
    iterations(eng, 3);
    submit(eng, 2, 110, 4, 0);
    while (!c[2].choice[0].n_tok) {
        const int n0 = c[0].choice[0].n_tok, n1 = c[1].choice[0].n_tok;
        iterations(eng, 1);
        assert_int_equal(c[0].choice[0].n_tok, n0 + 1);
        assert_int_equal(c[1].choice[0].n_tok, n1 + 1);
    }
    assert_int_equal(c[2].choice[0].n_prompt, 110);
    close_here(eng, 3);
}

// Beside a stream, a prompt gets as many tokens of a step as fit into step_ms at the measured rate,
// and a minimum in any case; alone it gets all.
FX_TEST(test_prompts_leave_time_to_streams)
{
    static const struct {
        double us_per_tok;
        int n_tok;
    } row[] = {{300, 100}, {400, 75}, {30000, 64}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        fx_engine *eng =
            open_here((fx_options){.n_thread = 1, .max_seq = 8, .step_tok = 256, .step_ms = 30});
        submit(eng, 0, 4, 100, 0);
        iterations(eng, 2);
        eng->memory.us_per_tok = row[i].us_per_tok;
        submit(eng, 1, 119, 4, 0);
        iterations(eng, 1);
        const fxi_live_request *g = group_of(eng, 1);
        const int n_first = g->n_cached + row[i].n_tok;
        assert_int_equal(g->seq[0].n_computed, n_first);
        fx_cancel(eng, c[0].id);
        iterations(eng, 1);
        assert_int_equal(g->seq[0].n_computed, 119);
        close_here(eng, 2);
    }
}

// A short prompt that arrives while a long one is computed has its first token after two
// iterations, and the long one gets at least half of each step.
FX_TEST(test_short_prompts_overtake)
{
    fx_engine *eng = open_here((fx_options){.n_thread = 1, .max_seq = 8, .step_tok = 16});
    submit(eng, 0, 119, 4, 0);
    iterations(eng, 2);
    submit(eng, 1, 6, 4, 0);
    iterations(eng, 2);
    assert_true(c[1].choice[0].n_tok >= 1);
    const fxi_seq *longer = &group_of(eng, 0)->seq[0];
    assert_int_equal(longer->n_computed, 4 * 16 - 6 - 1); // all but the other's prompt and token
    close_here(eng, 2);
}

// Many prompts of equal length: the first does not starve among later ones.
FX_TEST(test_the_first_prompt_gets_half)
{
    fx_engine *eng = open_here((fx_options){.n_thread = 1, .max_seq = 8, .step_tok = 16});
    submit(eng, 0, 119, 1, 0);
    iterations(eng, 1);
    for (int i = 1; i < 6; i++) submit(eng, i, 100, 1, 0);
    for (int n_iteration = 0; !c[0].last; n_iteration++) {
        iterations(eng, 1);
        assert_true(n_iteration < 119 / 8 + 2);
    }
    run_all(eng, 6);
    close_here(eng, 6);
}

// ---- order -------------------------------------------------------------------------------------

// With one place, requests run one after the other: which ends first?
static void expect_order(fx_engine *eng, const int *order, int n)
{
    for (int k = 0; k < n; k++) {
        for (int n_iteration = 0; !c[order[k]].last; n_iteration++) {
            iterations(eng, 1);
            assert_true(n_iteration < 1000);
        }
        for (int l = k + 1; l < n; l++) assert_false(c[order[l]].last);
    }
}

FX_TEST(test_order_and_priority)
{
    fx_engine *eng = open_here((fx_options){.n_thread = 1, .max_seq = 1});
    const int priority[] = {0, 0, 5, -1, 5};
    for (int i = 0; i < 5; i++) {
        submit(eng, i, 5, 6, priority[i]);
        if (!i) iterations(eng, 2); // the first one runs
        unthreaded_clock_us += 1000;
    }
    expect_order(eng, (const int[]){0, 2, 4, 1, 3}, 5);
    close_here(eng, 5);
}

// A request that has waited ten seconds per unit of priority goes first.
FX_TEST(test_nobody_starves)
{
    fx_engine *eng = open_here((fx_options){.n_thread = 1, .max_seq = 1});
    submit(eng, 0, 5, 6, 0);
    iterations(eng, 2);
    submit(eng, 1, 5, 6, -2);
    unthreaded_clock_us += 19 * 1000000;
    submit(eng, 2, 5, 6, 0);
    unthreaded_clock_us += 2 * 1000000;
    submit(eng, 3, 5, 6, 0);
    expect_order(eng, (const int[]){0, 2, 1, 3}, 4);
    close_here(eng, 4);
}

// ---- the end of a step -------------------------------------------------------------------------

typedef struct step_seen {
    int n_call, n_tok; // of both streams, when it was called last
} step_seen;

static void see_step(void *ud)
{
    step_seen *s = ud;
    s->n_call++;
    s->n_tok = c[0].choice[0].n_tok + c[1].choice[0].n_tok;
}

// The function set by fx_engine_on_step is called once in each iteration, behind all events of it,
// also when the engine ends; never again once it has been taken back.
FX_TEST(test_the_end_of_a_step_is_told)
{
    step_seen seen = {0}, other = {0};
    fx_engine *eng = open_here((fx_options){.n_thread = 1, .max_seq = 8});
    fx_engine_on_step(eng, see_step, &seen);
    submit(eng, 0, 5, 50, 0);
    submit(eng, 1, 5, 50, 0);
    for (int i = 1; i <= 5; i++) {
        iterations(eng, 1);
        assert_int_equal(seen.n_call, i);
        assert_int_equal(seen.n_tok, c[0].choice[0].n_tok + c[1].choice[0].n_tok);
    }
    assert_true(seen.n_tok >= 6);
    fx_engine_on_step(eng, see_step, &other);
    iterations(eng, 2);
    assert_true(seen.n_call == 5 && other.n_call == 2);
    fxi_iteration_end_all(eng, FX_FINISH_ABORT);
    assert_int_equal(other.n_call, 3);
    fx_engine_on_step(eng, NULL, NULL);
    iterations(eng, 1);
    assert_int_equal(other.n_call, 3);
    close_here(eng, 2);
}

// ---- preemption --------------------------------------------------------------------------------

static void set_budget(fx_engine *eng, uint64_t bytes)
{
    fx_error err = {0};
    if (fx_set_kv_memory(eng, bytes, &err) != FX_OK) fail_msg("%s", err.text);
}

// Until what ended sequences held has gone.
static void settle(fx_engine *eng)
{
    fxi_kv_stats st;
    do {
        fxi_kv_step(eng->kv, 0, 0);
        fxi_kv_get_stats(eng->kv, &st);
    } while (st.returning_bytes || st.mapped_bytes > st.budget_bytes);
}

// The lowest priority is preempted first, the latest of equal ones; a request with all its choices.
FX_TEST(test_victims)
{
    fx_engine *eng = open_here((fx_options){.n_thread = 1});
    const int priority[] = {0, 3, -3, 0};
    for (int i = 0; i < 4; i++) {
        p[i] = make_prompt(i);
        client_init(&c[i], eng, p[i].tok, 40, 120);
        c[i].req.priority = priority[i];
        c[i].req.n_choice = 2;
        assert_int_equal(client_submit(&c[i], NULL), FX_OK);
        unthreaded_clock_us += 1000;
    }
    iterations(eng, 3);
    static const int victims[] = {2, 3, 0};
    for (int k = 0; k < 3; k++) {
        fxi_kv_stats st;
        fxi_kv_get_stats(eng->kv, &st);
        set_budget(eng, st.held_bytes - ((uint64_t)1 * fxi_kv_bytes_for(eng->kv, 1)));
        fxi_budget_apply(&eng->memory);
        settle(eng);
        for (int i = 0; i < 4; i++) {
            bool is_out = false;
            for (int v = 0; v <= k; v++) is_out |= victims[v] == i;
            assert_int_equal(group_of(eng, i)->state == FXI_RUNNING, !is_out);
            for (int s = 0; s < 2; s++)
                assert_int_equal(group_of(eng, i)->seq[s].kv != NULL, !is_out);
        }
    }
    set_budget(eng, 64 << 20);
    run_all(eng, 4);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 2; k++) assert_int_equal(c[i].choice[k].finish, FX_FINISH_LENGTH);
    close_here(eng, 4);
}

// What comes free if the request, of one sequence, goes to the swap.
static double gain_of(const fx_engine *eng, const fxi_live_request *g)
{
    if (!fxi_kv_can(eng->kv, FXI_KV_SWAP)) return (double)fxi_preempt_bytes(&eng->memory, g);
    return (double)fxi_kv_swap_gain(eng->kv, g->seq[0].kv, g->seq[0].n_recorded);
}

FX_TEST(test_the_cheaper_way)
{
    fx_engine *eng = open_single((fx_options){.n_thread = 1, .swap_bytes = 16 << 20});
    submit(eng, 0, 100, 60, 0);
    iterations(eng, 10);
    fxi_live_request *g = group_of(eng, 0);
    const double bytes = gain_of(eng, g), n_tok = g->seq[0].n_computed;
    eng->memory.swap_us_per_byte = 0.001;
    eng->memory.us_per_tok = 0.9 * 2 * 0.001 * bytes / n_tok;
    fxi_preempt_request(&eng->memory, g, FXI_PREEMPT_CHEAPER);
    assert_int_equal(g->state, FXI_WAITING);
    iterations(eng, 2);
    assert_int_equal(g->state, FXI_RUNNING);
    eng->memory.swap_us_per_byte = 0.001;
    eng->memory.us_per_tok = 1.2 * 2 * 0.001 * bytes / n_tok;
    fxi_preempt_request(&eng->memory, g, FXI_PREEMPT_CHEAPER);
    assert_int_equal(g->state, FXI_SWAPPING_OUT);
    assert_int_equal(eng->stats.now.n_preempt_swap, 1);
    for (int i = 0; i < 1000 && g->state != FXI_RUNNING; i++) iterations(eng, 1);
    assert_int_equal(g->state, FXI_RUNNING);
    run_all(eng, 1);
    close_here(eng, 1);
}

// Most of it is recorded, and would stay: with a manager that leaves it in memory it is computed
// again, however cheap the swap is.
FX_TEST(test_what_stays_in_memory_is_not_swapped)
{
    static int32_t tok[200];
    for (int i = 0; fxi_kv_manager_name(i); i++) {
        fx_engine *eng = open_single((fx_options){.n_thread = 1,
                                                  .swap_bytes = 16 << 20,
                                                  .kv_memory_bytes = 8 << 20,
                                                  .kv_manager = fxi_kv_manager_name(i)});
        for (int t = 0; t < 200; t++) tok[t] = 3 + (t * 31) % 310;
        client_init(&c[0], eng, tok, 200, 30);
        assert_int_equal(client_submit(&c[0], NULL), FX_OK);
        iterations(eng, 10);
        fxi_live_request *g = group_of(eng, 0);
        const bool can = fxi_kv_can(eng->kv, FXI_KV_SWAP);
        const bool leaves =
            can && 2 * gain_of(eng, g) >= (double)fxi_preempt_bytes(&eng->memory, g);
        eng->memory.swap_us_per_byte = 1e-9;
        eng->memory.us_per_tok = 1e3;
        fxi_preempt_request(&eng->memory, g, FXI_PREEMPT_CHEAPER);
        assert_int_equal(g->state == FXI_WAITING, !leaves);
        if (i == 0) assert_false(leaves);
        run_all(eng, 1);
        close_here(eng, 1);
    }
}

// What a manager says that it has copied.
static fxi_kv_moved copied;

static void say_copied(const fxi_kv *kv, fxi_kv_moved *out)
{
    (void)kv;
    *out = copied;
}

static void swap_once(fx_engine *eng)
{
    fxi_live_request *g = group_of(eng, 0);
    fxi_preempt_request(&eng->memory, g, FXI_SWAP);
    for (int i = 0; i < 1000 && g->state != FXI_RUNNING; i++) iterations(eng, 1);
    assert_int_equal(g->state, FXI_RUNNING);
}

// The copies count, and nothing else of the time that a request is on its way; with every manager
// that swaps.
FX_TEST(test_the_rate_of_the_swap_is_measured)
{
    int n_tested = 0;
    for (int i = 0; fxi_kv_manager_name(i); i++) {
        fx_engine *eng = open_single((fx_options){.n_thread = 1,
                                                  .swap_bytes = 16 << 20,
                                                  .kv_memory_bytes = 8 << 20,
                                                  .kv_manager = fxi_kv_manager_name(i)});
        const fxi_kv_ops *real = eng->kv->ops;
        fxi_kv_ops ops = *real;
        submit(eng, 0, 100, 60, 0);
        iterations(eng, 10);
        if (fxi_kv_can(eng->kv, FXI_KV_SWAP)) {
            eng->memory.swap_us_per_byte = 1e6;
            swap_once(eng);
            assert_true(eng->memory.swap_us_per_byte > 0 && eng->memory.swap_us_per_byte < 1e5);
            ops.moved = say_copied;
            eng->kv->ops = &ops;
            copied = (fxi_kv_moved){1000, 3000000};
            eng->memory.measured = (fxi_kv_moved){0};
            swap_once(eng);
            assert_true(eng->memory.swap_us_per_byte == 3);
            eng->kv->ops = real;
            n_tested++;
        }
        run_all(eng, 1);
        close_here(eng, 1);
    }
    assert_true(n_tested >= 2);
}

// Where the engine waits for the copies, all that run wait.
FX_TEST(test_a_copy_takes_its_share)
{
    for (int i = 0; fxi_kv_manager_name(i); i++) {
        fx_engine *eng = open_single((fx_options){.n_thread = 2,
                                                  .swap_bytes = 16 << 20,
                                                  .kv_memory_bytes = 8 << 20,
                                                  .kv_manager = fxi_kv_manager_name(i)});
        assert_true(eng->memory.copy_share == (fxi_kv_can(eng->kv, FXI_KV_ASYNC_SWAP) ? 0.5 : 1));
        submit(eng, 0, 100, 60, 0);
        submit(eng, 1, 100, 60, 0);
        iterations(eng, 10);
        fxi_live_request *g = group_of(eng, 1);
        const double bytes = gain_of(eng, g), n_tok = g->seq[0].n_computed;
        eng->memory.swap_us_per_byte = 0.001;
        eng->memory.us_per_tok =
            0.9 * 2 * 0.001 * bytes / n_tok; // half of it would do beside the engine
        fxi_preempt_request(&eng->memory, g, FXI_PREEMPT_CHEAPER);
        assert_int_equal(eng->stats.now.n_preempt_swap, fxi_kv_can(eng->kv, FXI_KV_ASYNC_SWAP));
        run_all(eng, 2);
        close_here(eng, 2);
    }
}

// Only steps that are mostly prompt are measured.
FX_TEST(test_the_rate_of_prompts_is_measured)
{
    fx_engine *eng = open_here((fx_options){.n_thread = 1});
    fxi_preempt_measure(&eng->memory, 10, 100, 5000);
    assert_true(eng->memory.us_per_tok == 0);
    fxi_preempt_measure(&eng->memory, 100, 100, 5000);
    assert_true(eng->memory.us_per_tok == 50);
    fxi_preempt_measure(&eng->memory, 90, 100, 9000);
    assert_true(eng->memory.us_per_tok > 50 && eng->memory.us_per_tok < 90);
    close_here(eng, 0);
}

// With no_cache, choices share nothing after a recompute: they are charged in full, and with just
// that much memory they end however often they are preempted.
FX_TEST(test_choices_without_the_cache_are_billed_in_full)
{
    fx_engine *eng = open_here((fx_options){.n_thread = 1});
    p[0] = make_prompt(0);
    client_init(&c[0], eng, p[0].tok, 119, 60);
    for (int t = 0; t < 119; t++) p[0].tok[t] = 3 + t;
    c[0].req.n_choice = 4;
    c[0].req.no_cache = true;
    const uint64_t need = fxi_request_bytes(&eng->service, &c[0].req, 60);
    assert_true(need >= 4 * fxi_kv_bytes_for(eng->kv, 119 + 60));
    set_budget(eng, need - 1);
    fx_error err = {0};
    assert_int_equal(client_submit(&c[0], &err), FX_ENOSPACE);
    set_budget(eng, need);
    assert_int_equal(client_submit(&c[0], NULL), FX_OK);
    for (int n_iteration = 0; !c[0].last; n_iteration++) {
        iterations(eng, 1);
        if (n_iteration % 9 == 8 && eng->sched.running.head)
            fxi_preempt_request(&eng->memory, eng->sched.running.head, FXI_RECOMPUTE);
        assert_true(n_iteration < 1000);
    }
    for (int k = 0; k < 4; k++) assert_int_equal(c[0].choice[k].finish, FX_FINISH_LENGTH);
    assert_true(n_recompute(eng) > 3);
    close_here(eng, 1);
}

// What a preempted request had computed is in the prefix cache: with room for it, almost nothing is
// computed again.
FX_TEST(test_a_victims_prefix_stays)
{
    fx_engine *eng = open_here((fx_options){.n_thread = 1});
    submit(eng, 0, 110, 60, 0);
    iterations(eng, 20);
    fxi_live_request *g = group_of(eng, 0);
    const int n_computed = g->seq[0].n_computed;
    fxi_preempt_request(&eng->memory, g, FXI_RECOMPUTE);
    assert_int_equal(g->seq[0].n_computed, 0);
    iterations(eng, 1);
    assert_int_equal(eng->stats.now.n_prompt_tok, 110);
    assert_int_equal(g->seq[0].n_computed, n_computed + 1);
    run_all(eng, 1);
    assert_int_equal(eng->stats.now.n_prompt_tok, 110);
    close_here(eng, 1);
}

// Five requests that grow, and memory for two at full length. Without hysteresis, a request that
// comes back is preempted again a few tokens later.
FX_TEST(test_memory_does_not_come_and_go)
{
    fx_engine *eng = open_here((fx_options){.n_thread = 1});
    set_budget(eng, 2 * fxi_kv_bytes_for(eng->kv, 250));
    for (int i = 0; i < 5; i++) submit(eng, i, 20, 230, 0);
    run_all(eng, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(c[i].choice[0].finish, FX_FINISH_LENGTH);
        assert_int_equal(c[i].choice[0].n_tok, 230);
    }
    assert_in_range(n_recompute(eng), 1, 8);
    assert_true(eng->stats.now.kv_peak_mapped_bytes <= eng->stats.now.kv_budget_bytes ||
                eng->stats.now.kv_peak_mapped_bytes <= 64 << 20);
    close_here(eng, 5);
}

// The budget is that of one request at full length. Prompts with a common beginning are recorded in
// it, and more arrive: each ends well, one after the other.
FX_TEST(test_one_request_fills_the_budget)
{
    fx_engine *eng = open_here((fx_options){.n_thread = 1});
    set_budget(eng, fxi_kv_bytes_for(eng->kv, 250));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++) submit(eng, i, 20 + 7 * i, 230 - 7 * i, 0);
        run_all(eng, 4);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(c[i].choice[0].finish, FX_FINISH_LENGTH);
            client_free(&c[i]);
        }
    }
    const char *what;
    assert_int_equal(fxi_kv_check(eng->kv, &what), FX_OK);
    close_here(eng, 0);
}

// A budget below the need of one request ends that request and no other.
FX_TEST(test_a_budget_too_small_for_one)
{
    fx_engine *eng = open_here((fx_options){.n_thread = 1});
    submit(eng, 0, 20, 30, 0);
    submit(eng, 1, 110, 300, 0);
    submit(eng, 2, 20, 40, 0);
    iterations(eng, 10);
    set_budget(eng, fxi_kv_bytes_for(eng->kv, 100));
    run_all(eng, 3);
    assert_int_equal(c[0].choice[0].finish, FX_FINISH_LENGTH);
    assert_int_equal(c[1].choice[0].finish, FX_FINISH_ERROR);
    assert_non_null(strstr(c[1].choice[0].error, "KV memory"));
    assert_int_equal(c[1].choice[0].error_status, FX_ENOSPACE);
    assert_int_equal(c[2].choice[0].finish, FX_FINISH_LENGTH);
    close_here(eng, 3);
}

// The same where it is the choices that find no room.
FX_TEST(test_a_budget_too_small_for_all_choices)
{
    enum { N_CHOICE = 8, N_PROMPT = 200 };
    fx_engine *eng = open_here((fx_options){.n_thread = 1, .max_seq = N_CHOICE, .step_tok = 64});
    p[0] = make_prompt(0);
    client_init(&c[0], eng, p[0].tok, N_PROMPT, 40);
    c[0].req.n_choice = N_CHOICE;
    assert_int_equal(client_submit(&c[0], NULL), FX_OK);
    iterations(eng, 1); // a part of the prompt
    set_budget(eng, fxi_kv_bytes_for(eng->kv, N_PROMPT) + fxi_kv_bytes_for(eng->kv, 1));
    run_all(eng, 1);
    for (int k = 0; k < N_CHOICE; k++) {
        assert_int_equal(c[0].choice[k].finish, FX_FINISH_ERROR);
        assert_non_null(strstr(c[0].choice[k].error, "could not be forked"));
        assert_int_equal(c[0].choice[k].error_status, FX_ENOSPACE);
    }
    close_here(eng, 1);
}

FX_RUN(test_schedule)
