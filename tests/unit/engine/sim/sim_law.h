// sim_law.h - the simulator's language: which row of logits follows a run of tokens, by a hash of
// all of them, and the random numbers that its world is made of.
//
// Each plane of the cache has a hash of its own, which goes on from token to token. What a model
// keeps in the row of a token in a plane is that hash, so that the next one can be made of what is
// read back there.
#ifndef TESTS_ENGINE_SIM_LAW_H
#define TESTS_ENGINE_SIM_LAW_H

#include <stdbool.h>
#include <stdint.h>

enum { SIM_MAX_PLANE = 4, SIM_N_VOCAB = 48, SIM_MAX_CTX = 320 };

// ---- chance ------------------------------------------------------------------------------------

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
    float eos_bias; // what it has more than others
} sim_law;

typedef struct sim_state {
    uint64_t h[SIM_MAX_PLANE];
} sim_state;

sim_state sim_law_begin(const sim_law *l);
void sim_law_add(const sim_law *l, sim_state *s, int32_t tok);
void sim_law_logits(const sim_law *l, const sim_state *s, float *row); // [SIM_N_VOCAB]

#endif
