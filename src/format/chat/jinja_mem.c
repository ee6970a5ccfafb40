// jinja_mem.c - blocks that grow with what is taken from them; nothing is given back alone.
#include <stdlib.h>

#include "format/chat/jinja_impl.h"

enum { ALIGN = 16, FIRST_BLOCK = 4096, MOST_BLOCK = 1 << 20 };

typedef struct fxi_jmem_block {
    struct fxi_jmem_block *older;
    size_t n, cap;
    _Alignas(ALIGN) char data[];
} block;

static block *new_block(fxi_jmem *mem, size_t least)
{
    size_t cap = mem->block ? mem->block->cap * 2 : FIRST_BLOCK;
    if (cap > MOST_BLOCK) cap = MOST_BLOCK;
    if (cap < least) cap = least;
    block *b = malloc(sizeof *b + cap);
    if (!b) return NULL;
    *b = (block){.older = mem->block, .cap = cap};
    return mem->block = b;
}

void *fxi_jmem_take(fxi_jmem *mem, size_t n_bytes)
{
    if (n_bytes > mem->limit_bytes || mem->n_used > mem->limit_bytes - n_bytes) {
        mem->n_used = mem->limit_bytes + 1;
        return NULL;
    }
    size_t n = (n_bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    block *b = mem->block;
    if (!b || b->cap - b->n < n) b = new_block(mem, n);
    if (!b) return NULL;
    void *p = b->data + b->n;
    b->n += n;
    mem->n_used += n;
    return p;
}

void fxi_jmem_free(fxi_jmem *mem)
{
    for (block *b = mem->block; b;) {
        block *older = b->older;
        free(b);
        b = older;
    }
    mem->block = NULL;
    mem->n_used = 0;
}
