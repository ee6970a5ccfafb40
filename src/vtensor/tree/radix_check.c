// radix_check.c - proves the invariants of radix_node.h. Each function returns the first broken one
// as text, or NULL.
#include "radix_node.h"

typedef struct tree_census {
    uint64_t n_node, n_tok, n_domain, pinned_bytes, held_bytes;
    size_t n_place[VTI_N_ORDER];
} tree_census;

static const char *node_wrong(const vti_radix *t, const vti_node *n)
{
    const vti_node *up = n->parent;
    if (n->n_tok == 0 || n->n_tok > t->geo->block_tok) return "radix tree: a node of a wrong size";
    if (!up || n->domain != up->domain) return "radix tree: a node of another domain";
    if (n->start != vti_node_end(up)) return "radix tree: a gap between node and parent";
    if (n->child && n->n_tok < t->geo->block_tok)
        return "radix tree: a part of a block has children";
    if (vti_child_find(up, n->room, n->n_tok) != n) return "radix tree: a node that is not found";
    if (n->has_windows != vti_node_holds_windows(t, n))
        return "radix tree: a node that does not say what it holds";
    if (n->id > t->n_id || (n->older ? n->older->id >= n->id : n->domain->nodes.oldest != n))
        return "radix tree: a list of nodes out of order";
    if (n->used > t->clock) return "radix tree: a node that was used later than now";
    const char *wrong = vti_children_wrong(n, t->geo->has_state);
    return wrong ? wrong : vti_priority_wrong(t, n);
}

static void count_node(const vti_radix *t, const vti_node *n, tree_census *c,
                       void (*fn)(void *ctx, uint32_t chunk, bool is_kept), void *ctx)
{
    for (uint32_t g = 0; g < t->geo->n_group; g++) {
        vti_holding h = vti_node_holding(t, n, g);
        for (uint32_t i = 0; i < h.n; i++)
            if (fn && h.chunk[i] != VTI_NO_CHUNK)
                fn(ctx, h.chunk[i], h.is_window ? n->n_pin > 0 : n->n_guard > 0);
    }
    c->held_bytes += vti_node_bytes(t, n);
    if (n->n_pin > 0) c->pinned_bytes += vti_node_bytes(t, n);
    for (vti_order o = 0; o < VTI_N_ORDER; o++) c->n_place[o] += n->place[o] != 0;
    c->n_node++;
    c->n_tok += n->n_tok;
}

static const char *domain_wrong(const vt_domain *d, tree_census *c,
                                void (*fn)(void *ctx, uint32_t chunk, bool is_kept), void *ctx)
{
    const vti_radix *t = d->tree;
    uint64_t n_node = c->n_node, n_tok = c->n_tok, held = c->held_bytes;
    size_t n_place = c->n_place[VTI_IN_DOMAIN];
    if (d->root->n_tok != 0 || d->root->domain != d) return "radix tree: a root that is not valid";
    const vt_domain *at = t->bucket[d->hash & t->bucket_mask];
    while (at && at != d) at = at->chain;
    if (t->n_domain_id < d->id || !at) return "radix tree: a domain that is not found";
    if (d->n_open == 0 && d->root->n_ref == 0 && !d->root->child)
        return "radix tree: an empty domain that is not open";
    const char *wrong = vti_children_wrong(d->root, t->geo->has_state);
    for (const vti_node *n = d->nodes.oldest; n && !wrong; n = n->newer) {
        wrong = node_wrong(t, n);
        if (!wrong) count_node(t, n, c, fn, ctx);
    }
    if (wrong) return wrong;
    if (c->n_node - n_node != d->stats.prefix_nodes || c->n_tok - n_tok != d->stats.prefix_tok ||
        c->held_bytes - held != d->held_bytes)
        return "radix tree: a wrong sum over the nodes of a domain";
    if (c->n_place[VTI_IN_DOMAIN] - n_place != d->heap.n)
        return "radix tree: a heap with too many nodes";
    c->n_domain++;
    return vti_heap_wrong(&d->heap, VTI_IN_DOMAIN);
}

static const char *sums_wrong(const vti_radix *t, const tree_census *c)
{
    if (c->n_node != t->n_node || c->n_tok != t->n_tok || c->n_domain != t->n_domain)
        return "radix tree: a wrong sum over the nodes";
    if (c->pinned_bytes != t->pinned_bytes) return "radix tree: a wrong sum of pinned bytes";
    for (vti_order o = VTI_BY_PRIORITY; o < VTI_IN_DOMAIN; o++) {
        if (t->heap[o].n != c->n_place[o]) return "radix tree: a heap with too many nodes";
        const char *wrong = vti_heap_wrong(&t->heap[o], o);
        if (wrong) return wrong;
    }
    return NULL;
}

const char *vti_radix_check(const vti_radix *t, void (*fn)(void *ctx, uint32_t chunk, bool is_kept),
                            void *ctx)
{
    tree_census c = {0};
    const char *wrong = NULL;
    for (const vt_domain *d = t->oldest; d && !wrong; d = d->newer)
        wrong = domain_wrong(d, &c, fn, ctx);
    return wrong ? wrong : sums_wrong(t, &c);
}
