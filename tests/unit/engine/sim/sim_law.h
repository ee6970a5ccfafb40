// sim_law.h - the simulator's language: the row of logits after a run of tokens, from a hash of all
// of them; and the simulator's random numbers.
//
// Each plane of the cache has its own hash, updated from token to token. The model stores that hash
// in the row of the token, and computes the next one from what it reads back.
#ifndef TESTS_ENGINE_SIM_LAW_H
#define TESTS_ENGINE_SIM_LAW_H

#include <stdbool.h>
#include <stdint.h>

enum { SIM_MAX_PLANE = 4, SIM_N_VOCAB = 48, SIM_MAX_CTX = 320 };

// ---- random numbers ----------------------------------------------------------------------------

typedef struct sim_rng {
    uint64_t x;
} sim_rng;

uint64_t sim_mix(uint64_t x);
uint64_t sim_u64(sim_rng *r);
int sim_int(sim_rng *r, int lo, int hi); // lo .. hi; lo where hi is less
bool sim_one_in(sim_rng *r, int n);
float sim_float(sim_rng *r, float lo, float hi);

// ---- logits ------------------------------------------------------------------------------------

typedef struct sim_law {
    uint64_t seed;
    int n_plane;
    int32_t eos;
    float eos_bias; // added to its logit
} sim_law;

typedef struct sim_state {
    uint64_t h[SIM_MAX_PLANE];
} sim_state;

sim_state sim_law_begin(const sim_law *l);
void sim_law_add(const sim_law *l, sim_state *s, int32_t tok);
void sim_law_logits(const sim_law *l, const sim_state *s, float *row); // [SIM_N_VOCAB]

#endif
