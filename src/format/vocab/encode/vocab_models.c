// vocab_models.c - a word through the model: merges, unigram, longest pieces.
//
// Merging joins a word's symbols pair by pair until no pair merges. The next pair is always the one
// of lowest rank, the leftmost of equals. In short words a linear search finds it. For long ones,
// pairs wait in a heap as (rank, index of the left symbol); an entry is valid if the symbol there
// still has a pair of that rank with its right neighbour. A word of n symbols takes at most n - 1
// merges, each of which removes one entry and adds two, so the heap never holds more than 3n.
//
// A text that no split step cuts is one word. fxi_merge_cut cuts it between characters that no
// merge ever joins (fxi_merges.meets); this saves time and memory and changes no id.
//
// A character without a symbol is one that no merge joins, or, where the vocabulary has no token
// for such characters, none at all: its neighbours are neighbours then, as in `tokenizers`.
//
// A unigram model takes the segmentation with the highest sum of scores (Viterbi), from left to
// right. best[i] is the best path to byte i: every piece that begins at a reachable byte may
// improve the bytes where it ends. A character that no piece spells alone may be passed at the
// score of the worst piece minus 10. Of equal sums the path found first stays, and sums have the
// precision of the reference: both decide between paths that are nearly equal.
//
// WordPiece, and WordLevel, in which no piece continues a word, take the longest piece each time. A
// word that pieces cannot spell to its end is the unknown token.
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "format/vocab/encode/vocab_encode.h"

// ---- characters that no piece spells ------------------------------------------------------------

static bool has_byte_tokens(const fxi_vocab *v, const char *p, size_t n)
{
    bool all = v->spec.byte_fallback;
    for (size_t i = 0; i < n && all; i++) all = v->byte_id[(unsigned char)p[i]] >= 0;
    return all;
}

// A character without a piece: its byte tokens, or the unknown token. A vocabulary that has neither
// drops the character. Errors: FX_ENOMEM.
static fx_status put_unknown(fxi_encode_job *j, const char *p, size_t n)
{
    const fxi_vocab *v = j->v;
    if (has_byte_tokens(v, p, n)) {
        for (size_t i = 0; i < n; i++) FX_TRY(fxi_encode_put(j, v->byte_id[(unsigned char)p[i]]));
        return FX_OK;
    }
    if (v->spec.unk < 0) return FX_OK; // dropped, as in the library
    if (v->spec.fuse_unknown && j->after_unknown) return FX_OK;
    FX_TRY(fxi_encode_put(j, v->spec.unk));
    j->after_unknown = true;
    return FX_OK;
}

// ---- merges -------------------------------------------------------------------------------------

#define NONE UINT32_MAX

enum { SHORT = 32 }; // symbols

struct fxi_merge_symbol {
    int32_t id;    // -1: none
    int32_t to;    // the result of merging with the next
    uint32_t rank; // of that merge; NONE: the two do not merge
    uint32_t prev, next, at;
};

static size_t unit_bytes(const fxi_vocab *v, const char *p)
{
    return v->spec.unit_bytes ? 1 : (size_t)fxi_utf8_len((unsigned char)*p);
}

// The symbol that two merge into, -1 (and *rank NONE) if they do not.
static int32_t find_pair(const fxi_vocab *v, int32_t left, int32_t right, uint32_t *rank)
{
    *rank = NONE;
    const uint64_t key = fxi_merge_key(left, right);
    if (left < 0 || right < 0 || !fxi_merge_sieve(&v->merges, key)) return -1;
    const fxi_merge_pair *pair = fxi_merge_slot(&v->merges, key);
    if (pair->to >= 0) *rank = pair->rank;
    return pair->to;
}

static uint64_t entry_of(const fxi_encode_job *j, uint32_t i)
{
    return (uint64_t)j->sym[i].rank << 32 | i;
}

static void push_pair(fxi_encode_job *j, uint32_t i)
{
    if (j->n_sym <= SHORT || j->sym[i].rank == NONE) return;
    const uint64_t entry = entry_of(j, i);
    size_t at = j->n_heap++;
    for (size_t up; at && entry < j->heap[up = (at - 1) / 4]; at = up) j->heap[at] = j->heap[up];
    j->heap[at] = entry;
}

static void sift_entry_down(fxi_encode_job *j, size_t i, uint64_t entry)
{
    for (size_t down; (down = 4 * i + 1) < j->n_heap; i = down) {
        size_t end = down + 4 < j->n_heap ? down + 4 : j->n_heap;
        for (size_t k = down + 1; k < end; k++)
            if (j->heap[k] < j->heap[down]) down = k;
        if (j->heap[down] >= entry) break;
        j->heap[i] = j->heap[down];
    }
    j->heap[i] = entry;
}

static bool reserve_symbols(fxi_encode_job *j, size_t n)
{
    if (n <= j->cap_sym) return true;
    fxi_merge_symbol *sym = realloc(j->sym, n * sizeof *sym);
    if (sym) j->sym = sym;
    uint64_t *heap = realloc(j->heap, 3 * n * sizeof *heap);
    if (heap) j->heap = heap;
    if (!sym || !heap) return false;
    j->cap_sym = n;
    return true;
}

// The symbol whose pair merges next; NONE: no pair does.
static uint32_t next_pair(fxi_encode_job *j)
{
    if (j->n_sym <= SHORT) {
        uint32_t best = 0;
        for (uint32_t i = 0; i != NONE; i = j->sym[i].next)
            if (j->sym[i].rank < j->sym[best].rank) best = i;
        return j->sym[best].rank != NONE ? best : NONE;
    }
    while (j->n_heap) {
        const uint64_t entry = j->heap[0];
        if (--j->n_heap) sift_entry_down(j, 0, j->heap[j->n_heap]);
        if (entry == entry_of(j, (uint32_t)entry)) return (uint32_t)entry;
    }
    return NONE;
}

// Finds what the symbol and its next one merge into.
static void update_pair(fxi_encode_job *j, uint32_t i)
{
    fxi_merge_symbol *s = &j->sym[i];
    s->rank = NONE;
    if (s->next != NONE) s->to = find_pair(j->v, s->id, j->sym[s->next].id, &s->rank);
    push_pair(j, i);
}

// Makes the word's symbols and finds their pairs.
static void cut_word(fxi_encode_job *j, const char *p, size_t n)
{
    const fxi_vocab *v = j->v;
    j->n_sym = 0;
    j->n_heap = 0;
    for (size_t at = 0, len; at < n; at += len) {
        len = unit_bytes(v, p + at);
        const int32_t id =
            len == 1 ? v->unit[(unsigned char)p[at]] : fxi_index_find(&v->by_word, p + at, len);
        if (id < 0 && v->drops_unknown && !has_byte_tokens(v, p + at, len)) continue;
        j->sym[j->n_sym] = (fxi_merge_symbol){
            .id = id, .prev = j->n_sym - 1, .next = j->n_sym + 1, .at = (uint32_t)at};
        j->n_sym++;
    }
    if (!j->n_sym) return;
    j->sym[0].prev = NONE;
    j->sym[j->n_sym - 1].next = NONE;
    for (uint32_t i = 0; i < j->n_sym; i++) update_pair(j, i);
}

static uint32_t character_at(const char *p, size_t n, size_t *len)
{
    if ((signed char)*p < 0) return (uint32_t)fxi_utf8_at(p, n, len);
    *len = 1;
    return (uint32_t)*p;
}

size_t fxi_merge_cut(const fxi_vocab *v, const char *p, size_t n)
{
    size_t len, at;
    uint32_t a = character_at(p, n, &at);
    for (; at < n; at += len) {
        uint32_t b = character_at(p + at, n - at, &len);
        const uint64_t bit = fxi_merge_meets_bit(&v->merges, a, b);
        if (!(v->merges.meets[bit >> 6] >> (bit & 63) & 1)) break;
        a = b;
    }
    return at;
}

fx_status fxi_merge_word(fxi_encode_job *j, const char *p, size_t n)
{
    if (n > j->cap_sym && !reserve_symbols(j, j->v->spec.unit_bytes ? n : fxi_utf8_count(p, n)))
        return fxi_fail_memory(j->err);
    cut_word(j, p, n);
    if (!j->n_sym) return FX_OK;
    for (uint32_t i; (i = next_pair(j)) != NONE;) {
        fxi_merge_symbol *left = &j->sym[i], *right = &j->sym[left->next];
        left->id = left->to;
        left->next = right->next;
        right->rank = NONE;
        if (left->next != NONE) j->sym[left->next].prev = i;
        update_pair(j, i);
        if (left->prev != NONE) update_pair(j, left->prev);
    }
    for (uint32_t i = 0; i != NONE; i = j->sym[i].next) {
        const int32_t id = j->sym[i].id;
        const char *at = p + j->sym[i].at; // what has no token is a single character
        FX_TRY(id >= 0 && id < j->v->n ? fxi_encode_put(j, id)
                                       : put_unknown(j, at, unit_bytes(j->v, at)));
    }
    return FX_OK;
}

// ---- unigram ------------------------------------------------------------------------------------

struct fxi_unigram_best { // the best path to a byte of the text
    double score;
    uint32_t from; // where its last piece begins
    int32_t id;    // that piece's id; -1: a character without one
};

static void offer_path(const fxi_vocab *v, fxi_unigram_best *target, uint32_t from, double score,
                       int32_t id)
{
    if (v->spec.sums_float) score = (double)(float)score;
    if (target->from != UINT32_MAX && !(score > target->score)) return;
    *target = (fxi_unigram_best){score, from, id};
}

// Restarts sums of single precision before they lose the differences between paths: below the same
// sum as in SentencePiece, so that rounding is the same. Paths were offered to best[at..end] so
// far.
static void restart_sums(fxi_encode_job *j, size_t at, size_t end)
{
    static const double lowest = -100000;
    const double base = j->best[at].score;
    if (!j->v->spec.sums_float || base >= lowest) return;
    for (size_t i = at; i <= end; i++) j->best[i].score = (double)(float)(j->best[i].score - base);
}

// Offers the paths through all pieces that begin at byte `at`; *end: the last byte with an offer.
static void offer_pieces(fxi_encode_job *j, const char *p, size_t n, size_t at, size_t *end)
{
    const fxi_vocab *v = j->v;
    restart_sums(j, at, *end);
    const double so_far = j->best[at].score;
    const size_t n_char = (size_t)fxi_utf8_len((unsigned char)p[at]);
    bool single = false;
    uint32_t node = 0;
    for (size_t i = at; i < n && (node = fxi_trie_step(&v->words, node, (uint8_t)p[i])); i++) {
        int32_t id = v->words.node[node].id;
        if (id < 0) continue;
        offer_path(v, &j->best[i + 1], (uint32_t)at, v->spec.tok[id].score + so_far, id);
        single |= i + 1 - at == n_char;
        if (i + 1 > *end) *end = i + 1;
    }
    if (at + n_char > *end) *end = at + n_char;
    if (!single) offer_path(v, &j->best[at + n_char], (uint32_t)at, v->unknown_score + so_far, -1);
}

// Reverses the best path: best[i].from becomes the end of the piece that begins at i, best[i].id
// its id.
static void reverse_path(fxi_unigram_best *best, size_t n)
{
    uint32_t end = (uint32_t)n;
    int32_t id = best[n].id;
    for (uint32_t at = best[n].from;;) {
        fxi_unigram_best here = best[at];
        best[at].from = end;
        best[at].id = id;
        if (!at) break;
        end = at;
        id = here.id;
        at = here.from;
    }
}

fx_status fxi_unigram_word(fxi_encode_job *j, const char *p, size_t n)
{
    const fxi_vocab *v = j->v;
    if (n >= j->cap_best) {
        fxi_unigram_best *more = realloc(j->best, (n + 1) * sizeof *more);
        if (!more) return fxi_fail_memory(j->err);
        j->best = more;
        j->cap_best = n + 1;
    }
    for (size_t i = 0; i <= n; i++) j->best[i] = (fxi_unigram_best){0, UINT32_MAX, -1};
    size_t end = 0;
    for (size_t at = 0; at < n; at += (size_t)fxi_utf8_len((unsigned char)p[at]))
        offer_pieces(j, p, n, at, &end);
    reverse_path(j->best, n);
    for (size_t at = 0, to; at < n; at = to) {
        const int32_t id = j->best[at].id;
        to = j->best[at].from;
        while (id < 0 && v->spec.fuse_unknown && to < n && j->best[to].id < 0)
            to = j->best[to].from;
        FX_TRY(id < 0 ? put_unknown(j, p + at, to - at) : fxi_encode_put(j, id));
    }
    return FX_OK;
}

// ---- longest pieces -----------------------------------------------------------------------------

// The length of the longest piece of the trie that s begins with, and its id; 0: none.
static size_t longest_piece(const fxi_trie *trie, const char *s, size_t n, int32_t *id)
{
    size_t best = 0;
    uint32_t node = 0;
    for (size_t i = 0; trie->n && i < n; i++) {
        node = fxi_trie_step(trie, node, (uint8_t)s[i]);
        if (!node) break;
        if (trie->node[node].id < 0) continue;
        best = i + 1;
        *id = trie->node[node].id;
    }
    return best;
}

fx_status fxi_pieces_word(fxi_encode_job *j, const char *p, size_t n)
{
    const fxi_vocab *v = j->v;
    const size_t n_before = j->out->n;
    const bool too_long =
        v->spec.max_word && n > v->spec.max_word && fxi_utf8_count(p, n) > v->spec.max_word;
    size_t at = 0, end = too_long ? 0 : n;
    while (at < end) {
        int32_t id;
        const size_t len = longest_piece(at ? &v->inside : &v->words, p + at, n - at, &id);
        if (!len) break;
        FX_TRY(fxi_encode_put(j, id));
        at += len;
    }
    if (at == n) return FX_OK;
    j->out->n = n_before;
    return put_unknown(j, p, n);
}
