// rtree.c - rTree: lookup and recording.
//
// The tokens of a domain are cut into blocks, and a path of nodes has a block each. With blocks of
// two tokens, a chunk each, "abcdef" and "abcx" are:
//
//   root - ab - cd - ef           chunks  A0  A1  A2
//            `- cx                            B1
//
// The part of a node that a prefix ends in can be used too: its rows are copied, so a lookup is exact
// to the token. The chunks of a node hold the rows of all tokens of its path that lie in them; where
// a chunk straddles two blocks, both nodes hold it, or each a chunk of its own, and the deeper one's
// counts.
//
// Groups with a window, and states, are held beside: a node may lack them. A lookup goes down the
// path and remembers the longest prefix with which every group can begin: a window needs its last
// tokens, a state needs the end of a node that holds it.
#include "rtree_node.h"

#include <string.h>

#include "vtensor/common/try.h"

static uint32_t least_of(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

// ---- Match

// Going down a path.
typedef struct match_walk {
    const vti_rtree *t;
    vti_node *node;                 // the whole block above
    uint32_t covered[VT_MAX_GROUP]; // a window has all rows from this token on
} match_walk;

// Counts the rows that a node lacks.
static void cover_node(match_walk *w, const vti_node *n)
{
    const vti_geo *g = w->t->geo;
    for (uint32_t i = 0; i < g->n_group; i++) {
        vti_holding h = vti_node_holding(w->t, n, i);
        uint32_t p = h.n;
        if (g->group[i].is_state) continue;
        while (p > 0 && h.chunk[p - 1] != VTI_NO_CHUNK) p--;
        if (p == 0) continue;
        size_t end = (h.first + p) * g->group[i].slice_bytes, stride = g->group[i].stride_bytes;
        w->covered[i] = (uint32_t)((end + stride - 1) / stride);
    }
}

static bool has_state(const vti_rtree *t, const vti_node *n)
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
        if (!g->group[i].is_state && w->covered[i] > vti_group_front_tok(&g->group[i], end))
            return false;
    return !g->has_state || (end == vti_node_end(n) && has_state(w->t, n));
}

static vti_prefix prefix_in(const match_walk *w, vti_node *n, uint32_t end)
{
    bool is_whole = end == n->start + w->t->geo->block_tok;
    return (vti_prefix){is_whole ? n : w->node, n, end};
}

// With states, a shorter child that ends in one may do.
static void try_nested(const match_walk *w, const uint32_t *tok, uint32_t n_tok, vti_prefix *best)
{
    uint32_t start = vti_node_end(w->node);
    for (uint32_t n = n_tok; n > 0; n--) {
        match_walk below = *w;
        vti_node *child = vti_child_find(w->node, tok, n);
        if (!child) continue;
        cover_node(&below, child);
        if (!can_begin(&below, child, start + n)) continue;
        *best = prefix_in(w, child, start + n);
        return;
    }
}

vti_prefix vti_rtree_match(const vt_domain *d, const uint32_t *tok, uint32_t n_tok)
{
    const vti_rtree *t = d->tree;
    const uint32_t block = t->geo->block_tok;
    match_walk w = {.t = t, .node = d->root};
    vti_prefix best = {d->root, d->root, 0};
    for (uint32_t at = 0, n_same = block; at < n_tok && n_same == block; at += n_same) {
        uint32_t n = least_of(block, n_tok - at);
        if (t->geo->has_state) try_nested(&w, tok + at, n, &best);
        vti_node *child = vti_child_like(w.node, tok + at, n, &n_same);
        if (!child || n_same == 0) break;
        cover_node(&w, child);
        if (can_begin(&w, child, at + n_same)) best = prefix_in(&w, child, at + n_same);
        w.node = child;
    }
    return best;
}

void vti_rtree_chunks(const vti_rtree *t, vti_prefix prefix, uint32_t *const *at)
{
    for (uint32_t g = 0; g < t->geo->n_group; g++) {
        const vti_group *gr = &t->geo->group[g];
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

static bool is_unused(const vti_rtree *t, uint32_t chunk)
{
    return chunk != VTI_NO_CHUNK && vti_pset_state(t->pset, chunk) == VT_CHUNK_CACHED;
}

// The node takes the pushed chunks where it has none, or one that no sequence uses.
static void adopt_chunks(vti_rtree *t, vti_node *n, const vti_push *push, bool replace_all)
{
    for (uint32_t g = 0; g < t->geo->n_group; g++) {
        vti_holding h = vti_node_holding(t, n, g);
        bool skip = t->geo->group[g].is_state && !(push->has_state && vti_node_end(n) == push->end);
        for (uint32_t i = 0; i < h.n && !skip; i++) {
            uint32_t new = push->at[g][h.first + i], old = h.chunk[i];
            if (new == VTI_NO_CHUNK || new == old) continue;
            if (old != VTI_NO_CHUNK && !replace_all && !is_unused(t, old)) continue;
            vti_node_set_chunk(t, n, &h, i, new);
            n->has_beside |= h.is_beside;
        }
    }
}

static void link_node(vti_rtree *t, vti_node *n, vti_node *parent)
{
    vt_domain *d = parent->domain;
    n->parent = parent;
    n->domain = d;
    n->id = ++t->n_id;
    n->weight = n->id * UINT64_C(0x9e3779b97f4a7c15) ^ n->id >> 7;
    n->used = t->clock;
    vti_child_add(parent, n);
    vti_list_append(&d->nodes, n, offsetof(vti_node, made));
    vti_worth_settle(t, parent);
    t->n_node++;
    d->stats.prefix_nodes++;
}

static void count_tokens(vti_rtree *t, vti_node *n, uint32_t more)
{
    n->n_tok += more;
    t->n_tok += more;
    n->domain->stats.prefix_tok += more;
}

// A new child with these tokens, or NULL.
static vti_node *add_child(vti_rtree *t, vti_node *parent, const uint32_t *tok, uint32_t n_tok)
{
    vti_node *n = vti_node_new(t, vti_node_end(parent));
    if (!n) return NULL;
    memcpy(n->room, tok, n_tok * sizeof *tok);
    n->n_tok = n_tok; // linked by its tokens
    link_node(t, n, parent);
    n->n_tok = 0;
    count_tokens(t, n, n_tok);
    return n;
}

// A leaf whose tokens are the first of these gets the others. No sibling begins with its tokens, so
// it stays where it is among them.
static void lengthen_leaf(vti_rtree *t, vti_node *n, const uint32_t *tok, uint32_t n_tok)
{
    memcpy(n->room + n->n_tok, tok + n->n_tok, (n_tok - n->n_tok) * sizeof *tok);
    count_tokens(t, n, n_tok - n->n_tok);
}

// Makes tok[0 .. n_tok), a block or less, a child of `parent`. *out NULL: no memory.
static void push_block(vti_rtree *t, vti_node *parent, const uint32_t *tok, uint32_t n_tok,
                       const vti_push *push, vti_node **out)
{
    uint32_t n_same;
    vti_node *n = vti_child_like(parent, tok, n_tok, &n_same);
    bool is_same = n && n_same == n_tok && n->n_tok == n_tok;
    bool is_there = n && n_same == n_tok && !t->geo->has_state; // n may have more tokens
    bool is_shorter = n && n_same == n->n_tok && !t->geo->has_state;
    if (!is_same && !is_there && is_shorter)
        lengthen_leaf(t, n, tok, n_tok);
    else if (!is_same && !is_there)
        n = add_child(t, parent, tok, n_tok);
    *out = n;
    if (!n) return;
    bool is_new = !is_same && !is_there;
    if (is_same || is_new) adopt_chunks(t, n, push, is_new);
    vti_worth_settle(t, n);
    if (!is_new) return;
    vti_node_note(t, VT_EVENT_RECORDED, n);
}

uint64_t vti_rtree_mark(const vti_rtree *t)
{
    return t->n_id;
}

void vti_rtree_undo_push(vti_rtree *t, vti_node *end, const vti_node *from, uint64_t mark)
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
    vti_rtree *t = d->tree;
    vti_node_guard(t, end);
    while (d->held_bytes > d->quota_bytes && vti_rtree_evict_in(d)) {
    }
    vti_node_unguard(t, end);
    return d->held_bytes <= d->quota_bytes;
}

// From the end of the path, whose last node may be a leaf without a guard now.
static vti_node *cut_to_quota(vti_rtree *t, vti_node *n, const vti_node *from)
{
    vt_domain *d = from->domain;
    while (n != from && !fits_quota(d, n) && !n->child && n->n_guard == 0) {
        vti_node *up = n->parent;
        vti_node_remove(t, n);
        n = up;
    }
    return n;
}

vt_status vti_rtree_push(vti_rtree *t, const vti_push *push, vti_node **out)
{
    const uint32_t block = t->geo->block_tok;
    vti_node *n = push->from, *next = n;
    uint64_t mark = vti_rtree_mark(t);
    VT_TRY(vti_worth_reserve(t, n->domain, (push->end - push->start + block - 1) / block));
    t->clock++;
    for (uint32_t at = push->start; at < push->end; at += block, n = next) {
        uint32_t n_tok = least_of(block, push->end - at);
        push_block(t, n, push->tok + (at - push->start), n_tok, push, &next);
        if (next) continue;
        vti_rtree_undo_push(t, n, push->from, mark);
        return VT_ENOMEM;
    }
    *out = cut_to_quota(t, n, push->from);
    vti_rtree_touch(t, *out);
    return VT_OK;
}

uint32_t vti_node_end_tok(const vti_node *n)
{
    return vti_node_end(n);
}

bool vti_rtree_replace(vti_rtree *t, vti_node *n, uint32_t group, uint32_t position, uint32_t from,
                       uint32_t to)
{
    vti_holding h = vti_node_holding(t, n, group);
    if (position < h.first || position >= h.first + h.n) return false;
    if (h.chunk[position - h.first] != from) return false;
    vti_node_set_chunk(t, n, &h, position - h.first, to);
    return true;
}
