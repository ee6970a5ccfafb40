// test_gpu_vmm.c - the GPU backend on a GPU: the contract of every operation, with the bytes copied
// back and compared, and how long the operations take here.
//
// Skipped if there is no GPU. It also runs on the stand-in for the driver, which shows that the
// test is right; the times mean nothing there.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu_context.h"
#include "unit/cmocka_all.h"
#include "vtensor/vmm.h"

#define assert_ok(expr) assert_int_equal((expr), VT_OK)

enum { N_SLICE = 2, N_PLACE = 64, N_TIMED = 32 };

static gpu_context *gpu;
static vt_vmm *vmm;
static size_t slice;
static uintptr_t base; // N_PLACE slices
static unsigned char *bytes;

static uintptr_t place(int i)
{
    return base + (size_t)i * slice;
}

static int setup(void **state)
{
    (void)state;
    vt_vmm_cuda_config cfg = {.device = gpu_device(gpu), .stream = NULL};
    const char *why = NULL;
    if (vt_vmm_cuda_open(&cfg, &vmm, &why) != VT_OK) {
        print_message("vt_vmm_cuda_open: %s\n", why ? why : "no memory");
        return -1;
    }
    slice = vmm->ops->granularity(vmm);
    bytes = malloc(slice);
    vt_vmm_geometry geo = {.n_slice = N_SLICE, .slice_bytes = slice, .n_index = (uint64_t)1 << 40};
    if (!bytes || vmm->ops->configure(vmm, &geo) != VT_OK) return -1;
    return vmm->ops->reserve(vmm, N_PLACE * slice, &base) == VT_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    free(bytes);
    vt_status st = vmm->ops->unreserve(vmm, base, N_PLACE * slice);
    vmm->ops->close(vmm);
    return st == VT_OK ? 0 : -1;
}

static vt_status map(int at, uint32_t s, uint64_t index, uint64_t n)
{
    return vmm->ops->map(vmm, place(at), s, index, n, VT_VMM_WRITE);
}

static vt_status unmap(int at, int n)
{
    return vmm->ops->unmap(vmm, place(at), (size_t)n * slice);
}

static void assert_bytes(uintptr_t at, int value, size_t size_bytes)
{
    assert_true(size_bytes <= slice);
    assert_true(gpu_read(gpu, bytes, at, size_bytes));
    for (size_t i = 0; i < size_bytes; i++)
        if (bytes[i] != value) assert_int_equal(bytes[i], value);
}

static void fill(uintptr_t at, int value, size_t size_bytes)
{
    assert_true(gpu_fill(gpu, at, (unsigned char)value, size_bytes));
    assert_true(gpu_synchronize(gpu));
}

static void create(uint64_t index, uint64_t n)
{
    assert_ok(vmm->ops->create(vmm, index, n));
}

static void destroy(uint64_t index, uint64_t n)
{
    assert_ok(vmm->ops->destroy(vmm, index, n));
}

// Memory that was full of something goes back to the driver, and comes again as zero.
static void test_memory_is_zero_at_first(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++) {
        create(0, 16);
        assert_ok(map(0, 0, 0, 16));
        for (int i = 0; i < 16; i++) assert_bytes(place(i), 0, slice);
        fill(place(0), 0xEE, 16 * slice);
        assert_ok(unmap(0, 16));
        destroy(0, 16);
    }
}

static void test_bytes_belong_to_chunk_and_slice(void **state)
{
    (void)state;
    create(5, 2);
    for (int s = 0; s < N_SLICE; s++) {
        assert_ok(map(2 * s, (uint32_t)s, 5, 2));
        fill(place(2 * s), 'a' + s, slice);
        fill(place(2 * s + 1), 'A' + s, slice);
    }
    assert_ok(unmap(0, 2 * N_SLICE)); // what two calls have mapped
    for (int s = 0; s < N_SLICE; s++) {
        assert_ok(map(8, (uint32_t)s, 6, 1));
        assert_ok(map(9, (uint32_t)s, 5, 1));
        assert_bytes(place(8), 'A' + s, slice);
        assert_bytes(place(9), 'a' + s, slice);
        assert_ok(unmap(8, 2));
    }
    destroy(5, 2);
}

// Device and host write through one address and read through the other, one after the other.
static void test_an_alias_shows_the_same_bytes(void **state)
{
    (void)state;
    create(0, 2);
    assert_ok(map(0, 0, 0, 2));
    for (int round = 0; round < 20; round++) {
        fill(place(0), round, slice);
        assert_ok(vmm->ops->map(vmm, place(20), 0, 0, 1, VT_VMM_ALIAS));
        assert_bytes(place(20), round, slice);
        memset(bytes, round + 100, slice);
        assert_true(gpu_write(gpu, place(20) + 64, bytes, 1000));
        assert_bytes(place(0) + 64, round + 100, 1000);
        fill(place(20), round + 50, 64);
        assert_bytes(place(0), round + 50, 64);
        assert_bytes(place(0) + 1064, round, slice - 1064);
        assert_ok(unmap(20, 1));
    }
    assert_ok(unmap(0, 2));
    destroy(0, 2);
}

static void test_fetch_reads_what_is_mapped_nowhere(void **state)
{
    (void)state;
    create(0, 3);
    assert_ok(map(0, 1, 0, 1));
    fill(place(0), 's', slice);
    assert_ok(unmap(0, 1));
    assert_ok(map(5, 1, 1, 1));
    assert_ok(vmm->ops->fetch(vmm, place(5) + 7, 1, 0, 3, 1001));
    assert_bytes(place(5), 0, 7);
    assert_bytes(place(5) + 7, 's', 1001);
    assert_bytes(place(5) + 1008, 0, slice - 1008);
    assert_ok(vmm->ops->fetch(vmm, place(5), 0, 2, 0, slice)); // never mapped: zero
    assert_bytes(place(5), 0, slice);
    assert_ok(unmap(5, 1));
    destroy(0, 3);
}

// The source is written by work that was given just before, and is not waited for.
static void test_fetch_waits_for_the_stream(void **state)
{
    (void)state;
    create(0, 33);
    assert_ok(map(0, 0, 0, 32));
    assert_ok(map(40, 0, 32, 1));
    for (int round = 1; round < 50; round++) {
        assert_true(gpu_fill(gpu, place(0), (unsigned char)round, 32 * slice));
        assert_ok(vmm->ops->fetch(vmm, place(40), 0, 31, 0, slice));
        assert_bytes(place(40), round, slice);
    }
    assert_ok(unmap(40, 1));
    assert_ok(unmap(0, 32));
    destroy(0, 33);
}

static void test_zero_takes_any_range(void **state)
{
    (void)state;
    create(0, 2);
    assert_ok(map(0, 0, 0, 2));
    fill(place(0), 'z', 2 * slice);
    assert_ok(vmm->ops->zero(vmm, place(1) - 5, 11));
    assert_bytes(place(0), 'z', slice - 5);
    assert_bytes(place(1) - 5, 0, 11);
    assert_bytes(place(1) + 6, 'z', slice - 6);
    assert_ok(unmap(0, 2));
    destroy(0, 2);
}

static void test_store_reaches_what_is_mapped_nowhere(void **state)
{
    (void)state;
    create(0, 3);
    assert_ok(map(0, 0, 0, 1));
    fill(place(0), 't', slice);
    assert_ok(vmm->ops->store(vmm, 1, 2, 7, place(0) + 1, 1001));
    assert_ok(map(5, 1, 2, 1));
    assert_bytes(place(5), 0, 7);
    assert_bytes(place(5) + 7, 't', 1001);
    assert_bytes(place(5) + 1008, 0, slice - 1008);
    assert_ok(unmap(5, 1));
    assert_ok(unmap(0, 1));
    destroy(0, 3);
}

static void test_fences_are_passed_in_order(void **state)
{
    (void)state;
    uint64_t ticket[100];
    bool is_passed = true;
    create(0, 1);
    assert_ok(map(0, 0, 0, 1));
    assert_ok(vmm->ops->passed(vmm, 0, false, &is_passed));
    assert_true(is_passed);
    for (int i = 0; i < 100; i++) {
        assert_true(gpu_fill(gpu, place(0), (unsigned char)i, slice));
        assert_ok(vmm->ops->fence(vmm, &ticket[i]));
        assert_true(ticket[i] > (i ? ticket[i - 1] : 0));
    }
    assert_ok(vmm->ops->passed(vmm, ticket[99], true, &is_passed));
    assert_true(is_passed);
    assert_true(gpu_is_done(gpu));
    assert_ok(vmm->ops->passed(vmm, ticket[0], false, &is_passed));
    assert_true(is_passed);
    assert_ok(unmap(0, 1)); // nothing reads there any longer
    destroy(0, 1);
}

static void test_the_swap_gives_back_what_it_took(void **state)
{
    (void)state;
    uint64_t out, in;
    create(0, 8);
    assert_ok(map(0, 0, 0, 8));
    assert_ok(vmm->ops->swap_open(vmm, NULL, 64 * slice));
    for (int i = 0; i < 8; i++) fill(place(i), 'A' + i, slice);
    assert_ok(vmm->ops->swap_write(vmm, 3 * slice, place(0), 8 * slice, &out));
    fill(place(0), 0, 8 * slice);
    assert_ok(vmm->ops->swap_read(vmm, place(0), 3 * slice, 8 * slice, &in));
    assert_true(in == out);
    for (int i = 0; i < 8; i++) assert_bytes(place(i), 'A' + i, slice);
    vmm->ops->swap_drop(vmm, 3 * slice, 8 * slice);
    assert_ok(unmap(0, 8));
    destroy(0, 8);
}

// What the driver says is free falls by what is resident. Others may use the device as well, and
// the driver needs a little for itself, so an eighth of difference is allowed.
static void test_resident_is_what_the_driver_misses(void **state)
{
    (void)state;
    size_t before, during;
    uint64_t resident, mapped, n;
    assert_true(gpu_free_bytes(gpu, &before));
    create(0, N_PLACE);
    assert_ok(map(0, 0, 0, N_PLACE));
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
    assert_ok(unmap(0, N_PLACE));
    destroy(0, N_PLACE);
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
    vt_vmm_geometry geo = {.n_slice = 1, .slice_bytes = before / 8 / slice * slice, .n_index = 100};
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
        if (*st == VT_OK) *st = map(32, 0, 1000, 4);
        if (*st == VT_OK) *st = unmap(32, 4);
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
    create(0, 2);
    assert_ok(map(0, 0, 0, 1));
    for (int i = 0; i < 50; i++) {
        fill(place(0), i, slice);
        assert_ok(map(1, 0, 1, 1));
        assert_ok(vmm->ops->fetch(vmm, place(1), 0, 0, 0, slice));
        assert_bytes(place(1), i, slice);
        assert_ok(unmap(1, 1));
    }
    pthread_join(thread, NULL);
    assert_ok(st);
    assert_ok(unmap(0, 1));
    destroy(0, 2);
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int compare(const void *a, const void *b)
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
    qsort(us, N_TIMED, sizeof us[0], compare);
    print_message("%-32s %9.1f us (min %.1f, max %.1f)\n", name, us[N_TIMED / 2], us[0],
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
    return map(i, 0, (uint64_t)i, 1);
}

static vt_status unmap_one(int i)
{
    return unmap(i, 1);
}

static vt_status zero_one(int i)
{
    return vmm->ops->zero(vmm, place(i), slice);
}

static vt_status fetch_one(int i)
{
    return vmm->ops->fetch(vmm, place(i), 1, (uint64_t)i, 0, slice);
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
    vt_status st = map(0, 0, 0, N_TIMED);
    return st == VT_OK ? unmap(0, N_TIMED) : st;
}

static uint64_t sums[N_TIMED];

static vt_status swap_out_one(int i)
{
    return vmm->ops->swap_write(vmm, (size_t)i * slice, place(i), slice, &sums[i]);
}

static vt_status swap_in_one(int i)
{
    uint64_t sum;
    vt_status st = vmm->ops->swap_read(vmm, place(i), (size_t)i * slice, slice, &sum);
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
    time_it("map a slice, fresh", map_one);
    time_it("zero a slice", zero_one);
    time_it("fetch a slice, fresh", fetch_one);
    time_it("fetch a slice", fetch_one);
    time_it("fence", fence_one);
    time_it("swap a slice out, new memory", swap_out_one);
    time_it("swap a slice out", swap_out_one);
    time_it("swap a slice in", swap_in_one);
    time_it("unmap a slice", unmap_one);
    time_it("map a slice", map_one);
    time_it("unmap a slice", unmap_one);
    time_it("map and unmap 32 slices", map_run);
    time_it("destroy a chunk", destroy_one);
}

#define ON_GPU(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_GPU(test_memory_is_zero_at_first),
        ON_GPU(test_bytes_belong_to_chunk_and_slice),
        ON_GPU(test_an_alias_shows_the_same_bytes),
        ON_GPU(test_fetch_reads_what_is_mapped_nowhere),
        ON_GPU(test_fetch_waits_for_the_stream),
        ON_GPU(test_zero_takes_any_range),
        ON_GPU(test_store_reaches_what_is_mapped_nowhere),
        ON_GPU(test_fences_are_passed_in_order),
        ON_GPU(test_the_swap_gives_back_what_it_took),
        ON_GPU(test_resident_is_what_the_driver_misses),
        ON_GPU(test_no_memory_is_a_normal_answer),
        ON_GPU(test_two_threads_work_at_once),
        ON_GPU(test_times),
    };
    const char *why;
    gpu = gpu_open(&why);
    if (!gpu) {
        print_message("skipped: %s\n", why);
        return GPU_SKIPPED;
    }
    print_message("%s, driver %d\n", gpu_name(gpu), gpu_driver_version(gpu));
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    gpu_close(gpu);
    return rc;
}
