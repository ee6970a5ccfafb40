// sim_request.h - one request of the simulator's world: its fields, drawn at random, and its
// events, checked against the reference as they come.
#ifndef TESTS_ENGINE_SIM_REQUEST_H
#define TESTS_ENGINE_SIM_REQUEST_H

#include "base/text/buf.h"
#include "engine/iteration.h"
#include "engine/memory/kv_memory.h"
#include "unit/engine/sim/sim_ref.h"

// ---- what prompts are made of ------------------------------------------------------------------

enum { SIM_N_BASE = 4, SIM_N_PAST = 16 };

typedef struct sim_past {
    int32_t tok[SIM_MAX_CTX];
    int n_prompt, n_tok;
} sim_past;

typedef struct sim_library {
    int32_t base[SIM_N_BASE][SIM_MAX_CTX]; // beginnings that many prompts share
    sim_past past[SIM_N_PAST];             // earlier prompts and answers
    int n_past;                            // so far
} sim_library;

void sim_library_fill(sim_library *l, sim_rng *rng);
void sim_library_add(sim_library *l, const sim_answer *a, int n_prompt);

// ---- requests ----------------------------------------------------------------------------------

// The events of a choice so far.
typedef struct sim_choice {
    sim_answer a; // of the tokens emitted
    fxi_buf text;
    fx_finish finish;
    double score;
} sim_choice;

// The other ends that a request may have. The world keeps this up to date.
typedef struct sim_leave {
    bool error, cancel, abort;
    bool no_token; // it was cancelled before its first token: none may be emitted
    bool due;      // it was cancelled before the iteration: it ends in this iteration
} sim_leave;

typedef struct sim_request {
    uint64_t id; // 0: none
    struct sim *world;
    fx_request req;
    sim_ask ask;
    sim_leave may;
    bool is_over; // its last event has come
    int n_ended;
    uint64_t n_event;
    int n_prompt_emitted;
    sim_state prompt_state; // after the prompt tokens emitted
    sim_choice choice[SIM_MAX_SEQ];
    char wrong[160]; // the first failure; empty: none
    // what req points to
    int32_t prompt[SIM_MAX_CTX + 16];
    fx_bias bias[2];
    int32_t allow[24], ban[2], stop_token[2];
    const char *stop[1];
    char stop_text[3];
} sim_request;

// What requests may look like.
typedef struct sim_taste {
    int ctx_tok, max_seq;
    int n_tenant;
    bool long_prompts; // many near the context
    bool long_answers;
} sim_taste;

// A request whose on_event and ud are left to the caller.
void sim_request_draw(sim_request *r, const sim_taste *t, const sim_library *l, sim_rng *rng);

// Call when it was accepted: events may come from now on.
void sim_request_begin(sim_request *r, const sim_law *law, uint64_t id, int max_tok);
void sim_request_event(sim_request *r, const fx_event *ev);
void sim_request_end(sim_request *r); // frees the events
int sim_request_n_left(
    const sim_request *r); // tokens that may still have to be computed or emitted

// sim_verdict.c: call with the last event of a request whose answers are emitted at its end: they
// must be the best that the reference finds. Returns NULL or the failure.
const char *sim_verdict(const sim_request *r);

#endif
