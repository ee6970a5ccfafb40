// cmd_serve.c - runs the server until a signal: its start message and its log go to stderr.
#include "cli/command/command.h"
#include "cli/terminal/terminal.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "server/log/log_line.h" // defines: fxi_level_named
#include "server/server.h"

static void log_line(void *ud, const char *line)
{
    (void)ud;
    fprintf(stderr, "%s\n", line);
}

static fxi_server_options server_options(const fxi_cli_options *o)
{
    return (fxi_server_options){.host = o->host,
                                .port = o->port,
                                .n_worker = o->n_worker,
                                .max_queue_bytes = (size_t)o->max_queue_bytes,
                                .log_json = strcasecmp(o->log_format, "json") == 0,
                                .log_level = fxi_level_named(o->log_level),
                                .log_prompts = o->log_prompts,
                                .log = log_line};
}

static int run_server(fx_engine *eng, const fxi_cli_options *o)
{
    fx_error err;
    fxi_server *srv;
    const fxi_server_options opt = server_options(o);
    const fxi_say say = {.is_json = opt.log_json, .line = log_line};
    if (fxi_server_start(eng, &opt, &srv, &err) != FX_OK) return fxi_cli_fail("%s", err.text);
    fxi_say_start(&say, eng, o);
    fxi_say_address(&say, o->host, fxi_server_port(srv));
    while (!fxi_signals_stop()) fxi_signals_wait();
    fxi_signals_let_kill(); // a second signal ends it without waiting
    fxi_say_event(&say, FXI_LEVEL_INFO, "stop", "stopping");
    fxi_server_stop(srv);
    return 0;
}

int fxi_cmd_serve(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    fx_error err;
    fx_engine *eng;
    const fxi_server_options opt = server_options(o);
    if (o->check_config) return fxi_serve_check(o, rest, &opt);
    signal(SIGPIPE, SIG_IGN); // a client that hangs up must not end the server
    if (fxi_cli_open(o, &eng, &err) != FX_OK) return fxi_cli_fail("%s", err.text);
    int rc = fxi_signals_catch() ? run_server(eng, o) : fxi_cli_fail("out of file descriptors");
    fx_engine_close(eng);
    return rc;
}
