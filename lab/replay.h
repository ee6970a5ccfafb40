// replay.h - a trace through the real scheduler and a real KV manager in virtual time: nothing is
// computed and no memory is taken, so that models and devices of any size can be compared on any
// machine. The same options give the same figures.
//
// bench and tests open the same engine without a trace (fxi_replay_open) and run its iterations
// themselves.
//
// One thread; the calls below may run in several threads at once, on replays of their own.
#ifndef FXI_LAB_REPLAY_H
#define FXI_LAB_REPLAY_H

#include "engine/engine.h"
#include "lab/simulated_model.h"
#include "lab/trace.h"

typedef struct fxi_replay_options {
    // kv_manager: a name of kv_registry.c or of kv_reserve.c; kv_memory_bytes 0: what the model
    // leaves of the device; ctx_tok 0: the model's. Also kv_block_tok, max_seq, step_tok,
    // prefix_pass and swap_bytes.
    fx_options engine;
    const fxi_geometry *geometry;
    const fxi_simulated_device *device;
    size_t page_bytes; // granularity of the device's memory; a power of two
    fxi_run_options run;
} fxi_replay_options;

// max_seq 256, step_tok 2048, pages of 2 MiB, "vtensor", opt-13b on a100-40g, fxi_load_start.
fxi_replay_options fxi_replay_options_start(void);

// The caller frees *out with fxi_replay_figures_free, on errors too. Errors: FX_EINVAL (an option,
// an unknown manager), FX_ENOSPACE (the model does not fit the device, or the budget no sequence),
// FX_ENOMEM, FX_ECLOSED (on_progress said so), FX_EINTERNAL (the engine makes no progress).
fx_status fxi_replay_run(const fxi_trace *t, const fxi_replay_options *opt, fxi_replay_figures *out,
                         fx_error *err);

// ---- its parts: for programs that run the engine's iterations themselves -----------------------

typedef struct fxi_replay fxi_replay;

struct fxi_replay {
    const fxi_replay_options *opt;
    fx_engine *eng;
    fxi_simulated_model *model;   // the engine's
    fxi_simulated_memory *memory; // the manager's
    fxi_kv_ops kv_ops;            // the manager's, but for the calls that are watched
    const fxi_kv_ops *real_ops;
    double mapper_us; // until then the manager's thread is busy
    double batch_sum; // of sequences over passes
    fxi_trace_run run;
};

// An engine over a simulated model and simulated memory; *r holds the options. Errors: as
// fxi_replay_run.
fx_status fxi_replay_open(fxi_replay *r, fx_error *err);
void fxi_replay_close(fxi_replay *r);

#endif
