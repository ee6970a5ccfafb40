// host_file.c - the swap file of the host backend, and the files of /proc and /sys.
//
// The swap:
// - The file has no name from the start (O_TMPFILE), or if the file system does not support that,
//   it is unlinked right after it is created: its room is freed however the process ends.
// - It takes room as it is written, so a full disk shows then; a write that fails is dropped, so
//   that its room is free for others.
// - Bytes are summed and written in pieces that stay in the cache between the two.
// - Beyond RLIMIT_FSIZE a write does not only fail: SIGXFSZ ends the process. The limit may change
//   at any time, so it is checked at each write.
//
// A line of /proc/self/maps:
//
//     7f5e00000000-7f5e00200000 rw-s 00100000 00:01 2051      /memfd:vtensor
//
// The name at its end may contain anything, so only the front is read: addresses, permissions,
// offset, device and inode. Between two reads the system may have moved the borders of a mapping
// that was read already; addresses count only once.
#include "vmm_host.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "vtensor/core/common.h"

// ---- What the system reports

#define THP "/sys/kernel/mm/transparent_hugepage/"

enum {
    DEFAULT_MAX_MAPS = 65530,
    SMALL_BYTES = 128, // of a file with one line
    FRONT_BYTES = 128, // of a line of maps: everything but the name takes at most 88
};

vt_status vti_system_status(void)
{
    static const int of_room[] = {ENOMEM, ENOSPC, EAGAIN, EDQUOT, EFBIG};
    for (size_t i = 0; i < sizeof of_room / sizeof *of_room; i++)
        if (errno == of_room[i]) return VT_NOSPACE;
    return VT_EDEVICE;
}

static FILE *open_report(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!f && fd >= 0) close(fd);
    return f;
}

// The first line.
static bool read_small(const char *path, char text[SMALL_BYTES])
{
    FILE *f = open_report(path);
    const bool is_read = f && fgets(text, SMALL_BYTES, f);
    if (f) fclose(f);
    return is_read;
}

static uint64_t read_number_in(const char *path, uint64_t otherwise)
{
    char text[SMALL_BYTES];
    if (!read_small(path, text)) return otherwise;
    char *end;
    unsigned long long n = strtoull(text, &end, 10);
    return end != text ? n : otherwise;
}

uint64_t vti_system_max_maps(void)
{
    return read_number_in("/proc/sys/vm/max_map_count", DEFAULT_MAX_MAPS);
}

// Whether the choice in brackets is one of the words: "always [advise] never".
static bool is_chosen(const char *path, const char *const *words, size_t n_word)
{
    char text[SMALL_BYTES];
    if (!read_small(path, text)) return false;
    const char *from = strchr(text, '[');
    const char *to = from ? strchr(from, ']') : NULL;
    if (!to) return false;
    size_t len = (size_t)(to - from - 1);
    for (size_t i = 0; i < n_word; i++)
        if (strlen(words[i]) == len && memcmp(from + 1, words[i], len) == 0) return true;
    return false;
}

size_t vti_system_thp_bytes(void)
{
    static const char *const given[] = {"advise", "within_size", "always", "force"};
    if (!is_chosen(THP "shmem_enabled", given, 4)) return 0;
    return (size_t)read_number_in(THP "hpage_pmd_size", 0);
}

const char *vt_vmm_host_advice(void)
{
    static const char *const withheld[] = {"never", "deny"};
    if (!is_chosen(THP "shmem_enabled", withheld, 2)) return NULL;
    return "transparent huge pages are off for shared memory: echo advise > " THP
           "shmem_enabled makes sharing prefixes and reading them first cheaper";
}

uint64_t vti_system_huge_pages(size_t huge_page_bytes)
{
    static const char *const counts[] = {"nr_hugepages", "nr_overcommit_hugepages"};
    uint64_t n = 0;
    for (int i = 0; i < 2; i++) {
        char path[SMALL_BYTES];
        snprintf(path, sizeof path, "/sys/kernel/mm/hugepages/hugepages-%zukB/%s",
                 huge_page_bytes / 1024, counts[i]);
        n += read_number_in(path, 0);
    }
    return n;
}

typedef struct maps_tally {
    dev_t device;
    ino_t inode;
    uint64_t counted_to; // addresses below are counted
    uint64_t size_bytes, n_mapping;
} maps_tally;

// False: it is no such line.
static bool count_line(maps_tally *t, const char *line)
{
    unsigned long long from, to, inode;
    unsigned major_no, minor_no;
    if (sscanf(line, "%llx-%llx %*s %*x %x:%x %llu", &from, &to, &major_no, &minor_no, &inode) != 5)
        return false;
    if (inode != t->inode || major_no != major(t->device) || minor_no != minor(t->device))
        return true;
    if (from < t->counted_to) from = t->counted_to;
    if (to <= from) return true;
    t->counted_to = to;
    t->size_bytes += to - from;
    t->n_mapping++;
    return true;
}

vt_status vti_system_mapped(dev_t device, ino_t inode, uint64_t *size_bytes, uint64_t *n_mapping)
{
    maps_tally t = {.device = device, .inode = inode};
    char part[FRONT_BYTES];
    FILE *f = open_report("/proc/self/maps");
    if (!f) return VT_EDEVICE;
    bool is_front = true, is_whole = true; // of a line; so far
    while (is_whole && fgets(part, sizeof part, f)) {
        if (is_front) is_whole = count_line(&t, part);
        is_front = strchr(part, '\n') != NULL;
    }
    is_whole &= !ferror(f);
    fclose(f);
    if (!is_whole) return VT_EDEVICE;
    *size_bytes = t.size_bytes;
    *n_mapping = t.n_mapping;
    return VT_OK;
}

// ---- Whole transfers

bool vti_file_may_reach(uint64_t end_bytes)
{
    struct rlimit lim;
    return getrlimit(RLIMIT_FSIZE, &lim) != 0 || end_bytes <= lim.rlim_cur;
}

static bool transfer_all(bool writes, int fd, char *bytes, size_t size_bytes, off_t offset)
{
    for (size_t done = 0; done < size_bytes;) {
        const size_t left = size_bytes - done;
        const off_t at = offset + (off_t)done;
        errno = 0;
        const ssize_t n =
            writes ? pwrite(fd, bytes + done, left, at) : pread(fd, bytes + done, left, at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

bool vti_file_read(int fd, void *dst, size_t size_bytes, off_t offset)
{
    return transfer_all(false, fd, dst, size_bytes, offset);
}

bool vti_file_write(int fd, const void *src, size_t size_bytes, off_t offset)
{
    return transfer_all(true, fd, (char *)(uintptr_t)src, size_bytes, offset);
}

bool vti_file_allocate(int fd, int mode, off_t offset, size_t size_bytes)
{
    int rc;
    do rc = fallocate(fd, mode, offset, (off_t)size_bytes);
    while (rc != 0 && errno == EINTR);
    return rc == 0;
}

// ---- The swap

enum { SWAP_PIECE_BYTES = 1 << 18 };

static int open_and_unlink(const char *dir)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/vtensor-swap-XXXXXX", dir);
    if (n < 0 || (size_t)n >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) (void)unlink(path);
    return fd;
}

// Kernels and file systems without O_TMPFILE understand it as opening a directory for writing.
static int open_nameless(const char *dir)
{
    int fd = open(dir, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) fd = open_and_unlink(dir);
    return fd;
}

vt_status vti_swap_file_open(vti_swap_file *f, const char *dir, uint64_t size_bytes)
{
    assert(size_bytes > 0);
    if (size_bytes > INT64_MAX || !vti_file_may_reach(size_bytes)) return VT_NOSPACE;
    int fd = open_nameless(dir);
    if (fd < 0) return vti_system_status();
    *f = (vti_swap_file){.fd = fd, .size_bytes = size_bytes};
    return VT_OK;
}

static void assert_inside(const vti_swap_file *f, uint64_t offset, size_t size_bytes)
{
    assert(f->fd >= 0 && size_bytes > 0);
    assert(offset <= f->size_bytes && size_bytes <= f->size_bytes - offset);
    (void)f, (void)offset, (void)size_bytes;
}

static size_t piece_length(size_t size_bytes, size_t done)
{
    return size_bytes - done < SWAP_PIECE_BYTES ? size_bytes - done : SWAP_PIECE_BYTES;
}

vt_status vti_swap_file_write(const vti_swap_file *f, uint64_t offset, const void *src,
                              size_t size_bytes, uint64_t *sum)
{
    assert_inside(f, offset, size_bytes);
    if (!vti_file_may_reach(offset + size_bytes)) return VT_NOSPACE;
    uint64_t so_far = 0;
    for (size_t done = 0; done < size_bytes; done += piece_length(size_bytes, done)) {
        const char *piece = (const char *)src + done;
        size_t n = piece_length(size_bytes, done);
        so_far = vt_vmm_checksum(so_far, piece, n);
        if (vti_file_write(f->fd, piece, n, (off_t)(offset + done))) continue;
        vt_status st = vti_system_status();
        vti_swap_file_drop(f, offset, size_bytes);
        return st;
    }
    *sum = so_far;
    return VT_OK;
}

vt_status vti_swap_file_read(const vti_swap_file *f, void *dst, uint64_t offset, size_t size_bytes,
                             uint64_t *sum)
{
    assert_inside(f, offset, size_bytes);
    uint64_t so_far = 0;
    for (size_t done = 0; done < size_bytes; done += piece_length(size_bytes, done)) {
        char *piece = (char *)dst + done;
        size_t n = piece_length(size_bytes, done);
        // The end of the file is an error, too: these bytes were written.
        if (!vti_file_read(f->fd, piece, n, (off_t)(offset + done))) return VT_EDEVICE;
        so_far = vt_vmm_checksum(so_far, piece, n);
    }
    *sum = so_far;
    return VT_OK;
}

// Not every file system can; then the room is reused when these bytes are written again.
void vti_swap_file_drop(const vti_swap_file *f, uint64_t offset, size_t size_bytes)
{
    assert_inside(f, offset, size_bytes);
    int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    (void)vti_file_allocate(f->fd, mode, (off_t)offset, size_bytes);
}

void vti_swap_file_close(vti_swap_file *f)
{
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
}
