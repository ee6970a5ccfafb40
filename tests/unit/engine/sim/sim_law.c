// sim_law.c - hashes of runs of tokens, and the rows of logits that follow from them.
#include "unit/engine/sim/sim_law.h"

#define STEP UINT64_C(0x9e3779b97f4a7c15)

// The finalizer of splitmix64.
uint64_t sim_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t sim_u64(sim_rng *r)
{
    return sim_mix(r->x += STEP);
}

int sim_int(sim_rng *r, int lo, int hi)
{
    if (hi <= lo) return lo;
    return lo + (int)(sim_u64(r) % (uint64_t)(hi - lo + 1));
}

bool sim_one_in(sim_rng *r, int n)
{
    return sim_int(r, 1, n) == 1;
}

float sim_float(sim_rng *r, float lo, float hi)
{
    return lo + (hi - lo) * (float)(sim_u64(r) >> 40) / (float)(1 << 24);
}

sim_state sim_law_begin(const sim_law *l)
{
    sim_state s = {{0}};
    for (int p = 0; p < l->n_plane; p++) s.h[p] = sim_mix(l->seed + STEP * (uint64_t)(p + 1));
    return s;
}

void sim_law_add(const sim_law *l, sim_state *s, int32_t tok)
{
    for (int p = 0; p < l->n_plane; p++)
        s->h[p] = sim_mix(s->h[p] + STEP * (uint64_t)(tok + 1)) + (uint64_t)p;
}

// Numbers of 24 bits from 0 to 8: ties are rare, and the likeliest has a fair lead.
void sim_law_logits(const sim_law *l, const sim_state *s, float *row)
{
    sim_rng r = {0};
    for (int p = 0; p < l->n_plane; p++) r.x = sim_mix(r.x ^ s->h[p]) + STEP;
    for (int i = 0; i < SIM_N_VOCAB; i++) row[i] = sim_float(&r, 0, 8);
    row[l->eos] += l->eos_bias;
}
