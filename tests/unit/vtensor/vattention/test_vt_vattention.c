// test_vt_vattention.c - the contract of vattention.h, call by call; and the thirteen known
// mistakes of the published implementation, each with a test that fails if it is made.
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "maps.h"
#include "suite.h"
#include "va_world.h"
#include "vtensor/vattention/vattention_internal.h"

static va_world w;

VT_FIXTURE(setup)
{
    va_open_small(&w, true, false);
}

VT_FIXTURE(teardown)
{
    va_done(&w);
}

static vt_va_config plain_config(void)
{
    return (vt_va_config){
        .n_plane = 2, .row_bytes = 128, .max_tok = 100, .max_batch = 3, .budget_bytes = 1 << 20};
}

static void expect_refused(const vt_va_config *cfg)
{
    vt_va *va = (vt_va *)1;
    assert_status(VT_EINVAL, vt_va_init(cfg, &va));
    assert_null(va);
}

// ---- Configuration and layout

FX_TEST(test_sizes_that_make_no_sense_are_refused)
{
    vt_va_config good = plain_config(), c;
    expect_refused(&(vt_va_config){0});
    c = good, c.n_plane = 0, expect_refused(&c);
    c = good, c.row_bytes = 0, expect_refused(&c);
    c = good, c.max_tok = 0, expect_refused(&c);
    c = good, c.max_batch = 0, expect_refused(&c);
    c = good, c.page_bytes = 100, expect_refused(&c);
    c = good, c.low_percent = 101, expect_refused(&c);
    c = good, c.high_percent = 101, expect_refused(&c);
    c = good, c.low_percent = 30, c.high_percent = 20, expect_refused(&c);
    c = good, c.row_bytes = SIZE_MAX / 2, expect_refused(&c);
    c = good, c.row_bytes = SIZE_MAX / 2, c.megacache = true, expect_refused(&c);
    c = good, c.row_bytes = 1 << 20, c.max_tok = UINT32_MAX, c.max_batch = UINT32_MAX;
    expect_refused(&c);
    c = good, c.row_bytes = 1u << 31, c.max_tok = UINT32_MAX, expect_refused(&c);
}

FX_TEST(test_the_defaults)
{
    vt_va_config cfg = plain_config();
    vt_va *va;
    vt_va_stats st;
    cfg.row_bytes = 200;
    assert_ok(vt_va_init(&cfg, &va));
    vt_va_get_stats(va, &st);
    assert_int_equal(st.page_bytes, 8192); // 32 x 200, rounded up
    assert_int_equal(st.group_bytes, 2 * 8192);
    assert_int_equal(st.groups_budget, (1 << 20) / (2 * 8192));
    assert_int_equal(st.groups_created, 0);
    assert_int_equal(vt_va_num_free_kvblocks(va), st.groups_budget);
    vt_va_cleanup(va);
    vt_va_cleanup(NULL);
}

FX_TEST(test_planes_are_apart)
{
    size_t tensor = w.setup.max_batch * vt_va_request_stride(w.va);
    char *k = vt_va_tensor(w.va, 0), *v = vt_va_tensor(w.va, 1);
    assert_true((size_t)(v - k) > tensor);
    assert_null(vt_va_tensor(w.va, 2));
    assert_int_equal(vt_va_token_stride(w.va), 128);
    assert_true(read_faults(k));
    assert_true(read_faults(k + tensor));
}

FX_TEST(test_megacache_puts_planes_side_by_side)
{
    va_setup s = va_small();
    s.megacache = true;
    va_open(&w, &s, 1);
    char *k = vt_va_tensor(w.va, 0), *v = vt_va_tensor(w.va, 1);
    assert_int_equal(v - k, 128);
    assert_int_equal(vt_va_token_stride(w.va), 256);
    assert_int_equal(va_stats(&w).group_bytes, 4096);
    assert_null(vt_va_tensor(w.va, 2));
    va_begin(&w, 40);
    assert_int_equal(va_stats(&w).groups_created, 3); // 40 x 256 bytes
}

// As many as the budget holds; nothing is created afterwards, or destroyed before the end.
FX_TEST(test_groups_made_at_start)
{
    vt_va_config cfg = plain_config();
    cfg.makes_at_start = true;
    cfg.budget_bytes = 64 << 10;
    cfg.low_percent = VT_VA_NONE;
    vt_va *va;
    vt_va_stats st;
    uint32_t a;
    assert_ok(vt_va_init(&cfg, &va));
    vt_va_get_stats(va, &st);
    const uint64_t n_call = st.create_calls;
    assert_true(st.groups_created > 0);
    assert_int_equal(st.groups_created, st.groups_budget);
    assert_int_equal(st.groups_spare, st.groups_created);
    assert_ok(vt_va_alloc_reqid(va, cfg.max_tok, &a));
    uint32_t len[8] = {0};
    len[a] = cfg.max_tok;
    assert_ok(vt_va_step(va, len, false));
    assert_ok(vt_va_free_reqid(va, a));
    vt_va_get_stats(va, &st);
    assert_int_equal(st.create_calls, n_call);
    assert_int_equal(st.destroy_calls, 0);
    vt_va_cleanup(va);
}

// Whichever call fails: nothing is left behind, or the fake says so.
FX_TEST(test_no_memory_for_groups_at_start)
{
    vt_va_config cfg = plain_config();
    cfg.makes_at_start = true;
    vt_va *va = NULL;
    for (uint64_t i = 0; !va; i++) {
        cfg.vmm = vt_fault_open(vt_fake_open());
        assert_non_null(cfg.vmm);
        vt_fault_arm(cfg.vmm, i, 0, VT_NOSPACE);
        const vt_status st = vt_va_init(&cfg, &va);
        assert_int_equal(st == VT_OK, va != NULL);
        assert_int_equal(vt_fault_fired(cfg.vmm), va == NULL);
        if (!va) cfg.vmm->ops->close(cfg.vmm);
        assert_true(i < 10);
    }
    vt_va_cleanup(va);
}

FX_TEST(test_a_batch_with_too_many_mappings_is_refused_at_once)
{
    vt_va_config cfg = plain_config();
    vt_va *va;
    cfg.vmm = vt_fake_open();
    assert_non_null(cfg.vmm);
    vt_fake_set_max_runs(cfg.vmm, 5); // 3 requests x 2 tensors
    assert_status(VT_NOMAPS, vt_va_init(&cfg, &va));
    assert_null(va);
    cfg.vmm->ops->close(cfg.vmm);
}

// ---- Requests and steps

FX_TEST(test_a_step_backs_what_lengths_need)
{
    uint32_t a = va_begin(&w, 1), b = va_begin(&w, VA_PAGE_TOK + 1);
    assert_int_equal(va_mapped(&w, a), 1);
    assert_int_equal(va_mapped(&w, b), 2);
    assert_int_equal(vt_va_kvblocks_for(w.va, VA_PAGE_TOK + 1), 2);
    assert_int_equal(vt_va_kvblocks_for(w.va, UINT32_MAX), 10);
    uint64_t n_call = vt_fault_calls(w.fault);
    w.len[a] = VA_PAGE_TOK; // within its page: no call of the backend
    assert_ok(va_step(&w, false));
    assert_int_equal(vt_fault_calls(w.fault), n_call);
    w.len[a] = w.setup.max_tok;
    assert_ok(va_step(&w, false));
    assert_int_equal(va_mapped(&w, a), 10);
}

FX_TEST(test_lengths_out_of_range_are_refused)
{
    uint32_t reqid;
    va_open_small(&w, false, false);
    assert_status(VT_EINVAL, vt_va_alloc_reqid(w.va, w.setup.max_tok + 1, &reqid));
    uint32_t a = va_begin(&w, 10);
    w.len[a] = w.setup.max_tok + 1;
    assert_status(VT_EINVAL, va_step(&w, false));
    w.len[a] = UINT32_MAX;
    assert_status(VT_EINVAL, va_step_async(&w));
    w.len[a] = 10;
    w.len[a + 1] = 1; // nobody lives there
    assert_status(VT_EINVAL, va_step(&w, false));
    assert_status(VT_EINVAL, vt_va_free_reqid(w.va, a + 1));
    assert_status(VT_EINVAL, vt_va_free_reqid(w.va, w.setup.max_batch));
    assert_int_equal(vt_va_look(w.va, w.setup.max_batch).n_mapped, 0);
}

FX_TEST(test_there_are_max_batch_requests)
{
    uint32_t reqid;
    va_open_small(&w, false, false);
    for (uint32_t i = 0; i < w.setup.max_batch; i++) assert_int_equal(va_begin(&w, 1), i);
    assert_status(VT_NOSPANS, va_alloc(&w, 1, &reqid));
    assert_ok(va_free(&w, 2));
    assert_int_equal(va_begin(&w, 1), 2);
}

FX_TEST(test_deferred_memory_serves_the_next_request)
{
    va_leave_behind(&w, 4);
    vt_va_stats before = va_stats(&w);
    assert_int_equal(before.groups_idle, 4);
    va_begin(&w, 3 * VA_PAGE_TOK);
    vt_va_stats now = va_stats(&w);
    assert_int_equal(now.create_calls, before.create_calls);
    assert_int_equal(now.map_calls, before.map_calls);
    assert_int_equal(now.reused_groups, 3);
    assert_int_equal(now.wiped_groups, 4);
    assert_int_equal(now.groups_surplus, 1);
}

// What it has mapped stays, and the next step finds it.
FX_TEST(test_a_step_that_is_not_committed_was_not_taken)
{
    const uint32_t a = va_begin(&w, VA_PAGE_TOK);
    const uint64_t n_step = va_stats(&w).steps;
    w.len[a] = 4 * VA_PAGE_TOK;
    assert_ok(vt_va_step_prepare(w.va, w.len, false));
    assert_int_equal(va_mapped(&w, a), 4);
    assert_int_equal(va_stats(&w).groups_active, 1);
    assert_int_equal(va_stats(&w).steps, n_step);
    va_verify(&w); // the lengths of before
    const uint64_t n_map = va_stats(&w).map_calls;
    assert_ok(vt_va_step_prepare(w.va, w.len, false));
    vt_va_step_commit(w.va);
    assert_int_equal(vt_va_look(w.va, a).len_tok, 4 * VA_PAGE_TOK);
    assert_int_equal(va_stats(&w).groups_active, 4);
    assert_int_equal(va_stats(&w).steps, n_step + 1);
    assert_int_equal(va_stats(&w).map_calls, n_map);
    assert_ok(va_step(&w, false)); // so the reference knows it
}

// Before its first step a request has nothing, whatever is mapped in it.
FX_TEST(test_what_waits_for_the_first_step_is_surplus)
{
    uint32_t a;
    va_leave_behind(&w, 4);
    assert_ok(va_alloc(&w, 3 * VA_PAGE_TOK, &a));
    assert_int_equal(va_stats(&w).groups_active, 0);
    assert_int_equal(va_stats(&w).groups_surplus, 4);
}

FX_TEST(test_a_budget_that_grows_is_never_refused)
{
    uint32_t a, b, c;
    assert_ok(va_alloc(&w, 9 * VA_PAGE_TOK, &a));
    assert_ok(va_alloc(&w, 9 * VA_PAGE_TOK, &b));
    assert_ok(va_alloc(&w, 9 * VA_PAGE_TOK, &c)); // of 20 groups
    assert_status(VT_NOSPACE, va_set_budget(&w, 19));
    assert_ok(va_set_budget(&w, 21));
}

FX_TEST(test_without_deferral_memory_goes_back_at_once)
{
    va_leave_behind(&w, 3);
    uint32_t b = va_begin(&w, VA_PAGE_TOK);
    vt_va_set_deferred_reclamation(w.va, false);
    assert_ok(va_step(&w, false)); // sweeps what was left before
    assert_ok(va_free(&w, b));
    assert_int_equal(va_stats(&w).groups_spare, va_stats(&w).groups_created);
}

FX_TEST(test_eager_reclaim_returns_idle_memory)
{
    uint32_t a = va_begin(&w, 2 * VA_PAGE_TOK);
    va_leave_behind(&w, 5);
    assert_ok(va_step(&w, true));
    assert_int_equal(va_stats(&w).groups_idle, 0);
    assert_int_equal(va_stats(&w).groups_spare, 5);
    assert_int_equal(va_mapped(&w, a), 2);
}

// 20 groups: the longest idle one gives first, from its end; an active one only what it has too
// much.
FX_TEST(test_memory_is_taken_from_who_needs_it_least)
{
    uint32_t a = va_begin(&w, 10 * VA_PAGE_TOK), b = va_begin(&w, 5 * VA_PAGE_TOK);
    uint32_t c = va_begin(&w, 5 * VA_PAGE_TOK);
    assert_ok(va_free(&w, c)); // the longest idle one
    assert_ok(va_free(&w, b));
    w.len[a] = 7 * VA_PAGE_TOK;
    assert_ok(va_step(&w, false));
    uint32_t d = va_begin(&w, 9 * VA_PAGE_TOK); // b or c, and four groups more
    assert_int_equal(d, b);
    assert_int_equal(va_mapped(&w, c), 1);
    assert_int_equal(va_mapped(&w, a), 10);
    w.len[d] = 10 * VA_PAGE_TOK;
    uint32_t e = va_begin(&w, 3 * VA_PAGE_TOK); // takes c with its one group, and 3 from a
    assert_int_equal(e, c);
    assert_int_equal(va_mapped(&w, a), 7);
}

FX_TEST(test_a_request_may_become_shorter)
{
    uint32_t a = va_begin(&w, 9 * VA_PAGE_TOK);
    w.len[a] = VA_PAGE_TOK;
    assert_ok(va_step(&w, false));
    assert_int_equal(va_stats(&w).groups_surplus, 8);
    assert_int_equal(vt_va_num_free_kvblocks(w.va), 19);
    va_begin(&w, 10 * VA_PAGE_TOK);
    va_begin(&w, 9 * VA_PAGE_TOK);
    assert_int_equal(va_mapped(&w, a), 1);
}

// ---- The budget

FX_TEST(test_the_budget_follows_reserve_physical_pages)
{
    va_begin(&w, 3 * VA_PAGE_TOK);
    va_leave_behind(&w, 6);
    assert_status(VT_NOSPACE, va_set_budget(&w, 2));
    assert_int_equal(va_stats(&w).groups_created, 9);
    assert_ok(va_set_budget(&w, 4));
    assert_int_equal(va_stats(&w).groups_created, 4);
    assert_int_equal(vt_va_num_free_kvblocks(w.va), 1);
    va_verify(&w);
    assert_ok(va_set_budget(&w, 30));
    va_begin(&w, 10 * VA_PAGE_TOK);
}

FX_TEST(test_without_a_budget_nothing_is_backed)
{
    va_setup s = va_small();
    s.budget_groups = 0;
    va_open(&w, &s, 1);
    uint32_t a;
    assert_ok(va_alloc(&w, 1, &a));
    assert_status(VT_NOSPACE, va_step(&w, false));
    w.len[a] = 0;
    assert_ok(va_step(&w, false));
}

// ---- The thirteen

// What the owner cannot see, since it waits: another thread looks, and then opens the gate.
typedef struct witness {
    pthread_t thread;
    uint64_t n_working; // calls of the backend under way
    uint32_t len_tok;   // of request 0
} witness;

static void *look_and_let_go(void *arg)
{
    witness *see = arg;
    usleep(3000); // so that a second manager would have time to come; nothing depends on it
    see->n_working = vt_fault_held(w.fault);
    see->len_tok = w.va->req[0].len_tok;
    vt_fault_hold(w.fault, false);
    return NULL;
}

// A step whose look-ahead stands at the gate; the witness watches the step after it.
static void step_beside_the_worker(witness *see, uint32_t next_len_tok)
{
    vt_fault_hold(w.fault, true);
    assert_ok(va_step_async(&w));
    vt_fault_await_held(w.fault, 1);
    assert_int_equal(pthread_create(&see->thread, NULL, look_and_let_go, see), 0);
    w.len[0] = next_len_tok;
    assert_ok(va_step_async(&w));
    pthread_join(see->thread, NULL);
}

FX_TEST(test_bug_1_two_managers_at_once)
{
    witness see;
    va_begin(&w, VA_PAGE_TOK);
    step_beside_the_worker(&see, 3 * VA_PAGE_TOK);
    assert_int_equal(see.n_working, 1);
    va_verify(&w);
    assert_int_equal(va_stats(&w).ahead_jobs, 2);
}

FX_TEST(test_bug_2_lengths_overwritten_before_the_wait)
{
    witness see;
    va_begin(&w, VA_PAGE_TOK);
    step_beside_the_worker(&see, VA_PAGE_TOK + 1);
    assert_int_equal(see.len_tok, VA_PAGE_TOK);
}

// Freeing and counting need nothing of the worker, and disturb nothing of it.
FX_TEST(test_bug_3_counts_shared_with_the_worker)
{
    uint32_t a = va_begin(&w, VA_PAGE_TOK), b = va_begin(&w, VA_PAGE_TOK);
    vt_fault_hold(w.fault, true);
    assert_ok(va_step_async(&w));
    vt_fault_await_held(w.fault, 1);
    assert_int_equal(vt_va_num_free_kvblocks(w.va), 18);
    assert_ok(va_free(&w, a));
    assert_int_equal(vt_va_num_free_kvblocks(w.va), 19);
    assert_int_equal(va_stats(&w).groups_created, 2);
    vt_fault_hold(w.fault, false);
    va_verify(&w);
    assert_int_equal(va_mapped(&w, a) + va_mapped(&w, b), 4);
}

FX_TEST(test_bug_4_an_error_that_is_not_told)
{
    uint32_t a = va_begin(&w, VA_PAGE_TOK);
    assert_ok(va_set_budget(&w, 1));
    w.len[a] = 2 * VA_PAGE_TOK;
    assert_status(VT_NOSPACE, va_step(&w, false));
    assert_int_equal(va_stats(&w).nospace, 1);
    assert_ok(va_set_budget(&w, 2));
    vt_fault_arm(w.fault, 0, 0, VT_EDEVICE);
    assert_status(VT_EDEVICE, va_step(&w, false));
    assert_ok(va_step(&w, false));
}

FX_TEST(test_bug_5_half_a_batch)
{
    uint32_t a = va_begin(&w, VA_PAGE_TOK), b = va_begin(&w, VA_PAGE_TOK);
    w.len[a] = w.len[b] = 4 * VA_PAGE_TOK;
    vt_fault_arm(w.fault, 4, 0, VT_EDEVICE); // create, map, map of a; create of b; its first map
    assert_status(VT_EDEVICE, va_step(&w, false));
    assert_int_equal(va_stats(&w).groups_active, 2);
    assert_int_equal(vt_va_look(w.va, a).len_tok, VA_PAGE_TOK);
    assert_int_equal(va_stats(&w).groups_spare, 3); // of b, not mapped
    assert_ok(va_set_budget(&w, 7));
    assert_status(VT_NOSPACE, va_step(&w, false));
    assert_int_equal(va_stats(&w).groups_active, 2);
    w.len[a] = w.len[b] = VA_PAGE_TOK;
}

FX_TEST(test_bug_6_best_fit_spoiled_by_the_first_slot)
{
    uint32_t reqid;
    for (uint32_t i = 0; i < 4; i++) va_begin(&w, i == 0 ? 0 : (7 - i) * VA_PAGE_TOK);
    for (uint32_t i = 0; i < 4; i++) assert_ok(va_free(&w, i)); // 0, 6, 5 and 4 groups
    assert_ok(va_alloc(&w, 5 * VA_PAGE_TOK, &reqid));
    assert_int_equal(reqid, 2); // the least that is enough
    assert_ok(va_alloc(&w, 5 * VA_PAGE_TOK, &reqid));
    assert_int_equal(reqid, 1);
    assert_ok(va_alloc(&w, 9 * VA_PAGE_TOK, &reqid));
    assert_int_equal(reqid, 3); // none is enough: the most
    assert_ok(va_alloc(&w, 9 * VA_PAGE_TOK, &reqid));
    assert_int_equal(reqid, 0);
}

FX_TEST(test_bug_7_underflow_before_the_first_step)
{
    uint32_t a, b, c;
    assert_ok(va_alloc(&w, 9 * VA_PAGE_TOK, &a));
    assert_int_equal(vt_va_num_free_kvblocks(w.va), 11);
    assert_int_equal(va_stats(&w).groups_surplus, 0);
    assert_ok(va_alloc(&w, 9 * VA_PAGE_TOK, &b));
    assert_ok(va_alloc(&w, 9 * VA_PAGE_TOK, &c)); // seven more than there are
    assert_int_equal(vt_va_num_free_kvblocks(w.va), 0);
    assert_status(VT_NOSPACE, va_step(&w, false));
}

FX_TEST(test_bug_8_unmapped_pages_stay_readable)
{
    uint32_t a = va_leave_behind(&w, 2);
    assert_false(read_faults(va_row(&w, a, 1, 0)));
    assert_ok(va_step(&w, true));
    for (uint32_t p = 0; p < 2; p++)
        for (uint32_t t = 0; t < 2 * VA_PAGE_TOK; t += VA_PAGE_TOK)
            assert_true(read_faults(va_row(&w, a, p, t)));
}

// No page is ever under two requests, and none is given back twice.
FX_TEST(test_bug_9_one_page_under_all_requests)
{
    va_open_small(&w, false, false);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 4; i++) va_begin(&w, 5 * VA_PAGE_TOK);
        assert_int_equal(va_stats(&w).groups_created, 20);
        va_verify(&w);
        for (uint32_t i = 0; i < 4; i++) assert_ok(va_free(&w, i));
        assert_ok(va_step(&w, round % 2 == 0));
    }
}

// 100 tokens of 100 bytes do not fill pages.
FX_TEST(test_bug_10_two_strides)
{
    va_setup s = va_small();
    s.row_bytes = 100;
    s.max_tok = 100;
    va_open(&w, &s, 1);
    size_t stride = vt_va_request_stride(w.va);
    assert_int_equal(stride, 3 * 4096);
    for (uint32_t i = 0; i < 4; i++) va_begin(&w, 100);
    char *k = vt_va_tensor(w.va, 0); // written and read by the stride, mapped to the last token
    for (uint32_t i = 0; i < 4; i++) assert_memory_equal(k + i * stride, w.req[i].bytes, 10000);
}

static void wide_and_long(vt_va_config cfg)
{
    vt_va *va;
    uint32_t reqid, len[2000] = {0};
    cfg.budget_bytes = UINT64_MAX;
    cfg.vmm = vt_fake_open();
    assert_non_null(cfg.vmm);
    assert_ok(vt_va_init(&cfg, &va));
    assert_ok(vt_va_alloc_reqid(va, 1, &reqid));
    len[reqid] = 1;
    assert_ok(vt_va_step(va, len, false));
    assert_true(vt_va_look(va, reqid).n_mapped > 0);
    assert_ok(vt_va_check(va, NULL));
    vt_va_cleanup(va);
}

FX_TEST(test_bug_11_limits_and_pages_below_a_token)
{
    wide_and_long((vt_va_config){.n_plane = 2, .row_bytes = 64, .max_tok = 64, .max_batch = 2000});
    wide_and_long(
        (vt_va_config){.n_plane = 2, .row_bytes = 64, .max_tok = 5000000, .max_batch = 2});
    wide_and_long((vt_va_config){.n_plane = 400, .row_bytes = 64, .max_tok = 64, .max_batch = 2});
    wide_and_long((vt_va_config){
        .n_plane = 2, .row_bytes = 9000, .max_tok = 64, .max_batch = 2, .page_bytes = 4096});
}

FX_TEST(test_bug_12_counting_what_was_not_mapped)
{
    va_open_small(&w, false, false);
    for (uint32_t i = 0; i < 4; i++) va_begin(&w, VA_PAGE_TOK);
    vt_fault_arm(w.fault, 4, 0, VT_EDEVICE); // the first map of the second request
    assert_ok(va_step_async(&w));
    vt_va_wait(w.va);
    vt_va_stats st = va_stats(&w);
    assert_int_equal(st.ahead_groups, 1);
    assert_int_equal(st.ahead_failures, 1);
    assert_int_equal(st.groups_created - st.groups_spare, 5);
    for (uint32_t i = 0; i < 4; i++) w.len[i]++;
    assert_ok(va_step(&w, false)); // maps the others itself
}

// The fake tells of every page that is unmapped while a kernel reads it.
FX_TEST(test_bug_13_unmapping_under_kernels)
{
    va_open_small(&w, false, true);
    va_leave_behind(&w, 4);
    assert_ok(va_step(&w, true)); // the device is not done with it: not yet
    assert_int_equal(va_stats(&w).groups_idle, 4);
    va_finish_work(&w);
    assert_ok(va_step(&w, true));
    assert_int_equal(va_stats(&w).groups_idle, 0);
    va_leave_behind(&w, 10);
    va_begin(&w, 10 * VA_PAGE_TOK); // the same place: wiped, when the device is done
    uint32_t a = va_begin(&w, 10 * VA_PAGE_TOK);
    w.len[a] = 1;
    assert_ok(va_step(&w, false)); // given up, but the kernels before still read it
    va_begin(&w, 5 * VA_PAGE_TOK);
    assert_int_equal(va_mapped(&w, a), 5);
    vt_va_set_deferred_reclamation(w.va, false);
    assert_ok(va_free(&w, a));
}

// And nobody reads what another has left.
FX_TEST(test_bug_13_the_bytes_of_another)
{
    uint32_t a = va_leave_behind(&w, 3);
    assert_int_equal(va_begin(&w, 1), a); // va_alloc looks at all of it
}

FX_RUN_EACH(test_vt_vattention, setup, teardown)
