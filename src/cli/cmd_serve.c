// cmd_serve.c - runs the server until a signal: it listens, loads the model, serves, drains, stops.
//
// Everything it prints goes to stderr through a log that never blocks (log.h). SIGHUP reads the key
// file again. The first SIGTERM or Ctrl-C lets running answers end; a second one ends the process.
#include "base/system/memory.h"  // defines: fxi_core_dump_shrink
#include "base/system/regions.h" // defines: fxi_heap_map_large
#include "base/text/utf8.h"      // defines: fxi_utf8_vprint
#include "cli/cli.h"
#include "cli/terminal/terminal.h"
#include "server/log/log.h"
#include "server/server.h"

#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

// ---- the server's options: from the command line and OpenTelemetry's variables -----------------

// A variable for spans alone, or the one for all that is sent to collectors.
static const char *otlp_variable(const char *of_traces, const char *of_all)
{
    const char *traces = getenv(of_traces);
    return traces ? traces : getenv(of_all);
}

fxi_server_options fxi_cli_server_options(const fxi_cli_options *o)
{
    fxi_server_options opt = o->server;
    opt.presets = &o->presets;
    opt.socket_mode = !strcasecmp(o->socket_access, "all")     ? 0666
                      : !strcasecmp(o->socket_access, "group") ? 0660
                                                               : 0600;
    opt.cut_first = !strcasecmp(o->sampling_order, "cuts");
    opt.processed_logprobs = !strcasecmp(o->logprobs, "processed");
    opt.isolate = !strcasecmp(o->isolate, "connection") ? FXI_ISOLATE_CONNECTION
                  : !strcasecmp(o->isolate, "none")     ? FXI_ISOLATE_NONE
                                                        : FXI_ISOLATE_ADDRESS;
    opt.hosts = (fxi_name_list){.text = &o->allowed_hosts, .n = o->allowed_hosts != NULL};
    opt.cors = (fxi_name_list){.text = &o->cors, .n = o->cors != NULL};
    opt.service_name = getenv("OTEL_SERVICE_NAME");
    opt.otlp_resource = getenv("OTEL_RESOURCE_ATTRIBUTES");
    opt.otlp_headers =
        otlp_variable("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS");
    opt.otlp_ca_file =
        otlp_variable("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE");
    opt.log_json = !strcasecmp(o->log_format, "json");
    opt.log_level = fxi_level_named(o->log_level);
    return opt;
}

const char *fxi_cli_otlp_endpoint(const fxi_cli_options *o, fxi_buf *made)
{
    const char *off = getenv("OTEL_SDK_DISABLED"), *all = getenv("OTEL_EXPORTER_OTLP_ENDPOINT");
    const char *traces = getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    if (o->server.otlp_endpoint) return o->server.otlp_endpoint[0] ? o->server.otlp_endpoint : NULL;
    if (off && !strcasecmp(off, "true")) return NULL;
    if (traces && traces[0]) return traces;
    if (!all || !all[0]) return NULL;
    const bool has_slash = all[strlen(all) - 1] == '/';
    return fxi_buf_fmt(made, "%s%sv1/traces", all, has_slash ? "" : "/") ? made->p : NULL;
}

// ---- messages ----------------------------------------------------------------------------------
//
// As text these are lines without a time, for the person who starts the program; with --log-format
// json each is an object like the others. Warnings begin with the word.

typedef struct serve_run {
    const fxi_cli_options *o;
    fxi_server_options opt;
    fxi_log *log;
    fxi_server *srv;
} serve_run;

static void say_line(const serve_run *r, fxi_line *l)
{
    const char *text = fxi_line_end(l);
    if (text) fxi_log_add(r->log, text);
    fxi_line_free(l);
}

__attribute__((format(printf, 4, 5))) static void say_event(const serve_run *r, fxi_level level,
                                                            const char *event, const char *fmt, ...)
{
    char text[FX_ERROR_TEXT_BYTES + 64] = "";
    if (level == FXI_LEVEL_WARN) strcpy(text, "warning: ");
    const size_t n = strlen(text);
    va_list args;
    va_start(args, fmt);
    fxi_utf8_vprint(text + n, sizeof text - n, fmt, args);
    va_end(args);
    if (!r->opt.log_json) {
        fxi_log_add(r->log, text);
        return;
    }
    fxi_line l = fxi_line_begin(true, level, event);
    fxi_line_str(&l, "message", text);
    say_line(r, &l);
}

#define say_text(r, ...)    say_event(r, FXI_LEVEL_INFO, "start", __VA_ARGS__)
#define say_warning(r, ...) say_event(r, FXI_LEVEL_WARN, "warning", __VA_ARGS__)

// ---- start --------------------------------------------------------------------------------------

static void say_model(const serve_run *r, const fx_model_info *m, const fx_stats *st)
{
    const fxi_cli_options *o = r->o;
    const size_t tok_bytes = m->kv_bytes_per_tok;
    const char *name = r->opt.model_id ? r->opt.model_id : m->name;
    char size[FXI_SIZE_TEXT_BYTES], n[FXI_SIZE_TEXT_BYTES];
    if (!r->opt.log_json) {
        const char *title = strcmp(m->title, name) ? m->title : "";
        say_text(r, "model      %s (%s%s%s, %s, %s parameters, %s)", name, title,
                 *title ? ", " : "", m->arch, m->file_type, fxi_cli_count(m->n_param, n),
                 fxi_cli_size(m->file_bytes, size));
        say_text(r, "kernels    %s, %d threads", m->kernel_path, m->n_thread);
        say_text(r, "context    %d tokens", m->ctx_tok);
        say_text(r, "KV cache   %zu bytes per token, budget %s (%s): %s tokens", tok_bytes,
                 fxi_cli_size(st->kv_budget_bytes, size),
                 o->engine.kv_memory_bytes ? "as given" : "half of what was free",
                 fxi_cli_count(st->kv_budget_bytes / (tok_bytes ? tok_bytes : 1), n));
        if (m->kv_state_bytes)
            say_text(r, "states     %s for a sequence, besides its tokens",
                     fxi_cli_size(m->kv_state_bytes, size));
        if (o->engine.swap_bytes)
            say_text(r, "swap       %s in %s", fxi_cli_size(o->engine.swap_bytes, size),
                     fxi_cli_swap_dir(o));
        return;
    }
    fxi_line l = fxi_line_begin(true, FXI_LEVEL_INFO, "start");
    fxi_line_str(&l, "version", fx_version());
    fxi_line_str(&l, "model", name);
    fxi_line_str(&l, "title", m->title);
    fxi_line_str(&l, "arch", m->arch);
    fxi_line_str(&l, "type", m->file_type);
    fxi_line_int(&l, "parameters", (long long)m->n_param);
    fxi_line_str(&l, "kernels", m->kernel_path);
    fxi_line_int(&l, "threads", m->n_thread);
    fxi_line_int(&l, "context_tokens", m->ctx_tok);
    fxi_line_int(&l, "kv_bytes_per_token", (long long)tok_bytes);
    if (m->kv_state_bytes) fxi_line_int(&l, "kv_state_bytes", (long long)m->kv_state_bytes);
    fxi_line_int(&l, "kv_budget_bytes", (long long)st->kv_budget_bytes);
    fxi_line_int(&l, "swap_bytes", (long long)o->engine.swap_bytes);
    say_line(r, &l);
}

// Beyond its mappings, requests wait as they do for memory.
static void say_start(const serve_run *r, const fx_engine *eng)
{
    const fx_model_info *m = fx_engine_info(eng);
    fx_stats st;
    fx_engine_stats(eng, &st);
    say_model(r, m, &st);
    if (m->max_seq > m->mapped_seq)
        say_warning(r,
                    "of %d sequences (--max-seq) %d will run together: their KV cache may need "
                    "more than the %llu mappings of memory that vm.max_map_count leaves",
                    m->max_seq, m->mapped_seq, (unsigned long long)st.kv_max_mappings);
    if (r->o->send_percent > 0) say_warning(r, "--send-percent is ignored, and will be removed");
    if (fxi_cli_lacks_template(r->o, m)) say_warning(r, "%s", fxi_cli_no_template);
    if (m->chat_template_error)
        say_warning(r, "chats will fail: %s (--chat-template takes another)",
                    m->chat_template_error);
}

static void say_address(const serve_run *r)
{
    const fxi_server_options *opt = &r->opt;
    bool is_exposed;
    const int n_key = fxi_server_count_keys(r->srv, &is_exposed);
    const bool v6 = strchr(opt->host, ':');
    const bool is_file = fxi_host_file(opt->host);
    const bool is_open = strncmp(opt->host, "127.", 4) != 0 && strcmp(opt->host, "::1") != 0 &&
                         strcmp(opt->host, "localhost") != 0 && !is_file;
    if (is_open && !n_key)
        say_warning(r,
                    "%.100s can be reached from other machines, and no API key is needed "
                    "(--api-key-file)",
                    opt->host);
    else if (is_open && !opt->tls_cert)
        say_warning(r,
                    "%.100s can be reached from other machines, and keys and texts are sent as "
                    "plain text (--tls-cert)",
                    opt->host);
    if (is_open && !opt->hosts.n)
        say_text(r, "hosts      clients reach it by address or as localhost; other names need "
                    "--allowed-host");
    if (fxi_name_list_has(&opt->cors, "*") && !n_key)
        say_warning(r, "any web page may use this server (--cors)");
    if (is_exposed)
        say_warning(r, "%.200s can be read or changed by users other than its owner",
                    opt->key_file);
    if (is_file)
        say_event(r, FXI_LEVEL_INFO, "listening", "listening on %.120s", opt->host);
    else
        say_event(r, FXI_LEVEL_INFO, "listening", "listening on %s://%s%.100s%s:%d",
                  opt->tls_cert ? "https" : "http", v6 ? "[" : "", opt->host, v6 ? "]" : "",
                  fxi_server_port(r->srv));
}

// ---- --check-config ----------------------------------------------------------------------------
//
// Whether the server would start with these options: files are opened and checked, weights are not
// loaded, and the port may be in use. Then the options in effect go to stdout, as a file that
// --config takes.

static int check_config(const fxi_cli_options *o, const fxi_opt_rest *rest,
                        const fxi_server_options *server)
{
    fx_error err;
    fx_model_info info;
    fxi_buf text = {0};
    const fx_options opt = fxi_cli_engine_options(o);
    if (fxi_server_check(server, &err) != FX_OK) return fxi_cli_fail("%s", err.text);
    if (fx_options_check(&opt, &info, &err) != FX_OK) return fxi_cli_fail("%s", err.text);
    const bool ok = fxi_opt_show(&fxi_cli_table, FXI_CMD_SERVE, rest, &text);
    if (ok) printf("[serve]\n%s", text.p);
    fxi_buf_free(&text);
    return ok ? 0 : fxi_cli_fail("out of memory for the options");
}

// ---- the service manager -----------------------------------------------------------------------
//
// A datagram to the socket that NOTIFY_SOCKET names, as sd_notify(3) describes it. A name that
// begins with '@' is abstract.

static void notify_manager(const char *state)
{
    const char *name = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const size_t n = name ? strlen(name) : 0;
    if (!n || n >= sizeof to.sun_path || !strchr("/@", name[0])) return;
    memcpy(to.sun_path, name, n);
    if (name[0] == '@') to.sun_path[0] = 0;
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return;
    const socklen_t n_address = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to, n_address);
    close(fd);
}

// ---- the command -------------------------------------------------------------------------------

#define LOG_WAIT_S 1 // for the last lines

static void log_line(void *ud, const char *line)
{
    fxi_log_add(ud, line);
}

static uint64_t count_dropped(void *ud)
{
    return fxi_log_n_dropped(ud);
}

static void reload_keys(const serve_run *r)
{
    fx_error err;
    if (fxi_server_reload_keys(r->srv, &err) == FX_OK)
        say_event(r, FXI_LEVEL_INFO, "keys", "%d API keys read",
                  fxi_server_count_keys(r->srv, NULL));
    else
        say_event(r, FXI_LEVEL_WARN, "keys", "the API keys stay as they were: %s", err.text);
}

// The log is closed before a last word, so that the lines stay in order.
static int fail_run(serve_run *r, const char *text)
{
    fxi_server_stop(r->srv);
    fxi_log_close(r->log, LOG_WAIT_S);
    return fxi_cli_fail("%s", text);
}

static int serve_engine(serve_run *r, fx_engine *eng)
{
    fxi_server_serve(r->srv, eng);
    say_start(r, eng);
    say_address(r);
    notify_manager("READY=1");
    while (!fxi_signals_stop()) {
        if (fxi_signals_take_hup())
            reload_keys(r);
        else
            fxi_signals_wait();
    }
    fxi_signals_let_kill();
    notify_manager("STOPPING=1");
    say_event(r, FXI_LEVEL_INFO, "stop", "stopping");
    if (!fxi_server_drain(r->srv, (double)r->o->drain_timeout_s))
        say_event(r, FXI_LEVEL_WARN, "drain", "answers were cut off");
    fxi_server_stop(r->srv);
    fxi_log_close(r->log, LOG_WAIT_S);
    return 0;
}

static int run_server(serve_run *r)
{
    fx_error err;
    fx_engine *eng;
    const char *manager = getenv("NOTIFY_SOCKET");
    fxi_heap_map_large();
    fxi_core_dump_shrink("");
    signal(SIGPIPE, SIG_IGN); // a client that hangs up must not end the server
    if (fxi_log_open(STDERR_FILENO, 0, r->opt.log_json, &r->log, &err) != FX_OK)
        return fxi_cli_fail("%s", err.text);
    r->opt.log = log_line;
    r->opt.log_ud = r->log;
    r->opt.log_dropped = count_dropped;
    if (fxi_server_open(&r->opt, &r->srv, &err) != FX_OK) return fail_run(r, err.text);
    if (r->o->server.key_file || (manager && *manager)) fxi_signals_catch_hup();
    if (fxi_cli_open_engine(fxi_cli_engine_options(r->o), &eng, &err) != FX_OK)
        return fail_run(r, err.text);
    // Until now a signal ended the process: nothing was running.
    const int rc =
        fxi_signals_catch() ? serve_engine(r, eng) : fail_run(r, "out of file descriptors");
    fx_engine_close(eng);
    return rc;
}

int fxi_cmd_serve(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    serve_run r = {.o = o, .opt = fxi_cli_server_options(o)};
    fxi_buf endpoint = {0};
    r.opt.otlp_endpoint = fxi_cli_otlp_endpoint(o, &endpoint);
    const int rc = o->check_config ? check_config(o, rest, &r.opt) : run_server(&r);
    fxi_buf_free(&endpoint);
    return rc;
}
