// test_serve_options.c - every option of `serve` reaches the one field of the engine's or the
// server's options that it is for, and no other. What the fields do is shown by the tests of those
// modules.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "server/log/log.h"
#include "unit/cmocka_all.h"

typedef struct given { // what the options of one command line say
    fxi_cli_options o;
    fx_options engine;
    fxi_server_options server;
    fxi_opt_rest rest;
} given;

typedef enum kind { A_BOOL, AN_INT, A_COUNT, A_SIZE, A_REAL, A_TEXT, A_LIST } kind;

typedef struct wire {
    const char *option, *value; // as typed; NULL: a flag
    size_t offset;              // of the field in `given`
    kind kind;
    double number; // what the field becomes; texts are the value
} wire;

#define ENGINE(field) offsetof(given, engine.field)
#define SERVER(field) offsetof(given, server.field)

static const wire wires[] = {
    {"model", "other", ENGINE(model_path), A_TEXT, 0},
    {"tokenizer", "t.json", ENGINE(tokenizer_path), A_TEXT, 0},
    {"tokenizer-pre", "qwen2", ENGINE(tokenizer_pre), A_TEXT, 0},
    {"chat-template", "phi3", ENGINE(chat_template), A_TEXT, 0},
    {"pooling", "last", ENGINE(pooling), A_TEXT, 0},
    {"device", "cuda:1", ENGINE(device), A_TEXT, 0},
    {"gpu-math", "cpu-exact", ENGINE(gpu_math), A_TEXT, 0},
    {"threads", "3", ENGINE(n_thread), AN_INT, 3},
    {"ctx", "77", ENGINE(ctx_tok), AN_INT, 77},
    {"kv-memory", "3M", ENGINE(kv_memory_bytes), A_COUNT, 3 << 20},
    {"kv", "paged", ENGINE(kv_manager), A_TEXT, 0},
    {"kv-block", "48", ENGINE(kv_block_tok), AN_INT, 48},
    {"kv-type", "q8_0", ENGINE(kv_type), A_TEXT, 0},
    {"cache-idle", "7", ENGINE(cache_idle_s), AN_INT, 7},
    {"cache-idle", "-1", ENGINE(cache_idle_s), AN_INT, -1},
    {"swap", "5M", ENGINE(swap_bytes), A_COUNT, 5 << 20},
    {"swap-dir", "/var/x", ENGINE(swap_dir), A_TEXT, 0},
    {"step-tokens", "99", ENGINE(step_tok), AN_INT, 99},
    {"max-seq", "9", ENGINE(max_seq), AN_INT, 9},
    {"step-ms", "11", ENGINE(step_ms), AN_INT, 11},
    {"speculate", "auto", ENGINE(speculate), A_TEXT, 0},
    {"draft", "d.gguf", ENGINE(draft_path), A_TEXT, 0},
    {"draft-tokens", "5", ENGINE(draft_tok), AN_INT, 5},
    {"max-queue", "13", ENGINE(max_queue), AN_INT, 13},
    {"max-queue-tokens", "17000", ENGINE(max_queue_tok), A_COUNT, 17000},
    {"prefix-pass", "9", ENGINE(prefix_pass), AN_INT, 9},
    {"record-events", "19", ENGINE(n_record), AN_INT, 19},
    {"record-events", "0", ENGINE(n_record), AN_INT, -1},
    {"host", "::1", SERVER(host), A_TEXT, 0},
    {"port", "81", SERVER(port), AN_INT, 81},
    {"alias", "a,b", SERVER(alias), A_TEXT, 0},
    {"max-logprobs", "4", SERVER(max_logprobs), AN_INT, 4},
    {"logprobs", "processed", SERVER(processed_logprobs), A_BOOL, true},
    {"sampling-order", "cuts", SERVER(cut_first), A_BOOL, true},
    {"tool-parser", "hermes", SERVER(tool_parser), A_TEXT, 0},
    {"reasoning-parser", "think", SERVER(reasoning_parser), A_TEXT, 0},
    {"refuse-excess", NULL, SERVER(refuse_excess), A_BOOL, true},
    {"api-key-file", "keys", SERVER(key_file), A_TEXT, 0},
    {"cors", "https://a.example", SERVER(cors), A_LIST, 0},
    {"allowed-host", "b.example", SERVER(hosts), A_LIST, 0},
    {"tls-cert", "c.pem", SERVER(tls_cert), A_TEXT, 0},
    {"tls-key", "k.pem", SERVER(tls_key), A_TEXT, 0},
    {"isolate", "connection", SERVER(isolate), AN_INT, FXI_ISOLATE_CONNECTION},
    {"isolate", "none", SERVER(isolate), AN_INT, FXI_ISOLATE_NONE},
    {"allow-priority", NULL, SERVER(allow_priority), A_BOOL, true},
    {"open-metrics", NULL, SERVER(open_metrics), A_BOOL, true},
    {"max-connections", "21", SERVER(max_conn), AN_INT, 21},
    {"max-per-address", "22", SERVER(max_per_address), AN_INT, 22},
    {"header-timeout", "1.5", SERVER(header_timeout_s), A_REAL, 1.5},
    {"body-timeout", "2.5", SERVER(body_timeout_s), A_REAL, 2.5},
    {"read-timeout", "3.5", SERVER(read_timeout_s), A_REAL, 3.5},
    {"idle-timeout", "24", SERVER(idle_timeout_s), AN_INT, 24},
    {"max-body", "7M", SERVER(max_body_bytes), A_SIZE, 7 << 20},
    {"max-queue-bytes", "70M", SERVER(max_queue_bytes), A_SIZE, 70 << 20},
    {"workers", "6", SERVER(n_worker), AN_INT, 6},
    {"log-format", "json", SERVER(log_json), A_BOOL, true},
    {"log-level", "warn", SERVER(log_level), AN_INT, FXI_LEVEL_WARN},
    {"log-prompts", NULL, SERVER(log_prompts), A_BOOL, true},
    {"otlp-endpoint", "http://c/v1/traces", SERVER(otlp_endpoint), A_TEXT, 0},
};

enum { N_WIRE = sizeof wires / sizeof wires[0] };

// Options that the command itself acts on: test_serve.py shows them.
static const char *const own[] = {"config", "check-config", "drain-timeout", "send-percent"};

// ---- command lines ------------------------------------------------------------------------------

static void set_up(given *g, int n, char *const *arg)
{
    char *argv[4] = {"-m", "m"};
    fx_error err = {0};
    fxi_buf made = {0};
    for (int i = 0; i < n; i++) argv[2 + i] = arg[i];
    g->o = fxi_cli_options_start();
    if (fxi_opt_parse(&fxi_cli_table, FXI_CMD_SERVE, 2 + n, argv, &g->o, &g->rest, &err) != FX_OK)
        fail_msg("%s", err.text);
    g->engine = fxi_cli_engine_options(&g->o);
    g->server = fxi_cli_server_options(&g->o);
    g->server.otlp_endpoint = fxi_cli_otlp_endpoint(&g->o, &made);
    fxi_buf_free(&made);
}

// ---- fields -------------------------------------------------------------------------------------

static double number_at(const given *g, const wire *w)
{
    const void *at = (const char *)g + w->offset;
    switch (w->kind) {
    case A_BOOL: return *(const bool *)at;
    case AN_INT: return *(const int *)at;
    case A_COUNT: return (double)*(const int64_t *)at;
    case A_SIZE: return (double)*(const size_t *)at;
    case A_REAL: return *(const double *)at;
    case A_LIST: return (double)((const fxi_name_list *)at)->n;
    case A_TEXT: break;
    }
    return 0;
}

static const char *text_at(const given *g, const wire *w)
{
    const char *at = (const char *)g + w->offset, *text = NULL;
    if (w->kind == A_TEXT) text = *(const char *const *)(const void *)at;
    if (w->kind == A_LIST && ((const fxi_name_list *)(const void *)at)->n)
        text = ((const fxi_name_list *)(const void *)at)->text[0];
    return text ? text : "";
}

static void expect_taken(const given *g, const wire *w)
{
    const bool is_text = w->kind == A_TEXT || w->kind == A_LIST;
    if (is_text ? strcmp(text_at(g, w), w->value) != 0 : number_at(g, w) != w->number)
        fail_msg("--%s %s: the field is %g '%s'", w->option, w->value ? w->value : "",
                 number_at(g, w), text_at(g, w));
}

static void expect_same(const given *g, const given *before, const wire *w, const char *option)
{
    if (number_at(g, w) != number_at(before, w) || strcmp(text_at(g, w), text_at(before, w)) != 0)
        fail_msg("--%s changes what --%s is for", option, w->option);
}

// ---- tests --------------------------------------------------------------------------------------

FX_TEST(test_each_option_reaches_its_field_and_no_other)
{
    static given before, g;
    set_up(&before, 0, NULL);
    for (const wire *w = wires; w < wires + N_WIRE; w++) {
        char name[40];
        snprintf(name, sizeof name, "--%s", w->option);
        set_up(&g, w->value ? 2 : 1, (char *[]){name, (char *)w->value});
        expect_taken(&g, w);
        for (const wire *other = wires; other < wires + N_WIRE; other++)
            if (other->offset != w->offset) expect_same(&g, &before, other, w->option);
        fxi_opt_rest_free(&g.rest);
    }
    fxi_opt_rest_free(&before.rest);
}

static bool is_shown(const char *option)
{
    for (size_t i = 0; i < N_WIRE; i++)
        if (!strcmp(wires[i].option, option)) return true;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (!strcmp(own[i], option)) return true;
    return false;
}

FX_TEST(test_no_option_is_left_out)
{
    for (size_t i = 0; i < fxi_cli_table.n_opt; i++) {
        const fxi_opt *row = &fxi_cli_table.opt[i];
        if (row->commands & FXI_CMD_SERVE && !is_shown(row->name))
            fail_msg("--%s: nothing shows that it reaches what it is for", row->name);
    }
}

FX_TEST(test_variables_of_opentelemetry_reach_the_server)
{
    static given g;
    setenv("OTEL_SERVICE_NAME", "name", 1);
    setenv("OTEL_RESOURCE_ATTRIBUTES", "a=b", 1);
    setenv("OTEL_EXPORTER_OTLP_HEADERS", "of all", 1);
    set_up(&g, 0, NULL);
    assert_string_equal(g.server.service_name, "name");
    assert_string_equal(g.server.otlp_resource, "a=b");
    assert_string_equal(g.server.otlp_headers, "of all");
    assert_null(g.server.otlp_endpoint);
    fxi_opt_rest_free(&g.rest);
    setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "of traces", 1);
    setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t", 1);
    set_up(&g, 0, NULL);
    assert_string_equal(g.server.otlp_headers, "of traces");
    assert_string_equal(g.server.otlp_endpoint, "http://t");
    fxi_opt_rest_free(&g.rest);
}

static int clear_variables(void **state)
{
    clearenv();
    return 0;
}

FX_RUN_GROUP(test_serve_options, clear_variables, NULL)
