// rtree_worth.c - which nodes may be evicted, and what they are worth.
//
// A guard keeps a node from being evicted. A sequence that references a node guards it, a pin does,
// and so does a guarded child: everything above a guarded node is guarded.
//
//   root (guarded)
//     a (guarded)
//       c             a victim: a leaf without a guard
//       e pinned
//     b               not a victim before d is gone
//       d             a victim
//
// Guarding a node walks up to the first ancestor that had a guard already, so it costs at most the
// depth. Guarded children come first in their parents' lists, so that a walk over all guarded nodes
// passes few others.
//
// The retention that a caller sets is kept with that one node, so that it can be taken back. The
// nodes above need no copy of it: they cannot be evicted before the node, and when it is evicted
// its parent inherits its retention, if that is worth more and ends no earlier than the parent's
// own. Every function that takes the time first drops retentions that have ended.
#include "rtree_node.h"

// n has become guarded, or is no longer guarded.
static void regroup_node(vti_rtree *t, vti_node *n)
{
    if (!n->parent) return;
    vti_node_detach(n);
    vti_node_attach(n, n->parent);
    vti_worth_settle(t, n);
}

void vti_node_guard(vti_rtree *t, vti_node *n)
{
    for (; n && n->n_guard++ == 0; n = n->parent) regroup_node(t, n);
}

void vti_node_unguard(vti_rtree *t, vti_node *n)
{
    for (; n && --n->n_guard == 0; n = n->parent) regroup_node(t, n);
}

// ---- Worth

static bool is_plain(const vt_retention *keep)
{
    return !keep->pinned && keep->priority == 0;
}

void vti_worth_set(vti_rtree *t, vti_node *n, vt_retention keep)
{
    bool was_pinned = n->keep.pinned;
    n->keep = is_plain(&keep) ? (vt_retention){0} : keep;
    if (n->keep.pinned && !was_pinned) vti_node_guard(t, n);
    if (!n->keep.pinned && was_pinned) vti_node_unguard(t, n);
    vti_worth_settle(t, n);
}

void vti_worth_expire(vti_rtree *t, uint64_t now_ms)
{
    vti_heap *h = &t->heap[VTI_BY_END];
    while (h->n > 0 && h->at[1]->keep.until_ms <= now_ms)
        vti_worth_set(t, h->at[1], (vt_retention){0});
}

static bool ends_before(const vt_retention *a, const vt_retention *b)
{
    return a->until_ms - 1 < b->until_ms - 1; // 0 means never: the latest
}

static bool is_worth_more(const vt_retention *a, const vt_retention *b)
{
    if (a->pinned != b->pinned) return a->pinned;
    if (a->priority != b->priority) return a->priority > b->priority;
    return ends_before(b, a);
}

// The heir's own retention is not replaced by one that ends earlier.
void vti_worth_inherit(vti_rtree *t, vti_node *heir, const vt_retention *keep)
{
    if (vti_node_is_root(heir) || !is_worth_more(keep, &heir->keep)) return;
    if (is_plain(&heir->keep) || !ends_before(keep, &heir->keep)) vti_worth_set(t, heir, *keep);
}

void vti_rtree_touch(vti_rtree *t, vti_node *n)
{
    if (!n->domain) return;
    vti_node *end = n;
    t->clock++;
    for (; n; n = n->parent) {
        n->used = t->clock;
        n->used_ms = t->now_ms;
    }
    vti_worth_settle(t, end); // nodes above have children and are in no heap by use
}

vti_node *vti_rtree_victim(vti_rtree *t, uint64_t now_ms)
{
    vti_worth_expire(t, now_ms);
    const vti_heap *h = &t->heap[VTI_BY_WORTH];
    return h->n > 0 ? h->at[1] : NULL;
}
