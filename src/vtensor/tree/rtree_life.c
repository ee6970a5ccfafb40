// rtree_life.c - making and freeing trees and domains, references to nodes, and removal of nodes.
//
// A node that is removed while sequences reference it releases its chunks, becomes a child of
// `limbo`, and is freed with its last reference.
#include "rtree_node.h"

#include <stdlib.h>
#include <string.h>

#include "vtensor/common/try.h"

// Removes a node without children. It lives on while sequences reference it.
static void node_remove(vti_rtree *t, vti_node *n)
{
    vti_node *parent = n->parent;
    uint32_t first = vti_node_first(t->geo, n), n_position = vti_node_positions(t->geo, n);
    for (uint32_t i = 0; i < n_position; i++) vti_node_drop_chunk(t, n->region[i], first + i);
    t->n_node--;
    t->n_tok -= n->n_tok;
    vti_worth_leave(t, n);
    vti_node_unlink(t, n);
    if (n->n_guard > 0) vti_node_unguard(t, parent);
    vti_worth_settle(t, parent);
    n->domain = NULL;
    if (n->n_ref > 0)
        vti_node_attach(n, t->limbo);
    else
        free(n);
}

// ---- Trees and domains

vt_status vti_rtree_new(const vti_geo *geo, vti_pset *pset, vt_manager *owner, vti_rtree **out)
{
    vti_rtree *t = *out = calloc(1, sizeof *t);
    if (!t) return VT_ENOMEM;
    *t = (vti_rtree){.geo = geo, .pset = pset, .owner = owner};
    t->top = vti_node_new(geo, 0, 0);
    t->limbo = vti_node_new(geo, 0, 0);
    if (t->top && t->limbo) return VT_OK;
    vti_rtree_free(t);
    *out = NULL;
    return VT_ENOMEM;
}

static vt_domain *domain_new(vti_rtree *t, const void *key, size_t key_bytes)
{
    vt_domain *d = calloc(1, sizeof *d + key_bytes);
    vti_node *root = vti_node_new(t->geo, 0, 0);
    if (!d || !root) {
        free(d);
        free(root);
        return NULL;
    }
    d->tree = t;
    d->root = root;
    d->key_bytes = key_bytes;
    if (key_bytes > 0) memcpy(d->key, key, key_bytes);
    root->domain = d;
    return d;
}

vt_domain *vti_domain_find(const vti_rtree *t, const void *key, size_t key_bytes, uint64_t hash)
{
    for (vti_link *l = vti_table_chain(&t->domains, hash); l; l = l->chain) {
        vt_domain *d = (vt_domain *)l;
        if (d->key_bytes == key_bytes && (key_bytes == 0 || !memcmp(d->key, key, key_bytes)))
            return d;
    }
    return NULL;
}

vt_status vti_rtree_open(vti_rtree *t, const void *key, size_t key_bytes, vt_domain **out)
{
    uint64_t hash = vti_hash_key(key, key_bytes);
    vt_domain *d = *out = vti_domain_find(t, key, key_bytes, hash);
    if (!d) {
        VT_TRY(vti_table_reserve(&t->domains, 1));
        d = *out = domain_new(t, key, key_bytes);
        if (!d) return VT_ENOMEM;
        vti_table_put(&t->domains, &d->link, hash);
        vti_node_attach(d->root, t->top);
    }
    d->n_open++;
    return VT_OK;
}

static void domain_free(vt_domain *d)
{
    vti_table_take(&d->tree->domains, &d->link);
    vti_node_detach(d->root);
    free(d->root);
    free(d);
}

// Frees a domain that is closed, empty and not referenced.
static void domain_settle(vt_domain *d)
{
    if (d->n_open == 0 && d->root->n_ref == 0 && !d->root->child[VTI_FRONT]) domain_free(d);
}

void vti_rtree_close(vt_domain *d)
{
    assert(d->n_open > 0);
    d->n_open--;
    domain_settle(d);
}

vt_manager *vti_domain_owner(const vt_domain *d)
{
    return d->tree->owner;
}

void vti_rtree_forget(vt_domain *d)
{
    vti_node *n = d->root;
    for (;;) {
        while (n->child[VTI_FRONT]) n = n->child[VTI_FRONT];
        if (n == d->root) return;
        vti_node *parent = n->parent;
        node_remove(d->tree, n);
        n = parent;
    }
}

static void free_children(vti_node *n)
{
    for (vti_node *c = n->child[VTI_FRONT], *next; c; c = next) {
        next = c->sibling[VTI_BACK];
        free(c);
    }
}

void vti_rtree_free(vti_rtree *t)
{
    if (!t) return;
    for (vti_node *root; t->top && (root = t->top->child[VTI_FRONT]);) {
        vti_rtree_forget(root->domain);
        domain_free(root->domain);
    }
    if (t->limbo) free_children(t->limbo);
    vti_worth_free(t);
    free(t->nodes.bucket);
    free(t->domains.bucket);
    free(t->top);
    free(t->limbo);
    free(t);
}

vti_rtree_stats vti_rtree_look(const vti_rtree *t)
{
    return (vti_rtree_stats){t->n_node, t->n_tok, t->domains.n};
}

// ---- References and removal

void vti_rtree_ref(vti_rtree *t, vti_node *n)
{
    if (n->n_ref++ == 0 && n->domain) vti_node_guard(t, n);
}

void vti_rtree_unref(vti_rtree *t, vti_node *n)
{
    assert(n->n_ref > 0);
    if (--n->n_ref > 0) return;
    if (n->domain) {
        vti_node_unguard(t, n);
        if (vti_node_is_root(n)) domain_settle(n->domain);
    } else {
        vti_node_detach(n);
        free(n);
    }
}

void vti_rtree_drop(vti_rtree *t, vti_node *leaf)
{
    assert(leaf->domain && leaf->n_guard == 0 && !leaf->child[VTI_FRONT]);
    vt_domain *d = leaf->domain;
    vti_worth_inherit(t, leaf->parent, &leaf->keep);
    node_remove(t, leaf);
    domain_settle(d);
}

// Removes the tokens with rows in the last position. A node without tokens is removed.
void vti_rtree_shorten(vti_rtree *t, vti_node *leaf)
{
    uint32_t first = vti_node_first(t->geo, leaf), n_position = vti_node_positions(t->geo, leaf);
    uint32_t end = vti_geo_tokens(t->geo, first + n_position - 1);
    vt_domain *d = leaf->domain;
    assert(d && !leaf->child[VTI_FRONT]);
    if (end <= leaf->start) {
        node_remove(t, leaf);
        domain_settle(d);
        return;
    }
    t->n_tok -= leaf->n_tok - (end - leaf->start);
    leaf->n_tok = end - leaf->start;
    for (uint32_t i = vti_node_positions(t->geo, leaf); i < n_position; i++)
        vti_node_drop_chunk(t, leaf->region[i], first + i);
}
