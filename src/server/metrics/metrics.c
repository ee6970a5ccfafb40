// metrics.c - see metrics.h.
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "server/metrics/metrics.h"

typedef struct process_figures { // as the system sees it; what cannot be read stays 0
    double start_s;              // since 1970
    double cpu_s;
    uint64_t resident_bytes, n_file, max_file;
} process_figures;

typedef struct figures {
    fx_stats engine;
    fx_details details;
    fxi_counts counts;
    process_figures process;
    fxi_server_gauges server;
    uint64_t n_waiting_work;
    uint64_t prompt_tok; // computed or cached
    double max_mappings; // of the KV cache
    double kv_usage;     // of the budget, by running sequences: 0 .. 1
} figures;

// ---- counts -------------------------------------------------------------------------------------

#define N_CELL   (sizeof(fxi_counts) / sizeof(uint64_t))
#define UNIT_US  500 // of the buckets of times
#define AT(what) (offsetof(fxi_counts, what) / sizeof(uint64_t))

struct fxi_metrics {
    atomic_int refs;
    const char *route[FXI_MAX_ROUTE];
    int n_route;
    _Atomic uint64_t cell[N_CELL]; // an fxi_counts
};

fxi_metrics *fxi_metrics_new(const char *const *route, int n_route)
{
    fxi_metrics *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    atomic_init(&m->refs, 1);
    m->n_route = n_route < FXI_MAX_ROUTE ? n_route : FXI_MAX_ROUTE;
    for (int i = 0; i < m->n_route; i++) m->route[i] = route[i];
    return m;
}

fxi_metrics *fxi_metrics_ref(fxi_metrics *m)
{
    atomic_fetch_add(&m->refs, 1);
    return m;
}

void fxi_metrics_unref(fxi_metrics *m)
{
    if (m && atomic_fetch_sub(&m->refs, 1) == 1) free(m);
}

// ---- the process --------------------------------------------------------------------------------

static bool read_text(const char *path, char *text, size_t cap)
{
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, cap - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    return n > 0;
}

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    if (clock_gettime(clock, &t)) return 0;
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Field 22 of /proc/self/stat is the start in clock ticks since the boot. The second field, the
// program's name, may contain anything but ends with the last ')'.
static void read_process(process_figures *p)
{
    char text[1024];
    unsigned long long n_resident = 0, ticks = 0;
    struct rlimit files;
    *p = (process_figures){.cpu_s = seconds_of(CLOCK_PROCESS_CPUTIME_ID)};
    if (read_text("/proc/self/statm", text, sizeof text) &&
        sscanf(text, "%*u %llu", &n_resident) == 1)
        p->resident_bytes = n_resident * (uint64_t)sysconf(_SC_PAGESIZE);
    const char *at = read_text("/proc/self/stat", text, sizeof text) ? strrchr(text, ')') : NULL;
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    if (at) (void)sscanf(at, " %llu", &ticks);
    p->start_s = seconds_of(CLOCK_REALTIME) - seconds_of(CLOCK_BOOTTIME) +
                 (double)ticks / (double)sysconf(_SC_CLK_TCK);
    DIR *d = opendir("/proc/self/fd");
    for (const struct dirent *e; d && (e = readdir(d));) p->n_file += e->d_name[0] != '.';
    if (d) closedir(d);
    p->n_file -= p->n_file > 0; // not the directory itself
    if (!getrlimit(RLIMIT_NOFILE, &files)) p->max_file = files.rlim_cur;
}

// ---- the table ----------------------------------------------------------------------------------

// Names follow those of vLLM under our own prefix where both mean the same.

#define COUNT(list)   (int)(sizeof(list) / sizeof(list)[0])
#define NAME_OP(name) #name,
#define LABEL(key, list)       \
    {                          \
        key, list, COUNT(list) \
    }

static const char *const driver_ops[] = {FX_DRIVER_OPS(NAME_OP)};
static const char *const kv_ops[] = {FX_KV_OPS(NAME_OP)};
static const char *const modes[] = {"recompute", "swap"};
static const char *const finishes[] = {"stop", "length", "cancel", "abort", "error"};
static const char *const statuses[FXI_N_STATUS] = {
    "200", "204", "400", "401", "403", "404", "405", "408", "411", "413",  "415",
    "421", "429", "431", "499", "500", "501", "503", "505", "529", "other"};
static const char *const rejects[FXI_N_REJECT] = { // codes of errors
    "queue_full", "context_length_exceeded", "kv_budget_exceeded", "kv_exhausted",
    "overloaded", "too_many_connections",    "draining",           "loading"};
_Static_assert(offsetof(fx_stats, n_preempt_swap) ==
                   offsetof(fx_stats, n_preempt_recompute) + sizeof(uint64_t),
               "the modes of preemption are neighbours");

static const char *const bytes_of[FXI_N_BYTES_OF] = {"body",  "tree",   "prompt",
                                                     "queue", "answer", "grammar"};

static const char *const positions[] = {
    "0",  "1",  "2",  "3",  "4",  "5",  "6",  "7",  "8",  "9",  "10", "11", "12", "13", "14", "15",
    "16", "17", "18", "19", "20", "21", "22", "23", "24", "25", "26", "27", "28", "29", "30", "31"};
_Static_assert(COUNT(positions) == FX_MAX_DRAFT, "a label for each token of a draft");
static const char *const lost_spans[] = {FXI_SPANS_LOST(NAME_OP)};

static const fxi_label driver_label = LABEL("op", driver_ops), kv_label = LABEL("op", kv_ops),
                       mode_label = LABEL("mode", modes),
                       finish_label = LABEL("finished_reason", finishes),
                       reject_label = LABEL("reason", rejects),
                       position_label = LABEL("position", positions),
                       status_label = LABEL("code", statuses), route_label = {.name = "route"},
                       bytes_label = LABEL("of", bytes_of),
                       lost_label = LABEL("reason", lost_spans);

// The place of a text in list[n]; n: it is not there.
static int find_label(const char *const *list, int n, const char *text)
{
    int i = 0;
    while (i < n && strcmp(list[i], text) != 0) i++;
    return i;
}

// ---- recording ----------------------------------------------------------------------------------

static void add_count(fxi_metrics *m, size_t at, uint64_t n)
{
    atomic_fetch_add_explicit(&m->cell[at], n, memory_order_relaxed);
}

// The bucket of a value is the least i with value <= 2^i units.
static void add_value(fxi_metrics *m, size_t histogram_at, uint64_t v, uint64_t unit)
{
    _Static_assert(offsetof(fx_histogram, count) == 0, "the buckets come first");
    const uint64_t n_unit = (v + unit - 1) / unit;
    const int i = n_unit <= 1 ? 0 : 64 - __builtin_clzll(n_unit - 1);
    add_count(m, histogram_at + (size_t)(i < FX_N_BUCKET ? i : FX_N_BUCKET), 1);
    add_count(m, histogram_at + offsetof(fx_histogram, sum) / sizeof(uint64_t), v);
}

void fxi_metrics_event(fxi_metrics *m, const fx_event *ev, uint64_t age_us, bool is_first)
{
    if (is_first) add_value(m, AT(first_token), age_us, UNIT_US);
    if (ev->gap_us) add_value(m, AT(between_tokens), ev->gap_us, UNIT_US);
    if (ev->finish != FX_FINISH_NONE) {
        add_count(m, AT(finished) + (size_t)ev->finish, 1);
        add_value(m, AT(generated_tok), (uint64_t)ev->n_generated, 1);
    }
    if (!ev->last) return;
    add_value(m, AT(e2e), age_us, UNIT_US);
    add_value(m, AT(queue), ev->queued_us, UNIT_US);
    add_value(m, AT(prefill), ev->prefill_us, UNIT_US);
    add_value(m, AT(decode), ev->decode_us, UNIT_US);
    add_value(m, AT(prompt_tok), (uint64_t)ev->n_prompt, 1);
}

void fxi_metrics_request(fxi_metrics *m, int route, int status, const char *code)
{
    char text[16];
    snprintf(text, sizeof text, "%d", status);
    const int column = find_label(statuses, FXI_N_STATUS - 1, text); // the last one: other
    const int row = route >= 0 && route < m->n_route ? route : m->n_route;
    const int reject = code ? find_label(rejects, FXI_N_REJECT, code) : FXI_N_REJECT;
    add_count(m, AT(http) + (size_t)(row * FXI_N_STATUS + column), 1);
    if (reject < FXI_N_REJECT) add_count(m, AT(rejected) + (size_t)reject, 1);
}

// ---- rows ---------------------------------------------------------------------------------------

#define IN(field)            offsetof(figures, field)
#define WORD                 sizeof(uint64_t)
#define OP                   sizeof(fx_op_stats)
#define UNIT_S               0.0005
#define ONE(k, field)        k, false, IN(field), 0, 1, NULL, NULL
#define REAL(k, field)       k, true, IN(field), 0, 1, NULL, NULL
#define HIST(field, u)       FXI_HISTOGRAM, false, IN(field), 0, u, NULL, NULL
#define TIMES(field)         FXI_HISTOGRAM, true, IN(field), 0, UNIT_S, NULL, NULL
#define OPS(field, u, label) FXI_COUNTER, false, IN(field), OP, u, &(label), NULL
#define MANY(field, label)   FXI_COUNTER, false, IN(field), WORD, 1, &(label), NULL

// clang-format off
const fxi_metric fxi_metric_table[] = {
    {"num_requests_running", ONE(FXI_GAUGE, engine.n_running), "Sequences that run."},
    {"num_requests_waiting", ONE(FXI_GAUGE, engine.n_waiting), "Sequences that wait."},
    {"num_prompt_tokens_waiting", ONE(FXI_GAUGE, engine.n_waiting_tok), "Prompt tokens of requests that wait."},
    {"requests_total", ONE(FXI_COUNTER, engine.n_request), "Requests submitted to the engine."},
    {"request_success_total", FXI_COUNTER, false, IN(counts.finished) + FX_FINISH_STOP * WORD, WORD, 1, &finish_label, NULL, "Answers (choices) by how they ended."},
    {"admission_rejections_total", MANY(counts.rejected, reject_label), "Requests refused because of load, length or state."},
    {"num_preemptions_total", FXI_COUNTER, false, IN(engine.n_preempt_recompute), WORD, 1, &mode_label, NULL, "Requests preempted, by how they come back."},
    {"prompt_tokens_total", ONE(FXI_COUNTER, prompt_tok), "Prompt tokens computed or taken from the prefix cache."},
    {"prompt_tokens_computed_total", ONE(FXI_COUNTER, engine.n_prompt_tok), "Prompt tokens computed."},
    {"generation_tokens_total", ONE(FXI_COUNTER, engine.n_generated_tok), "Tokens generated."},
    {"prefix_cache_queries_total", ONE(FXI_COUNTER, engine.n_lookup_tok), "Prompt tokens looked up in the prefix cache."},
    {"prefix_cache_hits_total", ONE(FXI_COUNTER, engine.n_cached_tok), "Prompt tokens found in the prefix cache."},
    {"iterations_total", ONE(FXI_COUNTER, engine.n_step), "Forward passes."},
    {"failed_iterations_total", ONE(FXI_COUNTER, engine.n_failed_step), "Forward passes that the device failed."},
    {"device_lost", ONE(FXI_GAUGE, engine.device_is_lost), "1: the device failed for good, and every request ends with an error."},
    {"spec_decode_num_drafts_total", ONE(FXI_COUNTER, engine.n_draft), "Drafts that sequences computed."},
    {"spec_decode_num_draft_tokens_total", ONE(FXI_COUNTER, engine.n_draft_tok), "Tokens of these drafts."},
    {"spec_decode_num_accepted_tokens_total", ONE(FXI_COUNTER, engine.n_accepted_tok), "Drafted tokens that were accepted."},
    {"spec_decode_saved_seconds_total", FXI_COUNTER, false, IN(engine.draft_saved_us), 0, 1e-6, NULL, NULL, "Time that drafts saved, estimated from passes without drafts."},
    {"spec_decode_lost_seconds_total", FXI_COUNTER, false, IN(engine.draft_lost_us), 0, 1e-6, NULL, NULL, "Time that other drafts cost beyond what they saved, by the same estimate."},
    {"spec_decode_num_accepted_tokens_per_pos_total", MANY(details.accepted_at, position_label), "Drafts whose token at this position, and all before it, were accepted."},
    {"iteration_tokens_total", HIST(details.step_tok, 1), "Tokens of a forward pass."},

    {"time_to_first_token_seconds", TIMES(counts.first_token), "From the arrival of a request to its first token."},
    {"inter_token_latency_seconds", TIMES(counts.between_tokens), "From one token of an answer to the next."},
    {"e2e_request_latency_seconds", TIMES(counts.e2e), "From the arrival of a request to its end."},
    {"request_queue_time_seconds", TIMES(counts.queue), "From submission to the first admission."},
    {"request_prefill_time_seconds", TIMES(counts.prefill), "From the first admission to the first token."},
    {"request_decode_time_seconds", TIMES(counts.decode), "From the first token to the last."},
    {"request_prompt_tokens", HIST(counts.prompt_tok, 1), "Tokens of a prompt."},
    {"request_generation_tokens", HIST(counts.generated_tok, 1), "Tokens of an answer (choice)."},

    {"kv_cache_usage_perc", REAL(FXI_GAUGE, kv_usage), "Part of the KV budget that running sequences hold: 0 to 1."},
    {"kv_budget_bytes", ONE(FXI_GAUGE, engine.kv_budget_bytes), "Physical memory that the KV cache may take."},
    {"kv_mapped_bytes", ONE(FXI_GAUGE, engine.kv_mapped_bytes), "Physical memory that the KV cache takes."},
    {"kv_live_bytes", ONE(FXI_GAUGE, engine.kv_live_bytes), "Bytes that hold tokens of running sequences, shared ones once for each."},
    {"kv_cached_bytes", ONE(FXI_GAUGE, engine.kv_cached_bytes), "Part of kv_mapped_bytes that only the prefix cache holds."},
    {"kv_shared_bytes", ONE(FXI_GAUGE, engine.kv_shared_bytes), "Part of kv_mapped_bytes that several holders share."},
    {"kv_spare_bytes", ONE(FXI_GAUGE, engine.kv_spare_bytes), "Part of kv_mapped_bytes that is kept for the next sequence."},
    {"kv_reserved_bytes", ONE(FXI_GAUGE, engine.kv_reserved_bytes), "Part of kv_mapped_bytes that is kept for tokens that running sequences are expected to get."},
    {"kv_slack_bytes", ONE(FXI_GAUGE, engine.kv_internal_bytes), "Part of kv_mapped_bytes that running sequences hold beyond their tokens and those expected."},
    {"kv_external_bytes", ONE(FXI_GAUGE, engine.kv_external_bytes), "Part of kv_mapped_bytes that is lost to the allocator's rounding."},
    {"kv_packed_floor_bytes", ONE(FXI_GAUGE, engine.kv_used_bytes), "What running sequences would take without slack."},
    {"kv_retired_bytes", ONE(FXI_GAUGE, engine.kv_retired_bytes), "Part of kv_mapped_bytes that is out of use because the device failed."},
    {"kv_mappings", ONE(FXI_GAUGE, engine.kv_mappings), "Runs of neighbouring chunks that are mapped."},
    {"kv_mappings_limit", REAL(FXI_GAUGE, max_mappings), "Most runs that the system allows at once; +Inf: no limit."},
    {"kv_swapped_bytes", ONE(FXI_GAUGE, engine.kv_swapped_bytes), "KV memory of preempted requests in the swap."},
    {"kv_peak_mapped_bytes", ONE(FXI_GAUGE, engine.kv_peak_mapped_bytes), "Largest kv_mapped_bytes so far."},
    {"kv_peak_live_bytes", ONE(FXI_GAUGE, engine.kv_peak_live_bytes), "Largest kv_live_bytes so far."},
    {"kv_block_lifetime_seconds", HIST(details.block_life_ms, 1e-3), "From the recording of a cached prefix to its eviction."},
    {"kv_block_idle_before_evict_seconds", HIST(details.block_idle_ms, 1e-3), "From the last use of a cached prefix to its eviction."},
    {"kv_block_reuse_gap_seconds", HIST(details.block_reuse_ms, 1e-3), "From one use of a cached prefix to the next."},
    {"kv_ops_total", OPS(details.kv[0].n_call, 1, kv_label), "Operations of the engine on the KV cache."},
    {"kv_op_failures_total", OPS(details.kv[0].n_failure, 1, kv_label), "Operations that failed, those for lack of memory included."},
    {"kv_op_seconds_total", OPS(details.kv[0].ns, 1e-9, kv_label), "Time of the engine's thread in these operations."},
    {"kv_extend_wait_seconds_total", FXI_COUNTER, false, IN(details.kv[FX_KV_extend].ns), 0, 1e-9, NULL, NULL, "Time of the engine's thread in extending caches."},
    {"kv_driver_calls_total", OPS(details.driver[0].n_call, 1, driver_label), "Calls of the system or driver for KV memory."},
    {"kv_driver_call_failures_total", OPS(details.driver[0].n_failure, 1, driver_label), "Calls that failed."},
    {"kv_driver_call_seconds_total", OPS(details.driver[0].ns, 1e-9, driver_label), "Time in these calls, over all threads."},

    {"http_requests_total", FXI_COUNTER, false, IN(counts.http), FXI_N_STATUS * WORD, 1, &route_label, &status_label, "Finished HTTP requests by route and status; 499: the client left."},
    {"http_connections", ONE(FXI_GAUGE, server.n_connection), "Open connections."},
    {"server_held_bytes", FXI_GAUGE, false, IN(server.quota.of_bytes), WORD, 1, &bytes_label, NULL, "Bytes that wait in the server or are held for requests."},
    {"server_held_limit_bytes", ONE(FXI_GAUGE, server.quota.limit_bytes), "Most bytes that may wait or be held (--max-queue-bytes)."},
    {"server_held_refusals_total", ONE(FXI_COUNTER, server.quota.n_refused), "Requests for bytes beyond that limit."},
    {"server_workers", ONE(FXI_GAUGE, server.workers.n_thread), "Threads that parse, render and tokenize."},
    {"server_workers_busy", ONE(FXI_GAUGE, server.workers.n_busy), "Workers that are busy now."},
    {"server_work_waiting", ONE(FXI_GAUGE, n_waiting_work), "Requests that wait for such a thread."},
    {"kv_stream_clients", ONE(FXI_GAUGE, server.stream.n_subscriber), "Subscribers of the KV memory (/kv/stream)."},
    {"kv_stream_snapshots_total", ONE(FXI_COUNTER, engine.n_snapshot), "Snapshots of the KV memory taken for them."},
    {"kv_stream_snapshot_seconds_total", FXI_COUNTER, false, IN(engine.snapshot_us), 0, 1e-6, NULL, NULL, "Processor time of the engine's thread for these snapshots."},
    {"kv_stream_pictures_total", ONE(FXI_COUNTER, engine.n_picture), "kv_stream_snapshots_total by its old name, for one version."},
    {"kv_stream_picture_seconds_total", FXI_COUNTER, false, IN(engine.picture_us), 0, 1e-6, NULL, NULL, "kv_stream_snapshot_seconds_total by its old name, for one version."},
    {"kv_stream_events_made_total", ONE(FXI_COUNTER, server.stream.n_made), "Events made from snapshots, each once for all subscribers."},
    {"kv_stream_events_sent_total", ONE(FXI_COUNTER, server.stream.n_sent), "Events sent to subscribers."},
    {"kv_stream_sent_bytes_total", ONE(FXI_COUNTER, server.stream.n_bytes), "Bytes of these events."},
    {"kv_stream_send_seconds_total", FXI_COUNTER, false, IN(server.stream.ns), 0, 1e-9, NULL, NULL, "Processor time for making and sending them."},
    {"spans_sent_total", ONE(FXI_COUNTER, server.spans.n_sent), "Spans of requests that the collector accepted."},
    {"spans_dropped_total", MANY(server.spans.n_lost, lost_label), "Spans lost: there was no room, the collector refused them, or it did not answer."},
    {"log_lines_dropped_total", ONE(FXI_COUNTER, server.n_log_dropped), "Log lines lost because stderr did not take them."},

    {"process_resident_bytes", ONE(FXI_GAUGE, process.resident_bytes), "Resident memory of the process."},
    {"process_start_time_seconds", REAL(FXI_GAUGE, process.start_s), "When the process started, since 1970."},
    {"process_cpu_seconds_total", REAL(FXI_COUNTER, process.cpu_s), "Processor time of all threads."},
    {"process_open_fds", ONE(FXI_GAUGE, process.n_file), "Open files."},
    {"process_max_fds", ONE(FXI_GAUGE, process.max_file), "Limit of open files."},
};
// clang-format on

const int fxi_n_metric = COUNT(fxi_metric_table);

// ---- the page -----------------------------------------------------------------------------------

// The text exposition format of Prometheus, version 0.0.4: for each metric a line of help, its
// type, then its samples. Buckets of histograms are cumulative, and the last one is "+Inf".

#define PREFIX     "flexinfer_"
#define MAX_LABELS 160 // bytes of the labels of one sample

static bool begin_metric(fxi_buf *b, const char *name, const char *kind, const char *help)
{
    return fxi_buf_fmt(b, "# HELP " PREFIX "%s %s\n# TYPE " PREFIX "%s %s\n", name, help, name,
                       kind);
}

// Whole numbers are printed exactly; 17 digits tell every double apart.
static bool add_sample(fxi_buf *b, const fxi_metric *m, const char *labels, const void *p)
{
    if (!m->is_f64 && m->scale == 1)
        return fxi_buf_fmt(b, PREFIX "%s%s %" PRIu64 "\n", m->name, labels, *(const uint64_t *)p);
    const double v = m->is_f64 ? *(const double *)p : (double)*(const uint64_t *)p;
    return fxi_buf_fmt(b, PREFIX "%s%s %.17g\n", m->name, labels, v * m->scale);
}

static bool add_histogram(fxi_buf *b, const fxi_metric *m, const fx_histogram *h)
{
    uint64_t n = 0;
    bool ok = true;
    for (int i = 0; ok && i < FX_N_BUCKET; i++) {
        n += h->count[i];
        ok = fxi_buf_fmt(b, PREFIX "%s_bucket{le=\"%.10g\"} %" PRIu64 "\n", m->name,
                         m->scale * (double)((uint64_t)1 << i), n);
    }
    n += h->count[FX_N_BUCKET];
    return ok && fxi_buf_fmt(b,
                             PREFIX "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n" PREFIX
                                    "%s_sum %.17g\n" PREFIX "%s_count %" PRIu64 "\n",
                             m->name, n, m->name, (double)h->sum * (m->is_f64 ? 1e-6 : m->scale),
                             m->name, n);
}

// Requests without a route come after those with one. With two labels, only what has happened is
// shown.
static bool add_labelled(fxi_buf *b, const fxi_metrics *m, const fxi_metric *row, const char *base)
{
    char labels[MAX_LABELS];
    const fxi_label *l = row->label, *inner = row->label2;
    bool ok = true;
    for (int i = 0; ok && i < (l->value ? l->n : m->n_route + 1); i++) {
        const char *value = l->value ? l->value[i] : i < m->n_route ? m->route[i] : "other";
        const char *p = base + row->offset + (size_t)i * row->stride_bytes;
        if (!inner) {
            snprintf(labels, sizeof labels, "{%s=\"%s\"}", l->name, value);
            ok = add_sample(b, row, labels, p);
        }
        for (int k = 0; ok && inner && k < inner->n; k++) {
            const uint64_t *v = (const uint64_t *)(const void *)p + k;
            if (!*v) continue;
            snprintf(labels, sizeof labels, "{%s=\"%s\",%s=\"%s\"}", l->name, value, inner->name,
                     inner->value[k]);
            ok = add_sample(b, row, labels, v);
        }
    }
    return ok;
}

// NAME{labels...} 1, for pairs of a label's name and its value. In a value, backslash, quote and
// newline are escaped.
static bool add_info(fxi_buf *b, const char *name, const char *help, const char *const *pair,
                     int n_pair)
{
    bool ok = begin_metric(b, name, "gauge", help) && fxi_buf_fmt(b, PREFIX "%s", name);
    for (int i = 0; ok && i < n_pair; i++) {
        ok = fxi_buf_fmt(b, "%c%s=\"", i ? ',' : '{', pair[2 * i]);
        for (const char *s = pair[2 * i + 1]; ok && *s; s++)
            ok = fxi_buf_fmt(b, *s == '\n' || *s == '\\' || *s == '"' ? "\\%c" : "%c",
                             *s == '\n' ? 'n' : *s);
        ok = ok && fxi_buf_str(b, "\"");
    }
    return ok && fxi_buf_str(b, "} 1\n");
}

bool fxi_metrics_page(fxi_buf *b, const fxi_metrics *m, const fx_engine *eng,
                      const fxi_server_gauges *g)
{
    static const char *const kind[] = {"counter", "gauge", "histogram"};
    const fx_model_info *info = fx_engine_info(eng);
    const char *const build[] = {"version", fx_version(), "kernels", info->kernel_path};
    const char *const model[] = {"name", info->name, "arch",       info->arch,
                                 "type", info->type, "cache_type", info->kv_type};
    uint64_t cell[N_CELL];
    figures *s = calloc(1, sizeof *s);
    if (!s) return false;
    const fx_stats *st = &s->engine;
    fx_engine_stats(eng, &s->engine);
    fx_engine_details(eng, &s->details);
    for (size_t i = 0; i < N_CELL; i++)
        cell[i] = atomic_load_explicit(&m->cell[i], memory_order_relaxed);
    memcpy(&s->counts, cell, sizeof cell);
    read_process(&s->process);
    s->server = *g;
    s->n_waiting_work = g->workers.n_small + g->workers.n_large;
    s->prompt_tok = st->n_prompt_tok + st->n_cached_tok;
    const uint64_t idle = st->kv_cached_bytes + st->kv_spare_bytes;
    if (st->kv_budget_bytes && st->kv_mapped_bytes >= idle)
        s->kv_usage = (double)(st->kv_mapped_bytes - idle) / (double)st->kv_budget_bytes;
    s->max_mappings = st->kv_max_mappings == UINT64_MAX ? INFINITY : (double)st->kv_max_mappings;
    bool ok = add_info(b, "build_info", "The program that runs.", build, 2) &&
              add_info(b, "model_info", "The model that it serves.", model, 4);
    for (const fxi_metric *r = fxi_metric_table; ok && r < fxi_metric_table + fxi_n_metric; r++) {
        const char *base = (const char *)s;
        const void *at = base + r->offset;
        ok = begin_metric(b, r->name, kind[r->kind], r->help) &&
             (r->kind == FXI_HISTOGRAM ? add_histogram(b, r, at)
              : r->label               ? add_labelled(b, m, r, base)
                                       : add_sample(b, r, "", at));
    }
    free(s);
    return ok;
}
