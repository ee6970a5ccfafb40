// radix_priority.c - eviction priority: which nodes may be evicted, and in which order.
//
// The nodes are in binary heaps:
//
//   BY_PRIORITY nodes that may be evicted now; on top the least recently used of lowest priority
//   IN_DOMAIN   the same of one domain, for its quota
//   BY_END      nodes whose retention has an end; on top the one that ends first
//   BY_WINDOW   other nodes whose windows and states may be released; on top the least recently
//               used, and of those that were used together the last tokens: prefixes that end early
//               are asked for more often, and what is lost is then one stretch of lengths
//
// A push reserves the room that a heap may need, so adding a node cannot fail.
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
// The retention that a caller sets is kept with that one node, so that it can be removed again. The
// nodes above need no copy of it: they cannot be evicted before the node, and when it is evicted
// its parent inherits its last use, and its retention if that is more valuable and ends no earlier
// than the parent's own. Evicting and retaining first drop retentions that have ended.
#include "radix_node.h"

#include <stdlib.h>
#include <string.h>

// ---- Heaps

static bool goes_first(vti_order order, const vti_node *a, const vti_node *b)
{
    if (order == VTI_BY_END) return a->keep.until_ms < b->keep.until_ms;
    if (order != VTI_BY_WINDOW && a->keep.priority != b->keep.priority)
        return a->keep.priority < b->keep.priority;
    if (order == VTI_BY_WINDOW && a->used == b->used) return a->start > b->start;
    return a->used < b->used;
}

static vti_heap *heap_of(vti_radix *t, const vti_node *n, vti_order order)
{
    return order == VTI_IN_DOMAIN ? &n->domain->heap : &t->heap[order];
}

static void put_at(vti_heap *h, vti_order order, size_t i, vti_node *n)
{
    h->at[i] = n;
    n->place[order] = i;
}

static void heap_sift(vti_heap *h, vti_order order, size_t i)
{
    vti_node *n = h->at[i];
    for (; i > 1 && goes_first(order, n, h->at[i / 2]); i /= 2) put_at(h, order, i, h->at[i / 2]);
    for (size_t next; (next = 2 * i) <= h->n; i = next) {
        if (next < h->n && goes_first(order, h->at[next + 1], h->at[next])) next++;
        if (!goes_first(order, h->at[next], n)) break;
        put_at(h, order, i, h->at[next]);
    }
    put_at(h, order, i, n);
}

static void heap_remove(vti_heap *h, vti_order order, vti_node *n)
{
    size_t i = n->place[order];
    vti_node *last = h->at[h->n--];
    n->place[order] = 0;
    if (last == n) return;
    put_at(h, order, i, last);
    heap_sift(h, order, i);
}

// A victim gives up its windows with the rest, so only other nodes are in the heap BY_WINDOW.
static bool belongs_in_heap(vti_order order, const vti_node *n)
{
    bool is_victim = !vti_node_is_root(n) && !n->child && n->n_guard == 0;
    if (order == VTI_BY_END) return n->keep.until_ms != 0;
    return order == VTI_BY_WINDOW ? n->has_windows && n->n_pin == 0 && !is_victim : is_victim;
}

void vti_priority_settle(vti_radix *t, vti_node *n)
{
    for (vti_order order = 0; order < VTI_N_ORDER; order++) {
        vti_heap *h = heap_of(t, n, order);
        bool in = n->place[order] != 0, should = belongs_in_heap(order, n);
        if (in && should) heap_sift(h, order, n->place[order]);
        if (in && !should) heap_remove(h, order, n);
        if (in || !should) continue;
        put_at(h, order, ++h->n, n); // a push has reserved the room
        heap_sift(h, order, h->n);
    }
}

void vti_priority_leave(vti_radix *t, vti_node *n)
{
    for (vti_order order = 0; order < VTI_N_ORDER; order++)
        if (n->place[order] != 0) heap_remove(heap_of(t, n, order), order, n);
}

static vt_status heap_reserve(vti_heap *h, uint64_t n)
{
    if (n < h->cap) return VT_OK; // at[0] is not used
    size_t cap = n + 1 > 2 * h->cap ? n + 1 : 2 * h->cap;
    vti_node **at = calloc(cap, sizeof(vti_node *));
    if (!at) return VT_ENOMEM;
    if (h->at) memcpy(at, h->at, h->cap * sizeof *at);
    free(h->at);
    h->at = at;
    h->cap = cap;
    return VT_OK;
}

vt_status vti_priority_reserve(vti_radix *t, vt_domain *d, uint64_t more_nodes)
{
    for (vti_order order = 0; order < VTI_IN_DOMAIN; order++)
        VT_TRY(heap_reserve(&t->heap[order], t->n_node + more_nodes));
    return heap_reserve(&d->heap, d->stats.prefix_nodes + more_nodes);
}

const char *vti_priority_wrong(const vti_radix *t, const vti_node *n)
{
    for (vti_order order = 0; order < VTI_N_ORDER; order++) {
        const vti_heap *h = heap_of((vti_radix *)t, n, order);
        size_t i = n->place[order];
        if ((i != 0) != belongs_in_heap(order, n))
            return "radix tree: a node that is not in its heap";
        if (i > h->n || (i != 0 && h->at[i] != n))
            return "radix tree: a node at a wrong place of a heap";
    }
    return NULL;
}

const char *vti_heap_wrong(const vti_heap *h, vti_order order)
{
    for (size_t i = 1; i <= h->n; i++)
        if (h->at[i]->place[order] != i || (i > 1 && goes_first(order, h->at[i], h->at[i / 2])))
            return "radix tree: a heap out of order";
    return NULL;
}

// ---- Guards and pins

void vti_node_guard(vti_radix *t, vti_node *n)
{
    for (; n && n->n_guard++ == 0; n = n->parent) {
        vti_node_keep_all(t, n, false, true);
        vti_priority_settle(t, n);
    }
}

void vti_node_unguard(vti_radix *t, vti_node *n)
{
    for (; n && --n->n_guard == 0; n = n->parent) {
        vti_node_keep_all(t, n, false, false);
        vti_priority_settle(t, n);
    }
}

static void pin_path(vti_radix *t, vti_node *n)
{
    for (vti_node *at = n; at && at->n_pin++ == 0; at = at->parent) {
        vti_node_keep_all(t, at, true, true);
        t->pinned_bytes += vti_node_bytes(t, at);
        vti_priority_settle(t, at);
    }
    vti_node_guard(t, n);
}

void vti_node_unpin(vti_radix *t, vti_node *n)
{
    for (; n && --n->n_pin == 0; n = n->parent) {
        vti_node_keep_all(t, n, true, false);
        t->pinned_bytes -= vti_node_bytes(t, n);
        vti_priority_settle(t, n);
    }
}

// ---- Retention

static bool is_plain(const vt_retention *keep)
{
    return !keep->pinned && keep->priority == 0;
}

static void retention_set(vti_radix *t, vti_node *n, vt_retention keep)
{
    bool was_pinned = n->keep.pinned;
    n->keep = is_plain(&keep) ? (vt_retention){0} : keep;
    if (n->keep.pinned && !was_pinned) pin_path(t, n);
    if (!n->keep.pinned && was_pinned) {
        vti_node_unpin(t, n);
        vti_node_unguard(t, n);
    }
    vti_priority_settle(t, n);
}

void vti_priority_expire(vti_radix *t)
{
    vti_heap *h = &t->heap[VTI_BY_END];
    while (h->n > 0 && h->at[1]->keep.until_ms <= t->now_ms)
        retention_set(t, h->at[1], (vt_retention){0});
}

static bool ends_before(const vt_retention *a, const vt_retention *b)
{
    return a->until_ms - 1 < b->until_ms - 1; // 0 means never: the latest
}

static bool is_more_valuable(const vt_retention *a, const vt_retention *b)
{
    if (a->pinned != b->pinned) return a->pinned;
    if (a->priority != b->priority) return a->priority > b->priority;
    return ends_before(b, a);
}

// The heir's own retention is not replaced by one that ends earlier.
void vti_priority_inherit(vti_radix *t, vti_node *heir, const vti_node *from)
{
    if (vti_node_is_root(heir)) return;
    if (from->used > heir->used) heir->used = from->used;
    if (from->used_ms > heir->used_ms) heir->used_ms = from->used_ms;
    if (is_more_valuable(&from->keep, &heir->keep) &&
        (is_plain(&heir->keep) || !ends_before(&from->keep, &heir->keep)))
        retention_set(t, heir, from->keep);
    else
        vti_priority_settle(t, heir);
}

vt_status vti_radix_retain(vti_radix *t, vti_node *n, const vt_retention *keep,
                           uint64_t max_pinned_bytes)
{
    vti_priority_expire(t);
    if (vti_node_is_root(n) || !n->domain) return VT_OK;
    bool over = keep->until_ms != 0 && keep->until_ms <= t->now_ms;
    vt_retention wanted = over ? (vt_retention){0} : *keep;
    uint64_t bytes = t->pinned_bytes; // with what is not pinned yet on the path to n
    for (const vti_node *at = wanted.pinned ? n : NULL; at && at->n_pin == 0; at = at->parent)
        bytes += vti_node_bytes(t, at);
    if (wanted.pinned && bytes > max_pinned_bytes) return VT_NOPINS;
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

// Nodes above are used as far as their windows are needed: these must not be released before this
// node.
void vti_radix_touch(vti_radix *t, vti_node *n)
{
    if (!n->domain) return;
    uint32_t front = window_front(t->geo, vti_node_end(n));
    t->clock++;
    for (; !vti_node_is_root(n); n = n->parent) {
        n->used = t->clock;
        n->used_ms = t->now_ms;
        vti_priority_settle(t, n);
        if (n->start <= front) break;
    }
}

vti_node *vti_radix_resume(const vt_domain *d, vti_node *n, const uint32_t *tok, uint32_t n_tok)
{
    const vti_geo *g = d->tree->geo;
    if (!n || n->domain != d) return d->root;
    if (n_tok > vti_node_end(n)) n_tok = vti_node_end(n);
    uint32_t front = window_front(g, n_tok);
    while (!vti_node_is_root(n) && (vti_node_end(n) > front || n->n_tok < g->block_tok))
        n = n->parent;
    return memcmp(n->room, tok + n->start, n->n_tok * sizeof *tok) == 0 ? n : d->root;
}

void vti_radix_ref(vti_radix *t, vti_node *n)
{
    if (n->n_ref++ == 0 && n->domain) vti_node_guard(t, n);
}
