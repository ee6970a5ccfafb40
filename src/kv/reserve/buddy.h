// buddy.h - a buddy allocator of units: blocks of 2^order units, at multiples of their size. A free
// block merges with its buddy, the other half of the block of the next order.
//
// The number of units need not be a power of two: at first the free blocks are those of its binary
// digits.
#ifndef FXI_KV_BUDDY_H
#define FXI_KV_BUDDY_H

#include <stdbool.h>
#include <stdint.h>

#define FXI_BUDDY_NONE UINT32_MAX

enum { FXI_BUDDY_N_ORDER = 31 };

typedef struct fxi_buddy {
    uint32_t n_unit;
    uint32_t n_free;                  // units
    uint32_t head[FXI_BUDDY_N_ORDER]; // free blocks of each order
    uint32_t *next, *prev;            // [n_unit] at the first unit of a free block
    int8_t *order;                    // [n_unit] of the free block that begins here, or -1
} fxi_buddy;

bool fxi_buddy_open(fxi_buddy *b, uint32_t n_unit); // false: no memory
void fxi_buddy_close(fxi_buddy *b);

int fxi_buddy_order_of(uint64_t n_unit); // the smallest order that holds so many

// The first unit of a block, now taken; FXI_BUDDY_NONE: there is none.
uint32_t fxi_buddy_take(fxi_buddy *b, int order);
void fxi_buddy_give(fxi_buddy *b, uint32_t at, int order);

// For tests: what is wrong with the free blocks, or NULL.
const char *fxi_buddy_check(const fxi_buddy *b);

#endif
