// bench_serving.h - shared by the parts of bench_serving: options, an engine whose steps are timed,
// requests of clients, prompts.
//
// The engine runs without its thread: the bench calls its steps. Probes (serving_world.c) wrap the
// model's forward pass and the KV manager's calls; nothing else is changed. An unexpected failure
// ends the program with a line on stderr and status 1.
#ifndef BENCH_SERVING_H
#define BENCH_SERVING_H

#include "bench_program.h"
#include "engine/iteration.h"
#include "engine/memory/kv_memory.h"
#include "model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BIG_PARAM 300000000ull // larger models are measured in fewer steps

// How much is measured; bench_serving.c has the values.
typedef struct bench_sizes {
    int n_repeat;
    int step_tok;                        // the engine's option; 0: its default
    int max_batch, n_step;               // outside: sequences, steps of each case in a repeat
    int long_tok, n_load, n_long_repeat; // ttft: the long prompt; kinds of load, passes of each
    int n_grow_step;                     // prepare
    int n_conv, n_talk;                  // chat: conversations, turns of each
    int n_share, system_tok;             // prefix: requests, tokens they share
    int n_squeezed, squeezed_tok;        // preempt: requests, tokens of an answer
} bench_sizes;

// The figures that have goals; NaN: not measured.
typedef struct bench_findings {
    // Share of a step outside the model, in %, of the worst batch.
    double share_plain, share_top_p, share_forks, share_beams;
    double ttft_steps;   // including the step in which the request came
    double ready_p99_ns; // extend into a new chunk, prepared
    double extend_ratio; // the same, with look-ahead : without
    double spike_ratio;  // p99 of all that a step spends on memory, with : without
} bench_findings;

typedef struct bench {
    const char *model, *csv_path;
    const char *only; // names with commas between them; NULL: all
    int n_thread, n_repeat;
    bool quick;
    bench_sizes size;
    uint64_t n_param;
    results out;
    bench_findings found;
} bench;

// The parts.
void bench_outside(bench *b); // steps.c
void bench_ttft(bench *b);    //
void bench_prepare(bench *b); //
void bench_chat(bench *b);    // caching.c
void bench_prefix(bench *b);  //
void bench_preempt(bench *b); //

// ---- serving_world.c: an engine, its turns, its clients

typedef struct world world;

// One step of the engine.
typedef struct turn {
    double ns;                               // total
    double forward_ns, extend_ns, kvstep_ns; // the model, the extends, the KV manager's step
    int n_seq, n_tok;                        // of the forward pass; 0: there was none
} turn;

typedef struct model_probe {
    fxi_model_ops ops; // first: the model points here
    const fxi_model_ops *real;
    world *w;
} model_probe;

typedef struct kv_probe {
    fxi_kv_ops ops; // first: the manager points here
    const fxi_kv_ops *real;
    world *w;
} kv_probe;

struct world {
    fx_engine *eng;
    model_probe model;
    kv_probe kv;
    turn now;                   // the current step, or the last one
    uint64_t n_turn;            // steps begun so far
    uint64_t n_tok;             // computed so far
    double ns;                  // of all steps so far
    uint64_t peak_bytes;        // largest physical memory of the KV cache after a step
    int n_open;                 // requests submitted and not ended
    samples *every, *into;      // if not NULL: ns of all extends, of those into a new chunk
    void (*mid_step)(void *ud); // if not NULL: called once, when the next forward pass begins
    void *ud;
};

// 0 selects the engine's default.
typedef struct world_size {
    int ctx_tok, max_seq;
    int step_ms;
    uint64_t swap_bytes;
} world_size;

void world_open(world *w, const bench *b, world_size size);
void world_close(world *w);
void world_turn(world *w);
void world_finish(world *w); // steps until every request has ended
void world_empty(world *w);  // drops prefixes and spare memory; resets the counters

// One request as its client sees it. Must not move in memory until it has ended.
typedef struct client {
    world *w;
    uint64_t id;
    double submit_ns, first_ns;       // first_ns: of the first token
    uint64_t submit_turn, first_turn; // n_turn at that time
    int n_received;                   // tokens
    int n_cached;                     // prompt tokens from the prefix cache
    int32_t *answer;                  // if not NULL: [max_tok] receives the tokens
    bool ended;
} client;

fx_request plain_request(const int32_t *prompt, size_t n_prompt, int max_tok); // greedy, no end
void client_submit(client *c, world *w, const fx_request *req);
void clients_cancel(client *c, int n); // and runs steps until they have ended
double client_ttft_ms(const client *c);

// ---- serving_world.c: prompts, freed with free()

// n_tok tokens of real text, a different part for each `which`.
int32_t *text_tokens(const world *w, unsigned which, int n_tok);
int32_t *random_tokens(const world *w, uint64_t seed, int n_tok);

#endif
