// gguf_open.c - opens and closes a GGUF file: maps it, has it parsed, unmaps it.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/gguf/gguf_impl.h"

static fx_status new_gguf(const char *name, fxi_gguf **out, fx_error *err)
{
    fxi_gguf *g = calloc(1, sizeof *g);
    if (g) g->name = strdup(name);
    if (!g || !g->name) {
        free(g);
        return fxi_fail(err, FX_ENOMEM, "%s: no memory", name);
    }
    *out = g;
    return FX_OK;
}

static fx_status parse_or_close(fxi_gguf *g, fxi_gguf **out, fx_error *err)
{
    fx_status st = fxi_gguf_parse_bytes(g, err);
    if (st == FX_OK)
        *out = g;
    else
        fxi_gguf_close(g);
    return st;
}

fx_status fxi_gguf_parse(const void *data, size_t size_bytes, const char *name, fxi_gguf **out,
                         fx_error *err)
{
    fxi_gguf *g;
    FX_TRY(new_gguf(name, &g, err));
    g->data = data;
    g->size_bytes = size_bytes;
    return parse_or_close(g, out, err);
}

static fx_status map_fd(int fd, const char *path, const unsigned char **data, size_t *size,
                        fx_error *err)
{
    struct stat st;
    if (fstat(fd, &st)) return fxi_fail(err, FX_EIO, "%s: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode)) return fxi_fail(err, FX_EIO, "%s: is a directory", path);
    if (!S_ISREG(st.st_mode)) return fxi_fail(err, FX_EIO, "%s: not a regular file", path);
    if (!st.st_size) return fxi_fail(err, FX_EFORMAT, "%s: the file is empty", path);
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) return fxi_fail(err, FX_EIO, "%s: cannot map: %s", path, strerror(errno));
    *data = p;
    *size = (size_t)st.st_size;
    return FX_OK;
}

static fx_status map_file(const char *path, const unsigned char **data, size_t *size, fx_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a fifo must not block
    if (fd < 0) return fxi_fail(err, FX_EIO, "%s: %s", path, strerror(errno));
    fx_status st = map_fd(fd, path, data, size, err);
    close(fd);
    return st;
}

fx_status fxi_gguf_open(const char *path, fxi_gguf **out, fx_error *err)
{
    fxi_gguf *g;
    FX_TRY(new_gguf(path, &g, err));
    fx_status st = map_file(path, &g->data, &g->size_bytes, err);
    if (st != FX_OK) {
        fxi_gguf_close(g);
        return st;
    }
    g->mapped = true;
    return parse_or_close(g, out, err);
}

void fxi_gguf_close(fxi_gguf *g)
{
    if (!g) return;
    if (g->mapped) munmap((void *)(uintptr_t)g->data, g->size_bytes);
    free(g->kv);
    free(g->tensor);
    free(g->kv_by_name);
    free(g->tensor_by_name);
    free(g->name);
    free(g);
}

// A page fault also maps the pages around it, up to a huge page: drop as much.
#define AROUND_BYTES ((size_t)2 << 20)

void fxi_gguf_drop(const fxi_gguf *g, const void *p, size_t n_bytes)
{
    if (!g->mapped) return;
    const size_t from = (size_t)((const unsigned char *)p - g->data), to = from + n_bytes;
    const size_t first = from / AROUND_BYTES * AROUND_BYTES;
    const size_t end = (to + AROUND_BYTES - 1) / AROUND_BYTES * AROUND_BYTES;
    const size_t n = (end < g->size_bytes ? end : g->size_bytes) - first;
    (void)madvise((void *)(uintptr_t)(g->data + first), n, MADV_DONTNEED);
}
