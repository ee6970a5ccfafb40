// str.h - a run of bytes that someone else owns.
#ifndef FXI_BASE_STR_H
#define FXI_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>

typedef struct fxi_str { // not NUL-terminated
    const char *p;
    size_t n;
} fxi_str;

int fxi_str_compare(fxi_str a, fxi_str b); // < 0, 0, > 0: by bytes, a beginning before the whole
bool fxi_str_is(fxi_str s, const char *text);

#endif
