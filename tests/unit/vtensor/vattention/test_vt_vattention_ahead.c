// test_vt_vattention_ahead.c - what the worker of vattention.h does while the caller goes on:
// memory for the next tokens, the next request, and reclamation when little is free.
#include "suite.h"
#include "va_world.h"

static va_world w;

VT_FIXTURE(setup)
{
    va_open_small(&w, true, false);
}

VT_FIXTURE(teardown)
{
    va_done(&w);
}

static void look_ahead(void)
{
    assert_ok(va_step_async(&w));
    vt_va_wait(w.va);
}

// ---- Active requests

FX_TEST(test_the_next_token_is_ready)
{
    uint32_t a = va_begin(&w, VA_PAGE_TOK), b = va_begin(&w, VA_PAGE_TOK - 9);
    uint32_t c = va_begin(&w, VA_PAGE_TOK - 5);
    look_ahead();
    assert_int_equal(va_mapped(&w, a), 2);
    assert_int_equal(va_mapped(&w, b), 1); // ten tokens away
    assert_int_equal(va_mapped(&w, c), 2);
    assert_int_equal(va_stats(&w).ahead_groups, 2);
    vt_va_stats before = va_stats(&w);
    w.len[a]++;
    assert_ok(va_step(&w, false));
    assert_int_equal(va_stats(&w).map_calls, before.map_calls);
}

// Requests 0 .. 3 need their next group in 1, 2, 3 and 4 tokens: one at once, two of the others.
FX_TEST(test_eager_groups_bound_what_lies_further_ahead)
{
    for (uint32_t i = 0; i < 4; i++) va_begin(&w, VA_PAGE_TOK - i);
    look_ahead();
    for (uint32_t i = 0; i < 4; i++) assert_int_equal(va_mapped(&w, i), i < 3 ? 2 : 1);
}

FX_TEST(test_eager_none_is_the_next_token_alone)
{
    va_setup s = va_small();
    s.eager_groups = VT_VA_NONE;
    va_open(&w, &s, 1);
    for (uint32_t i = 0; i < 4; i++) va_begin(&w, VA_PAGE_TOK - i);
    look_ahead();
    assert_int_equal(va_stats(&w).ahead_groups, 1);
}

FX_TEST(test_the_next_token_may_take_idle_memory_and_more_may_not)
{
    uint32_t a = va_begin(&w, 9 * VA_PAGE_TOK), b = va_begin(&w, 6 * VA_PAGE_TOK - 3);
    va_leave_behind(&w, 5);
    look_ahead();
    assert_int_equal(va_mapped(&w, a), 10);
    assert_int_equal(va_mapped(&w, b), 6);
    assert_int_equal(va_stats(&w).groups_idle, 4);
}

// Where nobody can give anything the next token waits for the step, which says so.
FX_TEST(test_a_look_ahead_never_exceeds_the_budget)
{
    assert_ok(va_set_budget(&w, 4));
    for (uint32_t i = 0; i < 3; i++) va_begin(&w, VA_PAGE_TOK);
    assert_ok(va_step_async(&w));
    va_verify(&w);
    assert_int_equal(va_stats(&w).groups_created, 4);
    for (uint32_t i = 0; i < 3; i++) w.len[i]++;
    assert_status(VT_NOSPACE, va_step_async(&w));
    for (uint32_t i = 0; i < 3; i++) w.len[i]--;
}

FX_TEST(test_the_longest_request_has_no_next_token)
{
    va_begin(&w, w.setup.max_tok);
    look_ahead();
    assert_int_equal(va_stats(&w).ahead_jobs, 0);
}

// ---- The next request

static void open_with(uint32_t next_groups, uint32_t low_percent, uint32_t high_percent)
{
    va_setup s = va_small();
    s.next_groups = next_groups;
    s.low_percent = low_percent;
    s.high_percent = high_percent;
    va_open(&w, &s, 1);
}

FX_TEST(test_the_next_request_is_ready)
{
    uint32_t reqid;
    open_with(3, 0, 0);
    va_begin(&w, 10);
    look_ahead();
    vt_va_stats before = va_stats(&w);
    assert_int_equal(before.next_groups, 3);
    assert_ok(va_alloc(&w, 3 * VA_PAGE_TOK, &reqid));
    assert_int_equal(va_mapped(&w, reqid), 3);
    assert_ok(va_step(&w, false));
    assert_int_equal(va_stats(&w).map_calls, before.map_calls);
}

// Whoever asks for less than next_groups is served by it, or by one that has enough as well.
FX_TEST(test_the_next_request_suits_short_ones)
{
    uint32_t reqid;
    open_with(4, 0, 0);
    uint32_t a = va_begin(&w, 10), b = va_begin(&w, 2 * VA_PAGE_TOK);
    assert_ok(va_free(&w, b));
    look_ahead();
    assert_int_equal(va_mapped(&w, b), 4);
    assert_ok(va_alloc(&w, VA_PAGE_TOK, &reqid));
    assert_int_equal(va_mapped(&w, reqid), 4);
    look_ahead(); // and then another is the next
    assert_int_equal(va_mapped(&w, 2), 4);
    assert_int_equal(va_mapped(&w, a), 1);
}

FX_TEST(test_the_next_request_is_wiped_ahead)
{
    uint32_t reqid;
    open_with(2, 0, 0);
    va_begin(&w, 10);
    uint32_t b = va_leave_behind(&w, 4);
    look_ahead();
    assert_int_equal(va_stats(&w).wiped_groups, 4);
    uint64_t n_call = vt_fault_calls(w.fault);
    assert_ok(va_alloc(&w, 1, &reqid)); // looks at all of it
    assert_int_equal(vt_fault_calls(w.fault), n_call);
    assert_int_equal(reqid, b);
}

FX_TEST(test_the_next_request_takes_free_memory_only)
{
    open_with(4, 0, 0);
    va_begin(&w, 10 * VA_PAGE_TOK);
    va_begin(&w, 8 * VA_PAGE_TOK - 10);
    look_ahead();
    assert_int_equal(va_mapped(&w, 2), 2);
    look_ahead();
    assert_int_equal(va_stats(&w).next_groups, 2);
}

FX_TEST(test_what_the_next_request_has_is_taken_when_needed)
{
    open_with(4, 0, 0);
    va_begin(&w, 10 * VA_PAGE_TOK);
    uint32_t b = va_begin(&w, 6 * VA_PAGE_TOK);
    look_ahead();
    assert_int_equal(va_mapped(&w, 2), 3); // b has the next token's
    w.len[b] = 9 * VA_PAGE_TOK;
    assert_ok(va_step(&w, false));
    assert_int_equal(va_mapped(&w, 2), 1);
}

// ---- Reclamation in the background

// Of 20 groups 3 are free; b is idle for longer than c.
static void fill_up(uint32_t *b, uint32_t *c)
{
    va_begin(&w, 10 * VA_PAGE_TOK);
    *b = va_begin(&w, 4 * VA_PAGE_TOK);
    *c = va_begin(&w, 3 * VA_PAGE_TOK);
    assert_ok(va_free(&w, *b));
    assert_ok(va_free(&w, *c));
}

FX_TEST(test_little_free_memory_is_reclaimed_behind_the_caller)
{
    uint32_t b, c;
    open_with(0, 20, 40);
    fill_up(&b, &c);
    assert_ok(va_step(&w, false)); // the caller does not do it
    assert_int_equal(va_stats(&w).groups_idle, 7);
    look_ahead(); // 5 more, so that 8 are free
    assert_int_equal(va_mapped(&w, b), 0);
    assert_int_equal(va_mapped(&w, c), 2);
    vt_va_stats st = va_stats(&w);
    assert_int_equal(st.background_groups, 5);
    assert_int_equal(st.groups_spare, 5);
    assert_int_equal(st.destroy_calls, 0);
}

FX_TEST(test_enough_free_memory_is_left_alone)
{
    uint32_t b, c;
    open_with(0, 15, 40);
    fill_up(&b, &c);
    look_ahead(); // 3 of 20 are 15 %
    assert_int_equal(va_stats(&w).background_groups, 0);
    va_close(&w);
    open_with(0, 0, 0);
    fill_up(&b, &c);
    look_ahead();
    assert_int_equal(va_stats(&w).background_groups, 0);
}

FX_TEST(test_reclamation_spares_the_next_request)
{
    uint32_t b, c;
    open_with(3, 20, 40);
    fill_up(&b, &c);
    look_ahead();
    assert_int_equal(va_mapped(&w, b), 3);
    assert_int_equal(va_mapped(&w, c), 0);
}

// ---- The device

FX_TEST(test_the_worker_waits_for_no_device)
{
    va_setup s = va_small();
    s.host = false;
    s.device = true;
    s.low_percent = 50;
    va_open(&w, &s, 1);
    uint32_t a = va_begin(&w, 10 * VA_PAGE_TOK), b = va_begin(&w, 4 * VA_PAGE_TOK);
    assert_ok(va_free(&w, b));
    look_ahead();
    assert_int_equal(va_mapped(&w, b), 4); // the kernels may still read it
    va_finish_work(&w);
    look_ahead();
    assert_int_equal(va_mapped(&w, b), 0);
    assert_int_equal(va_mapped(&w, a), 10);
    assert_int_equal(vt_fake_look(w.inner).n_wait, 0);
}

FX_TEST(test_the_worker_maps_no_more_than_it_could_reclaim)
{
    va_open_small(&w, false, true);
    assert_ok(va_set_budget(&w, 14));
    uint32_t a = va_begin(&w, 9 * VA_PAGE_TOK), b = va_begin(&w, 5 * VA_PAGE_TOK);
    assert_ok(va_free(&w, b));
    look_ahead();
    assert_int_equal(va_mapped(&w, a), 9);
    assert_int_equal(va_stats(&w).ahead_failures, 0);
    va_finish_work(&w);
    look_ahead();
    assert_int_equal(va_mapped(&w, a), 10);
}

// A page group of 4 MiB is a slice.
FX_TEST(test_the_worker_works_in_slices)
{
    va_setup s = va_small();
    s.host = false;
    s.row_bytes = 64 << 10;
    s.page_bytes = 2 << 20;
    s.next_groups = 6;
    va_open(&w, &s, 1);
    look_ahead();
    assert_int_equal(va_stats(&w).next_groups, 6);
    assert_int_equal(va_stats(&w).map_calls, 6 * 2);
}

FX_RUN_EACH(test_vt_vattention_ahead, setup, teardown)
