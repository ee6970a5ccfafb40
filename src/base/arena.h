// arena.h - memory for what is made piece by piece and freed as a whole, like a model's weights.
//
// Pieces lie close to each other in few large slabs. Slabs of megabytes begin on a huge page and
// ask the system for such pages: reading all weights for every token otherwise waits for the
// translation of hundreds of thousands of small ones, and a slab for each piece would round each of
// them up to a huge page. What a slab holds beyond its pieces is address space, not memory.
#ifndef FXI_BASE_ARENA_H
#define FXI_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

typedef struct fxi_arena {       // all zero: empty
    struct fxi_arena_slab *slab; // the newest
    char *at, *end;              // what is left of it
} fxi_arena;

// size_bytes at a multiple of 64, not cleared; NULL when memory is short. A new slab, where one is
// needed, has room for some more_bytes beyond them: a guess of what the next calls will take. One
// thread at a time.
void *fxi_arena_take(fxi_arena *a, size_t size_bytes, uint64_t more_bytes);

void fxi_arena_free(fxi_arena *a); // all of it; *a is empty then

#endif
