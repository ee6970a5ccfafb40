// sampler_ref.h - a simple, slow reference for rules.c and sampler.c; it uses only their types.
#ifndef TESTS_SAMPLER_REF_H
#define TESTS_SAMPLER_REF_H

#include "engine/sampling/sampler.h"

#define REF_MAX_VOCAB 140000

// The rules, token by token, into out[n_vocab]. False: no token is left.
bool ref_rules(const fxi_sample_view *v, const float *logits, int n_vocab, float *out);

typedef struct ref_item {
    int32_t id;
    float logit;
    double weight; // exp((logit - max) / temperature)
} ref_item;

// The tokens that may be drawn with temperature > 0, where xtc excludes none, in the order of the
// draw, into out[REF_MAX_VOCAB]; returns their number.
int ref_kept(const fx_sampling *p, const float *logits, int n_vocab, ref_item *out);

int32_t ref_sample(const fx_sampling *p, const float *logits, int n_vocab, int choice,
                   int position);

#endif
