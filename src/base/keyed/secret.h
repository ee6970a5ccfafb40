// secret.h - a hash that clients cannot predict: SipHash-1-3 with a key of random bytes.
//
// For tables and trees that are filled with what clients send. Without the key they cannot
// choose entries that collide.
#ifndef FXI_SECRET_H
#define FXI_SECRET_H

#include <stddef.h>
#include <stdint.h>

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

#endif
