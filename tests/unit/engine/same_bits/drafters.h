// drafters.h - guesses of an answer, right and wrong, for an engine to which they must not matter.
#ifndef TESTS_ENGINE_DRAFTERS_H
#define TESTS_ENGINE_DRAFTERS_H

#include "unit/engine/support/bits.h"

// NO_DRAFTS: none. ORACLE: the answer that is expected, as far as the draft goes or up to one wrong
// token. RANDOM: ids drawn from a seed. WRONG: as the oracle, but each first token is another one.
enum drafts { NO_DRAFTS, ORACLE, RANDOM, WRONG, N_DRAFTS };

typedef struct drafter {
    enum drafts kind;
    const bits_answer *want; // of requests with this prompt; NULL: random ones for all
    const int32_t *prompt;   // [n_prompt]
    int n_prompt, n_vocab;
    uint64_t rng;
} drafter;

// fx_engine.drafter; ud: a drafter.
int drafter_guess(void *ud, const fxi_seq *s, int32_t *tok, int most);

#endif
