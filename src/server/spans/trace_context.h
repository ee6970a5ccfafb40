// trace_context.h - who a request belongs to in a distributed trace: the headers traceparent and
// tracestate of W3C's "Trace Context", as a client sends them.
#ifndef FXI_SERVER_TRACE_CONTEXT_H
#define FXI_SERVER_TRACE_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

enum { FXI_TRACE_ID_BYTES = 16, FXI_SPAN_ID_BYTES = 8, FXI_TRACE_STATE_BYTES = 513 };

typedef struct fxi_trace_context {
    uint8_t trace_id[FXI_TRACE_ID_BYTES];
    uint8_t parent_id[FXI_SPAN_ID_BYTES]; // the caller's span; all zero: there is none
    bool is_sampled;                      // its trace is kept somewhere
} fxi_trace_context;

// Reads traceparent: version 00, and what of later versions has the same form. False: it is NULL
// or not valid, and the request begins a trace of its own; then *out is unchanged.
bool fxi_trace_context_read(const char *traceparent, fxi_trace_context *out);

// Whether tracestate may be passed on: printable ASCII of at most 512 bytes.
bool fxi_trace_state_is_valid(const char *tracestate);

#endif
