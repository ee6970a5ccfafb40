// gram_trie.c - sorts strings by their bytes, and opens a node for each byte by which a string goes
// beyond what it shares with the one before.
#include "grammar/mask/gram_trie.h"

#include <stdlib.h>
#include <string.h>

#include "base/system/grow.h"

typedef struct trie_growth {
    fxi_token_trie *t;
    uint32_t *open; // [max_depth] the node at each depth on the way to the last string
    size_t depth, cap;
} trie_growth;

static int compare_trie_keys(const void *a, const void *b)
{
    const fxi_token_key *x = a, *y = b;
    const int order = fxi_str_compare(x->bytes, y->bytes);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

static size_t shared_bytes(fxi_str a, fxi_str b)
{
    size_t n = 0;
    while (n < a.n && n < b.n && a.p[n] == b.p[n]) n++;
    return n;
}

static void close_nodes(trie_growth *m, size_t depth)
{
    while (m->depth > depth) m->t->node[m->open[--m->depth]].end = (uint32_t)m->t->n_node;
}

static bool open_key(trie_growth *m, const fxi_token_key *k, fxi_str before)
{
    fxi_token_trie *t = m->t;
    close_nodes(m, shared_bytes(before, k->bytes));
    while (m->depth < k->bytes.n) {
        if (!fxi_grow(&t->node, sizeof *t->node, t->n_node, &m->cap)) return false;
        t->node[t->n_node] = (fxi_token_node){.id = (uint32_t)t->n_id,
                                              .depth = (uint16_t)(m->depth + 1),
                                              .byte = (uint8_t)k->bytes.p[m->depth]};
        if (!m->depth) t->root[t->node[t->n_node].byte] = (uint32_t)t->n_node;
        m->open[m->depth++] = (uint32_t)t->n_node++;
    }
    t->node[m->open[m->depth - 1]].n_id++;
    t->id[t->n_id++] = k->id;
    return true;
}

bool fxi_token_trie_make(fxi_token_trie *t, fxi_token_key *key, size_t n)
{
    size_t max_depth = 1;
    for (size_t i = 0; i < n; i++)
        if (key[i].bytes.n > max_depth) max_depth = key[i].bytes.n;
    if (n) qsort(key, n, sizeof *key, compare_trie_keys);
    *t = (fxi_token_trie){.id = calloc(n + 1, sizeof *t->id)};
    memset(t->root, 0xff, sizeof t->root);
    trie_growth m = {.t = t, .open = calloc(max_depth, sizeof *m.open)};
    bool ok = t->id && m.open;
    for (size_t i = 0; ok && i < n; i++)
        ok = open_key(&m, &key[i], i ? key[i - 1].bytes : (fxi_str){0});
    if (ok) close_nodes(&m, 0);
    free(m.open);
    return ok;
}

void fxi_token_trie_free(fxi_token_trie *t)
{
    free(t->node);
    free(t->id);
    *t = (fxi_token_trie){0};
}
