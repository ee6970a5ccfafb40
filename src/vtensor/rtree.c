// rtree.c - rTree: what is recorded. A radix tree on exact tokens: each edge carries a run of them,
// no two edges out of one node begin alike, and the node below an edge holds the chunks that its
// run touches. What a node is worth, and who goes first, is in rtree_evict.c.
//
// With two tokens to a chunk, "abcdef" recorded by a sequence whose chunks are in region A is one
// node. Recording "abcx" with chunks in B cuts it after c, in the midst of the chunk at position 1:
//
//   position  0    1    2                       0    1    2
//   N       | ab | cd | ef |          upper   | ab | c  |            new
//             A0   A1   A2                      A0   A1
//                               ->    N            |  d | ef |       the same object as before
//                                                    A1   A2
//                                     leaf         |  x |            new; the rows of c and x
//                                                    B1              are in B1
//
// Both parts hold the chunk at the cut: the law of a node's chunks is that they hold the rows of
// all tokens of its path which lie in them, so the deeper one's is good for the longer path, and a
// lookup takes it. N stays the same object, so that references of sequences still mean what they
// did.
//
// Push, by where the common part of `tok` and the tree ends:
//
//   (1) at the end of a node, and so does tok       nothing is new
//   (2) inside an edge, and tok ends there          the edge is cut, at the end of the path
//   (3) at the end of a node, tok goes on           a leaf for the rest
//   (4) inside an edge, tok goes on                 the edge is cut, a leaf below the upper part
//
// All memory that a push needs is got before anything is linked.
//
// Superseded tails. A conversation recorded turn by turn ends each time inside a chunk, which is
// copied before it grows: in (3) the new leaf's first chunk has the rows of the parent's last one,
// and more.
//
//   parent  | ab | c  |               parent  | ab | c  |
//             A0   A1                           A0   B1
//   leaf         |  d | ef |    ->    leaf         |  d | ef |
//                  B1   B2                           B1   B2
//
// So every node above the leaf that ends inside this chunk takes the leaf's, if no other node holds
// the old one. Then the tree has surely let go of it: it is free at once, or when the sequences
// that hold it go, one of which may meanwhile be left alone with it and write in place. Where
// another node does hold it (the other side of a cut, another domain) a change would free nothing,
// and pins would come to hold a chunk more.
#include "rtree_node.h"

#include <stdlib.h>
#include <string.h>

// ---- Tables

static vti_link *table_chain(const vti_table *tb, uint64_t hash)
{
    return tb->cap > 0 ? tb->bucket[hash & (tb->cap - 1)] : NULL;
}

static void table_put(vti_table *tb, vti_link *l, uint64_t hash)
{
    vti_link **bucket = &tb->bucket[hash & (tb->cap - 1)];
    *l = (vti_link){.chain = *bucket, .hash = hash};
    *bucket = l;
    tb->n++;
}

static void table_take(vti_table *tb, vti_link *l)
{
    vti_link **at = &tb->bucket[l->hash & (tb->cap - 1)];
    while (*at != l) at = &(*at)->chain;
    *at = l->chain;
    tb->n--;
}

// Room for `more` members, one to a bucket on average.
static vt_status table_reserve(vti_table *tb, size_t more)
{
    vti_table bigger = {.cap = tb->cap > 0 ? tb->cap : 16};
    while (bigger.cap < tb->n + more) bigger.cap *= 2;
    if (bigger.cap == tb->cap) return VT_OK;
    bigger.bucket = calloc(bigger.cap, sizeof(vti_link *));
    if (!bigger.bucket) return VT_ENOMEM;
    for (size_t i = 0; i < tb->cap; i++)
        for (vti_link *l = tb->bucket[i], *next; l; l = next) {
            next = l->chain;
            table_put(&bigger, l, l->hash);
        }
    free(tb->bucket);
    *tb = bigger;
    return VT_OK;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t hash_child(const vti_node *parent, uint32_t tok)
{
    return mix((uint64_t)(uintptr_t)parent + tok * UINT64_C(0x9e3779b97f4a7c15));
}

static uint64_t hash_key(const unsigned char *key, size_t key_bytes)
{
    uint64_t hash = key_bytes;
    for (size_t i = 0; i < key_bytes; i++) hash = mix(hash + key[i] + 1);
    return hash;
}

// ---- Nodes

// Children that are guarded come first: who looks for guarded nodes need not pass the others.
void vti_node_attach(vti_node *n, vti_node *parent)
{
    int end = n->n_guard > 0 ? VTI_FRONT : VTI_BACK;
    vti_node *was = parent->child[end];
    n->parent = parent;
    n->beside[end] = NULL;
    n->beside[!end] = was;
    *(was ? &was->beside[end] : &parent->child[!end]) = n;
    parent->child[end] = n;
}

void vti_node_detach(vti_node *n)
{
    for (int end = VTI_FRONT; end <= VTI_BACK; end++) {
        vti_node *b = n->beside[end];
        *(b ? &b->beside[!end] : &n->parent->child[end]) = n->beside[!end];
    }
}

vti_node *vti_node_after(vti_node *n, bool guarded)
{
    vti_node *next = n->child[VTI_FRONT];
    while (!next || (guarded && next->n_guard == 0)) {
        if (!n->parent) return NULL;
        next = n->beside[VTI_BACK];
        n = n->parent;
    }
    return next;
}

vti_node *vti_node_child(const vti_rtree *t, const vti_node *n, uint32_t tok)
{
    uint64_t hash = hash_child(n, tok);
    for (vti_link *l = table_chain(&t->nodes, hash); l; l = l->chain) {
        vti_node *child = (vti_node *)l;
        if (child->parent == n && child->tok[0] == tok) return child;
    }
    return NULL;
}

static void node_link(vti_rtree *t, vti_node *n, vti_node *parent)
{
    n->domain = parent->domain;
    vti_node_attach(n, parent);
    table_put(&t->nodes, &n->link, hash_child(parent, n->tok[0]));
}

static void node_unlink(vti_rtree *t, vti_node *n)
{
    table_take(&t->nodes, &n->link);
    vti_node_detach(n);
}

// An empty shell for tokens [start, end), with their number set.
static vti_node *node_new(const vti_geo *g, uint32_t start, uint32_t end)
{
    size_t n_tok = end - start;
    vti_node *n = calloc(1, sizeof *n + (n_tok + vti_touched(g, start, end)) * sizeof n->room[0]);
    if (!n) return NULL;
    n->start = start;
    n->n_tok = end - start;
    n->tok = n->room;
    n->region = n->room + n_tok;
    return n;
}

static void hold(vti_rtree *t, uint32_t region, uint32_t position)
{
    vti_pset_node_hold(t->pset, region, position);
    t->n_hold++;
}

static void let_go(vti_rtree *t, uint32_t region, uint32_t position)
{
    vti_pset_node_drop(t->pset, region, position);
    t->n_hold--;
}

// Takes a node without children out of the tree; it lives on while sequences reference it.
static void node_remove(vti_rtree *t, vti_node *n)
{
    vti_node *parent = n->parent;
    uint32_t first = vti_node_first(t->geo, n), n_position = vti_node_positions(t->geo, n);
    for (uint32_t i = 0; i < n_position; i++) let_go(t, n->region[i], first + i);
    t->n_node--;
    t->n_tok -= n->n_tok;
    vti_worth_leave(t, n);
    node_unlink(t, n);
    if (n->n_guard > 0) vti_unguard(t, parent);
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
    t->top = node_new(geo, 0, 0);
    t->limbo = node_new(geo, 0, 0);
    if (t->top && t->limbo) return VT_OK;
    vti_rtree_free(t);
    *out = NULL;
    return VT_ENOMEM;
}

static vt_domain *domain_new(vti_rtree *t, const void *key, size_t key_bytes)
{
    vt_domain *d = calloc(1, sizeof *d + key_bytes);
    vti_node *root = node_new(t->geo, 0, 0);
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

static vt_domain *domain_find(const vti_rtree *t, const void *key, size_t key_bytes, uint64_t hash)
{
    for (vti_link *l = table_chain(&t->domains, hash); l; l = l->chain) {
        vt_domain *d = (vt_domain *)l;
        if (d->key_bytes == key_bytes && (key_bytes == 0 || !memcmp(d->key, key, key_bytes)))
            return d;
    }
    return NULL;
}

vt_status vti_rtree_open(vti_rtree *t, const void *key, size_t key_bytes, vt_domain **out)
{
    uint64_t hash = hash_key(key, key_bytes);
    vt_domain *d = *out = domain_find(t, key, key_bytes, hash);
    if (!d) {
        VT_TRY(table_reserve(&t->domains, 1));
        d = *out = domain_new(t, key, key_bytes);
        if (!d) return VT_ENOMEM;
        table_put(&t->domains, &d->link, hash);
        vti_node_attach(d->root, t->top);
    }
    d->n_open++;
    return VT_OK;
}

static void domain_free(vt_domain *d)
{
    table_take(&d->tree->domains, &d->link);
    vti_node_detach(d->root);
    free(d->root);
    free(d);
}

// Frees a domain that has come to nothing.
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
        next = c->beside[VTI_BACK];
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

// ---- Match

static uint32_t common(const uint32_t *a, const uint32_t *b, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

vti_prefix vti_rtree_match(const vt_domain *d, const uint32_t *tok, uint32_t n_tok)
{
    vti_prefix hit = {.node = d->root};
    while (hit.n_tok < n_tok && hit.n_tok == vti_node_end(hit.node)) {
        vti_node *n = vti_node_child(d->tree, hit.node, tok[hit.n_tok]);
        if (!n) break;
        hit.n_tok += common(n->tok, tok + hit.n_tok, least(n->n_tok, n_tok - hit.n_tok));
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

// What a push may need.
typedef struct fresh {
    vti_node *upper, *leaf; // NULL: not needed
} fresh;

static vt_status fresh_get(vti_rtree *t, vti_prefix hit, uint32_t n_tok, fresh *f)
{
    bool cut = hit.n_tok < vti_node_end(hit.node), grow = hit.n_tok < n_tok;
    *f = (fresh){0};
    VT_TRY(table_reserve(&t->nodes, (size_t)cut + grow));
    VT_TRY(vti_worth_reserve(t, (uint64_t)cut + grow, cut + vti_touched(t->geo, hit.n_tok, n_tok)));
    if (cut) f->upper = node_new(t->geo, hit.node->start, hit.n_tok);
    if (grow) f->leaf = node_new(t->geo, hit.n_tok, n_tok);
    if (!!f->upper == cut && !!f->leaf == grow) return VT_OK;
    free(f->upper);
    free(f->leaf);
    return VT_ENOMEM;
}

// Puts `upper` between n and its parent; it takes as many of n's first tokens as it has room for.
// Push will use it.
static void cut_edge(vti_rtree *t, vti_node *n, vti_node *upper)
{
    uint32_t n_tok = upper->n_tok, n_position = vti_node_positions(t->geo, upper);
    uint32_t last = vti_node_first(t->geo, upper) + n_position - 1;
    memcpy(upper->tok, n->tok, n_tok * sizeof n->tok[0]);
    memcpy(upper->region, n->region, n_position * sizeof n->region[0]);
    upper->n_guard = n->n_guard > 0;
    node_unlink(t, n);
    node_link(t, upper, n->parent);
    n->start += n_tok;
    n->n_tok -= n_tok;
    n->tok += n_tok;
    n->region += vti_node_first(t->geo, n) - vti_node_first(t->geo, upper);
    node_link(t, n, upper);
    if (vti_node_first(t->geo, n) == last) hold(t, upper->region[n_position - 1], last);
    t->n_node++;
}

static void hang(vti_rtree *t, vti_node *leaf, vti_node *parent, const uint32_t *tok,
                 const uint32_t *at)
{
    uint32_t first = vti_node_first(t->geo, leaf), n_position = vti_node_positions(t->geo, leaf);
    memcpy(leaf->tok, tok + leaf->start, leaf->n_tok * sizeof tok[0]);
    for (uint32_t i = 0; i < n_position; i++) {
        leaf->region[i] = at[first + i];
        hold(t, leaf->region[i], first + i);
    }
    node_link(t, leaf, parent);
    vti_worth_settle(t, parent);
    t->n_node++;
    t->n_tok += leaf->n_tok;
}

static bool ends_in(const vti_geo *g, const vti_node *n, uint32_t position)
{
    return !vti_node_is_root(n) && vti_geo_chunks(g, vti_node_end(n)) == position + 1;
}

static uint32_t *last_region(const vti_geo *g, const vti_node *n)
{
    return &n->region[vti_node_positions(g, n) - 1];
}

static void move(vti_rtree *t, vti_node *n, uint32_t position, uint32_t region)
{
    uint32_t *at = &n->region[position - vti_node_first(t->geo, n)];
    hold(t, region, position);
    let_go(t, *at, position);
    *at = region;
}

// Nodes above the leaf give up chunks that its first one supersedes; see the top.
static void supersede(vti_rtree *t, const vti_node *leaf)
{
    uint32_t position = vti_node_first(t->geo, leaf);
    vti_node *n = leaf->parent;
    while (ends_in(t->geo, n, position)) {
        uint32_t n_same = 0, old = *last_region(t->geo, n);
        vti_node *above = n;
        for (; ends_in(t->geo, above, position) && *last_region(t->geo, above) == old; n_same++)
            above = above->parent;
        bool alone = vti_pset_chunk(t->pset, old, position).n_node == n_same;
        for (; n != above; n = n->parent)
            if (alone && old != leaf->region[0]) move(t, n, position, leaf->region[0]);
    }
}

vt_status vti_rtree_push(vti_rtree *t, vt_domain *d, const uint32_t *tok, uint32_t n_tok,
                         const uint32_t *at, vti_node **out)
{
    vti_prefix hit = vti_rtree_match(d, tok, n_tok);
    fresh f;
    VT_TRY(fresh_get(t, hit, n_tok, &f));
    *out = hit.node; // (1)
    if (f.upper) {   // (2) and (4)
        cut_edge(t, hit.node, f.upper);
        *out = f.upper;
    }
    if (f.leaf) { // (3) and (4)
        hang(t, f.leaf, *out, tok, at);
        supersede(t, f.leaf);
        *out = f.leaf;
    }
    vti_rtree_touch(t, *out);
    return VT_OK;
}

// Whether the parent names another chunk where n begins, which nobody else holds, and n's is held by
// a sequence. The first guarded child speaks for all.
bool vti_rtree_has_double(const vti_rtree *t, const vti_node *n)
{
    const vti_node *u = n->parent;
    uint32_t position = vti_node_first(t->geo, n), n_same = 0;
    if (n != u->child[VTI_FRONT] || !ends_in(t->geo, u, position)) return false;
    uint32_t old = *last_region(t->geo, u);
    for (; ends_in(t->geo, u, position) && *last_region(t->geo, u) == old; u = u->parent) n_same++;
    vti_chunk c = vti_pset_chunk(t->pset, old, position);
    return old != n->region[0] && c.n_user == 0 && c.n_node == n_same &&
           vti_pset_chunk(t->pset, n->region[0], position).n_user > 0;
}

void vti_rtree_drop_double(vti_rtree *t, const vti_node *n)
{
    supersede(t, n);
}

static bool names(const vti_rtree *t, const vti_node *n, uint32_t position, uint32_t region)
{
    uint32_t first = vti_node_first(t->geo, n);
    return !vti_node_is_root(n) && position >= first &&
           position - first < vti_node_positions(t->geo, n) &&
           n->region[position - first] == region;
}

uint32_t vti_rtree_names(const vti_rtree *t, const vti_node *n, uint32_t position, uint32_t region)
{
    uint32_t n_named = 0;
    for (; n && n->domain; n = n->parent) n_named += names(t, n, position, region);
    return n_named;
}

void vti_rtree_rename(vti_rtree *t, vti_node *n, uint32_t position, uint32_t from, uint32_t to)
{
    for (; n && n->domain; n = n->parent)
        if (names(t, n, position, from)) move(t, n, position, to);
}

// ---- References and removal

void vti_rtree_ref(vti_rtree *t, vti_node *n)
{
    if (n->n_ref++ == 0 && n->domain) vti_guard(t, n);
}

void vti_rtree_unref(vti_rtree *t, vti_node *n)
{
    assert(n->n_ref > 0);
    if (--n->n_ref > 0) return;
    if (n->domain) {
        vti_unguard(t, n);
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

// The tokens whose rows lie in the last position go, at least in part; a node may come to nothing.
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
        let_go(t, leaf->region[i], first + i);
}

// ---- Check

static const char *children_wrong(const vti_node *n)
{
    uint32_t n_guard = !vti_node_is_root(n) && n->keep.pinned;
    const vti_node *before = NULL;
    n_guard += n->n_ref > 0;
    for (const vti_node *c = n->child[VTI_FRONT]; c; before = c, c = c->beside[VTI_BACK]) {
        if (c->parent != n || c->beside[VTI_FRONT] != before) return "rtree: a broken link";
        if (c->n_guard > 0 && before && before->n_guard == 0) return "rtree: guarded not in front";
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
        return "rtree: a root that is none";
    if (domain_find(t, d->key, d->key_bytes, hash_key(d->key, d->key_bytes)) != d)
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
    // Finds the other one where two begin alike.
    if (vti_node_child(t, n->parent, n->tok[0]) != n) return "rtree: a node that is not found";
    return NULL;
}

static const char *limbo_wrong(const vti_rtree *t)
{
    for (const vti_node *n = t->limbo->child[VTI_FRONT]; n; n = n->beside[VTI_BACK])
        if (n->domain || n->n_ref == 0 || n->child[VTI_FRONT] || n->parent != t->limbo)
            return "rtree: a forgotten node that is not alone";
    return NULL;
}

typedef struct census {
    uint64_t n_node, n_tok, n_hold, n_domain;
} census;

static void count_node(const vti_rtree *t, const vti_node *n, census *c,
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
    census c = {0};
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
