// otlp_json.h - spans as the JSON of OTLP, OpenTelemetry's protocol: an ExportTraceServiceRequest
// in the JSON mapping of protobuf, with the names of its conventions for HTTP and generative AI.
//
//     POST /v1/chat/completions   the request, of kind SERVER: http.*, gen_ai.* and error.type;
//                                 an event "first_token" with the time to it
//       queue, prefill, decode    what the engine did for each of its prompts
//       preempted                 while its caches were out of memory
//
// Ids are hexadecimal and times decimal texts, as the protocol says. There is no text of a prompt
// or an answer in it.
#ifndef FXI_SERVER_OTLP_JSON_H
#define FXI_SERVER_OTLP_JSON_H

#include "base/text/buf.h"
#include "server/spans/span.h"

// ---- preemptions: when and for how long, picked from the flight recorder -----------------------
//
// One begins with "preempt" and ends with the next "admit", or with "finish". One thread's own.

enum { FXI_N_PREEMPT = 1024 }; // the last ones that are known

typedef struct fxi_preempt {
    uint64_t request;
    uint64_t from_us, to_us; // by the engine's clock; to_us 0: it has not run again
    uint32_t n_tok;          // in its caches when it was preempted
    bool is_swap;            // to the swap; false: its caches are computed again
} fxi_preempt;

typedef struct fxi_preempts { // all zero: none
    fxi_preempt at[FXI_N_PREEMPT];
    uint64_t n;    // number k lies in at[k % FXI_N_PREEMPT]
    uint64_t next; // the event of the recorder that comes next
} fxi_preempts;

// Takes in what the recorder got since the last call. What it lost meanwhile is missing.
void fxi_preempts_follow(fxi_preempts *p, const fx_engine *eng);
// The one after number *from of this request, and *from moves behind it; NULL: there are no more.
// *from begins at 0.
const fxi_preempt *fxi_preempts_next(const fxi_preempts *p, uint64_t request, uint64_t *from);

// ---- a batch -----------------------------------------------------------------------------------

typedef struct fxi_otlp {
    const char *service_name;     // NULL: as `resource` says, or "flexinfer"
    const char *resource;         // further attributes, a list of pairs (span.h); NULL: none
    int64_t epoch_ns;             // what turns the monotonic clock into time since 1970
    const fxi_preempts *preempts; // NULL: none are known
} fxi_otlp;

// Appends one batch. False: no memory; then *out is incomplete.
bool fxi_otlp_write(fxi_buf *out, const fxi_otlp *o, fxi_trace_span *const *span, size_t n);

// Reads the body of a collector's answer 200 (ExportTraceServiceResponse): how many spans it did
// not take, and why, "" where it does not say. A body that is no JSON, or says nothing: 0.
uint64_t fxi_otlp_rejected(const char *body, size_t n_bytes, char *why, size_t cap);

#endif
