// rtree_check.c - proves the invariants of rtree_node.h. Each function returns the first broken one
// as text, or NULL.
#include "rtree_node.h"

static const char *children_wrong(const vti_node *n)
{
    uint32_t n_guard = !vti_node_is_root(n) && n->keep.pinned;
    const vti_node *before = NULL;
    n_guard += n->n_ref > 0;
    for (const vti_node *c = n->child[VTI_FRONT]; c; before = c, c = c->sibling[VTI_BACK]) {
        if (c->parent != n || c->sibling[VTI_FRONT] != before) return "rtree: a broken link";
        if (c->n_guard > 0 && before && before->n_guard == 0)
            return "rtree: a guarded child after an unguarded one";
        if (c->used > n->used) return "rtree: a node was used after its parent";
        n_guard += c->n_guard > 0;
    }
    if (n->child[VTI_BACK] != before) return "rtree: a broken list of children";
    return n->n_guard == n_guard ? NULL : "rtree: a wrong count of guards";
}

static const char *root_wrong(const vti_rtree *t, const vti_node *n)
{
    const vt_domain *d = n->domain;
    if (n->n_tok != 0 || n->start != 0 || !d || d->root != n || d->tree != t)
        return "rtree: a root that is not valid";
    if (vti_domain_find(t, d->key, d->key_bytes, vti_hash_key(d->key, d->key_bytes)) != d)
        return "rtree: a domain that is not found";
    bool empty = d->n_open == 0 && n->n_ref == 0 && !n->child[VTI_FRONT];
    return empty ? "rtree: an empty domain that is not open" : NULL;
}

static const char *node_wrong(const vti_rtree *t, const vti_node *n)
{
    if (n->parent == t->top) return root_wrong(t, n);
    if (n->n_tok == 0) return "rtree: an empty node";
    if (n->start != vti_node_end(n->parent)) return "rtree: a gap between node and parent";
    if (n->domain != n->parent->domain) return "rtree: a node of another domain";
    // If two siblings begin alike, this finds the other one.
    if (vti_node_child(t, n->parent, n->tok[0]) != n) return "rtree: a node that is not found";
    return NULL;
}

static const char *limbo_wrong(const vti_rtree *t)
{
    for (const vti_node *n = t->limbo->child[VTI_FRONT]; n; n = n->sibling[VTI_BACK])
        if (n->domain || n->n_ref == 0 || n->child[VTI_FRONT] || n->parent != t->limbo)
            return "rtree: a forgotten node that is not valid";
    return NULL;
}

typedef struct tree_census {
    uint64_t n_node, n_tok, n_hold, n_domain;
} tree_census;

static void count_node(const vti_rtree *t, const vti_node *n, tree_census *c,
                       void (*fn)(void *ctx, uint32_t region, uint32_t position), void *ctx)
{
    uint32_t first = vti_node_first(t->geo, n), n_position = vti_node_positions(t->geo, n);
    for (uint32_t i = 0; i < n_position; i++)
        if (fn) fn(ctx, n->region[i], first + i);
    c->n_domain += vti_node_is_root(n);
    c->n_node += !vti_node_is_root(n);
    c->n_tok += n->n_tok;
    c->n_hold += n_position;
}

const char *vti_rtree_check(const vti_rtree *t,
                            void (*fn)(void *ctx, uint32_t region, uint32_t position), void *ctx)
{
    tree_census c = {0};
    const char *wrong = children_wrong(t->top);
    for (vti_node *n = vti_node_after(t->top, false); n && !wrong; n = vti_node_after(n, false)) {
        wrong = node_wrong(t, n);
        if (!wrong) wrong = children_wrong(n);
        if (!wrong) count_node(t, n, &c, fn, ctx);
    }
    if (!wrong && (c.n_node != t->n_node || c.n_tok != t->n_tok || c.n_hold != t->n_hold ||
                   c.n_node != t->nodes.n || c.n_domain != t->domains.n))
        wrong = "rtree: a wrong sum over the nodes";
    if (!wrong && (t->nodes.n > t->nodes.cap || t->domains.n > t->domains.cap))
        wrong = "rtree: a table that is too full";
    if (!wrong) wrong = limbo_wrong(t);
    return wrong ? wrong : vti_worth_check(t);
}
