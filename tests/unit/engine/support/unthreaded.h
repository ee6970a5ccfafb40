// unthreaded.h - an engine without its thread: the test takes the turns (fxi_turn_run), so that
// what happens between two steps is up to it.
#ifndef TESTS_ENGINE_UNTHREADED_H
#define TESTS_ENGINE_UNTHREADED_H

#include "engine/loop/loop.h"
#include "engine/memory/room.h"

// Fails the test if the engine does not open.
fx_engine *unthreaded_open(const char *model_path, fx_options opt);
// The same without the KV manager's thread: what is released is free at once.
fx_engine *unthreaded_open_single(const char *model_path, fx_options opt);
void unthreaded_close(fx_engine *eng); // ends what still runs

#endif
