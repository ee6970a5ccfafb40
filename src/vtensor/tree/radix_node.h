// radix_node.h - the internals of the radix tree, for its own files and their tests; functions are
// grouped by the defining file, the lowest first.
//
// Invariants; vti_radix_check proves them:
//  1. A node begins where its parent ends; only the roots are empty, and only a leaf has fewer
//     tokens than a block.
//  2. The children of a node are a search tree by their tokens. Without states, none of them begins
//     with all tokens of another.
//  3. n_guard = (n_ref > 0) + pinned + guarded children. A node is guarded if n_guard > 0: it may
//     not be evicted, for its own sake or for that of a node below. n_pin = pinned + children with
//     n_pin > 0.
//  4. A reference to a chunk counts as kept if the node is guarded; a reference to a window, if
//     n_pin > 0.
//  5. A node is in the heaps BY_PRIORITY and IN_DOMAIN if it may be evicted now: not a root, no
//     children, no guard. It is in the heap BY_END if its retention has an end. It is in the heap
//     BY_WINDOW if it holds windows, n_pin = 0, and it is not in the heap BY_PRIORITY.
//  6. A removed node has references of sequences, and nothing else.
#ifndef VTI_RADIX_NODE_H
#define VTI_RADIX_NODE_H

#include <assert.h>

#include "radix.h"
#include "vtensor/core/common.h"

typedef enum vti_order {
    VTI_BY_PRIORITY = 0,
    VTI_BY_END,
    VTI_BY_WINDOW,
    VTI_IN_DOMAIN,
    VTI_N_ORDER
} vti_order;

typedef struct vti_heap {
    vti_node **at; // [cap], the top in at[1]; at[0] is unused
    size_t cap, n;
} vti_heap;

typedef struct vti_node_list {
    vti_node *newest, *oldest;
} vti_node_list;

struct vti_node {
    uint64_t id;
    vti_node *parent;
    vti_node *child;         // the root of the search tree of its children, or NULL
    vti_node *left, *right;  // among its siblings
    uint64_t weight;         // random, keyed: parents in the search tree have more
    vti_node *newer, *older; // in the domain's list, by creation: a parent before its children
    bool has_windows;        // it holds chunks of a window or a state
    vt_domain *domain;       // NULL: removed
    uint32_t start, n_tok;   // tokens [start, start + n_tok) of the path
    uint32_t n_child, n_ref, n_guard, n_pin;
    vt_retention keep;         // as set for this node itself; until_ms = 0 if it is plain
    uint64_t born_ms, used_ms; // tree->now_ms when it was made, and with `used`
    uint64_t
        used; // tree->clock when it was used last, or a child that is gone, or a node below that
              // needs its windows
    size_t place[VTI_N_ORDER]; // in the heaps; 0: in none
    uint32_t room[];           // tokens [block_tok], then chunks, group after group
};

struct vt_domain {
    struct vt_domain *newer, *older; // in the tree's list
    struct vt_domain *chain;         // in the table
    uint64_t hash, id;
    vti_radix *tree;
    vti_node *root;
    vti_node_list nodes; // without the root
    vti_heap heap;       // IN_DOMAIN
    uint32_t n_open;
    uint64_t quota_bytes, held_bytes;
    uint64_t epoch;
    vt_domain_stats stats; // counters only
    size_t key_bytes;
    unsigned char key[];
};

struct vti_radix {
    const vti_geo *geo;
    vti_pset *pset;
    vt_manager *owner;
    vti_events *events;
    vt_domain *newest, *oldest; // all domains
    vt_domain **bucket;         // [bucket_mask + 1] domains by hash
    uint64_t bucket_mask;
    vti_secret secret;            // of hashes and weights
    vti_heap heap[VTI_IN_DOMAIN]; // the others are in their domains
    uint64_t n_node, n_tok, n_domain;
    uint64_t n_id, n_domain_id, clock;
    uint64_t pinned_bytes; // of chunks of nodes with n_pin > 0
    uint64_t n_evicted, n_window;
    uint64_t now_ms; // of the last tick
    vt_prefix_ages ages;
};

// The chunks of a node in one group: chunk[i] is at position first + i.
typedef struct vti_holding {
    uint32_t *chunk;
    uint32_t first, n;
    bool is_window; // of a window or a state
} vti_holding;

static inline bool vti_node_is_root(const vti_node *n)
{
    return n->n_tok == 0;
}

static inline uint32_t vti_node_end(const vti_node *n)
{
    return n->start + n->n_tok;
}

// radix_node.c
vti_node *vti_node_new(const vti_radix *t, uint32_t start); // without tokens. NULL: no memory
vti_holding vti_node_holding(const vti_radix *t, const vti_node *n, uint32_t group);
uint64_t vti_node_bytes(const vti_radix *t, const vti_node *n); // of its chunks
void vti_node_set_chunk(vti_radix *t, vti_node *n, const vti_holding *h, uint32_t i,
                        uint32_t chunk); // counts the references; VTI_NO_CHUNK: none
void vti_node_drop_all(vti_radix *t, vti_node *n, bool windows_only);
void vti_node_keep_all(vti_radix *t, vti_node *n, bool windows, bool is_kept);
bool vti_node_holds_windows(const vti_radix *t, const vti_node *n);
uint32_t vti_node_lacks(const vti_radix *t, const vti_node *n); // as in vt_event
void vti_list_append(vti_node_list *l, vti_node *n);
void vti_list_remove(vti_node_list *l, vti_node *n);

// The children of a node, ordered by their tokens.
void vti_child_add(vti_node *parent, vti_node *n);
void vti_child_remove(vti_node *parent, vti_node *n);
// The child that has the most tokens in common with tok: *n_same of them. NULL: there is no child.
vti_node *vti_child_like(const vti_node *parent, const uint32_t *tok, uint32_t n_tok,
                         uint32_t *n_same);
vti_node *vti_child_find(const vti_node *parent, const uint32_t *tok, uint32_t n_tok); // exactly
// The last child that is not after tok, in the order of the children; or NULL.
vti_node *vti_child_upto(const vti_node *parent, const uint32_t *tok, uint32_t n_tok,
                         uint32_t *n_same);
// The child made last among those that begin with tok and have more tokens; some of very many are
// not looked at. NULL: there is none.
vti_node *vti_child_latest(const vti_node *parent, const uint32_t *tok, uint32_t n_tok);
const char *vti_children_wrong(const vti_node *parent, bool may_nest);

// radix_priority.c
void vti_priority_settle(vti_radix *t, vti_node *n); // puts it where it belongs in the heaps
void vti_priority_leave(vti_radix *t, vti_node *n);  // takes it out of all
vt_status vti_priority_reserve(vti_radix *t, vt_domain *d, uint64_t more_nodes); // VT_ENOMEM
const char *vti_priority_wrong(const vti_radix *t, const vti_node *n);
const char *vti_heap_wrong(const vti_heap *h, vti_order order);
void vti_node_guard(vti_radix *t, vti_node *n); // one more reason not to evict it
void vti_node_unguard(vti_radix *t, vti_node *n);
void vti_node_unpin(vti_radix *t, vti_node *n);          // one pin less
void vti_priority_expire(vti_radix *t, uint64_t now_ms); // drops the retention that has ended
void vti_priority_inherit(vti_radix *t, vti_node *heir, const vti_node *from);

// radix_domain.c
void vti_node_remove(vti_radix *t, vti_node *n); // Pre: no children
void vti_node_note(vti_radix *t, vt_event_kind kind, const vti_node *n);
bool vti_radix_evict_in(vt_domain *d); // the domain's least valuable leaf

#endif
