// marked.h - text with an owner per byte.
#ifndef FXI_FORMAT_JINJA_MARKED_H
#define FXI_FORMAT_JINJA_MARKED_H

#include "base/text/buf.h"

typedef struct fxi_marked {
    fxi_buf text;
    fxi_buf own; // as long as text; 1: the template's own, 0: the caller's
} fxi_marked;

void fxi_marked_free(fxi_marked *m); // leaves it empty

#endif
