// show.h - text out of a file or a request, made fit for an error line: at most about 60 bytes of
// it are shown, and whatever is not printable ASCII is escaped.
#ifndef FXI_FORMAT_SHOW_H
#define FXI_FORMAT_SHOW_H

#include <stddef.h>

typedef struct fxi_shown {
    char s[72]; // NUL-terminated; "..." at the end where the text was cut
} fxi_shown;

// By value, so that it can stand among the arguments of a printf: fxi_show(key.p, key.n).s
fxi_shown fxi_show(const char *p, size_t n);

#endif
