// test_vt_fake.c - the test backends themselves: the fake finds every breach of the contract of
// vmm.h (a test for each), and the fault backend fails, delays and holds the calls that it should.
#include "assert_vt.h"

#include <pthread.h>
#include <string.h>

#include "vmm_fake.h"
#include "vmm_fault.h"

enum { PAGE = VT_FAKE_PAGE_BYTES, SLICE = 2 * PAGE, N_SLICE = 3, ROOM = 16 * SLICE };

#define N_INDEX (UINT64_C(1) << 40) // far more than there could be memory for

static vt_vmm *vmm;
static uintptr_t addr; // a reservation of ROOM bytes
static vt_fake_report end;

static vt_status map(uintptr_t at, uint32_t slice, uint64_t index, uint64_t n)
{
    return vmm->ops->map(vmm, at, slice, index, n, VT_VMM_WRITE);
}

static vt_status unmap(uintptr_t at, size_t size_bytes)
{
    return vmm->ops->unmap(vmm, at, size_bytes);
}

static vt_status create(uint64_t index, uint64_t n)
{
    return vmm->ops->create(vmm, index, n);
}

static vt_status destroy(uint64_t index, uint64_t n)
{
    return vmm->ops->destroy(vmm, index, n);
}

static vt_status fetch(uintptr_t dst, uint32_t slice, uint64_t index, size_t offset, size_t size)
{
    return vmm->ops->fetch(vmm, dst, slice, index, offset, size);
}

// Chunks 5 and 6 are created; slice 1 of both is mapped at addr. A swap is open.
static int setup(void **state)
{
    (void)state;
    vt_vmm_geometry geo = {.n_slice = N_SLICE, .slice_bytes = SLICE, .n_index = N_INDEX};
    vmm = vt_fake_open();
    if (!vmm || vmm->ops->configure(vmm, &geo) != VT_OK) return -1;
    vt_fake_set_epitaph(vmm, &end);
    if (vmm->ops->reserve(vmm, ROOM, &addr) != VT_OK || create(5, 2) != VT_OK) return -1;
    if (vmm->ops->swap_open(vmm, NULL, 8 * SLICE) != VT_OK) return -1;
    return map(addr, 1, 5, 2) == VT_OK && vt_fake_look(vmm).n_violation == 0 ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    vmm->ops->close(vmm);
    return 0;
}

// The one breach found so far is this, and it changed nothing.
static void assert_breach(vt_status st, const char *what)
{
    vt_fake_report now = vt_fake_look(vmm);
    assert_int_equal(st, VT_EINVAL);
    assert_int_equal(now.n_violation, 1);
    assert_string_equal(now.violation, what);
    assert_true(now.n_created == 2 && now.n_mapped == 2 && now.n_run == 1);
    assert_int_equal(now.reserved_bytes, ROOM);
}

static void assert_no_breach(void)
{
    assert_int_equal(vt_fake_look(vmm).n_violation, 0);
}

#define BREACH(name, call, what)   \
    static void name(void **state) \
    {                              \
        (void)state;               \
        assert_breach(call, what); \
    }

static const vt_vmm_geometry any_geo = {.n_slice = 1, .slice_bytes = PAGE, .n_index = 1};
static uint64_t sum;
static bool flag;

BREACH(configured_twice, vmm->ops->configure(vmm, &any_geo), "configured twice")
BREACH(reserve_half_a_page, vmm->ops->reserve(vmm, PAGE / 2, &(uintptr_t){0}),
       "reserve of no whole pages")
BREACH(unreserve_mapped, vmm->ops->unreserve(vmm, addr, ROOM), "unreserve of mapped addresses")
BREACH(unreserve_part, vmm->ops->unreserve(vmm, addr, SLICE), "unreserve of another size")
BREACH(unreserve_inside, vmm->ops->unreserve(vmm, addr + SLICE, SLICE),
       "unreserve of what is not reserved")
BREACH(create_beyond, create(N_INDEX - 1, 2), "create of an index out of range")
BREACH(create_nothing, create(9, 0), "create of an index out of range")
BREACH(create_again, create(4, 2), "create of a created chunk")
BREACH(destroy_mapped, destroy(5, 1), "destroy of a mapped chunk")
BREACH(destroy_missing, destroy(7, 1), "destroy of a chunk that is not created")
BREACH(destroy_beyond, destroy(N_INDEX, 1), "destroy of an index out of range")
BREACH(map_over, map(addr + SLICE, 1, 5, 1), "map over a mapping")
BREACH(map_missing, map(addr + 2 * SLICE, 1, 6, 2), "map of a chunk that is not created")
BREACH(map_no_slice, map(addr + 2 * SLICE, N_SLICE, 5, 1), "map of a slice out of range")
BREACH(map_odd, map(addr + 2 * SLICE + 1, 1, 5, 1), "map at an odd address")
BREACH(map_outside, map(addr + ROOM - SLICE, 1, 5, 2), "map outside a reservation")
BREACH(map_no_use, vmm->ops->map(vmm, addr + 2 * SLICE, 1, 5, 1, (vt_vmm_use)2), "map for no use")
BREACH(unmap_half, unmap(addr, PAGE), "unmap of no whole slices")
BREACH(unmap_shifted, unmap(addr + PAGE, SLICE), "unmap of a part of a slice")
BREACH(unmap_reserved, unmap(addr + SLICE, 2 * SLICE), "unmap of what is not mapped")
BREACH(unmap_outside, unmap(addr + ROOM, SLICE), "unmap outside a reservation")
BREACH(fetch_missing, fetch(addr, 0, 7, 0, PAGE), "a copy with a chunk that is not created")
BREACH(fetch_self, fetch(addr, 0, 5, 0, PAGE), "a copy from a chunk into itself")
BREACH(fetch_beyond, fetch(addr, 0, 6, PAGE, PAGE + 1), "a copy of bytes out of range")
BREACH(fetch_no_slice, fetch(addr, N_SLICE, 6, 0, PAGE), "a copy of bytes out of range")
BREACH(fetch_unmapped, fetch(addr + 2 * SLICE - 8, 0, 5, 0, 9), "access to what is not mapped")
BREACH(zero_unmapped, vmm->ops->zero(vmm, addr + 2 * SLICE - 1, 2), "access to what is not mapped")
BREACH(ticket_unknown, vmm->ops->passed(vmm, 1, false, &flag), "a ticket that no fence gave")
BREACH(swap_twice, vmm->ops->swap_open(vmm, "x", PAGE), "swap opened twice")
BREACH(swap_beyond, vmm->ops->swap_write(vmm, 7 * SLICE, addr, 2 * SLICE, &sum),
       "swap out of range")
BREACH(swap_odd, vmm->ops->swap_write(vmm, 8, addr, SLICE, &sum), "swap at an odd offset")
BREACH(swap_unmapped, vmm->ops->swap_write(vmm, 0, addr + SLICE, 2 * SLICE, &sum),
       "access to what is not mapped")
BREACH(swap_unwritten, vmm->ops->swap_read(vmm, addr, 0, SLICE, &sum),
       "swap read of what was never written")

static void test_call_before_configure(void **state)
{
    (void)state;
    vt_vmm *other = vt_fake_open();
    assert_non_null(other);
    assert_int_equal(other->ops->reserve(other, PAGE, &(uintptr_t){0}), VT_EINVAL);
    assert_int_equal(other->ops->create(other, 0, 1), VT_EINVAL);
    assert_int_equal(other->ops->swap_write(other, 0, addr, PAGE, &sum), VT_EINVAL);
    assert_int_equal(vt_fake_look(other).n_violation, 3);
    other->ops->close(other);
}

static void test_an_address_that_is_gone_stays_gone(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) { // so that old ones are forgotten meanwhile
        uintptr_t at;
        assert_ok(vmm->ops->reserve(vmm, SLICE, &at));
        assert_ok(vmm->ops->unreserve(vmm, at, SLICE));
        assert_int_equal(map(at, 0, 5, 1), VT_EINVAL);
        assert_int_equal(vmm->ops->unreserve(vmm, at, SLICE), VT_EINVAL);
    }
    assert_int_equal(vt_fake_look(vmm).n_violation, 200);
    assert_ok(unmap(addr, 2 * SLICE));
    assert_ok(vmm->ops->unreserve(vmm, addr, ROOM));
}

static void test_a_slice_may_be_mapped_many_times(void **state)
{
    (void)state;
    for (int i = 2; i < 8; i++)
        assert_ok(vmm->ops->map(vmm, addr + (size_t)i * SLICE, 1, 5, 1, VT_VMM_ALIAS));
    assert_int_equal(vt_fake_look(vmm).n_run, 7);
    vt_fake_touch(vmm, addr, 10);
    assert_false(vt_fake_is_zero(vmm, addr + 7 * SLICE, SLICE));
    assert_ok(unmap(addr, 7 * SLICE));
    assert_no_breach();
    assert_int_equal(destroy(5, 2), VT_EINVAL); // the last mapping of it
    assert_ok(unmap(addr + 7 * SLICE, SLICE));
    assert_ok(destroy(5, 2));
}

static void test_runs_are_counted_as_the_host_merges_them(void **state)
{
    (void)state;
    uint64_t size_bytes, n;
    assert_ok(create(7, 2));
    assert_ok(map(addr + 4 * SLICE, 1, 8, 1));
    assert_ok(map(addr + 3 * SLICE, 1, 8, 1));
    assert_int_equal(vt_fake_look(vmm).n_run, 3);
    assert_ok(unmap(addr + 3 * SLICE, SLICE));
    assert_ok(map(addr + 3 * SLICE, 2, 7, 1)); // another slice
    assert_int_equal(vt_fake_look(vmm).n_run, 3);
    assert_ok(unmap(addr + 3 * SLICE, 2 * SLICE));
    assert_ok(map(addr + 3 * SLICE, 1, 8, 1));
    assert_int_equal(vt_fake_look(vmm).n_run, 2);
    assert_ok(map(addr + 2 * SLICE, 1, 7, 1));
    assert_int_equal(vt_fake_look(vmm).n_run, 1);
    assert_ok(unmap(addr + SLICE, 2 * SLICE));
    assert_ok(vmm->ops->mapped(vmm, &size_bytes, &n));
    assert_true(size_bytes == 2 * SLICE && n == 2);
    vt_fake_set_max_runs(vmm, 2);
    assert_int_equal(map(addr + 5 * SLICE, 0, 5, 1), VT_NOSPACE);
    assert_ok(map(addr + SLICE, 1, 6, 2)); // closes the gap
    assert_int_equal(vt_fake_look(vmm).n_run, 1);
    assert_int_equal(vt_fake_look(vmm).n_mapped, 4);
    assert_no_breach();
}

static void test_dirt_is_known_to_the_byte(void **state)
{
    (void)state;
    vt_fake_touch(vmm, addr + 100, 50);
    assert_true(vt_fake_is_zero(vmm, addr, 100));
    assert_true(vt_fake_is_zero(vmm, addr + 150, 2 * SLICE - 150));
    assert_false(vt_fake_is_zero(vmm, addr + 149, 1));
    assert_ok(vmm->ops->zero(vmm, addr + 120, SLICE));
    assert_true(vt_fake_is_zero(vmm, addr + 120, PAGE));
    assert_false(vt_fake_is_zero(vmm, addr + 119, PAGE));
    assert_ok(vmm->ops->zero(vmm, addr, 120));
    assert_true(vt_fake_is_zero(vmm, addr, 2 * SLICE));
    vt_fake_touch(vmm, addr + PAGE - 1, 2);
    assert_false(vt_fake_is_zero(vmm, addr, PAGE));
    assert_false(vt_fake_is_zero(vmm, addr + PAGE, PAGE));
    assert_no_breach();
}

static void test_dirt_stays_with_the_chunk_until_it_is_destroyed(void **state)
{
    (void)state;
    vt_fake_touch(vmm, addr, 2 * SLICE);
    assert_ok(unmap(addr, 2 * SLICE));
    assert_ok(map(addr + SLICE, 1, 6, 1));
    assert_false(vt_fake_is_zero(vmm, addr + SLICE, 1));
    assert_ok(unmap(addr + SLICE, SLICE));
    assert_ok(map(addr, 0, 6, 1)); // another slice of it is clean
    assert_true(vt_fake_is_zero(vmm, addr, SLICE));
    assert_ok(unmap(addr, SLICE));
    assert_ok(destroy(5, 2));
    assert_ok(create(6, 1));
    assert_ok(map(addr, 1, 6, 1));
    assert_true(vt_fake_is_zero(vmm, addr, SLICE));
    assert_no_breach();
}

static void test_fetch_brings_dirt_along(void **state)
{
    (void)state;
    vt_fake_touch(vmm, addr + PAGE - 10, 20); // chunk 5, across its two pages
    assert_ok(create(9, 1));
    assert_ok(map(addr + 4 * SLICE, 0, 9, 1));
    uintptr_t to = addr + 4 * SLICE;
    assert_ok(fetch(to + 3, 1, 5, PAGE - 20, 40));
    assert_true(vt_fake_is_zero(vmm, to, 13));
    assert_false(vt_fake_is_zero(vmm, to + 13, 1));
    assert_false(vt_fake_is_zero(vmm, to + 32, 1));
    assert_true(vt_fake_is_zero(vmm, to + 33, SLICE - 33));
    assert_ok(fetch(to, 2, 5, 0, SLICE)); // what is clean cleans
    assert_true(vt_fake_is_zero(vmm, to, SLICE));
    assert_no_breach();
}

static void test_swap_keeps_dirt_and_sums(void **state)
{
    (void)state;
    uint64_t back;
    vt_fake_touch(vmm, addr + 7, 9);
    assert_ok(vmm->ops->swap_write(vmm, SLICE, addr, 2 * SLICE, &sum));
    assert_int_equal(vt_fake_look(vmm).swapped_bytes, 2 * SLICE);
    assert_ok(vmm->ops->zero(vmm, addr, 2 * SLICE));
    assert_ok(vmm->ops->swap_read(vmm, addr, SLICE, 2 * SLICE, &back));
    assert_int_equal(sum, back);
    assert_true(vt_fake_is_zero(vmm, addr, 7));
    assert_false(vt_fake_is_zero(vmm, addr + 15, 1));
    assert_true(vt_fake_is_zero(vmm, addr + 16, 2 * SLICE - 16));
    vt_fake_corrupt(vmm, 2 * SLICE + 5);
    assert_ok(vmm->ops->swap_read(vmm, addr, SLICE, 2 * SLICE, &back));
    assert_int_not_equal(sum, back);
    vmm->ops->swap_drop(vmm, SLICE, SLICE);
    assert_int_equal(vt_fake_look(vmm).swapped_bytes, SLICE);
    assert_no_breach();
    assert_breach(vmm->ops->swap_read(vmm, addr, SLICE, 2 * SLICE, &back),
                  "swap read of what was never written");
}

static void test_a_drop_outside_the_swap_is_a_breach(void **state)
{
    (void)state;
    vmm->ops->swap_drop(vmm, 8 * SLICE, PAGE);
    assert_breach(VT_EINVAL, "swap out of range");
}

static void test_unmap_under_a_kernel_is_a_breach(void **state)
{
    (void)state;
    uint64_t ticket;
    vt_fake_set_async(vmm, true);
    vt_fake_run(vmm, addr + SLICE + 100, 1);
    assert_breach(unmap(addr, 2 * SLICE), "unmap of what a kernel reads");
    assert_ok(vmm->ops->fence(vmm, &ticket));
    assert_int_equal(unmap(addr + SLICE, SLICE), VT_EINVAL); // given is not done
    assert_ok(unmap(addr, SLICE));                           // where it does not read
    assert_ok(vmm->ops->passed(vmm, ticket, false, &flag));
    assert_false(flag);
    vt_fake_finish(vmm, ticket);
    assert_ok(vmm->ops->passed(vmm, ticket, false, &flag));
    assert_true(flag);
    assert_ok(unmap(addr + SLICE, SLICE));
}

static void test_a_fence_is_for_what_was_given_before_it(void **state)
{
    (void)state;
    uint64_t first, second;
    vt_fake_set_async(vmm, true);
    assert_ok(vmm->ops->fence(vmm, &first));
    vt_fake_run(vmm, addr, SLICE);
    assert_ok(vmm->ops->fence(vmm, &second));
    assert_true(first > 0 && second > first);
    assert_ok(vmm->ops->passed(vmm, first, true, &flag));
    assert_true(flag);
    assert_int_equal(unmap(addr, SLICE), VT_EINVAL);
    uint64_t before = vt_fake_look(vmm).clock_us;
    assert_ok(vmm->ops->passed(vmm, second, true, &flag));
    assert_true(flag && vt_fake_look(vmm).clock_us > before);
    assert_ok(unmap(addr, SLICE));
}

static void test_a_kernel_must_not_read_what_is_not_mapped(void **state)
{
    (void)state;
    vt_fake_run(vmm, addr + 2 * SLICE - 1, 2);
    assert_breach(VT_EINVAL, "access to what is not mapped");
}

static void test_without_async_nothing_runs(void **state)
{
    (void)state;
    uint64_t ticket = 9;
    vt_fake_run(vmm, addr, SLICE);
    assert_ok(vmm->ops->fence(vmm, &ticket));
    assert_int_equal(ticket, 0);
    assert_ok(vmm->ops->passed(vmm, 0, true, &flag));
    assert_true(flag);
    assert_ok(unmap(addr, SLICE));
    assert_no_breach();
}

static void test_chunks_are_limited_when_asked_for(void **state)
{
    (void)state;
    vt_fake_set_max_chunks(vmm, 4);
    assert_int_equal(create(N_INDEX - 3, 3), VT_NOSPACE);
    assert_ok(create(N_INDEX - 2, 2));
    vt_fake_set_max_chunks(vmm, 1);
    assert_int_equal(create(0, 1), VT_NOSPACE);
    assert_no_breach();
}

static void test_many_chunks_far_apart(void **state)
{
    (void)state;
    uint64_t size_bytes;
    for (uint64_t i = 0; i < 1000; i++) assert_ok(create((i << 30) + 7, 1));
    for (uint64_t i = 0; i < 1000; i++) assert_int_equal(create((i << 30) + 7, 1), VT_EINVAL);
    assert_ok(vmm->ops->resident(vmm, &size_bytes));
    assert_int_equal(size_bytes, 1002 * N_SLICE * SLICE);
    for (uint64_t i = 0; i < 1000; i++) assert_ok(destroy((i << 30) + 7, 1));
    assert_ok(vmm->ops->resident(vmm, &size_bytes));
    assert_int_equal(size_bytes, 2 * N_SLICE * SLICE);
}

static int setup_fault(void **state)
{
    if (setup(state) != 0) return -1;
    vmm = vt_fault_open(vmm);
    return vmm ? 0 : -1;
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
    case 4: return o->swap_read(vmm, addr, 0, SLICE, &sum);
    case 5: return o->fetch(vmm, addr + 8 * SLICE, 0, 5, 0, SLICE);
    case 6: return o->zero(vmm, addr, SLICE);
    case 7: return o->fence(vmm, &a);
    case 8: return o->passed(vmm, 0, true, &flag);
    case 9: return o->resident(vmm, &a);
    case 10: return o->mapped(vmm, &a, &b);
    case 11: return o->unmap(vmm, addr + 8 * SLICE, SLICE);
    case 12: return o->destroy(vmm, 20, 1);
    default: return o->store(vmm, 0, 6, 0, addr, SLICE);
    }
}

enum { N_CALL = 14, N_CALL_OF_SPACE = 4 };

static void test_every_call_can_be_made_to_fail(void **state)
{
    (void)state;
    for (int i = 0; i < N_CALL; i++) {
        vt_fault_arm(vmm, 1, 1, VT_EDEVICE);
        if (i > 0)
            assert_ok(call(9));
        else
            vt_fault_arm(vmm, 0, 1, VT_EDEVICE);
        assert_int_equal(call(i), VT_EDEVICE);
        assert_int_equal(call(i), VT_EDEVICE);
        assert_int_equal(vt_fault_fired(vmm), 2);
        assert_ok(call(i));
        assert_int_equal(vt_fault_calls(vmm), i > 0 ? 4 : 3);
    }
    vt_fault_arm(vmm, 0, 0, VT_EDEVICE);
    vmm->ops->swap_drop(vmm, 0, SLICE); // neither fails nor counts
    assert_int_equal(vt_fault_calls(vmm), 0);
}

static void test_chance_answers_as_the_contract_allows(void **state)
{
    (void)state;
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

static void test_calls_wait_at_the_gate(void **state)
{
    (void)state;
    static const struct {
        int which;
        bool fails;
    } gated[] = {{1, true}, {1, false}, {2, false}, {6, false}, {11, false}, {12, false}};
    for (size_t i = 0; i < sizeof gated / sizeof *gated; i++) {
        pthread_t beside;
        void *answer;
        int which = gated[i].which;
        vt_fault_arm(vmm, gated[i].fails ? 1 : 9, 0, VT_NOSPACE);
        vt_fault_hold(vmm, true);
        assert_int_equal(pthread_create(&beside, NULL, call_from_beside, &which), 0);
        vt_fault_await_held(vmm, 1);
        assert_int_equal(vt_fault_calls(vmm), 0);
        assert_ok(call(9)); // others pass
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
        n_bad += vmm->ops->zero(vmm, at, SLICE) != VT_OK;
        n_bad += unmap(at, 2 * SLICE) != VT_OK;
        n_bad += destroy(index, 3) != VT_OK;
    }
    return (void *)(uintptr_t)n_bad;
}

static void test_two_threads_may_call_at_once(void **state)
{
    (void)state;
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
    assert_int_equal(setup_fault(state), 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define F(name) cmocka_unit_test_setup_teardown(name, setup_fault, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(configured_twice),
        T(reserve_half_a_page),
        T(unreserve_mapped),
        T(unreserve_part),
        T(unreserve_inside),
        T(create_beyond),
        T(create_nothing),
        T(create_again),
        T(destroy_mapped),
        T(destroy_missing),
        T(destroy_beyond),
        T(map_over),
        T(map_missing),
        T(map_no_slice),
        T(map_odd),
        T(map_outside),
        T(map_no_use),
        T(unmap_half),
        T(unmap_shifted),
        T(unmap_reserved),
        T(unmap_outside),
        T(fetch_missing),
        T(fetch_self),
        T(fetch_beyond),
        T(fetch_no_slice),
        T(fetch_unmapped),
        T(zero_unmapped),
        T(ticket_unknown),
        T(swap_twice),
        T(swap_beyond),
        T(swap_odd),
        T(swap_unmapped),
        T(swap_unwritten),
        T(test_call_before_configure),
        T(test_an_address_that_is_gone_stays_gone),
        T(test_a_slice_may_be_mapped_many_times),
        T(test_runs_are_counted_as_the_host_merges_them),
        T(test_dirt_is_known_to_the_byte),
        T(test_dirt_stays_with_the_chunk_until_it_is_destroyed),
        T(test_fetch_brings_dirt_along),
        T(test_swap_keeps_dirt_and_sums),
        T(test_a_drop_outside_the_swap_is_a_breach),
        T(test_unmap_under_a_kernel_is_a_breach),
        T(test_a_fence_is_for_what_was_given_before_it),
        T(test_a_kernel_must_not_read_what_is_not_mapped),
        T(test_without_async_nothing_runs),
        T(test_chunks_are_limited_when_asked_for),
        T(test_many_chunks_far_apart),
        F(test_every_call_can_be_made_to_fail),
        F(test_chance_answers_as_the_contract_allows),
        F(test_calls_wait_at_the_gate),
        F(test_two_threads_may_call_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
