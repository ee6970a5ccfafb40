// arena.c - slabs, the newest first; pieces are cut from the newest.
#include "base/system/arena.h"

#include <stdlib.h>
#include <sys/mman.h>

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
