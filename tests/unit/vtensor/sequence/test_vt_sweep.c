// test_vt_sweep.c - failing calls: for every operation and every i, the i-th backend call fails,
// with VT_NOSPACE and with VT_EDEVICE. Afterwards all sequences hold what they held, vt_check
// holds, a retry succeeds and nothing leaks. Then the same with calls that keep failing, so that
// undoing fails as well: then a sequence may be lost, its span is in quarantine, and the others
// hold what they held. Then with every allocation. At the end single failures, each with what it
// must leave.
//
// On the fake each call fails once in both layouts; of what else is swept, an operation has one
// layout, the next the other, and both with FX_TEST_LONG.
#include "assert_vt.h"
#include "failing_calloc.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

#include "family.h"

static family f;                       // of at most 4 sequences
static uint32_t story[FAMILY_MAX_TOK]; // a prompt that is recorded in places

// 32 tokens to a chunk, about; lengths that end inside one.
enum { CHUNK = 32, SHORT = 40, MIDDLE = 100, LONG = 150 };

// ---- What is there before the operation.

VT_DO(one, family_grown(&f, 0, MIDDLE))

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

static void nothing(void)
{
}

VT_DO(one_empty, family_grown(&f, 0, 0))
VT_DO(one_long, family_grown(&f, 0, 3 * CHUNK))

static void one_warm(void)
{
    family_grown(&f, 0, 4 * CHUNK);
    family_grown(&f, 1, 2 * CHUNK);
    family_release(&f, 0);
}

static void one_warm_in_use(void)
{
    one_warm();
    family_grown(&f, 0, 0);
}

static void idle_in_the_way(void)
{
    family_grown(&f, 1, 4 * CHUNK);
    family_grown(&f, 2, 3 * CHUNK);
    family_grown(&f, 0, 3 * CHUNK);
    family_release(&f, 1);
    family_release(&f, 2);
}

static void lender_in_the_way(void)
{
    family_grown(&f, 1, 7 * CHUNK);
    family_release(&f, 1);
    family_grown(&f, 1, CHUNK); // six warm ones more
    family_grown(&f, 0, 3 * CHUNK);
}

static void all_spans_idle(void)
{
    for (uint32_t i = 0; i < f.setup.n_seq; i++) family_grown(&f, i, 2 * CHUNK);
    for (uint32_t i = 0; i < f.setup.n_seq; i++) family_release(&f, i);
}

// ---- The operations. A retry finds what the first try has left undone.

VT_CALL(do_fork, f.kin[2].s ? VT_OK : family_fork(&f, 0, 2, MIDDLE - 10))

static vt_status match_first(uint32_t n_tok)
{
    vt_status st = f.kin[2].s ? VT_OK : family_match(&f, 2, story, n_tok);
    if (st == VT_OK) assert_int_equal(f.kin[2].len_tok, n_tok); // all of it was recorded
    return st;
}

VT_CALL(do_match, match_first(MIDDLE))
VT_CALL(do_match_part, match_first(SHORT))
VT_CALL(do_grow, family_extend(&f, 0, LONG))
VT_CALL(do_grow_child, family_extend(&f, 2, LONG))
VT_CALL(do_grow_long, family_extend(&f, 0, 6 * CHUNK))
VT_CALL(do_create, family_create(&f, 3, 0))

static vt_status do_trim(void)
{
    uint64_t freed, had = family_stats(&f).mapped_bytes;
    vt_status st = vt_trim(f.m, 0, &freed);
    assert_int_equal(had - family_stats(&f).mapped_bytes, freed);
    return st;
}

VT_CALL(do_cut, family_cut(&f, 0, SHORT - 20))
VT_CALL(do_cut_child, family_cut(&f, 2, 10))

static vt_status do_release(void)
{
    if (f.kin[0].s) family_release(&f, 0);
    return VT_OK;
}

VT_CALL(do_swap_out, swap_out_now(f.kin[0].s))
VT_CALL(do_swap_in, swap_in_now(f.kin[0].s))
VT_CALL(do_budget, vt_set_budget(f.m, 6 * f.chunk_bytes))
VT_CALL(do_evict, vt_evict(f.m, UINT64_MAX, NULL))

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
    bool plain; // nothing is shared
    uint64_t high_chunks;
} act;

static const act acts[] = {
    {"fork", one, do_fork, false, false, 0},
    {"match to the end", recorded_and_gone, do_match, false, false, 0},
    {"match to the middle", recorded_and_gone, do_match_part, false, false, 0},
    {"match, the tail held by two ends", recorded_twice, do_match, false, false, 0},
    {"grow, the tail shared with a child", forked, do_grow, false, false, 0},
    {"grow the child", forked, do_grow_child, false, false, 0},
    {"grow a short child, alone by then", forked_short, do_grow_child, false, false, 0},
    {"grow, the tail recorded", recorded, do_grow, false, false, 0},
    {"grow, prefixes in the way", full_of_prefixes, do_grow, false, false, 0},
    {"cut what is its own", one, do_cut, true, false, 0},
    {"cut what is shared", forked, do_cut, true, false, 0},
    {"cut two runs that are shared", forked_apart, do_cut_child, true, false, 0},
    {"release what is shared", forked, do_release, false, false, 0},
    {"release what is recorded", recorded, do_release, false, false, 0},
    {"swap out", forked_short, do_swap_out, true, false, 0},
    {"swap in", swapped, do_swap_in, false, false, 0},
    {"swap out again", swapped, do_swap_out, true, false, 0},
    {"release what is swapped", swapped, do_release, false, false, 0},
    {"shrink the budget", recorded_and_gone, do_budget, false, false, 0},
    {"evict", recorded_and_gone, do_evict, false, false, 0},
    {"give back", recorded_and_gone, do_give_back, false, false, 0},
    {"give back beside one", full_of_prefixes, do_give_back, false, false, 0},
    {"aim at a smaller budget", full_of_prefixes, do_aim, false, false, 0},
    {"forget", recorded_and_gone, do_forget, false, false, 0},
    {"prepare", one, do_prepare, true, false, 0},
    {"step", recorded, do_step, false, false, 0},
    {"create the first", nothing, do_create, true, true, 0},
    {"create on a warm span", one_warm, do_create, false, true, 0},
    {"create, all spans warm", all_spans_idle, do_create, true, true, 0},
    {"extend from nothing", one_empty, do_grow_long, true, true, 0},
    {"extend", one_long, do_grow_long, true, true, 0},
    {"extend into mapped-free chunks", one_warm_in_use, do_grow_long, true, true, 0},
    {"extend, idle spans give back", idle_in_the_way, do_grow_long, false, true, 0},
    {"extend, a live span gives back", lender_in_the_way, do_grow_long, false, true, 0},
    {"release, spare kept", one_long, do_release, false, true, 0},
    {"release, spare given back", one_long, do_release, false, true, 1},
    {"trim", idle_in_the_way, do_trim, false, true, 0},
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
                      .budget_chunks = a->plain ? 10 : 18,
                      .low_chunks = a->plain ? 0 : 2,
                      .high_chunks = a->high_chunks,
                      .swap_chunks = a->plain ? 0 : 12,
                      .mapper = VT_MAPPER_OWNER,
                      .plain = a->plain};
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

FX_TEST(test_each_call_fails_once_on_the_fake)
{
    sweep_all(ON_FAKE, 0);
}

FX_TEST(test_each_call_fails_once_on_the_host)
{
    sweep_all(ON_HOST, 0);
}

FX_TEST(test_each_call_fails_once_on_cuda)
{
    sweep_all(ON_CUDA, 0);
}

FX_TEST(test_calls_go_on_failing)
{
    for (uint64_t n_more = 1; n_more < 6; n_more++) sweep_all(ON_FAKE, n_more);
    sweep_all(ON_FAKE, UINT64_MAX / 2);
    sweep_all(ON_HOST, 1);
    sweep_all(ON_HOST, UINT64_MAX / 2);
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

FX_TEST(test_what_is_lost_goes_as_well)
{
    static void (*const ends[])(void) = {end_by_releasing, end_by_forgetting, end_by_giving_back,
                                         end_at_once};
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

FX_TEST(test_every_allocation_may_fail)
{
    static const act record = {"record", recorded, do_record, false, false, 0};
    for (uint64_t i = 0; run_without_memory(&record, i); i++) assert_true(i < 100);
    for (int k = 0; k < N_ACT; k++)
        for (uint64_t i = 0; run_without_memory(&acts[k], i); i++) assert_true(i < 100);
}

// ---- Single failures

static const act *act_named(const char *name)
{
    for (int k = 0; k < N_ACT; k++)
        if (strcmp(acts[k].name, name) == 0) return &acts[k];
    fail_msg("no act is called \"%s\"", name);
    return NULL;
}

// One span live, one warm; call i of destroy fails. Answers how many calls destroy made.
static uint64_t destroy_with_fault(uint64_t i)
{
    open_for(act_named("release, spare kept"), ON_FAKE, VT_LAYOUT_SPLIT);
    family_grown(&f, 1, 2 * CHUNK);
    family_release(&f, 1);
    uint64_t before = vt_fake_look(f.inner).n_call;
    vt_fault_arm(f.fault, i, 0, VT_EDEVICE);
    family_close(&f); // looks that nothing is left
    return f.end.n_call - before;
}

FX_TEST(test_destroy_returns_all_though_a_call_fails)
{
    uint64_t n_call = destroy_with_fault(UINT64_MAX);
    assert_true(n_call >= 1 + 2 * (3 + 1 + 1)); // a fence; unmap each plane, destroy, unreserve
    for (uint64_t i = 0; i < n_call; i++) (void)destroy_with_fault(i);
}

// A device that is gone for good: everything fails, nothing crashes, and our own memory is freed.
FX_TEST(test_destroy_bears_a_dead_device)
{
    open_for(act_named("release, spare kept"), ON_FAKE, VT_LAYOUT_SPLIT);
    vt_fault_arm(f.fault, 0, UINT64_MAX / 2, VT_EDEVICE);
    vt_manager_destroy(f.m);
    assert_null(f.end.violation);
}

FX_TEST(test_a_span_that_cannot_be_wiped_is_handed_to_nobody)
{
    open_for(act_named("create on a warm span"), ON_FAKE,
             VT_LAYOUT_SPLIT); // four warm and dirty chunks
    vt_fault_arm(f.fault, 0, 0, VT_EDEVICE);
    assert_status(VT_EDEVICE, family_create(&f, 0, 0));
    assert_int_equal(vt_fault_fired(f.fault), 1);
    assert_int_equal(family_stats(&f).device_errors, 1);
    assert_int_equal(family_stats(&f).chunks_spare, 4);
    vt_fault_disarm(f.fault);
    assert_ok(family_create(&f, 2, 0)); // gets it, wiped
    family_verify(&f);
    family_close(&f);
}

FX_TEST(test_a_span_that_does_not_give_back_is_passed_over)
{
    open_for(act_named("extend, idle spans give back"), ON_FAKE,
             VT_LAYOUT_SPLIT); // idle: four chunks, and three; all in use
    vt_fault_arm(f.fault, 0, 0, VT_EDEVICE);
    assert_ok(do_grow_long()); // needs three more
    assert_int_equal(vt_fault_fired(f.fault), 1);
    assert_int_equal(family_stats(&f).chunks_spare, 4);
    vt_fault_disarm(f.fault);
    family_verify(&f);
    family_close(&f);
}

FX_TEST(test_a_backend_that_fails_to_start_stays_the_callers)
{
    vt_manager *m;
    vt_config c = small_config();
    c.vmm = vt_fault_open(vt_fake_open());
    vt_fault_arm(c.vmm, 0, 0, VT_EDEVICE);
    assert_int_equal(vt_manager_create(&c, &m), VT_EDEVICE);
    assert_null(m);
    assert_ok(vt_manager_create(&c, &m));
    vt_manager_destroy(m);
}

static vt_status live_a_little(void)
{
    vt_manager *m;
    vt_seq *s = NULL;
    vt_config c = small_config();
    vt_status st = vt_manager_create(&c, &m);
    if (st != VT_OK) return st;
    st = vt_seq_create(m, 0, &s);
    if (st == VT_OK) st = vt_seq_extend(s, 50);
    vt_status checked = vt_check(m, NULL);
    assert_true(checked == VT_OK || checked == VT_ENOMEM);
    vt_manager_destroy(m);
    return st != VT_OK ? st : checked;
}

FX_TEST(test_every_allocation_of_a_short_life_may_fail)
{
    uint64_t i = 0;
    vt_status st = VT_ENOMEM;
    for (; st == VT_ENOMEM; i++) {
        n_alloc_left = i;
        st = live_a_little();
        n_alloc_left = UINT64_MAX;
    }
    assert_ok(st);
    assert_true(i > 5);
}

// A manager on the host under faults, which it owns.
static vt_manager *open_under_faults(const vt_group *group, uint64_t budget, vt_vmm **fault)
{
    vt_config cfg = vt_config_default();
    vt_vmm *host;
    vt_manager *m;
    assert_ok(vt_vmm_host_open(&host));
    *fault = vt_fault_open(host);
    cfg.max_tok = 64, cfg.max_seq = 8, cfg.budget_bytes = budget;
    cfg.spare_high_bytes = UINT64_MAX, cfg.mapper = VT_MAPPER_OWNER;
    cfg.group = group, cfg.n_group = 2, cfg.vmm = *fault;
    assert_ok(vt_manager_create(&cfg, &m));
    return m;
}

// Chunks of one size make room for those of another: what the system will not give is made of what
// is there already.
FX_TEST(test_a_full_system_has_room_for_chunks_of_another_size)
{
    const vt_group group[] = {
        {.n_plane = 1, .row_bytes = 512, .slice_bytes = 4096},
        {.n_plane = 1, .row_bytes = 1024, .window_tok = 8, .slice_bytes = 8192}};
    vt_vmm *fault;
    vt_manager *m = open_under_faults(group, 1 << 20, &fault);
    vt_seq *s[5];
    assert_ok(vt_seq_create(m, 0, &s[0]));
    for (uint32_t len = 8; len <= 64; len += 8) assert_ok(vt_seq_extend(s[0], len));
    vt_seq_release(s[0]); // 8 chunks of 4 KiB, and of 8 KiB those of the window
    for (int i = 0; i < 5; i++) {
        assert_ok(vt_seq_create(m, 0, &s[i]));
        if (i == 1) vt_fault_arm(fault, 0, 0, VT_NOSPACE); // its first call creates
        assert_ok(vt_seq_extend(s[i], 8));
    }
    assert_int_equal(vt_fault_fired(fault), 1);
    assert_ok(vt_check(m, NULL));
    vt_manager_destroy(m);
}

// Half of a state was copied for the tree when the device failed: who gets that chunk reads zeroes.
FX_TEST(test_a_state_copied_in_part_is_shown_to_nobody)
{
    const vt_group group[] = {
        {.n_plane = 1, .row_bytes = 1024, .slice_bytes = 4096},
        {.kind = VT_GROUP_STATE, .n_plane = 1, .row_bytes = 8192, .slice_bytes = 4096}};
    const uint32_t tok[4] = {1, 2, 3, 4};
    vt_vmm *fault;
    vt_manager *m = open_under_faults(group, 6 * 4096, &fault);
    vt_domain *d;
    vt_seq *s, *t;
    assert_ok(vt_domain_open(m, "one", 3, &d));
    assert_ok(vt_seq_create(m, 0, &s));
    assert_ok(vt_seq_extend(s, 4));
    memset(vt_seq_plane(s, 1), 0x5a, 8192);
    vt_fault_arm(fault, 2, 0, VT_EDEVICE); // create, store, create
    assert_status(VT_EDEVICE, vt_seq_record(s, d, tok, 4, NULL));
    vt_fault_disarm(fault);
    assert_ok(vt_seq_create(m, 0, &t));
    assert_ok(vt_seq_extend(t, 1));
    const char *bytes = vt_seq_plane(t, 1); // its last chunk is the one that exists already
    for (int i = 0; i < 8192; i++) assert_int_equal(bytes[i], 0);
    vt_manager_destroy(m);
}

FX_RUN(test_vt_sweep)
