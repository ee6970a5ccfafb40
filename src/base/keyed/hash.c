// hash.c - hashes with a secret key, and an index by hash.
#include "base/keyed/hash.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <time.h>

// ---- keyed hashes -------------------------------------------------------------------------------
// libvtensor has this section too (core/common.c): it is embedded without src/base.

fxi_secret fxi_secret_make(void)
{
    fxi_secret s;
    if (getrandom(&s, sizeof s, GRND_NONBLOCK) == (ssize_t)sizeof s) return s;
    const void *at_start = (const void *)getauxval(AT_RANDOM); // 16 bytes
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    s = (fxi_secret){{0}};
    if (at_start) memcpy(&s, at_start, sizeof s);
    s.key[0] ^= (uint64_t)(uintptr_t)&s;
    s.key[1] ^= (uint64_t)now.tv_sec << 30 ^ (uint64_t)now.tv_nsec;
    return s;
}

static uint64_t turn_word(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = turn_word(v[1], 13) ^ v[0];
    v[3] = turn_word(v[3], 16) ^ v[2];
    v[0] = turn_word(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = turn_word(v[1], 17) ^ v[2];
    v[3] = turn_word(v[3], 21) ^ v[0];
    v[2] = turn_word(v[2], 32);
}

static void sip_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

uint64_t fxi_secret_hash(fxi_secret secret, const void *p, size_t n)
{
    const unsigned char *at = p;
    uint64_t v[4] = {
        secret.key[0] ^ UINT64_C(0x736f6d6570736575), secret.key[1] ^ UINT64_C(0x646f72616e646f6d),
        secret.key[0] ^ UINT64_C(0x6c7967656e657261), secret.key[1] ^ UINT64_C(0x7465646279746573)};
    uint64_t word, last = (uint64_t)n << 56;
    for (; n >= sizeof word; at += sizeof word, n -= sizeof word) {
        memcpy(&word, at, sizeof word);
        sip_word(v, word);
    }
    for (size_t i = 0; i < n; i++) last |= (uint64_t)at[i] << 8 * i;
    sip_word(v, last);
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

// ---- an index by hash ---------------------------------------------------------------------------

// Linear probing; the table doubles when half of it is used.

enum { FIRST_SLOTS = 256 };

void fxi_hash_index_free(fxi_hash_index *x)
{
    free(x->slot);
    *x = (fxi_hash_index){0};
}

void fxi_hash_index_clear(fxi_hash_index *x)
{
    if (x->slot) memset(x->slot, 0, x->n_slot * sizeof *x->slot);
    x->n = 0;
}

static void fill_slot(fxi_hash_index *x, struct fxi_hash_slot entry)
{
    size_t i = entry.hash;
    while (x->slot[i & (x->n_slot - 1)].id) i++;
    x->slot[i & (x->n_slot - 1)] = entry;
}

bool fxi_hash_index_add(fxi_hash_index *x, uint32_t id, uint32_t hash)
{
    if (2 * x->n >= x->n_slot) {
        const fxi_hash_index old = *x;
        const size_t n_slot = old.n_slot ? 2 * old.n_slot : FIRST_SLOTS;
        struct fxi_hash_slot *slot = calloc(n_slot, sizeof *slot);
        if (!slot) return false;
        x->slot = slot;
        x->n_slot = n_slot;
        for (size_t i = 0; i < old.n_slot; i++)
            if (old.slot[i].id) fill_slot(x, old.slot[i]);
        free(old.slot);
    }
    fill_slot(x, (struct fxi_hash_slot){id, hash});
    x->n++;
    return true;
}
