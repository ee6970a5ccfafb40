// vocab_unigram.c - the segmentation of a text with the highest sum of scores (Viterbi), from left
// to right.
//
// best[i] is the best path to byte i: every piece that begins at a reachable byte may improve the
// bytes where it ends. A character that no piece spells alone may be passed at the score of the
// worst piece minus 10. Of equal sums the path found first stays, and sums have the precision of
// the reference: both decide between paths that are nearly equal.
#include <stdlib.h>

#include "base/text/utf8.h"
#include "format/vocab/encode/vocab_encode.h"

struct fxi_unigram_best { // the best path to a byte of the text
    double score;
    uint32_t from; // where its last piece begins
    int32_t id;    // of that piece; -1: a character without one
};

static void offer_path(const fxi_vocab *v, fxi_unigram_best *target, uint32_t from, double score,
                       int32_t id)
{
    if (v->sums_float) score = (double)(float)score;
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
    if (!j->v->sums_float || base >= lowest) return;
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
        offer_path(v, &j->best[i + 1], (uint32_t)at, v->token[id].score + so_far, id);
        single |= i + 1 - at == n_char;
        if (i + 1 > *end) *end = i + 1;
    }
    if (at + n_char > *end) *end = at + n_char;
    if (!single) offer_path(v, &j->best[at + n_char], (uint32_t)at, v->unknown_score + so_far, -1);
}

static bool reserve_best(fxi_encode_job *j, size_t n)
{
    if (n <= j->cap_best) return true;
    fxi_unigram_best *p = realloc(j->best, n * sizeof *p);
    if (!p) return false;
    j->best = p;
    j->cap_best = n;
    return true;
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
    if (!reserve_best(j, n + 1))
        return fxi_fail(j->err, FX_ENOMEM, "no memory to tokenize the text");
    for (size_t i = 0; i <= n; i++) j->best[i] = (fxi_unigram_best){0, UINT32_MAX, -1};
    size_t end = 0;
    for (size_t at = 0; at < n; at += (size_t)fxi_utf8_len((unsigned char)p[at]))
        offer_pieces(j, p, n, at, &end);
    reverse_path(j->best, n);
    for (size_t at = 0, to; at < n; at = to) {
        const int32_t id = j->best[at].id;
        to = j->best[at].from;
        while (id < 0 && v->fuse_unknown && to < n && j->best[to].id < 0) to = j->best[to].from;
        FX_TRY(id < 0 ? fxi_encode_put_unknown(j, p + at, to - at) : fxi_encode_put(j, id));
    }
    return FX_OK;
}
