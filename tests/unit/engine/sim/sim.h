// sim.h - a simulated world for the engine, generated from one seed: the real scheduler and the
// real KV manager, a model that is a hash, a clock that is a counter, and requests that arrive in
// bursts and leave early, while budgets change, requests are preempted and calls to the device
// fail. One thread; the same seed gives the same run.
//
//   sim_law.c      the hash, its logits, and random numbers
//   sim_model.c    the model: real memory that it reads back, or fake memory that keeps a record
//   sim_ref.c      the expected answer of a request
//   sim_draw.c     random requests
//   sim_request.c  checks every event against the reference; sim_verdict.c: the best of n answers
//   sim_draft.c    what a sequence goes on with, now and then a wrong token
//   sim_open.c     an engine for the seed
//   sim.c          iterations, disturbances, and the invariants after each
#ifndef TESTS_ENGINE_SIM_H
#define TESTS_ENGINE_SIM_H

#include "unit/engine/sim/sim_model.h"
#include "unit/engine/sim/sim_request.h"

#include "vmm_fake.h"

enum { SIM_MAX_LIVE = 40 };

// Counters of a run, or of many.
#define SIM_TOTALS(X)  \
    X(iterations)      \
    X(requests)        \
    X(refused)         \
    X(stopped)         \
    X(cancelled)       \
    X(failed)          \
    X(tokens)          \
    X(prompt_tokens)   \
    X(cached_tokens)   \
    X(recomputed)      \
    X(swapped)         \
    X(moving)          \
    X(budgets)         \
    X(waiting_budgets) \
    X(faults)          \
    X(checks)          \
    X(gathered)        \
    X(drafted)         \
    X(accepted)

typedef struct sim_totals {
#define SIM_TOTALS_FIELD(name) uint64_t name;
    SIM_TOTALS(SIM_TOTALS_FIELD)
#undef SIM_TOTALS_FIELD
} sim_totals;

// The settings drawn from the seed.
typedef struct sim_setup {
    bool fake;  // memory
    bool async; // with fake memory: the device runs asynchronously
    int n_layer, ctx_tok;
    size_t row_bytes;
    uint64_t budget_bytes;
    fx_options opt;
    int ahead_tok;
    uint64_t us_per_tok, us_per_iteration;
    sim_taste taste;
    bool faults, budgets, preemptions, crowded; // the disturbances
    int preempt_gap;                            // average number of iterations between forced ones
    int max_live;                               // requests at once
    bool drafts;                                // sequences compute drafted tokens
    bool gathers;                               // an idle engine waits for companions
    int n_iteration;
} sim_setup;

typedef struct sim {
    uint64_t seed, iteration;
    sim_rng rng, draft_rng, gather_rng;
    sim_setup set;
    sim_law law;
    fx_engine *eng;
    sim_model *model; // the engine's
    vt_vmm *fault;    // the manager's
    vt_vmm *fake;     // in it; NULL: real memory
    vt_fake_report epitaph;
    uint64_t clock_us;
    bool is_armed;          // faults
    int burst;              // requests that come together from now on
    uint64_t ticket;        // of a fence of the fake device
    int n_finish;           // how often it has finished work since the last iteration
    bool new_budget;        // requested in this iteration
    bool had_retired;       // memory out of use since the device failed, before this iteration
    int n_budget_iteration; // in a row, while a budget waits
    int n_came;             // requests on their way back before this iteration
    uint64_t first_event;   // of this iteration, in the flight recorder
    bool in_callback;       // inside a request's on_event
    int n_idle_iteration;   // in a row, without progress although requests wait or run
    uint64_t n_done;        // ends and steps so far, as of the last iteration
    uint64_t next_check, check_gap;
    sim_library library;
    sim_request req[SIM_MAX_LIVE];
    sim_totals *total;
    char what[256]; // the first failure; empty: none
} sim;

// sim_open.c
void sim_setup_draw(sim *w);
bool sim_open(sim *w); // false: w->what says why

// sim_draft.c: fx_engine.drafter; ud: the sim.
int sim_draft(void *ud, const fxi_seq *s, int32_t *tok, int most);

// sim.c: one run. n_iteration 0: the number of iterations comes from the seed. spoil: the model
// writes wrong rows, which must be found. False: a check failed, with one line in what[256].
bool sim_run(uint64_t seed, int n_iteration, bool spoil, sim_totals *total, char *what);

#endif
