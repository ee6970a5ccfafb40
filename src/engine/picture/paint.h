// paint.h - taking pictures: on the engine thread, after a turn.
#ifndef FXI_ENGINE_PAINT_H
#define FXI_ENGINE_PAINT_H

#include "engine/engine.h"

// Takes a picture if somebody looks and one is due. Returns in how many milliseconds the next one
// is, if what this turn has changed is to be in it; 0: nothing is waited for.
int fxi_picture_act(fx_engine *eng);

#endif
