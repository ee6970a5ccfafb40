// keyed.h - a hash that nobody outside can foresee: SipHash-1-3 with a key of random bytes.
//
// For tables and trees that are filled with what clients send. Who does not know the key cannot
// choose entries that collide.
#ifndef VTI_KEYED_H
#define VTI_KEYED_H

#include <stddef.h>
#include <stdint.h>

typedef struct vti_secret {
    uint64_t key[2];
} vti_secret;

// Random bytes of the system. Where it has none, what differs between processes: the bytes that
// the kernel gave the program at its start, an address and the clock.
vti_secret vti_secret_make(void);

uint64_t vti_secret_hash(vti_secret secret, const void *p, size_t n);

#endif
