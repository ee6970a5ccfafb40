// radix_domain.c - trees and their domains: making and freeing them, removing and evicting nodes,
// and what can be seen from outside: events, ages, figures, and a walk over domains and nodes.
//
// A node that is removed while sequences reference it releases its chunks and is freed with its
// last reference.
#include "radix_node.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

// ---- Events: a bounded ring under a lock

struct vti_events {
    pthread_mutex_t mu;        // guards all below
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

void vti_events_add(vti_events *ev, vt_event event)
{
    if (!ev) return;
    pthread_mutex_lock(&ev->mu);
    event.number = ev->n_added++;
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
                                         .n_tok = n->n_tok,
                                         .now_ms = t->now_ms});
}

void vti_radix_note_fork(vti_radix *t, const vti_node *n, uint32_t n_tok)
{
    vt_event event = {.kind = VT_EVENT_FORKED, .n_tok = n_tok, .now_ms = t->now_ms};
    if (n && n->domain) {
        event.domain_id = n->domain->id;
        event.id = vti_node_is_root(n) ? 0 : n->id;
        event.parent_id = n->parent && !vti_node_is_root(n->parent) ? n->parent->id : 0;
    }
    vti_events_add(t->events, event);
}

// ---- Trees

vt_status vti_radix_new(const vti_geo *geo, vti_pset *pset, vt_manager *owner, uint32_t n_event,
                        vti_radix **out)
{
    vti_radix *t = *out = calloc(1, sizeof *t);
    if (!t) return VT_ENOMEM;
    *t = (vti_radix){.geo = geo, .pset = pset, .owner = owner};
    memcpy(&t->seed, (const void *)getauxval(AT_RANDOM), sizeof t->seed); // bytes of the kernel's
    t->seed ^= (uintptr_t)t;
    if (n_event == 0 || vti_events_new(n_event, &t->events) == VT_OK) return VT_OK;
    vti_radix_free(t);
    *out = NULL;
    return VT_ENOMEM;
}

// ---- Domains

static int compare_key(const vt_domain *d, const void *key, size_t key_bytes)
{
    if (d->key_bytes != key_bytes) return d->key_bytes < key_bytes ? -1 : 1;
    return key_bytes > 0 ? memcmp(d->key, key, key_bytes) : 0;
}

size_t vti_domain_place(const vti_radix *t, const void *key, size_t key_bytes)
{
    size_t first = 0, end = t->n_domain;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (compare_key(t->domain[middle], key, key_bytes) < 0)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

static vt_status reserve_place(vti_radix *t)
{
    if (t->n_domain < t->cap_domain) return VT_OK;
    size_t cap = 2 * t->cap_domain + 8;
    vt_domain **more = calloc(cap, sizeof(vt_domain *));
    if (!more) return VT_ENOMEM;
    if (t->domain) memcpy(more, t->domain, t->n_domain * sizeof(vt_domain *));
    free(t->domain);
    t->domain = more;
    t->cap_domain = cap;
    return VT_OK;
}

static vt_status domain_new(vti_radix *t, size_t place, const void *key, size_t key_bytes)
{
    VT_TRY(reserve_place(t));
    vt_domain *d = calloc(1, sizeof *d + key_bytes), **at = t->domain + place;
    vti_node *root = vti_node_new(t, 0);
    if (!d || !root) {
        free(d);
        free(root);
        return VT_ENOMEM;
    }
    *d = (vt_domain){.id = ++t->n_domain_id,
                     .tree = t,
                     .root = root,
                     .quota_bytes = UINT64_MAX,
                     .key_bytes = key_bytes};
    if (key_bytes > 0) memcpy(d->key, key, key_bytes);
    root->domain = d;
    memmove(at + 1, at, (t->n_domain++ - place) * sizeof *at);
    *at = d;
    return VT_OK;
}

static void domain_free(vt_domain *d)
{
    vti_radix *t = d->tree;
    size_t place = vti_domain_place(t, d->key, d->key_bytes);
    vt_domain **at = t->domain + place;
    memmove(at, at + 1, (--t->n_domain - place) * sizeof *at);
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
    size_t place = vti_domain_place(t, key, key_bytes);
    *out = NULL;
    if (place == t->n_domain || compare_key(t->domain[place], key, key_bytes) != 0)
        VT_TRY(domain_new(t, place, key, key_bytes));
    *out = t->domain[place];
    (*out)->n_open++;
    return VT_OK;
}

void vt_domain_close(vt_domain *d)
{
    if (!d) return;
    assert(d->n_open > 0);
    d->n_open--;
    domain_settle(d);
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
    *(n->newer ? &n->newer->older : &d->nodes.newest) = n->older;
    *(n->older ? &n->older->newer : &d->nodes.oldest) = n->newer;
    n->newer = n->older = NULL;
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

// Children are newer than their parents.
void vt_domain_forget(vt_domain *d)
{
    while (d->nodes.newest) vti_node_remove(d->tree, d->nodes.newest);
    d->epoch++;
}

void vti_radix_free(vti_radix *t)
{
    if (!t) return;
    while (t->n_domain > 0) {
        vt_domain *d = t->domain[t->n_domain - 1];
        vt_domain_forget(d);
        domain_free(d);
    }
    for (vti_order order = 0; order < VTI_IN_DOMAIN; order++) free(t->heap[order].at);
    vti_events_free(t->events);
    free(t->domain);
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

void vti_radix_note_reuse(vti_radix *t, const vti_node *n)
{
    if (!vti_node_is_root(n)) age_count(&t->ages.reuse, n->used_ms, t->now_ms);
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

bool vti_radix_evict(vti_radix *t)
{
    vti_priority_expire(t);
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

// Calls fn for a node; what it answers.
static bool show_node(const vti_node *n, bool (*fn)(void *ud, const vt_prefix_info *node), void *ud)
{
    const vti_radix *t = n->domain->tree;
    const vt_prefix_info info = {
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
    return fn(ud, &info);
}

void vt_prefix_each(const vt_domain *d, bool (*fn)(void *ud, const vt_prefix_info *node), void *ud)
{
    for (const vti_node *n = d->nodes.oldest; n && show_node(n, fn, ud); n = n->newer) continue;
}

void vt_prefix_each_newest(const vt_domain *d, bool (*fn)(void *ud, const vt_prefix_info *node),
                           void *ud)
{
    for (const vti_node *n = d->nodes.newest; n && show_node(n, fn, ud); n = n->older) continue;
}
