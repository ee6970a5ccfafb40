// sizes.c - see sizes.h.
#include "sizes.h"

#include <string.h>

enum { DEFAULT_SLICE_TOK = 32 };

bool vti_size_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

bool vti_size_round_up(size_t a, size_t unit, size_t *out)
{
    size_t more;
    if (__builtin_add_overflow(a, unit - 1, &more)) return false;
    *out = more - more % unit;
    return true;
}

void vti_struct_out(void *dst, const void *src, size_t has, size_t room)
{
    size_t n = has < room ? has : room, head = sizeof(size_t);
    if (n > head) memcpy((char *)dst + head, (const char *)src + head, n - head);
}

bool vti_slice_choose(size_t asked_bytes, size_t tok_bytes, size_t granularity, size_t *slice_bytes)
{
    size_t least;
    *slice_bytes = asked_bytes;
    if (asked_bytes > 0) return asked_bytes % granularity == 0;
    return vti_size_mul(tok_bytes, DEFAULT_SLICE_TOK, &least) &&
           vti_size_round_up(least, granularity, slice_bytes);
}
