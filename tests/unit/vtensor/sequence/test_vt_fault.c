// test_vt_fault.c - for every operation and every i: the i-th backend call fails, with VT_NOSPACE
// and with VT_EDEVICE. Afterwards the state is as before the operation or as after it, vt_check
// holds, a retry succeeds and nothing leaks. Then the same with calls that keep failing, so that
// undoing fails as well; and with every allocation of the library's bookkeeping.
#include "assert_vt.h"
#include "failing_calloc.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

#include "world.h"

static world w;

// Three planes, 32 tokens of 100 bytes to a slice of one page, about.
static const world_setup base = {
    .n_plane = 3,
    .row_bytes = 128,
    .max_tok = 320,
    .max_seq = 4,
    .budget_chunks = 10,
    .spare_chunks = UINT64_MAX,
};

static void grown(uint32_t which, uint32_t n_chunk)
{
    assert_ok(world_create(&w, which));
    assert_ok(world_extend(&w, which, 32 * n_chunk));
    for (int i = 0; i < 4; i++) world_write(&w, which);
}

// What is there before the operation.
static void nothing(void)
{
}

static void one_empty(void)
{
    assert_ok(world_create(&w, 0));
}

static void one_grown(void)
{
    grown(0, 3);
}

static void one_warm(void)
{
    grown(0, 4);
    grown(1, 2);
    world_release(&w, 0);
}

static void one_warm_in_use(void)
{
    one_warm();
    assert_ok(world_create(&w, 0));
}

static void idle_in_the_way(void)
{
    grown(1, 4);
    grown(2, 3);
    grown(0, 3);
    world_release(&w, 1);
    world_release(&w, 2);
}

static void lender_in_the_way(void)
{
    grown(1, 7);
    world_release(&w, 1);
    grown(1, 1); // six warm ones more
    grown(0, 3);
}

static void all_spans_idle(void)
{
    for (uint32_t i = 0; i < base.max_seq; i++) grown(i, 2);
    for (uint32_t i = 0; i < base.max_seq; i++) world_release(&w, i);
}

// The operations.
static vt_status do_create(void)
{
    return world_create(&w, 3);
}

static vt_status do_extend(void)
{
    return world_extend(&w, 0, 32 * 6);
}

static vt_status do_release(void)
{
    if (w.seq[0].s) world_release(&w, 0);
    return VT_OK;
}

static vt_status do_trim(void)
{
    vt_stats before = world_stats(&w);
    uint64_t freed;
    vt_status st = vt_trim(w.m, 0, &freed);
    assert_int_equal(before.mapped_bytes - world_stats(&w).mapped_bytes, freed);
    return st;
}

typedef struct act {
    const char *name;
    void (*prepare)(void);
    vt_status (*run)(void);
    bool exact;            // a failure leaves every gauge as it was
    uint64_t spare_chunks; // kept at release
} act;

static const act acts[] = {
    {"create the first", nothing, do_create, true, UINT64_MAX},
    {"create on a warm span", one_warm, do_create, false, UINT64_MAX},
    {"create, all spans warm", all_spans_idle, do_create, true, UINT64_MAX},
    {"extend from nothing", one_empty, do_extend, true, UINT64_MAX},
    {"extend", one_grown, do_extend, true, UINT64_MAX},
    {"extend into mapped-free chunks and beyond", one_warm_in_use, do_extend, true, UINT64_MAX},
    {"extend, idle spans give back", idle_in_the_way, do_extend, false, UINT64_MAX},
    {"extend, a live span gives back", lender_in_the_way, do_extend, false, UINT64_MAX},
    {"release, spare kept", one_grown, do_release, false, UINT64_MAX},
    {"release, spare given back", one_grown, do_release, false, 1},
    {"trim", idle_in_the_way, do_trim, false, UINT64_MAX},
};

enum { N_ACT = sizeof acts / sizeof acts[0] };

static void open_for(const act *a, vt_layout layout, bool host)
{
    world_setup setup = base;
    setup.layout = layout;
    setup.host = host;
    setup.spare_chunks = a->spare_chunks;
    if (layout == VT_LAYOUT_PACKED) setup.row_bytes = 42; // 126 bytes a token: they straddle
    world_open(&w, &setup, 5);
    a->prepare();
    world_verify(&w);
}

// That is all that can be done with it.
static bool release_lost(void)
{
    bool is_lost = false;
    for (uint32_t i = 0; i < base.max_seq; i++) {
        if (!w.seq[i].s || !vt_seq_is_lost(w.seq[i].s)) continue;
        world_release(&w, i);
        is_lost = true;
    }
    return is_lost;
}

// Runs the act with calls i .. i + n_more failing; false when it makes no i-th call.
static bool run_with_fault(const act *a, uint64_t i, uint64_t n_more, vt_status kind)
{
    vt_stats before = gauges_of(world_stats(&w));
    vt_fault_arm(w.fault, i, n_more, kind);
    vt_status st = a->run();
    bool fired = vt_fault_fired(w.fault) > 0;
    vt_fault_disarm(w.fault);
    if (!fired) assert_ok(st);
    bool is_foreseen = st == VT_EDEVICE || (kind == VT_NOSPACE && vt_is_shortage(st));
    if (st != VT_OK && !is_foreseen && n_more == 0)
        fail_msg("%s, call %u: %s", a->name, (unsigned)i, vt_status_name(st));
    if (st != VT_OK && a->exact && n_more == 0) {
        vt_stats after = gauges_of(world_stats(&w));
        assert_memory_equal(&before, &after, sizeof before);
    }
    world_verify(&w);
    bool is_lost = release_lost();
    if (n_more == 0) assert_false(is_lost || world_stats(&w).quarantined_spans > 0);
    assert_ok(vt_step(w.m, VT_AHEAD_NONE, 0, 0)); // the system may have room again
    if (st != VT_OK && !is_lost) assert_ok(a->run());
    world_verify(&w);
    return fired;
}

static void sweep(const act *a, vt_layout layout, bool host, uint64_t n_more)
{
    static const vt_status kinds[] = {VT_EDEVICE, VT_NOSPACE};
    for (int k = 0; k < 2; k++) {
        bool fired = true;
        for (uint64_t i = 0; fired; i++) {
            open_for(a, layout, host);
            fired = run_with_fault(a, i, n_more, kinds[k]);
            world_close(&w);
            assert_true(i < 1000);
        }
    }
}

static void sweep_all(bool host, uint64_t n_more)
{
    for (int i = 0; i < N_ACT; i++)
        for (int layout = VT_LAYOUT_SPLIT; layout <= VT_LAYOUT_PACKED; layout++)
            sweep(&acts[i], (vt_layout)layout, host, n_more);
}

static void test_each_call_fails_once_on_the_fake(void **state)
{
    (void)state;
    sweep_all(false, 0);
}

static void test_each_call_fails_once_on_the_host(void **state)
{
    (void)state;
    sweep_all(true, 0);
}

static void test_calls_go_on_failing(void **state)
{
    (void)state;
    for (uint64_t n_more = 1; n_more < 6; n_more++) sweep_all(false, n_more);
    sweep_all(false, UINT64_MAX / 2);
    sweep_all(true, UINT64_MAX / 2);
}

// One span live, one warm; call i of destroy fails. Answers how many calls destroy made.
static uint64_t destroy_with_fault(uint64_t i)
{
    open_for(&acts[8], VT_LAYOUT_SPLIT, false);
    grown(1, 2);
    world_release(&w, 1);
    uint64_t before = vt_fake_look(w.inner).n_call;
    vt_fault_arm(w.fault, i, 0, VT_EDEVICE);
    world_close(&w); // looks that nothing is left
    return w.end.n_call - before;
}

static void test_destroy_returns_all_though_a_call_fails(void **state)
{
    (void)state;
    uint64_t n_call = destroy_with_fault(UINT64_MAX);
    assert_true(n_call >= 1 + 2 * (3 + 1 + 1)); // a fence; unmap each plane, destroy, unreserve
    for (uint64_t i = 0; i < n_call; i++) (void)destroy_with_fault(i);
}

// A device that is gone for good: everything fails, nothing crashes, and our own memory is freed.
static void test_destroy_bears_a_dead_device(void **state)
{
    (void)state;
    open_for(&acts[8], VT_LAYOUT_SPLIT, false);
    free(w.seq[0].bytes);
    vt_fault_arm(w.fault, 0, UINT64_MAX / 2, VT_EDEVICE);
    vt_manager_destroy(w.m);
    assert_null(w.end.violation);
}

static void test_a_span_that_cannot_be_wiped_is_handed_to_nobody(void **state)
{
    (void)state;
    open_for(&acts[1], VT_LAYOUT_SPLIT, false); // four warm and dirty chunks
    vt_fault_arm(w.fault, 0, 0, VT_EDEVICE);
    assert_status(VT_EDEVICE, world_create(&w, 0));
    assert_int_equal(vt_fault_fired(w.fault), 1);
    assert_int_equal(world_stats(&w).device_errors, 1);
    assert_int_equal(world_stats(&w).chunks_spare, 4);
    vt_fault_disarm(w.fault);
    assert_ok(world_create(&w, 2)); // gets it, wiped
    world_verify(&w);
    world_close(&w);
}

static void test_a_span_that_does_not_give_back_is_passed_over(void **state)
{
    (void)state;
    open_for(&acts[6], VT_LAYOUT_SPLIT, false); // idle: four chunks, and three; all in use
    vt_fault_arm(w.fault, 0, 0, VT_EDEVICE);
    assert_ok(do_extend()); // needs three more
    assert_int_equal(vt_fault_fired(w.fault), 1);
    assert_int_equal(world_stats(&w).chunks_spare, 4);
    vt_fault_disarm(w.fault);
    world_verify(&w);
    world_close(&w);
}

static void test_a_backend_that_fails_to_start_stays_the_callers(void **state)
{
    (void)state;
    vt_manager *m;
    vt_config c = world_small_config();
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
    vt_config c = world_small_config();
    vt_status st = vt_manager_create(&c, &m);
    if (st != VT_OK) return st;
    st = vt_seq_create(m, 0, &s);
    if (st == VT_OK) st = vt_seq_extend(s, 50);
    vt_status checked = vt_check(m, NULL);
    assert_true(checked == VT_OK || checked == VT_ENOMEM);
    vt_manager_destroy(m);
    return st != VT_OK ? st : checked;
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
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
static void test_a_full_system_has_room_for_chunks_of_another_size(void **state)
{
    (void)state;
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
static void test_a_state_copied_in_part_is_shown_to_nobody(void **state)
{
    (void)state;
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

FX_SUITE(test_vt_fault)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_call_fails_once_on_the_fake),
        cmocka_unit_test(test_each_call_fails_once_on_the_host),
        cmocka_unit_test(test_calls_go_on_failing),
        cmocka_unit_test(test_destroy_returns_all_though_a_call_fails),
        cmocka_unit_test(test_destroy_bears_a_dead_device),
        cmocka_unit_test(test_a_span_that_cannot_be_wiped_is_handed_to_nobody),
        cmocka_unit_test(test_a_span_that_does_not_give_back_is_passed_over),
        cmocka_unit_test(test_a_backend_that_fails_to_start_stays_the_callers),
        cmocka_unit_test(test_a_state_copied_in_part_is_shown_to_nobody),
        cmocka_unit_test(test_a_full_system_has_room_for_chunks_of_another_size),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
