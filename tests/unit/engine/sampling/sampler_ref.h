// sampler_ref.h - the rules and the draw once more, plain and slow: what src/engine/rules.c and
// src/engine/sampler.c are compared with. Of src/engine it uses the types only.
#ifndef TESTS_SAMPLER_REF_H
#define TESTS_SAMPLER_REF_H

#include "engine/sampling/sampler.h"

#define REF_MAX_VOCAB 140000

// The rules, token by token, into out[n_vocab]. False: nothing is left.
bool ref_rules(const fxi_sample_view *v, const float *logits, int n_vocab, float *out);

typedef struct ref_item {
    int32_t id;
    float logit;
    double weight; // exp((logit - max) / temperature)
} ref_item;

// The tokens that may be drawn with temperature > 0, into out[REF_MAX_VOCAB] in the order in which
// they are drawn from; returns how many.
int ref_kept(const fx_sampling *p, const float *logits, int n_vocab, ref_item *out);

int32_t ref_sample(const fx_sampling *p, const float *logits, int n_vocab, int choice,
                   int position);

#endif
