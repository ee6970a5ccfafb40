// treap.h - things in order: a search tree that random weights keep flat.
//
// The tree owns nothing: a NODE is a part of what it orders, so that nothing is allocated and no
// call can fail. A thing may be in several trees, with a node for each. Weights follow from a seed:
// choosing the keys without knowing it cannot unbalance the tree. Calls take O(log n);
// what goes after all others is added after one comparison. Not thread-safe.
#ifndef FXI_BASE_TREAP_H
#define FXI_BASE_TREAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fxi_treap_node {
    struct fxi_treap_node *up;
    struct fxi_treap_node *child[2]; // what goes before it, and after it
    uint64_t weight;                 // 0: it is in no tree
} fxi_treap_node;

typedef struct fxi_treap {
    // Whether a goes before b: a strict order, whose equals are in the order of their arrival.
    bool (*before)(const fxi_treap_node *a, const fxi_treap_node *b);
    uint64_t seed;
    fxi_treap_node *root, *last; // NULL: it is empty
    uint64_t n_added;            // so far
} fxi_treap;

// The thing of this type whose `member` is the node; NULL for NULL.
#define FXI_TREAP_OF(node, type, member) \
    ((node) ? (type *)(void *)((char *)(node)-offsetof(type, member)) : NULL)

void fxi_treap_add(fxi_treap *t, fxi_treap_node *n);    // n is in no tree
void fxi_treap_remove(fxi_treap *t, fxi_treap_node *n); // n is in t
fxi_treap_node *fxi_treap_first(const fxi_treap *t);    // NULL: it is empty
fxi_treap_node *fxi_treap_last(const fxi_treap *t);
fxi_treap_node *fxi_treap_next(const fxi_treap_node *n);
fxi_treap_node *fxi_treap_prev(const fxi_treap_node *n);
// The first that does not go before `key`, which is in no tree; NULL: there is none.
fxi_treap_node *fxi_treap_find(const fxi_treap *t, const fxi_treap_node *key);

static inline bool fxi_treap_has(const fxi_treap_node *n)
{
    return n->weight != 0;
}

#endif
