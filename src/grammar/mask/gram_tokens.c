// gram_tokens.c - sorts the tokens by their bytes and opens a node for each byte by which a token
// goes beyond what it shares with the one before.
#include "grammar/mask/gram_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "base/system/grow.h"

typedef struct token_key {
    fxi_str bytes;
    uint32_t id;
} token_key;

typedef struct trie_growth {
    fxi_gram_tokens *t;
    uint32_t *open; // [max_depth] the node at each depth on the way to the last token
    size_t depth, cap;
} trie_growth;

static int compare_tokens_by_bytes(const void *a, const void *b)
{
    const token_key *x = a, *y = b;
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

static bool open_token(trie_growth *m, const token_key *k, fxi_str before)
{
    fxi_gram_tokens *t = m->t;
    close_nodes(m, shared_bytes(before, k->bytes));
    while (m->depth < k->bytes.n) {
        if (!fxi_grow(&t->node, sizeof *t->node, t->n_node, &m->cap)) return false;
        t->node[t->n_node] = (fxi_token_node){.id = (uint32_t)t->n_id,
                                              .depth = (uint16_t)(m->depth + 1),
                                              .byte = (uint8_t)k->bytes.p[m->depth]};
        m->open[m->depth++] = (uint32_t)t->n_node++;
    }
    t->node[m->open[m->depth - 1]].n_id++;
    t->id[t->n_id++] = k->id;
    return true;
}

static bool grow_trie(fxi_gram_tokens *t, const token_key *k, size_t n)
{
    trie_growth m = {.t = t, .open = calloc(t->max_depth + 1, sizeof *m.open)};
    bool ok = m.open != NULL;
    for (size_t i = 0; ok && i < n; i++)
        ok = open_token(&m, &k[i], i ? k[i - 1].bytes : (fxi_str){0});
    if (ok) close_nodes(&m, 0);
    free(m.open);
    return ok;
}

static bool keep_bytes(fxi_gram_tokens *t, const fxi_str *token, size_t n_bytes)
{
    t->text = malloc(n_bytes + 1);
    t->at = calloc(t->n_vocab + 1, sizeof *t->at);
    if (!t->text || !t->at) return false;
    for (size_t i = 0; i < t->n_vocab; i++) {
        if (token[i].n) memcpy(t->text + t->at[i], token[i].p, token[i].n);
        t->at[i + 1] = t->at[i] + (uint32_t)token[i].n;
    }
    return true;
}

static bool make_token_trie(fxi_gram_tokens *t, const fxi_str *token)
{
    size_t n = 0;
    token_key *k = calloc(t->n_vocab + 1, sizeof *k);
    t->id = calloc(t->n_vocab + 1, sizeof *t->id);
    bool ok = k && t->id;
    for (size_t i = 0; ok && i < t->n_vocab; i++) {
        if (!token[i].n || token[i].n > UINT16_MAX) continue;
        if (token[i].n > t->max_depth) t->max_depth = token[i].n;
        k[n++] = (token_key){token[i], (uint32_t)i};
    }
    if (ok) qsort(k, n, sizeof *k, compare_tokens_by_bytes);
    ok = ok && grow_trie(t, k, n);
    free(k);
    return ok;
}

fx_status fxi_gram_tokens_make(fxi_gram_tokens *t, const fxi_str *token, size_t n_vocab,
                               fx_error *err)
{
    size_t n_bytes = 0;
    *t = (fxi_gram_tokens){.n_vocab = n_vocab};
    for (size_t i = 0; i < n_vocab; i++) {
        if (token[i].n > UINT32_MAX - n_bytes)
            return fxi_fail(err, FX_EINVAL, "the tokens have 4 GiB or more");
        n_bytes += token[i].n;
    }
    if (keep_bytes(t, token, n_bytes) && make_token_trie(t, token)) return FX_OK;
    fxi_gram_tokens_free(t);
    return fxi_fail(err, FX_ENOMEM, "out of memory");
}

void fxi_gram_tokens_free(fxi_gram_tokens *t)
{
    free(t->node);
    free(t->id);
    free(t->text);
    free(t->at);
    *t = (fxi_gram_tokens){0};
}
