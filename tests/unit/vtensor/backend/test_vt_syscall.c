// test_vt_syscall.c - the host backend when the system itself fails: the linker redirects its calls
// to this file, where a chosen one fails with an errno. open returns files of this test, so that it
// can simulate a system with other settings.
#include "ambush.h"
#include "assert_vt.h"
#include "suite.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <unistd.h>

#include "vtensor/vmm.h"

enum {
    N_SLICE = 3,
    N_INDEX = 1024,
    PAGE = 4096,
    SLICE = 4 * PAGE,
    BIG = 150
}; // BIG x SLICE: 3 pieces

static ambush on_fallocate, on_mmap, on_memfd, on_mprotect, on_munmap, on_pread, on_pwrite;
static int last_memfd;
static int n_madvise;                   // calls that asked for huge pages
static int n_populate, n_populate_flag; // calls of madvise and of mmap that asked for pages at once
static bool no_populate_advice;         // as on systems before 5.14
static const char *shmem_enabled, *maps; // what these files hold; NULL: what they really do
static const char *nr_hugepages;         // the same of this one; memfds then are of small pages
static bool mmap_unmaps_first;           // as the system may with MAP_FIXED
static size_t mprotect_changes;          // bytes that one which fails has changed

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
    n_populate_flag += (flags & MAP_POPULATE) != 0;
    if (!falls(&on_mmap)) return __real_mmap(at, len, prot, flags, fd, offset);
    int with = errno;
    if (mmap_unmaps_first) munmap(at, len);
    errno = with;
    return MAP_FAILED;
}

int __wrap_memfd_create(const char *name, unsigned flags)
{
    if (nr_hugepages) flags &= MFD_CLOEXEC | MFD_ALLOW_SEALING;
    return last_memfd = falls(&on_memfd) ? -1 : __real_memfd_create(name, flags);
}

int __real_mprotect(void *at, size_t len, int prot);
int __wrap_mprotect(void *at, size_t len, int prot);

int __wrap_mprotect(void *at, size_t len, int prot)
{
    if (!falls(&on_mprotect)) return __real_mprotect(at, len, prot);
    int with = errno;
    if (mprotect_changes > 0) (void)__real_mprotect(at, mprotect_changes, prot);
    errno = with;
    return -1;
}

int __real_munmap(void *at, size_t len);
int __wrap_munmap(void *at, size_t len);
int __real_madvise(void *at, size_t len, int advice);
int __wrap_madvise(void *at, size_t len, int advice);
ssize_t __real_pread(int fd, void *to, size_t len, off_t offset);
ssize_t __wrap_pread(int fd, void *to, size_t len, off_t offset);
ssize_t __real_pwrite(int fd, const void *from, size_t len, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *from, size_t len, off_t offset);
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

int __wrap_munmap(void *at, size_t len)
{
    return falls(&on_munmap) ? -1 : __real_munmap(at, len);
}

int __wrap_madvise(void *at, size_t len, int advice)
{
    enum { POPULATE_WRITE = 23 };
    n_madvise += advice == MADV_HUGEPAGE;
    n_populate += advice == POPULATE_WRITE && len > 0;
    if (advice == POPULATE_WRITE && no_populate_advice) {
        errno = EINVAL;
        return -1;
    }
    return __real_madvise(at, len, advice);
}

// A read that does not fail is a short one.
ssize_t __wrap_pread(int fd, void *to, size_t len, off_t offset)
{
    return falls(&on_pread) ? -1 : __real_pread(fd, to, len < 1000 ? len : 1000, offset);
}

ssize_t __wrap_pwrite(int fd, const void *from, size_t len, off_t offset)
{
    return falls(&on_pwrite) ? -1 : __real_pwrite(fd, from, len < 1000 ? len : 1000, offset);
}

static int open_text(const char *text)
{
    int fd = __real_open(".", O_TMPFILE | O_RDWR, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) < 0) return -1;
    lseek(fd, 0, SEEK_SET);
    return fd;
}

int __wrap_open(const char *path, int flags, ...)
{
    if (shmem_enabled && strstr(path, "shmem_enabled")) return open_text(shmem_enabled);
    if (shmem_enabled && strstr(path, "hpage_pmd_size")) return open_text("2097152\n");
    if (nr_hugepages && strstr(path, "nr_hugepages")) return open_text(nr_hugepages);
    if (maps && strcmp(path, "/proc/self/maps") == 0) return open_text(maps);
    return __real_open(path, flags, 0600);
}

static vt_vmm *vmm;
static uintptr_t addr;

VT_FIXTURE(setup)
{
    vt_vmm_geometry geo = {.n_class = 1, .cls = {{N_SLICE, SLICE, N_INDEX}}};
    on_fallocate = on_mmap = on_memfd = on_mprotect = on_munmap = on_pread = on_pwrite =
        (ambush){0};
    shmem_enabled = maps = nr_hugepages = NULL;
    mmap_unmaps_first = false;
    mprotect_changes = 0;
    assert_ok(vt_vmm_host_open(&vmm));
    assert_ok(vmm->ops->configure(vmm, &geo));
    assert_ok(vmm->ops->reserve(vmm, BIG * SLICE, &addr));
}

VT_FIXTURE(teardown)
{
    assert_ok(vmm->ops->unreserve(vmm, addr, BIG * SLICE));
    vmm->ops->close(vmm);
}

static uint64_t resident(void)
{
    uint64_t size_bytes = 0;
    assert_ok(vmm->ops->resident(vmm, &size_bytes));
    return size_bytes;
}

FX_TEST(test_create_is_all_or_nothing)
{
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

FX_TEST(test_signals_are_borne)
{
    on_fallocate = (ambush){.first = 1, .n = 5, .with = EINTR};
    assert_ok(vmm->ops->create(vmm, 0, 2));
    assert_int_equal(resident(), 2 * N_SLICE * SLICE);
    on_fallocate = (ambush){.first = 2, .n = 5, .with = EINTR};
    assert_ok(vmm->ops->destroy(vmm, 0, 2));
    assert_int_equal(resident(), 0);
}

FX_TEST(test_destroy_is_all_or_nothing)
{
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

FX_TEST(test_a_failed_map_leaves_the_addresses_reserved)
{
    assert_ok(vmm->ops->create(vmm, 0, 2));
    for (int i = 0; i < 2; i++) {
        mmap_unmaps_first = i == 1;
        on_mmap = (ambush){.n = 1, .with = ENOMEM};
        assert_int_equal(vmm->ops->map(vmm, addr + SLICE, 0, 0, 2, VT_VMM_WRITE), VT_NOSPACE);
        assert_true(is_taken(addr + SLICE, 2 * SLICE));
    }
    on_mmap = (ambush){.n = 1, .with = EACCES};
    assert_int_equal(vmm->ops->map(vmm, addr + SLICE, 0, 0, 2, VT_VMM_WRITE), VT_EDEVICE);
    assert_ok(vmm->ops->map(vmm, addr + SLICE, 0, 0, 2, VT_VMM_WRITE));
    memset((void *)(addr + SLICE), 1, 2 * SLICE);
    assert_ok(vmm->ops->unmap(vmm, addr + SLICE, 2 * SLICE));
    assert_ok(vmm->ops->destroy(vmm, 0, 2));
}

FX_TEST(test_a_failed_unmap_leaves_the_mapping)
{
    assert_ok(vmm->ops->create(vmm, 0, 1));
    assert_ok(vmm->ops->map(vmm, addr, 0, 0, 1, VT_VMM_WRITE));
    memset((void *)addr, 42, SLICE);
    on_mmap = (ambush){.n = 1, .with = ENOMEM};
    assert_int_equal(vmm->ops->unmap(vmm, addr, SLICE), VT_EDEVICE);
    assert_int_equal(*(char *)(addr + SLICE - 1), 42);
    assert_ok(vmm->ops->unmap(vmm, addr, SLICE));
    assert_ok(vmm->ops->destroy(vmm, 0, 1));
}

// Whether the byte can be written, without a signal: the system refuses to read into it.
static bool is_writable(uintptr_t at)
{
    char byte = *(char *)at;
    int fd = open_text("x");
    bool can = read(fd, (void *)at, 1) == 1;
    close(fd);
    if (can) *(char *)at = byte;
    return can;
}

FX_TEST(test_a_failed_protect_leaves_the_access)
{
    static const struct {
        int n, with;
        vt_status want;
    } cases[] = {{1, ENOMEM, VT_NOSPACE}, {1, EACCES, VT_EDEVICE}, {2, ENOMEM, VT_EDEVICE}};
    assert_ok(vmm->ops->create(vmm, 0, 3));
    for (int to_read = 0; to_read < 2; to_read++)
        for (int c = 0; c < 3; c++) {
            vt_vmm_use before = to_read ? VT_VMM_WRITE : VT_VMM_READ;
            vt_vmm_use after = to_read ? VT_VMM_READ : VT_VMM_WRITE;
            assert_ok(vmm->ops->map(vmm, addr, 0, 0, 1, before));
            assert_ok(vmm->ops->map(vmm, addr + SLICE, 0, 2, 1, before));
            mprotect_changes = c < 2 ? SLICE : 0; // as where the second mapping cannot be split
            on_mprotect = (ambush){.n = cases[c].n, .with = cases[c].with};
            assert_int_equal(vmm->ops->protect(vmm, addr, 2 * SLICE, after), cases[c].want);
            assert_int_equal(is_writable(addr), to_read);
            assert_int_equal(is_writable(addr + 2 * SLICE - 1), to_read);
            assert_ok(vmm->ops->protect(vmm, addr, 2 * SLICE, after));
            assert_int_equal(is_writable(addr), !to_read);
            assert_int_equal(is_writable(addr + 2 * SLICE - 1), !to_read);
            assert_ok(vmm->ops->unmap(vmm, addr, 2 * SLICE));
        }
    assert_ok(vmm->ops->destroy(vmm, 0, 3));
}

FX_TEST(test_fetch_bears_signals_and_short_reads)
{
    assert_ok(vmm->ops->create(vmm, 0, 2));
    assert_ok(vmm->ops->map(vmm, addr, 1, 0, 2, VT_VMM_WRITE));
    memset((void *)addr, 42, SLICE);
    on_pread = (ambush){.first = 2, .n = 3, .with = EINTR};
    assert_ok(vmm->ops->fetch(vmm, addr + SLICE, 1, 0, 0, SLICE, VT_VMM_NOW));
    assert_memory_equal((void *)addr, (void *)(addr + SLICE), SLICE);
    on_pread = (ambush){.first = 2, .n = 1, .with = EIO};
    assert_int_equal(vmm->ops->fetch(vmm, addr + SLICE, 1, 0, 0, SLICE, VT_VMM_NOW), VT_EDEVICE);
    assert_ok(vmm->ops->unmap(vmm, addr, 2 * SLICE));
    assert_ok(vmm->ops->destroy(vmm, 0, 2));
}

FX_TEST(test_store_bears_signals_and_short_writes)
{
    assert_ok(vmm->ops->create(vmm, 0, 2));
    assert_ok(vmm->ops->map(vmm, addr, 1, 0, 2, VT_VMM_WRITE));
    memset((void *)addr, 42, SLICE);
    on_pwrite = (ambush){.first = 2, .n = 3, .with = EINTR};
    assert_ok(vmm->ops->store(vmm, 1, 1, 0, addr, SLICE));
    assert_memory_equal((void *)addr, (void *)(addr + SLICE), SLICE);
    on_pwrite = (ambush){.first = 2, .n = 1, .with = EIO};
    assert_int_equal(vmm->ops->store(vmm, 1, 1, 0, addr, SLICE), VT_EDEVICE);
    assert_ok(vmm->ops->unmap(vmm, addr, 2 * SLICE));
    assert_ok(vmm->ops->destroy(vmm, 0, 2));
}

static void map_and_count(bool by_advice)
{
    vt_vmm_geometry geo = {.n_class = 1, .cls = {{1, SLICE, 4}}};
    vt_vmm *other;
    uintptr_t at;
    no_populate_advice = !by_advice;
    assert_ok(vt_vmm_host_open(&other));
    assert_ok(other->ops->configure(other, &geo));
    assert_ok(other->ops->reserve(other, 3 * SLICE, &at));
    assert_ok(other->ops->create(other, 0, 1));
    n_populate = n_populate_flag = 0;
    assert_ok(other->ops->map(other, at, 0, 0, 1, VT_VMM_WRITE));
    assert_ok(other->ops->map(other, at + SLICE, 0, 0, 1, VT_VMM_ALIAS));
    assert_ok(other->ops->map(other, at + 2 * SLICE, 0, 0, 1, VT_VMM_READ));
    assert_int_equal(n_populate, by_advice);
    assert_int_equal(n_populate_flag, !by_advice);
    assert_ok(other->ops->unmap(other, at, 3 * SLICE));
    assert_ok(other->ops->destroy(other, 0, 1));
    assert_ok(other->ops->unreserve(other, at, 3 * SLICE));
    other->ops->close(other);
    no_populate_advice = false;
}

FX_TEST(test_old_systems_populate_by_mmap)
{
    map_and_count(false);
    map_and_count(true);
}

// Where the range is mapped in the file: the offset that /proc/self/maps shows.
static uint64_t file_offset_of(uintptr_t at)
{
    unsigned long long from, to, offset = UINT64_MAX;
    char line[512];
    FILE *f = fopen("/proc/self/maps", "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "%llx-%llx %*s %llx", &from, &to, &offset) == 3 && from <= at && at < to)
            break;
    if (f) fclose(f);
    return offset + (at - from);
}

// The calls alone; whether the system then gives such pages is its own affair. Class 0 has slices
// of small pages, so that class 1 begins at the next whole huge page of the file.
FX_TEST(test_transparent_huge_pages_are_asked_for)
{
    enum { HUGE = 2 << 20 };
    vt_vmm_geometry geo = {.n_class = 2, .cls = {{1, SLICE, 3}, {2, HUGE, 64}}};
    vt_vmm *other;
    uintptr_t at, more;
    uint64_t size_bytes;
    assert_ok(vt_vmm_host_open(&other));
    shmem_enabled = "always within_size [advise] never deny force\n";
    assert_ok(other->ops->configure(other, &geo));
    assert_ok(other->ops->reserve(other, 6 * HUGE, &at));
    assert_int_equal(at % HUGE, 0);
    n_madvise = 0;
    assert_ok(other->ops->create(other, 0, 1));
    assert_ok(other->ops->map(other, at + 5 * HUGE, 0, 0, 1, VT_VMM_WRITE));
    assert_int_equal(n_madvise, 0);
    assert_ok(other->ops->create(other, 6, 2));
    assert_int_equal(n_madvise, 2);
    assert_ok(other->ops->resident(other, &size_bytes));
    assert_int_equal(size_bytes, 4 * HUGE + SLICE);
    assert_ok(other->ops->map(other, at, 0, 6, 2, VT_VMM_WRITE));
    assert_int_equal(file_offset_of(at) % HUGE, 0);
    assert_ok(other->ops->map(other, at + 2 * HUGE, 0, 6, 2, VT_VMM_READ));
    assert_int_equal(n_madvise, 4);
    memset((void *)at, 5, 2 * HUGE);
    assert_int_equal(*(char *)(at + 3 * HUGE), 5);
    assert_ok(other->ops->protect(other, at + 3 * HUGE, HUGE, VT_VMM_WRITE));
    memset((void *)(at + 3 * HUGE), 6, HUGE);
    assert_int_equal(*(char *)(at + HUGE), 6);
    assert_ok(other->ops->unmap(other, at, 4 * HUGE));
    assert_ok(other->ops->unmap(other, at + 5 * HUGE, SLICE));
    assert_ok(other->ops->destroy(other, 0, 1));
    assert_ok(other->ops->destroy(other, 6, 2));
    assert_ok(other->ops->resident(other, &size_bytes));
    assert_int_equal(size_bytes, 0);
    on_munmap = (ambush){.n = 1, .with = ENOMEM}; // of what was reserved too much
    assert_int_equal(other->ops->reserve(other, 4 * HUGE, &more), VT_NOSPACE);
    assert_ok(other->ops->reserve(other, 4 * HUGE, &more));
    assert_int_equal(more % HUGE, 0);
    assert_ok(other->ops->unreserve(other, more, 4 * HUGE));
    assert_ok(other->ops->unreserve(other, at, 6 * HUGE));
    other->ops->close(other);
}

// The file of this test has small pages, but nothing below a huge page is asked of it, and nothing
// is written to it but through mappings.
FX_TEST(test_reserved_huge_pages_are_the_unit_of_all)
{
    enum { HUGE = 2 << 20 };
    vt_vmm_geometry geo = {.n_class = 2, .cls = {{1, HUGE, 3}, {2, 2 * HUGE, 8}}};
    vt_vmm *other;
    uintptr_t at;
    nr_hugepages = "64\n";
    shmem_enabled = "[advise]"; // is for small pages
    assert_ok(vt_vmm_host_open_huge(HUGE, &other));
    assert_int_equal(other->ops->granularity(other), HUGE);
    assert_ok(other->ops->configure(other, &geo));
    assert_ok(other->ops->reserve(other, 8 * HUGE, &at));
    assert_int_equal(at % HUGE, 0);
    n_madvise = 0;
    assert_ok(other->ops->create(other, 4, 2));
    assert_ok(other->ops->map(other, at, 1, 4, 1, VT_VMM_WRITE));
    assert_ok(other->ops->map(other, at + 2 * HUGE, 1, 5, 1, VT_VMM_READ));
    assert_int_equal(n_madvise, 0);
    memcpy((char *)at + 9, "pages", 5);
    on_pwrite = (ambush){.n = 1, .with = EINVAL}; // as hugetlbfs, which has no write
    assert_ok(other->ops->store(other, 1, 5, 2 * HUGE - 5, at + 9, 5));
    assert_ok(other->ops->store(other, 1, 5, HUGE - 2, at + 9, 5)); // across two pages
    assert_memory_equal((void *)(at + 4 * HUGE - 5), "pages", 5);
    assert_memory_equal((void *)(at + 3 * HUGE - 3), "\0pages", 7);
    assert_int_equal(on_pwrite.seen, 0);
    on_mmap = (ambush){.n = 1, .with = ENOMEM};
    assert_int_equal(other->ops->store(other, 1, 5, 0, at + 9, 5), VT_EDEVICE);
    assert_ok(other->ops->protect(other, at, 2 * HUGE, VT_VMM_READ));
    assert_false(is_writable(at));
    assert_ok(other->ops->protect(other, at, 4 * HUGE, VT_VMM_WRITE));
    assert_true(is_writable(at) && is_writable(at + 4 * HUGE - 1));
    assert_ok(other->ops->unmap(other, at, 4 * HUGE));
    assert_ok(other->ops->destroy(other, 4, 2));
    assert_ok(other->ops->unreserve(other, at, 8 * HUGE));
    other->ops->close(other);
}

FX_TEST(test_advice_is_given_where_something_is_to_be_gained)
{
    static const char *const off[] = {"always within_size advise [never] deny force\n", "[deny]"};
    static const char *const on[] = {"always within_size [advise] never deny force\n",
                                     "[always] never",
                                     "[force]",
                                     "[nevermore]",
                                     "never",
                                     "[never",
                                     "[]",
                                     ""};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        shmem_enabled = off[i];
        assert_non_null(vt_vmm_host_advice());
        assert_null(strchr(vt_vmm_host_advice(), '\n'));
    }
    for (size_t i = 0; i < sizeof on / sizeof *on; i++) {
        shmem_enabled = on[i];
        assert_null(vt_vmm_host_advice());
    }
}

FX_TEST(test_maps_are_read_whatever_stands_in_them)
{
    struct stat me;
    assert_int_equal(fstat(last_memfd, &me), 0);
    char text[40000], mine[64];
    uint64_t size_bytes = 1, n = 1;
    snprintf(mine, sizeof mine, "rw-s 0000 %x:%02x %ju", major(me.st_dev), minor(me.st_dev),
             (uintmax_t)me.st_ino);
    int len = snprintf(text, sizeof text, "1000-2000 rw-s 0000 ff:ff 9    %030000d\n", 0);
    len += snprintf(text + len, sizeof text - (size_t)len, "2000-5000 %s    /1 2 3-4\n", mine);
    // the border between two mappings moved while they were read
    len +=
        snprintf(text + len, sizeof text - (size_t)len, "3000-4000 %s\n4000-6000 %s\n", mine, mine);
    snprintf(text + len, sizeof text - (size_t)len,
             "ffffffffff600000-ffffffffff601000 --xp 0 00:00 0");
    maps = text;
    assert_ok(vmm->ops->mapped(vmm, &size_bytes, &n));
    assert_int_equal(size_bytes, 0x4000);
    assert_int_equal(n, 2);
}

FX_TEST(test_maps_that_make_no_sense_are_not_counted)
{
    static const char *const broken[] = {
        "hello\n", "1000-2000\n",          "1000-2000 rw-s 0 00:01 \n", "1000-2000 rw-s 0 0001 5\n",
        "\n",      "1000 2000 r 0 0:1 1\n"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        uint64_t size_bytes = 77, n = 77;
        maps = broken[i];
        assert_int_equal(vmm->ops->mapped(vmm, &size_bytes, &n), VT_EDEVICE);
        assert_true(size_bytes == 77 && n == 77);
    }
}

FX_TEST(test_opening_answers_what_the_system_says)
{
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

FX_TEST(test_trouble_is_named_in_a_line)
{
    static const struct {
        int with;
        const char *says;
    } rows[] = {{EMFILE, "ulimit -n"}, {EPERM, "seccomp"},      {ENOSYS, "no memfd_create"},
                {ENOMEM, "no memory"}, {ENFILE, "fs.file-max"}, {EIO, "memfd_create fails"}};
    assert_null(vt_vmm_host_trouble());
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        on_memfd = (ambush){.n = 1, .with = rows[i].with};
        const char *line = vt_vmm_host_trouble();
        assert_non_null(line);
        assert_non_null(strstr(line, rows[i].says));
        assert_null(strchr(line, '\n'));
    }
    on_memfd = (ambush){0};
    assert_null(vt_vmm_host_trouble());
}

FX_RUN_EACH(test_vt_syscall, setup, teardown)
