// test_gpu_vmm.c - the GPU backend on a GPU: the contract of every operation, with the bytes copied
// back and compared, and how long the operations take here.
//
// Skipped if there is no GPU. It also runs on the stand-in for the driver, which shows that the
// test is right; the times mean nothing there.
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "gpu_rig.h"

enum { N_TIMED = 32 };

// Memory that was full of something goes back to the driver, and comes again, and is wiped.
static void test_wiped_memory_is_zero(void **state)
{
    (void)state;
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

static void test_bytes_belong_to_chunk_and_slice(void **state)
{
    (void)state;
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
static void test_an_alias_shows_the_same_bytes(void **state)
{
    (void)state;
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
static void test_classes_have_chunks_of_their_own(void **state)
{
    (void)state;
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

static void test_fetch_reads_what_is_mapped_nowhere(void **state)
{
    (void)state;
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

static void test_copies_are_one_call(void **state)
{
    (void)state;
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

static void test_zero_takes_any_range(void **state)
{
    (void)state;
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

static void test_fences_are_passed_in_order(void **state)
{
    (void)state;
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
static void test_the_swap_gives_back_what_it_took(void **state)
{
    (void)state;
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
static void test_resident_is_what_the_driver_misses(void **state)
{
    (void)state;
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
static void test_no_memory_is_a_normal_answer(void **state)
{
    (void)state;
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

static void test_two_threads_work_at_once(void **state)
{
    (void)state;
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

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The median of N_TIMED calls of run(i).
static void time_it(const char *name, vt_status (*run)(int i))
{
    double us[N_TIMED];
    for (int i = 0; i < N_TIMED; i++) {
        double start = now_us();
        assert_ok(run(i));
        us[i] = now_us() - start;
    }
    qsort(us, N_TIMED, sizeof us[0], compare_times);
    print_message("%-36s %9.1f us (min %.1f, max %.1f)\n", name, us[N_TIMED / 2], us[0],
                  us[N_TIMED - 1]);
}

static uintptr_t reserved[N_TIMED];

static vt_status reserve_one(int i)
{
    return vmm->ops->reserve(vmm, 1024 * slice, &reserved[i]);
}

static vt_status unreserve_one(int i)
{
    return vmm->ops->unreserve(vmm, reserved[i], 1024 * slice);
}

static vt_status create_one(int i)
{
    return vmm->ops->create(vmm, (uint64_t)i, 1);
}

static vt_status map_one(int i)
{
    return map_at(i, 0, (uint64_t)i, 1);
}

static vt_status unmap_one(int i)
{
    return unmap_at(i, 1);
}

static vt_status zero_one(int i)
{
    return vmm->ops->zero(vmm, place_at(i), slice, VT_VMM_NOW);
}

static vt_status zero_one_queued(int i)
{
    return vmm->ops->zero(vmm, place_at(i), slice, VT_VMM_QUEUED);
}

static vt_status fetch_one(int i)
{
    return fetch_to(i, 1, (uint64_t)i, VT_VMM_NOW);
}

static vt_status fetch_one_queued(int i)
{
    return fetch_to(i, 1, (uint64_t)i, VT_VMM_QUEUED);
}

static vt_status fetch_and_fence_one(int i)
{
    uint64_t ticket;
    vt_status st = fetch_one_queued(i);
    return st == VT_OK ? vmm->ops->fence(vmm, &ticket) : st;
}

static vt_status fence_one(int i)
{
    uint64_t ticket;
    (void)i;
    return vmm->ops->fence(vmm, &ticket);
}

static vt_status map_run(int i)
{
    (void)i;
    vt_status st = map_at(0, 0, 0, N_TIMED);
    return st == VT_OK ? unmap_at(0, N_TIMED) : st;
}

static uint64_t sums[N_TIMED];

static vt_status swap_out_one(int i)
{
    return vmm->ops->swap_write(vmm, (size_t)i * slice, place_at(i), slice, &sums[i]);
}

static vt_status swap_in_one(int i)
{
    uint64_t sum;
    vt_status st = vmm->ops->swap_read(vmm, place_at(i), (size_t)i * slice, slice, &sum);
    return st == VT_OK && sum != sums[i] ? VT_EINVAL : st;
}

static vt_status destroy_one(int i)
{
    return vmm->ops->destroy(vmm, (uint64_t)i, 1);
}

static void test_times(void **state)
{
    (void)state;
    print_message("slices of %zu KiB, chunks of %d slices; medians\n", slice >> 10, N_SLICE);
    assert_ok(vmm->ops->swap_open(vmm, NULL, N_TIMED * slice));
    time_it("reserve 1024 slices", reserve_one);
    time_it("unreserve", unreserve_one);
    time_it("create a chunk", create_one);
    time_it("map a slice", map_one);
    time_it("zero a slice", zero_one);
    time_it("zero a slice, queued", zero_one_queued);
    time_it("fetch a slice", fetch_one);
    time_it("fetch a slice, queued, new windows", fetch_one_queued);
    assert_true(passed(fence(), true));
    time_it("fetch a slice, queued, and fence", fetch_and_fence_one);
    time_it("fence", fence_one);
    assert_true(passed(fence(), true));
    time_it("swap a slice out, new memory", swap_out_one);
    time_it("swap a slice out", swap_out_one);
    time_it("swap a slice in", swap_in_one);
    time_it("unmap a slice", unmap_one);
    time_it("map a slice", map_one);
    time_it("unmap a slice", unmap_one);
    time_it("map and unmap 32 slices", map_run);
    time_it("destroy a chunk", destroy_one);
}

static int run_all(void)
{
    const struct CMUnitTest tests[] = {
        ON_GPU(test_wiped_memory_is_zero),
        ON_GPU(test_bytes_belong_to_chunk_and_slice),
        ON_GPU(test_an_alias_shows_the_same_bytes),
        ON_GPU(test_classes_have_chunks_of_their_own),
        ON_GPU(test_fetch_reads_what_is_mapped_nowhere),
        ON_GPU(test_zero_takes_any_range),
        ON_GPU(test_copies_are_one_call),
        ON_GPU(test_fences_are_passed_in_order),
        ON_GPU(test_the_swap_gives_back_what_it_took),
        ON_GPU(test_resident_is_what_the_driver_misses),
        ON_GPU(test_no_memory_is_a_normal_answer),
        ON_GPU(test_two_threads_work_at_once),
        ON_GPU(test_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
    return run_on_gpu(run_all);
}
