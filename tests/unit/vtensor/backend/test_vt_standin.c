// test_vt_standin.c - the stand-in for NVIDIA's driver refuses what the driver's documentation
// forbids, and a refused call changes nothing. The tests of the GPU backend depend on this.
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "maps.h"
#include "standin/state.h"
#include "standin_assert.h"
#include "suite.h"

#define G ((size_t)STANDIN_GRANULARITY)

#define assert_done(call) assert_int_equal((call), VTI_CU_SUCCESS)

static vti_cu_ptr base;            // 8 granules of addresses
static vti_cu_handle one, two;     // handles of one and of two granules
static standin_report before_call; // of what is to be refused

static vti_cu_prop prop(void)
{
    return (vti_cu_prop){.type = VTI_CU_ALLOCATION_PINNED,
                         .location = {.type = VTI_CU_LOCATION_DEVICE, .id = 0}};
}

static vti_cu_access access_to(int flags)
{
    return (vti_cu_access){.location = {.type = VTI_CU_LOCATION_DEVICE, .id = 0}, .flags = flags};
}

static vti_cu_result open_at(vti_cu_ptr at, size_t size_bytes)
{
    vti_cu_access a = access_to(VTI_CU_ACCESS_READWRITE);
    return cuMemSetAccess(at, size_bytes, &a, 1);
}

VT_FIXTURE(setup)
{
    standin_reset();
    standin_use_context(0);
    vti_cu_prop p = prop();
    assert_int_equal(cuMemAddressReserve(&base, 8 * G, 0, 0, 0), VTI_CU_SUCCESS);
    assert_int_equal(cuMemCreate(&one, G, &p, 0), VTI_CU_SUCCESS);
    assert_int_equal(cuMemCreate(&two, 2 * G, &p, 0), VTI_CU_SUCCESS);
}

VT_FIXTURE(teardown)
{
    standin_use_context(0);
    standin_reset();
}

static void look(void)
{
    before_call = standin_look();
}

// One breach more, and nothing else is different.
static void assert_refused(vti_cu_result r)
{
    standin_report now = standin_look();
    assert_int_not_equal(r, VTI_CU_SUCCESS);
    assert_int_equal(now.n_breach, before_call.n_breach + 1);
    assert_non_null(now.breach);
    now.n_breach = before_call.n_breach;
    now.breach = before_call.breach;
    assert_memory_equal(&now, &before_call, sizeof now);
}

#define REFUSED(call)         \
    do {                      \
        look();               \
        assert_refused(call); \
    } while (0)

FX_TEST(test_odd_sizes_and_flags)
{
    vti_cu_ptr at;
    vti_cu_handle h;
    vti_cu_prop p = prop(), host = prop(), far = prop(), exported = prop();
    host.location.type = 2;
    far.location.id = STANDIN_N_DEVICE;
    exported.export_types = 1;
    REFUSED(cuMemAddressReserve(&at, G + 4096, 0, 0, 0));
    REFUSED(cuMemAddressReserve(&at, 0, 0, 0, 0));
    REFUSED(cuMemAddressReserve(&at, G, 3, 0, 0));
    REFUSED(cuMemAddressReserve(&at, G, 0, 0, 1));
    REFUSED(cuMemCreate(&h, G / 2, &p, 0));
    REFUSED(cuMemCreate(&h, 0, &p, 0));
    REFUSED(cuMemCreate(&h, G, &p, 1));
    REFUSED(cuMemCreate(&h, G, &host, 0));
    REFUSED(cuMemCreate(&h, G, &far, 0));
    REFUSED(cuMemCreate(&h, G, &exported, 0));
}

FX_TEST(test_a_handle_is_mapped_whole_where_nothing_is)
{
    REFUSED(cuMemMap(base, G, 0, two, 0));             // a part
    REFUSED(cuMemMap(base, 2 * G, G, two, 0));         // an offset
    REFUSED(cuMemMap(base, G, 0, one, 1));             // flags
    REFUSED(cuMemMap(base + 4096, G, 0, one, 0));      // an odd address
    REFUSED(cuMemMap(base + 8 * G, G, 0, one, 0));     // not reserved
    REFUSED(cuMemMap(base + 7 * G, 2 * G, 0, two, 0)); // half of it not
    REFUSED(cuMemMap(base, G, 0, two + 1, 0));         // no such handle
    assert_done(cuMemMap(base, 2 * G, 0, two, 0));
    REFUSED(cuMemMap(base, 2 * G, 0, two, 0)); // twice
    REFUSED(cuMemMap(base + G, G, 0, one, 0)); // over another
    assert_done(cuMemMap(base + 2 * G, G, 0, one, 0));
    assert_done(cuMemMap(base + 3 * G, 2 * G, 0, two, 0)); // an alias
}

FX_TEST(test_access_comes_before_touch)
{
    char *p = (char *)(uintptr_t)base;
    vti_cu_access none = access_to(0), both = access_to(VTI_CU_ACCESS_READWRITE);
    assert_true(read_faults(p));
    assert_done(cuMemMap(base, 2 * G, 0, two, 0));
    assert_true(read_faults(p));
    REFUSED(open_at(base, 3 * G)); // not all is mapped
    REFUSED(open_at(base, G));     // a part of a mapping
    REFUSED(cuMemSetAccess(base, 2 * G, &none, 1));
    REFUSED(cuMemSetAccess(base, 2 * G, &both, 0));
    assert_true(read_faults(p));
    assert_done(cuMemMap(base + 2 * G, G, 0, one, 0));
    assert_done(open_at(base, 3 * G)); // several at once
    assert_false(read_faults(p + 3 * G - 1));
    assert_done(cuMemUnmap(base, 3 * G));
    assert_true(read_faults(p));
    assert_done(cuMemMap(base, G, 0, one, 0));
    assert_true(read_faults(p)); // it is lost when a mapping goes
}

FX_TEST(test_mappings_are_unmapped_whole)
{
    assert_done(cuMemMap(base, 2 * G, 0, two, 0));
    assert_done(cuMemMap(base + 2 * G, G, 0, one, 0));
    REFUSED(cuMemUnmap(base, G));
    REFUSED(cuMemUnmap(base + G, 2 * G));
    REFUSED(cuMemUnmap(base, 4 * G)); // nothing is mapped behind
    REFUSED(cuMemUnmap(base + 4 * G, G));
    REFUSED(cuMemUnmap(base, 0));
    REFUSED(cuMemAddressFree(base, 8 * G)); // something is mapped
    assert_done(cuMemUnmap(base, 3 * G));
    REFUSED(cuMemUnmap(base, 3 * G));
    REFUSED(cuMemAddressFree(base, 4 * G)); // it was not reserved like this
    assert_done(cuMemAddressFree(base, 8 * G));
    REFUSED(cuMemAddressFree(base, 8 * G));
}

FX_TEST(test_memory_lives_as_long_as_handle_or_mapping)
{
    char *p = (char *)(uintptr_t)base;
    assert_done(cuMemMap(base, 2 * G, 0, two, 0));
    assert_done(open_at(base, 2 * G));
    memset(p, 'm', 2 * G);
    assert_done(cuMemRelease(two));
    assert_int_equal(standin_look().memory_bytes, 3 * G);
    assert_int_equal(p[2 * G - 1], 'm');
    REFUSED(cuMemRelease(two));
    REFUSED(cuMemMap(base + 4 * G, 2 * G, 0, two, 0)); // the handle is none any longer
    assert_done(cuMemUnmap(base, 2 * G));
    assert_int_equal(standin_look().memory_bytes, G);
    assert_done(cuMemRelease(one));
    assert_int_equal(standin_look().n_memory, 0);
}

FX_TEST(test_fresh_memory_is_garbage)
{
    assert_done(cuMemMap(base, G, 0, one, 0));
    assert_done(open_at(base, G));
    const char *p = (const char *)(uintptr_t)base;
    assert_true(p[0] != 0 && p[G - 1] != 0);
}

FX_TEST(test_what_is_limited_runs_out)
{
    vti_cu_handle h;
    vti_cu_ptr at;
    void *pinned;
    vti_cu_prop p = prop();
    standin_limit_memory(4 * G);
    assert_done(cuMemCreate(&h, G, &p, 0));
    assert_int_equal(cuMemCreate(&h, G, &p, 0), VTI_CU_OUT_OF_MEMORY);
    standin_limit_addresses(9 * G);
    assert_done(cuMemAddressReserve(&at, G, 0, 0, 0));
    assert_int_equal(cuMemAddressReserve(&at, G, 0, 0, 0), VTI_CU_OUT_OF_MEMORY);
    standin_limit_pinned(100);
    assert_int_equal(cuMemHostAlloc(&pinned, 101, 0), VTI_CU_OUT_OF_MEMORY);
    assert_done(cuMemHostAlloc(&pinned, 100, 0));
    assert_int_equal(standin_look().n_breach, 0); // that is no breach
}

FX_TEST(test_a_context_is_needed)
{
    vti_cu_handle h;
    vti_cu_prop p = prop();
    standin_use_context(-1);
    REFUSED(cuMemCreate(&h, G, &p, 0));
    REFUSED(cuMemMap(base, G, 0, one, 0));
    REFUSED(cuMemUnmap(base, G));
}

FX_TEST(test_work_is_done_late_and_on_memory_that_is_there)
{
    char *p = (char *)(uintptr_t)base, local[8] = {0};
    void *pinned;
    vti_cu_stream s;
    assert_done(cuMemHostAlloc(&pinned, 8, 0));
    assert_done(cuStreamCreate(&s, VTI_CU_STREAM_NON_BLOCKING));
    REFUSED(cuMemsetD8Async(base, 1, 8, s)); // not mapped
    assert_done(cuMemMap(base, G, 0, one, 0));
    REFUSED(cuMemsetD8Async(base, 1, 8, s)); // not opened
    assert_done(open_at(base, G));
    p[0] = 0;
    REFUSED(cuMemcpyDtoHAsync_v2(local, base, 8, s)); // host memory that is not pinned
    REFUSED(cuMemcpyHtoDAsync_v2(base, local, 8, s));
    assert_done(cuMemsetD8Async(base, 1, 8, s));
    assert_done(cuMemcpyDtoHAsync_v2(pinned, base, 8, s));
    assert_int_equal(p[0], 0);
    assert_done(cuStreamSynchronize(s));
    assert_int_equal(p[7], 1);
    assert_memory_equal(p, pinned, 8);
    assert_done(cuMemsetD8Async(base, 2, 8, s));
    REFUSED(cuMemUnmap(base, G)); // the work comes later
    assert_done(cuStreamSynchronize(s));
    assert_done(cuMemcpyDtoHAsync_v2(pinned, base, 8, s));
    REFUSED(cuMemUnmap(base, G)); // reading, too
    assert_done(cuStreamSynchronize(s));
    standin_launch(s, base + 2 * G, 1, 8); // a kernel that writes where nothing is
    standin_end_kernels(s, 1);
    uint64_t n_breach = standin_look().n_breach;
    (void)cuStreamSynchronize(s);
    assert_int_equal(standin_look().n_breach, n_breach + 1);
    assert_done(cuMemUnmap(base, G));
    REFUSED(cuMemFreeHost(local));
    assert_done(cuStreamDestroy_v2(s));
}

// A GPU ends the context of a kernel that reads a mapping whose access is set meanwhile.
FX_TEST(test_access_is_set_under_no_work)
{
    assert_done(cuMemMap(base, G, 0, one, 0));
    assert_done(cuMemMap(base + 2 * G, G, 0, one, 0));
    assert_done(open_at(base, G));
    assert_done(open_at(base + 2 * G, G));
    assert_done(cuMemcpyDtoDAsync_v2(base, base + 2 * G, 8, NULL));
    REFUSED(open_at(base, G));
    REFUSED(open_at(base + 2 * G, G));
    assert_done(cuStreamSynchronize(NULL));
    assert_done(open_at(base, G));
    assert_done(open_at(base + 2 * G, G));
}

static void *wait_elsewhere(void *arg)
{
    standin_use_context(0);
    (void)cuCtxSynchronize();
    *(uint64_t *)arg = standin_waits();
    standin_use_context(-1);
    return NULL;
}

FX_TEST(test_waits_are_counted_for_each_thread)
{
    pthread_t thread;
    char byte;
    uint64_t elsewhere;
    vti_cu_event event;
    assert_done(cuMemMap(base, G, 0, one, 0));
    assert_done(open_at(base, G));
    assert_done(cuEventCreate(&event, VTI_CU_EVENT_BLOCKING_SYNC | VTI_CU_EVENT_DISABLE_TIMING));
    assert_done(cuMemsetD8Async(base, 1, 8, NULL));
    assert_done(cuEventRecord(event, NULL));
    assert_done(cuEventQuery(event));
    assert_done(cuStreamQuery(NULL));
    assert_int_equal(standin_waits(), 0);
    assert_done(cuStreamSynchronize(NULL));
    assert_done(cuEventSynchronize(event));
    assert_done(cuMemcpyDtoH_v2(&byte, base, 1));
    assert_done(cuMemcpyHtoD_v2(base, &byte, 1));
    assert_int_equal(standin_waits(), 4);
    assert_int_equal(pthread_create(&thread, NULL, wait_elsewhere, &elsewhere), 0);
    pthread_join(thread, NULL);
    assert_int_equal(elsewhere, 1);
    assert_int_equal(standin_waits(), 4);
    standin_reset();
    assert_int_equal(standin_waits(), 0);
}

FX_TEST(test_a_stream_waits_for_an_event)
{
    char *p = (char *)(uintptr_t)base;
    void *first = standin_new_stream(false), *second = standin_new_stream(false);
    assert_done(cuMemMap(base, G, 0, one, 0));
    assert_done(open_at(base, G));
    p[0] = 0;
    standin_launch(first, base, 1, 1);
    void *event = standin_new_event(first);
    standin_launch(first, 0, 0, 0);
    assert_done(cuStreamWaitEvent(second, event, 0));
    standin_drop_event(event); // what was recorded counts
    assert_done(cuMemsetD8Async(base, 2, 1, second));
    assert_int_equal(cuStreamQuery(second), VTI_CU_NOT_READY);
    assert_int_equal(p[0], 0);
    standin_end_kernels(first, 1);
    assert_done(cuStreamQuery(second));
    assert_int_equal(p[0], 2);
    event = standin_new_event(second);
    REFUSED(cuStreamWaitEvent(first, event, 1)); // flags
    standin_drop_stream(first);
    standin_drop_stream(second);
}

FX_TEST(test_a_captured_stream_is_left_alone)
{
    vti_cu_stream s = standin_new_stream(false);
    vti_cu_capture_status status = VTI_CU_CAPTURE_NONE;
    vti_cu_capture_mode mode = VTI_CU_CAPTURE_MODE_RELAXED;
    assert_done(cuMemMap(base, G, 0, one, 0));
    assert_done(open_at(base, G));
    assert_done(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, VTI_CU_CAPTURE_MODE_GLOBAL);
    standin_capture(s, true);
    assert_done(cuStreamIsCapturing(s, &status));
    assert_int_not_equal(status, VTI_CU_CAPTURE_NONE);
    REFUSED(cuMemsetD8Async(base, 1, 8, s));
    REFUSED(cuStreamQuery(s));
    REFUSED(cuStreamSynchronize(s));
    void *event = standin_new_event(s);
    REFUSED(cuEventQuery(event));
    REFUSED(cuEventSynchronize(event));
    REFUSED(cuStreamWaitEvent(NULL, event, 0));
    standin_capture(s, false);
    REFUSED(cuEventQuery(event)); // it still belongs to the graph
    assert_done(cuEventRecord(event, s));
    assert_done(cuEventQuery(event));
    assert_done(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, VTI_CU_CAPTURE_MODE_RELAXED);
    standin_drop_event(event);
    standin_drop_stream(s);
}

FX_TEST(test_only_relaxed_threads_disregard_captures)
{
    vti_cu_handle h;
    vti_cu_prop p = prop();
    vti_cu_capture_mode mode = VTI_CU_CAPTURE_MODE_RELAXED, odd = 3;
    void *s = standin_new_stream(false);
    standin_capture(s, true);
    REFUSED(cuMemCreate(&h, G, &p, 0));
    REFUSED(cuMemMap(base, G, 0, one, 0));
    REFUSED(cuStreamQuery(NULL));
    REFUSED(cuCtxSynchronize());
    REFUSED(cuThreadExchangeStreamCaptureMode(&odd));
    assert_done(cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(standin_capture_mode(), VTI_CU_CAPTURE_MODE_RELAXED);
    assert_done(cuMemMap(base, G, 0, one, 0));
    assert_done(cuStreamQuery(NULL));
    assert_done(cuThreadExchangeStreamCaptureMode(&mode));
    standin_drop_stream(s);
}

// A blocking stream is ordered with the default one.
FX_TEST(test_the_default_stream_suffers_from_blocking_captures)
{
    vti_cu_capture_status status;
    vti_cu_event event;
    void *s = standin_new_stream(true);
    assert_done(cuMemMap(base, G, 0, one, 0));
    assert_done(open_at(base, G));
    assert_done(cuEventCreate(&event, VTI_CU_EVENT_BLOCKING_SYNC | VTI_CU_EVENT_DISABLE_TIMING));
    standin_capture(s, true);
    assert_int_equal(cuStreamIsCapturing(NULL, &status), CU_CAPTURE_IMPLICIT);
    REFUSED(cuMemsetD8Async(base, 1, 8, NULL));
    REFUSED(cuEventRecord(event, NULL));
    standin_capture(s, false);
    assert_done(cuStreamIsCapturing(NULL, &status));
    assert_done(cuMemsetD8Async(base, 1, 8, NULL));
    standin_drop_stream(s);
}

FX_RUN_EACH(test_vt_standin, setup, teardown)
