// sampler.h - from a row of logits to a token: the request's rules (rules.c), the draw (sampler.c),
// and how likely a token was (logprob.c).
//
// Pure functions of their arguments: nothing is allocated, nothing is kept between calls, and the
// order of every sum is that of the ids or of the drawing, so that no result depends on threads.
// A logit that is no number counts as -inf: it is never drawn while any other token can be.
#ifndef FXI_ENGINE_SAMPLER_H
#define FXI_ENGINE_SAMPLER_H

#include "flexinfer/flexinfer.h"

typedef struct fxi_candidate {
    float logit;
    int32_t id;
} fxi_candidate;

// Scratch of one thread that samples.
typedef struct fxi_sample_scratch {
    float *logit;        // [n_vocab]
    fxi_candidate *cand; // [n_vocab]
    int32_t *count;      // [n_vocab] all zero between calls
} fxi_sample_scratch;

// What the rules see of a sequence. All ids are in the vocabulary.
typedef struct fxi_sample_view {
    const fx_sampling *rule;
    const int32_t *tok; // [n_tok] prompt, then answer
    int n_prompt, n_tok;
    const int32_t *end; // [n_end] banned before rule->min_tok: end-of-text and stop tokens
    int n_end;
} fxi_sample_view;

// rules.c: allow, ban, bias, min_tok and the three penalties, in this order. Returns `logits`
// itself where no rule applies, else scratch->logit, in which what is ruled out is -inf. NULL:
// nothing is left, every logit is -inf or no number.
const float *fxi_rules_apply(const fxi_sample_view *v, const float *logits, int n_vocab,
                             fxi_sample_scratch *scratch);

// sampler.c: temperature, min_p, top_k, top_p, typical_p and the draw, from logits[n_vocab] that
// the rules have left. `cand` is scratch for n_vocab candidates. Where the largest logit is not
// finite: the lowest id that has it, 0 where no logit is a number.
int32_t fxi_sampler_draw(const fx_sampling *p, const float *logits, int n_vocab, int choice,
                         int position, fxi_candidate *cand);

// logprob.c. Likelier is who has the larger logit; of equal ones, the lower id.

// Log-softmax of logits[n_vocab] at `token`, its rank, and the min(n_top, n_vocab) likeliest in
// top[n_top], which *out points to. The token's logprob is == to the one in `top`, if it is there.
void fxi_logprob_of(const float *logits, int n_vocab, int32_t token, int n_top, fx_logprob *top,
                    fx_token_prob *out);

// The k likeliest of a row, descending, without those whose logprob is -inf; returns how many.
// 0 <= k <= 2 FX_MAX_BEAM is what it is fast for.
int fxi_logprob_top(const float *logits, int n_vocab, int k, fx_logprob *top);

#endif
