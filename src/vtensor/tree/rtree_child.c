// rtree_child.c - the children of a node: a treap ordered by their tokens, a shorter one before a
// longer one that begins with it. Of all children, one next to the place where some tokens belong
// has the most in common with them, so a search passes it.
#include "rtree_node.h"

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
    vti_node *n = parent->child;
    for (int side; n && (side = compare_tokens(tok, n_tok, n, &same)) != 0;)
        n = side < 0 ? n->left : n->right;
    return n;
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

// ---- What goes on with some tokens

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

// ---- Changes

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

// ---- Check

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
    const char *wrong = walk_children(parent, n->left, may_nest, w);
    if (wrong) return wrong;
    if (n->parent != parent) return "rtree: a child of another parent";
    if (w->before) {
        if (compare_tokens(n->room, n->n_tok, w->before, &same) <= 0)
            return "rtree: children out of order";
        if (!may_nest && same == w->before->n_tok)
            return "rtree: a child that begins with another one";
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
    const char *wrong = walk_children(parent, parent->child, may_nest, &w);
    if (wrong) return wrong;
    if (w.n_seen != parent->n_child) return "rtree: a wrong count of children";
    if (parent->n_guard != (parent->n_ref > 0) + (uint32_t)parent->keep.pinned + w.n_guarded)
        return "rtree: a wrong count of guards";
    bool is_right = parent->n_pin == (uint32_t)parent->keep.pinned + w.n_pinned;
    return is_right ? NULL : "rtree: a wrong count of pins";
}
