// vocab_index.h - strings to ids: an open-addressing hash table, seeded at random so that no file
// can force collisions.
#ifndef FXI_FORMAT_VOCAB_INDEX_H
#define FXI_FORMAT_VOCAB_INDEX_H

#include <stdint.h>

#include "base/text/str.h"

typedef struct fxi_index {
    struct fxi_index_slot {
        uint32_t tag; // of the hash
        int32_t id;   // -1: empty
    } * slot;         // [mask + 1]
    uint64_t mask, seed;
    size_t n;
    fxi_str (*key)(const void *of, int32_t id);
    const void *of;
} fxi_index;

// An empty index with room for n ids; it grows beyond. key(of, id) returns the string that finds an
// id, the same one as long as the index lives. False: out of memory.
bool fxi_index_make(fxi_index *x, size_t n, fxi_str (*key)(const void *of, int32_t id),
                    const void *of);
void fxi_index_free(fxi_index *x);
bool fxi_index_put(fxi_index *x, int32_t id); // of equal keys, the last is found; false: no memory
int32_t fxi_index_find(const fxi_index *x, const char *p, size_t n); // -1: none

uint64_t fxi_hash_seed(void); // random

static inline uint64_t fxi_hash_mix(uint64_t a, uint64_t b)
{
    unsigned __int128 p = (unsigned __int128)(a ^ 0x9E3779B97F4A7C15u) * (b | 1);
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

#endif
