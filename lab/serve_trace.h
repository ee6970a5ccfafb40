// serve_trace.h - a trace against a real engine in real time: requests are submitted when they
// come, and the same is noted as in virtual time.
#ifndef FXI_LAB_SERVE_TRACE_H
#define FXI_LAB_SERVE_TRACE_H

#include "lab/trace.h"

// Runs in parallel with whatever else the engine does, from one thread of the caller; returns when
// the last request has ended. Memory and the batch are looked at every FXI_SERVE_LOOK_MS, and
// driver_s is 0. The caller frees *out with fxi_replay_figures_free, on errors too. Errors:
// FX_EINVAL (an option), FX_ENOMEM, FX_ECLOSED (on_progress said so, or the engine closed),
// FX_EINTERNAL (a request failed).
fx_status fxi_serve_run(fx_engine *eng, const fxi_trace *t, const fxi_run_options *opt,
                        fxi_replay_figures *out, fx_error *err);

enum { FXI_SERVE_LOOK_MS = 20 };

#endif
