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
// depth. It tells the pSet which chunks are kept now, so what may be evicted is a counter.
//
// The retention that a caller sets is kept with that one node, so that it can be taken back. The
// nodes above need no copy of it: they cannot be evicted before the node, and when it is evicted
// its parent inherits its last use, and its retention if that is worth more and ends no earlier
// than the parent's own. Every function that takes the time first drops retentions that have ended.
#include <string.h>

#include "rtree_node.h"

void vti_node_guard(vti_rtree *t, vti_node *n)
{
    for (; n && n->n_guard++ == 0; n = n->parent) {
        vti_node_keep_all(t, n, false, true);
        vti_worth_settle(t, n);
    }
}

void vti_node_unguard(vti_rtree *t, vti_node *n)
{
    for (; n && --n->n_guard == 0; n = n->parent) {
        vti_node_keep_all(t, n, false, false);
        vti_worth_settle(t, n);
    }
}

static void pin_path(vti_rtree *t, vti_node *n)
{
    for (vti_node *at = n; at && at->n_pin++ == 0; at = at->parent) {
        vti_node_keep_all(t, at, true, true);
        t->pinned_bytes += vti_node_bytes(t, at);
        vti_worth_settle(t, at);
    }
    vti_node_guard(t, n);
}

static void unpin_path(vti_rtree *t, vti_node *n)
{
    for (vti_node *at = n; at && --at->n_pin == 0; at = at->parent) {
        vti_node_keep_all(t, at, true, false);
        t->pinned_bytes -= vti_node_bytes(t, at);
        vti_worth_settle(t, at);
    }
    vti_node_unguard(t, n);
}

// ---- Retention

static bool is_plain(const vt_retention *keep)
{
    return !keep->pinned && keep->priority == 0;
}

static void retention_set(vti_rtree *t, vti_node *n, vt_retention keep)
{
    bool was_pinned = n->keep.pinned;
    n->keep = is_plain(&keep) ? (vt_retention){0} : keep;
    if (n->keep.pinned && !was_pinned) pin_path(t, n);
    if (!n->keep.pinned && was_pinned) unpin_path(t, n);
    vti_worth_settle(t, n);
}

void vti_worth_expire(vti_rtree *t, uint64_t now_ms)
{
    vti_heap *h = &t->heap[VTI_BY_END];
    while (h->n > 0 && h->at[1]->keep.until_ms <= now_ms)
        retention_set(t, h->at[1], (vt_retention){0});
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
void vti_worth_inherit(vti_rtree *t, vti_node *heir, const vti_node *from)
{
    if (vti_node_is_root(heir)) return;
    if (from->used > heir->used) heir->used = from->used;
    if (from->used_ms > heir->used_ms) heir->used_ms = from->used_ms;
    if (is_worth_more(&from->keep, &heir->keep) &&
        (is_plain(&heir->keep) || !ends_before(&from->keep, &heir->keep)))
        retention_set(t, heir, from->keep);
    else
        vti_worth_settle(t, heir);
}

// Bytes that are not pinned yet on the path that ends in n.
static uint64_t unpinned_bytes(const vti_rtree *t, const vti_node *n)
{
    uint64_t bytes = 0;
    for (; n && n->n_pin == 0; n = n->parent) bytes += vti_node_bytes(t, n);
    return bytes;
}

vt_status vti_rtree_retain(vti_rtree *t, vti_node *n, const vt_retention *keep,
                           uint64_t max_pinned_bytes, uint64_t now_ms)
{
    vti_worth_expire(t, now_ms);
    if (vti_node_is_root(n) || !n->domain) return VT_OK;
    bool over = keep->until_ms != 0 && keep->until_ms <= now_ms;
    vt_retention wanted = over ? (vt_retention){0} : *keep;
    if (wanted.pinned && t->pinned_bytes + unpinned_bytes(t, n) > max_pinned_bytes)
        return VT_NOPINS;
    retention_set(t, n, wanted);
    return VT_OK;
}

// ---- Use

// The first token that a sequence of len_tok tokens needs of any window; len_tok if there is none.
static uint32_t window_front(const vti_geo *g, uint32_t len_tok)
{
    uint32_t front = len_tok;
    for (uint32_t i = 0; i < g->n_group; i++) {
        uint32_t tok = vti_group_front_tok(&g->group[i], len_tok);
        if (g->group[i].window_tok > 0 && tok < front) front = tok;
    }
    return front;
}

// Nodes above are used as far as their windows are needed: what they hold beside must not go before
// this node.
void vti_rtree_touch(vti_rtree *t, vti_node *n)
{
    if (!n->domain) return;
    uint32_t front = window_front(t->geo, vti_node_end(n));
    t->clock++;
    for (; !vti_node_is_root(n); n = n->parent) {
        n->used = t->clock;
        n->used_ms = t->now_ms;
        vti_worth_settle(t, n);
        if (n->start <= front) break;
    }
}

vti_node *vti_rtree_resume(const vt_domain *d, vti_node *n, const uint32_t *tok, uint32_t n_tok)
{
    const vti_geo *g = d->tree->geo;
    if (!n || n->domain != d) return d->root;
    if (n_tok > vti_node_end(n)) n_tok = vti_node_end(n);
    uint32_t front = window_front(g, n_tok);
    while (!vti_node_is_root(n) && (vti_node_end(n) > front || n->n_tok < g->block_tok))
        n = n->parent;
    return memcmp(n->room, tok + n->start, n->n_tok * sizeof *tok) == 0 ? n : d->root;
}

void vti_rtree_ref(vti_rtree *t, vti_node *n)
{
    if (n->n_ref++ == 0 && n->domain) vti_node_guard(t, n);
}
