// metrics.h - what /metrics shows: one table of counters, gauges and histograms.
//
// A page is made in two steps. FIGURES gather every value as plain data: the engine's own
// statistics, the process as the system sees it, and the counts of this shelf. The TABLE then says
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

// What only the server knows.
typedef struct fxi_server_gauges {
    uint64_t n_connection;
    uint64_t n_log_dropped;        // lines
    uint64_t limit_bytes, refused; // of the quota: its limit, and takes that it refused
    uint64_t held_bytes[FXI_N_BYTES_OF];
    fxi_spans_counts spans;
    uint64_t n_worker, n_busy_worker, n_waiting_work;
    uint64_t n_subscriber, n_kv_made, n_kv_sent, kv_sent_bytes, kv_send_ns; // of /kv/stream
} fxi_server_gauges;

// Appends the page, in the text format 0.0.4 of Prometheus. False: out of memory.
bool fxi_metrics_page(fxi_buf *b, const fxi_metrics *m, const fx_engine *eng,
                      const fxi_server_gauges *g);

// ---- the table ----------------------------------------------------------------------------------

typedef struct fxi_process {
    double start_s; // since 1970
    double cpu_s;
    uint64_t resident_bytes, n_file, max_file;
} fxi_process;

typedef struct fxi_figures {
    fx_stats engine;
    fx_details details;
    fxi_counts counts;
    fxi_process process;
    fxi_server_gauges server;
    uint64_t prompt_tok; // computed or cached
    double max_mappings; // of the KV cache
    double kv_usage;     // of the budget, by running sequences: 0 .. 1
} fxi_figures;

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
    size_t offset;       // of the first value in fxi_figures
    size_t stride_bytes; // from one label's value to the next
    double scale;        // multiplies what is stored; of a histogram, one unit
    const fxi_label *label, *label2; // the second one's values lie side by side; NULL: none
    const char *help;
} fxi_metric;

extern const fxi_metric fxi_metric_table[];
extern const int fxi_n_metric;

// The place of a status among FXI_N_STATUS, of an error's code among FXI_N_REJECT; -1: the code is
// no rejection.
int fxi_status_index(int status);
int fxi_reject_index(const char *code);

// ---- the page -----------------------------------------------------------------------------------

// Appends all metrics.
bool fxi_metrics_text(fxi_buf *b, const fxi_figures *s, const char *const *route, int n_route);
// Appends NAME{labels...} 1 for pairs of a label's name and its value, which is escaped.
bool fxi_metrics_info(fxi_buf *b, const char *name, const char *help, const char *const *pair,
                      int n_pair);
void fxi_process_read(fxi_process *p); // what cannot be read stays 0

#endif
