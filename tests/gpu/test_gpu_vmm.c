// test_gpu_vmm.c - the GPU backend on a GPU: the contract of every operation, with the bytes copied
// back and compared.
//
// Skipped if there is no GPU. It also runs on the stand-in for the driver, which shows that the
// test is right.
#include <pthread.h>

#include "gpu_rig.h"

// Memory that was full of something goes back to the driver, and comes again, and is wiped.
FX_TEST_WITH(test_wiped_memory_is_zero, setup, teardown)
{
    assert_false(vmm->ops->creates_zeroed(vmm));
    for (int round = 0; round < 3; round++) {
        create_chunks(0, 16);
        assert_ok(map_at(0, 0, 0, 16));
        assert_ok(vmm->ops->zero(vmm, place_at(0), 16 * slice, VT_VMM_NOW));
        for (int i = 0; i < 16; i++) assert_bytes(place_at(i), 0, slice);
        fill_bytes(place_at(0), 0xEE, 16 * slice);
        assert_ok(unmap_at(0, 16));
        destroy_chunks(0, 16);
    }
}

FX_TEST_WITH(test_bytes_belong_to_chunk_and_slice, setup, teardown)
{
    create_chunks(5, 2);
    for (int s = 0; s < N_SLICE; s++) {
        assert_ok(map_at(2 * s, (uint32_t)s, 5, 2));
        fill_bytes(place_at(2 * s), 'a' + s, slice);
        fill_bytes(place_at(2 * s + 1), 'A' + s, slice);
    }
    assert_ok(unmap_at(0, 2 * N_SLICE)); // what two calls have mapped
    for (int s = 0; s < N_SLICE; s++) {
        assert_ok(map_at(8, (uint32_t)s, 6, 1));
        assert_ok(map_at(9, (uint32_t)s, 5, 1));
        assert_bytes(place_at(8), 'A' + s, slice);
        assert_bytes(place_at(9), 'a' + s, slice);
        assert_ok(unmap_at(8, 2));
    }
    destroy_chunks(5, 2);
}

// Device and host write through one address and read through the other, one after the other.
FX_TEST_WITH(test_an_alias_shows_the_same_bytes, setup, teardown)
{
    create_chunks(0, 2);
    assert_ok(map_at(0, 0, 0, 2));
    for (int round = 0; round < 20; round++) {
        fill_bytes(place_at(0), round, slice);
        assert_ok(vmm->ops->map(vmm, place_at(20), 0, 0, 1, VT_VMM_ALIAS));
        assert_bytes(place_at(20), round, slice);
        memset(bytes, round + 100, slice);
        assert_true(gpu_write(gpu, place_at(20) + 64, bytes, 1000));
        assert_bytes(place_at(0) + 64, round + 100, 1000);
        fill_bytes(place_at(20), round + 50, 64);
        assert_bytes(place_at(0), round + 50, 64);
        assert_bytes(place_at(0) + 1064, round, slice - 1064);
        assert_ok(unmap_at(20, 1));
    }
    assert_ok(unmap_at(0, 2));
    destroy_chunks(0, 2);
}

// Slices of two lengths, side by side; unmapping ends mappings of both.
FX_TEST_WITH(test_classes_have_chunks_of_their_own, setup, teardown)
{
    uint64_t resident, mapped, n;
    create_chunks(BROAD - 1, 1);
    create_chunks(BROAD, 1);
    assert_ok(vmm->ops->resident(vmm, &resident));
    assert_true(resident == (N_SLICE + 2) * slice);
    assert_ok(map_at(0, 0, BROAD - 1, 1));
    assert_ok(map_at(1, 0, BROAD, 1));
    fill_bytes(place_at(0), 'n', slice);
    fill_bytes(place_at(1), 'w', 2 * slice);
    assert_bytes(place_at(0), 'n', slice);
    assert_bytes(place_at(2), 'w', slice);
    assert_ok(vmm->ops->mapped(vmm, &mapped, &n));
    assert_true(mapped == 3 * slice);
    assert_ok(unmap_at(0, 3));
    assert_ok(vmm->ops->mapped(vmm, &mapped, &n));
    assert_true(mapped == 0);
    destroy_chunks(BROAD - 1, 1);
    destroy_chunks(BROAD, 1);
}

FX_TEST_WITH(test_fetch_reads_what_is_mapped_nowhere, setup, teardown)
{
    create_chunks(0, 2);
    assert_ok(map_at(0, 1, 0, 1));
    fill_bytes(place_at(0), 's', slice);
    assert_ok(unmap_at(0, 1));
    assert_ok(map_at(5, 1, 1, 1));
    fill_bytes(place_at(5), 'd', slice);
    assert_ok(vmm->ops->fetch(vmm, place_at(5) + 7, 1, 0, 3, 1001, VT_VMM_NOW));
    assert_bytes(place_at(5), 'd', 7);
    assert_bytes(place_at(5) + 7, 's', 1001);
    assert_bytes(place_at(5) + 1008, 'd', slice - 1008);
    assert_ok(unmap_at(5, 1));
    destroy_chunks(0, 2);
}

FX_TEST_WITH(test_copies_are_one_call, setup, teardown)
{
    create_chunks(0, 2);
    assert_ok(map_at(0, 0, 0, 2));
    for (int order = VT_VMM_NOW; order <= VT_VMM_QUEUED; order++) {
        fill_bytes(place_at(0), 's', slice);
        fill_bytes(place_at(1), 'd', slice);
        const vt_vmm_copy copy[] = {{place_at(1) + 7, place_at(0) + 3, 1001},
                                    {place_at(2) - 5, place_at(0), 5}};
        assert_ok(vmm->ops->copy_each(vmm, copy, 2, (vt_vmm_order)order));
        uint64_t ticket;
        bool passed = false;
        assert_ok(vmm->ops->fence(vmm, &ticket));
        assert_ok(vmm->ops->passed(vmm, ticket, true, &passed));
        assert_true(passed);
        assert_bytes(place_at(1), 'd', 7);
        assert_bytes(place_at(1) + 7, 's', 1001);
        assert_bytes(place_at(1) + 1008, 'd', slice - 1013);
        assert_bytes(place_at(2) - 5, 's', 5);
    }
    assert_ok(unmap_at(0, 2));
    destroy_chunks(0, 2);
}

FX_TEST_WITH(test_zero_takes_any_range, setup, teardown)
{
    create_chunks(0, 2);
    assert_ok(map_at(0, 0, 0, 2));
    fill_bytes(place_at(0), 'z', 2 * slice);
    assert_ok(vmm->ops->zero(vmm, place_at(1) - 5, 11, VT_VMM_NOW));
    assert_bytes(place_at(0), 'z', slice - 5);
    assert_bytes(place_at(1) - 5, 0, 11);
    assert_bytes(place_at(1) + 6, 'z', slice - 6);
    assert_ok(unmap_at(0, 2));
    destroy_chunks(0, 2);
}

FX_TEST_WITH(test_fences_are_passed_in_order, setup, teardown)
{
    uint64_t ticket[100];
    bool is_passed = true;
    create_chunks(0, 1);
    assert_ok(map_at(0, 0, 0, 1));
    assert_ok(vmm->ops->passed(vmm, 0, false, &is_passed));
    assert_true(is_passed);
    for (int i = 0; i < 100; i++) {
        assert_true(gpu_fill(gpu, NULL, place_at(0), (unsigned char)i, slice));
        assert_ok(vmm->ops->fence(vmm, &ticket[i]));
        assert_true(ticket[i] > (i ? ticket[i - 1] : 0));
    }
    assert_ok(vmm->ops->passed(vmm, ticket[99], true, &is_passed));
    assert_true(is_passed);
    assert_true(gpu_is_done(gpu));
    assert_ok(vmm->ops->passed(vmm, ticket[0], false, &is_passed));
    assert_true(is_passed);
    assert_ok(unmap_at(0, 1)); // nothing reads there any longer
    destroy_chunks(0, 1);
}

// Through more than two turns of the ring, from an odd place in the swap.
FX_TEST_WITH(test_the_swap_gives_back_what_it_took, setup, teardown)
{
    uint64_t out, in;
    const int n = N_PLACE;
    create_chunks(0, n);
    assert_ok(map_at(0, 0, 0, n));
    assert_ok(vmm->ops->swap_open(vmm, NULL, (n + 5) * slice));
    for (int i = 0; i < n; i++) fill_bytes(place_at(i), 'A' + i, slice);
    assert_ok(vmm->ops->swap_write(vmm, 3 * slice, place_at(0), n * slice - 100, &out));
    fill_bytes(place_at(0), 0, n * slice);
    assert_ok(vmm->ops->swap_read(vmm, place_at(0), 3 * slice, n * slice - 100, &in));
    assert_true(in == out);
    for (int i = 0; i < n - 1; i++) assert_bytes(place_at(i), 'A' + i, slice);
    assert_bytes(place_at(n - 1), 'A' + n - 1, slice - 100);
    assert_bytes(place_at(n) - 100, 0, 100);
    vmm->ops->swap_drop(vmm, 3 * slice, n * slice - 100);
    assert_ok(unmap_at(0, n));
    destroy_chunks(0, n);
}

// What the driver says is free falls by what is resident. Others may use the device as well, and
// the driver needs a little for itself, so an eighth of difference is allowed.
FX_TEST_WITH(test_resident_is_what_the_driver_misses, setup, teardown)
{
    size_t before, during;
    uint64_t resident, mapped, n;
    assert_true(gpu_free_bytes(gpu, &before));
    create_chunks(0, N_PLACE);
    assert_ok(map_at(0, 0, 0, N_PLACE));
    assert_true(gpu_free_bytes(gpu, &during));
    assert_ok(vmm->ops->resident(vmm, &resident));
    assert_ok(vmm->ops->mapped(vmm, &mapped, &n));
    assert_true(resident == (uint64_t)N_PLACE * N_SLICE * slice);
    assert_true(mapped == N_PLACE * slice && n == N_PLACE);
    int64_t missed = (int64_t)before - (int64_t)during;
    print_message("resident %llu MiB, missed by the driver %lld MiB\n",
                  (unsigned long long)resident >> 20, (long long)missed / (1 << 20));
    assert_true(missed >= (int64_t)(resident - resident / 8));
    assert_true(missed <= (int64_t)(resident + resident / 8));
    assert_ok(unmap_at(0, N_PLACE));
    destroy_chunks(0, N_PLACE);
}

// Chunks of an eighth of what is free: some can be had, ten cannot, and then none is kept.
FX_TEST_WITH(test_no_memory_is_a_normal_answer, setup, teardown)
{
    vt_vmm_cuda_config cfg = {.device = gpu_device(gpu), .stream = NULL};
    vt_vmm *big;
    size_t before, after;
    uint64_t resident;
    assert_ok(vt_vmm_cuda_open(&cfg, &big, NULL));
    assert_true(gpu_free_bytes(gpu, &before));
    vt_vmm_class big_class = {1, before / 8 / slice * slice, 100};
    vt_vmm_geometry geo = {.n_class = 1, .cls = {big_class}};
    assert_ok(big->ops->configure(big, &geo));
    assert_int_equal(big->ops->create(big, 0, 10), VT_NOSPACE);
    assert_ok(big->ops->resident(big, &resident));
    assert_int_equal(resident, 0);
    assert_true(gpu_free_bytes(gpu, &after));
    assert_true(after > before - before / 8);
    assert_ok(big->ops->create(big, 0, 1));
    assert_ok(big->ops->destroy(big, 0, 1));
    big->ops->close(big);
}

// A thread without a context: the mapper's.
static void *map_elsewhere(void *arg)
{
    vt_status *st = arg;
    for (int i = 0; i < 50 && *st == VT_OK; i++) {
        *st = vmm->ops->create(vmm, 1000, 4);
        if (*st == VT_OK) *st = map_at(32, 0, 1000, 4);
        if (*st == VT_OK) *st = unmap_at(32, 4);
        if (*st == VT_OK) *st = vmm->ops->destroy(vmm, 1000, 4);
    }
    return NULL;
}

FX_TEST_WITH(test_two_threads_work_at_once, setup, teardown)
{
    pthread_t thread;
    vt_status st = VT_OK;
    assert_int_equal(pthread_create(&thread, NULL, map_elsewhere, &st), 0);
    create_chunks(0, 2);
    assert_ok(map_at(0, 0, 0, 1));
    for (int i = 0; i < 50; i++) {
        fill_bytes(place_at(0), i, slice);
        assert_ok(map_at(1, 0, 1, 1));
        assert_ok(fetch_to(1, 0, 0, VT_VMM_NOW));
        assert_bytes(place_at(1), i, slice);
        assert_ok(unmap_at(1, 1));
    }
    pthread_join(thread, NULL);
    assert_ok(st);
    assert_ok(unmap_at(0, 1));
    destroy_chunks(0, 2);
}

int main(void)
{
    return run_on_gpu();
}
