// sim_model.h - the simulator's model: a forward pass over real or fake memory.
//
//   real   the hash of each token goes into its rows, made of what is read back from the rows of
//          the token before; logits are made of it. So a chunk that is mapped, shared, copied,
//          wiped or swapped wrongly gives other tokens.
//   fake   there are addresses only: rows are touched, and the tokens are those of the engine's
//          sequence whose cache it is.
//
// In both, every row in front of the run is looked at, and the run's own must read as zero before
// they are written.
#ifndef TESTS_ENGINE_SIM_MODEL_H
#define TESTS_ENGINE_SIM_MODEL_H

#include "engine/loop/loop.h"
#include "engine/memory/room.h"
#include "model/arch.h"
#include "unit/engine/sim/sim_law.h"

#include "vtensor/vmm.h"

typedef struct sim_model {
    fxi_model model; // first: a fxi_model is cast to this
    fx_engine *eng;
    sim_law law;
    vt_vmm *fake; // NULL: real memory
    uint64_t *clock_us;
    uint64_t us_per_tok;
    void (*beside)(void *ud); // called in each pass: what others do meanwhile; NULL: nothing
    void *ud;
    const char *wrong;         // the first thing that was not as it must be
    int spoil_every;           // so many rows it writes a wrong one; 0: never
    int n_row;                 // written so far
    sim_state at[SIM_MAX_CTX]; // scratch: of one sequence, behind each token
} sim_model;

// row_bytes: a multiple of 16. NULL: no memory. Freed with fxi_model_free.
sim_model *sim_model_make(int n_layer, size_t row_bytes);

#endif
