// rtree_count.c - how many chunks an eviction would free, and how many pins hold.
//
// A chunk counts once, however many nodes hold it. A chunk that a single node holds is counted at
// once; the names of the others are collected, sorted, and counted without duplicates. A push
// reserves the room for the names, so counting cannot fail.
#include "rtree_node.h"

#include <stdlib.h>

static int compare_names(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// How many different chunks were collected; clears the collection.
static uint64_t count_seen(vti_rtree *t)
{
    uint64_t n = 0;
    if (t->n_seen > 0) qsort(t->seen, t->n_seen, sizeof t->seen[0], compare_names);
    for (size_t i = 0; i < t->n_seen; i++) n += i == 0 || t->seen[i] != t->seen[i - 1];
    t->n_seen = 0;
    return n;
}

// Counts the chunks of a node that no other node holds, and collects the others.
static uint64_t see_chunks(vti_rtree *t, const vti_node *n, bool cached_only)
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
    vti_worth_expire(t, now_ms);
    uint64_t n_kept = 0;
    for (vti_node *n = vti_node_after(t->top, true); n; n = vti_node_after(n, true))
        n_kept += see_chunks(t, n, true);
    n_kept += count_seen(t);
    return t->pset->n_in[VT_CHUNK_CACHED] - n_kept;
}

// ---- Pins

// The same for n and all nodes above it, except those that this round has visited.
static uint64_t see_path(vti_rtree *t, vti_node *n)
{
    uint64_t n_alone = 0;
    for (; n && n->round != t->round; n = n->parent) {
        n->round = t->round;
        n_alone += see_chunks(t, n, false);
    }
    return n_alone;
}

// How many chunks pinned nodes would hold if n were pinned too.
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
    vti_worth_expire(t, now_ms);
    if (vti_node_is_root(n) || !n->domain) return VT_OK;
    bool over = keep->until_ms != 0 && keep->until_ms <= now_ms;
    vt_retention wanted = over ? (vt_retention){0} : *keep;
    if (wanted.pinned && count_pinned(t, n) > max_pinned_chunks) return VT_NOSPACE;
    vti_worth_set(t, n, wanted);
    return VT_OK;
}
