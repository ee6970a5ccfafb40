// gram_matcher.h - a grammar over a vocabulary, followed by any number of texts at the same time.
//
// A matcher owns a grammar, its automaton and the masks that were computed for it, under a lock.
// The position of one text is a match state, a plain value: copy it to continue a text in two ways.
//
// A mask that was never asked for may take long. fxi_gram_matcher_prepare does a bounded part of
// the work and leaves the rest to fxi_gram_matcher_work, for a background thread. That also
// computes what is likely to be asked for, from the start of the grammar on, before it is.
//
// What the automaton has learnt is bounded. When it is full it is reset, and match states find
// their automaton state again by their tokens. So whether a text can be followed depends on this
// text alone and not on what other texts have needed.
#ifndef FXI_GRAMMAR_MATCHER_H
#define FXI_GRAMMAR_MATCHER_H

#include <stdatomic.h>

#include "grammar/matcher/gram_tokens.h"
#include "grammar/syntax/gram.h"

typedef struct fxi_gram_matcher fxi_gram_matcher;

typedef struct fxi_match_state { // all zero: before any text
    uint32_t epoch, state;       // the matcher's
    size_t n_tok;                // tokens of the text up to here
    bool may_end;                // the text matches
    bool is_complete;            // it matches, and nothing may follow
    bool is_dead;                // no match begins with it
} fxi_match_state;

// Memory that matchers share. While they hold more than limit_bytes together, none looks ahead, and
// those that hold more than FXI_MATCHER_LEAST_BYTES are reset when they are used.
typedef struct fxi_matcher_pool {
    atomic_size_t used_bytes, limit_bytes;
} fxi_matcher_pool;

enum { FXI_MATCHER_LEAST_BYTES = 1 << 20 };

typedef struct fxi_matcher_limits {
    size_t max_set;         // states, and other sets of stacks
    size_t max_mask;        // masks, of n_vocab / 8 bytes each; >= 1
    size_t max_bytes;       // in all: a matcher that holds more is reset; 0: no limit
    fxi_matcher_pool *pool; // outlives the matcher; NULL: none
} fxi_matcher_limits;

// How a text is spelled by tokens: the first token of text[0..n), which is UTF-8, and *n_tok, how
// many it takes in all. False: unknown. Called from any thread; NULL: nothing is ever forced.
typedef struct fxi_matcher_speller {
    bool (*first)(void *ud, fxi_str text, int32_t *tok, size_t *n_tok);
    void *ud;
    char mark; // a byte that begins a control token, which is spelled by itself
} fxi_matcher_speller;

// Takes over a finished grammar, which is empty afterwards, whatever the result; `tokens` outlives
// the matcher. Errors: FX_EINVAL (the grammar is too large or too ambiguous for the limits),
// FX_ENOMEM.
fx_status fxi_gram_matcher_make(fxi_gram *g, const fxi_gram_tokens *tokens,
                                fxi_matcher_speller speller, fxi_matcher_limits limits,
                                fxi_gram_matcher **out, fx_error *err);
void fxi_gram_matcher_free(fxi_gram_matcher *m); // NULL is allowed

// The calls below may come from any thread. tok[0..n_tok) are all tokens of the text; *at is its
// match state, or that of a prefix of it, and is brought up to date. Errors: FX_EINVAL (the text is
// nested too deeply, or the grammar is too ambiguous to be followed), FX_ENOMEM; a later call may
// succeed.

// Follows the text. mask: NULL, or which tokens may come next: [fxi_matcher_n_word], bit id % 64 of
// word id / 64.
fx_status fxi_gram_matcher_mask(fxi_gram_matcher *m, const int32_t *tok, size_t n_tok,
                                fxi_match_state *at, uint64_t *mask, fx_error *err);

// The tokens that must come next, up to max_tok of them: if only one text can follow, it is spelled
// as the vocabulary spells it. Its last token is left open, unless the text ends with it, as it may
// merge with what follows. The tokens depend on the state alone. *n: 0 if there is a choice.
fx_status fxi_gram_matcher_forced(fxi_gram_matcher *m, const int32_t *tok, size_t n_tok,
                                  fxi_match_state *at, int32_t *out, size_t max_tok, size_t *n,
                                  fx_error *err);

// *is_ready: whether fxi_gram_matcher_mask, or with may_force fxi_gram_matcher_forced, already
// knows what comes next. *left: the budget for computing it, in units of 3 to 8 ns; what is left of
// it is stored. If it does not suffice, fxi_gram_matcher_work computes it later. Errors: as for the
// mask.
fx_status fxi_gram_matcher_prepare(fxi_gram_matcher *m, const int32_t *tok, size_t n_tok,
                                   fxi_match_state *at, bool may_force, size_t *left,
                                   bool *is_ready, fx_error *err);
#define FXI_MATCHER_NO_LIMIT SIZE_MAX

// Computes one thing: what fxi_gram_matcher_prepare left, or what is likely to be asked for. Other
// threads may use the matcher meanwhile: they wait for about 20 us at most. False: nothing is left
// to do until fxi_gram_matcher_prepare leaves something again.
bool fxi_gram_matcher_work(fxi_gram_matcher *m);

static inline size_t fxi_matcher_n_word(size_t n_vocab)
{
    return n_vocab / 64 + 1;
}

typedef struct fxi_matcher_stats {
    size_t n_set, n_mask_made; // since the last reset
    size_t n_restart;          // resets
    size_t n_left;             // times that fxi_gram_matcher_prepare left something
    size_t n_bytes;            // memory that it holds
} fxi_matcher_stats;

fxi_matcher_stats fxi_gram_matcher_read(fxi_gram_matcher *m);

#endif
