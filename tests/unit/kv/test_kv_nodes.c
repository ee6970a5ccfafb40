// test_kv_nodes.c - what whoever watches recorded prefixes is shown (fxi_kv_watch_nodes), by every
// manager that records: what has changed, and no more; all of them where news could not be noted.
// test_kv_trace.c compares it with what there is, over random calls.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "unit/kv/support/kv_nodes.h"
#include "unit/kv/support/kv_world.h"

#include <stdlib.h>

enum { BUDGET = 1 << 20 };

static kv_world world; // too large for a stack
static int32_t text[KV_WORLD_CTX];
static bool is_short; // of memory: no list grows

void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);

void *__wrap_realloc(void *p, size_t n)
{
    return is_short ? NULL : __real_realloc(p, n);
}

static void each_recorder(void (*fn)(void))
{
    for (int i = 0; i < KV_WORLD_CTX; i++) text[i] = i * 7 % 97;
    for (int i = 0; fxi_lab_manager_name(i); i++) {
        const fxi_kv_shape shape = kv_world_shape(BUDGET, false);
        kv_world_open(&world, fxi_lab_manager_name(i), &shape);
        if (fxi_kv_can(world.kv, FXI_KV_PREFIX)) fn();
        kv_world_close(&world);
    }
}

static void begin_recorded(int i, int domain, int n_tok)
{
    const fxi_kv_expect e = {.begin_tok = n_tok, .most_tok = n_tok};
    assert_int_equal(kv_world_create(&world, i, &e), FX_OK);
    assert_int_equal(kv_world_extend(&world, i, n_tok, text), FX_OK);
    assert_int_equal(kv_world_record_seq(&world, i, domain, n_tok), FX_OK);
}

static void shows_no_node_twice(void)
{
    int hit;
    begin_recorded(0, 0, 290);
    kv_world_release(&world, 0);
    const int n_old = kv_nodes_take(world.kv); // all
    assert_int_equal(kv_nodes_n_known(), n_old);
    assert_true(n_old > 1);
    assert_int_equal(kv_nodes_take(world.kv), 0);
    begin_recorded(1, 1, 150);
    const int n_new = kv_nodes_take(world.kv);
    assert_true(n_new > 0);
    assert_int_equal(kv_nodes_n_known(), n_old + n_new);
    assert_int_equal(kv_world_match(&world, 0, 1, text, 140, &hit), FX_OK);
    assert_in_range(kv_nodes_take(world.kv), 1, n_new); // who holds them
    kv_world_release(&world, 0);
    assert_in_range(kv_nodes_take(world.kv), 1, n_new);
    kv_world_step(&world, 0, world.now_ms + 1);
    assert_int_equal(kv_nodes_take(world.kv), 0);
    kv_nodes_compare(world.kv);
}

static void test_unchanged_nodes_are_not_shown(void **state)
{
    (void)state;
    each_recorder(shows_no_node_twice);
}

static uint64_t evicted_now(void)
{
    fxi_kv_stats st;
    fxi_kv_get_stats(world.kv, &st);
    return st.n_evicted;
}

// Sequences grow until n nodes, which are news, have been evicted, or all: some go, others stay.
static void evict_some(uint64_t n)
{
    const uint64_t from = evicted_now();
    for (int i = 2; i < KV_WORLD_MAX_SEQ && evicted_now() < from + n; i++) {
        const fxi_kv_expect e = {.begin_tok = 16, .most_tok = KV_WORLD_CTX};
        fx_status went = kv_world_create(&world, i, &e);
        for (int end = 16; went == FX_OK && end < KV_WORLD_CTX && evicted_now() < from + n;
             end += 16)
            went = kv_world_extend(&world, i, end, text);
    }
    assert_true(evicted_now() > from);
}

static void drops_news_that_go(void)
{
    (void)kv_nodes_take(world.kv);
    for (uint64_t n = 1; n <= 12; n++) {
        begin_recorded(0, 0, 40);
        begin_recorded(1, 1, 100);
        kv_world_release(&world, 0);
        kv_world_release(&world, 1);
        world.is_lossy = true;
        evict_some(n);
        (void)kv_nodes_take(world.kv);
        kv_nodes_compare(world.kv);
        for (int i = 2; i < KV_WORLD_MAX_SEQ; i++)
            if (world.seq[i].kv) kv_world_release(&world, i);
        assert_int_equal(kv_world_forget(&world), FX_OK);
        (void)kv_nodes_take(world.kv);
    }
}

static void test_news_that_go_are_dropped(void **state)
{
    (void)state;
    each_recorder(drops_news_that_go);
}

// Many nodes come and go between two looks. Their names are kept up to some number; from then on,
// the next look begins anew.
static void keeps_few_names(void)
{
    begin_recorded(1, 0, 100);
    (void)kv_nodes_take(world.kv);
    for (int i = 0; i < 500; i++) {
        begin_recorded(0, 1, 200);
        kv_world_release(&world, 0);
        assert_int_equal(kv_world_forget(&world), FX_OK);
    }
    assert_in_range(kv_nodes_take(world.kv), 1, 1500);
    kv_nodes_compare(world.kv);
}

static void test_gone_nodes_are_bounded(void **state)
{
    (void)state;
    each_recorder(keeps_few_names);
}

// What cannot be noted is shown with all the others, whether it has come or gone.
static void shows_all_when_short(void)
{
    begin_recorded(0, 0, 290);
    kv_world_release(&world, 0);
    const int n_old = kv_nodes_take(world.kv);
    kv_nodes_open(world.kv);
    assert_int_equal(kv_nodes_take(world.kv), n_old);
    is_short = true;
    begin_recorded(1, 1, 150);
    is_short = false;
    assert_true(kv_nodes_take(world.kv) > n_old);
    kv_nodes_compare(world.kv);
    (void)kv_nodes_take(world.kv);
    kv_world_release(&world, 1);
    is_short = true;
    assert_int_equal(kv_world_forget(&world), FX_OK);
    is_short = false;
    assert_int_equal(kv_nodes_take(world.kv), 0);
    assert_int_equal(kv_nodes_n_known(), 0); // all that there are
}

static void test_without_memory_all_are_shown(void **state)
{
    (void)state;
    each_recorder(shows_all_when_short);
}

FX_SUITE(test_kv_nodes)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unchanged_nodes_are_not_shown),
        cmocka_unit_test(test_news_that_go_are_dropped),
        cmocka_unit_test(test_gone_nodes_are_bounded),
        cmocka_unit_test(test_without_memory_all_are_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
