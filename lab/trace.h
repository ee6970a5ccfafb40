// trace.h - traces of requests, and what is noted while one runs.
#ifndef FXI_LAB_TRACE_H
#define FXI_LAB_TRACE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"
#include "flexinfer/flexinfer.h"

// ---- a trace ------------------------------------------------------------------------------------

// Traces of requests: when each came, how long its prompt and its answer were, and which blocks of
// its prompt others had as well.
//
// Two formats, told apart by the first character:
//   CSV    a line that names the columns, then a line for each request
//   JSONL  an object for each request, one a line
//
// Columns, by any of their names; others are ignored:
//   arrival_ms, timestamp             milliseconds from any start; optional, and then in all rows
//   prompt_tokens, input_length       at least 1
//   output_tokens, output_length      at least 0
//   hash_ids                          one id for each FXI_TRACE_BLOCK_TOK tokens of the prompt, the
//                                     last of which may be partly filled; in CSV separated by
//                                     spaces. Equal ids from the start on mean an equal prefix
// These are the columns of Mooncake's traces (arXiv 2407.00079); other public traces have some.

enum { FXI_TRACE_BLOCK_TOK = 512, FXI_TRACE_MAX_TOK = 1 << 24 };

typedef struct fxi_trace_row {
    double arrival_ms;
    int n_prompt, n_output; // tokens
    size_t hash, n_hash;    // its ids are hash[hash .. hash + n_hash) of the trace; n_hash 0: none
} fxi_trace_row;

typedef struct fxi_trace { // all zero: empty
    fxi_trace_row *row;    // [n_row] by arrival
    size_t n_row, cap_row;
    uint64_t *hash; // [n_hash]
    size_t n_hash, cap_hash;
    bool has_arrivals;
} fxi_trace;

// The caller frees *out, on errors too. Errors: FX_EIO, FX_EFORMAT (with the line), FX_ENOMEM.
fx_status fxi_trace_open(const char *path, fxi_trace *out, fx_error *err);
// The same from text; `name` begins error texts.
fx_status fxi_trace_read(const char *text, size_t n_bytes, const char *name, fxi_trace *out,
                         fx_error *err);
void fxi_trace_free(fxi_trace *t); // empty again

// ---- running it ---------------------------------------------------------------------------------

// From the rows of a trace to requests: when they come, what they ask for, and the tokens of their
// prompts; and what is noted while they run, in virtual or in real time, with the figures that
// follow from it.

// ---- requests ----------------------------------------------------------------------------------

typedef struct fxi_load {
    float rate_per_s; // a Poisson process of this rate; 0: as the trace says, or all at once if it
                      // does not
    float speed;      // > 0: the trace's own times pass this many times as fast
    float shrink;     // at least 1: prompts and answers are this many times shorter
    int max_row;      // requests, from the trace's start; 0: all
    int n_choice;     // answers to each prompt, at least 1
    int beam_width;   // 0: sampling
    bool no_cache;    // requests share no prefixes, and none is recorded
    int prefix_tok;   // tokens before each prompt that all have in common
    uint64_t seed;    // of the times
} fxi_load;

// The whole trace as it is, one answer each.
fxi_load fxi_load_start(void);
// FX_EINVAL: a number that makes no sense.
fx_status fxi_load_check(const fxi_load *l, fx_error *err);

static inline size_t fxi_load_n_row(const fxi_load *l, const fxi_trace *t)
{
    const size_t most = (size_t)l->max_row;
    return most && most < t->n_row ? most : t->n_row;
}

// When row i comes, in microseconds after the first; `before_us` is that of row i - 1.
double fxi_arrival_us(const fxi_load *l, const fxi_trace *t, size_t i, double before_us);

// ---- figures -----------------------------------------------------------------------------------

// Where the bytes of KV memory are; the kinds are those of fx_stats.
typedef struct fxi_memory_kinds {
    double mapped, live, used, reserved, internal, external, cached, spare;
} fxi_memory_kinds;

// What holds from one moment on.
typedef struct fxi_load_state {
    int n_running, n_waiting; // sequences
    fxi_memory_kinds kv;
} fxi_load_state;

typedef struct fxi_replay_sample {
    double at_s;
    fxi_load_state state;
} fxi_replay_sample;

typedef struct fxi_quantiles {
    double mean, p50, p99;
} fxi_quantiles;

typedef struct fxi_replay_figures {
    uint64_t budget_bytes;
    size_t n_done, n_refused; // requests; refused: they do not fit the context or the budget
    uint64_t n_prompt_tok, n_cached_tok, n_output_tok; // of those done
    uint64_t n_pass, n_preempt_recompute, n_preempt_swap;
    double end_s;            // from the first arrival to the last end
    double mean_batch;       // sequences in a pass
    fxi_quantiles first_s;   // from arrival to the first token
    fxi_quantiles per_tok_s; // from arrival to the end, by tokens of the answer
    double driver_s;         // of end_s: memory calls that a step waited for; 0 in real time
    fxi_memory_kinds mean;   // over the time while requests ran
    double peak_mapped_bytes;
    fxi_replay_sample *sample; // [n_sample]
    size_t n_sample, cap_sample;
} fxi_replay_figures;

void fxi_replay_figures_free(fxi_replay_figures *f);

// ---- a run --------------------------------------------------------------------------------------

typedef struct fxi_run_options {
    fxi_load load;
    double sample_s; // between the samples of memory; 0: none
    // Called about a hundred times, or ten times a second in real time; may be NULL. False: stop.
    bool (*on_progress)(void *ud, size_t n_done, size_t n_row);
    void *progress_ud;
} fxi_run_options;

typedef struct fxi_series { // numbers, of which quantiles are wanted
    double *v;
    size_t n, cap;
} fxi_series;

// A trace that runs on an engine, by any clock.
typedef struct fxi_trace_run {
    const fxi_trace *t;
    const fxi_run_options *opt;
    fx_engine *eng;
    double (*now_us)(const void *clock);
    const void *clock;
    int32_t *prompt; // scratch, [cap_prompt]
    size_t cap_prompt;
    pthread_mutex_t mu; // guards the rest: events come on the engine's thread
    fxi_replay_figures *out;
    size_t n_open, n_failed;   // requests on their way; ended with an error
    double start_us, noted_us; // the first arrival; up to when the state was noted
    double busy_us;            // of that time, requests ran
    double next_sample_us;
    fxi_load_state last; // what holds since noted_us,
    bool has_last;       // if anything runs
    fxi_series first, per_tok;
    bool no_memory;
} fxi_trace_run;

// The run begins now; the fields up to `clock` are set. *out must be empty; the caller frees it.
void fxi_run_begin(fxi_trace_run *r, fxi_replay_figures *out);
// Submits row i, which has arrived at arrival_us; *id: of the engine, 0: it was refused, as what
// does not fit is. Errors: FX_ENOMEM, others of fx_submit.
fx_status fxi_run_submit(fxi_trace_run *r, size_t i, double arrival_us, uint64_t *id,
                         fx_error *err);
// Notes what holds from now on, if requests are on their way: whether there are any. *n_done:
// requests that are no longer.
bool fxi_run_note(fxi_trace_run *r, const fxi_load_state *state, size_t *n_done);
void fxi_run_idle(fxi_trace_run *r); // nothing ran since the last note
// Fills the figures that follow from what was noted, up to the last note, and frees that.
// FX_ENOMEM: something could not be noted.
fx_status fxi_run_end(fxi_trace_run *r, fx_error *err);

#endif
