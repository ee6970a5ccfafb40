// test_gpu_order.c - the GPU backend while work runs on a GPU: which calls wait for it, in
// which order queued work is done, what a ticket covers, and captures into graphs.
//
// A stream is held by a wait for a value that the test writes when it wants the stream to go on.
// Skipped if there is no GPU; also runs on the stand-in for the driver.
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "gpu_rig.h"

// A call that waits for a held stream would wait for ever: after this time the stream is released,
// and the test fails.
enum { DEADLINE_S = 10 };

typedef struct watchdog {
    pthread_t thread;
    pthread_mutex_t mu;
    pthread_cond_t ended;
    bool is_ended, has_bitten;
    const char *_Atomic call; // that runs now
    const char *waited;       // the call that had to be ended
} watchdog;

static watchdog dog = {.mu = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

static void *watch(void *arg)
{
    (void)arg;
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += DEADLINE_S;
    pthread_mutex_lock(&dog.mu);
    while (!dog.is_ended && !dog.has_bitten)
        dog.has_bitten = pthread_cond_timedwait(&dog.ended, &dog.mu, &end) != 0;
    if (dog.has_bitten) {
        dog.waited = dog.call;
        gpu_release(gpu);
    }
    pthread_mutex_unlock(&dog.mu);
    return NULL;
}

// Whether this driver can hold a stream.
static bool can_hold(void)
{
    bool held = gpu_hold(gpu, NULL);
    gpu_release(gpu);
    return held && gpu_synchronize(gpu);
}

static void hold_stream(void *stream)
{
    assert_true(gpu_hold(gpu, stream));
    dog.is_ended = dog.has_bitten = false;
    dog.waited = NULL;
    assert_int_equal(pthread_create(&dog.thread, NULL, watch, NULL), 0);
}

static void release_streams(void)
{
    gpu_release(gpu);
    pthread_mutex_lock(&dog.mu);
    dog.is_ended = true;
    pthread_cond_signal(&dog.ended);
    pthread_mutex_unlock(&dog.mu);
    pthread_join(dog.thread, NULL);
    if (dog.waited) fail_msg("this waited for the stream: %s", dog.waited);
}

#define MUST_NOT_WAIT(what)             \
    do {                                \
        atomic_store(&dog.call, #what); \
        assert_ok(what);                \
    } while (0)

FX_TEST_WITH(test_calls_do_not_wait_for_the_stream, setup, teardown)
{
    uintptr_t addr;
    if (!can_hold()) skip();
    create_chunks(0, 2);
    assert_ok(map_at(0, 0, 0, 1));
    fill_bytes(place_at(0), 's', slice);
    hold_stream(NULL);
    MUST_NOT_WAIT(vmm->ops->reserve(vmm, 4 * slice, &addr));
    MUST_NOT_WAIT(vmm->ops->create(vmm, 2, 1));
    MUST_NOT_WAIT(vmm->ops->map(vmm, addr, 0, 2, 1, VT_VMM_WRITE));
    MUST_NOT_WAIT(vmm->ops->zero(vmm, addr, slice, VT_VMM_NOW));
    MUST_NOT_WAIT(vmm->ops->fetch(vmm, addr, 0, 0, 0, slice, VT_VMM_NOW));
    MUST_NOT_WAIT(vmm->ops->unmap(vmm, addr, slice));
    MUST_NOT_WAIT(vmm->ops->destroy(vmm, 2, 1));
    MUST_NOT_WAIT(vmm->ops->unreserve(vmm, addr, 4 * slice));
    MUST_NOT_WAIT(map_at(8, 0, 1, 1));
    MUST_NOT_WAIT(vmm->ops->zero(vmm, place_at(8), slice, VT_VMM_QUEUED));
    for (int i = 0; i < 40; i++) MUST_NOT_WAIT(fetch_to(8, 0, 0, VT_VMM_QUEUED));
    uint64_t ticket = fence();
    assert_false(passed(ticket, false));
    release_streams();
    assert_true(passed(ticket, true));
    assert_bytes(place_at(8), 's', slice);
    assert_ok(unmap_at(8, 1));
    assert_ok(unmap_at(0, 1));
    destroy_chunks(0, 2);
}

// Each copy shows what was written just before it, and not what was written just after.
FX_TEST_WITH(test_queued_work_keeps_its_place, setup, teardown)
{
    create_chunks(0, 34);
    assert_ok(map_at(0, 0, 0, 32));
    assert_ok(map_at(40, 0, 32, 2));
    for (int round = 1; round < 50; round++) {
        assert_true(gpu_fill(gpu, NULL, place_at(0), (unsigned char)round, 32 * slice));
        assert_ok(fetch_to(40, 0, 31, VT_VMM_QUEUED));
        assert_ok(vmm->ops->zero(vmm, place_at(31), slice, VT_VMM_QUEUED));
        assert_ok(fetch_to(41, 0, 31, VT_VMM_QUEUED));
        assert_true(gpu_fill(gpu, NULL, place_at(0), 0xEE, 32 * slice));
        assert_true(passed(fence(), true));
        assert_bytes(place_at(40), round, slice);
        assert_bytes(place_at(41), 0, slice);
    }
    assert_ok(unmap_at(40, 2));
    assert_ok(unmap_at(0, 32));
    destroy_chunks(0, 34);
}

// A backend on three streams, in the place of the one of the rig.
static void *streams[3];

static int open_streams(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        if (!(streams[i] = gpu_new_stream(gpu))) return -1;
    vt_vmm_cuda_config cfg = {
        .device = gpu_device(gpu), .stream = streams[0], .beside = streams + 1, .n_beside = 1};
    return open_rig(&cfg);
}

static int close_streams(void **state)
{
    int rc = teardown(state);
    for (int i = 0; i < 3; i++) gpu_drop_stream(gpu, streams[i]);
    return rc;
}

FX_TEST_WITH(test_a_ticket_covers_all_streams, open_streams, close_streams)
{
    if (!can_hold()) skip();
    for (int i = 0; i < 2; i++) {
        uint64_t before = fence();
        hold_stream(streams[i]);
        uint64_t ticket = fence();
        assert_true(passed(before, true));
        assert_false(passed(ticket, false));
        release_streams();
        assert_true(passed(ticket, true));
    }
}

// The third stream is not known to the backend.
FX_TEST_WITH(test_a_ticket_waits_for_events, open_streams, close_streams)
{
    if (!can_hold()) skip();
    hold_stream(streams[2]);
    uint64_t before = fence();
    void *event = gpu_new_event(gpu, streams[2]);
    assert_non_null(event);
    assert_ok(vt_vmm_cuda_await(vmm, event));
    gpu_drop_event(gpu, event);
    uint64_t after = fence();
    assert_true(passed(before, true));
    assert_false(passed(after, false));
    release_streams();
    assert_true(passed(after, true));
}

static void *map_elsewhere(void *arg)
{
    vt_status *st = arg;
    uint64_t sum;
    for (int i = 0; i < 20 && *st == VT_OK; i++) {
        *st = vmm->ops->create(vmm, 1000, 2);
        if (*st == VT_OK) *st = map_at(32, 0, 1000, 2);
        if (*st == VT_OK) *st = vmm->ops->zero(vmm, place_at(32), slice, VT_VMM_NOW);
        if (*st == VT_OK) *st = fetch_to(33, 0, 1000, VT_VMM_NOW);
        if (*st == VT_OK) *st = vmm->ops->swap_write(vmm, 0, place_at(32), slice, &sum);
        if (*st == VT_OK) *st = vmm->ops->swap_read(vmm, place_at(33), 0, slice, &sum);
        if (*st == VT_OK) *st = unmap_at(32, 2);
        if (*st == VT_OK) *st = vmm->ops->destroy(vmm, 1000, 2);
    }
    return NULL;
}

// The captured stream is none of the backend's. Both threads go on with their work.
FX_TEST_WITH(test_no_call_breaks_a_capture, open_streams, close_streams)
{
    pthread_t thread;
    vt_status st = VT_OK;
    create_chunks(0, 2);
    assert_ok(vmm->ops->swap_open(vmm, NULL, slice));
    assert_true(gpu_begin_capture(gpu, streams[2]));
    assert_int_equal(pthread_create(&thread, NULL, map_elsewhere, &st), 0);
    for (int i = 0; i < 20; i++) {
        assert_ok(map_at(0, 0, 0, 2));
        assert_ok(vmm->ops->zero(vmm, place_at(0), slice, VT_VMM_QUEUED));
        assert_ok(fetch_to(1, 0, 0, VT_VMM_QUEUED));
        assert_true(passed(fence(), true));
        assert_ok(unmap_at(0, 2));
    }
    pthread_join(thread, NULL);
    assert_ok(st);
    assert_true(gpu_end_capture(gpu, streams[2]));
    destroy_chunks(0, 2);
}

FX_TEST_WITH(test_nothing_is_queued_into_a_capture, open_streams, close_streams)
{
    bool is_passed = true;
    create_chunks(0, 2);
    assert_ok(map_at(0, 0, 0, 1));
    assert_true(gpu_begin_capture(gpu, streams[0]));
    assert_int_equal(fetch_to(0, 0, 1, VT_VMM_QUEUED), VT_EDEVICE);
    assert_int_equal(vmm->ops->zero(vmm, place_at(0), slice, VT_VMM_QUEUED), VT_EDEVICE);
    uint64_t ticket = fence();
    assert_false(passed(ticket, false));
    assert_int_equal(vmm->ops->passed(vmm, ticket, true, &is_passed), VT_EDEVICE);
    assert_true(gpu_end_capture(gpu, streams[0]));
    assert_true(passed(ticket, true));
    assert_ok(vmm->ops->zero(vmm, place_at(0), slice, VT_VMM_QUEUED));
    assert_true(passed(fence(), true));
    assert_ok(unmap_at(0, 1));
    destroy_chunks(0, 2);
}

int main(void)
{
    return run_on_gpu();
}
