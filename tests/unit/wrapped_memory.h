// wrapped_memory.h - every allocation asks the test that includes this, once, whether it fails.
// The linker passes them through here: WRAP malloc calloc realloc reallocarray aligned_alloc.
#ifndef TEST_WRAPPED_MEMORY_H
#define TEST_WRAPPED_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

static bool fails_now(size_t n_bytes); // the test's own

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_reallocarray(void *p, size_t n, size_t size);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_reallocarray(void *p, size_t n, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t n);

void *__wrap_malloc(size_t n)
{
    return fails_now(n) ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails_now(n * size) ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails_now(n) ? NULL : __real_realloc(p, n);
}

void *__wrap_reallocarray(void *p, size_t n, size_t size)
{
    return fails_now(n * size) ? NULL : __real_reallocarray(p, n, size);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    return fails_now(n) ? NULL : __real_aligned_alloc(align, n);
}

#endif
