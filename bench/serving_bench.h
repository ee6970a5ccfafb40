// serving_bench.h - what the parts of bench_serving share: options, an engine whose turns are
// timed, requests of clients, text, rows.
//
// The engine runs without its thread: the bench takes its turns. Around the model's forward pass
// and the KV manager's calls stand probes of ours (serving_world.c); nothing else is changed.
// Whatever fails that must not ends the program with a line on stderr and status 1.
#ifndef SERVING_BENCH_H
#define SERVING_BENCH_H

#include "engine/loop/loop.h"
#include "engine/memory/room.h"
#include "figures.h"
#include "model/arch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BIG_PARAM 300000000ull // models of more parameters are measured in fewer steps

// How much is measured: a table in serving.c.
typedef struct bench_sizes {
    int n_repeat;
    int step_tok;                        // of the engine; 0: its default
    int max_batch, n_step;               // outside: sequences, steps of each case in a repeat
    int long_tok, n_load, n_long_repeat; // ttft: the long prompt; kinds of load, passes of each
    int n_grow_step;                     // prepare
    int n_conv, n_talk;                  // chat: conversations, turns of each
    int n_share, system_tok;             // prefix: requests, tokens they share
    int n_squeezed, squeezed_tok;        // preempt: requests, tokens of an answer
} bench_sizes;

// What the goals are about; NAN: not measured.
typedef struct bench_findings {
    // Of a step outside the model, in %, the worst batch.
    double share_plain, share_top_p, share_forks, share_beams;
    double ttft_steps;   // with the step that the request came in
    double ready_p99_ns; // extend into a new chunk, prepared
    double extend_ratio; // the same with, to without
    double spike_ratio;  // p99 of all that a step does for memory, with to without
} bench_findings;

typedef struct bench {
    const char *model, *csv_path;
    const char *only; // names with commas between them; NULL: all
    int n_thread, n_repeat;
    bool quick;
    bench_sizes size;
    char model_name[128];
    uint64_t n_param;
    FILE *table, *csv;   // NULL: not wanted
    const char *section; // of the rows
    char row[80];        // the row being written
    bench_findings found;
} bench;

// The parts.
void bench_outside(bench *b); // serving_outside.c
void bench_ttft(bench *b);    // serving_ttft.c
void bench_prepare(bench *b); // serving_prepare.c
void bench_chat(bench *b);    // serving_chat.c
void bench_prefix(bench *b);  // serving_prefix.c
void bench_preempt(bench *b); // serving_preempt.c

// ---- serving_world.c: an engine, its turns, its clients

typedef struct world world;

// One turn of the engine.
typedef struct turn {
    double ns;                               // all of it
    double forward_ns, extend_ns, kvstep_ns; // of it: the model; extends; the KV manager's step
    int n_seq, n_tok;                        // of the forward pass; 0: there was none
} turn;

typedef struct model_probe {
    fxi_arch arch; // first: the model points here
    const fxi_arch *real;
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
    turn now;                   // being taken, or taken last
    uint64_t n_turn;            // begun so far
    uint64_t n_tok;             // computed so far
    double ns;                  // of all turns so far
    uint64_t peak_bytes;        // physical memory of the KV cache at the end of any turn
    int n_open;                 // requests submitted and not ended
    samples *every, *into;      // if not NULL: ns of extends; of those into a new chunk
    void (*mid_step)(void *ud); // if not NULL: called once, when the next forward pass begins
    void *ud;
};

// What is zero takes the engine's default.
typedef struct world_size {
    int ctx_tok, max_seq;
    int step_ms;
    uint64_t swap_bytes;
} world_size;

void world_open(world *w, const bench *b, world_size size);
void world_close(world *w);
void world_turn(world *w);
void world_finish(world *w); // turns until every request has ended
void world_empty(world *w);  // no prefix and no spare memory is left; counters of the world are 0

// One request, as its client sees it. It stays where it is until it has ended.
typedef struct client {
    world *w;
    uint64_t id;
    double submit_ns, first_ns;       // first_ns: of the first token
    uint64_t submit_turn, first_turn; // the turn begun last
    int n_told;                       // tokens
    int n_cached;                     // prompt tokens from the prefix cache
    int32_t *answer;                  // if not NULL: [max_tok] where the tokens go
    bool ended;
} client;

fx_request plain_request(const int32_t *prompt, size_t n_prompt, int max_tok); // greedy, no end
void client_submit(client *c, world *w, const fx_request *req);
void clients_cancel(client *c, int n); // and waits until they have ended
double client_ttft_ms(const client *c);

// ---- serving_text.c: prompts; free() them

// n_tok tokens of real text, another part of it for each `which`.
int32_t *text_tokens(const world *w, unsigned which, int n_tok);
int32_t *random_tokens(const world *w, uint64_t seed, int n_tok);

// ---- serving_rows.c: rows, and then cells of it

void section(bench *b, const char *name, const char *title);
void row_begin(bench *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void row_cell(bench *b, const char *what, double value, const char *unit);
// The median of the repeats, and their least and most. Empties s.
void row_spread(bench *b, const char *what, samples *s, const char *unit);
void row_end(bench *b);

#endif
