// treap.c - see treap.h (Seidel, Aragon: Randomized Search Trees, Algorithmica 1996): in order from
// left to right, and no node weighs more than the one above it.
#include "base/keyed/treap.h"

// The last steps of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
// OOPSLA 2014). Never 0.
static uint64_t next_weight(fxi_treap *t)
{
    uint64_t z = t->seed + ++t->n_added * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) | 1;
}

static fxi_treap_node **link_to(fxi_treap *t, const fxi_treap_node *n)
{
    fxi_treap_node *up = n->up;
    return !up ? &t->root : up->left == n ? &up->left : &up->right;
}

// n takes the place of the node above it, which becomes its child.
static void rotate_up(fxi_treap *t, fxi_treap_node *n)
{
    fxi_treap_node *up = n->up;
    const bool is_left = up->left == n;
    fxi_treap_node **inner = is_left ? &n->right : &n->left;
    *link_to(t, up) = n;
    n->up = up->up;
    *(is_left ? &up->left : &up->right) = *inner;
    if (*inner) (*inner)->up = up;
    *inner = up;
    up->up = n;
}

// Where n is to hang: below *up.
static fxi_treap_node **hang_at(fxi_treap *t, const fxi_treap_node *n, fxi_treap_node **up)
{
    fxi_treap_node **at = &t->root;
    *up = t->last;
    if (t->last && !t->before(n, t->last)) return &t->last->right;
    while (*at) {
        *up = *at;
        at = t->before(n, *up) ? &(*up)->left : &(*up)->right;
    }
    return at;
}

void fxi_treap_add(fxi_treap *t, fxi_treap_node *n)
{
    fxi_treap_node *up, **at = hang_at(t, n, &up);
    *n = (fxi_treap_node){.up = up, .weight = next_weight(t)};
    if (!up || at == &t->last->right) t->last = n;
    *at = n;
    while (n->up && n->up->weight < n->weight) rotate_up(t, n);
}

void fxi_treap_remove(fxi_treap *t, fxi_treap_node *n)
{
    if (t->last == n) t->last = fxi_treap_prev(n);
    while (n->left && n->right)
        rotate_up(t, n->left->weight > n->right->weight ? n->left : n->right);
    fxi_treap_node *child = n->left ? n->left : n->right;
    *link_to(t, n) = child;
    if (child) child->up = n->up;
    *n = (fxi_treap_node){0};
}

fxi_treap_node *fxi_treap_first(const fxi_treap *t)
{
    fxi_treap_node *n = t->root;
    while (n && n->left) n = n->left;
    return n;
}

fxi_treap_node *fxi_treap_last(const fxi_treap *t)
{
    return t->last;
}

fxi_treap_node *fxi_treap_next(const fxi_treap_node *n)
{
    if (!n->right) {
        while (n->up && n->up->right == n) n = n->up;
        return n->up;
    }
    n = n->right;
    while (n->left) n = n->left;
    return (fxi_treap_node *)n;
}

fxi_treap_node *fxi_treap_prev(const fxi_treap_node *n)
{
    if (!n->left) {
        while (n->up && n->up->left == n) n = n->up;
        return n->up;
    }
    n = n->left;
    while (n->right) n = n->right;
    return (fxi_treap_node *)n;
}

fxi_treap_node *fxi_treap_find(const fxi_treap *t, const fxi_treap_node *key)
{
    fxi_treap_node *found = NULL, *n = t->root;
    while (n) {
        const bool is_before = t->before(n, key);
        if (!is_before) found = n;
        n = is_before ? n->right : n->left;
    }
    return found;
}
