// serve_options.c - the server's options as the command line, and OpenTelemetry's variables, give
// them.
#include "cli/command/command.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/log/log_line.h" // defines: fxi_level_named

static fxi_isolation isolation_named(const char *name)
{
    static const char *const names[] = {[FXI_ISOLATE_ADDRESS] = "address",
                                        [FXI_ISOLATE_CONNECTION] = "connection",
                                        [FXI_ISOLATE_NONE] = "none"};
    int i = FXI_ISOLATE_ADDRESS;
    while (i < FXI_ISOLATE_NONE && strcasecmp(name, names[i]) != 0) i++;
    return (fxi_isolation)i;
}

// A text of names, separated by commas; NULL: none.
static fxi_name_list names_of(const char *const *text)
{
    return (fxi_name_list){.text = text, .n = *text != NULL};
}

// A variable for spans alone, or the one for all that is sent to collectors.
static const char *otlp_variable(const char *of_traces, const char *of_all)
{
    const char *traces = getenv(of_traces);
    return traces ? traces : getenv(of_all);
}

static const char *otlp_headers(void)
{
    return otlp_variable("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS");
}

static const char *otlp_ca_file(void)
{
    return otlp_variable("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE");
}

fxi_server_options fxi_cli_server_options(const fxi_cli_options *o)
{
    return (fxi_server_options){.host = o->host,
                                .port = o->port,
                                .alias = o->alias,
                                .max_logprobs = o->max_logprobs,
                                .refuse_excess = o->refuse_excess,
                                .tool_parser = o->tool_parser,
                                .reasoning_parser = o->reasoning_parser,
                                .cut_first = !strcasecmp(o->sampling_order, "cuts"),
                                .processed_logprobs = !strcasecmp(o->logprobs, "processed"),
                                .n_worker = o->n_worker,
                                .max_conn = o->max_conn,
                                .max_per_address = o->max_per_address,
                                .max_body_bytes = (size_t)o->max_body_bytes,
                                .max_queue_bytes = (size_t)o->max_queue_bytes,
                                .idle_timeout_s = o->idle_timeout_s,
                                .header_timeout_s = (double)o->header_timeout_s,
                                .read_timeout_s = (double)o->read_timeout_s,
                                .body_timeout_s = (double)o->body_timeout_s,
                                .key_file = o->key_file,
                                .isolate = isolation_named(o->isolate),
                                .allow_priority = o->allow_priority,
                                .open_metrics = o->open_metrics,
                                .hosts = names_of(&o->allowed_hosts),
                                .cors = names_of(&o->cors),
                                .tls_cert = o->tls_cert,
                                .tls_key = o->tls_key,
                                .service_name = getenv("OTEL_SERVICE_NAME"),
                                .otlp_resource = getenv("OTEL_RESOURCE_ATTRIBUTES"),
                                .otlp_headers = otlp_headers(),
                                .otlp_ca_file = otlp_ca_file(),
                                .log_json = !strcasecmp(o->log_format, "json"),
                                .log_level = fxi_level_named(o->log_level),
                                .log_prompts = o->log_prompts};
}

const char *fxi_cli_otlp_endpoint(const fxi_cli_options *o, fxi_buf *made)
{
    const char *off = getenv("OTEL_SDK_DISABLED"), *all = getenv("OTEL_EXPORTER_OTLP_ENDPOINT");
    const char *traces = getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    if (o->otlp_endpoint) return o->otlp_endpoint[0] ? o->otlp_endpoint : NULL;
    if (off && !strcasecmp(off, "true")) return NULL;
    if (traces && traces[0]) return traces;
    if (!all || !all[0]) return NULL;
    const bool has_slash = all[strlen(all) - 1] == '/';
    return fxi_buf_fmt(made, "%s%sv1/traces", all, has_slash ? "" : "/") ? made->p : NULL;
}
