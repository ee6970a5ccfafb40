// rtree_node.h - the insides of rTree, for its two files and their test: rtree.c is what is
// recorded, rtree_evict.c what it is worth.
//
// Invariants; vti_rtree_check proves them:
//  1. A node begins where its parent ends; none is empty but the roots and the top.
//  2. Siblings begin with different tokens. The table finds a node by its parent and its first
//     token.
//  3. n_guard = (n_ref > 0) + pinned + guarded children. A node is guarded if n_guard > 0: it may
//     not be evicted, or something below it may not. Guarded children come first in the list.
//  4. A node is in the heap BY_WORTH if it may be evicted now: not a root, no children, no guard.
//     It is in the heap BY_END if what was asked for it ends some time.
//  5. No node was used later than its parent.
//  6. A forgotten node has references of sequences, and nothing else; it is a child of `limbo`.
#ifndef VTI_RTREE_NODE_H
#define VTI_RTREE_NODE_H

#include "internal.h"

// A member of a table that chains what has one hash. Whoever looks compares the keys themselves.
typedef struct vti_link {
    struct vti_link *chain;
    uint64_t hash;
} vti_link;

typedef struct vti_table {
    vti_link **bucket; // [cap]
    size_t cap;        // 0 or a power of two
    size_t n;
} vti_table;

typedef enum vti_order { VTI_BY_WORTH = 0, VTI_BY_END, VTI_N_ORDER } vti_order;

typedef struct vti_heap {
    vti_node **at; // [cap], the first of all in at[1], at[0] unused
    size_t cap, n;
} vti_heap;

struct vti_node {
    vti_link link;             // in tree->nodes, by parent and first token; roots are in none
    vti_node *parent;          // of a root the top, whose own is NULL
    vti_node *child[2];        // the first and the last
    vti_node *beside[2];       // the sibling before and the one behind
    vt_domain *domain;         // NULL: the top, or forgotten
    uint32_t start, n_tok;     // tokens [start, start + n_tok) of the path
    uint32_t n_ref;            // of sequences
    uint32_t n_guard;          // reasons not to evict it, and guarded children
    vt_retention keep;         // as asked for this very node; until_ms = 0 where it is plain
    uint64_t used;             // tree->clock when it was used last
    uint64_t round;            // tree->round when it was counted last
    size_t place[VTI_N_ORDER]; // in the heaps; 0: in none
    uint32_t *tok;             // [n_tok], in room
    uint32_t *region;          // for each position its tokens touch, in room
    uint32_t room[];
};

enum { VTI_FRONT = 0, VTI_BACK = 1 };

struct vt_domain {
    vti_link link; // in tree->domains, by key
    vti_rtree *tree;
    vti_node *root;
    uint32_t n_open;
    size_t key_bytes;
    unsigned char key[];
};

struct vti_rtree {
    const vti_geo *geo;
    vti_pset *pset;
    vt_manager *owner;
    vti_node *top;   // its children are the roots
    vti_node *limbo; // its children are forgotten, but referenced
    vti_table nodes, domains;
    vti_heap heap[VTI_N_ORDER];
    uint64_t *seen; // [cap_seen] room to count chunks once, for all that nodes hold
    size_t cap_seen, n_seen;
    uint64_t n_node, n_tok, n_hold; // n_hold: references in the pSet
    uint64_t clock, round;
    const vti_node *whole; // is not shortened now; NULL: none
};

static inline bool vti_node_is_root(const vti_node *n)
{
    return n->n_tok == 0;
}

static inline uint32_t vti_node_end(const vti_node *n)
{
    return n->start + n->n_tok;
}

// The positions that tokens [start, end) touch.
static inline uint32_t vti_touched(const vti_geo *g, uint32_t start, uint32_t end)
{
    return end > start ? vti_geo_chunks(g, end) - vti_geo_whole(g, start) : 0;
}

static inline uint32_t vti_node_first(const vti_geo *g, const vti_node *n)
{
    return vti_geo_whole(g, n->start);
}

static inline uint32_t vti_node_positions(const vti_geo *g, const vti_node *n)
{
    return vti_touched(g, n->start, vti_node_end(n));
}

// rtree.c
vti_node *vti_node_after(vti_node *n,
                         bool guarded); // in the order parent, children; NULL: the last
vti_node *vti_node_child(const vti_rtree *t, const vti_node *n, uint32_t tok); // or NULL
void vti_node_attach(vti_node *n, vti_node *parent);                           // guarded in front
void vti_node_detach(vti_node *n);
void vti_rtree_shorten(vti_rtree *t, vti_node *leaf); // by one position
// Where the path above n names a chunk of its own for rows that n's first chunk has too.
bool vti_rtree_has_double(const vti_rtree *t, const vti_node *n); // Pre: no root
void vti_rtree_drop_double(vti_rtree *t, const vti_node *n);      // n's chunk takes its place

// rtree_evict.c
vt_status vti_worth_reserve(vti_rtree *t, uint64_t more_nodes, uint64_t more_holds);
void vti_worth_free(vti_rtree *t);
void vti_worth_settle(vti_rtree *t, vti_node *n); // puts it where it belongs in the heaps
void vti_worth_leave(vti_rtree *t, vti_node *n);  // takes it out of both
void vti_guard(vti_rtree *t, vti_node *n);        // one more reason not to evict it
void vti_unguard(vti_rtree *t, vti_node *n);
void vti_worth_inherit(vti_rtree *t, vti_node *heir, const vt_retention *keep);
const char *vti_worth_check(const vti_rtree *t);

#endif
