// mapping.c - maps and unmaps files.
#include "base/system/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static fx_status map_fd(int fd, const char *path, fxi_mapping *out, fx_error *err)
{
    struct stat st;
    if (fstat(fd, &st)) return fxi_fail(err, FX_EIO, "%s: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode)) return fxi_fail(err, FX_EIO, "%s: is a directory", path);
    if (!S_ISREG(st.st_mode)) return fxi_fail(err, FX_EIO, "%s: not a regular file", path);
    if (!st.st_size) return fxi_fail(err, FX_EFORMAT, "%s: the file is empty", path);
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return fxi_fail(err, fxi_errno_status(errno), "%s: cannot map: %s", path, strerror(errno));
    *out = (fxi_mapping){p, (size_t)st.st_size, st.st_dev, st.st_ino};
    return FX_OK;
}

fx_status fxi_mapping_open(const char *path, fxi_mapping *out, fx_error *err)
{
    *out = (fxi_mapping){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a fifo must not block
    if (fd < 0) return fxi_fail(err, fxi_errno_status(errno), "%s: %s", path, strerror(errno));
    fx_status st = map_fd(fd, path, out, err);
    close(fd);
    return st;
}

void fxi_mapping_close(fxi_mapping *m)
{
    if (m->data) munmap((void *)(uintptr_t)m->data, m->size_bytes);
    *m = (fxi_mapping){0};
}

bool fxi_mapping_is_of(const fxi_mapping *m, const char *path)
{
    struct stat st;
    return m->data && !stat(path, &st) && st.st_dev == m->device && st.st_ino == m->inode;
}

bool fxi_mapping_holds(const fxi_mapping *m, const void *p)
{
    return m->data && (uintptr_t)p - (uintptr_t)m->data < m->size_bytes;
}

// A page fault also maps the pages around it, up to a huge page: drop as much.
#define AROUND_BYTES ((size_t)2 << 20)

void fxi_mapping_drop(const fxi_mapping *m, const void *p, size_t n_bytes)
{
    const size_t from = (size_t)((const unsigned char *)p - m->data), to = from + n_bytes;
    const size_t first = from / AROUND_BYTES * AROUND_BYTES;
    const size_t end = (to + AROUND_BYTES - 1) / AROUND_BYTES * AROUND_BYTES;
    const size_t n = (end < m->size_bytes ? end : m->size_bytes) - first;
    (void)madvise((void *)(uintptr_t)(m->data + first), n, MADV_DONTNEED);
}
