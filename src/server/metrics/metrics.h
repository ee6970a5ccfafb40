// metrics.h - what /metrics shows: one table of counters, gauges and histograms.
//
// A page is made in two steps. FIGURES gather every value as plain data: the engine's own
// statistics, the process as the system sees it, and the counts of this folder. The TABLE then says
// for each metric its name, its labels, and where in the figures its values are. So a new metric
// is a field and a row.
//
// Counts are recorded on the engine's thread and on I/O threads, by relaxed atomic additions: O(1),
// no lock, no allocation. The sets of labels are bounded: routes, status codes, reasons,
// operations. Nothing that comes from a client becomes a label.
#ifndef FXI_SERVER_METRICS_H
#define FXI_SERVER_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "flexinfer/flexinfer.h"
#include "server/spans/exporter.h"
#include "server/work/quota.h"
#include "server/work/workers.h"

enum { FXI_MAX_ROUTE = 48, FXI_N_STATUS = 21, FXI_N_REJECT = 8 };

// How long a request and its parts took: the buckets count in half milliseconds, so they reach from
// 0.0005 s to 4194 s; the sums are in microseconds.
typedef struct fxi_counts { // uint64_t only
    uint64_t http[FXI_MAX_ROUTE + 1][FXI_N_STATUS];
    uint64_t finished[FX_N_FINISH];  // choices, by fx_finish
    uint64_t rejected[FXI_N_REJECT]; // requests for a generation that were refused
    fx_histogram first_token, between_tokens, e2e, queue, prefill, decode;
    fx_histogram prompt_tok, generated_tok;
} fxi_counts;

typedef struct fxi_metrics fxi_metrics;

// The labels of routes: texts that outlive the server. NULL: out of memory. References are counted,
// because requests that the engine still holds outlive the server.
fxi_metrics *fxi_metrics_new(const char *const *route, int n_route);
fxi_metrics *fxi_metrics_ref(fxi_metrics *m);
void fxi_metrics_unref(fxi_metrics *m); // NULL is allowed

// An event of a request that arrived age_us ago; is_first: it brings its first token.
void fxi_metrics_event(fxi_metrics *m, const fx_event *ev, uint64_t age_us, bool is_first);
// A finished HTTP request: the index of its route, -1: none; its status as logged; the code of the
// error it got, or NULL.
void fxi_metrics_request(fxi_metrics *m, int route, int status, const char *code);

typedef struct fxi_stream_counts { // of /kv/stream, so far, but for n_subscriber
    uint64_t n_subscriber;
    uint64_t n_made, n_sent; // texts made, and sent to a subscriber
    uint64_t n_bytes;        // of those sent
    uint64_t ns;             // CPU time for both
} fxi_stream_counts;

// What only the server knows.
typedef struct fxi_server_gauges {
    uint64_t n_connection;
    uint64_t n_log_dropped; // lines
    fxi_quota_gauges quota;
    fxi_workers_gauges workers;
    fxi_stream_counts stream;
    fxi_spans_counts spans;
} fxi_server_gauges;

// Appends the page, in the text format 0.0.4 of Prometheus. False: out of memory.
bool fxi_metrics_page(fxi_buf *b, const fxi_metrics *m, const fx_engine *eng,
                      const fxi_server_gauges *g);

// ---- the table ----------------------------------------------------------------------------------

typedef enum fxi_metric_kind { FXI_COUNTER, FXI_GAUGE, FXI_HISTOGRAM } fxi_metric_kind;

typedef struct fxi_label {
    const char *name;
    const char *const *value; // [n]; NULL: the routes
    int n;
} fxi_label;

typedef struct fxi_metric {
    const char *name; // without the prefix "flexinfer_"
    fxi_metric_kind kind;
    bool is_f64;         // the values are double, else uint64_t. A histogram is an fx_histogram,
                         // and this means that its sum is in microseconds, whatever one unit is
    size_t offset;       // of the first value in the figures
    size_t stride_bytes; // from one label's value to the next
    double scale;        // multiplies what is stored; of a histogram, one unit
    const fxi_label *label, *label2; // the second one's values lie side by side; NULL: none
    const char *help;
} fxi_metric;

extern const fxi_metric fxi_metric_table[];
extern const int fxi_n_metric;

#endif
