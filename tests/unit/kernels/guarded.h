// guarded.h - memory between two pages that nobody may touch. The vector paths are compiled without
// sanitizers, so the tests of kernels take their buffers from here: an access past the end is a
// fault at once, and one before the beginning is found when the buffer is freed.
#ifndef KERNELS_GUARDED_H
#define KERNELS_GUARDED_H

#include <stddef.h>

typedef enum guard_side {
    GUARD_END,  // a buffer ends where the page after it begins
    GUARD_BEGIN // it begins where the page before it ends: the other way round
} guard_side;

// Of the buffers that are made from now on; GUARD_END at first.
void guarded_set_side(guard_side side);

// n_bytes of zeros. Aligned to whatever divides n_bytes, up to a page.
void *guarded_new(size_t n_bytes);

// Frees memory of guarded_new, or of malloc. Aborts if what lies between the buffer and the page on
// its other side was written to.
void guarded_free(void *p);
void guarded_free_each(void *const *p, size_t n);

#define guarded_free_all(...) \
    guarded_free_each((void *[]){__VA_ARGS__}, sizeof((void *[]){__VA_ARGS__}) / sizeof(void *))

#endif
