// unthreaded.h - an engine without its thread: the test runs the iterations (fxi_iteration_run) and
// decides what happens between them.
#ifndef TESTS_ENGINE_UNTHREADED_H
#define TESTS_ENGINE_UNTHREADED_H

#include "engine/iteration.h"
#include "engine/memory/kv_memory.h"

// Whether engines are opened so that shared KV memory can be written. At first false.
extern bool unthreaded_is_unguarded;

// Fails the test if the engine does not open.
fx_engine *unthreaded_open(const char *model_path, fx_options opt);
// The same without the KV manager's thread: released memory is free at once.
fx_engine *unthreaded_open_single(const char *model_path, fx_options opt);
// The same as unthreaded_open over this memory, which the engine then owns.
fx_engine *unthreaded_open_over(struct vt_vmm *vmm, const char *model_path, fx_options opt);
void unthreaded_close(fx_engine *eng); // ends what still runs
// Submits req with this prompt, for an answer of n_gen tokens, whatever they are. Returns its id;
// fails the test if it is refused.
uint64_t unthreaded_submit(fx_engine *eng, fx_request req, const int32_t *tok, size_t n_tok,
                           int n_gen);

// A clock that only the test moves, in us; the engine follows it from then on, from 1000 s.
extern _Atomic uint64_t unthreaded_clock_us;
fx_engine *unthreaded_set_clock(fx_engine *eng);

// Whether the worker of grammars begins no more work.
void unthreaded_pause_grammars(fx_engine *eng, bool is_paused);

// Fails the test unless the KV manager's books are in order.
void unthreaded_check_manager(fx_engine *eng);

#endif
