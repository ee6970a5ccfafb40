// hash.h - hashes with a secret key, and an index by hash.
#ifndef FXI_BASE_HASH_H
#define FXI_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- keyed hashes -------------------------------------------------------------------------------

// A hash that clients cannot predict: SipHash-1-3 with a key of random bytes.
//
// For tables and trees that are filled with what clients send. Without the key they cannot
// choose entries that collide.

typedef struct fxi_secret {
    uint64_t key[2];
} fxi_secret;

// Random bytes of the system. Where it has none, what differs between processes: the bytes that
// the kernel gave the program at its start, an address and the clock.
fxi_secret fxi_secret_make(void);

uint64_t fxi_secret_hash(fxi_secret secret, const void *p, size_t n);

// The hash so far, and one word more: a multiplication by the key. For tables in memory whose order
// is never shown; faster than the above.
static inline uint64_t fxi_secret_mix(fxi_secret secret, uint64_t h, uint64_t word)
{
    unsigned __int128 p = (unsigned __int128)(h ^ word ^ secret.key[0]) * (secret.key[1] | 1);
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

// ---- an index by hash ---------------------------------------------------------------------------

// Finds numbered things by a hash of their contents: an open-addressing table of ids.
//
// The table knows neither the things nor how to compare them. A search goes over the ids whose hash
// is the same, and the caller compares. Hash with a key (hash.h) what clients can choose.

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
