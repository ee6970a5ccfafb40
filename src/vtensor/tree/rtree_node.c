// rtree_node.c - the nodes of the tree as data: the chunks that they hold, and the list that they
// are in. It knows nothing of what a node is worth.
#include "rtree_node.h"

#include <stdlib.h>

// How many positions of a lane a block that begins at `start` may touch.
static uint32_t room_of(const vti_geo *g, const vti_lane_geo *gr, uint32_t start)
{
    if (gr->is_state) return gr->n_position;
    uint32_t left = g->max_tok - start, n_tok = left < g->block_tok ? left : g->block_tok;
    return vti_group_chunks(gr, start + n_tok) - vti_group_whole(gr, start);
}

vti_node *vti_node_new(const vti_rtree *t, uint32_t start)
{
    const vti_geo *g = t->geo;
    size_t n_room = g->block_tok;
    for (uint32_t i = 0; i < g->n_group; i++) n_room += room_of(g, &g->group[i], start);
    vti_node *n = calloc(1, sizeof *n + n_room * sizeof n->room[0]);
    if (!n) return NULL;
    n->start = start;
    for (size_t i = g->block_tok; i < n_room; i++) n->room[i] = VTI_NO_CHUNK;
    return n;
}

vti_holding vti_node_holding(const vti_rtree *t, const vti_node *n, uint32_t group)
{
    const vti_geo *g = t->geo;
    const vti_lane_geo *gr = &g->group[group];
    size_t at = g->block_tok;
    for (uint32_t i = 0; i < group; i++) at += room_of(g, &g->group[i], n->start);
    uint32_t first = vti_group_whole(gr, n->start);
    return (vti_holding){
        .chunk = (uint32_t *)n->room + at,
        .first = first,
        .n = vti_node_is_root(n) ? 0 : vti_group_chunks(gr, vti_node_end(n)) - first,
        .is_beside = gr->is_state || gr->window_tok > 0,
    };
}

uint64_t vti_node_bytes(const vti_rtree *t, const vti_node *n)
{
    uint64_t bytes = 0;
    for (uint32_t g = 0; g < t->geo->n_group; g++) {
        vti_holding h = vti_node_holding(t, n, g);
        for (uint32_t i = 0; i < h.n; i++)
            if (h.chunk[i] != VTI_NO_CHUNK) bytes += t->geo->group[g].chunk_bytes;
    }
    return bytes;
}

static size_t bytes_of(const vti_rtree *t, uint32_t chunk)
{
    return t->pset->cls[vti_pset_class(t->pset, chunk)].chunk_bytes;
}

static bool node_is_kept(const vti_node *n, bool is_beside)
{
    return is_beside ? n->n_pin > 0 : n->n_guard > 0;
}

void vti_node_set_chunk(vti_rtree *t, vti_node *n, const vti_holding *h, uint32_t i, uint32_t chunk)
{
    uint32_t old = h->chunk[i];
    bool kept = node_is_kept(n, h->is_beside);
    if (chunk != VTI_NO_CHUNK) {
        vti_pset_node_hold(t->pset, chunk, kept);
        n->domain->held_bytes += bytes_of(t, chunk);
        if (n->n_pin > 0) t->pinned_bytes += bytes_of(t, chunk);
    }
    h->chunk[i] = chunk;
    if (old == VTI_NO_CHUNK) return;
    vti_pset_node_drop(t->pset, old, kept);
    n->domain->held_bytes -= bytes_of(t, old);
    if (n->n_pin > 0) t->pinned_bytes -= bytes_of(t, old);
}

// From the last position down, so that the pool hands them out in ascending order.
void vti_node_drop_all(vti_rtree *t, vti_node *n, bool beside_only)
{
    for (uint32_t g = t->geo->n_group; g-- > 0;) {
        vti_holding h = vti_node_holding(t, n, g);
        for (uint32_t i = h.n; i-- > 0 && (h.is_beside || !beside_only);)
            if (h.chunk[i] != VTI_NO_CHUNK) vti_node_set_chunk(t, n, &h, i, VTI_NO_CHUNK);
    }
}

void vti_node_keep_all(vti_rtree *t, vti_node *n, bool beside, bool kept)
{
    for (uint32_t g = 0; g < t->geo->n_group; g++) {
        vti_holding h = vti_node_holding(t, n, g);
        for (uint32_t i = 0; i < h.n && h.is_beside == beside; i++)
            if (h.chunk[i] != VTI_NO_CHUNK) vti_pset_node_keep(t->pset, h.chunk[i], kept);
    }
}

bool vti_node_holds_beside(const vti_rtree *t, const vti_node *n)
{
    for (uint32_t g = 0; g < t->geo->n_group; g++) {
        vti_holding h = vti_node_holding(t, n, g);
        for (uint32_t i = 0; i < h.n && h.is_beside; i++)
            if (h.chunk[i] != VTI_NO_CHUNK) return true;
    }
    return false;
}

// Of a window the chunks from the first that a token after the node needs, of a state all.
uint32_t vti_node_lacks(const vti_rtree *t, const vti_node *n)
{
    uint32_t lacks = 0;
    for (uint32_t g = 0; g < t->geo->n_group; g++) {
        vti_holding h = vti_node_holding(t, n, g);
        uint32_t front = vti_group_passed(&t->geo->group[g], vti_node_end(n));
        for (uint32_t i = front > h.first ? front - h.first : 0; i < h.n && h.is_beside; i++)
            if (h.chunk[i] == VTI_NO_CHUNK) lacks |= UINT32_C(1) << g;
    }
    return lacks;
}

// ---- The list of a domain

void vti_list_append(vti_node_list *l, vti_node *n)
{
    n->newer = NULL;
    n->older = l->newest;
    *(l->newest ? &l->newest->newer : &l->oldest) = n;
    l->newest = n;
}

void vti_list_remove(vti_node_list *l, vti_node *n)
{
    *(n->newer ? &n->newer->older : &l->newest) = n->older;
    *(n->older ? &n->older->newer : &l->oldest) = n->newer;
    n->newer = n->older = NULL;
}
