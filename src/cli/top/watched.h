// watched.h - what `flexinfer top` knows of a server: the last picture of GET /kv/stream with all
// changes since, rates, figures of /metrics, and memory over time. Plain data: no network, no
// screen.
//
//   feed.c --event--> watched.c -> watched_read.c (its lists)
//          --page of /metrics--> watched.c
//                            top_view.c (what is known -> a screen)
//
// Nothing of the server is trusted: what does not fit is an error, lists and names are bounded.
#ifndef FXI_CLI_WATCHED_H
#define FXI_CLI_WATCHED_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "flexinfer/flexinfer.h"

enum {
    FXI_TOP_HISTORY = 512,       // samples of memory
    FXI_TOP_PAGES = 32,          // figures of /metrics
    FXI_TOP_MAX_CHUNK = 1 << 24, // names of chunks, in memory and in the swap each
    FXI_TOP_MAX_LIST = 1 << 20,  // requests, spans, segments of a span
};

// States of chunks: letters and words beside colours. The names are those of the stream.
#define FXI_TOP_CHUNKS(X)        X(absent) X(spare) X(owned) X(shared) X(cached) X(swapped)
#define FXI_NAME_TOP_CHUNK(name) FXI_TOP_##name,
enum { FXI_TOP_CHUNKS(FXI_NAME_TOP_CHUNK) FXI_TOP_N_CHUNK };
#undef FXI_NAME_TOP_CHUNK

typedef struct fxi_top_chunks { // states of chunks by name
    uint8_t *state;             // [cap] what was never named is absent
    size_t cap;
} fxi_top_chunks;

typedef struct fxi_top_segment { // positions at .. at + n - 1 have chunk .. chunk + n - 1
    uint64_t chunk;
    uint32_t at, n, group;
} fxi_top_segment;

typedef struct fxi_top_span {
    uint64_t request;
    uint32_t choice, n_tok;
    bool is_generating;
    fxi_top_segment *segment; // [n_segment]
    uint32_t n_segment;
} fxi_top_span;

typedef struct fxi_top_request {
    uint64_t id, submit_us;
    char state[12];
    uint32_t place, n_prompt, n_cached, n_generated, max_tok, n_seq;
    int priority;
    double tok_s;       // that it generates, smoothed
    uint64_t rated_us;  // when that was last looked at,
    uint32_t rated_tok; // and what it had then
} fxi_top_request;

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

typedef struct fxi_watched { // all zero: nothing is known
    uint64_t number, at_us;  // of the picture; number 0: there is none
    char version[32], manager[32];
    fx_stats stats;
    fxi_top_chunks here, swapped;
    uint64_t n_chunk[FXI_TOP_N_CHUNK];
    fxi_top_span *span; // [n_span] by request, then choice
    size_t n_span;
    fxi_top_request *request; // [n_request] by id
    size_t n_request;
    fxi_top_rates rate;
    fx_stats rated;                          // the figures that rates are measured from,
    uint64_t rated_us;                       // taken then
    fxi_top_sample history[FXI_TOP_HISTORY]; // sample k lies in k % FXI_TOP_HISTORY
    uint64_t n_sample;
    fxi_top_page page[FXI_TOP_PAGES]; // page k lies in k % FXI_TOP_PAGES
    uint64_t n_page;
    uint64_t n_rate;      // times that rates were measured
    uint64_t page_number; // of the picture when the last page came
} fxi_watched;

// Takes in the data of an event "picture" (is_whole) or "change": text[0..n). Errors: FX_EFORMAT
// (it is no such thing, or not the one that comes next), FX_ENOMEM. Then *w is as it was or partly
// changed, and goes on with a picture only.
fx_status fxi_watched_take(fxi_watched *w, bool is_whole, const char *text, size_t n,
                           fx_error *err);

// Takes in a page of /metrics, which comes once a second. What is not there counts as 0. A server
// that takes no pictures is idle: rates are 0 then, and memory stays as it is.
void fxi_watched_page(fxi_watched *w, const char *text, size_t n);

// The mean of a time (FXI_TOP_*) over what happened during the last pages; over everything where
// nothing did. False: there is nothing to tell.
bool fxi_watched_time(const fxi_watched *w, int time, double *mean_s);

// The state of chunk `name`.
int fxi_watched_chunk(const fxi_watched *w, uint64_t name);

void fxi_watched_free(fxi_watched *w); // all zero again

// ---- watched_read.c: the lists of an event -----------------------------------------------------

// A whole number from 0 to max <= FXI_TOP_MAX_NUMBER. Numbers are read as doubles
// (JSON_DECODE_INT_AS_REAL), because a figure may be 2^64 - 1. False: it is something else.
#define FXI_TOP_MAX_NUMBER (UINT64_C(1) << 53)
bool fxi_watched_natural(const json_t *v, uint64_t max, uint64_t *out);

// Each takes in a list of *root that may be missing. Errors: FX_EFORMAT, FX_ENOMEM.
fx_status fxi_watched_read_chunks(fxi_watched *w, const json_t *root, fx_error *err);
fx_status fxi_watched_read_spans(fxi_watched *w, const json_t *root, fx_error *err);
fx_status fxi_watched_read_requests(fxi_watched *w, const json_t *root, fx_error *err);
void fxi_watched_forget(fxi_watched *w); // all lists, not the history

#endif
