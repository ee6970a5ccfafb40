// test_vt_vattention_remap.c - page groups are created once and then only mapped elsewhere: no
// create and no destroy in steady state, and no wait for the device; where mappings are limited, as
// few runs as possible, and always enough.
#include "standin/standin.h"
#include "suite.h"
#include "va_world.h"
#include "vtensor/vattention/vattention_internal.h"

static va_world w;

VT_FIXTURE(teardown)
{
    va_done(&w);
}

FX_TEST(test_trim_returns_spare_memory)
{
    va_open_small(&w, true, false);
    va_begin(&w, 2 * VA_PAGE_TOK);
    va_leave_behind(&w, 5);
    assert_ok(vt_va_trim(w.va));
    assert_int_equal(va_stats(&w).groups_created, 7); // nothing is spare
    assert_ok(va_step(&w, true));
    assert_ok(vt_va_trim(w.va));
    assert_int_equal(va_stats(&w).groups_created, 2);
}

// ---- Steady state

static va_setup churn_setup(void)
{
    va_setup s = va_small();
    s.max_batch = 6;
    s.budget_groups = 30;
    s.next_groups = 3;
    s.low_percent = 20;
    s.high_percent = 35;
    return s;
}

// The budget is full once.
static void warm_up(void)
{
    for (uint32_t i = 0; i < 3; i++) va_begin(&w, 10 * VA_PAGE_TOK);
    assert_int_equal(va_stats(&w).groups_created, 30);
    for (uint32_t i = 0; i < 3; i++) assert_ok(va_free(&w, i));
}

static uint32_t count_active(void)
{
    return (uint32_t)va_stats(&w).requests_active;
}

// Mostly short, now and then long. Active requests leave a third of the budget, so that the worker
// has something to reclaim ahead.
static void begin_some(void)
{
    uint32_t reqid, n_group = va_draw(&w, 3) == 0 ? 8 : 2;
    uint64_t n_need = w.setup.budget_groups - vt_va_num_free_kvblocks(w.va);
    if (count_active() == w.setup.max_batch || n_need + n_group + count_active() > 20) return;
    assert_ok(va_alloc(&w, (uint32_t)va_draw(&w, n_group * VA_PAGE_TOK), &reqid));
}

static void change_batch(void)
{
    for (uint32_t i = 0; i < w.setup.max_batch; i++) {
        if (!w.req[i].is_active) continue;
        w.len[i]++;
        if (w.len[i] > 9 * VA_PAGE_TOK || va_draw(&w, 12) == 0) assert_ok(va_free(&w, i));
    }
    begin_some();
}

// The caller submits a step while the device runs the one before; the one before that is done.
static void churn(uint32_t n_step)
{
    uint64_t before = 0, last = 0;
    for (uint32_t i = 0; i < n_step; i++) {
        change_batch();
        assert_ok(va_step_async(&w));
        vt_va_wait(w.va);
        if (w.setup.device) vt_fake_finish(w.inner, before);
        before = last;
        assert_ok(w.inner->ops->fence(w.inner, &last));
    }
}

static void expect_steady(uint32_t n_step)
{
    warm_up();
    vt_va_stats before = va_stats(&w);
    churn(n_step);
    vt_va_stats now = va_stats(&w);
    assert_int_equal(now.create_calls, before.create_calls);
    assert_int_equal(now.destroy_calls, before.destroy_calls);
    assert_true(now.reclaimed_groups > before.reclaimed_groups + n_step / 10);
    assert_true(now.map_calls > before.map_calls + n_step / 10);
    va_verify(&w);
}

FX_TEST(test_steady_state_on_the_host_creates_and_destroys_nothing)
{
    va_setup s = churn_setup();
    va_open(&w, &s, 2);
    expect_steady(400);
}

FX_TEST(test_steady_state_waits_for_no_device)
{
    va_setup s = churn_setup();
    s.host = false;
    s.device = true;
    va_open(&w, &s, 3);
    expect_steady(400);
    assert_int_equal(va_stats(&w).device_waits, 0);
    assert_int_equal(vt_fake_look(w.inner).n_wait, 0);
}

FX_TEST(test_steady_state_on_a_gpu_creates_and_destroys_nothing)
{
    va_setup s = churn_setup();
    s.host = false;
    s.cuda = true;
    s.row_bytes *= 16;
    s.page_bytes *= 16; // the stand-in's granularity
    va_open(&w, &s, 4);
    warm_up();
    uint64_t n_create = standin_calls("cuMemCreate"), n_map = standin_calls("cuMemMap");
    uint64_t n_release = standin_calls("cuMemRelease");
    churn(100);
    assert_int_equal(standin_calls("cuMemCreate"), n_create);
    assert_int_equal(standin_calls("cuMemRelease"), n_release);
    assert_true(standin_calls("cuMemMap") > n_map + 10);
    assert_int_equal(va_stats(&w).device_waits, 0);
}

// What the device still reads is wiped in its order.
FX_TEST(test_a_new_request_does_not_wait_for_the_one_before)
{
    va_open_small(&w, false, true);
    uint32_t a = va_leave_behind(&w, 4);
    assert_int_equal(va_begin(&w, 4 * VA_PAGE_TOK), a);
    assert_ok(va_free(&w, a));
    vt_va_set_deferred_reclamation(w.va, false);
    va_begin(&w, 2 * VA_PAGE_TOK);
    assert_int_equal(vt_fake_look(w.inner).n_wait, 0);
}

FX_TEST(test_a_wait_is_counted_where_nothing_else_helps)
{
    va_open_small(&w, false, true);
    uint32_t a = va_begin(&w, VA_PAGE_TOK), b = va_begin(&w, 10 * VA_PAGE_TOK);
    uint32_t c = va_begin(&w, 9 * VA_PAGE_TOK);
    assert_ok(va_free(&w, b));
    w.len[a] = 3 * VA_PAGE_TOK;
    assert_ok(va_step(&w, false));
    assert_int_equal(va_mapped(&w, b), 8);
    assert_int_equal(va_stats(&w).device_waits, 1);
    assert_int_equal(vt_fake_look(w.inner).n_wait, 1);
    assert_ok(va_free(&w, c)); // the device is not done with it, but with b
    w.len[a] = 4 * VA_PAGE_TOK;
    assert_ok(va_step(&w, false));
    assert_int_equal(va_mapped(&w, b), 7);
    assert_int_equal(va_stats(&w).device_waits, 1);
}

// c is idle for longer, but the device still reads it.
FX_TEST(test_memory_that_is_free_now_is_taken_first)
{
    va_open_small(&w, false, true);
    uint32_t a = va_begin(&w, 5 * VA_PAGE_TOK), b = va_begin(&w, 5 * VA_PAGE_TOK);
    uint32_t c = va_begin(&w, 10 * VA_PAGE_TOK);
    va_finish_work(&w);
    w.len[b] = 2 * VA_PAGE_TOK; // no kernel since needs more
    assert_ok(va_step(&w, false));
    uint64_t ticket;
    assert_ok(w.inner->ops->fence(w.inner, &ticket));
    vt_fake_finish(w.inner, ticket - 1); // all before that step
    assert_ok(va_free(&w, c));
    w.len[a] = 6 * VA_PAGE_TOK;
    assert_ok(va_step(&w, false));
    assert_int_equal(va_mapped(&w, c), 10);
    assert_int_equal(va_mapped(&w, b), 4);
    assert_int_equal(va_stats(&w).device_waits, 0);
}

// ---- Mappings

FX_TEST(test_what_moves_stays_a_run)
{
    uint64_t mapped_bytes, n_mapping;
    va_open_small(&w, true, false);
    uint32_t a = va_begin(&w, 2 * VA_PAGE_TOK);
    uint32_t b = va_leave_behind(&w, 7);
    assert_ok(va_step(&w, true));
    w.len[a] = 9 * VA_PAGE_TOK; // all that b had
    assert_ok(va_step(&w, false));
    assert_int_equal(w.va->n_run, 2);
    assert_ok(w.inner->ops->mapped(w.inner, &mapped_bytes, &n_mapping));
    assert_int_equal(mapped_bytes, 9 * w.group_bytes);
    assert_true(n_mapping <= 2 * 2);
    assert_ok(va_free(&w, a));
    assert_ok(va_step(&w, true));
    w.len[b] = 0;
    assert_int_equal(va_begin(&w, 9 * VA_PAGE_TOK), 0);
    assert_int_equal(w.va->n_run, 2); // its own two, and then the others
}

// The name after the last one that may serve anywhere belongs to a position of another request.
FX_TEST(test_a_run_ends_with_the_names_that_serve_anywhere)
{
    va_open_small(&w, false, false);
    assert_ok(va_set_budget(&w, 12));
    uint32_t a = va_begin(&w, 2 * VA_PAGE_TOK);
    va_begin(&w, 0);
    va_begin(&w, 0);
    uint32_t d = va_begin(&w, 10 * VA_PAGE_TOK); // names 30 to 39
    w.len[d] = 6 * VA_PAGE_TOK;
    assert_ok(va_step(&w, false));
    w.len[a] = 6 * VA_PAGE_TOK;
    assert_ok(va_step(&w, false));
    assert_int_equal(w.va->req[a].name[5], w.va->geo.n_preferred - 1);
    assert_ok(va_set_budget(&w, 20));
    w.len[a] = 7 * VA_PAGE_TOK;
    assert_ok(va_step(&w, false));
    assert_true(w.va->req[a].name[6] < w.va->geo.n_preferred);
}

FX_TEST(test_without_mappings_to_spare_memory_is_made_anew)
{
    va_setup s = va_small();
    s.host = false;
    s.max_runs = s.max_batch * s.n_plane;
    va_open(&w, &s, 1);
    uint32_t a = va_begin(&w, 5 * VA_PAGE_TOK), b = va_begin(&w, 10 * VA_PAGE_TOK);
    va_begin(&w, 5 * VA_PAGE_TOK);
    assert_ok(va_free(&w, b));
    vt_va_stats before = va_stats(&w);
    w.len[a] = 10 * VA_PAGE_TOK;
    assert_ok(va_step(&w, false));
    assert_true(va_stats(&w).destroy_calls > before.destroy_calls);
    assert_int_equal(w.va->n_run, 3);
}

// One run more than requests: it is used, and then no more.
FX_TEST(test_mappings_are_used_up_to_the_limit)
{
    va_setup s = va_small();
    s.host = false;
    s.max_runs = (s.max_batch + 3) * s.n_plane;
    va_open(&w, &s, 1);
    for (uint32_t round = 0; round < 40; round++) {
        for (uint32_t i = 0; i < s.max_batch; i++) {
            uint32_t reqid;
            if (w.req[i].is_active && va_draw(&w, 2) == 0) assert_ok(va_free(&w, i));
            if (va_draw(&w, 2) == 0 && count_active() < s.max_batch)
                assert_ok(va_alloc(&w, 1 + (uint32_t)va_draw(&w, 5 * VA_PAGE_TOK), &reqid));
        }
        assert_ok(va_step(&w, va_draw(&w, 4) == 0));
        va_verify(&w);
    }
}

// ---- The system has less memory than the budget allows

FX_TEST(test_what_the_system_lacks_is_taken_from_others)
{
    va_setup s = va_small();
    s.host = false;
    s.max_chunks = 8;
    va_open(&w, &s, 1);
    uint32_t a = va_begin(&w, 2 * VA_PAGE_TOK), b = va_begin(&w, 6 * VA_PAGE_TOK);
    assert_ok(va_free(&w, b));
    w.len[a] = 5 * VA_PAGE_TOK;
    assert_ok(va_step(&w, false));
    assert_int_equal(va_mapped(&w, b), 3);
    w.len[a] = 9 * VA_PAGE_TOK;
    assert_status(VT_NOSPACE, va_step(&w, false));
    assert_int_equal(va_mapped(&w, b), 3); // nothing is taken in vain
    w.len[a] = 8 * VA_PAGE_TOK;
    assert_ok(va_step(&w, false));
}

FX_RUN_EACH(test_vt_vattention_remap, NULL, teardown)
