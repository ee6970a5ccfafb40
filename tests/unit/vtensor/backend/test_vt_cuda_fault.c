// test_vt_cuda_fault.c - the GPU backend when the driver fails: each operation with each of its
// calls failing, a dead device, and everything that can be missing at open.
//
// The linker sends dlopen and dlsym of the library here, so that a driver can be missing, or old.
#include <dlfcn.h>
#include <string.h>

#include "cuda_rig.h"
#include "suite.h"

static const char *missing_symbol;
static bool library_is_missing;
static int n_open; // libraries

#define SEEN \
    __attribute__((visibility("default"))) // by the linker, which finds them in the stand-in

void *__real_dlopen(const char *name, int flags);
SEEN void *__wrap_dlopen(const char *name, int flags);
int __real_dlclose(void *library);
int __wrap_dlclose(void *library);
void *__real_dlsym(void *library, const char *symbol);
SEEN void *__wrap_dlsym(void *library, const char *symbol);

void *__wrap_dlopen(const char *name, int flags)
{
    if (library_is_missing) return NULL;
    n_open++;
    return __real_dlopen(name, flags);
}

int __wrap_dlclose(void *library)
{
    n_open--;
    return __real_dlclose(library);
}

void *__wrap_dlsym(void *library, const char *symbol)
{
    bool missing = missing_symbol && strcmp(symbol, missing_symbol) == 0;
    return missing ? NULL : __real_dlsym(library, symbol);
}

// Every call of the driver fails once, in each operation. Chunks 0 and 1 are there; their slices 0
// are mapped at places 0 and 1, and the swap holds both.
typedef struct trial {
    const char *name;
    void (*prepare)(void);
    vt_status (*run)(void);
    void (*undo)(void);
    bool may_be_full;
} trial;

static void nothing(void)
{
}

static uintptr_t extra;

VT_CALL(try_reserve, vmm->ops->reserve(vmm, SLICE, &extra))
VT_DO(reserve_extra, assert_ok(try_reserve()))
VT_CALL(try_unreserve, vmm->ops->unreserve(vmm, extra, SLICE))
VT_DO(unreserve_extra, assert_ok(try_unreserve()))
VT_CALL(try_create, vmm->ops->create(vmm, FAR, 2))
VT_DO(create_far, assert_ok(try_create()))
VT_CALL(try_destroy, vmm->ops->destroy(vmm, FAR, 2))
VT_DO(destroy_far, assert_ok(try_destroy()))
VT_CALL(try_map, map(4, 0, 1, 3))

static vt_status try_map_each(void)
{
    static const uint64_t index[] = {1, 3, 2};
    return vmm->ops->map_each(vmm, place(4), 0, index, 3, VT_VMM_WRITE);
}

VT_DO(create_two, assert_ok(vmm->ops->create(vmm, 2, 2)))

static void unmap_two(void)
{
    assert_bytes(place(4), 'b', SLICE);
    assert_ok(unmap(4, 3));
    assert_ok(vmm->ops->destroy(vmm, 2, 2));
}

static void map_alias(void)
{
    assert_ok(map(4, 0, 0, 1));
    assert_ok(map(5, 0, 0, 1));
}

VT_CALL(try_unmap, unmap(4, 2))
VT_CALL(try_fetch, vmm->ops->fetch(vmm, place(0), 0, 1, 0, SLICE, VT_VMM_NOW))

static void refill(void)
{
    assert_ok(try_fetch()); // also empties the window where it was stuck
    assert_bytes(place(0), 'b', SLICE);
    memset((void *)place(0), 'a', SLICE);
}

VT_CALL(try_fetch_queued, vmm->ops->fetch(vmm, place(0), 0, 1, 0, SLICE, VT_VMM_QUEUED))

// What was queued is done, and what flew has landed, when the next call begins.
static void refill_queued(void)
{
    assert_true(passed(fence(), true));
    for (int i = 0; i < 3; i++) refill();
}

static vt_status copy_halves(vt_vmm_order order)
{
    const vt_vmm_copy copy[] = {{place(0), place(1), SLICE / 2},
                                {place(0) + SLICE / 2, place(1), SLICE / 2}};
    return vmm->ops->copy_each(vmm, copy, 2, order);
}

VT_CALL(try_copy_each, copy_halves(VT_VMM_NOW))
VT_CALL(try_copy_each_queued, copy_halves(VT_VMM_QUEUED))

static void look_at_copies(void)
{
    standin_settle();
    assert_bytes(place(0), 'b', SLICE);
    memset((void *)place(0), 'a', SLICE);
}

VT_CALL(try_zero, vmm->ops->zero(vmm, place(0), SLICE, VT_VMM_NOW))
VT_CALL(try_zero_queued, vmm->ops->zero(vmm, place(0), SLICE, VT_VMM_QUEUED))

static void refill_zeroed(void)
{
    standin_settle();
    assert_bytes(place(0), 0, SLICE);
    memset((void *)place(0), 'a', SLICE);
}

static uint64_t good_sum;

static vt_status try_swap_write(void)
{
    uint64_t sum = 0;
    vt_status st = vmm->ops->swap_write(vmm, 40 * SLICE, place(0), 2 * SLICE, &sum);
    if (st == VT_OK) assert_true(sum == good_sum);
    return st;
}

VT_DO(drop_written, vmm->ops->swap_drop(vmm, 40 * SLICE, 2 * SLICE))

static vt_status try_swap_read(void)
{
    uint64_t sum = 0;
    vt_status st = vmm->ops->swap_read(vmm, place(0), 0, 2 * SLICE, &sum);
    if (st == VT_OK) assert_true(sum == good_sum);
    return st;
}

static void look_at_read(void)
{
    assert_bytes(place(0), 'a', SLICE);
    assert_bytes(place(1), 'b', SLICE);
}

static vt_status try_fence(void)
{
    uint64_t ticket;
    bool is_passed = false;
    vt_status st = vmm->ops->fence(vmm, &ticket);
    if (st == VT_OK) st = vmm->ops->passed(vmm, ticket, true, &is_passed);
    if (st == VT_OK) assert_true(is_passed);
    return st;
}

static void *some_event;

VT_CALL(try_await, vt_vmm_cuda_await(vmm, some_event))

static const trial trials[] = {
    {"reserve", nothing, try_reserve, unreserve_extra, true},
    {"unreserve", reserve_extra, try_unreserve, nothing, false},
    {"create", nothing, try_create, destroy_far, true},
    {"destroy", create_far, try_destroy, nothing, false},
    {"map", create_two, try_map, unmap_two, true},
    {"map_each", create_two, try_map_each, unmap_two, true},
    {"unmap", map_alias, try_unmap, nothing, false},
    {"fetch", nothing, try_fetch, refill, false},
    {"fetch, queued", nothing, try_fetch_queued, refill_queued, false},
    {"copy_each", nothing, try_copy_each, look_at_copies, false},
    {"copy_each, queued", nothing, try_copy_each_queued, look_at_copies, false},
    {"zero", nothing, try_zero, refill_zeroed, false},
    {"zero, queued", nothing, try_zero_queued, refill_zeroed, false},
    {"swap_write", nothing, try_swap_write, drop_written, true},
    {"swap_read", nothing, try_swap_read, look_at_read, false},
    {"fence", nothing, try_fence, nothing, false},
    {"await", nothing, try_await, nothing, false},
    {"fence of all", nothing, try_fence, nothing, false},
};

static void assert_same(const standin_report *a, const standin_report *b)
{
    assert_int_equal(a->n_memory, b->n_memory);
    assert_int_equal(a->n_handle, b->n_handle);
    assert_int_equal(a->n_mapping, b->n_mapping);
    assert_int_equal(a->n_reservation, b->n_reservation);
    assert_int_equal(a->n_stream, b->n_stream);
    assert_int_equal(a->n_pinned, b->n_pinned);
}

// The i-th call fails; false: there is none so late.
static bool fail_once(const trial *t, uint64_t i, int result, int context)
{
    t->prepare();
    standin_report before = standin_look();
    uint64_t resident_before = resident(), mapped_before = bytes_mapped();
    standin_use_context(context);
    standin_fail(NULL, i, 1, result);
    vt_status st = t->run();
    bool fired = standin_fired() > 0;
    standin_fail(NULL, 0, 0, 0);
    standin_use_context(0);
    if (st != VT_OK) {
        bool full = t->may_be_full && st == VT_NOSPACE && result == STANDIN_OUT_OF_MEMORY;
        standin_report after = standin_look();
        assert_true(fired && (full || st == VT_EDEVICE));
        assert_same(&before, &after);
        assert_int_equal(resident(), resident_before);
        assert_int_equal(bytes_mapped(), mapped_before);
        assert_ok(t->run());
    }
    t->undo();
    if (standin_look().n_breach > 0)
        print_message("%s, call %d: %s\n", t->name, (int)i, standin_look().breach);
    assert_int_equal(standin_look().n_breach, 0);
    return fired;
}

static void prepare_trials(void)
{
    assert_ok(vmm->ops->create(vmm, 0, 2));
    assert_ok(map(0, 0, 0, 2));
    memset((void *)place(0), 'a', SLICE);
    memset((void *)place(1), 'b', SLICE);
    assert_ok(vmm->ops->swap_open(vmm, NULL, 64 * SLICE));
    assert_ok(vmm->ops->swap_write(vmm, 0, place(0), 2 * SLICE, &good_sum));
    refill(); // makes a window
    some_event = standin_new_event(NULL);
}

static void end_trials(void)
{
    standin_drop_event(some_event);
    assert_ok(unmap(0, 2));
    assert_ok(vmm->ops->destroy(vmm, 0, 2));
}

FX_TEST_WITH(test_every_call_of_the_driver_may_fail, rig_setup, rig_teardown)
{
    const int results[] = {STANDIN_OUT_OF_MEMORY, STANDIN_UNKNOWN};
    prepare_trials();
    for (size_t t = 0; t < sizeof trials / sizeof trials[0]; t++) {
        if (trials[t].run == try_await) assert_ok(try_await()); // the stream behind it is made once
        for (int r = 0; r < 2; r++)
            for (int context = -1; context <= 0; context++)
                for (uint64_t i = 0; fail_once(&trials[t], i, results[r], context);) i++;
    }
    end_trials();
}

// From some call on nothing works any longer, as after a fault of a kernel: every status is an
// error, and nothing crashes.
FX_TEST_WITH(test_a_dead_device_is_reported, rig_setup, rig_teardown)
{
    prepare_trials();
    standin_fail(NULL, 0, UINT64_MAX, STANDIN_UNKNOWN);
    extra = base;
    const size_t n = sizeof trials / sizeof trials[0];
    for (size_t t = 0; t < n; t++) {
        if (trials[t].run == try_destroy || trials[t].run == try_map) continue; // not created
        assert_int_equal(trials[t].run(), VT_EDEVICE);
    }
    assert_int_equal(vmm->ops->destroy(vmm, 0, 1), VT_EDEVICE);
    vmm->ops->swap_drop(vmm, 0, 2 * SLICE);
    standin_fail(NULL, 0, 0, 0);
    end_trials();
}

// A handle cannot be released, and those before it cannot be had again: what is left is counted,
// and goes with a later attempt.
FX_TEST_WITH(test_a_half_destroyed_chunk_goes_later, rig_setup, rig_teardown)
{
    assert_ok(vmm->ops->create(vmm, 0, 2));
    standin_fail("cuMemRelease", 4, 1, STANDIN_UNKNOWN);
    standin_limit_memory(0);
    assert_int_equal(vmm->ops->destroy(vmm, 0, 2), VT_EDEVICE);
    assert_int_equal(resident(), standin_look().memory_bytes);
    assert_int_equal(map(0, 0, 0, 1), VT_EDEVICE); // its handle was released already
    assert_int_equal(standin_look().n_breach, 0);
    assert_ok(vmm->ops->destroy(vmm, 0, 2));
    assert_int_equal(resident(), 0);
}

// A window stays mapped when the driver does not give it up, until it does.
FX_TEST_WITH(test_a_stuck_window_is_emptied_later, rig_setup, rig_teardown)
{
    create_filled(0, 2, 's');
    assert_ok(map(0, 0, 0, 1));
    for (int i = 0; i < 2; i++) {
        memset((void *)place(0), 1, SLICE);
        standin_fail("cuMemUnmap", 0, 1, STANDIN_UNKNOWN);
        assert_ok(try_fetch());
        assert_bytes(place(0), 's', SLICE);
        assert_int_equal(standin_look().n_mapping, 2);
        assert_ok(try_fetch());
        assert_int_equal(standin_look().n_mapping, 1);
    }
    standin_fail("cuMemUnmap", 0, 2, STANDIN_UNKNOWN);
    assert_ok(try_fetch());
    assert_int_equal(try_fetch(), VT_EDEVICE);
    assert_ok(try_fetch());
    standin_fail("cuMemUnmap", 0, 1, STANDIN_UNKNOWN); // and once more, for close
    assert_ok(try_fetch());
    assert_ok(unmap(0, 1));
    assert_ok(vmm->ops->destroy(vmm, 0, 1));
    assert_int_equal(standin_look().n_mapping, 1);
    assert_ok(vmm->ops->destroy(vmm, 1, 1));
    assert_int_equal(standin_look().n_mapping, 0); // that chunk was still in the window
}

// A chunk that a window still holds is not destroyed by halves.
FX_TEST_WITH(test_a_stuck_window_keeps_its_chunk, rig_setup, rig_teardown)
{
    create_filled(0, 2, 's');
    assert_ok(map(0, 0, 0, 1));
    standin_fail("cuMemUnmap", 0, 2, STANDIN_UNKNOWN);
    assert_ok(try_fetch());
    assert_int_equal(vmm->ops->destroy(vmm, 1, 1), VT_EDEVICE);
    assert_int_equal(resident(), 2 * N_SLICE * SLICE);
    assert_int_equal(resident(), standin_look().memory_bytes);
    assert_ok(vmm->ops->destroy(vmm, 1, 1));
    assert_int_equal(resident(), standin_look().memory_bytes);
    assert_ok(unmap(0, 1));
    assert_ok(vmm->ops->destroy(vmm, 0, 1));
}

// The slot of the ring was used before, by a ticket that is passed long since.
FX_TEST_WITH(test_a_fence_that_reaches_no_driver_is_safe, rig_setup, rig_teardown)
{
    for (int i = 0; i < 200; i++) assert_true(passed(fence(), true));
    standin_launch(NULL, 0, 0, 0);
    standin_fail("cuCtxGetCurrent", 0, 1, STANDIN_UNKNOWN);
    uint64_t lame = fence();
    assert_int_equal(standin_fired(), 1);
    assert_false(passed(lame, false));
    standin_end_kernels(NULL, 1);
    assert_true(passed(lame, false));
}

static void expect_refusal(const char *reason)
{
    vt_vmm_cuda_config cfg = {.device = 0, .stream = NULL};
    const char *why = NULL;
    vt_vmm *out = (vt_vmm *)&cfg;
    assert_int_equal(vt_vmm_cuda_open(&cfg, &out, &why), VT_EDEVICE);
    assert_null(out);
    assert_string_equal(why, reason);
    assert_int_equal(vt_vmm_cuda_open(&cfg, &out, NULL), VT_EDEVICE);
    standin_assert_empty();
    assert_int_equal(n_open, 0);
}

FX_TEST(test_open_says_what_is_missing)
{
    standin_reset();
    standin_use_context(0);
    library_is_missing = true;
    expect_refusal("libcuda.so.1, NVIDIA's driver, cannot be loaded");
    library_is_missing = false;
    missing_symbol = "cuMemSetAccess";
    expect_refusal("NVIDIA's driver is too old: libcuda.so.1 has no function cuMemSetAccess");
    missing_symbol = "cuMemcpyDtoHAsync_v2";
    expect_refusal("NVIDIA's driver is too old: libcuda.so.1 has no function cuMemcpyDtoHAsync_v2");
    missing_symbol = NULL;
    standin_set_vmm(false);
    expect_refusal("the CUDA device has no virtual memory management");
    standin_set_vmm(true);
    standin_use_context(-1);
    expect_refusal("no CUDA context is current in the calling thread");
    standin_use_context(1);
    expect_refusal("the current CUDA context belongs to another device");
}

FX_TEST(test_open_wants_a_device_that_exists)
{
    standin_reset();
    standin_use_context(0);
    vt_vmm_cuda_config cfg = {.device = 7};
    const char *why = NULL;
    assert_int_equal(vt_vmm_cuda_open(&cfg, &vmm, &why), VT_EDEVICE);
    assert_string_equal(why, "there is no CUDA device with this number");
}

static vt_status open_with_two_streams(void)
{
    void *const beside[] = {NULL};
    vt_vmm_cuda_config cfg = {.device = 0, .beside = beside, .n_beside = 1};
    return vt_vmm_cuda_open(&cfg, &vmm, NULL);
}

static void fail_to_open(vt_status (*open)(void))
{
    bool fired = true;
    for (uint64_t i = 0; fired; i++) {
        standin_fail(NULL, i, 1, STANDIN_OUT_OF_MEMORY);
        vt_status st = open();
        fired = standin_fired() > 0;
        standin_fail(NULL, 0, 0, 0);
        assert_true(st == VT_OK || (fired && st == VT_EDEVICE));
        if (st == VT_OK) vmm->ops->close(vmm);
        standin_assert_empty();
    }
}

FX_TEST(test_open_may_fail_at_every_call)
{
    standin_reset();
    standin_use_context(0);
    fail_to_open(open_vmm);
    fail_to_open(open_with_two_streams);
}

VT_CALL(try_swap_open, vmm->ops->swap_open(vmm, NULL, SLICE))

static vt_status await_once(void)
{
    void *event = standin_new_event(NULL);
    vt_status st = vt_vmm_cuda_await(vmm, event);
    standin_drop_event(event);
    return st;
}

// Calls that are made once: each call of the driver fails, and a second try succeeds.
static void fail_and_repeat(vt_status (*run)(void), int result)
{
    bool fired = true;
    for (uint64_t i = 0; fired; i++) {
        assert_ok(open_vmm());
        standin_fail(NULL, i, 1, result);
        vt_status st = run();
        fired = standin_fired() > 0;
        standin_fail(NULL, 0, 0, 0);
        assert_true(st == VT_OK || (fired && (st == VT_EDEVICE || st == VT_NOSPACE)));
        if (st != VT_OK) assert_ok(run());
        vmm->ops->close(vmm);
        standin_assert_empty();
    }
}

FX_TEST(test_what_is_done_once_may_fail_at_every_call)
{
    vt_status (*const once[])(void) = {try_swap_open, await_once};
    standin_reset();
    standin_use_context(0);
    for (int i = 0; i < 2; i++) {
        fail_and_repeat(once[i], STANDIN_OUT_OF_MEMORY);
        fail_and_repeat(once[i], STANDIN_UNKNOWN);
    }
}

FX_RUN(test_vt_cuda_fault)
