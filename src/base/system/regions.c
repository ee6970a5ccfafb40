// regions.c - memory as pages of the system, as arenas, and as mapped files.
#include "base/system/regions.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- anonymous mappings, and the heap's free pages ---------------------------------------------

#define LARGE_BLOCK_BYTES (256 << 10)

void *fxi_pages_map(size_t n_bytes)
{
    void *p = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void fxi_pages_unmap(void *p, size_t n_bytes)
{
    if (p) munmap(p, n_bytes);
}

void fxi_heap_map_large(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES);
    mallopt(M_TRIM_THRESHOLD, LARGE_BLOCK_BYTES);
#endif
}

void fxi_heap_trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

// ---- arenas: slabs, the newest first; pieces are cut from the newest ---------------------------

#define LINE_BYTES ((size_t)64)
#define HUGE_BYTES ((size_t)2 << 20)
#define MAX_BYTES  (SIZE_MAX / 4) // of a slab

// The slab's first line.
struct fxi_arena_slab {
    struct fxi_arena_slab *older;
};

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

// Pre: size_bytes <= MAX_BYTES.
static void *slab_memory(size_t size_bytes)
{
    if (size_bytes < HUGE_BYTES) return aligned_alloc(LINE_BYTES, round_up(size_bytes, LINE_BYTES));
    size_bytes = round_up(size_bytes, HUGE_BYTES);
    void *p = aligned_alloc(HUGE_BYTES, size_bytes);
    if (p) (void)madvise(p, size_bytes, MADV_HUGEPAGE); // a hint
    return p;
}

static struct fxi_arena_slab *new_slab(size_t least, uint64_t more, size_t *size_bytes)
{
    *size_bytes = more < MAX_BYTES - least ? least + (size_t)more : least;
    struct fxi_arena_slab *s = slab_memory(*size_bytes);
    if (s || *size_bytes == least) return s;
    *size_bytes = least;
    return slab_memory(least);
}

void *fxi_arena_take(fxi_arena *a, size_t size_bytes, uint64_t more_bytes)
{
    if (size_bytes > MAX_BYTES - 2 * LINE_BYTES) return NULL;
    size_bytes = round_up(size_bytes, LINE_BYTES);
    if ((size_t)(a->end - a->at) < size_bytes) {
        size_t slab_bytes;
        struct fxi_arena_slab *s = new_slab(LINE_BYTES + size_bytes, more_bytes, &slab_bytes);
        if (!s) return NULL;
        s->older = a->slab;
        *a = (fxi_arena){s, (char *)s + LINE_BYTES, (char *)s + slab_bytes};
    }
    void *p = a->at;
    a->at += size_bytes;
    return p;
}

void fxi_arena_free(fxi_arena *a)
{
    for (struct fxi_arena_slab *s = a->slab, *older; s; s = older) {
        older = s->older;
        free(s);
    }
    *a = (fxi_arena){0};
}

// ---- files, mapped -----------------------------------------------------------------------------

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
