// vocab_merges.c - builds the table of pairs that merge, from either kind of rule.
//
// MERGES lists the pairs. SCORES lets any two symbols merge whose joined text is a piece, the
// highest score first: so every piece is cut at each of its characters, and where both sides are
// symbols, they are a pair, ranked by the piece's score. Equal scores have equal ranks: of these,
// the leftmost pair of a text merges first. A character that occurs in pieces but is not a piece
// becomes a symbol without a token.
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "format/vocab/build/vocab_build.h"
#include "format/vocab/lookup/vocab_chars.h"

enum {
    MIN_MEETS_BITS = 10,
    MAX_MEETS_BITS = 20,
    SIEVE_BITS = 2 // the sieve has four bits for each slot of the table
};

static const uint64_t MAX_CUTTING_BYTES = (uint64_t)1 << 33; // a few seconds

typedef struct pair_list {
    fxi_merge_pair *pair;
    size_t n, cap;
} pair_list;

static bool add_pair(pair_list *l, fxi_merge_pair p)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 1024;
        fxi_merge_pair *grown = realloc(l->pair, cap * sizeof *grown);
        if (!grown) return false;
        l->pair = grown;
        l->cap = cap;
    }
    l->pair[l->n++] = p;
    return true;
}

//
// From scores
//

static size_t unit_bytes(const fxi_vocab *v, const char *p, size_t n)
{
    size_t len = v->unit_bytes ? 1 : (size_t)fxi_utf8_len((unsigned char)*p);
    return len && len <= n ? len : 1;
}

// A new symbol for a character of a piece that is no token.
static bool add_symbol(fxi_vocab *v, const char *p, size_t n, int32_t *id)
{
    fxi_token *grown = realloc(v->token, ((size_t)v->n_sym + 1) * sizeof *grown);
    if (!grown) return false;
    v->token = grown;
    *id = v->n_sym++;
    v->token[*id] =
        (fxi_token){.piece = p, .text = p, .n_piece = (uint32_t)n, .n_text = (uint32_t)n};
    return fxi_index_put(&v->by_word, *id);
}

// The symbol with this text; a single unit without one becomes a symbol. *id is -1 for longer text
// without one. False: out of memory.
static bool find_or_add_symbol(fxi_vocab *v, const char *p, size_t n, int32_t *id)
{
    *id = fxi_index_find(&v->by_word, p, n);
    return *id >= 0 || unit_bytes(v, p, n) < n || add_symbol(v, p, n, id);
}

// Adds the pairs that make a piece. False: out of memory.
static bool cut_piece(fxi_vocab *v, int32_t id, uint32_t rank, pair_list *l)
{
    const fxi_str w = fxi_token_word(v, id);
    for (size_t at = unit_bytes(v, w.p, w.n); at < w.n; at += unit_bytes(v, w.p + at, w.n - at)) {
        int32_t left, right;
        if (!find_or_add_symbol(v, w.p, at, &left)) return false;
        if (left < 0) continue;
        if (!find_or_add_symbol(v, w.p + at, w.n - at, &right)) return false;
        if (right >= 0 && !add_pair(l, (fxi_merge_pair){fxi_merge_key(left, right), rank, id}))
            return false;
    }
    return true;
}

static int compare_scores(const void *a, const void *b, void *vocab)
{
    const fxi_vocab *v = vocab;
    double x = v->token[*(const int32_t *)a].score, y = v->token[*(const int32_t *)b].score;
    return (x < y) - (x > y);
}

// The work of cutting all pieces: the sum of their lengths squared.
static uint64_t cutting_bytes(const fxi_vocab *v)
{
    uint64_t sum = 0;
    for (int32_t id = 0; id < v->n; id++) {
        uint64_t n = v->token[id].merges ? fxi_token_word(v, id).n : 0;
        sum += n * n;
    }
    return sum;
}

static bool pairs_of_scores(fxi_vocab *v, pair_list *l)
{
    size_t n = 0;
    int32_t *id = malloc(((size_t)v->n + 1) * sizeof *id);
    if (!id) return false;
    for (int32_t i = 0; i < v->n; i++) {
        fxi_str w = fxi_token_word(v, i);
        if (v->token[i].merges && fxi_index_find(&v->by_word, w.p, w.n) == i) id[n++] = i;
    }
    qsort_r(id, n, sizeof *id, compare_scores, v);
    bool ok = true;
    uint32_t rank = 0;
    for (size_t i = 0; ok && i < n; i++) {
        rank += i && v->token[id[i]].score != v->token[id[i - 1]].score;
        ok = cut_piece(v, id[i], rank, l);
    }
    free(id);
    return ok;
}

//
// From a list of merges
//

static fx_status check_merge(const fxi_vocab *v, const fxi_vocab_spec *s, size_t i, fx_error *err)
{
    const int32_t id[] = {s->merge[i].left, s->merge[i].right, s->merge[i].to};
    for (size_t k = 0; k < 3; k++)
        if (id[k] < 0 || id[k] >= v->n)
            return fxi_fail(err, FX_EFORMAT, "%s: merge %zu has id %d, but there are %d tokens",
                            s->name, i, (int)id[k], (int)v->n);
    return FX_OK;
}

static fx_status pairs_of_list(const fxi_vocab *v, const fxi_vocab_spec *s, pair_list *l,
                               fx_error *err)
{
    if (s->n_merge >= UINT32_MAX) return fxi_fail(err, FX_EFORMAT, "%s: too many merges", s->name);
    for (size_t i = 0; i < s->n_merge; i++) {
        const fxi_spec_merge *m = &s->merge[i];
        FX_TRY(check_merge(v, s, i, err));
        if (v->token[m->to].type == FXI_TOKEN_CONTROL) continue; // no text may become one
        if (!add_pair(l, (fxi_merge_pair){fxi_merge_key(m->left, m->right), (uint32_t)i, m->to}))
            return fxi_spec_fail_memory(s, err);
    }
    return FX_OK;
}

//
// The table
//

static bool make_table(fxi_merges *m, const pair_list *l)
{
    unsigned bits = 4;
    while ((uint64_t)1 << bits < 2 * (uint64_t)l->n) bits++;
    m->slot = malloc(sizeof *m->slot << bits);
    m->sieve = calloc((size_t)1 << (bits + SIEVE_BITS - 6), sizeof *m->sieve);
    if (!m->slot || !m->sieve) return false;
    memset(m->slot, -1, sizeof *m->slot << bits);
    m->mask = ((uint64_t)1 << bits) - 1;
    m->shift = 64 - bits;
    m->sieve_shift = m->shift - SIEVE_BITS;
    m->factor = fxi_hash_seed() | 1;
    for (size_t i = 0; i < l->n; i++) {
        fxi_merge_pair *slot = fxi_merge_slot(m, l->pair[i].key);
        if (slot->to < 0) *slot = l->pair[i]; // of equal pairs the first stays
        const uint64_t bit = fxi_merge_sieve_bit(m, l->pair[i].key);
        m->sieve[bit >> 6] |= (uint64_t)1 << (bit & 63);
    }
    return true;
}

// Which characters may merge: the last of a left side with the first of a right side.
static bool make_meets(fxi_vocab *v, const pair_list *l)
{
    fxi_merges *m = &v->merges;
    unsigned bits = MIN_MEETS_BITS;
    while (bits < MAX_MEETS_BITS && (size_t)1 << bits < 16 * l->n) bits++;
    m->meets_shift = 64 - bits;
    m->meets = calloc((size_t)1 << (bits - 6), sizeof *m->meets);
    if (!m->meets) return false;
    for (size_t i = 0; i < l->n; i++) {
        const uint64_t key = l->pair[i].key;
        fxi_str left = fxi_token_word(v, (int32_t)(key >> 32));
        fxi_str right = fxi_token_word(v, (int32_t)(uint32_t)key);
        if (!left.n || !right.n) continue;
        size_t n;
        uint32_t a = (uint32_t)fxi_cp_before(left.p, left.n, &n);
        uint32_t b = (uint32_t)fxi_utf8_at(right.p, right.n, &n);
        uint64_t bit = fxi_merge_meets_bit(m, a, b);
        m->meets[bit >> 6] |= (uint64_t)1 << (bit & 63);
    }
    return true;
}

fx_status fxi_merges_make(fxi_vocab *v, const fxi_vocab_spec *s, fx_error *err)
{
    pair_list l = {0};
    fx_status st = FX_OK;
    if (v->kind == FXI_VOCAB_MERGES)
        st = pairs_of_list(v, s, &l, err);
    else if (cutting_bytes(v) > MAX_CUTTING_BYTES)
        st = fxi_fail(err, FX_EFORMAT, "%s: too many long tokens", s->name);
    else if (!pairs_of_scores(v, &l))
        st = fxi_spec_fail_memory(s, err);
    if (st == FX_OK && (!make_table(&v->merges, &l) || !make_meets(v, &l)))
        st = fxi_spec_fail_memory(s, err);
    free(l.pair);
    return st;
}
