// test_vt_vattention_fault.c - for every call of vattention.h and every i: the i-th backend call
// fails, with VT_NOSPACE and with VT_EDEVICE, once or from then on, so that undoing fails as well.
// Afterwards active requests are as before, vt_va_check holds, a retry succeeds unless a request
// was lost, and nothing leaks. A single failure loses none. Every allocation of the library fails
// once, and so does the start of its thread.
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "suite.h"
#include "va_world.h"
#include "vtensor/vtensor.h"

enum { MORE_THAN_CLEANUP_CALLS = 40 };

static va_world w;

VT_FIXTURE(teardown)
{
    va_done(&w);
}

static void grown(uint32_t n_group)
{
    va_begin(&w, n_group * VA_PAGE_TOK);
}

static void leave(uint32_t reqid)
{
    assert_ok(va_free(&w, reqid));
}

// What is there before the call. 20 groups may be in all.
static void nothing(void)
{
}

VT_DO(one_grown, grown(3))

static void one_idle(void)
{
    grown(5);
    leave(0);
}

static void one_of_two(void)
{
    grown(3);
    grown(2);
}

static void idle_in_the_way(void)
{
    grown(2);
    grown(9);
    grown(7);
    leave(1);
    leave(2);
    w.len[0] = 7 * VA_PAGE_TOK;
}

static void surplus_in_the_way(void)
{
    grown(2);
    grown(9);
    grown(9);
    w.len[1] = w.len[2] = VA_PAGE_TOK;
    assert_ok(va_step(&w, false));
    w.len[0] = 8 * VA_PAGE_TOK;
}

static void two_to_grow(void)
{
    one_of_two();
    w.len[0] = 5 * VA_PAGE_TOK;
    w.len[1] = 6 * VA_PAGE_TOK;
}

static void one_to_shorten(void)
{
    two_to_grow();
    w.len[0] = 1;
}

static void on_the_brink(void)
{
    grown(1);
    grown(2);
    grown(10);
    grown(7);
    leave(2);
    leave(3); // 20 groups; the next tokens of 0 and 1 need idle memory
}

static void deferral_off(void)
{
    one_of_two();
    vt_va_set_deferred_reclamation(w.va, false);
}

// The calls.
static vt_status do_alloc(void)
{
    uint32_t reqid;
    return va_alloc(&w, 4 * VA_PAGE_TOK, &reqid);
}

VT_CALL(do_free, va_free(&w, 0))
VT_CALL(do_step, va_step(&w, false))
VT_CALL(do_eager_step, va_step(&w, true))

static vt_status do_step_async(void)
{
    vt_status st = va_step_async(&w);
    vt_va_wait(w.va);
    return st;
}

VT_CALL(do_shrink_budget, va_set_budget(&w, 10))

static vt_status do_trim(void)
{
    vt_status st = va_step(&w, true);
    return st == VT_OK ? vt_va_trim(w.va) : st;
}

VT_CALL(do_check, vt_va_check(w.va, NULL))

typedef struct act {
    const char *name;
    void (*prepare)(void);
    vt_status (*run)(void);
    bool device; // work is under way on the device
} act;

static const act acts[] = {
    {"alloc, nothing there", nothing, do_alloc, false},
    {"alloc on used memory", one_idle, do_alloc, true},
    {"free", one_of_two, do_free, true},
    {"free, not deferred", deferral_off, do_free, true},
    {"step", two_to_grow, do_step, false},
    {"step, idle ones give", idle_in_the_way, do_step, true},
    {"step, surplus is given", surplus_in_the_way, do_step, true},
    {"step, one becomes shorter", one_to_shorten, do_step, true},
    {"step, eager", idle_in_the_way, do_eager_step, false},
    {"step_async", two_to_grow, do_step_async, false},
    {"step_async, idle ones give", on_the_brink, do_step_async, true},
    {"budget", idle_in_the_way, do_shrink_budget, true},
    {"trim", idle_in_the_way, do_trim, false},
    {"budget, surplus", surplus_in_the_way, do_shrink_budget, true},
    {"check", one_grown, do_check, false},
};

enum { N_ACT = sizeof acts / sizeof acts[0] };

static void open_for(const act *a, bool host, bool megacache)
{
    va_setup s = va_small();
    s.host = host;
    s.device = a->device && !host;
    s.n_plane = 3;
    s.next_groups = 3;
    s.low_percent = 20;
    s.megacache = megacache;
    s.row_bytes = megacache ? 42 : 128; // 32.5 tokens to a page, or 32
    va_open(&w, &s, 7);
    a->prepare();
}

typedef struct blow {
    uint64_t n_more;
    vt_status st;
    bool host, megacache;
} blow;

// False: the call was done before its i-th call of the backend.
static bool strike(const act *a, const blow *b, uint64_t i)
{
    open_for(a, b->host, b->megacache);
    vt_fault_arm(w.fault, i, b->n_more, b->st);
    vt_status st = a->run();
    bool fired = vt_fault_fired(w.fault) > 0;
    // A call that cannot answer b->st fails as a device does.
    bool is_told = fired && (st == b->st || st == VT_EDEVICE);
    if (!fired || b->n_more == 0) assert_true(st == VT_OK || is_told);
    if (!fired) assert_ok(st);
    uint64_t n_lost = va_stats(&w).requests_lost;
    if (b->n_more == 0) assert_int_equal(n_lost, 0);
    va_verify_given(&w);
    vt_fault_disarm(w.fault);
    va_verify(&w);
    if (st != VT_OK) st = a->run();
    if (n_lost == 0) assert_ok(st);
    va_verify(&w);
    va_close(&w);
    return fired;
}

static void sweep(const blow *b)
{
    for (uint32_t k = 0; k < N_ACT; k++) {
        uint64_t i = 0;
        while (strike(&acts[k], b, i)) i++;
        if (acts[k].prepare != nothing && i == 0) fail_msg("%s: never failed", acts[k].name);
    }
}

static void sweep_all(uint64_t n_more)
{
    static const vt_status st[] = {VT_NOSPACE, VT_EDEVICE};
    for (uint32_t k = 0; k < 8; k++)
        sweep(&(blow){n_more, st[k % 2], .host = k & 2, .megacache = k & 4});
}

FX_TEST(test_each_backend_call_fails_once)
{
    sweep_all(0);
}

FX_TEST(test_each_backend_call_fails_twice)
{
    sweep_all(1);
}

FX_TEST(test_each_backend_call_fails_three_times)
{
    sweep_all(2);
}

FX_TEST(test_the_backend_fails_from_there_on)
{
    sweep_all(UINT64_MAX);
}

// ---- Lost requests

// A map fails, and then its undoing.
static void one_lost(void)
{
    grown(3);
    grown(1);
    w.len[1] = 5 * VA_PAGE_TOK;
    vt_fault_arm(w.fault, 2, 1, VT_EDEVICE);
    assert_status(VT_EDEVICE, va_step(&w, false));
    vt_fault_disarm(w.fault);
    w.len[1] = VA_PAGE_TOK;
    assert_true(vt_va_look(w.va, 1).is_lost);
    assert_int_equal(va_stats(&w).requests_lost, 1);
    assert_int_equal(va_stats(&w).groups_lost, 4);
}

static const act lost_act = {"lost", one_lost, NULL, false};

FX_TEST(test_a_lost_request_keeps_what_it_has)
{
    open_for(&lost_act, true, false);
    va_verify(&w);
    w.len[1] = 2 * VA_PAGE_TOK;
    assert_status(VT_EDEVICE, va_step(&w, false));
    w.len[1] = VA_PAGE_TOK;
    w.len[0] = 9 * VA_PAGE_TOK;
    assert_ok(va_step_async(&w)); // others go on
    va_verify(&w);
    assert_int_equal(va_mapped(&w, 1), 1);
}

FX_TEST(test_a_lost_request_is_not_handed_out_again)
{
    uint32_t reqid;
    open_for(&lost_act, false, false);
    leave(1);
    assert_int_equal(va_stats(&w).groups_lost, 5);
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(va_alloc(&w, 1, &reqid));
        assert_int_equal(reqid, 2 + i);
    }
    assert_status(VT_NOSPANS, va_alloc(&w, 1, &reqid));
    assert_ok(va_step(&w, true));
    assert_int_equal(va_mapped(&w, 1), 1); // a sweep passes it by
}

FX_TEST(test_lost_memory_counts_against_the_budget)
{
    open_for(&lost_act, false, false);
    leave(1);
    assert_int_equal(vt_va_num_free_kvblocks(w.va), 20 - 3 - 5);
    assert_status(VT_NOSPACE, va_set_budget(&w, 7));
    assert_ok(va_set_budget(&w, 8));
    w.len[0] = 4 * VA_PAGE_TOK;
    assert_status(VT_NOSPACE, va_step_async(&w));
    w.len[0] = 3 * VA_PAGE_TOK;
    assert_ok(va_step_async(&w));
}

// When the device works again, the request serves again, and its memory is spare.
FX_TEST(test_a_lost_request_is_recovered)
{
    for (int is_active = 0; is_active < 2; is_active++) {
        uint32_t reqid = 1;
        open_for(&lost_act, true, false);
        if (!is_active) leave(1);
        vt_fault_arm(w.fault, 0, UINT64_MAX, VT_EDEVICE);
        assert_status(VT_EDEVICE, vt_va_recover(w.va));
        vt_fault_disarm(w.fault);
        assert_true(vt_va_look(w.va, 1).is_lost);
        assert_ok(vt_va_recover(w.va));
        assert_false(vt_va_look(w.va, 1).is_lost);
        assert_int_equal(va_stats(&w).groups_lost, 0);
        va_verify(&w);
        if (!is_active) assert_ok(va_alloc(&w, 5 * VA_PAGE_TOK, &reqid));
        assert_int_equal(reqid, 1);
        w.len[1] = 6 * VA_PAGE_TOK;
        assert_ok(va_step(&w, false));
        va_verify(&w);
        va_close(&w);
    }
}

// What an idle request holds is half unmapped when the device fails, and cannot be mapped again:
// nobody sees it.
FX_TEST(test_the_bytes_of_another_are_not_in_a_lost_request)
{
    uint32_t reqid;
    open_for(&(act){"", one_idle, NULL, false}, true, false);
    vt_fault_arm(w.fault, 1, 1, VT_EDEVICE); // the second of three unmaps, and the map that undoes
    assert_ok(va_step(&w, true));
    vt_fault_disarm(w.fault);
    assert_int_equal(va_stats(&w).groups_lost, 5);
    assert_ok(va_alloc(&w, VA_PAGE_TOK, &reqid));
    assert_int_equal(reqid, 1);
}

// Once is undone: the memory is where it was.
FX_TEST(test_a_failing_unmap_is_undone)
{
    open_for(&(act){"", one_idle, NULL, false}, true, false);
    vt_fault_arm(w.fault, 1, 0, VT_EDEVICE);
    assert_ok(va_step(&w, true));
    vt_fault_disarm(w.fault);
    assert_int_equal(va_stats(&w).groups_idle, 5);
    assert_ok(va_step(&w, true));
    assert_int_equal(va_stats(&w).groups_spare, 5);
}

// The first wipe was queued when the second fails: the memory goes when the device is done with it.
FX_TEST(test_a_failing_wipe_is_undone)
{
    open_for(&(act){"", one_of_two, NULL, true}, false, false);
    w.len[0] = 4 * VA_PAGE_TOK;
    vt_fault_arm(w.fault, 5, 0, VT_EDEVICE); // create, three maps, a wipe
    assert_status(VT_EDEVICE, va_step(&w, false));
    vt_fault_disarm(w.fault);
    assert_int_equal(va_stats(&w).groups_spare, 1);
    assert_int_equal(va_stats(&w).device_waits, 1);
    assert_ok(va_step(&w, false));
}

// ---- Beginning and end

static vt_va_config config_on(vt_vmm *vmm)
{
    return (vt_va_config){.n_plane = 3,
                          .row_bytes = 128,
                          .max_tok = 320,
                          .max_batch = 4,
                          .budget_bytes = 1 << 20,
                          .vmm = vmm};
}

FX_TEST(test_init_fails_at_each_call)
{
    vt_status st = VT_EDEVICE;
    for (uint64_t i = 0; st != VT_OK; i++) {
        vt_va *va = NULL;
        vt_vmm *fake = vt_fake_open(), *fault = vt_fault_open(fake);
        vt_va_config cfg = config_on(fault);
        vt_fault_arm(fault, i, 0, VT_EDEVICE);
        st = vt_va_init(&cfg, &va);
        assert_true((st == VT_OK) == (va != NULL));
        assert_true((st == VT_OK) == (vt_fake_look(fake).reserved_bytes > 0));
        if (st == VT_OK)
            vt_va_cleanup(va);
        else
            fault->ops->close(fault);
    }
}

FX_TEST(test_cleanup_tries_again)
{
    for (uint64_t i = 0; i < MORE_THAN_CLEANUP_CALLS; i++) {
        open_for(&acts[6], false, false);
        vt_fault_arm(w.fault, i, 0, VT_EDEVICE);
        va_close(&w);
    }
}

FX_TEST(test_cleanup_survives_a_dead_device)
{
    for (uint64_t i = 0; i < MORE_THAN_CLEANUP_CALLS; i++) {
        open_for(&acts[6], false, false);
        vt_fault_arm(w.fault, i, UINT64_MAX, VT_EDEVICE);
        va_close_broken(&w);
    }
}

// The library allocates with calloc alone; the test framework does not.
static uint64_t callocs_left = UINT64_MAX;
static bool no_thread;

void *__real_calloc(size_t n, size_t size);
VT_API void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
    if (callocs_left == UINT64_MAX) return __real_calloc(n, size);
    if (callocs_left == 0) return NULL;
    callocs_left--;
    return __real_calloc(n, size);
}

int __real_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *arg);
VT_API int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *),
                                 void *arg);
VT_API int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *),
                                 void *arg)
{
    return no_thread ? EAGAIN : __real_pthread_create(t, a, f, arg);
}

FX_TEST(test_init_without_memory)
{
    vt_status st = VT_ENOMEM;
    uint64_t i = 0;
    for (; st != VT_OK; i++) {
        vt_va *va = NULL;
        vt_va_config cfg = config_on(NULL);
        callocs_left = i;
        st = vt_va_init(&cfg, &va);
        callocs_left = UINT64_MAX;
        if (st != VT_OK) assert_status(VT_ENOMEM, st);
        assert_true((st == VT_OK) == (va != NULL));
        vt_va_cleanup(va);
    }
    assert_true(i > 3);
}

FX_TEST(test_step_async_without_a_thread)
{
    open_for(&acts[9], false, false);
    uint32_t had = va_mapped(&w, 0);
    callocs_left = 0;
    assert_status(VT_ENOMEM, vt_va_step_async(w.va, w.len));
    callocs_left = UINT64_MAX;
    no_thread = true;
    assert_status(VT_ENOMEM, vt_va_step_async(w.va, w.len));
    assert_int_equal(va_mapped(&w, 0), had);
    assert_ok(va_step(&w, false)); // that needs none
    no_thread = false;
    assert_ok(va_step_async(&w));
}

FX_RUN_EACH(test_vt_vattention_fault, NULL, teardown)
