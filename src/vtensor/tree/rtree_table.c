// rtree_table.c - hash tables with chaining, for the nodes and the domains of the tree. The members
// carry their link and hash; a lookup compares the keys itself.
#include "rtree_node.h"

#include <stdlib.h>

vti_link *vti_table_chain(const vti_table *tb, uint64_t hash)
{
    return tb->cap > 0 ? tb->bucket[hash & (tb->cap - 1)] : NULL;
}

void vti_table_put(vti_table *tb, vti_link *l, uint64_t hash)
{
    vti_link **bucket = &tb->bucket[hash & (tb->cap - 1)];
    *l = (vti_link){.chain = *bucket, .hash = hash};
    *bucket = l;
    tb->n++;
}

void vti_table_take(vti_table *tb, vti_link *l)
{
    vti_link **at = &tb->bucket[l->hash & (tb->cap - 1)];
    while (*at != l) at = &(*at)->chain;
    *at = l->chain;
    tb->n--;
}

// Makes room for `more` members, one to a bucket on average.
vt_status vti_table_reserve(vti_table *tb, size_t more)
{
    vti_table bigger = {.cap = tb->cap > 0 ? tb->cap : 16};
    while (bigger.cap < tb->n + more) bigger.cap *= 2;
    if (bigger.cap == tb->cap) return VT_OK;
    bigger.bucket = calloc(bigger.cap, sizeof(vti_link *));
    if (!bigger.bucket) return VT_ENOMEM;
    for (size_t i = 0; i < tb->cap; i++)
        for (vti_link *l = tb->bucket[i], *next; l; l = next) {
            next = l->chain;
            vti_table_put(&bigger, l, l->hash);
        }
    free(tb->bucket);
    *tb = bigger;
    return VT_OK;
}

static uint64_t mix_bits(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t vti_hash_child(const vti_node *parent, uint32_t tok)
{
    return mix_bits((uint64_t)(uintptr_t)parent + tok * UINT64_C(0x9e3779b97f4a7c15));
}

uint64_t vti_hash_key(const unsigned char *key, size_t key_bytes)
{
    uint64_t hash = key_bytes;
    for (size_t i = 0; i < key_bytes; i++) hash = mix_bits(hash + key[i] + 1);
    return hash;
}
