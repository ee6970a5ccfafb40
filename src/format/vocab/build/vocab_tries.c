// vocab_tries.c - the tries of models that look pieces up: a unigram model, and the longest piece
// each time.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/vocab/build/vocab_build.h"

enum { UNKNOWN_PENALTY = 10 };

fx_status fxi_unigram_make(fxi_vocab *v, const fxi_vocab_spec *s, fx_error *err)
{
    size_t n = 0;
    double min = INFINITY;
    fxi_trie_entry *e = malloc((size_t)v->n * sizeof *e);
    if (!e) return fxi_spec_fail_memory(s, err);
    for (int32_t id = 0; id < v->n; id++) {
        const fxi_token *t = &v->token[id];
        if (t->merges && t->type != FXI_TOKEN_UNUSED)
            e[n++] = (fxi_trie_entry){fxi_token_word(v, id), id};
        if (t->type != FXI_TOKEN_NORMAL && v->sums_float) continue; // `tokenizers` counts all
        min = fmin(min, t->score);
    }
    bool ok = fxi_trie_make(&v->words, e, n);
    free(e);
    v->unknown_score = min - UNKNOWN_PENALTY;
    if (v->sums_float) v->unknown_score = (double)(float)v->unknown_score;
    return ok ? FX_OK : fxi_spec_fail_memory(s, err);
}

// Pieces that begin with the prefix may continue a word; like all others they may begin one, too.
fx_status fxi_pieces_make(fxi_vocab *v, const fxi_vocab_spec *s, fx_error *err)
{
    size_t n = 0, n_inside = 0;
    fxi_trie_entry *e = malloc(2 * (size_t)v->n * sizeof *e), *inside = e ? e + v->n : NULL;
    if (!e) return fxi_spec_fail_memory(s, err);
    for (int32_t id = 0; id < v->n; id++) {
        const fxi_str w = fxi_token_word(v, id);
        if (!v->token[id].merges) continue;
        e[n++] = (fxi_trie_entry){w, id};
        if (!s->inside.p || w.n < s->inside.n) continue;
        if (s->inside.n && memcmp(w.p, s->inside.p, s->inside.n)) continue;
        inside[n_inside++] = (fxi_trie_entry){{w.p + s->inside.n, w.n - s->inside.n}, id};
    }
    bool ok = fxi_trie_make(&v->words, e, n) && fxi_trie_make(&v->inside, inside, n_inside);
    free(e);
    v->max_word = s->max_word;
    return ok ? FX_OK : fxi_spec_fail_memory(s, err);
}
