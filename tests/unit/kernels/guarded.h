// guarded.h - memory between two pages that nobody may touch. The vector paths are compiled without
// sanitizers, so the tests of kernels take their buffers from here: an access past the end is a
// fault at once, and one before the beginning is found when the buffer is freed.
#ifndef KERNELS_GUARDED_H
#define KERNELS_GUARDED_H

#include <stddef.h>

// n_bytes of zeros, at the end of whole pages or, every other time, at their beginning; in an order
// that does not repeat, so that over the cases of a test each of its buffers is at either. Aligned
// to whatever divides n_bytes, up to a page.
void *guarded_new(size_t n_bytes);

// Frees memory of guarded_new, or of malloc. Aborts if what lies between the buffer and the page on
// its other side was written to.
void guarded_free(void *p);
void guarded_free_each(void *const *p, size_t n);

#define guarded_free_all(...) \
    guarded_free_each((void *[]){__VA_ARGS__}, sizeof((void *[]){__VA_ARGS__}) / sizeof(void *))

#endif
