// prob_log.h - the probabilities of an answer's tokens, kept until they are emitted.
#ifndef FXI_ENGINE_PROB_LOG_H
#define FXI_ENGINE_PROB_LOG_H

#include "flexinfer/flexinfer.h"

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
