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
    return n->up ? &n->up->child[n->up->child[1] == n] : &t->root;
}

// n takes the place of the node above it, which becomes its child.
static void rotate_up(fxi_treap *t, fxi_treap_node *n)
{
    fxi_treap_node *up = n->up;
    const bool side = up->child[1] == n;
    fxi_treap_node **inner = &n->child[!side];
    *link_to(t, up) = n;
    n->up = up->up;
    up->child[side] = *inner;
    if (*inner) (*inner)->up = up;
    *inner = up;
    up->up = n;
}

void fxi_treap_add(fxi_treap *t, fxi_treap_node *n)
{
    fxi_treap_node *up = NULL, **at = &t->root;
    if (t->last && !t->before(n, t->last)) {
        up = t->last;
        at = &up->child[1];
    }
    while (*at) {
        up = *at;
        at = &up->child[!t->before(n, up)];
    }
    *n = (fxi_treap_node){.up = up, .weight = next_weight(t)};
    if (!up || at == &t->last->child[1]) t->last = n;
    *at = n;
    while (n->up && n->up->weight < n->weight) rotate_up(t, n);
}

void fxi_treap_remove(fxi_treap *t, fxi_treap_node *n)
{
    if (t->last == n) t->last = fxi_treap_prev(n);
    while (n->child[0] && n->child[1])
        rotate_up(t, n->child[n->child[0]->weight <= n->child[1]->weight]);
    fxi_treap_node *child = n->child[0] ? n->child[0] : n->child[1];
    *link_to(t, n) = child;
    if (child) child->up = n->up;
    *n = (fxi_treap_node){0};
}

static fxi_treap_node *outermost_node(fxi_treap_node *n, bool side)
{
    while (n && n->child[side]) n = n->child[side];
    return n;
}

static fxi_treap_node *next_on_side(const fxi_treap_node *n, bool side)
{
    if (n->child[side]) return outermost_node(n->child[side], !side);
    while (n->up && n->up->child[side] == n) n = n->up;
    return n->up;
}

fxi_treap_node *fxi_treap_first(const fxi_treap *t)
{
    return outermost_node(t->root, 0);
}

fxi_treap_node *fxi_treap_last(const fxi_treap *t)
{
    return t->last;
}

fxi_treap_node *fxi_treap_next(const fxi_treap_node *n)
{
    return next_on_side(n, 1);
}

fxi_treap_node *fxi_treap_prev(const fxi_treap_node *n)
{
    return next_on_side(n, 0);
}

fxi_treap_node *fxi_treap_find(const fxi_treap *t, const fxi_treap_node *key)
{
    fxi_treap_node *found = NULL, *n = t->root;
    while (n) {
        const bool is_before = t->before(n, key);
        if (!is_before) found = n;
        n = n->child[is_before];
    }
    return found;
}
