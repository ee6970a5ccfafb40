// span.h - finished requests as spans of OpenTelemetry: plain data, filled in by the server, and
// the JSON that a collector takes. A span holds numbers and names, no text of a prompt or an
// answer.
#ifndef FXI_SERVER_SPAN_H
#define FXI_SERVER_SPAN_H

#include <stdbool.h>

#include "base/text/buf.h"
#include "flexinfer/flexinfer.h"

// ---- the trace that a request belongs to: W3C's "Trace Context" ---------------------------------

enum { FXI_TRACE_ID_BYTES = 16, FXI_SPAN_ID_BYTES = 8, FXI_TRACE_STATE_BYTES = 513 };

typedef struct fxi_trace_context {
    uint8_t trace_id[FXI_TRACE_ID_BYTES];
    uint8_t parent_id[FXI_SPAN_ID_BYTES]; // the caller's span; all zero: there is none
    bool is_sampled;                      // its trace is kept somewhere
} fxi_trace_context;

// ---- spans --------------------------------------------------------------------------------------

enum { FXI_TRACE_PARTS = 16 }; // prompts of a request whose phases are told

// What the engine did for one prompt. Its phases follow each other from submission on.
typedef struct fxi_trace_part {
    uint64_t request;                          // the engine's id
    uint64_t begun_us;                         // by the monotonic clock; 0: it was not submitted
    uint64_t queued_us, prefill_us, decode_us; // how long each phase took
    bool has_token;                            // a first token came, at the end of the prefill
} fxi_trace_part;

typedef struct fxi_trace_span {
    fxi_trace_context context;
    uint8_t id[FXI_SPAN_ID_BYTES];
    char trace_state[FXI_TRACE_STATE_BYTES];
    uint64_t start_us, end_us;  // by the monotonic clock
    const char *method, *route; // static
    const char *operation; // gen_ai.operation.name, static; NULL: the request does not generate
    char model[128], response_model[128];
    char request_id[132], response_id[96];
    char tenant[64];
    int status;        // of HTTP, as logged; 499: the client left
    const char *error; // its code, static; NULL: none
    int n_prompt_tok, n_cached_tok, n_generated_tok;
    bool has_usage;
    uint32_t finish_reasons; // bit of each fx_finish that a choice ended with
    int n_choice;            // of each prompt
    fxi_trace_part part[FXI_TRACE_PARTS];
    int n_part; // of part; n_prompt of them were asked for
    int n_prompt;
} fxi_trace_span;

// A span that begins now, in the trace of the caller or one of its own. Of traceparent, version 00
// is read, and what of later versions has the same form; if it is NULL or not valid, the request
// begins a trace of its own. tracestate is passed on if it is printable ASCII of at most 512 bytes.
// NULL: no memory, or its trace is not sampled. Free with free().
fxi_trace_span *fxi_trace_span_begin(const char *traceparent, const char *tracestate);

// ---- lists as OpenTelemetry's variables have them: "key=value,key2=value%202" -------------------
//
// Bytes that a list cannot have are written as %XX (W3C's "Baggage").

typedef struct fxi_otel_pair {
    char key[128], value[512];
} fxi_otel_pair;

// Takes the next pair off *list. What is no pair, is too long, or decodes to a NUL is left out.
// False: nothing is left. NULL is an empty list.
bool fxi_otel_pair_next(const char **list, fxi_otel_pair *out);

// Whether it can be a header of a request: the name is a token of HTTP and none of those that frame
// the request, the value printable ASCII.
bool fxi_otel_pair_is_header(const fxi_otel_pair *p);

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

// ---- spans as the JSON of OTLP ------------------------------------------------------------------
//
// OpenTelemetry's protocol: an ExportTraceServiceRequest in the JSON mapping of protobuf, with the
// names of its conventions for HTTP and generative AI.
//
//     POST /v1/chat/completions   the request, of kind SERVER: http.*, gen_ai.* and error.type;
//                                 an event "first_token" with the time to it
//       queue, prefill, decode    what the engine did for each of its prompts
//       preempted                 while its caches were out of memory
//
// Ids are hexadecimal and times decimal texts, as the protocol says.

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
