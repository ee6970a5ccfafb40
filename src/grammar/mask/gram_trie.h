// gram_trie.h - byte strings as a trie in depth-first order: what begins with a prefix is one run
// of nodes, which a walk leaves out by one jump.
#ifndef FXI_GRAMMAR_TRIE_H
#define FXI_GRAMMAR_TRIE_H

#include <stdbool.h>

#include "base/text/str.h"

typedef struct fxi_token_node {
    uint32_t end;      // the node behind this one and all that begin with it
    uint32_t id, n_id; // in the trie's id: those that are spelled so
    uint16_t depth;    // bytes up to and with this one
    uint8_t byte;      // the last of them
} fxi_token_node;

typedef struct fxi_token_trie { // immutable once it is made
    fxi_token_node *node;       // [n_node]
    uint32_t *id;               // [n_id] ascending by their bytes
    size_t n_node, n_id;
    uint32_t root[256]; // the first node of each byte, FXI_TRIE_NONE: there is none
} fxi_token_trie;

#define FXI_TRIE_NONE UINT32_MAX

typedef struct fxi_token_key {
    fxi_str bytes; // not empty, less than 64 KiB
    uint32_t id;
} fxi_token_key;

// Sorts the keys, whose bytes need not outlive the call. False: out of memory; the trie may be
// freed.
bool fxi_token_trie_make(fxi_token_trie *t, fxi_token_key *key, size_t n);
void fxi_token_trie_free(fxi_token_trie *t); // all zero is allowed

// Where the ids of a node and of all that begin with it end; they begin at its id.
static inline uint32_t fxi_trie_ids_end(const fxi_token_trie *t, const fxi_token_node *x)
{
    return x->end < t->n_node ? t->node[x->end].id : (uint32_t)t->n_id;
}

#endif
