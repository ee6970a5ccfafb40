// rtree_life.c - making and freeing trees and domains, and removing nodes.
//
// A node that is removed while sequences reference it releases its chunks and is freed with its
// last reference.
#include <stdlib.h>
#include <string.h>

#include "rtree_node.h"
#include "vtensor/core/common.h"

void vti_node_note(vti_rtree *t, vt_event_kind kind, const vti_node *n)
{
    const vti_node *up = n->parent;
    if (!t->events) return;
    vti_events_add(t->events, (vt_event){.kind = kind,
                                         .lacks = vti_node_lacks(t, n),
                                         .domain_id = n->domain->id,
                                         .id = n->id,
                                         .parent_id = up && !vti_node_is_root(up) ? up->id : 0,
                                         .start_tok = n->start,
                                         .n_tok = n->n_tok});
}

void vti_rtree_note_fork(vti_rtree *t, const vti_node *n, uint32_t n_tok)
{
    vt_event event = {.kind = VT_EVENT_FORKED, .n_tok = n_tok};
    if (n && n->domain) {
        event.domain_id = n->domain->id;
        event.id = vti_node_is_root(n) ? 0 : n->id;
        event.parent_id = n->parent && !vti_node_is_root(n->parent) ? n->parent->id : 0;
    }
    vti_events_add(t->events, event);
}

enum { FIRST_BUCKETS = 64 };

// ---- Trees

vt_status vti_rtree_new(const vti_geo *geo, vti_pset *pset, vt_manager *owner, vti_events *events,
                        vti_rtree **out)
{
    vti_rtree *t = *out = calloc(1, sizeof *t);
    if (!t) return VT_ENOMEM;
    *t = (vti_rtree){.geo = geo, .pset = pset, .owner = owner, .events = events};
    t->secret = vti_secret_make();
    t->bucket = calloc(FIRST_BUCKETS, sizeof(vt_domain *));
    t->bucket_mask = FIRST_BUCKETS - 1;
    if (!t->bucket) {
        free(t);
        *out = NULL;
        return VT_ENOMEM;
    }
    return VT_OK;
}

vti_rtree_stats vti_rtree_look(const vti_rtree *t)
{
    return (vti_rtree_stats){t->n_node, t->n_tok, t->n_evicted, t->n_beside, t->n_domain};
}

// ---- Domains

static vt_domain **bucket_of(vti_rtree *t, uint64_t hash)
{
    return &t->bucket[hash & t->bucket_mask];
}

static vt_domain *domain_find(vti_rtree *t, const void *key, size_t key_bytes, uint64_t hash)
{
    vt_domain *d = *bucket_of(t, hash);
    while (d && (d->hash != hash || d->key_bytes != key_bytes ||
                 (key_bytes > 0 && memcmp(d->key, key, key_bytes) != 0)))
        d = d->chain;
    return d;
}

static vt_domain *domain_new(vti_rtree *t, const void *key, size_t key_bytes, uint64_t hash)
{
    vt_domain *d = calloc(1, sizeof *d + key_bytes);
    vti_node *root = vti_node_new(t, 0);
    if (!d || !root) {
        free(d);
        free(root);
        return NULL;
    }
    *d = (vt_domain){.hash = hash,
                     .id = ++t->n_domain_id,
                     .tree = t,
                     .root = root,
                     .quota_bytes = UINT64_MAX,
                     .key_bytes = key_bytes};
    if (key_bytes > 0) memcpy(d->key, key, key_bytes);
    root->domain = d;
    return d;
}

// As many buckets as domains. Without memory for more, chains become longer.
static void widen_buckets(vti_rtree *t)
{
    uint64_t n = t->bucket_mask + 1;
    vt_domain **bucket = t->n_domain < n ? NULL : calloc(2 * n, sizeof(vt_domain *));
    if (!bucket) return;
    free(t->bucket);
    t->bucket = bucket;
    t->bucket_mask = 2 * n - 1;
    for (vt_domain *d = t->oldest; d; d = d->newer) {
        d->chain = *bucket_of(t, d->hash);
        *bucket_of(t, d->hash) = d;
    }
}

static void domain_link(vti_rtree *t, vt_domain *d)
{
    widen_buckets(t);
    d->chain = *bucket_of(t, d->hash);
    *bucket_of(t, d->hash) = d;
    d->older = t->newest;
    if (t->newest)
        t->newest->newer = d;
    else
        t->oldest = d;
    t->newest = d;
    t->n_domain++;
}

static void domain_free(vt_domain *d)
{
    vti_rtree *t = d->tree;
    vt_domain **at = bucket_of(t, d->hash);
    while (*at != d) at = &(*at)->chain;
    *at = d->chain;
    *(d->newer ? &d->newer->older : &t->newest) = d->older;
    *(d->older ? &d->older->newer : &t->oldest) = d->newer;
    t->n_domain--;
    free(d->heap.at);
    free(d->root);
    free(d);
}

// Frees a domain that is closed, empty and not referenced.
static void domain_settle(vt_domain *d)
{
    if (d->n_open == 0 && d->root->n_ref == 0 && !d->root->child) domain_free(d);
}

vt_status vti_rtree_open(vti_rtree *t, const void *key, size_t key_bytes, vt_domain **out)
{
    uint64_t hash = vti_secret_hash(t->secret, key, key_bytes);
    vt_domain *d = *out = domain_find(t, key, key_bytes, hash);
    if (!d) {
        d = *out = domain_new(t, key, key_bytes, hash);
        if (!d) return VT_ENOMEM;
        domain_link(t, d);
    }
    d->n_open++;
    return VT_OK;
}

void vti_domain_reopen(vt_domain *d)
{
    d->n_open++;
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

vti_rtree *vti_domain_tree(const vt_domain *d)
{
    return d->tree;
}

vti_node *vti_domain_root(const vt_domain *d)
{
    return d->root;
}

void vti_domain_note_match(vt_domain *d, uint32_t n_tok, uint32_t n_hit)
{
    d->stats.match_calls++;
    d->stats.match_tok += n_tok;
    d->stats.hit_tok += n_hit;
}

// ---- Removing nodes

void vti_node_remove(vti_rtree *t, vti_node *n)
{
    vti_node *parent = n->parent;
    vt_domain *d = n->domain;
    assert(!n->child);
    vti_node_note(t, VT_EVENT_EVICTED, n);
    vti_node_drop_all(t, n, false);
    vti_worth_leave(t, n);
    vti_list_remove(&d->nodes, n);
    vti_child_remove(parent, n);
    for (vti_node *at = parent; n->n_pin > 0 && at && --at->n_pin == 0; at = at->parent) {
        vti_node_keep_all(t, at, true, false);
        t->pinned_bytes -= vti_node_bytes(t, at);
        vti_worth_settle(t, at);
    }
    if (n->n_guard > 0) vti_node_unguard(t, parent);
    vti_worth_settle(t, parent);
    t->n_node--;
    t->n_tok -= n->n_tok;
    d->stats.prefix_nodes--;
    d->stats.prefix_tok -= n->n_tok;
    if (t->watch.is_on) vti_watch_gone(t, n);
    n->domain = NULL;
    n->parent = NULL;
    if (n->n_ref == 0) free(n);
}

void vti_rtree_unref(vti_rtree *t, vti_node *n)
{
    assert(n->n_ref > 0);
    vti_watch_note(t, n);
    if (--n->n_ref > 0) return;
    if (!n->domain) {
        free(n);
        return;
    }
    vti_node_unguard(t, n);
    if (vti_node_is_root(n)) domain_settle(n->domain);
}

bool vti_node_is_removed(const vti_node *n)
{
    return !n->domain;
}

// Children are newer than their parents.
void vti_rtree_forget(vt_domain *d)
{
    while (d->nodes.newest) vti_node_remove(d->tree, d->nodes.newest);
    d->epoch++;
}

uint64_t vti_domain_epoch(const vt_domain *d)
{
    return d->epoch;
}

void vti_rtree_free(vti_rtree *t)
{
    if (!t) return;
    vti_rtree_watch(t, false);
    for (vt_domain *d; (d = t->newest) != NULL;) {
        vti_rtree_forget(d);
        domain_free(d);
    }
    for (vti_order order = 0; order < VTI_IN_DOMAIN; order++) free(t->heap[order].at);
    free(t->bucket);
    free(t);
}

// ---- Eviction

static void evict_leaf(vti_rtree *t, vti_node *n)
{
    vt_domain *d = n->domain;
    assert(n->n_guard == 0 && !n->child);
    vti_rtree_note_eviction(t, n);
    vti_worth_inherit(t, n->parent, n);
    vti_node_remove(t, n);
    t->n_evicted++;
    d->stats.evicted_nodes++;
    domain_settle(d);
}

bool vti_rtree_evict_in(vt_domain *d)
{
    if (d->heap.n == 0) return false;
    evict_leaf(d->tree, d->heap.at[1]);
    return true;
}

// Whether releasing what a node holds beside frees a chunk, now or with other nodes that hold it.
static bool frees_beside(const vti_rtree *t, const vti_node *n)
{
    for (uint32_t g = 0; g < t->geo->n_group; g++) {
        vti_holding h = vti_node_holding(t, n, g);
        for (uint32_t i = 0; i < h.n && h.is_beside; i++) {
            if (h.chunk[i] == VTI_NO_CHUNK) continue;
            vti_chunk c = vti_pset_chunk(t->pset, h.chunk[i]);
            if (vti_chunk_state(&c) == VT_CHUNK_CACHED && c.n_kept == 0) return true;
        }
    }
    return false;
}

static bool is_worth_less(const vti_node *beside, const vti_node *leaf)
{
    return beside->used < leaf->used && beside->keep.priority <= leaf->keep.priority;
}

// A node whose chunks beside go before the leaf (NULL: there is none). What sequences hold counts
// as used now, so that such a node is passed over once and not in every eviction.
static vti_node *beside_victim(vti_rtree *t, const vti_node *leaf)
{
    const vti_heap *h = &t->heap[VTI_BESIDE];
    for (size_t n_left = h->n; n_left > 0; n_left--) {
        vti_node *n = h->at[1];
        if (leaf && !is_worth_less(n, leaf)) return NULL;
        if (frees_beside(t, n)) return n;
        n->used = ++t->clock;
        vti_worth_settle(t, n);
    }
    return NULL;
}

static void evict_beside(vti_rtree *t, vti_node *n)
{
    vti_node_drop_all(t, n, true);
    n->has_beside = false;
    vti_worth_settle(t, n);
    t->n_beside++;
    n->domain->stats.evicted_windows++;
    vti_node_note(t, VT_EVENT_WINDOW_EVICTED, n);
}

bool vti_rtree_evict(vti_rtree *t, uint64_t now_ms)
{
    vti_worth_expire(t, now_ms);
    const vti_heap *h = &t->heap[VTI_BY_WORTH];
    vti_node *leaf = h->n > 0 ? h->at[1] : NULL, *beside = beside_victim(t, leaf);
    if (!leaf && !beside) return false;
    if (beside)
        evict_beside(t, beside);
    else
        evict_leaf(t, leaf);
    return true;
}
