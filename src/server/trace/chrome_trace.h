// chrome_trace.h - the flight recorder's events as a Chrome trace, JSON that Perfetto and
// chrome://tracing open (Google's "Trace Event Format").
//
//     steps       a slice for each forward pass
//     KV cache    a slice for each call, an instant for what is not timed
//     KV memory   a counter: mapped, live and shared
//     requests    for each request a row with its states: waiting, running, leaving, away, coming
//
// Times are in microseconds by the engine's clock. It holds numbers and the names of events only.
#ifndef FXI_SERVER_CHROME_TRACE_H
#define FXI_SERVER_CHROME_TRACE_H

#include "base/text/buf.h"
#include "flexinfer/flexinfer.h"

// Appends the trace of ev[n], oldest first; n_lost: how many came before them and are lost. What
// had begun before the first event begins with it, what has not ended after the last one ends with
// it, and says so ("cut"). False: no memory; then *out is incomplete.
bool fxi_chrome_trace(fxi_buf *out, const fx_record *ev, size_t n, uint64_t n_lost);

// The same of all events that the engine still has. Any thread.
bool fxi_chrome_trace_of(fxi_buf *out, const fx_engine *eng);

#endif
