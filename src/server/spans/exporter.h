// exporter.h - finished spans to an OpenTelemetry collector, by a thread of its own that holds
// nobody up.
//
//   any thread --fxi_spans_add--> ring of spans --> one thread --> POST, in batches --> collector
//
// A collector that is gone or slow blocks that thread alone. A batch is tried again, ever later, as
// the protocol says (429, 502, 503, 504, and connections that fail), for a minute; meanwhile the
// ring fills, and spans that find no room are dropped. Every span is counted as sent or dropped.
// The first failure after a success is told in one line, and so is the first success after that.
#ifndef FXI_SERVER_EXPORTER_H
#define FXI_SERVER_EXPORTER_H

#include "flexinfer/flexinfer.h"
#include "server/spans/span.h"

enum { FXI_SPANS_RING = 2048, FXI_SPANS_BATCH = 128 };

typedef struct fxi_spans fxi_spans;

typedef struct fxi_spans_options { // texts must live until fxi_spans_stop
    const char *endpoint;          // the whole URL: http[s]://HOST:PORT/v1/traces
    const char *ca_file;           // authorities to trust for https; NULL: the system's
    const char *service_name;      // NULL or "": as `resource` says, or "flexinfer"
    // Lists as OTEL_RESOURCE_ATTRIBUTES and OTEL_EXPORTER_OTLP_HEADERS have them (span.h):
    // attributes of this process, and headers of each POST. NULL: none.
    const char *resource, *headers;
    // Gets one line, without a newline, where the collector begins or ceases to fail. May be NULL.
    // On the exporter's thread, not after fxi_spans_stop.
    void (*say)(void *ud, bool fails, const char *line);
    void *ud;
    double first_wait_s; // before a batch is tried again, and twice as long each time up to 30 s;
                         // 0: 1
    double give_up_s;    // how long a batch is tried, and a collector may take for it; 0: 60 and 10
} fxi_spans_options;

// X(name): what became of spans.
#define FXI_SPANS_LOST(X)                                \
    X(full)        /* the ring was full */               \
    X(refused)     /* the collector did not take them */ \
    X(unreachable) /* it did not answer, or with an error that passes, for too long */
#define FXI_NAME_LOST(name) FXI_LOST_##name,
enum { FXI_SPANS_LOST(FXI_NAME_LOST) FXI_N_LOST };
#undef FXI_NAME_LOST

typedef struct fxi_spans_counts { // so far
    uint64_t n_sent, n_lost[FXI_N_LOST];
} fxi_spans_counts;

// Starts the thread. The collector need not be there. Errors: FX_EINVAL (the endpoint, as
// fxi_http_url_check says), FX_ENOMEM, FX_EIO (ca_file), FX_EINTERNAL (no thread).
fx_status fxi_spans_start(const fxi_spans_options *opt, fxi_spans **out, fx_error *err);

// From now on preemptions are read from this engine's flight recorder; it must live until
// fxi_spans_stop.
void fxi_spans_watch(fxi_spans *x, const fx_engine *eng);

// Takes over a finished span (heap). Any thread; takes no longer than a lock. x may be NULL.
void fxi_spans_add(fxi_spans *x, fxi_trace_span *s);

void fxi_spans_count(fxi_spans *x, fxi_spans_counts *out); // x may be NULL: zeros

// Waits at most wait_s for what is there to be sent, then ends the thread; what is left is dropped.
// No other thread may use x any more. x may be NULL.
void fxi_spans_stop(fxi_spans *x, double wait_s);

#endif
