// radix_node.c - the nodes of the tree as data: the chunks that they hold, and the children
// of a node. Nothing here depends on the order of eviction.
//
// The children of a node are a treap ordered by their tokens, a shorter one before a longer one
// that begins with it. The child with the most tokens in common with a key is next to the place
// where the key belongs, so a search passes it.
#include "radix_node.h"

#include <stdlib.h>

// How many positions of a lane a block that begins at `start` may touch.
static uint32_t room_of(const vti_geo *g, const vti_lane_geo *gr, uint32_t start)
{
    if (gr->is_state) return gr->n_position;
    uint32_t left = g->max_tok - start, n_tok = left < g->block_tok ? left : g->block_tok;
    return vti_group_chunks(gr, start + n_tok) - vti_group_whole(gr, start);
}

vti_node *vti_node_new(const vti_radix *t, uint32_t start)
{
    const vti_geo *g = t->geo;
    size_t n_room = g->block_tok;
    for (uint32_t i = 0; i < g->n_group; i++) n_room += room_of(g, &g->group[i], start);
    vti_node *n = calloc(1, sizeof *n + n_room * sizeof n->room[0]);
    if (!n) return NULL;
    n->start = start;
    for (size_t i = g->block_tok; i < n_room; i++) n->room[i] = VTI_NO_CHUNK;
    return n;
}

vti_holding vti_node_holding(const vti_radix *t, const vti_node *n, uint32_t group)
{
    const vti_geo *g = t->geo;
    const vti_lane_geo *gr = &g->group[group];
    size_t at = g->block_tok;
    for (uint32_t i = 0; i < group; i++) at += room_of(g, &g->group[i], n->start);
    uint32_t first = vti_group_whole(gr, n->start);
    return (vti_holding){
        .chunk = (uint32_t *)n->room + at,
        .first = first,
        .n = vti_node_is_root(n) ? 0 : vti_group_chunks(gr, vti_node_end(n)) - first,
        .is_window = gr->is_state || gr->window_tok > 0,
    };
}

uint64_t vti_node_bytes(const vti_radix *t, const vti_node *n)
{
    uint64_t bytes = 0;
    for (uint32_t g = 0; g < t->geo->n_group; g++) {
        vti_holding h = vti_node_holding(t, n, g);
        for (uint32_t i = 0; i < h.n; i++)
            if (h.chunk[i] != VTI_NO_CHUNK) bytes += t->geo->group[g].chunk_bytes;
    }
    return bytes;
}

static size_t bytes_of(const vti_radix *t, uint32_t chunk)
{
    return t->pset->cls[vti_pset_class(t->pset, chunk)].chunk_bytes;
}

void vti_node_set_chunk(vti_radix *t, vti_node *n, const vti_holding *h, uint32_t i, uint32_t chunk)
{
    uint32_t old = h->chunk[i];
    bool kept = h->is_window ? n->n_pin > 0 : n->n_guard > 0;
    if (chunk != VTI_NO_CHUNK) {
        vti_pset_node_hold(t->pset, chunk, kept);
        n->domain->held_bytes += bytes_of(t, chunk);
        if (n->n_pin > 0) t->pinned_bytes += bytes_of(t, chunk);
    }
    h->chunk[i] = chunk;
    if (old == VTI_NO_CHUNK) return;
    vti_pset_node_drop(t->pset, old, kept);
    n->domain->held_bytes -= bytes_of(t, old);
    if (n->n_pin > 0) t->pinned_bytes -= bytes_of(t, old);
}

// From the last position down, so that the pool hands them out in ascending order.
void vti_node_drop_all(vti_radix *t, vti_node *n, bool windows_only)
{
    for (uint32_t g = t->geo->n_group; g-- > 0;) {
        vti_holding h = vti_node_holding(t, n, g);
        for (uint32_t i = h.n; i-- > 0 && (h.is_window || !windows_only);)
            if (h.chunk[i] != VTI_NO_CHUNK) vti_node_set_chunk(t, n, &h, i, VTI_NO_CHUNK);
    }
}

void vti_node_keep_all(vti_radix *t, vti_node *n, bool windows, bool kept)
{
    for (uint32_t g = 0; g < t->geo->n_group; g++) {
        vti_holding h = vti_node_holding(t, n, g);
        for (uint32_t i = 0; i < h.n && h.is_window == windows; i++)
            if (h.chunk[i] != VTI_NO_CHUNK) vti_pset_node_keep(t->pset, h.chunk[i], kept);
    }
}

bool vti_node_holds_windows(const vti_radix *t, const vti_node *n)
{
    for (uint32_t g = 0; g < t->geo->n_group; g++) {
        vti_holding h = vti_node_holding(t, n, g);
        for (uint32_t i = 0; i < h.n && h.is_window; i++)
            if (h.chunk[i] != VTI_NO_CHUNK) return true;
    }
    return false;
}

// Looks at the chunks of a window that a token after the node needs, and at all of a state.
uint32_t vti_node_lacks(const vti_radix *t, const vti_node *n)
{
    uint32_t lacks = 0;
    for (uint32_t g = 0; g < t->geo->n_group; g++) {
        vti_holding h = vti_node_holding(t, n, g);
        uint32_t front = vti_group_passed(&t->geo->group[g], vti_node_end(n));
        for (uint32_t i = front > h.first ? front - h.first : 0; i < h.n && h.is_window; i++)
            if (h.chunk[i] == VTI_NO_CHUNK) lacks |= UINT32_C(1) << g;
    }
    return lacks;
}

// ---- Children

static uint32_t common_length(const uint32_t *a, const uint32_t *b, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

// Whether tok belongs before (< 0) or after (> 0) the node, or is the same (0).
static int compare_tokens(const uint32_t *tok, uint32_t n_tok, const vti_node *n, uint32_t *n_same)
{
    uint32_t least = n_tok < n->n_tok ? n_tok : n->n_tok;
    *n_same = common_length(tok, n->room, least);
    if (*n_same < least) return tok[*n_same] < n->room[*n_same] ? -1 : 1;
    return (n_tok > n->n_tok) - (n_tok < n->n_tok);
}

vti_node *vti_child_like(const vti_node *parent, const uint32_t *tok, uint32_t n_tok,
                         uint32_t *n_same)
{
    vti_node *best = NULL;
    int side = 1;
    *n_same = 0;
    for (vti_node *n = parent->child; n && side != 0; n = side < 0 ? n->left : n->right) {
        uint32_t same;
        side = compare_tokens(tok, n_tok, n, &same);
        if (best && side != 0 && same <= *n_same) continue;
        best = n;
        *n_same = same;
    }
    return best;
}

vti_node *vti_child_find(const vti_node *parent, const uint32_t *tok, uint32_t n_tok)
{
    uint32_t same;
    vti_node *n = vti_child_like(parent, tok, n_tok, &same);
    return n && same == n_tok && n->n_tok == n_tok ? n : NULL;
}

vti_node *vti_child_upto(const vti_node *parent, const uint32_t *tok, uint32_t n_tok,
                         uint32_t *n_same)
{
    vti_node *best = NULL;
    int side = 1;
    for (vti_node *n = parent->child; n && side != 0; n = side < 0 ? n->left : n->right) {
        uint32_t same;
        side = compare_tokens(tok, n_tok, n, &same);
        if (side < 0) continue;
        best = n;
        *n_same = same;
    }
    return best;
}

// ---- What continues some tokens

enum { MOST_LOOKS = 256 };

typedef struct latest_look {
    vti_node *best;
    uint32_t n_left; // nodes that may still be looked at
} latest_look;

// Those that begin with tok are neighbours in the order of the children.
static void look_for_latest(vti_node *n, const uint32_t *tok, uint32_t n_tok, latest_look *look)
{
    if (!n || look->n_left == 0) return;
    look->n_left--;
    const uint32_t least = n_tok < n->n_tok ? n_tok : n->n_tok;
    const uint32_t same = common_length(tok, n->room, least);
    const bool begins = same == n_tok, is_before = same < least && tok[same] < n->room[same];
    if (begins && n->n_tok > n_tok && (!look->best || n->id > look->best->id)) look->best = n;
    if (begins || is_before) look_for_latest(n->left, tok, n_tok, look);
    if (begins || !is_before) look_for_latest(n->right, tok, n_tok, look);
}

vti_node *vti_child_latest(const vti_node *parent, const uint32_t *tok, uint32_t n_tok)
{
    latest_look look = {.n_left = MOST_LOOKS};
    look_for_latest(parent->child, tok, n_tok, &look);
    return look.best;
}

// ---- Changing the children

// Divides the treap at the tokens of n.
static void split_at(vti_node *root, const vti_node *n, vti_node **before, vti_node **after)
{
    uint32_t same;
    for (; root;
         root = compare_tokens(n->room, n->n_tok, root, &same) < 0 ? root->left : root->right)
        if (compare_tokens(n->room, n->n_tok, root, &same) < 0) {
            *after = root;
            after = &root->left;
        } else {
            *before = root;
            before = &root->right;
        }
    *before = *after = NULL;
}

static vti_node *join_trees(vti_node *a, vti_node *b)
{
    vti_node *root = NULL, **at = &root;
    while (a && b)
        if (a->weight > b->weight) {
            *at = a;
            at = &a->right;
            a = a->right;
        } else {
            *at = b;
            at = &b->left;
            b = b->left;
        }
    *at = a ? a : b;
    return root;
}

static vti_node **place_of(vti_node *parent, const vti_node *n)
{
    vti_node **at = &parent->child;
    uint32_t same;
    while (*at && *at != n && (*at)->weight >= n->weight)
        at = compare_tokens(n->room, n->n_tok, *at, &same) < 0 ? &(*at)->left : &(*at)->right;
    return at;
}

void vti_child_add(vti_node *parent, vti_node *n)
{
    vti_node **at = place_of(parent, n);
    split_at(*at, n, &n->left, &n->right);
    *at = n;
    parent->n_child++;
}

void vti_child_remove(vti_node *parent, vti_node *n)
{
    vti_node **at = place_of(parent, n);
    assert(*at == n);
    *at = join_trees(n->left, n->right);
    n->left = n->right = NULL;
    parent->n_child--;
}

// ---- Checking the children

typedef struct child_walk {
    const vti_node *before;
    uint32_t n_seen, n_guarded, n_pinned;
} child_walk;

// Depth grows with the logarithm of the number of children.
static const char *walk_children(const vti_node *parent, const vti_node *n, bool may_nest,
                                 child_walk *w)
{
    uint32_t same;
    if (!n) return NULL;
    HOLDS_ALL(walk_children(parent, n->left, may_nest, w));
    if (n->parent != parent) return "radix tree: a child of another parent";
    if (w->before) {
        if (compare_tokens(n->room, n->n_tok, w->before, &same) <= 0)
            return "radix tree: children out of order";
        if (!may_nest && same == w->before->n_tok)
            return "radix tree: a child that begins with another one";
    }
    w->before = n;
    w->n_seen++;
    w->n_guarded += n->n_guard > 0;
    w->n_pinned += n->n_pin > 0;
    return walk_children(parent, n->right, may_nest, w);
}

const char *vti_children_wrong(const vti_node *parent, bool may_nest)
{
    child_walk w = {0};
    HOLDS_ALL(walk_children(parent, parent->child, may_nest, &w));
    if (w.n_seen != parent->n_child) return "radix tree: a wrong count of children";
    if (parent->n_guard != (parent->n_ref > 0) + (uint32_t)parent->keep.pinned + w.n_guarded)
        return "radix tree: a wrong count of guards";
    bool is_right = parent->n_pin == (uint32_t)parent->keep.pinned + w.n_pinned;
    return is_right ? NULL : "radix tree: a wrong count of pins";
}
