// rtree_cut.c - shortening prefixes that are in use, when no prefix is left that may be evicted.
//
// A prefix that sequences use is not evicted. But its path may be the only holder of the chunk at
// its end: a copy of a tail whose sequence continued elsewhere, or what lies beyond the part that
// was matched. Such chunks are taken last, one by one: the prefix gets shorter. Before that, a node
// releases a chunk if the child in use below it holds another one with the same rows. This loses
// nothing; it becomes possible when the other nodes below are gone.
#include "rtree_node.h"

// A leaf that only sequences keep.
static bool is_used_leaf(const vti_node *n)
{
    return n->n_ref > 0 && !vti_node_is_root(n) && n->domain && !n->child[VTI_FRONT] &&
           !n->keep.pinned;
}

static vti_chunk chunk_at(const vti_rtree *t, const vti_node *n, uint32_t i)
{
    return vti_pset_chunk(t->pset, n->region[i], vti_node_first(t->geo, n) + i);
}

// Whether the n_above nodes above n could be removed with it: only n keeps them.
static bool all_go_along(const vti_node *n, uint32_t n_above)
{
    for (n = n->parent; n_above > 0; n_above--, n = n->parent)
        if (n->keep.pinned || n->child[VTI_FRONT] != n->child[VTI_BACK]) return false;
    return true;
}

// Whether no sequence holds the chunk at this place of a leaf, and no node that would stay. (Nodes
// above can hold only the leaf's first chunk.)
static bool is_paths_alone(const vti_rtree *t, const vti_node *n, uint32_t i)
{
    vti_chunk c = chunk_at(t, n, i);
    uint32_t position = vti_node_first(t->geo, n) + i;
    if (c.n_user > 0 || vti_rtree_names(t, n, position, n->region[i]) != c.n_node) return false;
    return all_go_along(n, c.n_node - 1);
}

// How many chunks at the end of a leaf in use only its path holds.
static uint64_t n_to_cut(const vti_rtree *t, const vti_node *n)
{
    uint32_t n_position = vti_node_positions(t->geo, n), n_kept = n_position;
    if (!is_used_leaf(n) || n == t->whole) return 0;
    while (n_kept > 0 && is_paths_alone(t, n, n_kept - 1)) n_kept--;
    return n_position - n_kept;
}

// While a prefix is kept whole, no chunk of a path is replaced.
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
    vti_worth_expire(t, now_ms);
    if (drop_a_double(t)) return true;
    for (vti_node *n = vti_node_after(t->top, true); n; n = vti_node_after(n, true))
        if (n_to_cut(t, n) > 0 && (!least || vti_worth_goes_first(VTI_BY_WORTH, n, least)))
            least = n;
    if (least) vti_rtree_shorten(t, least);
    return least != NULL;
}

// Shortens the node and those above it that end in the same position, while nothing else keeps
// them.
bool vti_rtree_cut_tail(vti_rtree *t, vti_node *n, uint32_t position)
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
    vti_worth_expire(t, now_ms);
    for (vti_node *n = vti_node_after(t->top, true); n; n = vti_node_after(n, true))
        n_cut += n_to_cut(t, n) + has_double(t, n);
    return n_cut;
}
