// test_vt_swapfile.c - the swap file, in normal use and when the system fails: the linker redirects
// its calls to this file, where they fail with an errno, transfer less than requested, or act like
// a system without O_TMPFILE. The file is in memory (/dev/shm) if possible, else in the working
// directory.
#include "ambush.h"
#include "assert_vt.h"
#include "suite.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "vtensor/backend/host/vmm_host.h"
#include "vtensor/vmm.h"

enum { SIZE = 3 << 20, FAR = 1 << 30 };

static ambush on_pwrite, on_pread, on_fallocate;
static size_t at_most; // bytes of one read or write; 0: no limit
static bool no_tmpfile;

static size_t cut(size_t len)
{
    return at_most > 0 && len > at_most ? at_most : len;
}

ssize_t __real_pwrite(int fd, const void *from, size_t len, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *from, size_t len, off_t offset);
ssize_t __real_pread(int fd, void *to, size_t len, off_t offset);
ssize_t __wrap_pread(int fd, void *to, size_t len, off_t offset);
int __real_fallocate(int fd, int mode, off_t offset, off_t len);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t len);
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

ssize_t __wrap_pwrite(int fd, const void *from, size_t len, off_t offset)
{
    return falls(&on_pwrite) ? -1 : __real_pwrite(fd, from, cut(len), offset);
}

ssize_t __wrap_pread(int fd, void *to, size_t len, off_t offset)
{
    return falls(&on_pread) ? -1 : __real_pread(fd, to, cut(len), offset);
}

int __wrap_fallocate(int fd, int mode, off_t offset, off_t len)
{
    return falls(&on_fallocate) ? -1 : __real_fallocate(fd, mode, offset, len);
}

int __wrap_open(const char *path, int flags, ...)
{
    if (!no_tmpfile || (flags & O_TMPFILE) != O_TMPFILE) return __real_open(path, flags, 0600);
    errno = EOPNOTSUPP;
    return -1;
}

static vti_swap_file file;
static uint8_t out[SIZE], in[SIZE];
static char dir[64];

VT_FIXTURE(setup)
{
    on_pwrite = on_pread = on_fallocate = (ambush){0};
    at_most = 0;
    no_tmpfile = false;
    for (size_t i = 0; i < SIZE; i++) out[i] = (uint8_t)(i * 2654435761u >> 13);
    memset(in, 0, SIZE);
    strcpy(dir, "/dev/shm/swapfile-XXXXXX");
    assert_true(mkdtemp(dir) || mkdtemp(strcpy(dir, "./swapfile-XXXXXX")));
    assert_ok(vti_swap_file_open(&file, dir, 2 * (uint64_t)FAR));
}

// The directory is empty before the file is closed already.
VT_FIXTURE(teardown)
{
    assert_int_equal(rmdir(dir), 0);
    vti_swap_file_close(&file);
    vti_swap_file_close(&file); // of one that is not open
}

// Other file systems than tmpfs may tell late, compress, or not know how to give room back.
static bool takes(uint64_t size_bytes)
{
    struct statfs fs;
    struct stat st;
    assert_int_equal(fstatfs(file.fd, &fs), 0);
    assert_int_equal(fstat(file.fd, &st), 0);
    return fs.f_type != TMPFS_MAGIC || (uint64_t)st.st_blocks * 512 == size_bytes;
}

static void assert_comes_back(void)
{
    uint64_t sum = 1, back = 2;
    assert_ok(vti_swap_file_write(&file, FAR, out, SIZE, &sum));
    assert_ok(vti_swap_file_read(&file, in, FAR, SIZE, &back));
    assert_int_equal(sum, back);
    assert_int_equal(sum, vt_vmm_checksum(0, out, SIZE));
    assert_memory_equal(in, out, SIZE);
}

FX_TEST(test_what_was_written_comes_back)
{
    assert_comes_back();
    assert_true(takes(SIZE));
    vti_swap_file_drop(&file, FAR, SIZE);
    assert_true(takes(0));
    assert_comes_back();
}

FX_TEST(test_nobody_else_gets_at_the_file)
{
    struct stat st;
    assert_int_equal(fstat(file.fd, &st), 0);
    assert_int_equal(st.st_nlink, 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(fcntl(file.fd, F_GETFD), FD_CLOEXEC);
}

FX_TEST(test_a_system_without_nameless_files_serves_too)
{
    test_nobody_else_gets_at_the_file(state);
    vti_swap_file_close(&file);
    no_tmpfile = true;
    assert_ok(vti_swap_file_open(&file, dir, 2 * (uint64_t)FAR));
    test_nobody_else_gets_at_the_file(state);
    assert_comes_back();
}

FX_TEST(test_a_damaged_byte_changes_the_checksum)
{
    uint64_t sum, back;
    static const size_t where[] = {0, 1, SIZE / 2 + 77, SIZE - 1};
    assert_ok(vti_swap_file_write(&file, 0, out, SIZE, &sum));
    for (size_t i = 0; i < sizeof where / sizeof *where; i++) {
        uint8_t other = out[where[i]] ^ 16;
        assert_int_equal(__real_pwrite(file.fd, &other, 1, (off_t)where[i]), 1);
        assert_ok(vti_swap_file_read(&file, in, 0, SIZE, &back));
        assert_int_not_equal(sum, back);
        assert_int_equal(__real_pwrite(file.fd, &out[where[i]], 1, (off_t)where[i]), 1);
    }
    assert_ok(vti_swap_file_read(&file, in, 0, SIZE, &back));
    assert_int_equal(sum, back);
    assert_int_equal(__real_fallocate(file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, SIZE),
                     0);
    assert_ok(vti_swap_file_read(&file, in, 0, SIZE, &back)); // zeros now
    assert_int_not_equal(sum, back);
}

FX_TEST(test_signals_and_short_calls_are_borne)
{
    at_most = 1001;
    on_pwrite = on_pread = (ambush){.first = 3, .n = 20, .with = EINTR};
    assert_comes_back();
    assert_true(on_pwrite.seen > SIZE / 1001 && on_pread.seen > SIZE / 1001);
    on_fallocate = (ambush){.n = 3, .with = EINTR};
    vti_swap_file_drop(&file, FAR, SIZE);
    assert_true(takes(0));
}

FX_TEST(test_a_full_disk_is_no_space)
{
    static const int full[] = {ENOSPC, EDQUOT, EFBIG};
    uint64_t sum = 77;
    for (size_t i = 0; i < sizeof full / sizeof *full; i++) {
        on_pwrite = (ambush){.first = 5, .n = 1, .with = full[i]};
        assert_int_equal(vti_swap_file_write(&file, FAR, out, SIZE, &sum), VT_NOSPACE);
        assert_int_equal(sum, 77);
        assert_true(takes(0)); // what was written in vain went back
    }
    assert_comes_back();
}

FX_TEST(test_a_broken_disk_is_a_fault)
{
    uint64_t sum = 77;
    on_pwrite = (ambush){.first = 5, .n = 1, .with = EIO};
    assert_int_equal(vti_swap_file_write(&file, 0, out, SIZE, &sum), VT_EDEVICE);
    assert_comes_back();
    on_pread = (ambush){.first = 5, .n = 1, .with = EIO};
    assert_int_equal(vti_swap_file_read(&file, in, FAR, SIZE, &sum), VT_EDEVICE);
    assert_int_equal(ftruncate(file.fd, FAR + SIZE - 1), 0);
    assert_int_equal(vti_swap_file_read(&file, in, FAR, SIZE, &sum), VT_EDEVICE);
    assert_int_equal(sum, 77);
    on_fallocate = (ambush){.n = 1, .with = EOPNOTSUPP};
    vti_swap_file_drop(&file, FAR, SIZE); // nothing to be done, and nothing to be told
}

FX_TEST(test_a_directory_that_is_not_there_is_a_fault)
{
    vti_swap_file other = {.fd = -1};
    char path[5000];
    for (int i = 0; i < 2; i++) {
        no_tmpfile = i == 1;
        assert_int_equal(vti_swap_file_open(&other, "./no/such/place", 1), VT_EDEVICE);
        memset(path, 'x', sizeof path - 1);
        path[sizeof path - 1] = '\0';
        assert_int_equal(vti_swap_file_open(&other, path, 1), VT_EDEVICE);
        assert_int_equal(other.fd, -1);
    }
}

// RLIMIT_FSIZE would make pwrite raise SIGXFSZ.
FX_TEST(test_a_limit_on_files_is_no_space)
{
    struct rlimit old, low;
    vti_swap_file other = {.fd = -1};
    uint64_t sum;
    getrlimit(RLIMIT_FSIZE, &old);
    low = old;
    low.rlim_cur = 2 * SIZE;
    setrlimit(RLIMIT_FSIZE, &low);
    assert_int_equal(vti_swap_file_open(&other, dir, 2 * SIZE + 1), VT_NOSPACE);
    assert_int_equal(vti_swap_file_write(&file, SIZE + 1, out, SIZE, &sum), VT_NOSPACE);
    assert_ok(vti_swap_file_write(&file, SIZE, out, SIZE, &sum));
    assert_ok(vti_swap_file_open(&other, dir, 2 * SIZE));
    setrlimit(RLIMIT_FSIZE, &old);
    vti_swap_file_close(&other);
    assert_int_equal(vti_swap_file_open(&other, dir, (uint64_t)INT64_MAX + 1), VT_NOSPACE);
}

FX_RUN_EACH(test_vt_swapfile, setup, teardown)
