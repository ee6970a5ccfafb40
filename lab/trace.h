// trace.h - traces of requests, and what is noted while one runs.
#ifndef FXI_LAB_TRACE_H
#define FXI_LAB_TRACE_H

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
// follow from it. Not locked.

// ---- requests ----------------------------------------------------------------------------------

typedef struct fxi_load {
    double rate_per_s; // a Poisson process of this rate; 0: as the trace says, or all at once if it
                       // does not
    double speed;      // > 0: the trace's own times pass this many times as fast
    double shrink;     // at least 1: prompts and answers are this many times shorter
    size_t max_row;    // requests, from the trace's start; 0: all
    int n_choice;      // answers to each prompt, at least 1
    int beam_width;    // 0: sampling
    bool no_cache;     // requests share no prefixes, and none is recorded
    int prefix_tok;    // tokens before each prompt that all have in common
    uint64_t seed;     // of the times
} fxi_load;

// The whole trace as it is, one answer each.
fxi_load fxi_load_start(void);
// FX_EINVAL: a number that makes no sense.
fx_status fxi_load_check(const fxi_load *l, fx_error *err);

static inline size_t fxi_load_n_row(const fxi_load *l, const fxi_trace *t)
{
    return l->max_row && l->max_row < t->n_row ? l->max_row : t->n_row;
}

// When row i comes, in microseconds after the first; `before_us` is that of row i - 1.
double fxi_arrival_us(const fxi_load *l, const fxi_trace *t, size_t i, double before_us);

// What row i asks for, with a prompt of ids below n_vocab. *prompt [*cap] is a buffer, which grows
// as needed and is kept by reference; the caller frees it. FX_ENOMEM.
fx_status fxi_arrival_request(const fxi_load *l, const fxi_trace *t, size_t i, uint32_t n_vocab,
                              int32_t **prompt, size_t *cap, fx_request *out, fx_error *err);

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

// ---- noting: times in microseconds, of any clock ------------------------------------------------

typedef struct fxi_series { // numbers, of which quantiles are wanted
    double *v;
    size_t n, cap;
} fxi_series;

typedef struct fxi_notes {
    fxi_replay_figures *out;
    double start_us, noted_us; // the first arrival; up to when the state was noted
    double busy_us;            // of that time, requests ran
    double sample_us, next_sample_us;
    fxi_load_state last; // what holds since noted_us,
    bool has_last;       // if anything runs
    fxi_series first, per_tok;
    bool no_memory;
} fxi_notes;

// sample_us 0: no samples. *out must be empty; the caller frees it.
void fxi_notes_begin(fxi_notes *n, double now_us, double sample_us, fxi_replay_figures *out);
void fxi_notes_idle(fxi_notes *n, double now_us); // nothing ran since the last note
void fxi_notes_state(fxi_notes *n, double now_us, const fxi_load_state *from_now_on);
void fxi_notes_stop(fxi_notes *n, double now_us); // nothing runs from now on
void fxi_notes_first(fxi_notes *n, double us);    // a first token, `us` after its request's arrival
void fxi_notes_done(fxi_notes *n, double us, int n_output); // us, tokens of its first answer
// Fills the figures that follow from the notes, and frees those. FX_ENOMEM: something could not be
// noted.
fx_status fxi_notes_end(fxi_notes *n, double now_us, fx_error *err);

#endif
