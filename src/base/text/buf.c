// buf.c - a byte buffer that doubles its memory.
#include "base/text/buf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t fxi_buf_cap_for(size_t n_bytes)
{
    size_t cap = 64;
    while (cap < n_bytes + 1) cap *= 2;
    return cap;
}

bool fxi_buf_reserve(fxi_buf *b, size_t more_bytes)
{
    if (more_bytes > SIZE_MAX / 2 - b->n - 1) return false;
    size_t need = b->n + more_bytes + 1;
    if (need <= b->cap) return true;
    size_t cap = fxi_buf_cap_for(need - 1);
    char *p = realloc(b->p, cap);
    if (!p) return false;
    b->p = p;
    b->cap = cap;
    b->p[b->n] = 0;
    return true;
}

bool fxi_buf_add(fxi_buf *b, const void *src, size_t n_bytes)
{
    if (!fxi_buf_reserve(b, n_bytes)) return false;
    if (n_bytes) memcpy(b->p + b->n, src, n_bytes);
    b->n += n_bytes;
    b->p[b->n] = 0;
    return true;
}

bool fxi_buf_str(fxi_buf *b, const char *s)
{
    return fxi_buf_add(b, s, strlen(s));
}

bool fxi_buf_fmt(fxi_buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    bool ok = n >= 0 && fxi_buf_reserve(b, (size_t)n);
    if (ok) {
        vsnprintf(b->p + b->n, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    }
    va_end(again);
    va_end(ap);
    return ok;
}

void fxi_buf_drop_front(fxi_buf *b, size_t n_bytes)
{
    if (!n_bytes) return;
    memmove(b->p, b->p + n_bytes, b->n - n_bytes + 1);
    b->n -= n_bytes;
}

void fxi_buf_clear(fxi_buf *b)
{
    b->n = 0;
    if (b->p) b->p[0] = 0;
}

void fxi_buf_free(fxi_buf *b)
{
    free(b->p);
    *b = (fxi_buf){0};
}
