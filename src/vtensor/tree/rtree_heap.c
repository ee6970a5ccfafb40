// rtree_heap.c - the binary heaps of the tree.
//
//   BY_WORTH    nodes that may be evicted now; on top the least recently used of lowest priority
//   IN_DOMAIN   the same of one domain, for its quota
//   BY_END      nodes whose retention has an end; on top the one that ends first
//   BESIDE      other nodes whose chunks beside may be released; on top the least recently used,
//               and of those that were used together the last tokens: prefixes that end early are
//               asked for more often, and what is lost is then one stretch of lengths
//
// A push reserves the room that a heap may need, so adding a node cannot fail.
#include <stdlib.h>
#include <string.h>

#include "rtree_node.h"
#include "vtensor/core/common.h"

static bool goes_first(vti_order order, const vti_node *a, const vti_node *b)
{
    if (order == VTI_BY_END) return a->keep.until_ms < b->keep.until_ms;
    if (order != VTI_BESIDE && a->keep.priority != b->keep.priority)
        return a->keep.priority < b->keep.priority;
    if (order == VTI_BESIDE && a->used == b->used) return a->start > b->start;
    return a->used < b->used;
}

static vti_heap *heap_of(vti_rtree *t, const vti_node *n, vti_order order)
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

static void heap_add(vti_heap *h, vti_order order, vti_node *n)
{
    put_at(h, order, ++h->n, n); // a push has reserved the room
    heap_sift(h, order, h->n);
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

// A victim gives what it holds beside with the rest, so only the others are in the heap BESIDE.
static bool belongs_in_heap(vti_order order, const vti_node *n)
{
    bool is_victim = !vti_node_is_root(n) && !n->child && n->n_guard == 0;
    if (order == VTI_BY_END) return n->keep.until_ms != 0;
    return order == VTI_BESIDE ? n->has_beside && n->n_pin == 0 && !is_victim : is_victim;
}

void vti_worth_settle(vti_rtree *t, vti_node *n)
{
    for (vti_order order = 0; order < VTI_N_ORDER; order++) {
        vti_heap *h = heap_of(t, n, order);
        bool in = n->place[order] != 0, should = belongs_in_heap(order, n);
        if (in && should) heap_sift(h, order, n->place[order]);
        if (in && !should) heap_remove(h, order, n);
        if (!in && should) heap_add(h, order, n);
    }
}

void vti_worth_leave(vti_rtree *t, vti_node *n)
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

vt_status vti_worth_reserve(vti_rtree *t, vt_domain *d, uint64_t more_nodes)
{
    for (vti_order order = 0; order < VTI_IN_DOMAIN; order++)
        VT_TRY(heap_reserve(&t->heap[order], t->n_node + more_nodes));
    return heap_reserve(&d->heap, d->stats.prefix_nodes + more_nodes);
}

const char *vti_worth_wrong(const vti_rtree *t, const vti_node *n)
{
    for (vti_order order = 0; order < VTI_N_ORDER; order++) {
        const vti_heap *h = heap_of((vti_rtree *)t, n, order);
        size_t i = n->place[order];
        if ((i != 0) != belongs_in_heap(order, n)) return "rtree: a node that is not in its heap";
        if (i > h->n || (i != 0 && h->at[i] != n))
            return "rtree: a node at a wrong place of a heap";
    }
    return NULL;
}

const char *vti_heap_wrong(const vti_heap *h, vti_order order)
{
    for (size_t i = 1; i <= h->n; i++)
        if (h->at[i]->place[order] != i || (i > 1 && goes_first(order, h->at[i], h->at[i / 2])))
            return "rtree: a heap out of order";
    return NULL;
}
