// guarded.c - each buffer is a mapping: a page without access, whole pages, a page without access.
#include "guarded.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FILLER = 0xa5 };

typedef struct block {
    char *map, *p;
    size_t n_map, n_bytes;
    struct block *next;
} block;

static block *blocks;
static void must_hold(int condition, const char *what)
{
    if (condition) return;
    fprintf(stderr, "guarded: %s\n", what);
    abort();
}

void *guarded_new(size_t n_bytes)
{
    static uint64_t n_made;
    const bool ends = ++n_made * 0x9e3779b97f4a7c15u >> 63; // the golden ratio's multiples
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t n_data = n_bytes ? (n_bytes + page - 1) / page * page : page;
    block *b = malloc(sizeof *b);
    must_hold(b != NULL, "no memory");
    b->n_bytes = n_bytes;
    b->n_map = n_data + 2 * page;
    b->map = mmap(NULL, b->n_map, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must_hold(b->map != MAP_FAILED, "no memory");
    must_hold(!mprotect(b->map + page, n_data, PROT_READ | PROT_WRITE), "mprotect failed");
    b->p = b->map + page + (ends ? n_data - n_bytes : 0);
    memset(b->map + page, FILLER, (size_t)(b->p - b->map) - page);
    memset(b->p + n_bytes, FILLER, (size_t)(b->map + page + n_data - b->p) - n_bytes);
    b->next = blocks;
    blocks = b;
    return b->p;
}

static int is_filler(const char *from, const char *end)
{
    for (; from < end; from++)
        if ((unsigned char)*from != FILLER) return 0;
    return 1;
}

void guarded_free(void *p)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    block **at = &blocks, *b;
    while ((b = *at) && b->p != p) at = &b->next;
    if (!b) {
        free(p);
        return;
    }
    must_hold(is_filler(b->map + page, b->p), "written to before the beginning of a buffer");
    must_hold(is_filler(b->p + b->n_bytes, b->map + b->n_map - page),
              "written to after the end of a buffer");
    *at = b->next;
    munmap(b->map, b->n_map);
    free(b);
}

void guarded_free_each(void *const *p, size_t n)
{
    for (size_t i = 0; i < n; i++) guarded_free(p[i]);
}
