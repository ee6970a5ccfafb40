// rtree_node.h - the internals of the tree, for its own files and their tests; functions are
// grouped by the defining file, the lowest first.
//
// Invariants; vti_rtree_check proves them:
//  1. A node begins where its parent ends; only the roots and the top are empty.
//  2. Siblings begin with different tokens. The table finds a node by its parent and its first
//     token.
//  3. n_guard = (n_ref > 0) + pinned + guarded children. A node is guarded if n_guard > 0: it may
//     not be evicted, for its own sake or for that of a node below. Guarded children come first in
//     the list.
//  4. A node is in the heap BY_WORTH if it may be evicted now: not a root, no children, no guard.
//     It is in the heap BY_END if its retention has an end.
//  5. No node was used later than its parent.
//  6. A forgotten node has references of sequences, and nothing else; it is a child of `limbo`.
#ifndef VTI_RTREE_NODE_H
#define VTI_RTREE_NODE_H

#include <assert.h>

#include "rtree.h"

// A member of a hash table, first in its struct. A lookup compares the keys itself.
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
    vti_node **at; // [cap], the top in at[1]; at[0] is unused
    size_t cap, n;
} vti_heap;

struct vti_node {
    vti_link link;             // in tree->nodes, by parent and first token; roots are in none
    vti_node *parent;          // of a root the top, whose own is NULL
    vti_node *child[2];        // the first and the last
    vti_node *sibling[2];      // the previous and the next sibling
    vt_domain *domain;         // NULL: the top, or forgotten
    uint32_t start, n_tok;     // tokens [start, start + n_tok) of the path
    uint32_t n_ref;            // of sequences
    uint32_t n_guard;          // reasons not to evict it, and guarded children
    vt_retention keep;         // as set for this node itself; until_ms = 0 if it is plain
    uint64_t used;             // tree->clock when last used
    uint64_t born_ms, used_ms; // tree->now_ms when recorded, and when last used
    uint64_t round;            // tree->round when last counted
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
    uint64_t now_ms; // of the last tick
    vt_prefix_ages ages;
    const vti_node *whole; // must not be shortened now; NULL: none
};

static inline bool vti_node_is_root(const vti_node *n)
{
    return n->n_tok == 0;
}

static inline uint32_t vti_node_end(const vti_node *n)
{
    return n->start + n->n_tok;
}

static inline uint32_t vti_node_first(const vti_geo *g, const vti_node *n)
{
    return vti_geo_whole(g, n->start);
}

static inline uint32_t vti_node_positions(const vti_geo *g, const vti_node *n)
{
    return vti_geo_touched(g, n->start, vti_node_end(n));
}

// rtree_table.c
// The members with this hash, among others.
vti_link *vti_table_chain(const vti_table *tb, uint64_t hash);
void vti_table_put(vti_table *tb, vti_link *l, uint64_t hash); // Pre: reserved
void vti_table_take(vti_table *tb, vti_link *l);
vt_status vti_table_reserve(vti_table *tb, size_t more); // VT_ENOMEM
uint64_t vti_hash_child(const vti_node *parent, uint32_t tok);
uint64_t vti_hash_key(const unsigned char *key, size_t key_bytes);

// rtree_node.c
vti_node *vti_node_new(const vti_geo *g, uint32_t start, uint32_t end); // NULL: no memory
void vti_node_attach(vti_node *n, vti_node *parent); // to the list of children, guarded in front
void vti_node_detach(vti_node *n);
void vti_node_link(vti_rtree *t, vti_node *n, vti_node *parent); // list and table
void vti_node_unlink(vti_rtree *t, vti_node *n);
// The next node in the order parent, children; if `guarded`, the next guarded node. NULL: n is the
// last.
vti_node *vti_node_after(vti_node *n, bool guarded);
vti_node *vti_node_child(const vti_rtree *t, const vti_node *n, uint32_t tok); // or NULL
bool vti_node_has_chunk(const vti_rtree *t, const vti_node *n, uint32_t position, uint32_t region);
void vti_node_hold_chunk(vti_rtree *t, uint32_t region, uint32_t position); // counts a reference
void vti_node_drop_chunk(vti_rtree *t, uint32_t region, uint32_t position);

// rtree_heap.c
bool vti_worth_goes_first(vti_order order, const vti_node *a, const vti_node *b);
void vti_worth_settle(vti_rtree *t, vti_node *n); // puts it where it belongs in the heaps
void vti_worth_leave(vti_rtree *t, vti_node *n);  // takes it out of both
vt_status vti_worth_reserve(vti_rtree *t, uint64_t more_nodes, uint64_t more_holds); // VT_ENOMEM
void vti_worth_free(vti_rtree *t);
const char *vti_worth_check(const vti_rtree *t);

// rtree_worth.c
void vti_node_guard(vti_rtree *t, vti_node *n); // one more reason not to evict it
void vti_node_unguard(vti_rtree *t, vti_node *n);
void vti_worth_set(vti_rtree *t, vti_node *n, vt_retention keep);
void vti_worth_expire(vti_rtree *t, uint64_t now_ms); // drops the retention that has ended
void vti_worth_inherit(vti_rtree *t, vti_node *heir, const vt_retention *keep);

// rtree_life.c
vt_domain *vti_domain_find(const vti_rtree *t, const void *key, size_t key_bytes, uint64_t hash);
void vti_rtree_shorten(vti_rtree *t, vti_node *leaf); // by one position

// rtree.c
// Whether the path above n holds a chunk of its own for rows that n's first chunk has too, and that
// n's chunk could replace. Pre: n is not a root.
bool vti_rtree_has_double(const vti_rtree *t, const vti_node *n);
void vti_rtree_drop_double(vti_rtree *t, const vti_node *n); // replaces it

#endif
