// radix.c - the radix tree: lookup and recording.
//
// The tokens of a domain are cut into blocks, and a path of nodes has a block each. With blocks of
// two tokens, a chunk each, "abcdef" and "abcx" are:
//
//   root - ab - cd - ef           chunks  A0  A1  A2
//            `- cx                            B1
//
// The part of a node that a prefix ends in can be used too: its rows are copied, so a lookup is
// exact to the token. The chunks of a node hold the rows of all tokens of its path that lie in
// them; where a chunk straddles two blocks, both nodes hold it, or each a chunk of its own, and the
// deeper one's counts.
//
// A node may lack the chunks of windows and states. A lookup goes down the path and remembers the
// longest prefix with which every group can begin: a window needs its last tokens, a state needs
// the end of a node that holds it.
#include "radix_node.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static uint32_t least_of(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

// ---- Match

// The positions up to the last hole of a group, in the path so far.
typedef struct group_holes {
    uint32_t end;    // positions of the path
    uint32_t before; // the last one left out
    uint32_t all;
} group_holes;

// Going down a path.
typedef struct match_walk {
    const vti_radix *t;
    vti_node *node; // the whole block above
    group_holes hole[VT_MAX_GROUP];
} match_walk;

// Goes on with a node, up to token `end`. Where it holds the last position of its parent too, its
// own chunk counts.
static void cover_node(match_walk *w, const vti_node *n, uint32_t end)
{
    for (uint32_t g = 0; g < w->t->geo->n_group; g++) {
        vti_holding h = vti_node_holding(w->t, n, g);
        group_holes *hole = &w->hole[g], was = *hole;
        if (w->t->geo->group[g].is_state) continue;
        hole->end = vti_group_chunks(&w->t->geo->group[g], end);
        hole->all = h.first < was.end ? was.before : was.all;
        hole->before = hole->all;
        for (uint32_t p = h.first; p < hole->end; p++) {
            hole->before = hole->all;
            if (h.chunk[p - h.first] == VTI_NO_CHUNK) hole->all = p + 1;
        }
    }
}

static bool has_state(const vti_radix *t, const vti_node *n)
{
    for (uint32_t i = 0; i < t->geo->n_group; i++)
        if (t->geo->group[i].is_state && vti_node_holding(t, n, i).chunk[0] == VTI_NO_CHUNK)
            return false;
    return true;
}

// Whether a sequence can begin with the tokens up to `end`, the last of them in n.
static bool can_begin(const match_walk *w, const vti_node *n, uint32_t end)
{
    const vti_geo *g = w->t->geo;
    for (uint32_t i = 0; i < g->n_group; i++)
        if (!g->group[i].is_state && w->hole[i].all > vti_group_passed(&g->group[i], end))
            return false;
    return !g->has_state || (end == vti_node_end(n) && has_state(w->t, n));
}

static vti_prefix prefix_in(const match_walk *w, vti_node *n, uint32_t end)
{
    bool is_whole = end == n->start + w->t->geo->block_tok;
    return (vti_prefix){is_whole ? n : w->node, n, end};
}

// With states, a shorter child that ends in one may do. Children that begin these tokens come
// before them; of those that do not, the nearest says how long the next one can be.
static void try_nested(const match_walk *w, const uint32_t *tok, uint32_t n_tok, vti_prefix *best)
{
    uint32_t start = vti_node_end(w->node), n_same;
    for (vti_node *n; n_tok > 0 && (n = vti_child_upto(w->node, tok, n_tok, &n_same));) {
        match_walk below = *w;
        bool begins_tok = n_same == n->n_tok;
        if (begins_tok) cover_node(&below, n, start + n_same);
        if (begins_tok && can_begin(&below, n, start + n_same)) {
            *best = prefix_in(w, n, start + n_same);
            return;
        }
        n_tok = begins_tok ? n_same - 1 : n_same;
    }
}

vti_prefix vti_radix_match(const vt_domain *d, const uint32_t *tok, uint32_t n_tok)
{
    const vti_radix *t = d->tree;
    const uint32_t block = t->geo->block_tok;
    match_walk w = {.t = t, .node = d->root};
    vti_prefix best = {d->root, d->root, 0};
    for (uint32_t at = 0, n_same = block; at < n_tok && n_same == block; at += n_same) {
        uint32_t n = least_of(block, n_tok - at);
        if (t->geo->has_state) try_nested(&w, tok + at, n, &best);
        vti_node *child = vti_child_like(w.node, tok + at, n, &n_same);
        if (!child || n_same == 0) break;
        cover_node(&w, child, at + n_same);
        if (can_begin(&w, child, at + n_same)) best = prefix_in(&w, child, at + n_same);
        w.node = child;
    }
    return best;
}

uint32_t vt_prefix_continue(const vt_domain *d, const uint32_t *tok, uint32_t n_tok, uint32_t *out,
                            uint32_t max_n)
{
    const uint32_t block = d->tree->geo->block_tok;
    const vti_node *n = d->root;
    uint32_t at = 0, n_out = 0;
    for (; n && n_tok - at >= block; at += block) n = vti_child_find(n, tok + at, block);
    while (n && n_out < max_n && (n = vti_child_latest(n, tok + at, n_tok - at)) != NULL) {
        for (uint32_t i = n_tok - at; i < n->n_tok && n_out < max_n; i++) out[n_out++] = n->room[i];
        at = n_tok; // what follows a node follows all of it
    }
    return n_out;
}

void vti_radix_chunks(const vti_radix *t, vti_prefix prefix, uint32_t *const *at)
{
    for (uint32_t g = 0; g < t->geo->n_group; g++) {
        const vti_lane_geo *gr = &t->geo->group[g];
        uint32_t end = vti_group_chunks(gr, prefix.n_tok); // positions from here on are known
        uint32_t front = vti_group_passed(gr, prefix.n_tok);
        for (const vti_node *n = prefix.last; end > front && !vti_node_is_root(n); n = n->parent) {
            vti_holding h = vti_node_holding(t, n, g);
            for (; end > front && end > h.first; end--) at[g][end - 1] = h.chunk[end - 1 - h.first];
            if (gr->is_state) break;
        }
        while (end > 0) at[g][--end] = VTI_NO_CHUNK;
    }
}

// ---- Push

static bool is_unused(const vti_radix *t, uint32_t chunk)
{
    return chunk != VTI_NO_CHUNK && vti_pset_state(t->pset, chunk) == VT_CHUNK_CACHED;
}

// Where a path that is pushed parts from others: within [begin, end); end 0: it does not.
typedef struct parting {
    uint32_t begin, end;
} parting;

// States of blocks are large beside rows. A path keeps those with which a sequence can begin at its
// end, and where it parts from others, since more may part there.
static bool keeps_block(const vti_lane_geo *gr, const vti_push *push, parting part,
                        uint32_t position)
{
    if (gr->row_tok <= 1 || position >= vti_group_passed(gr, push->end)) return true;
    return position >= vti_group_passed(gr, part.begin) &&
           position < vti_group_chunks(gr, part.end);
}

// The node takes the pushed chunks where it has none, or one that no sequence uses. Tokens from
// was_end on are new: what it holds there lacks their rows, and goes even if there is no other.
static void adopt_chunks(vti_radix *t, vti_node *n, const vti_push *push, parting part,
                         uint32_t was_end)
{
    for (uint32_t g = 0; g < t->geo->n_group; g++) {
        const vti_lane_geo *gr = &t->geo->group[g];
        vti_holding h = vti_node_holding(t, n, g);
        bool has_new = was_end < vti_node_end(n);
        bool skip = gr->is_state && !(push->has_state && vti_node_end(n) == push->end);
        for (uint32_t i = 0; i < h.n && !skip; i++) {
            uint32_t new = push->at[g][h.first + i], old = h.chunk[i];
            if (!keeps_block(gr, push, part, h.first + i)) continue;
            bool lacks = has_new && !gr->is_state && h.first + i >= vti_group_whole(gr, was_end);
            bool is_better = new != VTI_NO_CHUNK && (old == VTI_NO_CHUNK || is_unused(t, old));
            if (new != old && (lacks || is_better)) vti_node_set_chunk(t, n, &h, i, new);
        }
    }
    n->has_windows = vti_node_holds_windows(t, n);
}

// Nobody knows the seed, so nobody can choose tokens for which the search tree degenerates.
static uint64_t weight_for(const vti_radix *t, uint64_t id)
{
    uint64_t x = t->seed + id * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static void link_node(vti_radix *t, vti_node *n, vti_node *parent)
{
    vt_domain *d = parent->domain;
    n->parent = parent;
    n->domain = d;
    n->id = ++t->n_id;
    n->weight = weight_for(t, n->id);
    n->used = t->clock;
    n->born_ms = n->used_ms = t->now_ms;
    vti_child_add(parent, n);
    n->older = d->nodes.newest;
    *(n->older ? &n->older->newer : &d->nodes.oldest) = n;
    d->nodes.newest = n;
    vti_priority_settle(t, parent);
    t->n_node++;
    d->stats.prefix_nodes++;
}

static void count_tokens(vti_radix *t, vti_node *n, uint32_t more)
{
    n->n_tok += more;
    t->n_tok += more;
    n->domain->stats.prefix_tok += more;
}

// The child that has these tokens, a block or less, or that can be lengthened to have them. NULL: a
// new one is needed. Without states it may have more tokens.
static vti_node *child_for(const vti_radix *t, const vti_node *parent, const uint32_t *tok,
                           uint32_t n_tok)
{
    uint32_t n_same;
    vti_node *n = vti_child_like(parent, tok, n_tok, &n_same);
    if (!n) return NULL;
    bool is_there = n_same == n_tok, is_shorter = n_same == n->n_tok;
    bool fits = t->geo->has_state ? is_there && is_shorter : is_there || is_shorter;
    return fits ? n : NULL;
}

static uint32_t block_at(const vti_radix *t, const vti_push *push, uint32_t at)
{
    return least_of(t->geo->block_tok, push->end - at);
}

// Where the path leaves others, if its first new node has siblings.
static parting find_parting(const vti_push *push, const vti_node *up, uint32_t at, uint32_t n_tok)
{
    uint32_t n_same = 0;
    if (!vti_child_like(up, push->tok + (at - push->start), n_tok, &n_same)) return (parting){0};
    return (parting){at, at + n_same};
}

// The nodes that a push will need, linked by `child`, so that nothing fails after the first change.
static vt_status make_nodes(const vti_radix *t, const vti_push *push, vti_node **fresh,
                            parting *part)
{
    const vti_node *n = push->from;
    vti_node **end = fresh;
    *fresh = NULL;
    for (uint32_t at = push->start; at < push->end; at += t->geo->block_tok) {
        const vti_node *up = n;
        if (n) n = child_for(t, n, push->tok + (at - push->start), block_at(t, push, at));
        if (n) continue;
        if (up) *part = find_parting(push, up, at, block_at(t, push, at));
        *end = vti_node_new(t, at);
        if (!*end) return VT_ENOMEM;
        end = &(*end)->child;
    }
    return VT_OK;
}

static vti_node *take_fresh(vti_node **fresh)
{
    vti_node *n = *fresh;
    *fresh = n->child;
    n->child = NULL;
    return n;
}

// Where a chunk straddles the border to its parent, the child's holds all rows of the parent's. If
// no sequence uses that one, the parent takes the child's, which saves a chunk.
static void lend_to_parent(vti_radix *t, vti_node *parent, const vti_node *n)
{
    for (uint32_t g = 0; g < t->geo->n_group && !vti_node_is_root(parent); g++) {
        vti_holding up = vti_node_holding(t, parent, g), h = vti_node_holding(t, n, g);
        uint32_t last = up.n - 1;
        bool straddles =
            !t->geo->group[g].is_state && up.n > 0 && h.n > 0 && up.first + last == h.first;
        if (straddles && h.chunk[0] != VTI_NO_CHUNK && up.chunk[last] != VTI_NO_CHUNK &&
            up.chunk[last] != h.chunk[0] && is_unused(t, up.chunk[last]))
            vti_node_set_chunk(t, parent, &up, last, h.chunk[0]);
    }
}

// Makes the block of tokens from `at` on a child of `parent`.
static vti_node *push_block(vti_radix *t, vti_node *parent, const vti_push *push, parting part,
                            uint32_t at, vti_node **fresh)
{
    const uint32_t *tok = push->tok + (at - push->start), n_tok = block_at(t, push, at);
    vti_node *n = child_for(t, parent, tok, n_tok);
    uint32_t was_end = n ? vti_node_end(n) : at;
    uint32_t had_lacked = n && t->events ? vti_node_lacks(t, n) : 0;
    if (!n) {
        n = take_fresh(fresh);
        memcpy(n->room, tok, n_tok * sizeof *tok);
        n->n_tok = n_tok; // it is linked by its tokens
        link_node(t, n, parent);
        n->n_tok = 0;
        count_tokens(t, n, n_tok);
    } else if (n->n_tok < n_tok) {
        // A leaf whose tokens are the first of these gets the rest. No sibling begins with its
        // tokens, so it stays where it is among them.
        memcpy(n->room + n->n_tok, tok + n->n_tok, (n_tok - n->n_tok) * sizeof *tok);
        count_tokens(t, n, n_tok - n->n_tok);
    }
    if (n->n_tok == n_tok) adopt_chunks(t, n, push, part, was_end);
    lend_to_parent(t, parent, n);
    vti_priority_settle(t, n);
    if (was_end < at + n_tok)
        vti_node_note(t, VT_EVENT_RECORDED, n);
    else if (had_lacked != 0 && vti_node_lacks(t, n) != had_lacked)
        vti_node_note(t, VT_EVENT_WINDOW_RECORDED, n);
    return n;
}

void vti_radix_undo_push(vti_radix *t, vti_node *end, const vti_node *from, uint64_t mark)
{
    while (end != from) {
        vti_node *up = end->parent;
        if (end->id > mark) vti_node_remove(t, end);
        end = up;
    }
}

// Keeps a path that is being pushed from being evicted by its own quota.
static bool fits_quota(vt_domain *d, vti_node *end)
{
    vti_radix *t = d->tree;
    vti_node_guard(t, end);
    while (d->held_bytes > d->quota_bytes && vti_radix_evict_in(d)) {
    }
    vti_node_unguard(t, end);
    return d->held_bytes <= d->quota_bytes;
}

// From the end of the path, whose last node may be a leaf without a guard now.
static vti_node *cut_to_quota(vti_radix *t, vti_node *n, const vti_node *from)
{
    vt_domain *d = from->domain;
    while (n != from && !fits_quota(d, n) && !n->child && n->n_guard == 0) {
        vti_node *up = n->parent;
        vti_node_remove(t, n);
        n = up;
    }
    return n;
}

vt_status vti_radix_push(vti_radix *t, const vti_push *push, vti_node **out)
{
    const uint32_t block = t->geo->block_tok;
    parting part = {0};
    vti_node *n = push->from, *fresh;
    VT_TRY(vti_priority_reserve(t, n->domain, (push->end - push->start + block - 1) / block));
    if (make_nodes(t, push, &fresh, &part) != VT_OK) {
        while (fresh) free(take_fresh(&fresh));
        return VT_ENOMEM;
    }
    t->clock++;
    for (uint32_t at = push->start; at < push->end; at += block)
        n = push_block(t, n, push, part, at, &fresh);
    *out = cut_to_quota(t, n, push->from);
    vti_radix_touch(t, *out);
    return VT_OK;
}

void vti_radix_replace(vti_radix *t, vti_node *n, uint32_t group, uint32_t position, uint32_t chunk)
{
    vti_holding h = vti_node_holding(t, n, group);
    assert(position >= h.first && position < h.first + h.n);
    vti_node_set_chunk(t, n, &h, position - h.first, chunk);
}

vti_node *vti_node_within(const vti_radix *t, vti_node *n, uint32_t n_tok)
{
    const vti_geo *g = t->geo;
    for (uint32_t i = 0; i < g->n_group && n->domain; i++)
        while (!g->group[i].is_state && !vti_node_is_root(n) &&
               vti_group_chunks(&g->group[i], vti_node_end(n)) >
                   vti_group_whole(&g->group[i], n_tok))
            n = n->parent;
    return n;
}

// ---- The invariants

// Proves the invariants of radix_node.h. Each function returns the first broken one as text, or
// NULL.

typedef struct tree_census {
    uint64_t n_node, n_tok, pinned_bytes, held_bytes;
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
    HOLDS_ALL(vti_children_wrong(n, t->geo->has_state));
    return vti_priority_wrong(t, n);
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
    size_t place = vti_domain_place(t, d->key, d->key_bytes);
    if (t->n_domain_id < d->id || place == t->n_domain || t->domain[place] != d)
        return "radix tree: a domain that is not found";
    if (d->n_open == 0 && d->root->n_ref == 0 && !d->root->child)
        return "radix tree: an empty domain that is not open";
    HOLDS_ALL(vti_children_wrong(d->root, t->geo->has_state));
    for (const vti_node *n = d->nodes.oldest; n; n = n->newer) {
        HOLDS_ALL(node_wrong(t, n));
        count_node(t, n, c, fn, ctx);
    }
    if (c->n_node - n_node != d->stats.prefix_nodes || c->n_tok - n_tok != d->stats.prefix_tok ||
        c->held_bytes - held != d->held_bytes)
        return "radix tree: a wrong sum over the nodes of a domain";
    if (c->n_place[VTI_IN_DOMAIN] - n_place != d->heap.n)
        return "radix tree: a heap with too many nodes";
    return vti_heap_wrong(&d->heap, VTI_IN_DOMAIN);
}

static const char *sums_wrong(const vti_radix *t, const tree_census *c)
{
    if (c->n_node != t->n_node || c->n_tok != t->n_tok)
        return "radix tree: a wrong sum over the nodes";
    if (c->pinned_bytes != t->pinned_bytes) return "radix tree: a wrong sum of pinned bytes";
    for (vti_order o = VTI_BY_PRIORITY; o < VTI_IN_DOMAIN; o++) {
        if (t->heap[o].n != c->n_place[o]) return "radix tree: a heap with too many nodes";
        HOLDS_ALL(vti_heap_wrong(&t->heap[o], o));
    }
    return NULL;
}

const char *vti_radix_check(const vti_radix *t, void (*fn)(void *ctx, uint32_t chunk, bool is_kept),
                            void *ctx)
{
    tree_census c = {0};
    for (size_t i = 0; i < t->n_domain; i++) HOLDS_ALL(domain_wrong(t->domain[i], &c, fn, ctx));
    return sums_wrong(t, &c);
}
