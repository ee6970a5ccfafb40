// failing_calloc.c - the calloc that the linker calls instead of the C library's.
#include "failing_calloc.h"

#include <stddef.h>

#include "vtensor/status.h"

uint64_t n_alloc_left = UINT64_MAX;

// Exported, because the stand-in for the driver, a shared library, calls it too.
void *__real_calloc(size_t n, size_t size_bytes);
VT_API void *__wrap_calloc(size_t n, size_t size_bytes);

void *__wrap_calloc(size_t n, size_t size_bytes)
{
    if (n_alloc_left == 0) return NULL;
    if (n_alloc_left != UINT64_MAX) n_alloc_left--;
    return __real_calloc(n, size_bytes);
}
