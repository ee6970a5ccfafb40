// swap_file.c - see swap_file.h.
//
// - The file has no name from the start (O_TMPFILE), or if the file system does not support that,
//   it is unlinked right after it is created: its room is freed however the process ends.
// - It takes room as it is written, so a full disk shows then; a write that fails is dropped, so
//   that its room is free for others.
// - Bytes are summed and written in pieces that stay in the cache between the two.
// - Beyond RLIMIT_FSIZE a write does not only fail: SIGXFSZ ends the process. The limit may change
//   at any time, so it is checked at each write.
#include "swap_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_file.h"
#include "vtensor/vmm.h"

enum { PIECE_BYTES = 1 << 18 };

static vt_status status_of_errno(void)
{
    static const int of_room[] = {ENOSPC, EDQUOT, EFBIG, ENOMEM};
    for (size_t i = 0; i < sizeof of_room / sizeof *of_room; i++)
        if (errno == of_room[i]) return VT_NOSPACE;
    return VT_EDEVICE;
}

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
    if (fd < 0) return status_of_errno();
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
    return size_bytes - done < PIECE_BYTES ? size_bytes - done : PIECE_BYTES;
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
        vt_status st = status_of_errno();
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
