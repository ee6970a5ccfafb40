// test_vt_events.c - the ring of events: order, numbers and times, what is overwritten, and a taker
// on another thread.
#include "assert_vt.h"
#include "failing_calloc.h"
#include "suite.h"

#include <pthread.h>

#include "vtensor/tree/radix.h"

enum { CAP = 4 };

static vti_events *ev;

VT_FIXTURE(setup)
{
    assert_ok(vti_events_new(CAP, &ev));
}

VT_FIXTURE(teardown)
{
    vti_events_free(ev);
}

static void add(uint64_t id)
{
    vti_events_add(ev, (vt_event){.kind = VT_EVENT_EVICTED, .id = id, .number = 99, .now_ms = id});
}

FX_TEST(test_events_are_taken_once_in_order)
{
    vt_event out[8];
    assert_int_equal(vti_events_take(ev, out, 8), 0);
    add(10);
    add(11), add(12);
    assert_int_equal(vti_events_take(ev, out, 2), 2);
    assert_int_equal(out[0].id, 10);
    assert_int_equal(out[0].now_ms, 10);
    assert_int_equal(out[1].id, 11);
    assert_int_equal(out[1].now_ms, 11);
    assert_int_equal(out[1].kind, VT_EVENT_EVICTED);
    assert_int_equal(vti_events_take(ev, out, 0), 0);
    assert_int_equal(vti_events_take(ev, out, 8), 1);
    assert_int_equal(out[0].number, 2);
    assert_int_equal(vti_events_take(ev, out, 8), 0);
}

FX_TEST(test_the_oldest_are_overwritten_and_leave_a_gap)
{
    vt_event out[8];
    for (uint64_t i = 0; i < CAP; i++) add(i);
    assert_int_equal(vti_events_take(ev, out, 1), 1);
    for (uint64_t i = CAP; i < 11; i++) add(i);
    assert_int_equal(vti_events_take(ev, out, 8), CAP);
    for (uint64_t i = 0; i < CAP; i++) {
        assert_int_equal(out[i].number, 7 + i);
        assert_int_equal(out[i].id, 7 + i);
    }
}

FX_TEST(test_without_a_ring_nothing_is_kept)
{
    vt_event out;
    vti_events_add(NULL, (vt_event){.id = 1});
    assert_int_equal(vti_events_take(NULL, &out, 1), 0);
    vti_events_free(NULL);
    vti_events *none = ev;
    n_alloc_left = 0;
    assert_int_equal(vti_events_new(CAP, &none), VT_ENOMEM);
    n_alloc_left = UINT64_MAX;
    assert_null(none);
}

enum { N_ADDED = 20000 };

static void *add_many(void *arg)
{
    for (uint64_t i = 0; i < N_ADDED; i++) add(i);
    return arg;
}

FX_TEST(test_another_thread_takes_while_the_owner_adds)
{
    pthread_t owner;
    vt_event out[3];
    uint64_t next = 0;
    assert_int_equal(pthread_create(&owner, NULL, add_many, NULL), 0);
    while (next < N_ADDED) {
        uint32_t n = vti_events_take(ev, out, 3);
        for (uint32_t i = 0; i < n; i++) {
            assert_true(out[i].number >= next); // ascending, perhaps with gaps
            assert_int_equal(out[i].id, out[i].number);
            assert_int_equal(out[i].now_ms, out[i].number);
            next = out[i].number + 1;
        }
    }
    pthread_join(owner, NULL);
    assert_int_equal(vti_events_take(ev, out, 3), 0);
}

FX_RUN_EACH(test_vt_events, setup, teardown)
