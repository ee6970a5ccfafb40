// hash_index.h - finds numbered things by a hash of their contents: an open-addressing table of
// ids.
//
// The table knows neither the things nor how to compare them. A search goes over the ids whose hash
// is the same, and the caller compares. Hash with a key (secret.h) what clients can choose.
#ifndef FXI_BASE_HASH_INDEX_H
#define FXI_BASE_HASH_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fxi_hash_slot {
    uint32_t id, hash; // id 0: free
};

typedef struct fxi_hash_index { // all zero: empty
    struct fxi_hash_slot *slot; // [n_slot] a power of two, at least twice as many as ids
    size_t n_slot, n;
} fxi_hash_index;

void fxi_hash_index_free(fxi_hash_index *x);  // empty again
void fxi_hash_index_clear(fxi_hash_index *x); // empties it, keeps its memory

// Adds an id > 0 that is not in the table. False: out of memory, nothing has changed.
bool fxi_hash_index_add(fxi_hash_index *x, uint32_t id, uint32_t hash);

// The next id with this hash; 0: there are no more. *probe is 0 before the first call.
static inline uint32_t fxi_hash_index_next(const fxi_hash_index *x, uint32_t hash, size_t *probe)
{
    while (x->n_slot) {
        const struct fxi_hash_slot *s = &x->slot[(hash + (*probe)++) & (x->n_slot - 1)];
        if (!s->id || s->hash == hash) return s->id;
    }
    return 0;
}

static inline size_t fxi_hash_index_n_bytes(const fxi_hash_index *x) // of memory
{
    return x->n_slot * sizeof *x->slot;
}

#endif
