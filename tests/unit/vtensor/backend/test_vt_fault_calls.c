// test_vt_fault_calls.c - the fault backend itself: it fails, delays and holds the calls that it
// should.
#include "fake_rig.h"
#include "suite.h"

#include <pthread.h>
#include <string.h>

#include "vmm_fault.h"

VT_FIXTURE(setup_fault)
{
    setup_run();
    vt_fake_set_max_runs(vmm, 1000); // so that it has store
    vmm = vt_fault_open(vmm);
    assert_non_null(vmm);
}

// Every call that managers make again and again and that may fail, in order, with statuses of the
// right kind only.
static vt_status call(int which)
{
    const vt_vmm_ops *o = vmm->ops;
    uint64_t a, b;
    switch (which) {
    case 0: return o->reserve(vmm, PAGE, &(uintptr_t){0});
    case 1: return o->create(vmm, 20, 1);
    case 2: return o->map(vmm, addr + 8 * SLICE, 0, 20, 1, VT_VMM_ALIAS);
    case 3: return o->swap_write(vmm, 0, addr, SLICE, &sum);
    case 4: return o->protect(vmm, addr + 8 * SLICE, SLICE, VT_VMM_WRITE);
    case 5: return o->swap_read(vmm, addr, 0, SLICE, &sum);
    case 6: return o->fetch(vmm, addr + 8 * SLICE, 0, 5, 0, SLICE, VT_VMM_NOW);
    case 7: return o->zero(vmm, addr, SLICE, VT_VMM_NOW);
    case 8: return o->fence(vmm, &a);
    case 9: return o->passed(vmm, 0, true, &flag);
    case 10: return o->resident(vmm, &a);
    case 11: return o->mapped(vmm, &a, &b);
    case 12: return o->unmap(vmm, addr + 8 * SLICE, SLICE);
    case 13: return o->destroy(vmm, 20, 1);
    default: return o->store(vmm, 0, 6, 0, addr, SLICE);
    }
}

enum { N_CALL = 15, N_CALL_OF_SPACE = 5, CALL_RESIDENT = 10 };

FX_TEST(test_every_call_can_be_made_to_fail)
{
    for (int i = 0; i < N_CALL; i++) {
        vt_fault_arm(vmm, 1, 1, VT_EDEVICE);
        if (i > 0)
            assert_ok(call(CALL_RESIDENT));
        else
            vt_fault_arm(vmm, 0, 1, VT_EDEVICE);
        assert_int_equal(call(i), VT_EDEVICE);
        assert_int_equal(call(i), VT_EDEVICE);
        assert_int_equal(vt_fault_fired(vmm), 2);
        assert_ok(call(i));
        assert_int_equal(vt_fault_calls(vmm), i > 0 ? 4 : 3);
    }
    vt_fault_arm(vmm, 0, 0, VT_EDEVICE);
    vmm->ops->swap_drop(vmm, 0, SLICE); // neither fails nor counts, as these
    assert_true(vmm->ops->can_protect(vmm) && vmm->ops->creates_zeroed(vmm));
    assert_int_equal(vmm->ops->max_runs(vmm), 1000);
    assert_int_equal(vt_fault_calls(vmm), 0);
}

FX_TEST(test_chance_answers_as_the_contract_allows)
{
    vt_fault_arm_random(vmm, 5, 1);
    for (int i = 0; i < N_CALL; i++) {
        int n_space = 0;
        for (int k = 0; k < 50; k++) {
            vt_status st = call(i);
            n_space += st == VT_NOSPACE;
            assert_true(st == VT_NOSPACE || st == VT_EDEVICE);
        }
        assert_true(i < N_CALL_OF_SPACE ? n_space > 5 && n_space < 45 : n_space == 0);
    }
    vt_fault_disarm(vmm);
    assert_ok(call(0));
}

static void *call_from_beside(void *which)
{
    return (void *)(intptr_t)call(*(int *)which);
}

FX_TEST(test_calls_wait_at_the_gate)
{
    static const struct {
        int which;
        bool fails;
    } gated[] = {{1, true},  {1, false},  {2, false}, {4, false},
                 {7, false}, {12, false}, {13, false}};
    for (size_t i = 0; i < sizeof gated / sizeof *gated; i++) {
        pthread_t beside;
        void *answer;
        int which = gated[i].which;
        vt_fault_arm(vmm, gated[i].fails ? 1 : 9, 0, VT_NOSPACE);
        vt_fault_hold(vmm, true);
        assert_int_equal(pthread_create(&beside, NULL, call_from_beside, &which), 0);
        vt_fault_await_held(vmm, 1);
        assert_int_equal(vt_fault_calls(vmm), 0);
        assert_ok(call(CALL_RESIDENT)); // others pass
        assert_int_equal(vt_fault_held(vmm), 1);
        vt_fault_hold(vmm, false);
        assert_int_equal(pthread_join(beside, &answer), 0);
        assert_int_equal((intptr_t)answer, gated[i].fails ? VT_NOSPACE : VT_OK);
        assert_int_equal(vt_fault_held(vmm), 0);
        assert_int_equal(vt_fault_calls(vmm), 2);
    }
}

// Of one thread; each has chunks and addresses of its own.
static void *work(void *arg)
{
    uintptr_t which = (uintptr_t)arg, at = addr + (4 + 4 * which) * SLICE;
    uint64_t index = 1000 * (which + 1), n_bad = 0;
    for (int i = 0; i < 300; i++) {
        n_bad += create(index, 3) != VT_OK;
        n_bad += map(at, 0, index, 2) != VT_OK;
        n_bad += fetch(at, 2, index + 2, 0, SLICE) != VT_OK;
        n_bad += vmm->ops->zero(vmm, at, SLICE, VT_VMM_NOW) != VT_OK;
        n_bad += unmap(at, 2 * SLICE) != VT_OK;
        n_bad += destroy(index, 3) != VT_OK;
    }
    return (void *)(uintptr_t)n_bad;
}

FX_TEST(test_two_threads_may_call_at_once)
{
    pthread_t thread[2];
    void *n_bad;
    vt_fault_set_delay(vmm, 3, 20);
    for (uintptr_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, work, (void *)i), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(thread[i], &n_bad), 0);
        assert_null(n_bad);
    }
    vmm->ops->close(vmm);
    assert_true(end.n_violation == 0 && end.n_created == 2 && end.n_mapped == 2);
    setup_fault_run();
}

FX_RUN_EACH(test_vt_fault_calls, setup_fault, teardown)
