// radix_domain.c - trees and their domains: making and freeing them, removing and evicting nodes,
// and what can be seen from outside: events, ages, figures, and a walk over domains and nodes.
//
// A node that is removed while sequences reference it releases its chunks and is freed with its
// last reference.
#include "radix_node.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// ---- Events: a bounded ring under a lock

struct vti_events {
    pthread_mutex_t mu; // guards all below
    uint64_t now_ms;
    uint64_t n_added, n_taken; // n_taken: numbers below are taken or overwritten
    uint32_t cap;
    vt_event ring[]; // [cap] event i is at i % cap
};

vt_status vti_events_new(uint32_t n_event, vti_events **out)
{
    vti_events *ev = *out = calloc(1, sizeof *ev + n_event * sizeof ev->ring[0]);
    if (!ev) return VT_ENOMEM;
    ev->cap = n_event;
    pthread_mutex_init(&ev->mu, NULL);
    return VT_OK;
}

void vti_events_free(vti_events *ev)
{
    if (ev) pthread_mutex_destroy(&ev->mu);
    free(ev);
}

void vti_events_clock(vti_events *ev, uint64_t now_ms)
{
    if (!ev) return;
    pthread_mutex_lock(&ev->mu);
    ev->now_ms = now_ms;
    pthread_mutex_unlock(&ev->mu);
}

void vti_events_add(vti_events *ev, vt_event event)
{
    if (!ev) return;
    pthread_mutex_lock(&ev->mu);
    event.number = ev->n_added++;
    event.now_ms = ev->now_ms;
    ev->ring[event.number % ev->cap] = event;
    if (ev->n_added - ev->n_taken > ev->cap) ev->n_taken = ev->n_added - ev->cap;
    pthread_mutex_unlock(&ev->mu);
}

uint32_t vti_events_take(vti_events *ev, vt_event *out, uint32_t max_n)
{
    uint32_t n = 0;
    if (!ev) return 0;
    pthread_mutex_lock(&ev->mu);
    while (n < max_n && ev->n_taken < ev->n_added) out[n++] = ev->ring[ev->n_taken++ % ev->cap];
    pthread_mutex_unlock(&ev->mu);
    return n;
}

void vti_node_note(vti_radix *t, vt_event_kind kind, const vti_node *n)
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

void vti_radix_note_fork(vti_radix *t, const vti_node *n, uint32_t n_tok)
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

vt_status vti_radix_new(const vti_geo *geo, vti_pset *pset, vt_manager *owner, vti_events *events,
                        vti_radix **out)
{
    vti_radix *t = *out = calloc(1, sizeof *t);
    if (!t) return VT_ENOMEM;
    *t = (vti_radix){.geo = geo, .pset = pset, .owner = owner, .events = events};
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

vti_radix_stats vti_radix_look(const vti_radix *t)
{
    return (vti_radix_stats){t->n_node, t->n_tok, t->n_evicted, t->n_window, t->n_domain};
}

// ---- Domains

static vt_domain **bucket_of(vti_radix *t, uint64_t hash)
{
    return &t->bucket[hash & t->bucket_mask];
}

static vt_domain *domain_find(vti_radix *t, const void *key, size_t key_bytes, uint64_t hash)
{
    vt_domain *d = *bucket_of(t, hash);
    while (d && (d->hash != hash || d->key_bytes != key_bytes ||
                 (key_bytes > 0 && memcmp(d->key, key, key_bytes) != 0)))
        d = d->chain;
    return d;
}

static vt_domain *domain_new(vti_radix *t, const void *key, size_t key_bytes, uint64_t hash)
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
static void widen_buckets(vti_radix *t)
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

static void domain_free(vt_domain *d)
{
    vti_radix *t = d->tree;
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

vt_status vti_radix_open(vti_radix *t, const void *key, size_t key_bytes, vt_domain **out)
{
    uint64_t hash = vti_secret_hash(t->secret, key, key_bytes);
    vt_domain *d = *out = domain_find(t, key, key_bytes, hash);
    if (!d) {
        d = *out = domain_new(t, key, key_bytes, hash);
        if (!d) return VT_ENOMEM;
        widen_buckets(t);
        d->chain = *bucket_of(t, hash);
        *bucket_of(t, hash) = d;
        d->older = t->newest;
        *(t->newest ? &t->newest->newer : &t->oldest) = d;
        t->newest = d;
        t->n_domain++;
    }
    d->n_open++;
    return VT_OK;
}

void vti_domain_reopen(vt_domain *d)
{
    d->n_open++;
}

void vt_domain_close(vt_domain *d)
{
    if (!d) return;
    assert(d->n_open > 0);
    d->n_open--;
    domain_settle(d);
}

vt_manager *vti_domain_owner(const vt_domain *d)
{
    return d->tree->owner;
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

void vti_node_remove(vti_radix *t, vti_node *n)
{
    vti_node *parent = n->parent;
    vt_domain *d = n->domain;
    assert(!n->child);
    vti_node_note(t, VT_EVENT_EVICTED, n);
    vti_node_drop_all(t, n, false);
    vti_priority_leave(t, n);
    vti_list_remove(&d->nodes, n);
    vti_child_remove(parent, n);
    if (n->n_pin > 0) vti_node_unpin(t, parent);
    if (n->n_guard > 0) vti_node_unguard(t, parent);
    vti_priority_settle(t, parent);
    t->n_node--;
    t->n_tok -= n->n_tok;
    d->stats.prefix_nodes--;
    d->stats.prefix_tok -= n->n_tok;
    n->domain = NULL;
    n->parent = NULL;
    if (n->n_ref == 0) free(n);
}

void vti_radix_unref(vti_radix *t, vti_node *n)
{
    assert(n->n_ref > 0);
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
void vt_domain_forget(vt_domain *d)
{
    while (d->nodes.newest) vti_node_remove(d->tree, d->nodes.newest);
    d->epoch++;
}

uint64_t vti_domain_epoch(const vt_domain *d)
{
    return d->epoch;
}

void vti_radix_free(vti_radix *t)
{
    if (!t) return;
    for (vt_domain *d; (d = t->newest) != NULL;) {
        vt_domain_forget(d);
        domain_free(d);
    }
    for (vti_order order = 0; order < VTI_IN_DOMAIN; order++) free(t->heap[order].at);
    free(t->bucket);
    free(t);
}

// ---- Ages: how long parts of prefixes live, lie idle, and wait for their next use

static void age_count(vt_ages *a, uint64_t from_ms, uint64_t to_ms)
{
    uint64_t ms = to_ms - from_ms;
    int i = 0;
    while (i < VT_N_AGE && ms > (uint64_t)1 << i) i++;
    a->count[i]++;
    a->sum_ms += ms;
}

void vti_radix_tick(vti_radix *t, uint64_t now_ms)
{
    t->now_ms = now_ms;
}

void vti_radix_note_reuse(vti_radix *t, const vti_node *n)
{
    if (!vti_node_is_root(n)) age_count(&t->ages.reuse, n->used_ms, t->now_ms);
}

const vt_prefix_ages *vti_radix_ages(const vti_radix *t)
{
    return &t->ages;
}

// ---- Eviction

static void evict_leaf(vti_radix *t, vti_node *n)
{
    vt_domain *d = n->domain;
    assert(n->n_guard == 0 && !n->child);
    age_count(&t->ages.life, n->born_ms, t->now_ms);
    age_count(&t->ages.idle, n->used_ms, t->now_ms);
    vti_priority_inherit(t, n->parent, n);
    vti_node_remove(t, n);
    t->n_evicted++;
    d->stats.evicted_nodes++;
    domain_settle(d);
}

bool vti_radix_evict_in(vt_domain *d)
{
    if (d->heap.n == 0) return false;
    evict_leaf(d->tree, d->heap.at[1]);
    return true;
}

// Whether releasing the windows of a node frees a chunk, now or with other nodes that hold it.
static bool frees_windows(const vti_radix *t, const vti_node *n)
{
    for (uint32_t g = 0; g < t->geo->n_group; g++) {
        vti_holding h = vti_node_holding(t, n, g);
        for (uint32_t i = 0; i < h.n && h.is_window; i++) {
            if (h.chunk[i] == VTI_NO_CHUNK) continue;
            vti_chunk c = vti_pset_chunk(t->pset, h.chunk[i]);
            if (vti_chunk_state(&c) == VT_CHUNK_CACHED && c.n_kept == 0) return true;
        }
    }
    return false;
}

// A node whose windows go before the leaf (NULL: there is no leaf). What sequences hold counts
// as used now, so that such a node is passed over once and not in every eviction.
static vti_node *window_victim(vti_radix *t, const vti_node *leaf)
{
    const vti_heap *h = &t->heap[VTI_BY_WINDOW];
    for (size_t n_left = h->n; n_left > 0; n_left--) {
        vti_node *n = h->at[1];
        bool is_less = !leaf || (n->used < leaf->used && n->keep.priority <= leaf->keep.priority);
        if (!is_less) return NULL;
        if (frees_windows(t, n)) return n;
        n->used = ++t->clock;
        vti_priority_settle(t, n);
    }
    return NULL;
}

bool vti_radix_evict(vti_radix *t, uint64_t now_ms)
{
    vti_priority_expire(t, now_ms);
    const vti_heap *h = &t->heap[VTI_BY_PRIORITY];
    vti_node *leaf = h->n > 0 ? h->at[1] : NULL, *n = window_victim(t, leaf);
    if (!n) {
        if (leaf) evict_leaf(t, leaf);
        return leaf != NULL;
    }
    vti_node_drop_all(t, n, true);
    n->has_windows = false;
    vti_priority_settle(t, n);
    t->n_window++;
    n->domain->stats.evicted_windows++;
    vti_node_note(t, VT_EVENT_WINDOW_EVICTED, n);
    return true;
}

// ---- What can be seen of the tree

void vt_domain_set_quota(vt_domain *d, uint64_t quota_bytes)
{
    d->quota_bytes = quota_bytes;
    d->n_open++; // evicting the last node does not free the domain
    while (d->held_bytes > d->quota_bytes && vti_radix_evict_in(d)) {
    }
    d->n_open--;
}

void vt_domain_get_stats(const vt_domain *d, vt_domain_stats *out)
{
    vt_domain_stats s = d->stats;
    s.quota_bytes = d->quota_bytes;
    s.held_bytes = d->held_bytes;
    vti_struct_out(out, &s, sizeof s, out->struct_bytes);
}

uint64_t vt_domain_id(const vt_domain *d)
{
    return d->id;
}

void vti_domain_walk(const vti_radix *t,
                     bool (*fn)(void *ud, vt_domain *d, const void *key, size_t key_bytes),
                     void *ud)
{
    for (vt_domain *d = t->oldest; d && fn(ud, d, d->key, d->key_bytes); d = d->newer) {
    }
}

static vt_prefix_info info_of(const vti_radix *t, const vti_node *n)
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

void vt_prefix_each(const vt_domain *d, bool (*fn)(void *ud, const vt_prefix_info *node), void *ud)
{
    for (const vti_node *n = d->nodes.oldest; n; n = n->newer) {
        vt_prefix_info info = info_of(d->tree, n);
        if (!fn(ud, &info)) return;
    }
}

void vt_prefix_each_newest(const vt_domain *d, bool (*fn)(void *ud, const vt_prefix_info *node),
                           void *ud)
{
    for (const vti_node *n = d->nodes.newest; n; n = n->older) {
        vt_prefix_info info = info_of(d->tree, n);
        if (!fn(ud, &info)) return;
    }
}
