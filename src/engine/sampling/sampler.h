// sampler.h - from a row of logits to a token: the request's rules (rules.c), the draw (sampler.c),
// and the probability of a token (logprob.c).
//
// Pure functions of their arguments, from any thread, but for memory: they keep no state between
// calls. Every sum runs in the order of ids or of drawing, so that no result depends on the
// number of threads. A NaN logit counts as -inf: it is never drawn while any other token can be.
#ifndef FXI_ENGINE_SAMPLER_H
#define FXI_ENGINE_SAMPLER_H

#include "flexinfer/flexinfer.h"

typedef struct fxi_candidate {
    float logit;
    int32_t id;
} fxi_candidate;

// Scratch of one sampling thread.
typedef struct fxi_sample_scratch {
    float *logit;        // [n_vocab]
    fxi_candidate *cand; // [n_vocab]
    int32_t *count;      // [n_vocab] all zero between calls
    uint64_t *allowed;   // [n_vocab / 64 + 1]
    int32_t *repeat;     // [max_tok]
    int max_tok;
} fxi_sample_scratch;

// Memory for a vocabulary and sequences of so many tokens; false: none. Free it in either case; all
// zero is allowed.
bool fxi_sample_scratch_make(fxi_sample_scratch *s, size_t n_vocab, size_t max_tok);
void fxi_sample_scratch_free(fxi_sample_scratch *s);

// What the rules see of a sequence. All ids are within the vocabulary.
typedef struct fxi_sample_view {
    const fx_sampling *rule;
    const int32_t *tok; // [n_tok] prompt, then answer
    int n_prompt, n_tok;
    const int32_t *end; // [n_end] banned before rule->min_tok: end-of-text and stop tokens
    int n_end;
    // [n_vocab / 64 + 1] tokens by which the grammar continues or ends, bit id % 64 of word
    // id / 64; NULL: all
    const uint64_t *allowed;
    // The bytes that a token adds to a text; NULL: they are not known, nothing breaks a repetition.
    const char *(*text_of)(const void *texts, int32_t id, size_t *n_bytes);
    const void *texts;
} fxi_sample_view;

// rules.c: applies the grammar's mask, allow, ban, bias, min_tok, the three penalties and dry, in
// this order, to logits[n_vocab]; dry looks at scratch->max_tok tokens at most. Returns `logits`
// itself where no rule applies, else scratch->logit, where masked tokens are -inf. NULL: no token
// is left, every logit is -inf or NaN.
const float *fxi_rules_apply(const fxi_sample_view *v, const float *logits, int n_vocab,
                             fxi_sample_scratch *scratch);

// Whether fxi_rules_apply would return `logits` itself.
bool fxi_rules_are_idle(const fxi_sample_view *v);

// sampler.c: whether draws take the largest logit, the first of equals.
bool fxi_sampler_is_greedy(const fx_sampling *p);

// sampler.c: whether no logit is NaN or infinite.
bool fxi_logits_are_finite(const float *logits, int n_vocab);

// sampler.c: draws a token by temperature, min_p, top_k, top_p, typical_p and xtc from
// logits[n_vocab], to which the rules have been applied. The draw, and whether xtc is due, depend
// on (p->seed, choice, position) alone.
// `cand` is scratch for n_vocab candidates. If the largest logit is not finite: the lowest id that
// has it; 0 if all are NaN.
int32_t fxi_sampler_draw(const fx_sampling *p, const float *logits, int n_vocab, int choice,
                         int position, fxi_candidate *cand);

// logprob.c. A larger logit is likelier; of equal ones, the lower id.

// Log-softmax of logits[n_vocab] at `token`, its rank, and the min(n_top, n_vocab) likeliest tokens
// in top[n_top], which out->top points to. If the token is in `top`, both logprobs are ==.
void fxi_logprob_of(const float *logits, int n_vocab, int32_t token, int n_top, fx_logprob *top,
                    fx_token_prob *out);

// The k likeliest tokens of a row, descending, without those whose logprob is -inf; returns their
// number. Fast for k <= 2 FX_MAX_BEAM.
int fxi_logprob_top(const float *logits, int n_vocab, int k, fx_logprob *top);

// The probabilities of an answer's tokens, kept until they are emitted.
typedef struct fxi_prob_log {
    fx_token_prob *tok; // [cap] the first n are valid, except their `top`
    fx_logprob *top;    // [cap][FX_MAX_TOP]; NULL while no token has one
    int n, cap;
} fxi_prob_log;

bool fxi_prob_log_add(fxi_prob_log *l, const fx_token_prob *p);     // false: no memory
bool fxi_prob_log_copy(fxi_prob_log *to, const fxi_prob_log *from); // to is empty
fx_token_prob fxi_prob_log_at(const fxi_prob_log *l, int i);
void fxi_prob_log_free(fxi_prob_log *l);

#endif
