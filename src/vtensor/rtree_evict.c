// rtree_evict.c - rTree: what the nodes are worth, and which goes first.
//
// Who may go is a matter of guards. A sequence that references a node guards it, a pin does, and so
// does a guarded child: what is above a guarded node is guarded.
//
//   root (guarded)
//     a (guarded)
//       c             a victim: a leaf without a guard
//       e pinned
//     b               no victim before d has gone
//       d             a victim
//
// The heap BY_WORTH has the victims: on top the one of the lowest priority, unused for the longest.
//
// A guard goes up only as far as the first node that had one already, so guarding and the end of it
// cost no more than the depth. Guarded children come first in their parents' lists, so that a walk
// over all guarded nodes passes few others.
//
// What vti_rtree_retain asks for is kept with that one node, so that it can be taken back. The
// nodes above are worth no less all the same: they cannot go first, and when a node is evicted its
// parent inherits what it was worth, if that is more and ends no earlier than what the parent was
// given itself. The heap BY_END has all worth that ends some
// time; every function that is told the time first takes what has ended.
//
// A prefix that sequences use is not evicted, for as long as others will do. But a chunk at its end
// may be its path's alone: a copy of a tail that its sequence has gone on from, or what is behind
// the part that was matched. Such chunks go last, one by one (vti_rtree_cut): the prefix gets
// shorter. Before that, a node gives up a chunk for which the one below it, which is in use, has
// another with the same rows: that costs nothing, and comes about when what else was below has gone.
//
// Chunks are counted as often as they exist, though several nodes may hold one: those that one node
// alone holds at once, the others by sorting their names. The room for names is reserved by push,
// so that counting cannot fail.
#include "rtree_node.h"

#include <stdlib.h>
#include <string.h>

// ---- Heaps

static bool goes_first(vti_order order, const vti_node *a, const vti_node *b)
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

static void sift(vti_heap *h, vti_order order, size_t i)
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
    put_at(h, order, ++h->n, n); // push has reserved the place
    sift(h, order, h->n);
}

static void heap_remove(vti_heap *h, vti_order order, vti_node *n)
{
    size_t i = n->place[order];
    vti_node *last = h->at[h->n--];
    n->place[order] = 0;
    if (last == n) return;
    put_at(h, order, i, last);
    sift(h, order, i);
}

static bool belongs(vti_order order, const vti_node *n)
{
    if (order == VTI_BY_END) return n->keep.until_ms != 0;
    return !vti_node_is_root(n) && !n->child[VTI_FRONT] && n->n_guard == 0;
}

void vti_worth_settle(vti_rtree *t, vti_node *n)
{
    for (vti_order order = 0; order < VTI_N_ORDER; order++) {
        vti_heap *h = &t->heap[order];
        bool in = n->place[order] != 0, should = belongs(order, n);
        if (in && should) sift(h, order, n->place[order]);
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

// A bigger array with what the old one had, or NULL.
static void *bigger(void *old, size_t *cap, uint64_t want, size_t elem_bytes)
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
    vti_node **at = bigger(h->at, &h->cap, n + 1, sizeof(vti_node *));
    if (!at) return VT_ENOMEM;
    h->at = at;
    return VT_OK;
}

vt_status vti_worth_reserve(vti_rtree *t, uint64_t more_nodes, uint64_t more_holds)
{
    for (vti_order order = 0; order < VTI_N_ORDER; order++)
        VT_TRY(heap_reserve(&t->heap[order], t->n_node + more_nodes));
    if (t->n_hold + more_holds <= t->cap_seen) return VT_OK;
    uint64_t *seen = bigger(t->seen, &t->cap_seen, t->n_hold + more_holds, sizeof *seen);
    if (!seen) return VT_ENOMEM;
    t->seen = seen;
    return VT_OK;
}

void vti_worth_free(vti_rtree *t)
{
    for (vti_order order = 0; order < VTI_N_ORDER; order++) free(t->heap[order].at);
    free(t->seen);
}

// ---- Guards

// n has become guarded, or is so no longer.
static void turn(vti_rtree *t, vti_node *n)
{
    if (!n->parent) return;
    vti_node_detach(n);
    vti_node_attach(n, n->parent);
    vti_worth_settle(t, n);
}

void vti_guard(vti_rtree *t, vti_node *n)
{
    for (; n && n->n_guard++ == 0; n = n->parent) turn(t, n);
}

void vti_unguard(vti_rtree *t, vti_node *n)
{
    for (; n && --n->n_guard == 0; n = n->parent) turn(t, n);
}

// ---- Worth

static bool is_plain(const vt_retention *keep)
{
    return !keep->pinned && keep->priority == 0;
}

static void set_keep(vti_rtree *t, vti_node *n, vt_retention keep)
{
    bool was_pinned = n->keep.pinned;
    n->keep = is_plain(&keep) ? (vt_retention){0} : keep;
    if (n->keep.pinned && !was_pinned) vti_guard(t, n);
    if (!n->keep.pinned && was_pinned) vti_unguard(t, n);
    vti_worth_settle(t, n);
}

static void end_worth(vti_rtree *t, uint64_t now_ms)
{
    vti_heap *h = &t->heap[VTI_BY_END];
    while (h->n > 0 && h->at[1]->keep.until_ms <= now_ms) set_keep(t, h->at[1], (vt_retention){0});
}

static bool ends_before(const vt_retention *a, const vt_retention *b)
{
    return a->until_ms - 1 < b->until_ms - 1; // 0, never, is the latest
}

static bool is_worth_more(const vt_retention *a, const vt_retention *b)
{
    if (a->pinned != b->pinned) return a->pinned;
    if (a->priority != b->priority) return a->priority > b->priority;
    return ends_before(b, a);
}

// What the heir was given itself is not lost for what ends earlier.
void vti_worth_inherit(vti_rtree *t, vti_node *heir, const vt_retention *keep)
{
    if (vti_node_is_root(heir) || !is_worth_more(keep, &heir->keep)) return;
    if (is_plain(&heir->keep) || !ends_before(keep, &heir->keep)) set_keep(t, heir, *keep);
}

void vti_rtree_touch(vti_rtree *t, vti_node *n)
{
    if (!n->domain) return;
    vti_node *end = n;
    t->clock++;
    for (; n; n = n->parent) n->used = t->clock;
    vti_worth_settle(t, end); // those above have children and are in no order of use
}

vti_node *vti_rtree_victim(vti_rtree *t, uint64_t now_ms)
{
    end_worth(t, now_ms);
    const vti_heap *h = &t->heap[VTI_BY_WORTH];
    return h->n > 0 ? h->at[1] : NULL;
}

// ---- Counting chunks

static int compare_names(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// How many different names have been seen; forgets them.
static uint64_t count_seen(vti_rtree *t)
{
    uint64_t n = 0;
    if (t->n_seen > 0) qsort(t->seen, t->n_seen, sizeof t->seen[0], compare_names);
    for (size_t i = 0; i < t->n_seen; i++) n += i == 0 || t->seen[i] != t->seen[i - 1];
    t->n_seen = 0;
    return n;
}

// The chunks of a node that nobody else in the tree holds. The others are put among those seen.
static uint64_t see(vti_rtree *t, const vti_node *n, bool cached_only)
{
    uint64_t n_alone = 0;
    uint32_t first = vti_node_first(t->geo, n), n_position = vti_node_positions(t->geo, n);
    for (uint32_t i = 0; i < n_position; i++) {
        vti_chunk c = vti_pset_chunk(t->pset, n->region[i], first + i);
        if (cached_only && c.n_user > 0) continue;
        if (c.n_node == 1)
            n_alone++;
        else
            t->seen[t->n_seen++] = vti_pset_index(t->pset, n->region[i], first + i);
    }
    return n_alone;
}

uint64_t vti_rtree_evictable(vti_rtree *t, uint64_t now_ms)
{
    end_worth(t, now_ms);
    uint64_t n_kept = 0;
    for (vti_node *n = vti_node_after(t->top, true); n; n = vti_node_after(n, true))
        n_kept += see(t, n, true);
    n_kept += count_seen(t);
    return t->pset->n_in[VT_CHUNK_CACHED] - n_kept;
}

// ---- Prefixes in use

// A leaf that nothing but sequences keeps.
static bool is_used_leaf(const vti_node *n)
{
    return n->n_ref > 0 && !vti_node_is_root(n) && n->domain && !n->child[VTI_FRONT] &&
           !n->keep.pinned;
}

static vti_chunk chunk_at(const vti_rtree *t, const vti_node *n, uint32_t i)
{
    return vti_pset_chunk(t->pset, n->region[i], vti_node_first(t->geo, n) + i);
}

// Whether the n_above nodes above n go with it: nothing keeps them but n.
static bool go_along(const vti_node *n, uint32_t n_above)
{
    for (n = n->parent; n_above > 0; n_above--, n = n->parent)
        if (n->keep.pinned || n->child[VTI_FRONT] != n->child[VTI_BACK]) return false;
    return true;
}

// Whether no sequence holds the chunk at this place of a leaf, and no node that would stay: those
// above name none but its first.
static bool is_paths_alone(const vti_rtree *t, const vti_node *n, uint32_t i)
{
    vti_chunk c = chunk_at(t, n, i);
    uint32_t position = vti_node_first(t->geo, n) + i;
    if (c.n_user > 0 || vti_rtree_names(t, n, position, n->region[i]) != c.n_node) return false;
    return go_along(n, c.n_node - 1);
}

// Chunks at its end that are its path's alone.
static uint64_t n_to_cut(const vti_rtree *t, const vti_node *n)
{
    uint32_t n_position = vti_node_positions(t->geo, n), n_kept = n_position;
    if (!is_used_leaf(n) || n == t->whole) return 0;
    while (n_kept > 0 && is_paths_alone(t, n, n_kept - 1)) n_kept--;
    return n_position - n_kept;
}

// While a prefix is kept whole its chunks stay where they are.
static bool has_double(const vti_rtree *t, const vti_node *n)
{
    return !t->whole && !vti_node_is_root(n) && vti_rtree_has_double(t, n);
}

static bool drop_a_double(vti_rtree *t)
{
    vti_node *n = vti_node_after(t->top, true);
    while (n && !has_double(t, n)) n = vti_node_after(n, true);
    if (n) vti_rtree_drop_double(t, n);
    return n != NULL;
}

bool vti_rtree_cut(vti_rtree *t, uint64_t now_ms)
{
    vti_node *least = NULL;
    end_worth(t, now_ms);
    if (drop_a_double(t)) return true;
    for (vti_node *n = vti_node_after(t->top, true); n; n = vti_node_after(n, true))
        if (n_to_cut(t, n) > 0 && (!least || goes_first(VTI_BY_WORTH, n, least))) least = n;
    if (least) vti_rtree_shorten(t, least);
    return least != NULL;
}

// The node and those above it that end in the same position, as far as nothing else keeps them.
bool vti_rtree_give_up(vti_rtree *t, vti_node *n, uint32_t position)
{
    if (!n || !n->domain || vti_node_is_root(n)) return false;
    uint32_t last = vti_node_positions(t->geo, n) - 1, region = n->region[last];
    if (vti_node_first(t->geo, n) + last != position) return false;
    for (bool is_first = false; !is_first && !n->child[VTI_FRONT] && !n->keep.pinned;) {
        vti_node *above = n->parent;
        is_first = vti_node_is_root(above);
        vti_rtree_shorten(t, n);
        if (is_first || vti_rtree_names(t, above, position, region) == 0) break;
        n = above;
    }
    return vti_pset_chunk(t->pset, region, position).n_node == 0;
}

void vti_rtree_keep_whole(vti_rtree *t, const vti_node *n)
{
    t->whole = n;
}

uint64_t vti_rtree_cuttable(vti_rtree *t, uint64_t now_ms)
{
    uint64_t n_cut = 0;
    end_worth(t, now_ms);
    for (vti_node *n = vti_node_after(t->top, true); n; n = vti_node_after(n, true))
        n_cut += n_to_cut(t, n) + has_double(t, n);
    return n_cut;
}

// The chunks of n and what is above it, but for nodes that this round has passed already.
static uint64_t see_path(vti_rtree *t, vti_node *n)
{
    uint64_t n_alone = 0;
    for (; n && n->round != t->round; n = n->parent) {
        n->round = t->round;
        n_alone += see(t, n, false);
    }
    return n_alone;
}

// How many chunks pins would hold if n were pinned too.
static uint64_t count_pinned(vti_rtree *t, vti_node *n)
{
    t->round++;
    uint64_t n_alone = see_path(t, n);
    for (vti_node *g = vti_node_after(t->top, true); g; g = vti_node_after(g, true))
        if (g->keep.pinned) n_alone += see_path(t, g);
    return n_alone + count_seen(t);
}

vt_status vti_rtree_retain(vti_rtree *t, vti_node *n, const vt_retention *keep,
                           uint64_t max_pinned_chunks, uint64_t now_ms)
{
    end_worth(t, now_ms);
    if (vti_node_is_root(n) || !n->domain) return VT_OK;
    bool over = keep->until_ms != 0 && keep->until_ms <= now_ms;
    vt_retention wish = over ? (vt_retention){0} : *keep;
    if (wish.pinned && count_pinned(t, n) > max_pinned_chunks) return VT_NOSPACE;
    set_keep(t, n, wish);
    return VT_OK;
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
            if ((n->place[order] != 0) != belongs(order, n))
                return "rtree: a node that is not in its heap";
            n_member += n->place[order] != 0;
        }
        if (n_member != h->n) return "rtree: a heap with too many nodes";
        for (size_t i = 1; i <= h->n; i++)
            if (h->at[i]->place[order] != i || (i > 1 && goes_first(order, h->at[i], h->at[i / 2])))
                return "rtree: a heap out of order";
    }
    return NULL;
}
