// replay.h - a trace through the real scheduler and a real KV manager in virtual time: nothing is
// computed and no memory is taken, so that models and devices of any size can be compared on any
// machine. The same options give the same figures.
//
//   replay_open.c   an engine over a paper model (paper_model.c) and paper memory (paper_memory.c),
//                   which take the time of a setting (setting.c)
//   replay.c        the clock, arrivals, and the engine's turns
//   replay_note.c   what the engine tells: requests' events, memory at each pass
//   arrival.c       from a trace's rows to requests and their times
//   notes.c         what is noted, and the figures at the end
//   serve.c         the same trace against a real model in real time (serve.h)
//
// One thread; the calls below may run in several threads at once, on replays of their own.
#ifndef FXI_REPLAY_H
#define FXI_REPLAY_H

#include "replay/arrival.h"
#include "replay/notes.h"
#include "replay/paper/setting.h"

typedef struct fxi_replay_options {
    const char *manager; // of KV memory: a name of kv_registry.c
    const fxi_geometry *geometry;
    const fxi_paper_device *device;
    uint64_t kv_bytes;   // budget of the cache; 0: what the model leaves of the device
    size_t page_bytes;   // granularity of the device's memory; a power of two
    int ctx_tok;         // longest sequence; 0: the model's
    int max_seq;         // sequences that run together
    int step_tok;        // token budget of a step
    int block_tok;       // tokens of a unit of KV memory; 0: the manager's choice
    int prefix_pass;     // as in fx_options
    uint64_t swap_bytes; // for preempted sequences; 0: they are computed again
    fxi_load load;
    double sample_s; // between the samples of memory, in virtual time; 0: none
    // Called about a hundred times; may be NULL. False: stop.
    bool (*on_progress)(void *ud, size_t n_done, size_t n_row);
    void *progress_ud;
} fxi_replay_options;

// max_seq 256, step_tok 2048, pages of 2 MiB, "vtensor", opt-13b on a100-40g, fxi_load_start.
fxi_replay_options fxi_replay_options_start(void);

// The caller frees *out with fxi_replay_figures_free, on errors too. Errors: FX_EINVAL (an option,
// an unknown manager), FX_ENOSPACE (the model does not fit the device, or the budget no sequence),
// FX_ENOMEM, FX_ECLOSED (on_progress said so), FX_EINTERNAL (the engine makes no progress).
fx_status fxi_replay_run(const fxi_trace *t, const fxi_replay_options *opt, fxi_replay_figures *out,
                         fx_error *err);

#endif
