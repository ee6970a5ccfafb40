// show.h - text from a file or a request, for an error line: at most about 60 bytes, and everything
// but printable ASCII is escaped.
#ifndef FXI_FORMAT_SHOW_H
#define FXI_FORMAT_SHOW_H

#include "base/text/str.h"

typedef struct fxi_shown {
    char s[72]; // NUL-terminated; ends in "..." if the text was cut
} fxi_shown;

// By value, for use in the arguments of a printf: fxi_show_text(key).s
fxi_shown fxi_show_text(fxi_str text);

#endif
