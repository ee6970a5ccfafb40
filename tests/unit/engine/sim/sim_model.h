// sim_model.h - the simulator's model: a forward pass over real or fake memory.
//
//   real   the hash of each token is computed from what is read back from the rows of the token
//          before, and written to its own rows; logits follow from it. So a chunk that is wrongly
//          mapped, shared, copied, wiped or swapped gives other tokens.
//   fake   there are only addresses: rows are touched, and the tokens are those of the engine's
//          sequence.
//
// In both, every row before the run is checked, and the rows of the run must read as zero before
// they are written.
#ifndef TESTS_ENGINE_SIM_MODEL_H
#define TESTS_ENGINE_SIM_MODEL_H

#include "engine/iteration.h"
#include "engine/memory/kv_memory.h"
#include "model/model.h"
#include "unit/engine/sim/sim_law.h"

#include "vtensor/vmm.h"

typedef struct sim_model {
    fxi_model model; // first: an fxi_model is cast to this
    fx_engine *eng;
    sim_law law;
    vt_vmm *fake; // NULL: real memory
    uint64_t *clock_us;
    uint64_t us_per_tok;
    void (*beside)(void *ud); // called in each pass, for other threads; NULL: nothing
    void *ud;
    const char *wrong;         // the first failure
    int spoil_every;           // every n-th row is written wrong; 0: none
    int n_row;                 // written so far
    sim_state at[SIM_MAX_CTX]; // scratch: the hash of one sequence after each token
} sim_model;

// row_bytes: a multiple of 16. NULL: no memory. Freed with fxi_model_free.
sim_model *sim_model_make(int n_layer, size_t row_bytes);

#endif
