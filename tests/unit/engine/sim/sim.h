// sim.h - a world for the engine, all of which follows from one seed: the real scheduler and the
// real manager of KV memory, a model that is a hash, a clock that is a number; and requests that
// come in bursts, leave early, and find that budgets change, groups are preempted and calls to the
// device fail. One thread; a run with the same seed is the same run.
//
//   sim_law.c      the hash, its logits, and chance
//   sim_model.c    the model: real memory that it reads back, or fake memory that keeps a record
//   sim_ref.c      what a request must answer
//   sim_draw.c     requests at random
//   sim_request.c  every event against the reference; sim_verdict.c the best of many answers
//   sim_open.c     an engine for the seed
//   sim.c          turns, disturbances, and what must hold after each
#ifndef TESTS_ENGINE_SIM_H
#define TESTS_ENGINE_SIM_H

#include "unit/engine/sim/sim_model.h"
#include "unit/engine/sim/sim_request.h"

#include "vmm_fake.h"

enum { SIM_MAX_LIVE = 40 };

// What has happened in a run, or in many.
#define SIM_TOTALS(X) \
    X(turns)          \
    X(requests)       \
    X(refused)        \
    X(stopped)        \
    X(cancelled)      \
    X(failed)         \
    X(tokens)         \
    X(prompt_tokens)  \
    X(cached_tokens)  \
    X(recomputed)     \
    X(swapped)        \
    X(budgets)        \
    X(faults)         \
    X(checks)

typedef struct sim_totals {
#define SIM_TOTALS_FIELD(name) uint64_t name;
    SIM_TOTALS(SIM_TOTALS_FIELD)
#undef SIM_TOTALS_FIELD
} sim_totals;

// What the seed has made of the world.
typedef struct sim_setup {
    bool fake;  // memory
    bool async; // of fake memory: a device that runs beside
    int n_layer, ctx_tok;
    size_t row_bytes;
    uint64_t budget_bytes;
    fx_options opt;
    int ahead_tok;
    uint64_t us_per_tok, us_per_turn;
    sim_taste taste;
    bool faults, budgets, preemptions, crowded; // what befalls it
    int preempt_gap;                            // turns between two that are forced, about
    int max_live;                               // requests at once
    int n_turn;
} sim_setup;

typedef struct sim {
    uint64_t seed, turn;
    sim_rng rng;
    sim_setup set;
    sim_law law;
    fx_engine *eng;
    sim_model *model; // the engine's
    vt_vmm *fault;    // the manager's
    vt_vmm *fake;     // in it; NULL: real memory
    vt_fake_report epitaph;
    uint64_t clock_us;
    bool is_armed;    // faults
    int burst;        // requests that come together from now on
    uint64_t ticket;  // of a fence of the fake device
    bool new_budget;  // was asked for in this turn
    bool in_callback; // of a request
    int n_idle_turn;  // in a row, that did nothing although somebody waits or runs
    uint64_t n_done;  // ends and steps so far, as of the last turn
    uint64_t next_check, check_gap;
    sim_library library;
    sim_request req[SIM_MAX_LIVE];
    sim_totals *total;
    char what[256]; // what went wrong first; empty: nothing
} sim;

// sim_open.c
void sim_setup_draw(sim *w);
bool sim_open(sim *w); // false: w->what says why

// sim.c: one run. n_turn 0: as many turns as the seed says. spoil: the model writes wrong rows,
// which are to be found. False: something was not as it must be, one line in what[256].
bool sim_run(uint64_t seed, int n_turn, bool spoil, sim_totals *total, char *what);

#endif
