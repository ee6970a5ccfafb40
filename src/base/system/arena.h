// arena.h - memory that is allocated piece by piece and freed as a whole, like a model's weights.
//
// Pieces are packed into few large slabs. Slabs of megabytes are aligned to huge pages and ask the
// system for them: a forward pass reads all weights and would otherwise wait for the translation of
// hundreds of thousands of small pages, and a slab for each piece would round each up to a huge
// page. The unused rest of a slab is address space, not memory.
#ifndef FXI_BASE_ARENA_H
#define FXI_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

typedef struct fxi_arena {       // all zero: empty
    struct fxi_arena_slab *slab; // the newest
    char *at, *end;              // what is left of it
} fxi_arena;

// Allocates size_bytes, aligned to 64, not cleared; NULL: out of memory. If a new slab is needed,
// it has room for more_bytes beyond: an estimate of what the next calls will take. One thread at a
// time.
void *fxi_arena_take(fxi_arena *a, size_t size_bytes, uint64_t more_bytes);

void fxi_arena_free(fxi_arena *a); // all of it; *a is empty then

#endif
