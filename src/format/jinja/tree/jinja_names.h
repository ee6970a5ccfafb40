// jinja_names.h - the names of a template, each stored once, so that equal names are one pointer.
#ifndef FXI_FORMAT_JINJA_TREE_NAMES_H
#define FXI_FORMAT_JINJA_TREE_NAMES_H

#include "format/jinja/tree/jinja_mem.h"
#include "format/jinja/tree/jinja_value.h"

typedef struct fxi_jnames fxi_jnames;

enum { FXI_JNAMES_MAX = 2048 };

// The one string for this name; NULL: memory is short, or there are too many.
const fxi_jstr *fxi_jnames_add(fxi_jmem *mem, fxi_jnames **names, const char *p, size_t n);
bool fxi_jnames_is_full(const fxi_jnames *names); // NULL is allowed
const fxi_jstr *fxi_jnames_find(const fxi_jnames *names, const char *p, size_t n); // NULL: absent

#endif
