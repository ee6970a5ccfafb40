// replay_parts.h - shared by the files of a replay: what it consists of while it runs.
#ifndef FXI_REPLAY_PARTS_H
#define FXI_REPLAY_PARTS_H

#include "engine/engine.h"
#include "replay/paper_model.h"
#include "replay/replay.h"

typedef struct fxi_replay fxi_replay;

// A request on its way.
typedef struct fxi_replay_client {
    fxi_replay *r;
    double arrival_us, first_us; // first_us 0: no token yet
    int n_prompt, n_cached, n_output;
} fxi_replay_client;

typedef struct fxi_series { // numbers, of which quantiles are wanted
    double *v;
    size_t n, cap;
} fxi_series;

struct fxi_replay {
    const fxi_trace *t;
    const fxi_replay_options *opt;
    fxi_replay_figures *out;
    fx_engine *eng;
    fxi_paper_model *model;   // the engine's
    fxi_paper_memory *memory; // the manager's
    fxi_kv_ops kv_ops;        // the manager's, but for the calls that are watched
    const fxi_kv_ops *real_ops;
    int32_t *prompt; // scratch, [FXI_TRACE_MAX_TOK] as far as needed
    size_t cap_prompt;
    double start_us;
    double noted_us, busy_us; // up to when memory was noted; how long requests ran
    double next_sample_us;
    double batch_sum; // of sequences over passes
    size_t n_open;    // clients not ended
    fxi_series first, per_tok;
    bool no_memory;
};

// Virtual time: the passes so far and the memory calls that somebody waited for.
static inline double fxi_replay_now_us(const fxi_replay *r)
{
    return r->model->clock_us + r->memory->owner_us;
}

// replay_open.c
fx_status fxi_replay_open(fxi_replay *r, fx_error *err);
void fxi_replay_close(fxi_replay *r);

// replay_note.c
void fxi_replay_note_pass(void *replay);                    // before each forward pass
void fxi_replay_on_event(void *client, const fx_event *ev); // frees the client with its last one
fx_status fxi_replay_finish(fxi_replay *r, fx_error *err);  // fills r->out

#endif
