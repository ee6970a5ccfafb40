// cmd_serve.c - runs the server until a signal: it listens, loads the model, serves, drains, stops.
//
// Whatever it says goes through a log that holds nobody up (log.h), to stderr. SIGHUP reads the key
// file again. The first SIGTERM or Ctrl-C lets running answers end; a second one ends the process.
#include "cli/command/command.h"
#include "cli/terminal/terminal.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/system/memory.h" // defines: fxi_core_dump_shrink
#include "base/system/pages.h"  // defines: fxi_heap_map_large
#include "server/log/log.h"
#include "server/server.h"

#define LOG_WAIT_S 1 // for the last lines

typedef struct serve_run {
    const fxi_cli_options *o;
    fxi_server_options opt;
    fxi_log *log;
    fxi_say say;
    fxi_server *srv;
} serve_run;

// ---- the log ----------------------------------------------------------------------------------

static void log_line(void *ud, const char *line)
{
    fxi_log_add(ud, line);
}

static uint64_t count_dropped(void *ud)
{
    return fxi_log_n_dropped(ud);
}

static void tell_json(char *dst, size_t cap, uint64_t n_dropped)
{
    fxi_line l = fxi_line_begin(true, FXI_LEVEL_WARN, "dropped");
    fxi_line_int(&l, "lines", (long long)n_dropped);
    const char *text = fxi_line_end(&l);
    snprintf(dst, cap, "%s", text ? text : "{}");
    fxi_line_free(&l);
}

static fx_status open_log(serve_run *r, fx_error *err)
{
    const bool is_json = r->opt.log_json;
    const fx_status st = fxi_log_open(STDERR_FILENO, 0, is_json ? tell_json : NULL, &r->log, err);
    r->say = (fxi_say){.is_json = is_json, .line = log_line, .ud = r->log};
    r->opt.log = log_line;
    r->opt.log_ud = r->log;
    r->opt.log_dropped = count_dropped;
    return st;
}

// ---- running ----------------------------------------------------------------------------------

static void reload_keys(const serve_run *r)
{
    char text[FX_ERROR_TEXT_BYTES + 64];
    int n_key = 0;
    fx_error err;
    const bool ok = fxi_server_reload_keys(r->srv, &n_key, &err) == FX_OK;
    if (ok)
        snprintf(text, sizeof text, "%d API keys read", n_key);
    else
        snprintf(text, sizeof text, "warning: the API keys stay as they were: %s", err.text);
    fxi_say_event(&r->say, ok ? FXI_LEVEL_INFO : FXI_LEVEL_WARN, "keys", text);
}

static void wait_for_end(const serve_run *r)
{
    while (!fxi_signals_stop()) {
        if (fxi_signals_take_hup())
            reload_keys(r);
        else
            fxi_signals_wait();
    }
    fxi_signals_let_kill();
}

static void end_server(const serve_run *r)
{
    fxi_say_event(&r->say, FXI_LEVEL_INFO, "stop", "stopping");
    if (!fxi_server_drain(r->srv, (double)r->o->drain_timeout_s))
        fxi_say_event(&r->say, FXI_LEVEL_WARN, "drain", "warning: answers were cut off");
    fxi_server_stop(r->srv);
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
    fxi_say_start(&r->say, eng, r->o);
    fxi_say_address(&r->say, &r->opt, r->srv);
    fxi_notify_manager("READY=1");
    wait_for_end(r);
    fxi_notify_manager("STOPPING=1");
    end_server(r);
    fxi_log_close(r->log, LOG_WAIT_S);
    return 0;
}

static int run_server(serve_run *r)
{
    fx_error err;
    fx_engine *eng;
    if (open_log(r, &err) != FX_OK) return fxi_cli_fail("%s", err.text);
    if (fxi_server_open(&r->opt, &r->srv, &err) != FX_OK) return fail_run(r, err.text);
    if (r->o->key_file || fxi_manager_waits()) fxi_signals_catch_hup();
    if (fxi_cli_open(r->o, &eng, &err) != FX_OK) return fail_run(r, err.text);
    // Until now a signal ended the process: nothing was running.
    const int rc = fxi_signals_catch() ? serve_engine(r, eng) : fail_run(r, "no file descriptors");
    fx_engine_close(eng);
    return rc;
}

static int check_or_serve(serve_run *r, const fxi_opt_rest *rest)
{
    if (r->o->check_config) return fxi_serve_check(r->o, rest, &r->opt);
    fxi_heap_map_large();
    fxi_core_dump_shrink("");
    signal(SIGPIPE, SIG_IGN); // a client that hangs up must not end the server
    return run_server(r);
}

int fxi_cmd_serve(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    serve_run r = {.o = o, .opt = fxi_cli_server_options(o)};
    fxi_buf endpoint = {0};
    r.opt.otlp_endpoint = fxi_cli_otlp_endpoint(o, &endpoint);
    const int rc = check_or_serve(&r, rest);
    fxi_buf_free(&endpoint);
    return rc;
}
