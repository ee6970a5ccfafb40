// radix_node.h - what the files of the radix tree share, for them and their tests; functions are
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

// The chunks of a node in one group: chunk[i] is at position first + i.
typedef struct vti_holding {
    uint32_t *chunk;
    uint32_t first, n;
    bool is_window; // of a window or a state
} vti_holding;

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
void vti_node_unpin(vti_radix *t, vti_node *n); // one pin less
void vti_priority_expire(vti_radix *t);         // drops the retention that has ended
void vti_priority_inherit(vti_radix *t, vti_node *heir, const vti_node *from);

// radix_domain.c
// Where the domain with this key is in t->domain, or belongs.
size_t vti_domain_place(const vti_radix *t, const void *key, size_t key_bytes);
void vti_node_remove(vti_radix *t, vti_node *n); // Pre: no children
void vti_node_note(vti_radix *t, vt_event_kind kind, const vti_node *n);
bool vti_radix_evict_in(vt_domain *d); // the domain's least valuable leaf

#endif
