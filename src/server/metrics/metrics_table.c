// metrics_table.c - the metrics: names, units, labels, and where their values are. Names follow
// those of vLLM under our own prefix where both mean the same.
#include "server/metrics/metrics.h"

#include <string.h>

// ---- labels -------------------------------------------------------------------------------------

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
static const int status_codes[FXI_N_STATUS - 1] = {200, 204, 400, 401, 403, 404, 405,
                                                   408, 411, 413, 415, 421, 429, 431,
                                                   499, 500, 501, 503, 505, 529};
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

int fxi_status_index(int status)
{
    int i = 0;
    while (i < FXI_N_STATUS - 1 && status_codes[i] != status) i++;
    return i;
}

int fxi_reject_index(const char *code)
{
    for (int i = 0; i < FXI_N_REJECT; i++)
        if (strcmp(code, rejects[i]) == 0) return i;
    return -1;
}

// ---- rows ---------------------------------------------------------------------------------------

#define IN(field)            offsetof(fxi_figures, field)
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
    {"spec_decode_num_accepted_tokens_total", ONE(FXI_COUNTER, engine.n_accepted_tok), "Drafted tokens that came true."},
    {"spec_decode_num_accepted_tokens_per_pos_total", MANY(details.accepted_at, position_label), "Drafts of which the token at this position came true, as all before it."},
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
    {"kv_external_bytes", ONE(FXI_GAUGE, engine.kv_external_bytes), "Part of kv_mapped_bytes that lies between sequences and serves nobody."},
    {"kv_packed_floor_bytes", ONE(FXI_GAUGE, engine.kv_used_bytes), "What running sequences would take without slack."},
    {"kv_retired_bytes", ONE(FXI_GAUGE, engine.kv_retired_bytes), "Part of kv_mapped_bytes that is out of use because the device failed."},
    {"kv_mappings", ONE(FXI_GAUGE, engine.kv_mappings), "Runs of neighbouring chunks that are mapped."},
    {"kv_mappings_limit", REAL(FXI_GAUGE, max_mappings), "Most runs that the system allows at once; +Inf: any number."},
    {"kv_swapped_bytes", ONE(FXI_GAUGE, engine.kv_swapped_bytes), "KV memory of preempted requests in the swap."},
    {"kv_peak_mapped_bytes", ONE(FXI_GAUGE, engine.kv_peak_mapped_bytes), "Largest kv_mapped_bytes so far."},
    {"kv_peak_live_bytes", ONE(FXI_GAUGE, engine.kv_peak_live_bytes), "Largest kv_live_bytes so far."},
    {"kv_block_lifetime_seconds", HIST(details.block_life_ms, 1e-3), "From the recording of a cached prefix to its eviction."},
    {"kv_block_idle_before_evict_seconds", HIST(details.block_idle_ms, 1e-3), "From the last use of a cached prefix to its eviction."},
    {"kv_block_reuse_gap_seconds", HIST(details.block_reuse_ms, 1e-3), "From one use of a cached prefix to the next."},
    {"kv_ops_total", OPS(details.kv[0].n_call, 1, kv_label), "Operations of the engine on the KV cache."},
    {"kv_op_failures_total", OPS(details.kv[0].n_failure, 1, kv_label), "Operations that did not succeed; no memory counts."},
    {"kv_op_seconds_total", OPS(details.kv[0].ns, 1e-9, kv_label), "Time of the engine's thread in these operations."},
    {"kv_extend_wait_seconds_total", FXI_COUNTER, false, IN(details.kv[FX_KV_extend].ns), 0, 1e-9, NULL, NULL, "Time of the engine's thread in extending caches."},
    {"kv_driver_calls_total", OPS(details.driver[0].n_call, 1, driver_label), "Calls of the system or driver for KV memory."},
    {"kv_driver_call_failures_total", OPS(details.driver[0].n_failure, 1, driver_label), "Calls that did not succeed."},
    {"kv_driver_call_seconds_total", OPS(details.driver[0].ns, 1e-9, driver_label), "Time in these calls, over all threads."},

    {"http_requests_total", FXI_COUNTER, false, IN(counts.http), FXI_N_STATUS * WORD, 1, &route_label, &status_label, "Finished HTTP requests by route and status; 499: the client left."},
    {"http_connections", ONE(FXI_GAUGE, server.n_connection), "Open connections."},
    {"server_held_bytes", FXI_GAUGE, false, IN(server.held_bytes), WORD, 1, &bytes_label, NULL, "Bytes that wait in the server or are held for requests."},
    {"server_held_limit_bytes", ONE(FXI_GAUGE, server.limit_bytes), "Most bytes that may wait or be held (--max-queue-bytes)."},
    {"server_held_refusals_total", ONE(FXI_COUNTER, server.refused), "Requests for bytes beyond that limit."},
    {"server_workers", ONE(FXI_GAUGE, server.n_worker), "Threads that parse, render and tokenize."},
    {"server_workers_busy", ONE(FXI_GAUGE, server.n_busy_worker), "Of them, those that work now."},
    {"server_work_waiting", ONE(FXI_GAUGE, server.n_waiting_work), "Requests that wait for such a thread."},
    {"kv_stream_clients", ONE(FXI_GAUGE, server.n_subscriber), "Subscribers of the KV memory (/kv/stream)."},
    {"kv_stream_pictures_total", ONE(FXI_COUNTER, engine.n_picture), "Snapshots of the KV memory taken for them."},
    {"kv_stream_picture_seconds_total", FXI_COUNTER, false, IN(engine.picture_us), 0, 1e-6, NULL, NULL, "Processor time of the engine's thread for these snapshots."},
    {"kv_stream_events_made_total", ONE(FXI_COUNTER, server.n_kv_made), "Events made from snapshots, each once for all subscribers."},
    {"kv_stream_events_sent_total", ONE(FXI_COUNTER, server.n_kv_sent), "Events sent to subscribers."},
    {"kv_stream_sent_bytes_total", ONE(FXI_COUNTER, server.kv_sent_bytes), "Bytes of these events."},
    {"kv_stream_send_seconds_total", FXI_COUNTER, false, IN(server.kv_send_ns), 0, 1e-9, NULL, NULL, "Processor time of workers for making and sending them."},
    {"spans_sent_total", ONE(FXI_COUNTER, server.spans.n_sent), "Spans of requests that the collector took."},
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
