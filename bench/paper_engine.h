// paper_engine.h - an engine for benches of what it does itself: the scheduler and the KV manager
// are the real ones, over a small model that computes nothing and memory that is only counted
// (replay/paper), so that a cache of any size fits. The clock stands until the bench moves it.
//
// If something fails, the program ends with a line on stderr and status 1.
#ifndef BENCH_PAPER_ENGINE_H
#define BENCH_PAPER_ENGINE_H

#include "replay/replay_parts.h"

enum { PAPER_CHUNK_TOK = 64, PAPER_MOST_TOK = 2048 }; // of a chunk, of a prompt

typedef struct paper_engine {
    fxi_replay r;
    fxi_replay_options opt;
    fxi_replay_figures out;
    fxi_trace trace;
    int32_t tok[PAPER_MOST_TOK];
    uint64_t clock_us;
    int n_made, n_ended; // requests
} paper_engine;

// Opens *p with max_seq sequences, steps of step_tok and a budget of kv_bytes. paper_engine_close
// ends it; the memory of *p is the caller's.
void paper_engine_open(paper_engine *p, const char *manager, int max_seq, int step_tok,
                       uint64_t kv_bytes);

// Submits a request for max_tok tokens behind a prompt of n_prompt that differs from all earlier
// ones in its first two tokens.
void paper_engine_ask(paper_engine *p, int n_prompt, int max_tok);

void paper_engine_close(paper_engine *p);

// "bench: what" on stderr, and the end of the program with status 1.
void die(const char *what);

#endif
