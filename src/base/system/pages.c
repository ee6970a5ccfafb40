// pages.c - anonymous mappings, and the heap's free pages.
#include "base/system/pages.h"

#include <malloc.h>
#include <sys/mman.h>

#define LARGE_BLOCK_BYTES (256 << 10)

void *fxi_pages_map(size_t n_bytes)
{
    void *p = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void *fxi_pages_remap(void *p, size_t old_bytes, size_t new_bytes)
{
    void *q = mremap(p, old_bytes, new_bytes, MREMAP_MAYMOVE);
    return q == MAP_FAILED ? NULL : q;
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
