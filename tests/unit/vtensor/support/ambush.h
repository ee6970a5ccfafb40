// ambush.h - calls of the system that fail: for tests to whose file the linker redirects them.
#ifndef VT_AMBUSH_H
#define VT_AMBUSH_H

#include <errno.h>
#include <stdbool.h>

// Of one system call: calls [first, first + n) from now on fail.
typedef struct ambush {
    int first, n, seen;
    int with; // errno
} ambush;

static inline bool falls(ambush *a)
{
    int i = a->seen++;
    if (i < a->first || i >= a->first + a->n) return false;
    errno = a->with;
    return true;
}

#endif
