// replay.h - a trace through the real scheduler and a real KV manager in virtual time: nothing is
// computed and no memory is taken, so that models and devices of any size can be compared on any
// machine. The same options give the same figures.
//
//   replay_open.c   an engine over a paper model and paper memory
//   replay.c        the clock, arrivals, and the engine's turns
//   replay_note.c   what is noted on the way, and the figures at the end
//   setting.c, trace.c (trace_csv.c, trace_json.c), paper_model.c, paper_memory.c
//
// One thread; the calls below may run in several threads at once, on replays of their own.
#ifndef FXI_REPLAY_H
#define FXI_REPLAY_H

#include "replay/setting.h"
#include "replay/trace/trace.h"

typedef struct fxi_replay_options {
    const char *manager; // of KV memory: a name of kv_registry.c
    const fxi_geometry *geometry;
    const fxi_device *device;
    uint64_t kv_bytes; // budget of the cache; 0: what the model leaves of the device
    size_t page_bytes; // granularity of the device's memory; a power of two
    int ctx_tok;       // longest sequence; 0: the model's
    int max_seq;       // sequences that run together
    int step_tok;      // token budget of a step
    double rate_per_s; // arrivals: a Poisson process of this rate; 0: as the trace says, or all at
                       // once if it does not
    size_t max_row;    // requests of the trace, from its start; 0: all
    int n_choice;      // answers to each prompt, at least 1
    uint64_t seed;     // of the arrivals
    double sample_s;   // between the samples of memory, in virtual time; 0: none
    // Called about a hundred times; may be NULL. False: stop.
    bool (*on_progress)(void *ud, size_t n_done, size_t n_row);
    void *progress_ud;
} fxi_replay_options;

// max_seq 256, step_tok 2048, pages of 64 KiB, one choice, "vtensor", opt-13b on a100-40g.
fxi_replay_options fxi_replay_options_start(void);

typedef struct fxi_replay_sample {
    double at_s;
    int n_running, n_waiting;                        // sequences
    uint64_t mapped_bytes, live_bytes, cached_bytes; // fxi_kv_stats
} fxi_replay_sample;

typedef struct fxi_quantiles {
    double mean, p50, p99;
} fxi_quantiles;

typedef struct fxi_replay_figures {
    uint64_t budget_bytes;
    size_t n_done, n_refused; // requests; refused: they do not fit the context or the budget
    uint64_t n_prompt_tok, n_cached_tok, n_output_tok; // of those done
    uint64_t n_pass, n_preempt_recompute, n_preempt_swap;
    double end_s;            // virtual time from the first arrival to the last end
    double mean_batch;       // sequences in a pass
    fxi_quantiles first_s;   // from arrival to the first token
    fxi_quantiles per_tok_s; // from arrival to the end, by tokens of the answer
    double driver_s;         // of end_s: memory calls that a step waited for
    // Means over time while requests ran:
    double mean_mapped_bytes, mean_live_bytes, mean_cached_bytes;
    uint64_t peak_mapped_bytes;
    fxi_replay_sample *sample; // [n_sample]
    size_t n_sample;
} fxi_replay_figures;

// The caller frees *out with fxi_replay_figures_free, on errors too. Errors: FX_EINVAL (an option,
// an unknown manager), FX_ENOSPACE (the model does not fit the device, or the budget no sequence),
// FX_ENOMEM, FX_ECLOSED (on_progress said so), FX_EINTERNAL (the engine makes no progress).
fx_status fxi_replay_run(const fxi_trace *t, const fxi_replay_options *opt, fxi_replay_figures *out,
                         fx_error *err);
void fxi_replay_figures_free(fxi_replay_figures *f);

#endif
