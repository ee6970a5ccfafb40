// sampling.h - how a request's tokens are chosen: a part of flexinfer.h.
#ifndef FX_SAMPLING_H
#define FX_SAMPLING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fx_bias {
    int32_t token;
    float bias; // added to the logit
} fx_bias;

typedef struct fx_id_run {
    const int32_t *id; // [n]
    size_t n;
} fx_id_run;

// How a token is chosen. The stages apply in this order: the request's grammar, allow, ban, bias,
// min_tok, the three penalties, dry, temperature, min_p, top_k, top_p, typical_p, xtc, draw. A
// banned token is never drawn. Lists may be NULL where their count is 0; fx_submit copies them.
typedef struct fx_sampling {
    float temperature; // 0 (or < 1e-5): greedy, ties to the lowest id
    int top_k;         // 0: all
    float top_p;       // (0, 1]; 1: off
    float min_p;       // [0, 1]; 0: off
    float typical_p;   // (0, 1]; 0 or 1: off (arXiv 2202.00666)
    // Those four and xtc cut by the probabilities at temperature 1, and the temperature counts
    // among what they keep, as in llama.cpp; false: it counts before.
    bool cut_first;
    // > 0, once for each token of prompt and answer: positive logits are divided by it, others
    // multiplied; 0 or 1: off
    float repetition_penalty;
    float presence_penalty;  // [-2, 2], subtracted once from the logits of the answer's tokens
    float frequency_penalty; // [-2, 2], subtracted once per occurrence in the answer
    // A token that would go on with a repetition loses dry_multiplier x dry_base^(n -
    // dry_allowed_length), if the n tokens before it, at least dry_allowed_length, have stood
    // before the same token already. Of several such n the largest counts, but no more than 1024.
    float dry_multiplier;   // >= 0; 0: off
    float dry_base;         // >= 0; below 1: off
    int dry_allowed_length; // >= 0
    int dry_last_tok; // of prompt and answer only so many tokens, the last, are looked at; -1:
                      // all; 0: off
    // A repetition does not reach back over a token in which one of these texts ends, and a token
    // that has one as a part is not penalised. [n_dry_breaker] NUL-terminated, each not empty.
    const char *const *dry_breaker;
    size_t n_dry_breaker;
    // With the probability xtc_probability, of tokens of at least the probability xtc_threshold all
    // but the least likely one are dropped, if there are several. Not where temperature is 0.
    float xtc_probability; // [0, 1]; 0: off
    float xtc_threshold;   // [0, 1]; above 0.5 there cannot be several
    uint64_t seed;         // the draw depends on (seed, choice, position) only
    const fx_bias *bias;   // [n_bias]
    size_t n_bias;
    const int32_t *allow; // [n_allow] only these may be drawn; n_allow 0: all
    size_t n_allow;
    const int32_t *ban; // [n_ban] these are never drawn
    size_t n_ban;
    const fx_id_run *ban_run; // [n_ban_run] the answer never has these tokens in a row; none empty
    size_t n_ban_run;
    int min_tok; // nothing ends the answer before it has this many tokens: end-of-text and stop
                 // tokens are not drawn, stop strings are ignored
} fx_sampling;

#endif
