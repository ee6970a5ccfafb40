// vocab_ids.c - a growable list of token ids.
#include <stdlib.h>

#include "format/vocab.h"

bool fxi_ids_add(fxi_ids *ids, int32_t id)
{
    if (ids->n == ids->cap) {
        size_t cap = ids->cap ? 2 * ids->cap : 64;
        int32_t *p = realloc(ids->id, cap * sizeof *p);
        if (!p) return false;
        ids->id = p;
        ids->cap = cap;
    }
    ids->id[ids->n++] = id;
    return true;
}

void fxi_ids_free(fxi_ids *ids)
{
    free(ids->id);
    *ids = (fxi_ids){0};
}
