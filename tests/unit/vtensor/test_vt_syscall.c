// test_vt_syscall.c - the host backend when the system itself fails: the linker sends its calls of
// fallocate, mmap and memfd_create here, where a chosen one answers an errno.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>

#include "vtensor/vmm.h"

#define assert_ok(expr) assert_int_equal((expr), VT_OK)

enum {
    N_SLICE = 3,
    N_INDEX = 1024,
    PAGE = 4096,
    SLICE = 4 * PAGE,
    BIG = 150
}; // BIG x SLICE: 3 pieces

// Of one system call: calls [first, first + n) from now on fail.
typedef struct ambush {
    int first, n, seen;
    int with;
} ambush;

static ambush on_fallocate, on_mmap, on_memfd;
static bool mmap_unmaps_first; // as the system may with MAP_FIXED

static bool falls(ambush *a)
{
    int i = a->seen++;
    if (i < a->first || i >= a->first + a->n) return false;
    errno = a->with;
    return true;
}

int __real_fallocate(int fd, int mode, off_t offset, off_t len);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t len);
void *__real_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset);
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);

int __wrap_fallocate(int fd, int mode, off_t offset, off_t len)
{
    return falls(&on_fallocate) ? -1 : __real_fallocate(fd, mode, offset, len);
}

void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
    if (!falls(&on_mmap)) return __real_mmap(at, len, prot, flags, fd, offset);
    int with = errno;
    if (mmap_unmaps_first) munmap(at, len);
    errno = with;
    return MAP_FAILED;
}

int __wrap_memfd_create(const char *name, unsigned flags)
{
    return falls(&on_memfd) ? -1 : __real_memfd_create(name, flags);
}

static vt_vmm *vmm;
static uintptr_t addr;

static int setup(void **state)
{
    (void)state;
    vt_vmm_geometry geo = {.n_slice = N_SLICE, .slice_bytes = SLICE, .n_index = N_INDEX};
    on_fallocate = on_mmap = on_memfd = (ambush){0};
    mmap_unmaps_first = false;
    if (vt_vmm_host_open(&vmm) != VT_OK || vmm->ops->configure(vmm, &geo) != VT_OK) return -1;
    return vmm->ops->reserve(vmm, BIG * SLICE, &addr) == VT_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    if (vmm->ops->unreserve(vmm, addr, BIG * SLICE) != VT_OK) return -1;
    vmm->ops->close(vmm);
    return 0;
}

static uint64_t resident(void)
{
    uint64_t size_bytes = 0;
    assert_ok(vmm->ops->resident(vmm, &size_bytes));
    return size_bytes;
}

static void create_is_all_or_nothing(void **state)
{
    (void)state;
    static const struct {
        int with;
        vt_status want;
    } cases[] = {{ENOSPC, VT_NOSPACE}, {ENOMEM, VT_NOSPACE}, {EIO, VT_EDEVICE}};
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 3 * N_SLICE; i++) {
            on_fallocate = (ambush){.first = i, .n = 1, .with = cases[c].with};
            assert_int_equal(vmm->ops->create(vmm, 7, BIG), cases[c].want);
            assert_int_equal(resident(), 0);
        }
    assert_ok(vmm->ops->create(vmm, 7, BIG));
    assert_int_equal(resident(), (uint64_t)BIG * N_SLICE * SLICE);
    assert_ok(vmm->ops->destroy(vmm, 7, BIG));
}

static void signals_are_borne(void **state)
{
    (void)state;
    on_fallocate = (ambush){.first = 1, .n = 5, .with = EINTR};
    assert_ok(vmm->ops->create(vmm, 0, 2));
    assert_int_equal(resident(), 2 * N_SLICE * SLICE);
    on_fallocate = (ambush){.first = 2, .n = 5, .with = EINTR};
    assert_ok(vmm->ops->destroy(vmm, 0, 2));
    assert_int_equal(resident(), 0);
}

static void destroy_is_all_or_nothing(void **state)
{
    (void)state;
    assert_ok(vmm->ops->create(vmm, 0, 2));
    for (int i = 0; i < N_SLICE; i++) {
        on_fallocate = (ambush){.first = i, .n = 1, .with = ENOMEM};
        assert_int_equal(vmm->ops->destroy(vmm, 0, 2), VT_EDEVICE);
        assert_int_equal(resident(), 2 * N_SLICE * SLICE);
    }
    assert_ok(vmm->ops->destroy(vmm, 0, 2));
}

static bool is_taken(uintptr_t at, size_t size_bytes)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    void *p = mmap((void *)at, size_bytes, PROT_NONE, flags, -1, 0);
    if (p != MAP_FAILED) munmap(p, size_bytes);
    return p == MAP_FAILED && errno == EEXIST;
}

static void a_failed_map_leaves_the_addresses_reserved(void **state)
{
    (void)state;
    assert_ok(vmm->ops->create(vmm, 0, 2));
    for (int i = 0; i < 2; i++) {
        mmap_unmaps_first = i == 1;
        on_mmap = (ambush){.n = 1, .with = ENOMEM};
        assert_int_equal(vmm->ops->map(vmm, addr + SLICE, 0, 0, 2), VT_NOSPACE);
        assert_true(is_taken(addr + SLICE, 2 * SLICE));
    }
    on_mmap = (ambush){.n = 1, .with = EACCES};
    assert_int_equal(vmm->ops->map(vmm, addr + SLICE, 0, 0, 2), VT_EDEVICE);
    assert_ok(vmm->ops->map(vmm, addr + SLICE, 0, 0, 2));
    memset((void *)(addr + SLICE), 1, 2 * SLICE);
    assert_ok(vmm->ops->unmap(vmm, addr + SLICE, 2 * SLICE));
    assert_ok(vmm->ops->destroy(vmm, 0, 2));
}

static void a_failed_unmap_leaves_the_mapping(void **state)
{
    (void)state;
    assert_ok(vmm->ops->create(vmm, 0, 1));
    assert_ok(vmm->ops->map(vmm, addr, 0, 0, 1));
    memset((void *)addr, 42, SLICE);
    on_mmap = (ambush){.n = 1, .with = ENOMEM};
    assert_int_equal(vmm->ops->unmap(vmm, addr, SLICE), VT_EDEVICE);
    assert_int_equal(*(char *)(addr + SLICE - 1), 42);
    assert_ok(vmm->ops->unmap(vmm, addr, SLICE));
    assert_ok(vmm->ops->destroy(vmm, 0, 1));
}

static void opening_answers_what_the_system_says(void **state)
{
    (void)state;
    vt_vmm *other;
    on_memfd = (ambush){.n = 1, .with = EINVAL}; // a system without MFD_NOEXEC_SEAL
    assert_ok(vt_vmm_host_open(&other));
    other->ops->close(other);
    on_memfd = (ambush){.n = 1, .with = EMFILE};
    assert_int_equal(vt_vmm_host_open(&other), VT_EDEVICE);
    assert_null(other);
    on_memfd = (ambush){.n = 1, .with = ENOMEM};
    assert_int_equal(vt_vmm_host_open(&other), VT_NOSPACE);
    assert_null(other);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(create_is_all_or_nothing),          T(signals_are_borne),
        T(destroy_is_all_or_nothing),         T(a_failed_map_leaves_the_addresses_reserved),
        T(a_failed_unmap_leaves_the_mapping), T(opening_answers_what_the_system_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
