// beam.h - beam search as data: candidates in, the best (parent, token) pairs out.
//
//   candidates   the 2 x width likeliest next tokens of each beam; among all of them the 2 x width
//                with the largest sum of logprobs, ties to the lower beam, then the likelier token
//   in order     a candidate that ends the answer becomes a hypothesis; any other becomes a beam,
//                until there are `width` (commit.c makes the sequences and gives them caches)
//   score        sum of logprobs / tokens^length_penalty, over the tokens of the answer, the one
//                that ends it included
//   the end      when fx_early_stop allows it, or no beam is left
//
// Logprobs are those of the logits after the rules up to the penalties: a banned token is in no
// beam, and where no rule applies they are the model's own.
#ifndef FXI_ENGINE_BEAM_H
#define FXI_ENGINE_BEAM_H

#include "engine/request/request.h"

// An answer without a cache.
typedef struct fxi_hypothesis {
    fxi_seq s;
    double score;
} fxi_hypothesis;

// A beam and a token that continues it.
typedef struct fxi_beam_next {
    int parent; // as in fxi_beam_offer
    fx_logprob next;
    double sum; // of logprobs, this token included
} fxi_beam_next;

typedef struct fxi_beam {
    int width;
    fxi_hypothesis *done; // [width] descending score
    int n_done;
    fxi_beam_next *cand; // [width][2 width]
    int n_cand;
    fxi_seq *next; // [width] the new beams, while they are chosen
    bool is_over;
} fxi_beam;

bool fxi_beam_make(fxi_live_request *r); // r->beam, of req.beam_width; false: no memory
void fxi_beam_free(fxi_beam *b);         // NULL is allowed

// Adds the likeliest next tokens of one beam, at most 2 x width; `sum` is its sum of logprobs so
// far. At most width calls between two rankings.
void fxi_beam_offer(fxi_beam *b, int parent, double sum, const fx_logprob *next, int n_next);
// Sorts the offers: b->cand[0 .. returned) are the candidates to consider. The next offer starts
// anew.
int fxi_beam_rank(fxi_beam *b);
// Keeps an ended sequence with this sum of logprobs if it is among the width best so far. Takes
// over what *s owns either way.
void fxi_beam_keep(fxi_live_request *r, fxi_seq *s, double sum);
// Whether the search may end although beams could continue; the best one has this sum and length.
bool fxi_beam_may_end(const fxi_live_request *r, double best_sum, int n_tok);

#endif
