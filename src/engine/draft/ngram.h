// ngram.h - where the last tokens of a text occurred before: an index that grows with the text.
//
// Prompt lookup (Saxena 2023; Yang et al., arXiv 2304.04487): an answer that quotes or edits its
// prompt continues as the prompt does. The index has every run of FXI_NGRAM tokens under its hash,
// the latest first, so a token costs one insertion, and a search a few comparisons, however long
// the text is. 8 to 12 bytes per token.
//
// A leaf: it allocates and frees its tables and knows nothing of engines. One thread at a time.
#ifndef FXI_ENGINE_NGRAM_H
#define FXI_ENGINE_NGRAM_H

#include <stdbool.h>
#include <stdint.h>

enum { FXI_NGRAM = 3, FXI_NGRAM_LONGEST = 32 };

// All zero: empty.
typedef struct fxi_ngram {
    int32_t *head;   // [1 << n_bit] of each hash: where its latest run ends; 0: there is none
    int32_t *before; // [cap_tok] of a run that ends there: where the one before it ends
    int n_bit, cap_tok;
    int n_tok; // runs that end before this one are in the tables
} fxi_ngram;

void fxi_ngram_free(fxi_ngram *x); // it is empty again

// Adds the runs of tok[0..n_tok), a text that continues the one of the last call. False: no
// memory; then the index has fewer of them, and a later call adds the rest.
bool fxi_ngram_grow(fxi_ngram *x, const int32_t *tok, int n_tok);

// Where the end of tok[0..n_tok) has occurred before: the position of the token that followed it,
// and in *n_same how many tokens before that are the same, FXI_NGRAM to FXI_NGRAM_LONGEST. Of
// several places the one with most of them, of equal ones the latest; a fixed number of places is
// looked at. 0: nowhere. Pre: fxi_ngram_grow with these tokens.
int fxi_ngram_find(const fxi_ngram *x, const int32_t *tok, int n_tok, int *n_same);

// Copies up to `most` tokens that followed at `from`, as if the text went on to repeat itself where
// it ends. Returns `most`. Pre: 0 < from < n_tok.
int fxi_ngram_read(const int32_t *tok, int n_tok, int from, int32_t *out, int most);

#endif
