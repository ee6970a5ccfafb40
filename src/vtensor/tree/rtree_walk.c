// rtree_walk.c - what others may see of the tree: its domains, its nodes, and their figures.
#include "rtree_node.h"

void vti_domain_set_quota(vt_domain *d, uint64_t quota_bytes)
{
    d->quota_bytes = quota_bytes;
    d->n_open++; // evicting the last node does not free the domain
    while (d->held_bytes > d->quota_bytes && vti_rtree_evict_in(d)) {
    }
    d->n_open--;
}

vt_domain_stats vti_domain_stats_of(const vt_domain *d)
{
    vt_domain_stats s = d->stats;
    s.quota_bytes = d->quota_bytes;
    s.held_bytes = d->held_bytes;
    return s;
}

uint64_t vti_domain_id_of(const vt_domain *d)
{
    return d->id;
}

void vti_domain_walk(const vti_rtree *t,
                     bool (*fn)(void *ud, vt_domain *d, const void *key, size_t key_bytes),
                     void *ud)
{
    for (vt_domain *d = t->oldest; d && fn(ud, d, d->key, d->key_bytes); d = d->newer) {
    }
}

static vt_prefix_info info_of(const vti_rtree *t, const vti_node *n)
{
    return (vt_prefix_info){
        .id = n->id,
        .parent_id = vti_node_is_root(n->parent) ? 0 : n->parent->id,
        .start_tok = n->start,
        .n_tok = n->n_tok,
        .tok = n->room,
        .held_bytes = vti_node_bytes(t, n),
        .used = n->used,
        .n_seq = n->n_ref,
        .keep = n->keep,
        .lacks = vti_node_lacks(t, n),
    };
}

void vti_rtree_walk(const vt_domain *d, bool (*fn)(void *ud, const vt_prefix_info *node), void *ud)
{
    for (const vti_node *n = d->nodes.oldest; n; n = n->newer) {
        vt_prefix_info info = info_of(d->tree, n);
        if (!fn(ud, &info)) return;
    }
}

void vti_rtree_walk_newest(const vt_domain *d, bool (*fn)(void *ud, const vt_prefix_info *node),
                           void *ud)
{
    for (const vti_node *n = d->nodes.newest; n; n = n->older) {
        vt_prefix_info info = info_of(d->tree, n);
        if (!fn(ud, &info)) return;
    }
}
