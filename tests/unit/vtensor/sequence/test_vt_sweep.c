// test_vt_sweep.c - sequences that share, under failing calls: for every operation and every i, the
// i-th backend call fails, with VT_NOSPACE and with VT_EDEVICE. Afterwards all sequences hold what
// they held, vt_check holds, a retry succeeds and nothing leaks. Then the same with calls that keep
// failing, so that undoing fails as well: then a sequence may be lost, its span is in quarantine,
// and the others hold what they held. Then with every allocation. (test_vt_fault.c does this for a
// single sequence.)
//
// On the fake each call fails once in both layouts; of what else is swept, an operation has one
// layout, the next the other, and both with FX_TEST_LONG.

#include "assert_vt.h"
#include "failing_calloc.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

#include "family.h"

static family f;
static uint32_t story[FAMILY_MAX_TOK]; // a prompt that is recorded in places

// 32 tokens to a chunk, about; lengths that end inside one.
enum { SHORT = 40, MIDDLE = 100, LONG = 150 };

// ---- What is there before the operation.

static void one(void)
{
    family_grown(&f, 0, MIDDLE);
}

static void forked(void)
{
    one();
    assert_ok(family_fork(&f, 0, 2, MIDDLE));
}

static void forked_short(void)
{
    one();
    assert_ok(family_fork(&f, 0, 2, SHORT));
}

// A child of two runs, its own one shared as well.
static void forked_apart(void)
{
    forked();
    assert_ok(family_grow(&f, 2, 80));
    assert_ok(family_record(&f, 2, MIDDLE + 80, NULL));
}

static void recorded(void)
{
    one();
    assert_ok(family_record(&f, 0, MIDDLE, NULL));
}

static void recorded_and_gone(void)
{
    recorded();
    memcpy(story, f.kin[0].tok, sizeof story);
    family_release(&f, 0);
}

// Two ends of one story: the tail of what they share is in neither's hands alone.
static void recorded_twice(void)
{
    recorded();
    memcpy(story, f.kin[0].tok, sizeof story);
    assert_ok(family_fork(&f, 0, 2, MIDDLE));
    assert_ok(family_grow(&f, 2, 20));
    assert_ok(family_record(&f, 2, MIDDLE + 20, NULL));
    family_release(&f, 0);
    family_release(&f, 2);
}

static void swapped(void)
{
    forked_short();
    assert_ok(family_grow(&f, 0, 30));
    assert_ok(swap_out_now(f.kin[0].s));
    assert_true(vt_seq_is_swapped(f.kin[0].s));
}

static void full_of_prefixes(void)
{
    for (uint32_t i = 0; i < 3; i++) {
        family_grown(&f, i, LONG);
        assert_ok(family_record(&f, i, LONG, NULL));
        family_release(&f, i);
    }
    family_grown(&f, 0, SHORT);
}

// ---- The operations. A retry finds what the first try has left undone.

static vt_status do_fork(void)
{
    return f.kin[2].s ? VT_OK : family_fork(&f, 0, 2, MIDDLE - 10);
}

static vt_status match_first(uint32_t n_tok)
{
    vt_status st = f.kin[2].s ? VT_OK : family_match(&f, 2, story, n_tok);
    if (st == VT_OK) assert_int_equal(f.kin[2].len_tok, n_tok); // all of it was recorded
    return st;
}

static vt_status do_match(void)
{
    return match_first(MIDDLE);
}

static vt_status do_match_part(void)
{
    return match_first(SHORT);
}

static vt_status grow_to(uint32_t i, uint32_t len_tok)
{
    uint32_t had = f.kin[i].len_tok;
    return had < len_tok ? family_grow(&f, i, len_tok - had) : VT_OK;
}

static vt_status do_grow(void)
{
    return grow_to(0, LONG);
}

static vt_status do_grow_child(void)
{
    return grow_to(2, LONG);
}

static vt_status do_cut(void)
{
    return family_cut(&f, 0, SHORT - 20);
}

static vt_status do_cut_child(void)
{
    return family_cut(&f, 2, 10);
}

static vt_status do_release(void)
{
    if (f.kin[0].s) family_release(&f, 0);
    return VT_OK;
}

static vt_status do_swap_out(void)
{
    return swap_out_now(f.kin[0].s);
}

static vt_status do_swap_in(void)
{
    return swap_in_now(f.kin[0].s);
}

static vt_status do_budget(void)
{
    return vt_set_budget(f.m, 6 * f.chunk_bytes);
}

static vt_status do_evict(void)
{
    return vt_evict(f.m, UINT64_MAX, NULL);
}

// Steps until it is done, or has failed.
static vt_status go_on_giving(void)
{
    vt_status st = VT_OK;
    for (int i = 0; i < 20 && st == VT_OK && family_stats(&f).returning_bytes > 0; i++) {
        st = vt_step(f.m, VT_AHEAD_NONE, 0, 0);
        vt_work(f.m, 100, NULL);
    }
    return st;
}

static vt_status do_give_back(void)
{
    vt_give_back(f.m, 0, true);
    return go_on_giving();
}

static vt_status do_aim(void)
{
    vt_status st = vt_aim_budget(f.m, 6 * f.chunk_bytes);
    return st == VT_OK ? go_on_giving() : st;
}

static vt_status do_forget(void)
{
    vt_domain_forget(f.domain[0]);
    return VT_OK;
}

static vt_status do_prepare(void)
{
    vt_status st = vt_seq_prepare(f.kin[0].s, LONG, 1);
    return st == VT_OK ? vt_seq_wait(f.kin[0].s) : st;
}

static vt_status do_step(void)
{
    vt_status st = vt_step(f.m, VT_AHEAD_SLACK, 60, 1);
    vt_work(f.m, 100, NULL);
    return st;
}

typedef struct act {
    const char *name;
    void (*prepare)(void);
    vt_status (*run)(void);
    bool exact; // a failure leaves every gauge as it was (a shared tail may be copied already)
} act;

static const act acts[] = {
    {"fork", one, do_fork, false},
    {"match to the end", recorded_and_gone, do_match, false},
    {"match to the middle", recorded_and_gone, do_match_part, false},
    {"match, the tail held by two ends", recorded_twice, do_match, false},
    {"grow, the tail shared with a child", forked, do_grow, false},
    {"grow the child", forked, do_grow_child, false},
    {"grow a short child, alone by then", forked_short, do_grow_child, false},
    {"grow, the tail recorded", recorded, do_grow, false},
    {"grow, prefixes in the way", full_of_prefixes, do_grow, false},
    {"cut what is its own", one, do_cut, true},
    {"cut what is shared", forked, do_cut, true},
    {"cut two runs that are shared", forked_apart, do_cut_child, true},
    {"release what is shared", forked, do_release, false},
    {"release what is recorded", recorded, do_release, false},
    {"swap out", forked_short, do_swap_out, true},
    {"swap in", swapped, do_swap_in, false},
    {"swap out again", swapped, do_swap_out, true},
    {"release what is swapped", swapped, do_release, false},
    {"shrink the budget", recorded_and_gone, do_budget, false},
    {"evict", recorded_and_gone, do_evict, false},
    {"give back", recorded_and_gone, do_give_back, false},
    {"give back beside one", full_of_prefixes, do_give_back, false},
    {"aim at a smaller budget", full_of_prefixes, do_aim, false},
    {"forget", recorded_and_gone, do_forget, false},
    {"prepare", one, do_prepare, true},
    {"step", recorded, do_step, false},
};

enum { N_ACT = sizeof acts / sizeof acts[0] };

static void open_for(const act *a, backend b, vt_layout layout)
{
    family_setup s = {.backend = b,
                      .layout = layout,
                      .n_plane = b == ON_CUDA && layout == VT_LAYOUT_SPLIT ? 2 : 3,
                      .row_bytes = layout == VT_LAYOUT_SPLIT ? 128 : 42,
                      .slice_pages = 1,
                      .n_seq = 4,
                      .budget_chunks = 18,
                      .low_chunks = 2,
                      .swap_chunks = 12,
                      .mapper = VT_MAPPER_OWNER};
    if (b == ON_CUDA) s.row_bytes *= 16;
    family_open(&f, &s, 5);
    a->prepare();
    family_verify(&f);
    f.faulty = true;
}

// That is all that can be done with them. False: there is none.
static bool release_lost(void)
{
    bool is_lost = false;
    for (uint32_t k = 0; k < f.setup.n_seq; k++) {
        if (!f.kin[k].s || !vt_seq_is_lost(f.kin[k].s)) continue;
        assert_int_not_equal(vt_seq_extend(f.kin[k].s, f.kin[k].len_tok + 1), VT_OK);
        family_release(&f, k);
        is_lost = true;
    }
    return is_lost;
}

// Runs the act with calls i .. i + n_more failing; false when it makes no i-th call.
static bool run_with_fault(const act *a, uint64_t i, uint64_t n_more, vt_status kind)
{
    vt_stats before = gauges_of(family_stats(&f));
    vt_fault_arm(f.fault, i, n_more, kind);
    vt_status st = a->run();
    bool fired = vt_fault_fired(f.fault) > 0;
    vt_fault_disarm(f.fault);
    if (!fired) assert_ok(st);
    bool is_foreseen = st == VT_EDEVICE || (kind == VT_NOSPACE && vt_is_shortage(st));
    if (n_more == 0 && st != VT_OK && !is_foreseen)
        fail_msg("%s, call %u: %s", a->name, (unsigned)i, vt_status_name(st));
    if (st != VT_OK && a->exact && n_more == 0) {
        vt_stats after = gauges_of(family_stats(&f));
        assert_memory_equal(&before, &after, sizeof before);
    }
    family_verify(&f);
    bool is_lost = release_lost();
    if (n_more == 0) assert_false(is_lost || family_stats(&f).quarantined_spans > 0);
    assert_ok(vt_step(f.m, VT_AHEAD_NONE, 0, 0)); // the system may have room again
    vt_work(f.m, 100, NULL);
    if (st != VT_OK && !is_lost) assert_ok(a->run());
    family_verify(&f);
    return fired;
}

static void sweep(const act *a, backend b, vt_layout layout, uint64_t n_more)
{
    static const vt_status kinds[] = {VT_EDEVICE, VT_NOSPACE};
    for (int k = 0; k < 2; k++) {
        bool fired = true;
        for (uint64_t i = 0; fired; i++) {
            open_for(a, b, layout);
            fired = run_with_fault(a, i, n_more, kinds[k]);
            family_close(&f);
            assert_true(i < 1000);
        }
    }
}

static void sweep_all(backend b, uint64_t n_more)
{
    for (int i = 0; i < N_ACT; i++)
        for (int layout = VT_LAYOUT_SPLIT; layout <= VT_LAYOUT_PACKED; layout++) {
            const bool is_first = b == ON_FAKE && n_more == 0;
            if (!is_first && !suite_takes((size_t)(i + layout) + n_more, 2)) continue;
            print_message("%s, layout %d, %llu more\n", acts[i].name, layout,
                          (unsigned long long)n_more);
            sweep(&acts[i], b, (vt_layout)layout, n_more);
        }
}

static void test_each_call_fails_once_on_the_fake(void **state)
{
    (void)state;
    sweep_all(ON_FAKE, 0);
}

static void test_each_call_fails_once_on_the_host(void **state)
{
    (void)state;
    sweep_all(ON_HOST, 0);
}

static void test_each_call_fails_once_on_cuda(void **state)
{
    (void)state;
    sweep_all(ON_CUDA, 0);
}

static void test_calls_go_on_failing(void **state)
{
    (void)state;
    for (uint64_t n_more = 1; n_more < 5; n_more++) sweep_all(ON_FAKE, n_more);
    sweep_all(ON_FAKE, UINT64_MAX / 2);
    sweep_all(ON_HOST, 1);
}

// ---- What is left as it is, and not tried again

static void release_all(void)
{
    for (uint32_t k = 0; k < f.setup.n_seq; k++)
        if (f.kin[k].s) family_release(&f, k);
}

static void forget_all(void)
{
    for (uint32_t d = 0; d < FAMILY_N_DOMAIN; d++) vt_domain_forget(f.domain[d]);
}

static void end_by_releasing(void)
{
    release_all();
    forget_all();
}

static void end_by_forgetting(void)
{
    forget_all();
    release_all();
}

static void end_by_giving_back(void)
{
    forget_all();
    assert_ok(vt_trim(f.m, 0, NULL));
}

// The manager sees to the rest.
static void end_at_once(void)
{
}

static bool end_after_fault(const act *a, uint64_t i, uint64_t n_more, void (*end)(void))
{
    open_for(a, ON_FAKE, VT_LAYOUT_SPLIT);
    vt_fault_arm(f.fault, i, n_more, VT_EDEVICE);
    (void)a->run();
    bool fired = vt_fault_fired(f.fault) > 0;
    vt_fault_disarm(f.fault);
    end();
    family_verify(&f);
    family_close(&f);
    return fired;
}

static void test_what_is_lost_goes_as_well(void **state)
{
    static void (*const ends[])(void) = {end_by_releasing, end_by_forgetting, end_by_giving_back,
                                         end_at_once};
    (void)state;
    for (int k = 0; k < N_ACT; k++)
        for (size_t e = 0; e < sizeof ends / sizeof ends[0]; e++)
            for (uint64_t n_more = 1; n_more < 5; n_more++)
                for (uint64_t i = 0; end_after_fault(&acts[k], i, n_more, ends[e]); i++)
                    assert_true(i < 1000);
}

// Runs an act with the i-th allocation failing; false when it makes no i-th.
static bool run_without_memory(const act *a, uint64_t i)
{
    open_for(a, ON_HOST, VT_LAYOUT_SPLIT);
    n_alloc_left = i;
    vt_status st = a->run();
    bool fired = n_alloc_left == 0;
    n_alloc_left = UINT64_MAX;
    assert_true(st == VT_OK || (fired && st == VT_ENOMEM));
    family_verify(&f);
    if (st != VT_OK) assert_ok(a->run());
    family_verify(&f);
    family_close(&f);
    return fired;
}

static vt_status do_record(void)
{
    vt_retention keep = {.priority = 3, .pinned = true};
    return family_record(&f, 0, MIDDLE - 7, &keep);
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    static const act record = {"record", recorded, do_record, false};
    for (uint64_t i = 0; run_without_memory(&record, i); i++) assert_true(i < 100);
    for (int k = 0; k < N_ACT; k++)
        for (uint64_t i = 0; run_without_memory(&acts[k], i); i++) assert_true(i < 100);
}

FX_SUITE(test_vt_sweep)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_call_fails_once_on_the_fake),
        cmocka_unit_test(test_each_call_fails_once_on_the_host),
        cmocka_unit_test(test_each_call_fails_once_on_cuda),
        cmocka_unit_test(test_calls_go_on_failing),
        cmocka_unit_test(test_what_is_lost_goes_as_well),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
