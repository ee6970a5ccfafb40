// rtree_node.c - the nodes of the tree as linked data: lists of children, the table that finds a
// child, and the references to chunks. It knows nothing of what a node is worth.
#include "rtree_node.h"

#include <stdlib.h>

// Guarded children come first, so that a search for guarded nodes need not visit the others.
void vti_node_attach(vti_node *n, vti_node *parent)
{
    int end = n->n_guard > 0 ? VTI_FRONT : VTI_BACK;
    vti_node *was = parent->child[end];
    n->parent = parent;
    n->sibling[end] = NULL;
    n->sibling[!end] = was;
    *(was ? &was->sibling[end] : &parent->child[!end]) = n;
    parent->child[end] = n;
}

void vti_node_detach(vti_node *n)
{
    for (int end = VTI_FRONT; end <= VTI_BACK; end++) {
        vti_node *b = n->sibling[end];
        *(b ? &b->sibling[!end] : &n->parent->child[end]) = n->sibling[!end];
    }
}

vti_node *vti_node_after(vti_node *n, bool guarded)
{
    vti_node *next = n->child[VTI_FRONT];
    while (!next || (guarded && next->n_guard == 0)) {
        if (!n->parent) return NULL;
        next = n->sibling[VTI_BACK];
        n = n->parent;
    }
    return next;
}

vti_node *vti_node_child(const vti_rtree *t, const vti_node *n, uint32_t tok)
{
    uint64_t hash = vti_hash_child(n, tok);
    for (vti_link *l = vti_table_chain(&t->nodes, hash); l; l = l->chain) {
        vti_node *child = (vti_node *)l;
        if (child->parent == n && child->tok[0] == tok) return child;
    }
    return NULL;
}

void vti_node_link(vti_rtree *t, vti_node *n, vti_node *parent)
{
    n->domain = parent->domain;
    vti_node_attach(n, parent);
    vti_table_put(&t->nodes, &n->link, vti_hash_child(parent, n->tok[0]));
}

void vti_node_unlink(vti_rtree *t, vti_node *n)
{
    vti_table_take(&t->nodes, &n->link);
    vti_node_detach(n);
}

// A node for tokens [start, end) whose tokens and regions are still to be filled in.
vti_node *vti_node_new(const vti_geo *g, uint32_t start, uint32_t end)
{
    size_t n_tok = end - start;
    vti_node *n =
        calloc(1, sizeof *n + (n_tok + vti_geo_touched(g, start, end)) * sizeof n->room[0]);
    if (!n) return NULL;
    n->start = start;
    n->n_tok = end - start;
    n->tok = n->room;
    n->region = n->room + n_tok;
    return n;
}

void vti_node_hold_chunk(vti_rtree *t, uint32_t region, uint32_t position)
{
    vti_pset_node_hold(t->pset, region, position);
    t->n_hold++;
}

void vti_node_drop_chunk(vti_rtree *t, uint32_t region, uint32_t position)
{
    vti_pset_node_drop(t->pset, region, position);
    t->n_hold--;
}

bool vti_node_has_chunk(const vti_rtree *t, const vti_node *n, uint32_t position, uint32_t region)
{
    uint32_t first = vti_node_first(t->geo, n);
    return !vti_node_is_root(n) && position >= first &&
           position - first < vti_node_positions(t->geo, n) &&
           n->region[position - first] == region;
}

uint32_t vti_rtree_names(const vti_rtree *t, const vti_node *n, uint32_t position, uint32_t region)
{
    uint32_t n_named = 0;
    for (; n && n->domain; n = n->parent) n_named += vti_node_has_chunk(t, n, position, region);
    return n_named;
}
