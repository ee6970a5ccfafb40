// grow.h - a list that grows as it is filled.
#ifndef FXI_BASE_GROW_H
#define FXI_BASE_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// Makes room for one more after the n elements of *list, which has room for *cap, by doubling.
// False: out of memory, nothing has changed. `list` points to a pointer of any type.
static inline bool fxi_grow(void *list, size_t elem_bytes, size_t n, size_t *cap)
{
    void **place = list;
    if (n < *cap) return true;
    const size_t want = *cap ? 2 * *cap : 64;
    void *more = reallocarray(*place, want, elem_bytes);
    if (!more) return false;
    *place = more;
    *cap = want;
    return true;
}

// Makes element `at` exist in a list of *n elements: bytes of the new ones are `fill`. False: out
// of memory; the elements that exist stay valid.
static inline bool fxi_grow_to(void *list, size_t elem_bytes, size_t at, int fill, size_t *n,
                               size_t *cap)
{
    for (; *n <= at; ++*n) {
        if (!fxi_grow(list, elem_bytes, *n, cap)) return false;
        memset(*(char **)list + *n * elem_bytes, fill, elem_bytes);
    }
    return true;
}

#endif
