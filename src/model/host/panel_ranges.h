// panel_ranges.h - panels of weights, handed out to threads in ranges that become shorter.
//
// What a kernel does once per call is lost time: it prepares the tokens, and its first weights are
// not in a cache yet. So ranges are long at first. The last ones are short, so that the threads end
// together. Large batches get ranges of one length, because there each call prepares much more.
#ifndef FXI_MODEL_PANEL_RANGES_H
#define FXI_MODEL_PANEL_RANGES_H

#include <stdatomic.h>

#include "model/host/compute.h"

typedef struct fxi_panel_ranges {
    int n_panel, period; // no range goes beyond a multiple of period
    int least, most;     // panels of a range, multiples of 4; the last one of a period is shorter
    int n_share;         // a range is three n_share-ths of what is left, within these bounds
    atomic_int next;     // the first panel that nobody has taken
} fxi_panel_ranges;

// For batches of at most n_tok tokens. most: panels of a range if the batch is large.
void fxi_ranges_init(fxi_panel_ranges *r, const fxi_compute *c, int n_panel, int period, int n_tok,
                     int most);
// Takes the next range: panels first to end - 1. False if none is left. Called by any thread.
bool fxi_ranges_take(fxi_panel_ranges *r, int *first, int *end);

#endif
