// rtree.h - rTree of the paper: a tree of exact tokens with a root for each domain, whose nodes
// hold chunks.
//
// Structure only: the tree counts its references in the pSet (vti_pset_node_hold and the like) and
// makes no backend call. Chunks that lose their last holder here are in the pool then.
//
// A node stands for a block of tokens after those of its parent, and holds the chunks that their
// rows touch, in every group. Only a leaf may have fewer tokens than a block. Groups with a window,
// and states, are held beside: a node may lack their chunks, and then no sequence can begin where
// they would be needed.
#ifndef VTI_RTREE_H
#define VTI_RTREE_H

#include "vtensor/core/events.h"
#include "vtensor/core/geometry.h"
#include "vtensor/core/pset.h"

typedef struct vti_rtree vti_rtree;
typedef struct vti_node vti_node;

// What a lookup found: the first n_tok tokens, the last of them in node `last`; `node` is the
// deepest node of the path that is used as a whole.
typedef struct vti_prefix {
    vti_node *node, *last;
    uint32_t n_tok;
} vti_prefix;

typedef struct vti_rtree_stats {
    uint64_t n_node; // roots not counted
    uint64_t n_tok;
    uint64_t n_evicted; // nodes, so far
    uint64_t n_beside;  // nodes that stay, but of which what they held beside was evicted
    uint64_t n_domain;
} vti_rtree_stats;

// What to record: tokens [start, end) after those of node `from`, the chunks that hold their rows,
// and whether the chunks of a state are those of `end`.
typedef struct vti_push {
    vti_node *from;            // a root, or a node with a whole block
    const uint32_t *tok;       // [end - start]
    uint32_t start, end;       // start: where `from` ends
    const uint32_t *const *at; // [n_group][n_position]
    bool has_state;
} vti_push;

// geo and pset must outlive the tree. `owner` is what vti_domain_owner returns; events may be NULL.
// Errors: VT_ENOMEM.
vt_status vti_rtree_new(const vti_geo *geo, vti_pset *pset, vt_manager *owner, vti_events *events,
                        vti_rtree **out);
void vti_rtree_free(vti_rtree *t); // drops all references; NULL is allowed
vti_rtree_stats vti_rtree_look(const vti_rtree *t);

// The domain with exactly this key; counts the opening. Empty domains that are not open are freed.
// Errors: VT_ENOMEM.
vt_status vti_rtree_open(vti_rtree *t, const void *key, size_t key_bytes, vt_domain **out);
void vti_rtree_close(vt_domain *d);
void vti_domain_reopen(vt_domain *d); // one more opening
vt_manager *vti_domain_owner(const vt_domain *d);
vti_rtree *vti_domain_tree(const vt_domain *d);
vti_node *vti_domain_root(const vt_domain *d);
void vti_domain_note_match(vt_domain *d, uint32_t n_tok, uint32_t n_hit);

// [rPrefixMatch] The longest recorded prefix of tok with which a sequence can begin. Changes
// nothing.
vti_prefix vti_rtree_match(const vt_domain *d, const uint32_t *tok, uint32_t n_tok);

// Up to max_n tokens that are recorded behind exactly tok[0..n_tok), whatever the nodes hold, on
// the branch recorded last where paths part. Returns how many; 0: nothing goes on from there.
// Changes nothing.
uint32_t vti_rtree_continue(const vt_domain *d, const uint32_t *tok, uint32_t n_tok, uint32_t *out,
                            uint32_t max_n);

// The chunks that a sequence of the prefix needs: at[g][p] in group g at position p, for the
// positions that its tokens touch; VTI_NO_CHUNK where a window has passed. If two nodes of the path
// hold a chunk for one position, the deeper one's counts.
void vti_rtree_chunks(const vti_rtree *t, vti_prefix prefix, uint32_t *const *at);

// [rPush] Makes the tokens a path of the tree. What is recorded already is kept, but a chunk there
// that no sequence uses is replaced by the new one, which saves it. *out is the node in which the
// path ends; it counts as used now. A domain's quota may end it earlier.
// Errors: VT_ENOMEM; nothing new is recorded then.
vt_status vti_rtree_push(vti_rtree *t, const vti_push *push, vti_node **out);
// Removes the nodes from `end` up to `from` that were made since the mark was taken. Pre: none of
// them has other children.
// The node behind which a push of tok may begin where the first n_tok of them are known to be those
// of the path to n: nothing before it would change. Windows are looked at again as far as they
// reach, since what was held for them may have been evicted. The root, if n is NULL or not of the
// domain, or if its own tokens are others.
vti_node *vti_rtree_resume(const vt_domain *d, vti_node *n, const uint32_t *tok, uint32_t n_tok);

uint64_t vti_rtree_mark(const vti_rtree *t);
void vti_rtree_undo_push(vti_rtree *t, vti_node *end, const vti_node *from, uint64_t mark);

// Makes the node hold `chunk`, which has the same rows, instead of the one it holds at `position`.
void vti_rtree_replace(vti_rtree *t, vti_node *n, uint32_t group, uint32_t position,
                       uint32_t chunk);

// Marks the node as used now, and those above it as far as their windows are needed with it.
void vti_rtree_touch(vti_rtree *t, vti_node *n);

// rtree_age.c: the clock of ages, and what is noted just before a leaf is evicted and just before a
// match uses a node.
void vti_rtree_tick(vti_rtree *t, uint64_t now_ms);
void vti_rtree_note_eviction(vti_rtree *t, const vti_node *leaf);
void vti_rtree_note_reuse(vti_rtree *t, const vti_node *n);
const vt_prefix_ages *vti_rtree_ages(const vti_rtree *t);

// References of sequences: a node with references is not evicted, nor is one above it.
void vti_rtree_ref(vti_rtree *t, vti_node *n);
void vti_rtree_unref(vti_rtree *t, vti_node *n);

// Sets the node's retention to `keep`, be it more or less than before. Nodes above it are not
// evicted before it, and inherit its retention. now_ms is the clock for keep->until_ms.
// Errors: VT_NOPINS (pinned nodes would hold more than max_pinned_bytes).
vt_status vti_rtree_retain(vti_rtree *t, vti_node *n, const vt_retention *keep,
                           uint64_t max_pinned_bytes, uint64_t now_ms);

// Evicts the least valuable block: a leaf without references that is not pinned (at now_ms), or the
// chunks that a node further up holds beside for a window or a state. False: there is none.
bool vti_rtree_evict(vti_rtree *t, uint64_t now_ms);

// Removes all nodes of a domain, whatever their retention. Nodes that sequences reference stay
// valid for vti_rtree_unref, which then frees them, and for vti_rtree_touch, which does nothing.
void vti_rtree_forget(vt_domain *d);
uint64_t vti_domain_epoch(const vt_domain *d); // grows with every vti_rtree_forget
bool vti_node_is_removed(const vti_node *n);
// The deepest node up from n all of whose chunks a sequence of n_tok tokens shares: what it uses of
// the nodes below is a copy, so they need not be kept for it.
vti_node *vti_node_within(const vti_rtree *t, vti_node *n, uint32_t n_tok);
uint32_t vti_node_end_tok(const vti_node *n); // tokens of the path that ends in it
// Notes that a sequence which shares the path to n was forked. NULL: it shares none.
void vti_rtree_note_fork(vti_rtree *t, const vti_node *n, uint32_t n_tok);

// rtree_walk.c: see vtensor.h
void vti_domain_set_quota(vt_domain *d, uint64_t quota_bytes);
vt_domain_stats vti_domain_stats_of(const vt_domain *d);
uint64_t vti_domain_id_of(const vt_domain *d);
void vti_domain_walk(const vti_rtree *t,
                     bool (*fn)(void *ud, vt_domain *d, const void *key, size_t key_bytes),
                     void *ud);
void vti_rtree_walk(const vt_domain *d, bool (*fn)(void *ud, const vt_prefix_info *node), void *ud);

// What has changed: vt_prefix_watch and vt_prefix_changes (rtree_watch.c).
void vti_rtree_watch(vti_rtree *t, bool is_on);
void vti_rtree_changes(vti_rtree *t, const vt_prefix_watcher *to);

// For vt_check: calls fn for each reference of each node; returns the first broken invariant of the
// tree itself as text, or NULL.
const char *vti_rtree_check(const vti_rtree *t, void (*fn)(void *ctx, uint32_t chunk, bool is_kept),
                            void *ctx);

#endif
