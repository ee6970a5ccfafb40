// test_vt_host.c - the host backend by itself, call by call, against what the system says.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <sys/resource.h>

#include "maps.h"
#include "vtensor/vmm.h"

#define assert_ok(expr) assert_int_equal((expr), VT_OK)

enum { N_SLICE = 3, N_INDEX = 64 };

static vt_vmm *vmm;
static size_t page, slice;
static uintptr_t addr; // a reservation of N_INDEX slices

static int setup(void **state)
{
    (void)state;
    if (vt_vmm_host_open(&vmm) != VT_OK) return -1;
    page = vmm->ops->granularity(vmm);
    slice = 4 * page;
    vt_vmm_geometry geo = {.n_slice = N_SLICE, .slice_bytes = slice, .n_index = N_INDEX};
    if (vmm->ops->configure(vmm, &geo) != VT_OK) return -1;
    return vmm->ops->reserve(vmm, N_INDEX * slice, &addr) == VT_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    if (vmm->ops->unreserve(vmm, addr, N_INDEX * slice) != VT_OK) return -1;
    vmm->ops->close(vmm);
    return 0;
}

static uint64_t resident(void)
{
    uint64_t size_bytes = 0;
    assert_ok(vmm->ops->resident(vmm, &size_bytes));
    return size_bytes;
}

static void memory_comes_and_goes(void **state)
{
    (void)state;
    assert_int_equal(resident(), 0);
    assert_ok(vmm->ops->create(vmm, 3, 5));
    assert_int_equal(resident(), 5 * N_SLICE * slice);
    assert_ok(vmm->ops->create(vmm, N_INDEX - 1, 1));
    assert_ok(vmm->ops->destroy(vmm, 4, 3));
    assert_int_equal(resident(), 3 * N_SLICE * slice);
    assert_ok(vmm->ops->destroy(vmm, 3, 1));
    assert_ok(vmm->ops->destroy(vmm, 7, 1));
    assert_ok(vmm->ops->destroy(vmm, N_INDEX - 1, 1));
    assert_int_equal(resident(), 0);
}

static void bytes_belong_to_chunk_and_slice(void **state)
{
    (void)state;
    assert_ok(vmm->ops->create(vmm, 8, 2));
    for (uint32_t s = 0; s < N_SLICE; s++) {
        assert_ok(vmm->ops->map(vmm, addr + 2 * s * slice, s, 8, 2));
        memset((void *)(addr + 2 * s * slice), 'a' + (int)s, slice);
        memset((void *)(addr + (2 * s + 1) * slice), 'A' + (int)s, slice);
    }
    assert_ok(vmm->ops->unmap(vmm, addr, 2 * N_SLICE * slice));
    for (uint32_t s = 0; s < N_SLICE; s++) { // the other way round
        char *at = (char *)(addr + 4 * s * slice);
        assert_ok(vmm->ops->map(vmm, (uintptr_t)at, s, 9, 1));
        assert_ok(vmm->ops->map(vmm, (uintptr_t)at + slice, s, 8, 1));
        assert_true(at[0] == 'A' + (int)s && at[slice - 1] == 'A' + (int)s);
        assert_true(at[slice] == 'a' + (int)s && at[2 * slice - 1] == 'a' + (int)s);
        assert_ok(vmm->ops->unmap(vmm, (uintptr_t)at, 2 * slice));
    }
    assert_ok(vmm->ops->destroy(vmm, 8, 2));
}

static void created_again_is_zero_again(void **state)
{
    (void)state;
    static const char zero[64];
    for (int round = 0; round < 2; round++) {
        assert_ok(vmm->ops->create(vmm, 0, 1));
        assert_ok(vmm->ops->map(vmm, addr, 1, 0, 1));
        assert_memory_equal((void *)addr, zero, sizeof zero);
        assert_memory_equal((void *)(addr + slice - sizeof zero), zero, sizeof zero);
        memset((void *)addr, 0x5a, slice);
        assert_ok(vmm->ops->unmap(vmm, addr, slice));
        assert_ok(vmm->ops->destroy(vmm, 0, 1));
    }
}

static void copy_and_zero_take_any_bytes(void **state)
{
    (void)state;
    assert_ok(vmm->ops->create(vmm, 0, 2));
    assert_ok(vmm->ops->map(vmm, addr, 0, 0, 2));
    char *p = (char *)addr;
    memcpy(p + 5, "tokens", 6);
    assert_ok(vmm->ops->copy(vmm, addr + slice - 3, addr + 5, 6));
    assert_memory_equal(p + slice - 3, "tokens", 6);
    assert_ok(vmm->ops->zero(vmm, addr + slice - 2, 4));
    assert_memory_equal(p + slice - 3, "t\0\0\0\0s", 6);
    assert_ok(vmm->ops->unmap(vmm, addr, 2 * slice));
    assert_ok(vmm->ops->destroy(vmm, 0, 2));
}

static void neighbours_merge_into_one_mapping(void **state)
{
    (void)state;
    uint64_t before = maps_of_memfd();
    assert_ok(vmm->ops->create(vmm, 10, 8));
    for (uint32_t i = 0; i < 8; i++) assert_ok(vmm->ops->map(vmm, addr + i * slice, 2, 10 + i, 1));
    assert_int_equal(maps_of_memfd(), before + 1);
    assert_ok(vmm->ops->unmap(vmm, addr + 6 * slice, 2 * slice));
    assert_int_equal(maps_of_memfd(), before + 1);
    assert_ok(vmm->ops->unmap(vmm, addr, 6 * slice));
    assert_int_equal(maps_of_memfd(), before);
    assert_ok(vmm->ops->destroy(vmm, 10, 8));
}

static void mapped_pages_are_present(void **state)
{
    (void)state;
    assert_ok(vmm->ops->create(vmm, 0, 8));
    assert_ok(vmm->ops->map(vmm, addr, 0, 0, 8));
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    for (size_t at = 0; at < 8 * slice; at += page) *(volatile char *)(addr + at) = 1;
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_minflt - before.ru_minflt < 8); // of 32 pages
    assert_ok(vmm->ops->unmap(vmm, addr, 8 * slice));
    assert_ok(vmm->ops->destroy(vmm, 0, 8));
}

static void what_is_only_reserved_faults(void **state)
{
    (void)state;
    assert_true(read_faults((const void *)addr));
    assert_ok(vmm->ops->create(vmm, 0, 1));
    assert_ok(vmm->ops->map(vmm, addr, 0, 0, 1));
    assert_false(read_faults((const void *)(addr + slice - 1)));
    assert_true(read_faults((const void *)(addr + slice)));
    assert_ok(vmm->ops->unmap(vmm, addr, slice));
    assert_true(read_faults((const void *)addr));
    assert_ok(vmm->ops->destroy(vmm, 0, 1));
}

static void more_than_the_address_space_is_no_space(void **state)
{
    (void)state;
    uintptr_t at;
    assert_int_equal(vmm->ops->reserve(vmm, (size_t)1 << 60, &at), VT_NOSPACE);
}

static void the_limit_of_runs_leaves_room(void **state)
{
    (void)state;
    uint64_t n = vmm->ops->max_runs(vmm);
    assert_true(n > 0 && 2 * n < max_map_count());
}

// RLIMIT_FSIZE would make ftruncate raise SIGXFSZ.
static void a_limit_on_files_is_no_space(void **state)
{
    (void)state;
    struct rlimit old, low;
    vt_vmm *other;
    vt_vmm_geometry geo = {.n_slice = 1, .slice_bytes = page, .n_index = 100};
    assert_ok(vt_vmm_host_open(&other));
    getrlimit(RLIMIT_FSIZE, &old);
    low = old;
    low.rlim_cur = 10 * page;
    setrlimit(RLIMIT_FSIZE, &low);
    assert_int_equal(other->ops->configure(other, &geo), VT_NOSPACE);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_ok(other->ops->configure(other, &geo));
    other->ops->close(other);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(memory_comes_and_goes),
        T(bytes_belong_to_chunk_and_slice),
        T(created_again_is_zero_again),
        T(copy_and_zero_take_any_bytes),
        T(neighbours_merge_into_one_mapping),
        T(mapped_pages_are_present),
        T(what_is_only_reserved_faults),
        T(more_than_the_address_space_is_no_space),
        T(the_limit_of_runs_leaves_room),
        T(a_limit_on_files_is_no_space),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
