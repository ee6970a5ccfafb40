// cmd_serve.c - runs the server until a signal: its start message and its log go to stderr.
#include "cli/command/command.h"
#include "cli/terminal/terminal.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "server/server.h"

static void log_line(void *ud, const char *line)
{
    (void)ud;
    fprintf(stderr, "%s\n", line);
}

static void print_model(const fx_model_info *m)
{
    char params[FXI_SIZE_TEXT_BYTES], file[FXI_SIZE_TEXT_BYTES];
    fprintf(stderr,
            "model      %s (%s, %s, %s parameters, %s)\n"
            "kernels    %s, %d threads\n"
            "context    %d tokens\n",
            m->name, m->arch, m->type, fxi_cli_count(m->n_param, params),
            fxi_cli_size(m->file_bytes, file), m->kernel_path, m->n_thread, m->ctx_tok);
}

static void print_memory(const fx_engine *eng, const fxi_cli_options *o)
{
    size_t tok_bytes = fx_engine_info(eng)->kv_bytes_per_tok;
    fx_stats st;
    fx_engine_stats(eng, &st);
    char size[FXI_SIZE_TEXT_BYTES], n_tok[FXI_SIZE_TEXT_BYTES];
    fprintf(stderr, "KV cache   %zu bytes per token, budget %s (%s): %s tokens\n", tok_bytes,
            fxi_cli_size(st.kv_budget_bytes, size),
            o->kv_memory_bytes ? "as given" : "half of what was free",
            fxi_cli_count(st.kv_budget_bytes / tok_bytes, n_tok));
    if (o->swap_bytes)
        fprintf(stderr, "swap       %s in %s\n", fxi_cli_size(o->swap_bytes, size),
                fxi_cli_swap_dir(o));
}

static void print_chat(const fx_model_info *m)
{
    if (m->chat_template_error)
        fprintf(stderr, "warning: chats will fail: %s (--chat-template takes another)\n",
                m->chat_template_error);
}

static bool is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 ||
           strcmp(host, "localhost") == 0;
}

static void print_address(const char *host, int port)
{
    if (!is_loopback(host))
        fprintf(
            stderr,
            "warning: %s can be reached from other machines, and there is no authentication yet\n",
            host);
    fprintf(stderr,
            strchr(host, ':') ? "listening on http://[%s]:%d\n" : "listening on http://%s:%d\n",
            host, port);
}

static int run_server(fx_engine *eng, const fxi_cli_options *o)
{
    fx_error err;
    fxi_server *srv;
    fxi_server_options opt = {.host = o->host,
                              .port = o->port,
                              .n_worker = o->n_worker,
                              .max_queue_bytes = (size_t)o->max_queue_bytes,
                              .log = log_line};
    if (fxi_server_start(eng, &opt, &srv, &err) != FX_OK) return fxi_cli_fail("%s", err.text);
    print_model(fx_engine_info(eng));
    print_memory(eng, o);
    print_chat(fx_engine_info(eng));
    print_address(o->host, fxi_server_port(srv));
    while (!fxi_signals_stop()) fxi_signals_wait();
    fxi_signals_let_kill(); // a second signal ends it without waiting
    fprintf(stderr, "stopping\n");
    fxi_server_stop(srv);
    return 0;
}

int fxi_cmd_serve(const fxi_cli_options *o, const fxi_opt_rest *rest)
{
    (void)rest;
    fx_error err;
    fx_engine *eng;
    signal(SIGPIPE, SIG_IGN); // a client that hangs up must not end the server
    if (fxi_cli_open(o, &eng, &err) != FX_OK) return fxi_cli_fail("%s", err.text);
    int rc = fxi_signals_catch() ? run_server(eng, o) : fxi_cli_fail("out of file descriptors");
    fx_engine_close(eng);
    return rc;
}
