// test_panel_ranges.c - panels of weights are handed out once each, in long ranges first.
#include "model/host/compute.h"
#include "suite.h"
#include "unit/cmocka_all.h"

enum { MAX_PANEL = 4096, MOST = 16, N_THREAD = 4 };

typedef struct range_case {
    int n_thread, n_panel, period, n_tok;
} range_case;

static fxi_panel_ranges open_ranges(const range_case *c, fxi_pool **pool)
{
    fx_error err;
    fxi_panel_ranges r;
    assert_int_equal(fxi_pool_create(c->n_thread, pool, &err), FX_OK);
    const fxi_compute compute = {.pool = *pool};
    fxi_ranges_init(&r, &compute, c->n_panel, c->period, c->n_tok, MOST);
    return r;
}

// Takes all ranges; returns how many there were.
static int walk_ranges(const range_case *c)
{
    fxi_pool *pool;
    fxi_panel_ranges r = open_ranges(c, &pool);
    int n = 0, at = 0, before = MAX_PANEL;
    for (int first, end; fxi_ranges_take(&r, &first, &end); at = end, n++) {
        assert_int_equal(first, at);
        assert_true(end > first && end <= c->n_panel);
        assert_int_equal(first / c->period, (end - 1) / c->period);
        assert_true((end - first) % 4 == 0 || end % c->period == 0 || end == c->n_panel);
        if (c->period == c->n_panel) assert_true(end - first <= before);
        if (c->n_tok > 32) assert_true(end - first <= MOST);
        before = end - first;
    }
    assert_int_equal(at, c->n_panel);
    assert_false(fxi_ranges_take(&r, &at, &before));
    fxi_pool_destroy(pool);
    return n;
}

FX_TEST(test_covers_every_panel_once)
{
    const int threads[] = {1, 2, 3, 16}, panels[] = {0, 1, 3, 4, 7, 160, 352, 2001},
              toks[] = {1, 8, 32, 33, 512};
    for (size_t t = 0; t < 4; t++)
        for (size_t p = 0; p < 8; p++)
            for (size_t k = 0; k < 5; k++) {
                walk_ranges(&(range_case){threads[t], panels[p], panels[p], toks[k]});
                if (panels[p])
                    walk_ranges(&(range_case){threads[t], 5 * panels[p], panels[p], toks[k]});
            }
}

// What a call does once is paid for a few times per thread, and the threads end within 4 panels.
FX_TEST(test_small_batches_get_few_long_ranges)
{
    const range_case c = {2, 160, 160, 8};
    fxi_pool *pool;
    fxi_panel_ranges r = open_ranges(&c, &pool);
    int first, end, last = 0;
    assert_true(fxi_ranges_take(&r, &first, &end));
    assert_true(end >= c.n_panel / 4 && end <= c.n_panel / 2);
    while (fxi_ranges_take(&r, &first, &end)) last = end - first;
    assert_int_equal(last, 4);
    assert_true(walk_ranges(&c) <= 5 * c.n_thread);
    fxi_pool_destroy(pool);
}

typedef struct shared_ranges {
    fxi_panel_ranges ranges;
    atomic_int taken[MAX_PANEL];
} shared_ranges;

static void take_all(void *arg, int task)
{
    (void)task;
    shared_ranges *s = arg;
    for (int first, end; fxi_ranges_take(&s->ranges, &first, &end);)
        for (int i = first; i < end; i++) atomic_fetch_add(&s->taken[i], 1);
}

FX_TEST(test_threads_share_a_layer)
{
    static shared_ranges s;
    const range_case c = {N_THREAD, MAX_PANEL, MAX_PANEL, 8};
    fxi_pool *pool;
    s.ranges = open_ranges(&c, &pool);
    fxi_pool_run(pool, take_all, &s, N_THREAD);
    for (int i = 0; i < MAX_PANEL; i++) assert_int_equal(atomic_load(&s.taken[i]), 1);
    fxi_pool_destroy(pool);
}

FX_RUN(test_panel_ranges)
