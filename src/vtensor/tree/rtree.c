// rtree.c - rTree: lookup and recording. A radix tree on exact tokens: each edge carries a run of
// them, no two edges out of one node begin with the same token, and the node below an edge holds
// the chunks that its run touches.
//
// With two tokens to a chunk, "abcdef" recorded by a sequence whose chunks are in region A is one
// node. Recording "abcx" with chunks in B cuts it after c, inside the chunk at position 1:
//
//   position  0    1    2                       0    1    2
//   N       | ab | cd | ef |          upper   | ab | c  |            new
//             A0   A1   A2                      A0   A1
//                               ->    N            |  d | ef |       the same object as before
//                                                    A1   A2
//                                     leaf         |  x |            new; the rows of c and x
//                                                    B1              are in B1
//
// Both parts hold the chunk at the cut. A node's chunks hold the rows of all tokens of its path
// that lie in them, so the chunk of the deeper node serves the longer path, and a lookup takes it.
// N stays the same object, so references of sequences stay valid.
//
// Push, by where the common part of `tok` and the tree ends:
//
//   (1) at the end of a node, and so does tok       nothing is new
//   (2) inside an edge, and tok ends there          the edge is cut, at the end of the path
//   (3) at the end of a node, tok continues         a leaf for the rest
//   (4) inside an edge, tok continues               the edge is cut, a leaf below the upper part
//
// All memory that a push needs is allocated before anything is linked.
//
// Superseded tails. A conversation that is recorded turn by turn ends inside a chunk each time, and
// that chunk is copied before it grows: in (3) the new leaf's first chunk has the rows of the
// parent's last one, and more.
//
//   parent  | ab | c  |               parent  | ab | c  |
//             A0   A1                           A0   B1
//   leaf         |  d | ef |    ->    leaf         |  d | ef |
//                  B1   B2                           B1   B2
//
// So every node above the leaf that ends inside this chunk takes the leaf's chunk, if no other node
// holds the old one. The tree then no longer holds the old chunk: it is free at once, or when its
// sequences end; a sequence that is its only holder may write in place. If another node holds it
// too (the other side of a cut, another domain), replacing it would free nothing, and pins would
// hold one chunk more.
#include "rtree_node.h"

#include <stdlib.h>
#include <string.h>

#include "vtensor/common/try.h"

// ---- Match

static uint32_t common_length(const uint32_t *a, const uint32_t *b, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

static uint32_t least_of(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

vti_prefix vti_rtree_match(const vt_domain *d, const uint32_t *tok, uint32_t n_tok)
{
    vti_prefix hit = {.node = d->root};
    while (hit.n_tok < n_tok && hit.n_tok == vti_node_end(hit.node)) {
        vti_node *n = vti_node_child(d->tree, hit.node, tok[hit.n_tok]);
        if (!n) break;
        hit.n_tok += common_length(n->tok, tok + hit.n_tok, least_of(n->n_tok, n_tok - hit.n_tok));
        hit.node = n;
    }
    return hit;
}

void vti_rtree_regions(const vti_rtree *t, vti_prefix prefix, uint32_t *at)
{
    uint32_t end = vti_geo_chunks(t->geo, prefix.n_tok); // positions from here on are known
    for (const vti_node *n = prefix.node; !vti_node_is_root(n); n = n->parent) {
        uint32_t first = vti_node_first(t->geo, n);
        for (uint32_t p = first; p < end; p++) at[p] = n->region[p - first];
        end = first;
    }
}

// ---- Push

// The nodes that a push needs.
typedef struct push_nodes {
    vti_node *upper, *leaf; // NULL: not needed
} push_nodes;

static vt_status push_nodes_get(vti_rtree *t, vti_prefix hit, uint32_t n_tok, push_nodes *fresh)
{
    bool cut = hit.n_tok < vti_node_end(hit.node), grow = hit.n_tok < n_tok;
    *fresh = (push_nodes){0};
    VT_TRY(vti_table_reserve(&t->nodes, (size_t)cut + grow));
    VT_TRY(vti_worth_reserve(t, (uint64_t)cut + grow,
                             cut + vti_geo_touched(t->geo, hit.n_tok, n_tok)));
    if (cut) fresh->upper = vti_node_new(t->geo, hit.node->start, hit.n_tok);
    if (grow) fresh->leaf = vti_node_new(t->geo, hit.n_tok, n_tok);
    if (!!fresh->upper == cut && !!fresh->leaf == grow) return VT_OK;
    free(fresh->upper);
    free(fresh->leaf);
    return VT_ENOMEM;
}

// Puts `upper` between n and its parent; it takes as many of n's first tokens as it has room for.
// The push touches it afterwards.
static void cut_edge(vti_rtree *t, vti_node *n, vti_node *upper)
{
    uint32_t n_tok = upper->n_tok, n_position = vti_node_positions(t->geo, upper);
    uint32_t last = vti_node_first(t->geo, upper) + n_position - 1;
    memcpy(upper->tok, n->tok, n_tok * sizeof n->tok[0]);
    memcpy(upper->region, n->region, n_position * sizeof n->region[0]);
    upper->n_guard = n->n_guard > 0;
    upper->born_ms = n->born_ms;
    vti_node_unlink(t, n);
    vti_node_link(t, upper, n->parent);
    n->start += n_tok;
    n->n_tok -= n_tok;
    n->tok += n_tok;
    n->region += vti_node_first(t->geo, n) - vti_node_first(t->geo, upper);
    vti_node_link(t, n, upper);
    if (vti_node_first(t->geo, n) == last)
        vti_node_hold_chunk(t, upper->region[n_position - 1], last);
    t->n_node++;
}

static void attach_leaf(vti_rtree *t, vti_node *leaf, vti_node *parent, const uint32_t *tok,
                        const uint32_t *at)
{
    uint32_t first = vti_node_first(t->geo, leaf), n_position = vti_node_positions(t->geo, leaf);
    leaf->born_ms = t->now_ms;
    memcpy(leaf->tok, tok + leaf->start, leaf->n_tok * sizeof tok[0]);
    for (uint32_t i = 0; i < n_position; i++) {
        leaf->region[i] = at[first + i];
        vti_node_hold_chunk(t, leaf->region[i], first + i);
    }
    vti_node_link(t, leaf, parent);
    vti_worth_settle(t, parent);
    t->n_node++;
    t->n_tok += leaf->n_tok;
}

static bool node_ends_in(const vti_geo *g, const vti_node *n, uint32_t position)
{
    return !vti_node_is_root(n) && vti_geo_chunks(g, vti_node_end(n)) == position + 1;
}

static uint32_t *last_region(const vti_geo *g, const vti_node *n)
{
    return &n->region[vti_node_positions(g, n) - 1];
}

static void replace_chunk(vti_rtree *t, vti_node *n, uint32_t position, uint32_t region)
{
    uint32_t *at = &n->region[position - vti_node_first(t->geo, n)];
    vti_node_hold_chunk(t, region, position);
    vti_node_drop_chunk(t, *at, position);
    *at = region;
}

// Nodes above the leaf release the chunks that its first one supersedes; see the top of the file.
static void supersede_tails(vti_rtree *t, const vti_node *leaf)
{
    uint32_t position = vti_node_first(t->geo, leaf);
    vti_node *n = leaf->parent;
    while (node_ends_in(t->geo, n, position)) {
        uint32_t n_same = 0, old = *last_region(t->geo, n);
        vti_node *above = n;
        for (; node_ends_in(t->geo, above, position) && *last_region(t->geo, above) == old;
             n_same++)
            above = above->parent;
        bool alone = vti_pset_chunk(t->pset, old, position).n_node == n_same;
        for (; n != above; n = n->parent)
            if (alone && old != leaf->region[0]) replace_chunk(t, n, position, leaf->region[0]);
    }
}

vt_status vti_rtree_push(vti_rtree *t, vt_domain *d, const uint32_t *tok, uint32_t n_tok,
                         const uint32_t *at, vti_node **out)
{
    vti_prefix hit = vti_rtree_match(d, tok, n_tok);
    push_nodes fresh;
    VT_TRY(push_nodes_get(t, hit, n_tok, &fresh));
    *out = hit.node;   // (1)
    if (fresh.upper) { // (2) and (4)
        cut_edge(t, hit.node, fresh.upper);
        *out = fresh.upper;
    }
    if (fresh.leaf) { // (3) and (4)
        attach_leaf(t, fresh.leaf, *out, tok, at);
        supersede_tails(t, fresh.leaf);
        *out = fresh.leaf;
    }
    vti_rtree_touch(t, *out);
    return VT_OK;
}

// ---- Chunks that another chunk can replace

// Whether the parent holds, at the position where n begins, another chunk that nothing else holds,
// while a sequence holds n's chunk. Checking the first guarded child is enough.
bool vti_rtree_has_double(const vti_rtree *t, const vti_node *n)
{
    const vti_node *u = n->parent;
    uint32_t position = vti_node_first(t->geo, n), n_same = 0;
    if (n != u->child[VTI_FRONT] || !node_ends_in(t->geo, u, position)) return false;
    uint32_t old = *last_region(t->geo, u);
    for (; node_ends_in(t->geo, u, position) && *last_region(t->geo, u) == old; u = u->parent)
        n_same++;
    vti_chunk c = vti_pset_chunk(t->pset, old, position);
    return old != n->region[0] && c.n_user == 0 && c.n_node == n_same &&
           vti_pset_chunk(t->pset, n->region[0], position).n_user > 0;
}

void vti_rtree_drop_double(vti_rtree *t, const vti_node *n)
{
    supersede_tails(t, n);
}

void vti_rtree_rename(vti_rtree *t, vti_node *n, uint32_t position, uint32_t from, uint32_t to)
{
    for (; n && n->domain; n = n->parent)
        if (vti_node_has_chunk(t, n, position, from)) replace_chunk(t, n, position, to);
}
