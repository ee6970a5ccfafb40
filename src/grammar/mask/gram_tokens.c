// gram_tokens.c - deals the tokens out to slices, sorts them by their bytes, and opens a node for
// each byte by which a token goes beyond what it shares with the one before.
#include "grammar/mask/gram_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "base/system/grow.h"
#include "base/text/utf8.h"

typedef struct token_key {
    fxi_str bytes;
    uint32_t id;
} token_key;

typedef struct trie_growth {
    fxi_token_slice *t;
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
    fxi_token_slice *t = m->t;
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

static bool grow_trie(fxi_token_slice *t, size_t max_depth, const token_key *k, size_t n)
{
    trie_growth m = {.t = t, .open = calloc(max_depth + 1, sizeof *m.open)};
    bool ok = m.open != NULL;
    for (size_t i = 0; ok && i < n; i++)
        ok = open_token(&m, &k[i], i ? k[i - 1].bytes : (fxi_str){0});
    if (ok) close_nodes(&m, 0);
    free(m.open);
    return ok;
}

// ---- slices -------------------------------------------------------------------------------------

static bool is_lower(uint8_t c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_capital(uint8_t c)
{
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Characters that may stand in a JSON string as they are.
static bool is_string_char(uint8_t c)
{
    return c >= ' ' && c < 0x80 && c != '"' && c != '\\';
}

bool fxi_slice_has(size_t slice, uint8_t ascii)
{
    switch (slice) {
    case 0: return is_lower(ascii);
    case 1: return is_capital(ascii);
    case 2: return is_lower(ascii) || is_capital(ascii);
    case 3:
    case 4: return is_string_char(ascii);
    default: return false;
    }
}

static bool is_of_slice(size_t slice, fxi_str s)
{
    size_t i = 0;
    while (i < s.n && ((uint8_t)s.p[i] >= 0x80 ? slice == FXI_SLICE_REST - 1
                                               : fxi_slice_has(slice, (uint8_t)s.p[i])))
        i++;
    return i == s.n;
}

// The first slice that has all its characters.
static size_t slice_of_token(fxi_str s)
{
    size_t slice = 0;
    if (fxi_utf8_check(s.p, s.n) < s.n || fxi_utf8_count(s.p, s.n) > FXI_SLICE_CHARS)
        return FXI_SLICE_REST;
    while (slice < FXI_SLICE_REST && !is_of_slice(slice, s)) slice++;
    return slice;
}

static bool make_slice_masks(fxi_token_slice *t, const token_key *k, size_t n, size_t n_word)
{
    t->mask = calloc(FXI_SLICE_CHARS * n_word, sizeof *t->mask);
    if (!t->mask) return false;
    for (size_t i = 0; i < n; i++)
        for (size_t c = fxi_utf8_count(k[i].bytes.p, k[i].bytes.n); c <= FXI_SLICE_CHARS; c++)
            t->mask[(c - 1) * n_word + k[i].id / 64] |= (uint64_t)1 << (k[i].id % 64);
    return true;
}

// k: room for all tokens.
static bool make_token_slice(fxi_gram_tokens *t, size_t slice, const uint8_t *slice_at,
                             token_key *k)
{
    fxi_token_slice *x = &t->slice[slice];
    size_t n = 0;
    for (size_t i = 0; i < t->n_vocab; i++)
        if (slice_at[i] == slice)
            k[n++] = (token_key){fxi_gram_token_bytes(t, (uint32_t)i), (uint32_t)i};
    if (n) qsort(k, n, sizeof *k, compare_tokens_by_bytes);
    x->id = calloc(n + 1, sizeof *x->id);
    return x->id && grow_trie(x, t->max_depth, k, n) &&
           (slice == FXI_SLICE_REST || make_slice_masks(x, k, n, t->n_word));
}

static bool make_slices(fxi_gram_tokens *t)
{
    token_key *k = calloc(t->n_vocab + 1, sizeof *k);
    uint8_t *slice_at = calloc(t->n_vocab + 1, 1);
    bool ok = k && slice_at;
    for (size_t i = 0; ok && i < t->n_vocab; i++) {
        const fxi_str s = fxi_gram_token_bytes(t, (uint32_t)i);
        slice_at[i] = FXI_N_SLICE; // none
        if (!s.n || s.n > UINT16_MAX) continue;
        if (s.n > t->max_depth) t->max_depth = s.n;
        slice_at[i] = (uint8_t)slice_of_token(s);
    }
    for (size_t i = 0; ok && i < FXI_N_SLICE; i++) ok = make_token_slice(t, i, slice_at, k);
    free(slice_at);
    free(k);
    return ok;
}

// ---- all of it ----------------------------------------------------------------------------------

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

fx_status fxi_gram_tokens_make(fxi_gram_tokens *t, const fxi_str *token, size_t n_vocab,
                               fx_error *err)
{
    size_t n_bytes = 0;
    *t = (fxi_gram_tokens){.n_vocab = n_vocab, .n_word = n_vocab / 64 + 1};
    for (size_t i = 0; i < n_vocab; i++) {
        if (token[i].n > UINT32_MAX - n_bytes)
            return fxi_fail(err, FX_EINVAL, "the tokens have 4 GiB or more");
        n_bytes += token[i].n;
    }
    if (keep_bytes(t, token, n_bytes) && make_slices(t)) return FX_OK;
    fxi_gram_tokens_free(t);
    return fxi_fail(err, FX_ENOMEM, "out of memory");
}

void fxi_gram_tokens_free(fxi_gram_tokens *t)
{
    for (size_t i = 0; i < FXI_N_SLICE; i++) {
        free(t->slice[i].node);
        free(t->slice[i].id);
        free(t->slice[i].mask);
    }
    free(t->text);
    free(t->at);
    *t = (fxi_gram_tokens){0};
}
