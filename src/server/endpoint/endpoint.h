// endpoint.h - answers that need no request to the engine: a call's body to the body of its answer.
// No threads and no sockets; each may run on any thread.
#ifndef FXI_SERVER_ENDPOINT_H
#define FXI_SERVER_ENDPOINT_H

#include "base/text/buf.h"
#include "flexinfer/flexinfer.h"
#include "flexinfer/snapshot.h"
#include "server/request/api_request.h"

typedef struct fxi_call {
    fx_engine *eng;
    const fxi_limits *lim;
    int64_t created_s; // when the server started, by the clock
    const char *tail;  // the path after the route's own
    const char *body;  // [n_body]
    size_t n_body;
} fxi_call;

// Appends the answer, JSON, to *out. False: *err is the answer.
typedef bool fxi_endpoint(const fxi_call *c, fxi_buf *out, fxi_http_error *err);

fxi_endpoint fxi_endpoint_models, fxi_endpoint_model; // the latter: of the tail
fxi_endpoint fxi_endpoint_props, fxi_endpoint_tokenizer_info;
fxi_endpoint fxi_endpoint_version, fxi_endpoint_ping;
fxi_endpoint fxi_endpoint_tokenize, fxi_endpoint_detokenize, fxi_endpoint_count;
fxi_endpoint fxi_endpoint_apply_template;
fxi_endpoint fxi_endpoint_stats, fxi_endpoint_trace;
fxi_endpoint fxi_endpoint_cache, fxi_endpoint_cache_clear;
fxi_endpoint fxi_endpoint_budget, fxi_endpoint_set_budget;

// Returns ok; if it is false, *err becomes "out of memory".
bool fxi_endpoint_end(bool ok, fxi_http_error *err);

// Appends a snapshot of the engine as a line of JSON; docs/user/watch.md has the format. False: no
// memory; then *out is incomplete.
bool fxi_snapshot_json(fxi_buf *out, const fx_snapshot *s);

#endif
