// test_vt_cuda.c - the GPU backend, call by call, on the stand-in for NVIDIA's driver: it keeps its
// contract and the driver's rules, and leaves nothing behind.
#include <unistd.h>

#include "cuda_rig.h"
#include "suite.h"
#include "unit/in_child.h"

// The system can read there (without dying of it when it cannot).
static bool is_readable(uintptr_t addr)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    bool readable = write(ends[1], (const void *)addr, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return readable;
}

FX_TEST(test_tells_what_it_is)
{
    assert_string_equal(vmm->ops->name, "cuda");
    assert_int_equal(vmm->ops->granularity(vmm), STANDIN_GRANULARITY);
    assert_true(vmm->ops->max_runs(vmm) == UINT64_MAX);
    assert_false(vmm->ops->can_protect(vmm));
    assert_false(vmm->ops->creates_zeroed(vmm));
    assert_null(vmm->ops->store);
}

FX_TEST(test_memory_comes_and_goes)
{
    assert_ok(vmm->ops->create(vmm, 3, 5));
    assert_ok(vmm->ops->create(vmm, FAR, 2));
    assert_int_equal(resident(), 7 * N_SLICE * SLICE);
    assert_int_equal(standin_look().memory_bytes, resident());
    assert_ok(vmm->ops->destroy(vmm, 4, 3));
    assert_int_equal(standin_look().memory_bytes, 4 * N_SLICE * SLICE);
    assert_ok(vmm->ops->destroy(vmm, 3, 1));
    assert_ok(vmm->ops->destroy(vmm, 7, 1));
    assert_ok(vmm->ops->destroy(vmm, FAR, 2));
    assert_int_equal(resident(), 0);
}

// Strewn over the indices.
FX_TEST(test_many_chunks_are_found_again)
{
    enum { N = 150 };
    const uint64_t step = N_INDEX / N;
    for (uint64_t i = 0; i < N; i++) assert_ok(vmm->ops->create(vmm, i * step, 1));
    for (uint64_t i = 0; i < N; i++) {
        assert_ok(map(0, 2, i * step, 1));
        memset((void *)place(0), (int)i, SLICE);
        assert_ok(unmap(0, 1));
    }
    for (uint64_t i = 0; i < N; i++) {
        assert_ok(map(1, 2, i * step, 1));
        assert_bytes(place(1), (int)i, SLICE);
        assert_ok(unmap(1, 1));
        assert_ok(vmm->ops->destroy(vmm, i * step, 1));
    }
}

FX_TEST(test_bytes_belong_to_chunk_and_slice)
{
    assert_ok(vmm->ops->create(vmm, FAR, 2));
    for (int s = 0; s < N_SLICE; s++) {
        assert_ok(map(2 * s, (uint32_t)s, FAR, 2));
        memset((void *)place(2 * s), 'a' + s, SLICE);
        memset((void *)place(2 * s + 1), 'A' + s, SLICE);
    }
    assert_int_equal(bytes_mapped(), 2 * N_SLICE * SLICE);
    assert_ok(unmap(0, 2 * N_SLICE));
    assert_int_equal(bytes_mapped(), 0);
    for (int s = 0; s < N_SLICE; s++) { // the other way round
        assert_ok(map(8, (uint32_t)s, FAR + 1, 1));
        assert_ok(map(9, (uint32_t)s, FAR, 1));
        assert_bytes(place(8), 'A' + s, SLICE);
        assert_bytes(place(9), 'a' + s, SLICE);
        assert_ok(unmap(8, 2));
    }
    assert_ok(vmm->ops->destroy(vmm, FAR, 2));
}

FX_TEST(test_an_alias_shows_the_same_bytes)
{
    assert_ok(vmm->ops->create(vmm, 7, 2));
    assert_ok(map(0, 0, 7, 2));
    memset((void *)place(1), 'k', SLICE);
    assert_ok(vmm->ops->map(vmm, place(10), 0, 8, 1, VT_VMM_ALIAS));
    assert_bytes(place(10), 'k', SLICE);
    memset((void *)place(10), 'l', 100);
    assert_bytes(place(1), 'l', 100);
    assert_ok(unmap(0, 2));
    assert_bytes(place(10), 'l', 100);
    assert_ok(unmap(10, 1));
    assert_ok(vmm->ops->destroy(vmm, 7, 2));
}

FX_TEST(test_access_is_set_once_for_a_run)
{
    uint64_t maps = standin_calls("cuMemMap"), accesses = standin_calls("cuMemSetAccess");
    uint64_t unmaps = standin_calls("cuMemUnmap");
    assert_ok(vmm->ops->create(vmm, 0, 8));
    assert_ok(map(3, 0, 0, 8));
    assert_int_equal(standin_calls("cuMemMap") - maps, 8);
    assert_int_equal(standin_calls("cuMemSetAccess") - accesses, 1);
    assert_ok(unmap(3, 8));
    assert_int_equal(standin_calls("cuMemUnmap") - unmaps, 1);
    assert_int_equal(standin_calls("cuCtxPushCurrent_v2"), 0); // it is current already
    assert_ok(vmm->ops->destroy(vmm, 0, 8));
}

// Chunks that are no neighbours, one of them twice.
FX_TEST(test_access_is_set_once_for_many_chunks)
{
    static const uint64_t index[] = {5, FAR, 2, 5, 3};
    enum { N = sizeof index / sizeof *index };
    assert_ok(vmm->ops->create(vmm, 2, 4));
    assert_ok(vmm->ops->create(vmm, FAR, 1));
    for (int i = 0; i < N; i++) {
        assert_ok(map(0, 1, index[i], 1));
        memset((void *)place(0), (int)(index[i] % 251), SLICE);
        assert_ok(unmap(0, 1));
    }
    uint64_t maps = standin_calls("cuMemMap"), accesses = standin_calls("cuMemSetAccess");
    assert_ok(vmm->ops->map_each(vmm, place(2), 1, index, N, VT_VMM_READ));
    assert_int_equal(standin_calls("cuMemMap") - maps, N);
    assert_int_equal(standin_calls("cuMemSetAccess") - accesses, 1);
    assert_int_equal(bytes_mapped(), N * SLICE);
    for (int i = 0; i < N; i++) assert_bytes(place(2 + i), (int)(index[i] % 251), SLICE);
    assert_ok(unmap(2, N));
    assert_ok(vmm->ops->destroy(vmm, 2, 4));
    assert_ok(vmm->ops->destroy(vmm, FAR, 1));
}

FX_TEST(test_what_is_not_mapped_faults)
{
    assert_ok(vmm->ops->create(vmm, 0, 2));
    assert_false(is_readable(place(0)));
    assert_ok(map(0, 0, 0, 2));
    assert_true(is_readable(place(1)));
    assert_false(is_readable(place(2)));
    assert_ok(unmap(1, 1));
    assert_true(is_readable(place(0)));
    assert_false(is_readable(place(1)));
    assert_ok(unmap(0, 1));
    assert_ok(vmm->ops->destroy(vmm, 0, 2));
}

// Slices of two lengths, side by side; unmapping ends mappings of both.
FX_TEST(test_classes_have_chunks_of_their_own)
{
    assert_ok(vmm->ops->create(vmm, BROAD - 1, 1));
    assert_ok(vmm->ops->create(vmm, BROAD, 2));
    assert_int_equal(resident(), N_SLICE * SLICE + 2 * WIDE);
    assert_int_equal(standin_look().memory_bytes, resident());
    assert_ok(map(0, 2, BROAD - 1, 1));
    assert_ok(vmm->ops->map(vmm, place(1), 0, BROAD, 2, VT_VMM_WRITE));
    assert_int_equal(bytes_mapped(), SLICE + 2 * WIDE);
    memset((void *)place(0), 'n', SLICE);
    memset((void *)place(1), 'w', WIDE);
    memset((void *)(place(1) + WIDE), 'x', WIDE);
    assert_ok(vmm->ops->unmap(vmm, place(0), SLICE + 2 * WIDE));
    assert_int_equal(bytes_mapped(), 0);
    assert_ok(vmm->ops->map(vmm, place(8), 0, BROAD + 1, 1, VT_VMM_WRITE));
    assert_bytes(place(8), 'x', WIDE);
    assert_ok(vmm->ops->fetch(vmm, place(8) + 9, 0, BROAD, WIDE - 9, 9, VT_VMM_NOW));
    assert_bytes(place(8) + 9, 'w', 9);
    assert_bytes(place(8) + 18, 'x', WIDE - 18);
    assert_ok(vmm->ops->unmap(vmm, place(8), WIDE));
    assert_ok(vmm->ops->destroy(vmm, BROAD - 1, 1));
    assert_ok(vmm->ops->destroy(vmm, BROAD, 2));
    assert_int_equal(resident(), 0);
}

FX_TEST(test_fetch_reads_what_is_mapped_nowhere)
{
    create_filled(0, 1, 's');
    create_filled(1, 1, 'd');
    assert_ok(map(5, 1, 1, 1));
    assert_ok(vmm->ops->fetch(vmm, place(5) + 7, 1, 0, 3, 1001, VT_VMM_NOW));
    assert_bytes(place(5), 'd', 7);
    assert_bytes(place(5) + 7, 's', 1001);
    assert_bytes(place(5) + 1008, 'd', SLICE - 1008);
    assert_int_equal(bytes_mapped(), SLICE);
    assert_int_equal(standin_look().n_mapping, 1);
    assert_ok(unmap(5, 1));
    assert_ok(vmm->ops->destroy(vmm, 0, 2));
}

FX_TEST(test_copies_are_one_piece_of_work)
{
    create_filled(0, 2, 's');
    create_filled(2, 1, 'd');
    assert_ok(map(0, 0, 0, 2));
    assert_ok(map(2, 0, 2, 1));
    const vt_vmm_copy copy[] = {{place(2) + 7, place(1) - 5, 11}, {place(2) + 100, place(0), 3}};
    for (int order = VT_VMM_NOW; order <= VT_VMM_QUEUED; order++) {
        const uint64_t n_wait = standin_waits();
        assert_ok(vmm->ops->zero(vmm, place(2), SLICE, (vt_vmm_order)order));
        assert_ok(vmm->ops->copy_each(vmm, copy, 2, (vt_vmm_order)order));
        assert_int_equal(standin_waits() > n_wait, order == VT_VMM_NOW);
        assert_true(passed(fence(), true));
        assert_bytes(place(2), 0, 7);
        assert_bytes(place(2) + 7, 's', 11);
        assert_bytes(place(2) + 18, 0, 82);
        assert_bytes(place(2) + 100, 's', 3);
        assert_bytes(place(2) + 103, 0, SLICE - 103);
    }
    assert_ok(unmap(0, 3));
    assert_ok(vmm->ops->destroy(vmm, 0, 3));
}

FX_TEST(test_zero_takes_any_range)
{
    create_filled(0, 2, 'z');
    assert_ok(map(0, 0, 0, 2));
    assert_ok(vmm->ops->zero(vmm, place(1) - 5, 11, VT_VMM_NOW));
    assert_bytes(place(0), 'z', SLICE - 5);
    assert_bytes(place(1) - 5, 0, 11);
    assert_bytes(place(1) + 6, 'z', SLICE - 6);
    assert_ok(unmap(0, 2));
    assert_ok(vmm->ops->destroy(vmm, 0, 2));
}

// The context of another device is current; it is again afterwards.
FX_TEST(test_a_foreign_context_comes_back)
{
    standin_use_context(1);
    assert_ok(vmm->ops->create(vmm, 0, 1));
    assert_ok(map(0, 0, 0, 1));
    assert_ok(unmap(0, 1));
    assert_ok(vmm->ops->destroy(vmm, 0, 1));
    assert_int_equal(standin_context_depth(), 1);
}

FX_TEST(test_memory_runs_out)
{
    uintptr_t addr;
    standin_limit_memory(4 * N_SLICE * SLICE + SLICE);
    assert_ok(vmm->ops->create(vmm, 0, 2));
    assert_int_equal(vmm->ops->create(vmm, 2, 3), VT_NOSPACE);
    assert_int_equal(resident(), 2 * N_SLICE * SLICE);
    assert_int_equal(standin_look().memory_bytes, resident());
    assert_ok(vmm->ops->create(vmm, 2, 2));
    assert_ok(vmm->ops->destroy(vmm, 0, 4));
    standin_limit_addresses(0);
    assert_int_equal(vmm->ops->reserve(vmm, SLICE, &addr), VT_NOSPACE);
}

// It needs a granule of each to try read-only access.
FX_TEST(test_close_takes_what_is_left)
{
    vt_vmm *first = vmm;
    uint64_t sum;
    assert_ok(open_vmm());
    assert_ok(vmm->ops->configure(vmm, &rig_geometry));
    assert_ok(vmm->ops->create(vmm, 90, 10));
    assert_ok(map(0, 0, 90, 2));
    assert_ok(vmm->ops->swap_open(vmm, NULL, SLICE));
    assert_ok(vmm->ops->swap_write(vmm, 0, place(0), SLICE, &sum));
    assert_ok(vmm->ops->fetch(vmm, place(0), 0, 95, 0, SLICE, VT_VMM_NOW));
    void *event = standin_new_event(NULL);
    assert_ok(vt_vmm_cuda_await(vmm, event));
    standin_drop_event(event);
    assert_true(passed(fence(), true));
    assert_ok(unmap(0, 2));
    vmm->ops->close(vmm);
    vmm = first;
    standin_settle();
    standin_report r = standin_look();
    assert_int_equal(r.n_handle + r.n_pinned + r.n_event, 0);
    assert_int_equal(r.n_stream, 2);      // of the first
    assert_int_equal(r.n_reservation, 1); // `base`
}

// The copy reads a window of the backend that is closed.
FX_TEST(test_close_waits_for_its_windows)
{
    vt_vmm *first = vmm;
    create_filled(0, 1, 'd');
    assert_ok(map(0, 0, 0, 1));
    assert_ok(open_vmm());
    assert_ok(vmm->ops->configure(vmm, &rig_geometry));
    create_filled(0, 1, 's');
    assert_ok(vmm->ops->fetch(vmm, place(0), 0, 0, 0, SLICE, VT_VMM_QUEUED));
    vmm->ops->close(vmm);
    vmm = first;
    assert_bytes(place(0), 's', SLICE);
    assert_ok(unmap(0, 1));
    assert_ok(vmm->ops->destroy(vmm, 0, 1));
}

enum { N_ROUND = 60 };

// Half of the chunks and places belongs to each of two threads.
static vt_status work_on_half(int half)
{
    int at = half * N_PLACE / 2;
    uint64_t index = half ? FAR : 0;
    vt_status st = VT_OK;
    for (int i = 0; i < N_ROUND && st == VT_OK; i++) {
        st = vmm->ops->create(vmm, index, 2);
        if (st == VT_OK) st = map(at, 0, index, 2);
        if (st == VT_OK) st = vmm->ops->zero(vmm, place(at), 99, VT_VMM_NOW);
        if (st == VT_OK) memset((void *)place(at), i, SLICE);
        if (st == VT_OK) st = vmm->ops->fetch(vmm, place(at + 1), 0, index, 0, SLICE, VT_VMM_NOW);
        if (st == VT_OK && memcmp((void *)place(at), (void *)place(at + 1), SLICE) != 0)
            st = VT_EINVAL;
        if (st == VT_OK) st = unmap(at, 2);
        if (st == VT_OK) st = vmm->ops->destroy(vmm, index, 2);
    }
    return st;
}

static uint64_t awaited;

static vt_status work_on_far_half(void)
{
    vt_status st = work_on_half(1);
    bool is_passed = false;
    if (st == VT_OK) st = vmm->ops->passed(vmm, awaited, true, &is_passed);
    return is_passed ? st : VT_EINVAL;
}

FX_TEST(test_two_threads_work_at_once)
{
    errand e;
    awaited = fence();
    send(&e, work_on_far_half);
    assert_ok(work_on_half(0));
    for (int i = 0; i < 100; i++) assert_true(passed(fence(), true));
    meet(&e);
    assert_int_equal(resident() + bytes_mapped(), 0);
}

// A child has no context: it asks the driver for nothing, whatever it calls.
static void use_copy(void *of)
{
    vt_vmm *copy = of;
    uint64_t calls = standin_calls(NULL), ticket;
    bool is_refused = copy->ops->create(copy, 1, 1) == VT_EDEVICE &&
                      copy->ops->destroy(copy, 0, 1) == VT_EDEVICE &&
                      copy->ops->zero(copy, place(0), 1, VT_VMM_NOW) == VT_EDEVICE &&
                      copy->ops->unmap(copy, place(0), SLICE) == VT_EDEVICE &&
                      copy->ops->unreserve(copy, base, N_PLACE * SLICE) == VT_EDEVICE &&
                      copy->ops->fence(copy, &ticket) == VT_OK;
    copy->ops->close(copy);
    if (!is_refused || standin_calls(NULL) != calls) _exit(1);
}

FX_TEST(test_a_child_leaves_the_parents_memory)
{
    assert_ok(vmm->ops->create(vmm, 0, 1));
    assert_ok(map(0, 0, 0, 1));
    memset((void *)place(0), 0x5a, SLICE);
    run_in_child(use_copy, vmm);
    assert_int_equal(resident(), N_SLICE * SLICE);
    assert_bytes(place(0), 0x5a, SLICE);
    assert_ok(unmap(0, 1));
    assert_ok(vmm->ops->destroy(vmm, 0, 1));
}

FX_RUN_EACH(test_vt_cuda, rig_setup, rig_teardown)
