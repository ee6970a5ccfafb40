// rtree_heap.c - the two binary heaps of the tree.
//
//   BY_WORTH   nodes that may be evicted now; on top the least recently used of the lowest priority
//   BY_END     nodes whose retention has an end; on top the one that ends first
//
// A push reserves the room that a heap may need, so adding a node cannot fail. The same call
// reserves the room in which rtree_count.c counts chunks.
#include "rtree_node.h"

#include <stdlib.h>
#include <string.h>

#include "vtensor/common/try.h"

bool vti_worth_goes_first(vti_order order, const vti_node *a, const vti_node *b)
{
    if (order == VTI_BY_END) return a->keep.until_ms < b->keep.until_ms;
    if (a->keep.priority != b->keep.priority) return a->keep.priority < b->keep.priority;
    return a->used < b->used;
}

static void put_at(vti_heap *h, vti_order order, size_t i, vti_node *n)
{
    h->at[i] = n;
    n->place[order] = i;
}

static void heap_sift(vti_heap *h, vti_order order, size_t i)
{
    vti_node *n = h->at[i];
    for (; i > 1 && vti_worth_goes_first(order, n, h->at[i / 2]); i /= 2)
        put_at(h, order, i, h->at[i / 2]);
    for (size_t next; (next = 2 * i) <= h->n; i = next) {
        if (next < h->n && vti_worth_goes_first(order, h->at[next + 1], h->at[next])) next++;
        if (!vti_worth_goes_first(order, h->at[next], n)) break;
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

static bool belongs_in_heap(vti_order order, const vti_node *n)
{
    if (order == VTI_BY_END) return n->keep.until_ms != 0;
    return !vti_node_is_root(n) && !n->child[VTI_FRONT] && n->n_guard == 0;
}

void vti_worth_settle(vti_rtree *t, vti_node *n)
{
    for (vti_order order = 0; order < VTI_N_ORDER; order++) {
        vti_heap *h = &t->heap[order];
        bool in = n->place[order] != 0, should = belongs_in_heap(order, n);
        if (in && should) heap_sift(h, order, n->place[order]);
        if (in && !should) heap_remove(h, order, n);
        if (!in && should) heap_add(h, order, n);
    }
}

void vti_worth_leave(vti_rtree *t, vti_node *n)
{
    for (vti_order order = 0; order < VTI_N_ORDER; order++)
        if (n->place[order] != 0) heap_remove(&t->heap[order], order, n);
}

// ---- Room

// A larger array with the contents of the old one, or NULL.
static void *resize_array(void *old, size_t *cap, uint64_t want, size_t elem_bytes)
{
    size_t more = want > 2 * *cap ? want : 2 * *cap;
    void *new = calloc(more, elem_bytes);
    if (!new) return NULL;
    if (old) memcpy(new, old, *cap * elem_bytes);
    free(old);
    *cap = more;
    return new;
}

static vt_status heap_reserve(vti_heap *h, uint64_t n)
{
    if (n < h->cap) return VT_OK; // at[0] is not used
    vti_node **at = resize_array(h->at, &h->cap, n + 1, sizeof(vti_node *));
    if (!at) return VT_ENOMEM;
    h->at = at;
    return VT_OK;
}

vt_status vti_worth_reserve(vti_rtree *t, uint64_t more_nodes, uint64_t more_holds)
{
    for (vti_order order = 0; order < VTI_N_ORDER; order++)
        VT_TRY(heap_reserve(&t->heap[order], t->n_node + more_nodes));
    if (t->n_hold + more_holds <= t->cap_seen) return VT_OK;
    uint64_t *seen = resize_array(t->seen, &t->cap_seen, t->n_hold + more_holds, sizeof *seen);
    if (!seen) return VT_ENOMEM;
    t->seen = seen;
    return VT_OK;
}

void vti_worth_free(vti_rtree *t)
{
    for (vti_order order = 0; order < VTI_N_ORDER; order++) free(t->heap[order].at);
    free(t->seen);
}

// ---- Check

const char *vti_worth_check(const vti_rtree *t)
{
    if (t->n_hold > t->cap_seen) return "rtree: no room to count chunks";
    for (vti_order order = 0; order < VTI_N_ORDER; order++) {
        const vti_heap *h = &t->heap[order];
        size_t n_member = 0;
        if (t->n_node > 0 && t->n_node >= h->cap) return "rtree: a heap without room";
        for (vti_node *n = vti_node_after(t->top, false); n; n = vti_node_after(n, false)) {
            if ((n->place[order] != 0) != belongs_in_heap(order, n))
                return "rtree: a node that is not in its heap";
            n_member += n->place[order] != 0;
        }
        if (n_member != h->n) return "rtree: a heap with too many nodes";
        for (size_t i = 1; i <= h->n; i++)
            if (h->at[i]->place[order] != i ||
                (i > 1 && vti_worth_goes_first(order, h->at[i], h->at[i / 2])))
                return "rtree: a heap out of order";
    }
    return NULL;
}
