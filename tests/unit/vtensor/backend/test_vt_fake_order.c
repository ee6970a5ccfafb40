// test_vt_fake_order.c - the fake backend as a device that runs beside the caller, and what it says
// to writing where only reading is allowed.
#include "fake_rig.h"
#include "suite.h"

#include <pthread.h>

// ---- access

// At addr, chunk 5 is mapped for reading and chunk 6 for writing.
static void protect_the_first(void)
{
    assert_ok(protect(addr, SLICE, VT_VMM_READ));
    assert_int_equal(vt_fake_look(vmm).n_run, 2);
    assert_ok(
        unmap(addr + SLICE, SLICE)); // so that one run of two slices is left for assert_breach
    assert_ok(vmm->ops->map(vmm, addr + SLICE, 1, 6, 1, VT_VMM_READ));
}

#define BREACH_OF_READ(name, call)                                 \
    FX_TEST(name)                                                  \
    {                                                              \
        protect_the_first();                                       \
        assert_breach(call, "writing what is mapped for reading"); \
    }

static vt_status touch(uintptr_t at, size_t size_bytes)
{
    vt_fake_touch(vmm, at, size_bytes);
    return VT_EINVAL;
}

static vt_status run_writing(uintptr_t at, size_t size_bytes)
{
    vt_fake_run_writing(vmm, at, size_bytes);
    return VT_EINVAL;
}

BREACH_OF_READ(touch_read_only, touch(addr + 5, 1))
BREACH_OF_READ(kernel_writes_read_only, run_writing(addr + SLICE - 1, 1))
BREACH_OF_READ(zero_read_only, zero(addr, 1, VT_VMM_NOW))
BREACH_OF_READ(queue_zero_read_only, zero(addr, 1, VT_VMM_QUEUED))
BREACH_OF_READ(fetch_into_read_only, fetch(addr, 0, 6, 0, PAGE))
BREACH_OF_READ(swap_into_read_only, vmm->ops->swap_read(vmm, addr, 0, PAGE, &sum))

FX_TEST(test_what_is_mapped_for_reading_is_read)
{
    uint64_t ticket;
    vt_fake_set_async(vmm, true);
    vt_fake_touch(vmm, addr, SLICE);
    assert_ok(protect(addr, 2 * SLICE, VT_VMM_READ));
    assert_false(vt_fake_is_zero(vmm, addr, 1));
    assert_true(vt_fake_is_zero(vmm, addr + SLICE, SLICE));
    vt_fake_run(vmm, addr, 2 * SLICE);
    assert_ok(vmm->ops->swap_write(vmm, 0, addr, SLICE, &sum));
    assert_ok(protect(addr, 2 * SLICE, VT_VMM_WRITE)); // a kernel that reads does not mind
    assert_ok(protect(addr, 2 * SLICE, VT_VMM_READ));
    assert_ok(protect(addr, SLICE, VT_VMM_WRITE));
    vt_fake_touch(vmm, addr, SLICE);
    assert_ok(vmm->ops->fence(vmm, &ticket));
    vt_fake_finish(vmm, ticket);
    assert_ok(zero(addr, SLICE, VT_VMM_NOW));
    assert_no_breach();
}

FX_TEST(test_protecting_what_a_kernel_writes_is_a_breach)
{
    uint64_t ticket;
    vt_fake_set_async(vmm, true);
    vt_fake_run_writing(vmm, addr + SLICE - 1, 1);
    assert_ok(protect(addr + SLICE, SLICE, VT_VMM_READ)); // where it does not write
    assert_ok(protect(addr + SLICE, SLICE, VT_VMM_WRITE));
    assert_breach(protect(addr, SLICE, VT_VMM_READ), "protect of what work writes");
    assert_ok(vmm->ops->fence(vmm, &ticket));
    vt_fake_finish(vmm, ticket);
    assert_ok(protect(addr, SLICE, VT_VMM_READ));
}

FX_TEST(test_slices_of_unlike_access_are_protected_one_by_one)
{
    assert_ok(protect(addr, SLICE, VT_VMM_READ));
    assert_int_equal(protect(addr, 2 * SLICE, VT_VMM_WRITE), VT_EINVAL);
    assert_string_equal(vt_fake_look(vmm).violation, "protect of slices with unlike access");
}

FX_TEST(test_runs_end_where_access_changes)
{
    assert_ok(create(7, 4));
    assert_ok(map(addr + 2 * SLICE, 1, 7, 1));
    assert_ok(vmm->ops->map(vmm, addr + 3 * SLICE, 1, 8, 1, VT_VMM_ALIAS));
    assert_int_equal(vt_fake_look(vmm).n_run, 1);
    assert_ok(vmm->ops->map(vmm, addr + 4 * SLICE, 1, 9, 2, VT_VMM_READ));
    assert_int_equal(vt_fake_look(vmm).n_run, 2);
    vt_fake_set_max_runs(vmm, 3);
    assert_int_equal(protect(addr + SLICE, SLICE, VT_VMM_READ), VT_NOSPACE); // would be four
    assert_int_equal(vt_fake_look(vmm).n_run, 2);
    vt_fake_touch(vmm, addr + SLICE, 1); // still for writing
    assert_ok(protect(addr, SLICE, VT_VMM_READ));
    assert_int_equal(vt_fake_look(vmm).n_run, 3);
    assert_ok(protect(addr + SLICE, 3 * SLICE, VT_VMM_READ));
    assert_int_equal(vt_fake_look(vmm).n_run, 1);
    assert_ok(unmap(addr, 6 * SLICE));
    assert_int_equal(vt_fake_look(vmm).n_run, 0);
    assert_no_breach();
}

FX_TEST(test_a_device_may_be_unable_to_protect)
{
    assert_true(vmm->ops->can_protect(vmm));
    vt_fake_set_can_protect(vmm, false);
    assert_false(vmm->ops->can_protect(vmm));
    assert_ok(unmap(addr + SLICE, SLICE));
    assert_ok(vmm->ops->map(vmm, addr + SLICE, 1, 6, 1, VT_VMM_READ));
    vt_fake_touch(vmm, addr + SLICE, 1); // nobody can know
    assert_breach(protect(addr, SLICE, VT_VMM_READ), "protect where nothing can be protected");
}

// ---- order

static void finish_all(void)
{
    uint64_t ticket;
    assert_ok(vmm->ops->fence(vmm, &ticket));
    vt_fake_finish(vmm, ticket);
}

FX_TEST(test_queued_work_takes_effect_behind_kernels_and_waits_for_none)
{
    vt_fake_set_async(vmm, true);
    vt_fake_run_writing(vmm, addr, SLICE);
    assert_false(vt_fake_is_zero(vmm, addr, SLICE));
    assert_ok(zero(addr, SLICE, VT_VMM_QUEUED));
    assert_true(vt_fake_is_zero(vmm, addr, SLICE));
    vt_fake_run_writing(vmm, addr + 9, 1);
    assert_ok(copy(addr + SLICE, 1, 5, 0, 100)); // behind that kernel, in front of the next
    vt_fake_run_writing(vmm, addr + 50, 1);
    assert_false(vt_fake_is_zero(vmm, addr + SLICE + 9, 1));
    assert_true(vt_fake_is_zero(vmm, addr + SLICE + 10, SLICE - 10));
    assert_int_equal(vt_fake_look(vmm).n_wait, 0);
    assert_no_breach();
}

#define BREACH_OF_ORDER(name, work, call, what) \
    FX_TEST(name)                               \
    {                                           \
        vt_fake_set_async(vmm, true);           \
        work;                                   \
        assert_breach(call, what);              \
        finish_all();                           \
        assert_ok(call);                        \
    }

static void swap_and_run(void)
{
    assert_ok(vmm->ops->swap_write(vmm, 0, addr, SLICE, &sum));
    vt_fake_run(vmm, addr + 8, 1);
}

static vt_status store(uint64_t index, size_t offset, uintptr_t src, size_t size_bytes)
{
    return vmm->ops->store(vmm, 1, index, offset, src, size_bytes);
}

static void limit_and_run(bool writing, uintptr_t at)
{
    vt_fake_set_max_runs(vmm, 1);
    if (writing)
        vt_fake_run_writing(vmm, at, 1);
    else
        vt_fake_run(vmm, at, 1);
}

static const char writes_used[] = "writing what work uses",
                  reads_written[] = "reading what work writes";

BREACH_OF_ORDER(zero_under_a_kernel, vt_fake_run(vmm, addr + 8, 1), zero(addr, 9, VT_VMM_NOW),
                writes_used)
BREACH_OF_ORDER(fetch_under_a_kernel, vt_fake_run(vmm, addr + 8, 1), fetch(addr, 1, 6, 0, 9),
                writes_used)
BREACH_OF_ORDER(swap_write_of_what_a_kernel_writes, vt_fake_run_writing(vmm, addr, 1),
                vmm->ops->swap_write(vmm, 0, addr, SLICE, &sum), "swap of bytes that work writes")
BREACH_OF_ORDER(swap_read_under_a_kernel, swap_and_run(),
                vmm->ops->swap_read(vmm, addr, 0, SLICE, &sum), writes_used)
BREACH_OF_ORDER(zero_before_a_queued_zero, (void)zero(addr, 9, VT_VMM_QUEUED),
                zero(addr + 8, 2, VT_VMM_NOW), writes_used)
BREACH_OF_ORDER(zero_before_a_queued_copy_arrives, (void)copy(addr, 1, 6, 0, 9),
                zero(addr + 8, 2, VT_VMM_NOW), writes_used)
BREACH_OF_ORDER(zero_before_a_queued_copy_has_read, (void)copy(addr, 1, 6, 20, 9),
                zero(addr + SLICE + 28, 1, VT_VMM_NOW), writes_used)
BREACH_OF_ORDER(fetch_into_what_a_queued_copy_reads, (void)copy(addr, 1, 6, 20, 9),
                fetch(addr + SLICE + 28, 0, 5, 0, 1), writes_used)
BREACH_OF_ORDER(fetch_what_a_queued_zero_wipes, (void)zero(addr + 9, 1, VT_VMM_QUEUED),
                fetch(addr + SLICE, 1, 5, 0, 10), reads_written)
BREACH_OF_ORDER(fetch_what_a_kernel_writes, vt_fake_run_writing(vmm, addr + 9, 1),
                fetch(addr + SLICE, 1, 5, 0, 10), reads_written)

BREACH_OF_ORDER(store_what_a_kernel_writes, limit_and_run(true, addr + 9), store(6, 0, addr + 9, 1),
                reads_written)
BREACH_OF_ORDER(store_under_a_kernel, limit_and_run(false, addr + SLICE + 9), store(6, 8, addr, 2),
                writes_used)

// A kernel uses slices 0 and 2 of a chunk at neighbouring addresses, but not slice 1.
FX_TEST(test_what_lies_between_in_the_chunk_is_not_used)
{
    uintptr_t at = addr + 4 * SLICE;
    assert_ok(create(9, 1));
    assert_ok(map(at, 0, 9, 1));
    assert_ok(map(at + SLICE, 2, 9, 1));
    assert_ok(map(at + 3 * SLICE, 0, 9, 1));
    assert_ok(map(at + 4 * SLICE, 1, 9, 1));
    assert_ok(map(at + 5 * SLICE, 2, 9, 1));
    vt_fake_set_async(vmm, true);
    vt_fake_run(vmm, at + 1, 2 * SLICE - 2);
    assert_ok(zero(at + 3 * SLICE, 1, VT_VMM_NOW));
    assert_ok(zero(at + 4 * SLICE, SLICE, VT_VMM_NOW));
    assert_ok(zero(at + 6 * SLICE - 1, 1, VT_VMM_NOW));
    assert_no_breach();
    assert_int_equal(zero(at + 4 * SLICE - 1, 1, VT_VMM_NOW), VT_EINVAL);
    assert_int_equal(zero(at + 5 * SLICE, 1, VT_VMM_NOW), VT_EINVAL);
    assert_int_equal(zero(at + 6 * SLICE - 2, 1, VT_VMM_NOW), VT_EINVAL);
}

// The chunk is known by whatever address; here kernel and wiping use different ones.
FX_TEST(test_order_is_for_bytes_not_for_addresses)
{
    uintptr_t alias = addr + 4 * SLICE;
    assert_ok(map(alias, 1, 5, 2));
    vt_fake_set_async(vmm, true);
    vt_fake_run(vmm, addr + SLICE - 3, 6); // of both chunks
    assert_ok(zero(alias, SLICE - 3, VT_VMM_NOW));
    assert_ok(zero(alias + SLICE + 3, SLICE - 3, VT_VMM_NOW));
    assert_int_equal(zero(alias + SLICE - 3, 1, VT_VMM_NOW), VT_EINVAL);
    assert_int_equal(zero(alias + SLICE + 2, 1, VT_VMM_NOW), VT_EINVAL);
    assert_ok(unmap(alias, 2 * SLICE)); // the kernel uses the other address
    assert_int_equal(vt_fake_look(vmm).n_violation, 2);
}

FX_TEST(test_the_source_of_a_queued_copy_is_held_until_it_is_done)
{
    uint64_t ticket;
    assert_ok(create(9, 1));
    assert_ok(map(addr + 4 * SLICE, 2, 9, 1));
    assert_ok(unmap(addr + 4 * SLICE, SLICE));
    vt_fake_set_async(vmm, true);
    assert_ok(copy(addr, 2, 9, 0, SLICE)); // chunk 9 is mapped nowhere
    assert_int_equal(destroy(9, 1), VT_EINVAL);
    assert_string_equal(vt_fake_look(vmm).violation, "destroy of a chunk that work uses");
    assert_ok(vmm->ops->fence(vmm, &ticket));
    assert_int_equal(destroy(9, 1), VT_EINVAL); // given is not done
    assert_int_equal(unmap(addr, SLICE), VT_EINVAL);
    assert_ok(vmm->ops->passed(vmm, ticket, false, &flag));
    assert_false(flag);
    vt_fake_finish(vmm, ticket);
    assert_ok(destroy(9, 1));
    assert_ok(unmap(addr, SLICE));
    assert_int_equal(vt_fake_look(vmm).n_wait, 0);
}

FX_TEST(test_unmap_under_queued_wiping_is_a_breach)
{
    vt_fake_set_async(vmm, true);
    assert_ok(zero(addr + SLICE, 1, VT_VMM_QUEUED));
    assert_ok(unmap(addr, SLICE));
    assert_int_equal(unmap(addr + SLICE, SLICE), VT_EINVAL);
    finish_all();
    assert_ok(unmap(addr + SLICE, SLICE));
}

FX_TEST(test_waits_are_counted)
{
    uint64_t ticket;
    assert_ok(vmm->ops->passed(vmm, 0, true, &flag)); // ticket 0 has always passed
    vt_fake_set_async(vmm, true);
    vt_fake_run(vmm, addr, SLICE);
    assert_ok(vmm->ops->fence(vmm, &ticket));
    assert_ok(vmm->ops->passed(vmm, ticket, false, &flag));
    assert_ok(vmm->ops->swap_write(vmm, 0, addr, SLICE, &sum)); // the kernel only reads
    assert_int_equal(vt_fake_look(vmm).n_wait, 0);
    assert_ok(vmm->ops->passed(vmm, ticket, true, &flag));
    assert_true(flag);
    assert_int_equal(vt_fake_look(vmm).n_wait, 1);
    assert_ok(vmm->ops->passed(vmm, ticket, true, &flag)); // even where it would not take long
    assert_int_equal(vt_fake_look(vmm).n_wait, 2);
    assert_ok(unmap(addr, SLICE)); // so all work is done
    assert_no_breach();
}

static void *queue_from_beside(void *arg)
{
    (void)arg;
    uint64_t ticket;
    return (void *)(intptr_t)(zero(addr, SLICE, VT_VMM_NOW) == VT_OK &&
                              zero(addr, SLICE, VT_VMM_QUEUED) == VT_EINVAL &&
                              copy(addr, 1, 6, 0, 1) == VT_EINVAL &&
                              vmm->ops->fence(vmm, &ticket) == VT_EINVAL);
}

FX_TEST(test_only_the_owner_queues)
{
    pthread_t beside;
    void *as_wanted;
    vt_fake_set_async(vmm, true);
    assert_int_equal(pthread_create(&beside, NULL, queue_from_beside, NULL), 0);
    assert_int_equal(pthread_join(beside, &as_wanted), 0);
    assert_non_null(as_wanted);
    assert_int_equal(vt_fake_look(vmm).n_violation, 3);
}

FX_RUN_EACH(test_vt_fake_order, setup, teardown)
