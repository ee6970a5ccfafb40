// vocab_trie.c - builds a trie in breadth-first order from sorted keys.
//
// A node is a range of the sorted keys that share a prefix. Its children, the ranges whose prefix
// is one byte longer, are adjacent, ascending by that byte.
#include "format/vocab/lookup/vocab_trie.h"

#include <stdlib.h>

static int compare_entries(const void *a, const void *b)
{
    const fxi_trie_entry *x = a, *y = b;
    int order = fxi_str_compare(x->key, y->key);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

typedef struct key_range {
    size_t lo, hi; // of the entries
} key_range;

typedef struct trie_maker {
    fxi_trie *t;
    const fxi_trie_entry *e;
    key_range *of; // [cap] the keys of a node
    size_t cap;
} trie_maker;

static bool reserve_nodes(trie_maker *m, size_t n)
{
    if (n <= m->cap) return true;
    size_t cap = m->cap ? 2 * m->cap : 256;
    fxi_trie_node *node = realloc(m->t->node, cap * sizeof *node);
    if (node) m->t->node = node;
    uint8_t *label = realloc(m->t->label, cap * sizeof *label);
    if (label) m->t->label = label;
    key_range *of = realloc(m->of, cap * sizeof *of);
    if (of) m->of = of;
    if (!node || !label || !of) return false;
    m->cap = cap;
    return true;
}

static bool add_node(trie_maker *m, key_range of, uint8_t label)
{
    if (m->t->n == UINT32_MAX || !reserve_nodes(m, (size_t)m->t->n + 1)) return false;
    m->t->node[m->t->n] = (fxi_trie_node){.id = -1};
    m->t->label[m->t->n] = label;
    m->of[m->t->n++] = of;
    return true;
}

// Adds the children of node i, whose keys share `depth` bytes.
static bool add_children(trie_maker *m, uint32_t i, size_t depth)
{
    key_range r = m->of[i];
    uint32_t first = m->t->n;
    for (; r.lo < r.hi && m->e[r.lo].key.n == depth; r.lo++) m->t->node[i].id = m->e[r.lo].id;
    while (r.lo < r.hi) {
        char byte = m->e[r.lo].key.p[depth];
        size_t end = r.lo;
        while (end < r.hi && m->e[end].key.p[depth] == byte) end++;
        if (!add_node(m, (key_range){r.lo, end}, (uint8_t)byte)) return false;
        r.lo = end;
    }
    m->t->node[i].child = first;
    m->t->node[i].n_child = (uint16_t)(m->t->n - first);
    return true;
}

bool fxi_trie_make(fxi_trie *t, fxi_trie_entry *e, size_t n)
{
    size_t n_empty = 0;
    *t = (fxi_trie){0};
    qsort(e, n, sizeof *e, compare_entries);
    while (n_empty < n && !e[n_empty].key.n) n_empty++;
    trie_maker m = {.t = t, .e = e};
    bool ok = add_node(&m, (key_range){n_empty, n}, 0);
    uint32_t level_end = 1;
    for (uint32_t i = 0, depth = 0; ok && i < t->n; i++) {
        if (i == level_end) {
            depth++;
            level_end = t->n;
        }
        ok = add_children(&m, i, depth);
    }
    free(m.of);
    if (ok)
        for (uint32_t i = 0; i < t->node[0].n_child; i++) t->root[t->label[1 + i]] = 1 + i;
    else
        fxi_trie_free(t);
    return ok;
}

void fxi_trie_free(fxi_trie *t)
{
    free(t->node);
    free(t->label);
    *t = (fxi_trie){0};
}
