// test_vt_fake.c - the fake backend itself: it finds every breach of the contract of vmm.h (a test
// for each). What depends on access and order is in test_vt_fake_order.c.
#include "fake_rig.h"
#include "suite.h"

#define BREACH(name, call, what)   \
    FX_TEST(name)                  \
    {                              \
        assert_breach(call, what); \
    }

static const vt_vmm_geometry any_geo = {.n_class = 1, .cls = {{1, PAGE, 1}}};

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
BREACH(map_no_use, vmm->ops->map(vmm, addr + 2 * SLICE, 1, 5, 1, (vt_vmm_use)3), "map for no use")
BREACH(unmap_half, unmap(addr, PAGE / 2), "unmap or protect of no whole slices")
BREACH(unmap_shifted, unmap(addr + PAGE, SLICE), "unmap or protect of a part of a slice")
BREACH(unmap_reserved, unmap(addr + SLICE, 2 * SLICE), "unmap or protect of what is not mapped")
BREACH(unmap_outside, unmap(addr + ROOM, SLICE), "unmap or protect outside a reservation")
BREACH(protect_half, protect(addr, PAGE / 2, VT_VMM_READ), "unmap or protect of no whole slices")
BREACH(protect_shifted, protect(addr + PAGE, SLICE, VT_VMM_READ),
       "unmap or protect of a part of a slice")
BREACH(protect_reserved, protect(addr + SLICE, 2 * SLICE, VT_VMM_READ),
       "unmap or protect of what is not mapped")
BREACH(protect_no_use, protect(addr, SLICE, VT_VMM_ALIAS), "protect for no use")
BREACH(fetch_missing, fetch(addr, 0, 7, 0, PAGE), "a copy with a chunk that is not created")
BREACH(fetch_self, fetch(addr, 0, 5, 0, PAGE), "a copy from a chunk into itself")
BREACH(fetch_beyond, fetch(addr, 0, 6, PAGE, PAGE + 1), "a copy of bytes out of range")
BREACH(fetch_no_slice, fetch(addr, N_SLICE, 6, 0, PAGE), "a copy of bytes out of range")
BREACH(fetch_unmapped, fetch(addr + 2 * SLICE - 8, 0, 5, 0, 9), "access to what is not mapped")
BREACH(zero_unmapped, vmm->ops->zero(vmm, addr + 2 * SLICE - 1, 2, VT_VMM_NOW),
       "access to what is not mapped")
BREACH(store_unlimited, vmm->ops->store(vmm, 0, 6, 0, addr, SLICE),
       "store where runs have no limit")
BREACH(ticket_unknown, vmm->ops->passed(vmm, 1, false, &flag), "a ticket that no fence gave")
BREACH(swap_twice, vmm->ops->swap_open(vmm, "x", PAGE), "swap opened twice")
BREACH(swap_beyond, vmm->ops->swap_write(vmm, 7 * SLICE, addr, 2 * SLICE, &sum),
       "swap out of range")
BREACH(swap_odd, vmm->ops->swap_write(vmm, 8, addr, SLICE, &sum), "swap at an odd offset")
BREACH(swap_unmapped, vmm->ops->swap_write(vmm, 0, addr + SLICE, 2 * SLICE, &sum),
       "access to what is not mapped")
BREACH(swap_unwritten, vmm->ops->swap_read(vmm, addr, 0, SLICE, &sum),
       "swap read of what was never written")

FX_TEST(test_call_before_configure)
{
    vt_vmm *other = vt_fake_open();
    assert_non_null(other);
    assert_int_equal(other->ops->reserve(other, PAGE, &(uintptr_t){0}), VT_EINVAL);
    assert_int_equal(other->ops->create(other, 0, 1), VT_EINVAL);
    assert_int_equal(other->ops->swap_write(other, 0, addr, PAGE, &sum), VT_EINVAL);
    assert_int_equal(vt_fake_look(other).n_violation, 3);
    other->ops->close(other);
}

FX_TEST(test_an_address_that_is_gone_stays_gone)
{
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

FX_TEST(test_a_slice_may_be_mapped_many_times)
{
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

FX_TEST(test_runs_are_counted_as_the_host_merges_them)
{
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

FX_TEST(test_dirt_is_known_to_the_byte)
{
    vt_fake_touch(vmm, addr + 100, 50);
    assert_true(vt_fake_is_zero(vmm, addr, 100));
    assert_true(vt_fake_is_zero(vmm, addr + 150, 2 * SLICE - 150));
    assert_false(vt_fake_is_zero(vmm, addr + 149, 1));
    assert_ok(vmm->ops->zero(vmm, addr + 120, SLICE, VT_VMM_NOW));
    assert_true(vt_fake_is_zero(vmm, addr + 120, PAGE));
    assert_false(vt_fake_is_zero(vmm, addr + 119, PAGE));
    assert_ok(vmm->ops->zero(vmm, addr, 120, VT_VMM_NOW));
    assert_true(vt_fake_is_zero(vmm, addr, 2 * SLICE));
    vt_fake_touch(vmm, addr + PAGE - 1, 2);
    assert_false(vt_fake_is_zero(vmm, addr, PAGE));
    assert_false(vt_fake_is_zero(vmm, addr + PAGE, PAGE));
    assert_no_breach();
}

FX_TEST(test_dirt_stays_with_the_chunk_until_it_is_destroyed)
{
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

FX_TEST(test_fetch_brings_dirt_along)
{
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

FX_TEST(test_swap_keeps_dirt_and_sums)
{
    uint64_t back;
    vt_fake_touch(vmm, addr + 7, 9);
    assert_ok(vmm->ops->swap_write(vmm, SLICE, addr, 2 * SLICE, &sum));
    assert_int_equal(vt_fake_look(vmm).swapped_bytes, 2 * SLICE);
    assert_ok(vmm->ops->zero(vmm, addr, 2 * SLICE, VT_VMM_NOW));
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

FX_TEST(test_a_drop_outside_the_swap_is_a_breach)
{
    vmm->ops->swap_drop(vmm, 8 * SLICE, PAGE);
    assert_breach(VT_EINVAL, "swap out of range");
}

FX_TEST(test_unmap_under_a_kernel_is_a_breach)
{
    uint64_t ticket;
    vt_fake_set_async(vmm, true);
    vt_fake_run(vmm, addr + SLICE + 100, 1);
    assert_breach(unmap(addr, 2 * SLICE), "unmap of what work uses");
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

FX_TEST(test_a_fence_is_for_what_was_given_before_it)
{
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

FX_TEST(test_a_kernel_must_not_read_what_is_not_mapped)
{
    vt_fake_run(vmm, addr + 2 * SLICE - 1, 2);
    assert_breach(VT_EINVAL, "access to what is not mapped");
}

FX_TEST(test_without_async_nothing_runs)
{
    uint64_t ticket = 9;
    vt_fake_run(vmm, addr, SLICE);
    assert_ok(vmm->ops->fence(vmm, &ticket));
    assert_int_equal(ticket, 0);
    assert_ok(vmm->ops->passed(vmm, 0, true, &flag));
    assert_true(flag);
    assert_ok(unmap(addr, SLICE));
    assert_no_breach();
}

// ---- classes

FX_TEST(test_each_class_has_its_own_shape)
{
    vt_vmm_geometry geo = {.n_class = 3, .cls = {{2, PAGE, 4}, {1, 3 * PAGE, 2}, {1, PAGE, 9}}};
    uint64_t bytes, n;
    vt_vmm *v = vt_fake_open();
    assert_non_null(v);
    assert_ok(v->ops->configure(v, &geo));
    assert_ok(v->ops->reserve(v, 16 * PAGE, &addr));
    assert_int_equal(v->ops->create(v, 3, 2), VT_EINVAL); // of two classes
    assert_int_equal(v->ops->create(v, 15, 1), VT_EINVAL);
    assert_ok(v->ops->create(v, 2, 2));
    assert_ok(v->ops->create(v, 4, 2));
    assert_ok(v->ops->create(v, 14, 1));
    assert_ok(v->ops->resident(v, &bytes));
    assert_int_equal(bytes, (2 * 2 + 3 + 3 + 1) * PAGE);
    assert_int_equal(v->ops->map(v, addr, 1, 4, 1, VT_VMM_WRITE), VT_EINVAL); // has one slice only
    assert_int_equal(vt_fake_look(v).n_violation, 3);
    assert_ok(v->ops->map(v, addr, 1, 2, 2, VT_VMM_WRITE));
    assert_ok(v->ops->map(v, addr + 2 * PAGE, 0, 4, 2, VT_VMM_WRITE));
    assert_ok(v->ops->map(v, addr + 8 * PAGE, 0, 14, 1, VT_VMM_WRITE));
    assert_ok(v->ops->mapped(v, &bytes, &n));
    assert_int_equal(bytes, 9 * PAGE);
    assert_int_equal(n, 3);
    assert_int_equal(vt_fake_look(v).n_mapped, 5);
    assert_int_equal(v->ops->unmap(v, addr + PAGE, 2 * PAGE), VT_EINVAL); // and a third of a slice
    vt_fake_touch(v, addr + 5 * PAGE - 1, 1);
    assert_ok(v->ops->unmap(v, addr + PAGE, 7 * PAGE)); // of two classes
    assert_ok(v->ops->fetch(v, addr, 0, 4, 3 * PAGE - 1, 1, VT_VMM_NOW));
    assert_false(vt_fake_is_zero(v, addr, 1));
    assert_int_equal(v->ops->fetch(v, addr, 0, 4, 3 * PAGE, 1, VT_VMM_NOW), VT_EINVAL);
    assert_int_equal(vt_fake_look(v).n_violation, 5);
    v->ops->close(v);
}

FX_TEST(test_geometries_out_of_range_are_breaches)
{
    static const vt_vmm_geometry bad[] = {
        {.n_class = 0},
        {.n_class = VT_VMM_MAX_CLASS + 1},
        {.n_class = 1, .cls = {{0, PAGE, 1}}},
        {.n_class = 1, .cls = {{1, 0, 1}}},
        {.n_class = 1, .cls = {{1, PAGE + 1, 1}}},
        {.n_class = 1, .cls = {{1, PAGE, 0}}},
        {.n_class = 1, .cls = {{UINT32_MAX, (size_t)PAGE << 32, 1}}},
        {.n_class = 2, .cls = {{1, PAGE, UINT64_MAX / PAGE}, {1, PAGE, 1}}},
    };
    vt_vmm *v = vt_fake_open();
    assert_non_null(v);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(v->ops->configure(v, &bad[i]), VT_EINVAL);
    v->ops->close(v);
}

// ---- create without wiping

FX_TEST(test_created_chunks_may_be_dirty)
{
    assert_true(vmm->ops->creates_zeroed(vmm));
    vt_fake_set_dirty_create(vmm, true);
    assert_false(vmm->ops->creates_zeroed(vmm));
    assert_ok(create(9, 1));
    for (uint32_t s = 0; s < N_SLICE; s++) {
        uintptr_t at = addr + (4 + s) * SLICE;
        assert_ok(map(at, s, 9, 1));
        assert_false(vt_fake_is_zero(vmm, at, 1));
        assert_false(vt_fake_is_zero(vmm, at + SLICE - 1, 1));
        assert_ok(zero(at, SLICE, VT_VMM_QUEUED));
        assert_true(vt_fake_is_zero(vmm, at, SLICE));
    }
    assert_true(vt_fake_is_zero(vmm, addr, 2 * SLICE)); // created before
    assert_no_breach();
}

FX_TEST(test_chunks_are_limited_when_asked_for)
{
    vt_fake_set_max_chunks(vmm, 4);
    assert_int_equal(create(N_INDEX - 3, 3), VT_NOSPACE);
    assert_ok(create(N_INDEX - 2, 2));
    vt_fake_set_max_chunks(vmm, 1);
    assert_int_equal(create(0, 1), VT_NOSPACE);
    assert_no_breach();
}

FX_TEST(test_many_chunks_far_apart)
{
    uint64_t size_bytes;
    for (uint64_t i = 0; i < 1000; i++) assert_ok(create((i << 30) + 7, 1));
    for (uint64_t i = 0; i < 1000; i++) assert_int_equal(create((i << 30) + 7, 1), VT_EINVAL);
    assert_ok(vmm->ops->resident(vmm, &size_bytes));
    assert_int_equal(size_bytes, 1002 * N_SLICE * SLICE);
    for (uint64_t i = 0; i < 1000; i++) assert_ok(destroy((i << 30) + 7, 1));
    assert_ok(vmm->ops->resident(vmm, &size_bytes));
    assert_int_equal(size_bytes, 2 * N_SLICE * SLICE);
}

FX_RUN_EACH(test_vt_fake, setup, teardown)
