// gram_tokens.c - builds tries; divides the tokens into slices, and cuts tails off them.
//
// A trie is built from sorted strings: a node is opened for each byte by which a string goes beyond
// its common prefix with the one before.
#include "grammar/matcher/gram_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "base/system/grow.h"
#include "base/text/utf8.h"
#include "grammar/automaton/gram_auto.h" // defines: fxi_utf8_rows

// ---- tries --------------------------------------------------------------------------------------

typedef struct token_key {
    fxi_str bytes; // not empty, less than 64 KiB
    uint32_t id;
} token_key;

typedef struct trie_growth {
    fxi_token_trie *t;
    uint32_t *open; // [max_depth] the nodes on the path to the last string
    size_t depth, cap;
} trie_growth;

static int compare_trie_keys(const void *a, const void *b)
{
    const token_key *x = a, *y = b;
    const int order = fxi_str_compare(x->bytes, y->bytes);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

static void close_nodes(trie_growth *m, size_t depth)
{
    while (m->depth > depth) m->t->node[m->open[--m->depth]].end = (uint32_t)m->t->n_node;
}

static bool open_key(trie_growth *m, const token_key *k, fxi_str before)
{
    fxi_token_trie *t = m->t;
    size_t n_shared = 0;
    while (n_shared < before.n && n_shared < k->bytes.n &&
           before.p[n_shared] == k->bytes.p[n_shared])
        n_shared++;
    close_nodes(m, n_shared);
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

// Sorts the keys, whose bytes need not outlive the call. False: out of memory; the trie may be
// freed.
static bool make_token_trie(fxi_token_trie *t, token_key *key, size_t n)
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

static void free_trie(fxi_token_trie *t)
{
    free(t->node);
    free(t->id);
    *t = (fxi_token_trie){0};
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
    case FXI_SLICE_LOWER: return is_lower(ascii);
    case FXI_SLICE_CAPITALS: return is_capital(ascii);
    case FXI_SLICE_WORDS: return is_lower(ascii) || is_capital(ascii);
    case FXI_SLICE_MARKED:
    case FXI_SLICE_PRINTED:
    case FXI_SLICE_CHARS_ALL: return is_string_char(ascii);
    default: return false;
    }
}

// How many characters of the slice s begins with, at most FXI_SLICE_CHARS; *n_bytes: their bytes.
static size_t slice_chars(size_t slice, fxi_str s, size_t *n_bytes)
{
    size_t n = 0, n_more = 0;
    for (*n_bytes = 0; *n_bytes < s.n && n < FXI_SLICE_CHARS; n++, *n_bytes += n_more) {
        const fxi_str rest = {s.p + *n_bytes, s.n - *n_bytes};
        const uint8_t first = (uint8_t)*rest.p;
        n_more = (size_t)fxi_utf8_len(first);
        if (first < 0x80 ? !fxi_slice_has(slice, first)
                         : slice != FXI_SLICE_CHARS_ALL || !n_more || n_more > rest.n ||
                               fxi_utf8_check(rest.p, n_more) < n_more)
            break;
    }
    return n;
}

static bool is_of_slice(size_t slice, fxi_str s)
{
    const size_t n_mark = slice == FXI_SLICE_MARKED;
    size_t n_bytes;
    if (n_mark && !is_string_char((uint8_t)*s.p)) return false;
    slice_chars(n_mark ? FXI_SLICE_WORDS : slice, (fxi_str){s.p + n_mark, s.n - n_mark}, &n_bytes);
    return n_mark + n_bytes == s.n && s.n <= 4 * FXI_SLICE_CHARS &&
           fxi_utf8_count(s.p, s.n) <= FXI_SLICE_CHARS;
}

// Whether s begins a character beyond ASCII and ends before it does.
static bool is_cut_char(fxi_str s)
{
    const uint8_t first = s.n ? (uint8_t)*s.p : 0;
    const fxi_utf8_row *r = fxi_utf8_rows, *end = r + FXI_N_UTF8_ROW;
    while (r < end && (first < r->first_lo || first > r->first_hi)) r++;
    if (r == end || s.n > 1u + r->n_more) return false;
    for (size_t i = 1; i < s.n; i++) {
        const uint8_t b = (uint8_t)s.p[i];
        if (b < (i == 1 ? r->second_lo : 0x80) || b > (i == 1 ? r->second_hi : 0xBF)) return false;
    }
    return true;
}

// The characters of a token that ends within one, including that one; 0: it does not end so.
static size_t chars_and_cut(fxi_str s)
{
    size_t n_bytes;
    const size_t n = slice_chars(FXI_SLICE_CHARS_ALL, s, &n_bytes);
    return n < FXI_SLICE_CHARS && is_cut_char((fxi_str){s.p + n_bytes, s.n - n_bytes}) ? n + 1 : 0;
}

static void allow_upto(uint64_t *mask, size_t n_word, size_t n_char, uint32_t id)
{
    for (size_t c = n_char; c <= FXI_SLICE_CHARS; c++)
        mask[(c - 1) * n_word + id / 64] |= (uint64_t)1 << (id % 64);
}

// Where any character may follow, so may the beginning of one.
static void add_cut_tokens(fxi_gram_tokens *t, const uint8_t *slice_at)
{
    for (uint32_t i = 0; i < t->n_vocab; i++) {
        if (slice_at[i] != FXI_SLICE_REST) continue;
        const size_t n = chars_and_cut(fxi_gram_token_bytes(t, i));
        if (n) allow_upto(t->chars_mask, t->n_word, n, i);
    }
}

static bool join_slice_masks(fxi_gram_tokens *t)
{
    const size_t n = FXI_SLICE_CHARS * t->n_word;
    t->chars_mask = calloc(n, sizeof *t->chars_mask);
    for (size_t k = 0; t->chars_mask && k < FXI_SLICE_REST; k++)
        for (size_t i = 0; i < n; i++) t->chars_mask[i] |= t->slice[k].mask[i];
    return t->chars_mask != NULL;
}

// Lists the tokens of a slice. k: room for all tokens.
static size_t list_slice(const fxi_gram_tokens *t, size_t slice, const uint8_t *slice_at,
                         token_key *k)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n_vocab; i++)
        if (slice_at[i] == slice)
            k[n++] = (token_key){fxi_gram_token_bytes(t, (uint32_t)i), (uint32_t)i};
    return n;
}

static bool make_token_slice(fxi_gram_tokens *t, size_t slice, const uint8_t *slice_at,
                             token_key *k)
{
    fxi_token_slice *x = &t->slice[slice];
    const size_t n = list_slice(t, slice, slice_at, k);
    if (!make_token_trie(&x->trie, k, n)) return false;
    if (slice == FXI_SLICE_REST) return true;
    x->mask = calloc(FXI_SLICE_CHARS * t->n_word, sizeof *x->mask);
    for (size_t i = 0; x->mask && i < n; i++)
        allow_upto(x->mask, t->n_word, fxi_utf8_count(k[i].bytes.p, k[i].bytes.n), k[i].id);
    return x->mask != NULL;
}

// ---- marks --------------------------------------------------------------------------------------

// Sorts the tokens of a mark by length: words have a byte per character. In the trie the ids of a
// mark are one run.
static void sort_mark(fxi_gram_tokens *t, const fxi_token_trie *x, int mark)
{
    const uint32_t root = x->root[mark];
    const uint32_t from = root == FXI_TRIE_NONE ? 0 : x->node[root].id;
    const uint32_t end = root == FXI_TRIE_NONE ? 0 : fxi_trie_ids_end(x, &x->node[root]);
    uint32_t n = from;
    for (size_t len = 0; len <= FXI_SLICE_CHARS; len++) {
        for (uint32_t i = from; i < end; i++)
            if (fxi_gram_token_bytes(t, x->id[i]).n == len) t->marks.id[n++] = x->id[i];
        t->marks.upto[mark][len] = n;
    }
}

static bool sort_marks(fxi_gram_tokens *t)
{
    const fxi_token_trie *x = &t->slice[FXI_SLICE_MARKED].trie;
    t->marks.id = calloc(x->n_id + 1, sizeof *t->marks.id);
    for (int b = 0; t->marks.id && b < 128; b++) sort_mark(t, x, b);
    return t->marks.id != NULL;
}

// ---- tails --------------------------------------------------------------------------------------

// Makes the trie of the keys off which `of` characters were cut; -1: any number. n_char[i]: how
// many were cut off key i. `k`: room for them.
static bool make_tail_trie(fxi_token_trie *t, const token_key *all, const uint8_t *n_char, size_t n,
                           int of, token_key *k)
{
    size_t n_of = 0;
    for (size_t i = 0; i < n; i++)
        if (of < 0 || n_char[i] == of) k[n_of++] = all[i];
    return make_token_trie(t, k, n_of);
}

// Cuts the tokens in `all`; `k`: as much room again. Tokens that a mask knows (add_cut_tokens) are
// left out.
static bool cut_tails(fxi_token_tails *t, size_t head, token_key *all, size_t n, uint8_t *n_char,
                      token_key *k)
{
    bool ok = true;
    size_t n_left = 0;
    for (size_t i = 0; i < n; i++)
        if (head != FXI_SLICE_CHARS_ALL || !chars_and_cut(all[i].bytes)) all[n_left++] = all[i];
    n = n_left;
    for (size_t i = 0; i < n; i++) {
        size_t n_bytes;
        n_char[i] = (uint8_t)slice_chars(head, all[i].bytes, &n_bytes);
        all[i].bytes = (fxi_str){all[i].bytes.p + n_bytes, all[i].bytes.n - n_bytes};
    }
    for (int of = 0; ok && of <= FXI_SLICE_CHARS; of++)
        ok = make_tail_trie(&t->after[of], all, n_char, n, of, k);
    return ok && make_tail_trie(&t->any, all, n_char, n, -1, k);
}

// The tails of the tokens of `slice` after characters of `head`.
static bool make_tails(fxi_gram_tokens *t, fxi_token_tails *tails, size_t slice, size_t head,
                       const uint8_t *slice_at)
{
    token_key *all = calloc(2 * (t->n_vocab + 1), sizeof *all);
    uint8_t *n_char = calloc(t->n_vocab + 1, 1);
    bool ok = all && n_char;
    if (ok)
        ok = cut_tails(tails, head, all, list_slice(t, slice, slice_at, all), n_char,
                       all + t->n_vocab + 1);
    free(n_char);
    free(all);
    return ok;
}

static void free_tails(fxi_token_tails *t)
{
    for (int i = 0; i <= FXI_SLICE_CHARS; i++) free_trie(&t->after[i]);
    free_trie(&t->any);
}

// ---- all of it ----------------------------------------------------------------------------------

static void deal_tokens(fxi_gram_tokens *t, uint8_t *slice_at)
{
    for (size_t i = 0; i < t->n_vocab; i++) {
        const fxi_str s = fxi_gram_token_bytes(t, (uint32_t)i);
        slice_at[i] = FXI_N_SLICE; // none
        if (!s.n || s.n > UINT16_MAX) continue;
        if (s.n > t->max_depth) t->max_depth = s.n;
        slice_at[i] = 0; // the first slice that has all its characters
        while (slice_at[i] < FXI_SLICE_REST && !is_of_slice(slice_at[i], s)) slice_at[i]++;
    }
}

static bool make_slices(fxi_gram_tokens *t)
{
    token_key *k = calloc(t->n_vocab + 1, sizeof *k);
    uint8_t *slice_at = calloc(t->n_vocab + 1, 1);
    bool ok = k && slice_at;
    if (ok) deal_tokens(t, slice_at);
    for (size_t i = 0; ok && i < FXI_N_SLICE; i++) ok = make_token_slice(t, i, slice_at, k);
    ok = ok && join_slice_masks(t) && sort_marks(t);
    if (ok) add_cut_tokens(t, slice_at);
    ok = ok && make_tails(t, &t->word_tails, FXI_SLICE_PRINTED, FXI_SLICE_WORDS, slice_at) &&
         make_tails(t, &t->char_tails, FXI_SLICE_REST, FXI_SLICE_CHARS_ALL, slice_at);
    free(slice_at);
    free(k);
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
    return fxi_fail_memory(err);
}

void fxi_gram_tokens_free(fxi_gram_tokens *t)
{
    for (size_t i = 0; i < FXI_N_SLICE; i++) {
        free_trie(&t->slice[i].trie);
        free(t->slice[i].mask);
    }
    free(t->chars_mask);
    free(t->marks.id);
    free_tails(&t->word_tails);
    free_tails(&t->char_tails);
    free(t->text);
    free(t->at);
    *t = (fxi_gram_tokens){0};
}
