// top_state.h - what `flexinfer top` knows of a server: its last snapshot (/kv/snapshot), figures
// of /metrics, rates, and memory over time. Plain data: no network, no screen.
//
// Nothing that the server says is trusted: what does not fit is an error, and lists are bounded.
#ifndef FXI_CLI_TOP_STATE_H
#define FXI_CLI_TOP_STATE_H

#include <stdbool.h>

#include "flexinfer/snapshot.h"

enum {
    FXI_TOP_HISTORY = 512,       // samples of memory
    FXI_TOP_PAGES = 32,          // figures of /metrics
    FXI_TOP_MAX_CHUNK = 1 << 24, // in a run, and positions of a span
    FXI_TOP_MAX_LIST = 1 << 20,
};

typedef struct fxi_top_request {
    fx_request_view view;
    double tok_s;       // that it generates, smoothed
    uint64_t rated_us;  // when that was last measured,
    uint32_t rated_tok; // and what it had then
} fxi_top_request;

typedef struct fxi_top_lists {
    fx_chunk_run *chunk; // [n_chunk] by first
    fx_span *span;       // [n_span] by request, then choice
    fx_segment_run *segment;
    fxi_top_request *request; // [n_request] by id
    size_t n_chunk, n_span, n_segment, n_request;
} fxi_top_lists;

typedef struct fxi_top_sample {
    uint64_t at_us, mapped_bytes, live_bytes, shared_bytes;
} fxi_top_sample;

// X(name, metric): times that /metrics has as a sum and a count.
#define FXI_TOP_TIMES(X)                          \
    X(first_token, "time_to_first_token_seconds") \
    X(queued, "request_queue_time_seconds")       \
    X(between, "inter_token_latency_seconds")
#define FXI_NAME_TOP_TIME(name, metric) FXI_TOP_##name,
enum { FXI_TOP_TIMES(FXI_NAME_TOP_TIME) FXI_TOP_N_TIME };
#undef FXI_NAME_TOP_TIME

typedef struct fxi_top_page { // of /metrics
    double sum_s[FXI_TOP_N_TIME], count[FXI_TOP_N_TIME];
} fxi_top_page;

typedef struct fxi_top_rates { // per second, over the last seconds
    double generated_tok, prompt_tok, step;
} fxi_top_rates;

typedef struct fxi_top_state { // all zero: nothing is known
    uint64_t number, at_us;    // of the snapshot; number 0: there is none
    char version[32], manager[32];
    fx_stats stats;
    uint64_t n_chunk[FX_N_CHUNK_STATE];
    uint64_t n_all_request;
    fxi_top_lists list;
    fxi_top_rates rate;
    fx_stats rated;                          // the figures that rates are measured from,
    uint64_t rated_us;                       // taken then
    uint64_t n_rate;                         // times that rates were measured
    fxi_top_sample history[FXI_TOP_HISTORY]; // sample k lies in k % FXI_TOP_HISTORY
    uint64_t n_sample;
    fxi_top_page page[FXI_TOP_PAGES]; // page k lies in k % FXI_TOP_PAGES
    uint64_t n_page;
} fxi_top_state;

// Takes in the JSON of a snapshot, text[0..n). Errors: FX_EFORMAT, FX_ENOMEM; then *s is as it was.
fx_status fxi_top_take_snapshot(fxi_top_state *s, const char *text, size_t n, fx_error *err);

// Takes in a page of /metrics. What is not there counts as 0.
void fxi_top_take_metrics(fxi_top_state *s, const char *text, size_t n);

// The mean of a time (FXI_TOP_*) over what happened during the last pages; over everything where
// nothing did. False: there is nothing to tell.
bool fxi_top_time(const fxi_top_state *s, int time, double *mean_s);

// The state of chunk `name`: FX_CHUNK_*.
unsigned fxi_top_chunk_state(const fxi_top_state *s, uint64_t name);

void fxi_top_free(fxi_top_state *s); // all zero again

#endif
