// test_kv_beside.c - pages of `paged` that the manager's thread is at: while it stands still in the
// middle of one, at a gate, their sequences turn round, grow, are matched with and end. Nobody
// waits for it, and what it reads or writes is nobody else's until it is done.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "unit/kv/support/kv_world.h"

#include <sched.h>

enum { BUDGET = 256 << 10, BLOCK_TOK = 16, LONG = 3 * BLOCK_TOK + 5 };

static kv_world w; // too large for a stack
static int32_t text[2][KV_WORLD_CTX];

static int setup(void **state)
{
    (void)state;
    fxi_kv_shape shape = kv_world_shape(BUDGET, false);
    for (int i = 0; i < KV_WORLD_CTX; i++) text[0][i] = i % 71, text[1][i] = 100 + i % 31;
    shape.single_thread = false;
    kv_world_open(&w, "paged", &shape);
    w.is_lossy = true;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    vt_fault_hold_swap(w.fault, false, false); // of a test that has failed
    kv_world_close(&w);
    return 0;
}

static void begin(int i, int n_tok, const int32_t *tok)
{
    const fxi_kv_expect e = {.begin_tok = n_tok};
    assert_int_equal(kv_world_create(&w, i, &e), FX_OK);
    assert_int_equal(kv_world_extend(&w, i, n_tok, tok), FX_OK);
}

// On its way, and its first page in the thread's hands.
static void hold_on_the_way(int i, bool out)
{
    vt_fault_hold_swap(w.fault, true, true);
    assert_int_equal(kv_world_swap_ask(&w, i, out), FX_OK);
    assert_true(w.seq[i].is_moving);
    vt_fault_await_held(w.fault, 1);
}

static void let_go_on(void)
{
    vt_fault_hold_swap(w.fault, false, false);
}

static uint64_t ending_bytes(void)
{
    fxi_kv_stats st;
    fxi_kv_step(w.kv, 0, w.now_ms);
    fxi_kv_get_stats(w.kv, &st);
    return st.external_bytes;
}

static void await_end(void)
{
    let_go_on();
    while (ending_bytes()) (void)sched_yield();
}

// As many blocks as are left; all rows are their own.
static void fill_up(int i)
{
    int n = BLOCK_TOK;
    begin(i, n, text[1]);
    while (n < KV_WORLD_CTX && kv_world_extend(&w, i, n + 1, text[1]) == FX_OK) n++;
    kv_world_verify(&w);
}

// It comes back at once, and what it writes to the page goes to a copy.
static void test_what_is_read_is_not_written_to(void **state)
{
    (void)state;
    begin(0, 8, text[0]);
    const int32_t block = fxi_kv_get_views(w.kv, w.seq[0].kv).group[0].table[0];
    hold_on_the_way(0, true);
    assert_int_equal(kv_world_swap_in(&w, 0), FX_OK);
    assert_int_equal(fxi_kv_get_views(w.kv, w.seq[0].kv).group[0].table[0], block);
    assert_int_equal(fxi_kv_growth(w.kv, w.seq[0].kv, 9), fxi_kv_bytes_for(w.kv, 1));
    assert_int_equal(kv_world_extend(&w, 0, 12, text[0]), FX_OK);
    assert_int_not_equal(fxi_kv_get_views(w.kv, w.seq[0].kv).group[0].table[0], block);
    kv_world_verify(&w);
    assert_int_equal(kv_world_swap_ask(&w, 0, true), FX_OK);
    let_go_on();
    assert_int_equal(kv_world_swap_out(&w, 0), FX_OK);
    assert_int_equal(kv_world_swap_in(&w, 0), FX_OK);
}

// What has been written when it is wanted out again has not to be written twice.
static void test_a_page_that_is_written_may_leave_after_all(void **state)
{
    (void)state;
    begin(0, 8, text[0]);
    hold_on_the_way(0, true);
    assert_int_equal(kv_world_swap_in(&w, 0), FX_OK);
    assert_int_equal(kv_world_swap_ask(&w, 0, true), FX_OK);
    assert_true(w.seq[0].is_moving);
    let_go_on();
    assert_int_equal(kv_world_swap_out(&w, 0), FX_OK);
    assert_int_equal(fxi_kv_get_moved(w.kv).bytes, fxi_kv_bytes_for(w.kv, 8));
    assert_int_equal(kv_world_swap_in(&w, 0), FX_OK);
}

static void test_who_matches_a_page_on_its_way_keeps_it(void **state)
{
    (void)state;
    int hit;
    begin(0, LONG, text[0]);
    assert_int_equal(kv_world_record_seq(&w, 0, 0, LONG), FX_OK);
    hold_on_the_way(0, true);
    assert_int_equal(kv_world_match(&w, 1, 0, text[0], LONG, &hit), FX_OK);
    assert_int_equal(hit, 3 * BLOCK_TOK);
    kv_world_verify(&w);
    let_go_on();
    assert_int_equal(kv_world_swap_out(&w, 0), FX_OK);
    kv_world_verify(&w);
    assert_int_equal(kv_world_swap_in(&w, 0), FX_OK);
}

// The other one's call takes back the only page that it waits for.
static void test_a_way_ends_where_another_one_turns_round(void **state)
{
    (void)state;
    begin(1, LONG, text[1]);
    begin(0, 8, text[0]);
    assert_int_equal(kv_world_fork(&w, 0, 2, 8), FX_OK);
    assert_int_equal(kv_world_swap_out(&w, 0), FX_OK);
    hold_on_the_way(1, true);
    assert_int_equal(kv_world_swap_ask(&w, 2, true), FX_OK);
    assert_true(w.seq[2].is_moving);
    assert_int_equal(kv_world_swap_in(&w, 0), FX_OK);
    assert_int_equal(kv_world_swap_ask(&w, 2, true), FX_OK);
    assert_false(w.seq[2].is_moving);
    assert_int_equal(kv_world_swap_in(&w, 2), FX_OK);
    kv_world_verify(&w);
    let_go_on();
}

// Either way; its block is not another sequence's before the thread is done with it.
static void test_who_ends_on_the_way_leaves_a_page(void **state)
{
    (void)state;
    for (int out = 0; out < 2; out++) {
        begin(0, LONG, text[0]);
        if (!out) assert_int_equal(kv_world_swap_out(&w, 0), FX_OK);
        hold_on_the_way(0, out);
        kv_world_release(&w, 0);
        assert_int_equal(ending_bytes(), fxi_kv_bytes_for(w.kv, 1));
        fill_up(1);
        await_end();
        kv_world_verify(&w);
        kv_world_release(&w, 1);
    }
}

// A page that is read is thrown away when it has come.
static void test_who_turns_back_waits_for_one_page(void **state)
{
    (void)state;
    begin(0, LONG, text[0]);
    assert_int_equal(kv_world_swap_out(&w, 0), FX_OK);
    hold_on_the_way(0, false);
    assert_int_equal(kv_world_swap_ask(&w, 0, true), FX_OK);
    assert_true(w.seq[0].is_moving);
    assert_int_equal(fxi_kv_held_bytes(w.kv), fxi_kv_bytes_for(w.kv, 1));
    let_go_on();
    assert_int_equal(kv_world_swap_out(&w, 0), FX_OK);
    assert_int_equal(fxi_kv_held_bytes(w.kv), 0);
    assert_int_equal(kv_world_swap_in(&w, 0), FX_OK);
}

static void test_closing_on_the_way(void **state)
{
    for (int out = 0; out < 2; out++) {
        (void)setup(state);
        begin(0, LONG, text[0]);
        if (!out) assert_int_equal(kv_world_swap_out(&w, 0), FX_OK);
        assert_int_equal(kv_world_swap_ask(&w, 0, out), FX_OK);
        for (int d = 0; d < KV_WORLD_N_DOMAIN; d++) fxi_kv_domain_close(w.kv, w.domain[d]);
        fxi_kv_close(w.kv);
    }
}

FX_SUITE(test_kv_beside)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_what_is_read_is_not_written_to),
        T(test_a_page_that_is_written_may_leave_after_all),
        T(test_who_matches_a_page_on_its_way_keeps_it),
        T(test_a_way_ends_where_another_one_turns_round),
        T(test_who_ends_on_the_way_leaves_a_page),
        T(test_who_turns_back_waits_for_one_page),
        cmocka_unit_test(test_closing_on_the_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
