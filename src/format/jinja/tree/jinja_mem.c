// jinja_mem.c - blocks of growing size; no piece is freed alone.
#include "format/jinja/tree/jinja_mem.h"

#include <stdint.h>
#include <stdlib.h>

enum { ALIGN = 16, FIRST_BLOCK = 4096, MOST_BLOCK = 1 << 20 };

typedef struct fxi_jmem_block {
    struct fxi_jmem_block *older;
    size_t n, cap;
    _Alignas(ALIGN) char data[];
} fxi_jmem_block;

static fxi_jmem_block *new_block(fxi_jmem *mem, size_t least)
{
    size_t cap = mem->block ? mem->block->cap * 2 : FIRST_BLOCK;
    if (cap > MOST_BLOCK) cap = MOST_BLOCK;
    if (cap < least) cap = least;
    fxi_jmem_block *b = malloc(sizeof *b + cap);
    if (!b) return NULL;
    *b = (fxi_jmem_block){.older = mem->block, .cap = cap};
    return mem->block = b;
}

void *fxi_jmem_take(fxi_jmem *mem, size_t n_bytes)
{
    if (n_bytes > mem->limit_bytes || mem->n_used > mem->limit_bytes - n_bytes) {
        mem->n_used = mem->limit_bytes + 1;
        return NULL;
    }
    size_t n = (n_bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    fxi_jmem_block *b = mem->block;
    if (!b || b->cap - b->n < n) b = new_block(mem, n);
    if (!b) return NULL;
    void *p = b->data + b->n;
    b->n += n;
    mem->n_used += n;
    return p;
}

void fxi_jmem_free(fxi_jmem *mem)
{
    for (fxi_jmem_block *b = mem->block; b;) {
        fxi_jmem_block *older = b->older;
        free(b);
        b = older;
    }
    mem->block = NULL;
    mem->n_used = 0;
}
