// test_metrics.c - /metrics after a scripted run over the fake engine: every count is exact.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/metrics/metrics.h"
#include "server/waits.h"
#include "unit/cmocka_all.h"

static void call(const fixture *f, const char *method, const char *path, const char *body,
                 int status)
{
    expect_reply(http_call(f->port, method, path, body), status, NULL);
}

static bool page_has(const fixture *f, const char *line)
{
    char whole[200];
    http_reply r = http_call(f->port, "GET", "/metrics", NULL);
    snprintf(whole, sizeof whole, "\nflexinfer_%s\n", line);
    assert_int_equal(r.status, 200);
    bool found = strstr(r.body.p, whole) != NULL;
    http_reply_free(&r);
    return found;
}

// A request is counted when its connection has finished with it, maybe after its answer has
// arrived.
static void await_line(const fixture *f, const char *line)
{
    const double end_s = fxi_now_s() + WAIT_S;
    for (; !page_has(f, line); nap())
        if (fxi_now_s() > end_s) fail_msg("/metrics does not say: %s", line);
}

FX_TEST(test_a_scripted_run_is_counted_exactly)
{
    static const char *const lines[] = {
        "http_requests_total{route=\"/v1/completions\",code=\"200\"} 3",
        "http_requests_total{route=\"/v1/completions\",code=\"400\"} 1",
        "http_requests_total{route=\"/v1/completions\",code=\"429\"} 1",
        "http_requests_total{route=\"/v1/completions\",code=\"500\"} 1",
        "http_requests_total{route=\"other\",code=\"404\"} 2",
        "admission_rejections_total{reason=\"queue_full\"} 1",
        "admission_rejections_total{reason=\"draining\"} 0",
        "request_success_total{finished_reason=\"stop\"} 3",
        "request_success_total{finished_reason=\"length\"} 1",
        "request_success_total{finished_reason=\"error\"} 1",
        "request_success_total{finished_reason=\"abort\"} 0",
        "time_to_first_token_seconds_count 4",
        "e2e_request_latency_seconds_count 4",
        "inter_token_latency_seconds_count 24",
        "inter_token_latency_seconds_bucket{le=\"0.0005\"} 0",
        "inter_token_latency_seconds_bucket{le=\"0.001\"} 24",
        "inter_token_latency_seconds_bucket{le=\"+Inf\"} 24",
        "inter_token_latency_seconds_sum 0.024",
        "request_queue_time_seconds_bucket{le=\"0.001\"} 0",
        "request_queue_time_seconds_bucket{le=\"0.002\"} 4",
        "request_queue_time_seconds_sum 0.0080000000000000002",
        "request_prefill_time_seconds_sum 0.012",
        "request_decode_time_seconds_sum 0.021999999999999999",
        "request_prompt_tokens_count 4",
        "request_prompt_tokens_sum 32",
        "request_prompt_tokens_bucket{le=\"4\"} 0",
        "request_prompt_tokens_bucket{le=\"8\"} 3",
        "request_prompt_tokens_bucket{le=\"16\"} 4",
        "request_generation_tokens_count 5",
        "request_generation_tokens_sum 29",
        // what the fake engine says of itself
        "kv_mapped_bytes 123456789012",
        "iteration_tokens_total_bucket{le=\"4\"} 0",
        "iteration_tokens_total_bucket{le=\"8\"} 7",
        "iteration_tokens_total_sum 50",
        "kv_ops_total{op=\"extend\"} 5",
        "kv_op_failures_total{op=\"extend\"} 1",
        "kv_extend_wait_seconds_total 2.5",
        "kv_driver_calls_total{op=\"map\"} 0",
        "build_info{version=\"0.0.0-fake\",kernels=\"\"} 1",
        "log_lines_dropped_total 0",
        "server_held_bytes{of=\"tree\"} 0",
        "server_workers_busy 0",
        "server_held_refusals_total 0",
    };
    fixture f = fixture_open((fxi_server_options){0});
    call(&f, "POST", TEXT, "{\"prompt\":\"count 5\"}", 200);
    call(&f, "POST", TEXT, "{\"prompt\":\"count 30\"}", 200); // 16 tokens
    call(&f, "POST", TEXT, "{\"prompt\":\"count 3\",\"n\":2,\"stream\":true}", 200);
    call(&f, "POST", TEXT, "{\"prompt\":\"fail 2\"}", 500);
    call(&f, "POST", TEXT, "{\"prompt\":\"full\"}", 429);
    call(&f, "POST", TEXT, "{}", 400);
    call(&f, "GET", "/nowhere", NULL, 404);
    call(&f, "GET", "/no\"where", NULL, 404);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) await_line(&f, lines[i]);
    fixture_close(&f);
}

FX_TEST(test_the_page_has_its_type_and_head_works)
{
    fixture f = fixture_open((fxi_server_options){0});
    http_reply r = http_call(f.port, "HEAD", "/metrics", NULL);
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.head.p, "Content-Type: text/plain; version=0.0.4"));
    assert_int_equal(r.body.n, 0);
    http_reply_free(&r);
    call(&f, "POST", "/metrics", "{}", 405);
    fixture_close(&f);
}

// Every row has a name of its own, in the alphabet of Prometheus, with the unit that its kind asks
// for, and a help text that needs no escapes.
FX_TEST(test_the_table_keeps_the_rules_of_names)
{
    for (int i = 0; i < fxi_n_metric; i++) {
        const fxi_metric *m = &fxi_metric_table[i];
        const size_t n = strlen(m->name);
        assert_int_equal(strspn(m->name, "abcdefghijklmnopqrstuvwxyz0123456789_"), n);
        assert_null(strpbrk(m->help, "\\\n"));
        const bool total = n > 6 && strcmp(m->name + n - 6, "_total") == 0;
        if (m->kind == FXI_COUNTER) assert_true(total);
        if (m->kind == FXI_GAUGE) assert_false(total);
        for (int k = 0; k < i; k++) assert_string_not_equal(m->name, fxi_metric_table[k].name);
    }
}

static double figure_of(const fixture *f, const char *name)
{
    http_reply r = http_call(f->port, "GET", "/metrics", NULL);
    const char *at = strstr(r.body.p, name);
    assert_non_null(at);
    const double v = strtod(at + strlen(name), NULL);
    http_reply_free(&r);
    return v;
}

FX_TEST(test_the_process_is_what_the_system_says)
{
    fixture f = fixture_open((fxi_server_options){0});
    const double now_s = (double)time(NULL);
    const double start_s = figure_of(&f, "\nflexinfer_process_start_time_seconds ");
    const double n_file = figure_of(&f, "\nflexinfer_process_open_fds ");
    assert_true(figure_of(&f, "\nflexinfer_process_resident_bytes ") > 1 << 20);
    assert_true(start_s > now_s - 3600 && start_s < now_s + 2);
    assert_true(figure_of(&f, "\nflexinfer_process_cpu_seconds_total ") > 0);
    assert_true(n_file >= 3 && n_file < figure_of(&f, "\nflexinfer_process_max_fds "));
    fixture_close(&f);
}

FX_RUN(test_metrics)
