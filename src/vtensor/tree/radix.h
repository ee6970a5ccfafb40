// radix.h - the radix tree over recorded prefixes (rTree of the vTensor paper): exact tokens, a
// root for each domain, nodes that hold chunks.
//
// Structure only: the tree counts its references in the pSet (vti_pset_node_hold and the like) and
// makes no backend call. Chunks that lose their last holder here are in the pool then.
//
// A node stands for a block of tokens after those of its parent, and holds the chunks that their
// rows touch, in every group. Only a leaf may have fewer tokens than a block. A node may lack the
// chunks of groups with a window, and of states ("windows" below); then no sequence can begin where
// they would be needed.
#ifndef VTI_RADIX_H
#define VTI_RADIX_H

#include "vtensor/core/geometry.h"
#include "vtensor/core/pset.h"

// The ring of events of vt_events_take: what can be matched, and what no longer can. The owner
// adds, any thread takes. When it is full, the oldest event is overwritten; the reader sees that by
// the gap in the numbers.
typedef struct vti_events vti_events;

// Errors: VT_ENOMEM.
vt_status vti_events_new(uint32_t n_event, vti_events **out);
void vti_events_free(vti_events *ev);                // NULL is allowed, also below
void vti_events_add(vti_events *ev, vt_event event); // its number is set here
uint32_t vti_events_take(vti_events *ev, vt_event *out, uint32_t max_n);

typedef struct vti_radix vti_radix;
typedef struct vti_node vti_node;

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
    uint64_t weight;         // random: parents in the search tree have more
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
    uint64_t id;
    vti_radix *tree;
    vti_node *root;
    vti_node_list nodes; // without the root
    vti_heap heap;       // IN_DOMAIN
    uint32_t n_open;
    uint64_t quota_bytes, held_bytes;
    uint64_t epoch;              // grows with every vt_domain_forget
    vt_domain_stats stats;       // counters only
    struct vt_team_domain *team; // that it is a part of, or NULL
    size_t key_bytes;
    unsigned char key[];
};

struct vti_radix {
    const vti_geo *geo;
    vti_pset *pset;
    vt_manager *owner;
    vti_events *events; // NULL: none are kept
    vt_domain **domain; // [cap_domain] n_domain of them, by key
    size_t n_domain, cap_domain;
    vti_heap heap[VTI_IN_DOMAIN]; // the others are in their domains
    uint64_t n_node, n_tok;       // roots not counted
    uint64_t n_evicted;           // nodes, so far
    uint64_t n_window;            // nodes that stay, but whose windows were evicted
    uint64_t n_id, n_domain_id, clock;
    uint64_t seed;         // of weights; random
    uint64_t pinned_bytes; // of chunks of nodes with n_pin > 0
    uint64_t now_ms;       // the clock of ages, events and retention
    vt_prefix_ages ages;
};

static inline bool vti_node_is_root(const vti_node *n)
{
    return n->n_tok == 0;
}

// Tokens of the path that ends in it.
static inline uint32_t vti_node_end(const vti_node *n)
{
    return n->start + n->n_tok;
}

// What a lookup found: the first n_tok tokens, the last of them in node `last`; `node` is the
// deepest node of the path that is used as a whole.
typedef struct vti_prefix {
    vti_node *node, *last;
    uint32_t n_tok;
} vti_prefix;

// What to record: tokens [start, end) after those of node `from`, the chunks that hold their rows,
// and whether the chunks of a state are those of `end`.
typedef struct vti_push {
    vti_node *from;            // a root, or a node with a whole block
    const uint32_t *tok;       // [end - start]
    uint32_t start, end;       // start: where `from` ends
    const uint32_t *const *at; // [n_group][n_position]
    bool has_state;
} vti_push;

// geo and pset must outlive the tree. n_event: of its ring; 0: it keeps none. Errors: VT_ENOMEM.
vt_status vti_radix_new(const vti_geo *geo, vti_pset *pset, vt_manager *owner, uint32_t n_event,
                        vti_radix **out);
void vti_radix_free(vti_radix *t); // drops all references; NULL is allowed

// The domain with exactly this key; counts the opening. Empty domains that are not open are freed.
// Errors: VT_ENOMEM.
vt_status vti_radix_open(vti_radix *t, const void *key, size_t key_bytes, vt_domain **out);

// [rPrefixMatch] The longest recorded prefix of tok with which a sequence can begin. Changes
// nothing.
vti_prefix vti_radix_match(const vt_domain *d, const uint32_t *tok, uint32_t n_tok);

// The chunks that a sequence of the prefix needs: at[g][p] in group g at position p, for the
// positions that its tokens touch; VTI_NO_CHUNK where a window has passed. If two nodes of the path
// hold a chunk for one position, the deeper one's counts.
void vti_radix_chunks(const vti_radix *t, vti_prefix prefix, uint32_t *const *at);

// [rPush] Makes the tokens a path of the tree. What is recorded already is kept, but a chunk there
// that no sequence uses is replaced by the new one, which saves it. *out is the node in which the
// path ends; it counts as used now. A domain's quota may end it earlier.
// Errors: VT_ENOMEM; nothing new is recorded then.
vt_status vti_radix_push(vti_radix *t, const vti_push *push, vti_node **out);
// The node after which a push of tok may begin where the first n_tok of them are known to be those
// of the path to n: nothing before it would change. Windows are looked at again as far as they
// reach, since what was held for them may have been evicted. The root, if n is NULL or not of the
// domain, or if its own tokens differ.
vti_node *vti_radix_resume(const vt_domain *d, vti_node *n, const uint32_t *tok, uint32_t n_tok);
// Removes the nodes from `end` up to `from` that were made since t->n_id was `mark`. Pre: none of
// them has other children.
void vti_radix_undo_push(vti_radix *t, vti_node *end, const vti_node *from, uint64_t mark);

// Makes the node hold `chunk`, which has the same rows, instead of the one it holds at `position`.
void vti_radix_replace(vti_radix *t, vti_node *n, uint32_t group, uint32_t position,
                       uint32_t chunk);

// Marks the node as used now, and those above it as far as their windows are needed with it.
void vti_radix_touch(vti_radix *t, vti_node *n);

// Call just before a match uses a node.
void vti_radix_note_reuse(vti_radix *t, const vti_node *n);

// References of sequences: a node with references is not evicted, nor is one above it.
void vti_radix_ref(vti_radix *t, vti_node *n);
void vti_radix_unref(vti_radix *t, vti_node *n);

// Sets the node's retention to `keep`, be it more or less than before. Nodes above it are not
// evicted before it, and inherit its retention.
// Errors: VT_NOPINS (pinned nodes would hold more than max_pinned_bytes).
vt_status vti_radix_retain(vti_radix *t, vti_node *n, const vt_retention *keep,
                           uint64_t max_pinned_bytes);

// Evicts the least valuable block: a leaf without references that is not pinned, or the windows of
// a node further up. False: there is none.
bool vti_radix_evict(vti_radix *t);

// After vt_domain_forget, nodes that sequences reference stay valid for vti_radix_unref, which then
// frees them, and for vti_radix_touch, which does nothing.
//
// The deepest node up from n all of whose chunks a sequence of n_tok tokens shares: what it uses of
// the nodes below is a copy, so they need not be kept for it.
vti_node *vti_node_within(const vti_radix *t, vti_node *n, uint32_t n_tok);
// Notes that a sequence which shares the path to n was forked. NULL: it shares none.
void vti_radix_note_fork(vti_radix *t, const vti_node *n, uint32_t n_tok);

// For vt_check: calls fn for each reference of each node; returns the first broken invariant of the
// tree itself as text, or NULL.
const char *vti_radix_check(const vti_radix *t, void (*fn)(void *ctx, uint32_t chunk, bool is_kept),
                            void *ctx);

#endif
