// vocab_trie.h - a trie of byte strings with ids: finds every entry that a text begins with.
#ifndef FXI_FORMAT_VOCAB_TRIE_H
#define FXI_FORMAT_VOCAB_TRIE_H

#include <stdint.h>

#include "base/text/str.h"

typedef struct fxi_trie_node {
    uint32_t child; // the first; the others follow, ascending by label
    uint16_t n_child;
    int32_t id; // of the entry that ends here; -1: none does
} fxi_trie_node;

typedef struct fxi_trie { // node 0 is the root; all zero: empty
    fxi_trie_node *node;
    uint8_t *label; // [n] the byte that leads to a node
    uint32_t n;
    uint32_t root[256]; // the root's children by their bytes; 0: none
} fxi_trie;

typedef struct fxi_trie_entry {
    fxi_str key;
    int32_t id;
} fxi_trie_entry;

// Sorts the entries in place; keys need not outlive the call. Of equal keys the highest id is
// found; empty keys are left out. False: out of memory, *t is empty.
bool fxi_trie_make(fxi_trie *t, fxi_trie_entry *e, size_t n);
void fxi_trie_free(fxi_trie *t);

// The child of a node by a byte; 0: none (node 0, the root, is never a child).
static inline uint32_t fxi_trie_step(const fxi_trie *t, uint32_t node, uint8_t byte)
{
    if (!node) return t->root[byte];
    uint32_t lo = t->node[node].child, hi = lo + t->node[node].n_child;
    while (hi - lo > 4) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (t->label[mid] <= byte)
            lo = mid;
        else
            hi = mid;
    }
    for (; lo < hi; lo++)
        if (t->label[lo] == byte) return lo;
    return 0;
}

#endif
