// hash_index.c - linear probing; the table doubles when half of it is used.
#include "base/keyed/hash_index.h"

#include <stdlib.h>
#include <string.h>

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
