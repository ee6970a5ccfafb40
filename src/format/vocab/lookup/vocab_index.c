// vocab_index.c - strings to ids: a hash table with linear probing.
#include "format/vocab/lookup/vocab_index.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

uint64_t fxi_hash_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) < 0) seed = (uintptr_t)&seed;
    return seed;
}

static uint64_t hash_of(const fxi_index *x, const char *p, size_t n)
{
    uint64_t h = x->seed ^ n;
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        h = fxi_hash_mix(h ^ w, x->seed);
    }
    uint64_t w = 0;
    for (size_t i = 0; i < n; i++) w = w << 8 | (unsigned char)p[i];
    return fxi_hash_mix(h ^ w, x->seed);
}

// The slot with this key, or the empty one where it goes, tagged.
static struct fxi_index_slot *find_slot(const fxi_index *x, const char *p, size_t n)
{
    uint64_t h = hash_of(x, p, n), i = h & x->mask;
    uint32_t tag = (uint32_t)(h >> 32);
    for (; x->slot[i].id >= 0; i = (i + 1) & x->mask) {
        if (x->slot[i].tag != tag) continue;
        fxi_str key = x->key(x->of, x->slot[i].id);
        if (key.n == n && (!n || !memcmp(key.p, p, n))) break;
    }
    if (x->slot[i].id < 0) x->slot[i].tag = tag;
    return &x->slot[i];
}

static bool make_slots(fxi_index *x, uint64_t n_slot)
{
    x->slot = malloc(n_slot * sizeof *x->slot);
    if (!x->slot) return false;
    memset(x->slot, -1, n_slot * sizeof *x->slot);
    x->mask = n_slot - 1;
    return true;
}

bool fxi_index_make(fxi_index *x, size_t n, fxi_str (*key)(const void *of, int32_t id),
                    const void *of)
{
    uint64_t n_slot = 16;
    while (n_slot < 2 * (uint64_t)n) n_slot *= 2;
    *x = (fxi_index){.key = key, .of = of, .seed = fxi_hash_seed()};
    return make_slots(x, n_slot);
}

void fxi_index_free(fxi_index *x)
{
    free(x->slot);
    *x = (fxi_index){0};
}

static bool grow_slots(fxi_index *x)
{
    fxi_index old = *x;
    if (!make_slots(x, 2 * (old.mask + 1))) {
        *x = old;
        return false;
    }
    for (uint64_t i = 0; i <= old.mask; i++) {
        if (old.slot[i].id < 0) continue;
        fxi_str key = x->key(x->of, old.slot[i].id);
        find_slot(x, key.p, key.n)->id = old.slot[i].id;
    }
    free(old.slot);
    return true;
}

bool fxi_index_put(fxi_index *x, int32_t id)
{
    if (2 * x->n > x->mask && !grow_slots(x)) return false;
    fxi_str key = x->key(x->of, id);
    struct fxi_index_slot *slot = find_slot(x, key.p, key.n);
    x->n += slot->id < 0;
    slot->id = id;
    return true;
}

int32_t fxi_index_find(const fxi_index *x, const char *p, size_t n)
{
    uint64_t h = hash_of(x, p, n), i = h & x->mask;
    uint32_t tag = (uint32_t)(h >> 32);
    for (; x->slot[i].id >= 0; i = (i + 1) & x->mask) {
        if (x->slot[i].tag != tag) continue;
        fxi_str key = x->key(x->of, x->slot[i].id);
        if (key.n == n && (!n || !memcmp(key.p, p, n))) return x->slot[i].id;
    }
    return -1;
}
