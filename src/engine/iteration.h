// iteration.h - the engine's loop, and the plan of a forward pass.
#ifndef FXI_ENGINE_ITERATION_H
#define FXI_ENGINE_ITERATION_H

#include "engine/engine.h"

// ---- iteration.c -------------------------------------------------------------------------------

// One iteration. False: there were no requests.
bool fxi_iteration_run(fx_engine *eng);
// The first part of that: new requests wait from now on.
void fxi_iteration_collect(fx_engine *eng);
// After an iteration: nothing could be computed in it, and rows are being swapped, or a smaller
// budget waits for memory, or what grammars allow is being found out.
bool fxi_iteration_is_blocked(const fx_engine *eng);
// Ends every request, new ones included, with its events.
void fxi_iteration_end_all(fx_engine *eng, fx_finish why);
// Publishes the statistics. Returns the bytes that are being returned to the system.
uint64_t fxi_iteration_publish(fx_engine *eng);
// How long an idle engine waits for its next action, in ms; 0: none is left.
int fxi_idle_wait_ms(const fx_engine *eng);
// Before an iteration: collects new requests. How long the iteration should be delayed for
// companions of the requests that found the engine idle; 0: it is due. Call again after each
// arrival.
uint64_t fxi_batching_delay_us(fx_engine *eng);

// ---- plan.c ------------------------------------------------------------------------------------

// Decides which sequences compute how many tokens in the next pass (n_planned) and extends their
// caches for them. Returns the sum.
int fxi_plan_pass(fx_engine *eng);
size_t fxi_plan_prompt_bytes(void); // of one element of eng->prompt

// ---- admit.c -----------------------------------------------------------------------------------

// Admits waiting requests while there are places and memory. If no request runs and the first one
// cannot start, decides its failure. Whether there are more running requests now.
bool fxi_admit_waiting(fx_engine *eng);
// Matches the LIVE sequences of a running request, or of all, that have no cache and wait for no
// prefix. Whether some have a cache now; those requests are fresh.
bool fxi_admit_match(fx_engine *eng, fxi_live_request *r);
bool fxi_admit_match_running(fx_engine *eng);

#endif
