// simulated_engine.h - an engine for benches of what it does itself: the scheduler and the KV
// manager are the real ones, over a small model that computes nothing and memory that is only
// counted (lab/simulated_memory.h), so that a cache of any size fits. The clock stands until the
// bench moves it.
//
// If something fails, the program ends with a line on stderr and status 1.
#ifndef BENCH_SIMULATED_ENGINE_H
#define BENCH_SIMULATED_ENGINE_H

#include "lab/replay.h"

enum { SIMULATED_CHUNK_TOK = 64, SIMULATED_MOST_TOK = 2048 }; // of a chunk, of a prompt

typedef struct simulated_engine {
    fxi_replay r;
    fxi_replay_options opt;
    int32_t tok[SIMULATED_MOST_TOK];
    uint64_t clock_us;
    int n_made, n_ended; // requests
} simulated_engine;

// Opens *p with max_seq sequences, steps of step_tok and a budget of kv_bytes.
// simulated_engine_close ends it; the memory of *p is the caller's.
void simulated_engine_open(simulated_engine *p, const char *manager, int max_seq, int step_tok,
                           uint64_t kv_bytes);

// Submits a request for max_tok tokens after a prompt of n_prompt that differs from all earlier
// ones in its first two tokens.
void simulated_engine_ask(simulated_engine *p, int n_prompt, int max_tok);

void simulated_engine_close(simulated_engine *p);

#endif
