// gram_guide.h - a grammar over a vocabulary, followed by any number of texts at the same time.
//
// A guide owns a form, its automaton and the masks that were computed for it, behind a lock. Where
// a text stands is a place, a plain value: whoever goes on from a text in two ways copies it.
//
// A mask that was never asked for may take long. fxi_guide_prepare does a bounded part of it and
// leaves the rest to fxi_guide_work, which a thread calls that nobody waits for; that also finds
// what is likely to be asked for, from the beginning of the grammar on, before it is.
//
// What the automaton has learnt is bounded. When it is full, it begins again, and places find their
// state by their tokens. So whether a text can be followed depends on this text alone and not on
// what other texts have needed.
#ifndef FXI_GRAMMAR_GUIDE_H
#define FXI_GRAMMAR_GUIDE_H

#include "grammar/form/gram_form.h"
#include "grammar/mask/gram_tokens.h"

typedef struct fxi_guide fxi_guide;

typedef struct fxi_guide_place { // all zero: before any text
    uint32_t epoch, state;       // the guide's
    size_t n_tok;                // tokens of the text up to here
    bool may_end;                // the text matches
    bool is_complete;            // it matches, and nothing may follow
    bool is_dead;                // no match begins with it
} fxi_guide_place;

typedef struct fxi_guide_limits {
    size_t max_set;  // states, and other sets of stacks
    size_t max_mask; // masks, of n_vocab / 8 bytes each; >= 1
} fxi_guide_limits;

// How a text is spelled by tokens: the first token of text[0..n), which is UTF-8, and *n_tok, how
// many it takes in all. False: it cannot be told. From any thread; NULL: nothing is ever forced.
typedef struct fxi_guide_speller {
    bool (*first)(void *ud, fxi_str text, int32_t *tok, size_t *n_tok);
    void *ud;
    char mark; // a byte that begins a control token, which is spelled by itself
} fxi_guide_speller;

// Takes over a finished form, which is empty afterwards, whatever the result; `tokens` outlives the
// guide. Errors: FX_EINVAL (the grammar is too large or too ambiguous for the limits), FX_ENOMEM.
fx_status fxi_guide_make(fxi_gram *form, const fxi_gram_tokens *tokens, fxi_guide_speller speller,
                         fxi_guide_limits limits, fxi_guide **out, fx_error *err);
void fxi_guide_free(fxi_guide *g); // NULL is allowed

// The calls below are from any thread. tok[0..n_tok) are all tokens of the text; *at is its place,
// or that of a beginning of it, and is brought up to date. Errors: FX_EINVAL (the text is nested
// too deeply, or the grammar is too ambiguous to be followed), FX_ENOMEM; a later call may succeed.

fx_status fxi_guide_follow(fxi_guide *g, const int32_t *tok, size_t n_tok, fxi_guide_place *at,
                           fx_error *err);

// The same, and which tokens may come next: mask[fxi_guide_n_word], bit id % 64 of word id / 64.
fx_status fxi_guide_mask(fxi_guide *g, const int32_t *tok, size_t n_tok, fxi_guide_place *at,
                         uint64_t *mask, fx_error *err);

// The tokens that must come next, up to max_tok of them: where one text alone can follow, it is
// spelled as the vocabulary spells it. Its last token is left open, unless the text ends with it:
// it may merge with what comes behind. They follow from the place alone. *n: 0 if there is a
// choice.
fx_status fxi_guide_forced(fxi_guide *g, const int32_t *tok, size_t n_tok, fxi_guide_place *at,
                           int32_t *out, size_t max_tok, size_t *n, fx_error *err);

// Whether fxi_guide_mask, or with may_force fxi_guide_forced, can tell from what is known what
// comes next. *left: what may be spent on finding it out, in units of 3 to 8 ns; what is left of it
// is stored. Where it does not suffice *is_ready is false, and fxi_guide_work finds it out. Errors:
// as fxi_guide_follow.
fx_status fxi_guide_prepare(fxi_guide *g, const int32_t *tok, size_t n_tok, fxi_guide_place *at,
                            bool may_force, size_t *left, bool *is_ready, fx_error *err);
#define FXI_GUIDE_NO_LIMIT SIZE_MAX

// Finds out one thing: what fxi_guide_prepare left, or what is likely to be asked for. Other
// threads may use the guide meanwhile: they wait for about 20 us at most. False: there is nothing
// left to do until fxi_guide_prepare leaves something again.
bool fxi_guide_work(fxi_guide *g);

static inline size_t fxi_guide_n_word(size_t n_vocab)
{
    return n_vocab / 64 + 1;
}

typedef struct fxi_guide_stats {
    size_t n_set, n_mask_made; // since it last began again
    size_t n_restart;
    size_t n_left;  // times that fxi_guide_prepare left something
    size_t n_bytes; // memory that it holds
} fxi_guide_stats;

fxi_guide_stats fxi_guide_read(fxi_guide *g);

#endif
