// rtree.h - rTree of the paper: a radix tree on exact tokens, with a root for each domain, whose
// nodes hold chunks.
//
// Structure only: the tree counts its references in the pSet (vti_pset_node_hold,
// vti_pset_node_drop) and makes no backend call. Chunks that lose their last holder here become
// stray, and the caller frees them.
#ifndef VTI_RTREE_H
#define VTI_RTREE_H

#include "vtensor/structure/geometry.h"
#include "vtensor/structure/pset.h"

typedef struct vti_rtree vti_rtree;
typedef struct vti_node vti_node;

// What a lookup found: the first n_tok tokens are in the tree, the last of them on the edge into
// `node` (a root if n_tok = 0).
typedef struct vti_prefix {
    vti_node *node;
    uint32_t n_tok;
} vti_prefix;

typedef struct vti_rtree_stats {
    uint64_t n_node; // roots not counted
    uint64_t n_tok;
    uint64_t n_domain;
} vti_rtree_stats;

// geo and pset must outlive the tree. `owner` is what vti_domain_owner returns. Errors: VT_ENOMEM.
vt_status vti_rtree_new(const vti_geo *geo, vti_pset *pset, vt_manager *owner, vti_rtree **out);
void vti_rtree_free(vti_rtree *t); // drops all references; NULL is allowed
vti_rtree_stats vti_rtree_look(const vti_rtree *t);

// The domain with exactly this key; counts the opening. Empty domains that are not open are freed.
// Errors: VT_ENOMEM.
vt_status vti_rtree_open(vti_rtree *t, const void *key, size_t key_bytes, vt_domain **out);
void vti_rtree_close(vt_domain *d);
vt_manager *vti_domain_owner(const vt_domain *d);

// [rPrefixMatch] The longest recorded prefix of tok. Changes nothing.
vti_prefix vti_rtree_match(const vt_domain *d, const uint32_t *tok, uint32_t n_tok);

// The region that holds each position of the prefix: at[p] for the positions that its n_tok tokens
// touch. If two nodes of the path hold a chunk at one position, the deeper one's counts.
void vti_rtree_regions(const vti_rtree *t, vti_prefix prefix, uint32_t *at);

// [rPush] Makes tok[0 .. n_tok) a path of the tree; at[p] is the region whose chunk at position p
// holds the rows of these tokens. What is recorded already is kept; the rest holds the chunks that
// at[] names (NULL: all of it is recorded). *out is the node in which the path ends; it counts as
// used now. Errors: VT_ENOMEM; the tree is then as before.
vt_status vti_rtree_push(vti_rtree *t, vt_domain *d, const uint32_t *tok, uint32_t n_tok,
                         const uint32_t *at, vti_node **out);

// How many nodes of the path that ends in n hold this chunk (n may be NULL); and makes all of them
// hold another one instead, which has the same rows.
uint32_t vti_rtree_names(const vti_rtree *t, const vti_node *n, uint32_t position, uint32_t region);
void vti_rtree_rename(vti_rtree *t, vti_node *n, uint32_t position, uint32_t from, uint32_t to);

// Marks the node and all above it as used now.
void vti_rtree_touch(vti_rtree *t, vti_node *n);

// rtree_age.c: the clock of ages, and what is noted just before a leaf is evicted and just before a
// match uses a node.
void vti_rtree_tick(vti_rtree *t, uint64_t now_ms);
void vti_rtree_note_eviction(vti_rtree *t, const vti_node *leaf);
void vti_rtree_note_reuse(vti_rtree *t, const vti_node *n);
const vt_prefix_ages *vti_rtree_ages(const vti_rtree *t);

// References of sequences: a node with references is not evicted, but it may be cut shorter. When a
// node is split, they stay with the deeper part.
void vti_rtree_ref(vti_rtree *t, vti_node *n);
void vti_rtree_unref(vti_rtree *t, vti_node *n);

// Sets the node's retention to `keep`, be it more or less than before. Nodes above it are not
// evicted before it, and inherit its retention. now_ms is the clock for keep->until_ms.
// Errors: VT_NOSPACE (pinned nodes would hold more than max_pinned_chunks).
vt_status vti_rtree_retain(vti_rtree *t, vti_node *n, const vt_retention *keep,
                           uint64_t max_pinned_chunks, uint64_t now_ms);

// The leaf to be evicted next: without references, not pinned (at now_ms), of the lowest priority
// (at now_ms), least recently used. NULL: none.
vti_node *vti_rtree_victim(vti_rtree *t, uint64_t now_ms);

// Removes a leaf: its references in the pSet are dropped. Pre: no children, no references.
void vti_rtree_drop(vti_rtree *t, vti_node *leaf);

// Removes all nodes of a domain, whatever their retention. Nodes that sequences reference stay
// valid for vti_rtree_unref, which then frees them, and for vti_rtree_touch, which does nothing.
void vti_rtree_forget(vt_domain *d);

// For when no victim is left: releases a duplicated chunk, else truncates the least valuable leaf
// in use by its last chunk, if its path alone holds it. Nodes above may then become victims. Walks
// the tree. False: there is nothing to cut.
bool vti_rtree_cut(vti_rtree *t, uint64_t now_ms);

// Cuts from the prefix that ends in n the tokens with rows in this position, if that is its last
// one and nothing continues from there. True: no node holds the chunk any more. n may be NULL.
bool vti_rtree_cut_tail(vti_rtree *t, vti_node *n, uint32_t position);

// Sets the node that vti_rtree_cut must not shorten, until the next call; NULL: none.
void vti_rtree_keep_whole(vti_rtree *t, const vti_node *n);

// How many CACHED chunks evicting all that may be evicted would free; and how many more, at least,
// cutting would free. Both walk the tree.
uint64_t vti_rtree_evictable(vti_rtree *t, uint64_t now_ms);
uint64_t vti_rtree_cuttable(vti_rtree *t, uint64_t now_ms);

// For vt_check: calls fn for each reference of each node; returns the first broken invariant of the
// tree itself as text, or NULL.
const char *vti_rtree_check(const vti_rtree *t,
                            void (*fn)(void *ctx, uint32_t region, uint32_t position), void *ctx);

#endif
