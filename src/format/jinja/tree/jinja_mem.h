// jinja_mem.h - memory for pieces that are freed together.
#ifndef FXI_FORMAT_JINJA_TREE_MEM_H
#define FXI_FORMAT_JINJA_TREE_MEM_H

#include <stddef.h>

typedef struct fxi_jmem {
    struct fxi_jmem_block *block; // the newest
    size_t n_used, limit_bytes;
} fxi_jmem;

// At a multiple of 16, not cleared. NULL: the limit is reached, or memory is short (then
// mem->n_used <= mem->limit_bytes).
void *fxi_jmem_take(fxi_jmem *mem, size_t n_bytes);
void fxi_jmem_free(fxi_jmem *mem);

#endif
