// replay_parts.h - shared by the files of a replay: what it consists of while it runs.
#ifndef FXI_REPLAY_PARTS_H
#define FXI_REPLAY_PARTS_H

#include "engine/engine.h"
#include "replay/paper/paper_model.h"
#include "replay/replay.h"

typedef struct fxi_replay fxi_replay;

// A request on its way.
typedef struct fxi_replay_client {
    fxi_replay *r;
    double arrival_us;
    int n_output;   // tokens of its first answer so far
    uint64_t n_all; // of all its answers
} fxi_replay_client;

struct fxi_replay {
    const fxi_trace *t;
    const fxi_replay_options *opt;
    fxi_replay_figures *out;
    fx_engine *eng;
    fxi_paper_model *model;   // the engine's
    fxi_paper_memory *memory; // the manager's
    fxi_kv_ops kv_ops;        // the manager's, but for the calls that are watched
    const fxi_kv_ops *real_ops;
    double mapper_us; // until then the manager's thread is busy
    int32_t *prompt;  // scratch, [cap_prompt]
    size_t cap_prompt;
    fxi_notes notes;
    double open_us;   // of memory calls when the manager was opened
    double batch_sum; // of sequences over passes
    size_t n_open;    // clients not ended
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
fx_status fxi_replay_finish(fxi_replay *r, fx_error *err);  // fills in r->out

#endif
