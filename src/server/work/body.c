// body.c - short bodies lie on the heap, long ones in pages of their own.
#include "server/work/body.h"

#include <stdlib.h>
#include <string.h>

#include "base/system/pages.h" // defines: fxi_pages_map

#define PAGED_BYTES ((size_t)64 << 10) // from here on in pages
#define FIRST_BYTES ((size_t)4 << 10)  // of a body of unknown length

static void release_memory(char *p, size_t cap)
{
    if (cap < PAGED_BYTES)
        free(p);
    else
        fxi_pages_unmap(p, cap);
}

static char *move_to_pages(const fxi_body *b, size_t cap)
{
    char *p = fxi_pages_map(cap);
    if (!p) return NULL;
    if (b->n) memcpy(p, b->p, b->n);
    free(b->p);
    return p;
}

static char *grow_memory(const fxi_body *b, size_t cap)
{
    if (cap < PAGED_BYTES) return realloc(b->p, cap);
    return b->cap < PAGED_BYTES ? move_to_pages(b, cap) : fxi_pages_remap(b->p, b->cap, cap);
}

fxi_body_status fxi_body_reserve(fxi_body *b, fxi_bill *bill, size_t n_bytes)
{
    if (n_bytes <= b->cap) return FXI_BODY_OK;
    size_t more = n_bytes - b->cap;
    fxi_take taken = fxi_bill_take(bill, FXI_BYTES_BODY, more);
    if (taken != FXI_TAKE_OK) return taken == FXI_TAKE_FULL ? FXI_BODY_FULL : FXI_BODY_NEVER;
    char *p = grow_memory(b, n_bytes);
    if (!p) {
        fxi_bill_give(bill, FXI_BYTES_BODY, more);
        return FXI_BODY_NO_MEMORY;
    }
    b->p = p;
    b->cap = n_bytes;
    return FXI_BODY_OK;
}

static fxi_body_status grow_body(fxi_body *b, fxi_bill *bill, size_t need)
{
    size_t cap = b->cap ? b->cap : FIRST_BYTES;
    if (need <= b->cap) return FXI_BODY_OK;
    while (cap < need) cap *= 2;
    return fxi_body_reserve(b, bill, cap);
}

fxi_body_status fxi_body_add(fxi_body *b, fxi_bill *bill, const char *data, size_t n)
{
    fxi_body_status st = grow_body(b, bill, b->n + n);
    if (st != FXI_BODY_OK) return st;
    memcpy(b->p + b->n, data, n);
    b->n += n;
    return FXI_BODY_OK;
}

void fxi_body_free(fxi_body *b, fxi_bill *bill)
{
    release_memory(b->p, b->cap);
    fxi_bill_give(bill, FXI_BYTES_BODY, b->cap);
    *b = (fxi_body){0};
}
