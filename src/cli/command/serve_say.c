// serve_say.c - what `serve` says about itself: what it runs, where it listens, that it stops.
#include "base/text/utf8.h" // defines: fxi_utf8_vprint
#include "cli/command/command.h"
#include "cli/terminal/terminal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "server/log/log_line.h"

static void say_line(const fxi_say *say, fxi_line *l)
{
    const char *text = fxi_line_end(l);
    if (text) say->line(say->ud, text);
    fxi_line_free(l);
}

void fxi_say_event(const fxi_say *say, int level, const char *event, const char *text)
{
    if (!say->is_json) {
        say->line(say->ud, text);
        return;
    }
    fxi_line l = fxi_line_begin(true, (fxi_level)level, event);
    fxi_line_str(&l, "message", text);
    say_line(say, &l);
}

__attribute__((format(printf, 2, 3))) static void say_text(const fxi_say *say, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    fxi_utf8_vprint(text, sizeof text, fmt, args);
    va_end(args);
    say->line(say->ud, text);
}

// ---- start --------------------------------------------------------------------------------------

static void say_model(const fxi_say *say, const fx_model_info *m)
{
    char params[FXI_SIZE_TEXT_BYTES], file[FXI_SIZE_TEXT_BYTES];
    say_text(say, "model      %s (%s, %s, %s parameters, %s)", m->name, m->arch, m->type,
             fxi_cli_count(m->n_param, params), fxi_cli_size(m->file_bytes, file));
    say_text(say, "kernels    %s, %d threads", m->kernel_path, m->n_thread);
    say_text(say, "context    %d tokens", m->ctx_tok);
}

static void say_memory(const fxi_say *say, const fx_stats *st, const fx_model_info *m,
                       const fxi_cli_options *o)
{
    const size_t tok_bytes = m->kv_bytes_per_tok;
    char size[FXI_SIZE_TEXT_BYTES], n_tok[FXI_SIZE_TEXT_BYTES];
    say_text(say, "KV cache   %zu bytes per token, budget %s (%s): %s tokens", tok_bytes,
             fxi_cli_size(st->kv_budget_bytes, size),
             o->kv_memory_bytes ? "as given" : "half of what was free",
             fxi_cli_count(st->kv_budget_bytes / tok_bytes, n_tok));
    if (o->swap_bytes)
        say_text(say, "swap       %s in %s", fxi_cli_size(o->swap_bytes, size),
                 fxi_cli_swap_dir(o));
}

static void say_object(const fxi_say *say, const fx_stats *st, const fx_model_info *m,
                       const fxi_cli_options *o)
{
    fxi_line l = fxi_line_begin(true, FXI_LEVEL_INFO, "start");
    fxi_line_str(&l, "version", fx_version());
    fxi_line_str(&l, "model", m->name);
    fxi_line_str(&l, "arch", m->arch);
    fxi_line_str(&l, "type", m->type);
    fxi_line_int(&l, "parameters", (long long)m->n_param);
    fxi_line_str(&l, "kernels", m->kernel_path);
    fxi_line_int(&l, "threads", m->n_thread);
    fxi_line_int(&l, "context_tokens", m->ctx_tok);
    fxi_line_int(&l, "kv_bytes_per_token", (long long)m->kv_bytes_per_tok);
    fxi_line_int(&l, "kv_budget_bytes", (long long)st->kv_budget_bytes);
    fxi_line_int(&l, "swap_bytes", (long long)o->swap_bytes);
    say_line(say, &l);
}

// Requests then wait for mappings, as they do for memory.
static void say_few_mappings(const fxi_say *say, const fx_stats *st, const fx_model_info *m)
{
    char text[300];
    if (m->max_seq <= m->mapped_seq) return;
    snprintf(text, sizeof text,
             "warning: of %d sequences (--max-seq) %d will run together: their KV cache may need "
             "more than the %llu mappings of memory that vm.max_map_count leaves",
             m->max_seq, m->mapped_seq, (unsigned long long)st->kv_max_mappings);
    fxi_say_event(say, FXI_LEVEL_WARN, "warning", text);
}

void fxi_say_start(const fxi_say *say, const fx_engine *eng, const fxi_cli_options *o)
{
    const fx_model_info *m = fx_engine_info(eng);
    fx_stats st;
    char text[400];
    fx_engine_stats(eng, &st);
    if (say->is_json) {
        say_object(say, &st, m, o);
    } else {
        say_model(say, m);
        say_memory(say, &st, m, o);
    }
    say_few_mappings(say, &st, m);
    if (o->send_percent > 0)
        fxi_say_event(say, FXI_LEVEL_WARN, "warning",
                      "warning: --send-percent is ignored, and will be removed");
    if (!m->chat_template_error) return;
    snprintf(text, sizeof text, "warning: chats will fail: %s (--chat-template takes another)",
             m->chat_template_error);
    fxi_say_event(say, FXI_LEVEL_WARN, "warning", text);
}

// ---- address ------------------------------------------------------------------------------------

static bool is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 ||
           strcmp(host, "localhost") == 0;
}

__attribute__((format(printf, 2, 3))) static void say_warning(const fxi_say *say, const char *fmt,
                                                              ...)
{
    char text[512] = "warning: ";
    const size_t n = strlen(text);
    va_list args;
    va_start(args, fmt);
    fxi_utf8_vprint(text + n, sizeof text - n, fmt, args);
    va_end(args);
    fxi_say_event(say, FXI_LEVEL_WARN, "warning", text);
}

static void say_dangers(const fxi_say *say, const fxi_server_options *opt, fxi_key_facts keys)
{
    const bool is_open = !is_loopback(opt->host);
    if (is_open && !keys.n_key)
        say_warning(say,
                    "%.100s can be reached from other machines, and no API key is needed "
                    "(--api-key-file)",
                    opt->host);
    else if (is_open && !opt->tls_cert)
        say_warning(say,
                    "%.100s can be reached from other machines, and keys and texts are sent as "
                    "plain text (--tls-cert)",
                    opt->host);
    if (fxi_name_list_has(&opt->cors, "*") && !keys.n_key)
        say_warning(say, "any web page may use this server (--cors)");
    if (keys.is_exposed)
        say_warning(say, "%.200s can be read or changed by others than its owner", opt->key_file);
}

void fxi_say_address(const fxi_say *say, const fxi_server_options *opt, fxi_server *srv)
{
    char text[320];
    const bool v6 = strchr(opt->host, ':');
    say_dangers(say, opt, fxi_server_look_at_keys(srv));
    snprintf(text, sizeof text, "listening on %s://%s%.100s%s:%d", opt->tls_cert ? "https" : "http",
             v6 ? "[" : "", opt->host, v6 ? "]" : "", fxi_server_port(srv));
    fxi_say_event(say, FXI_LEVEL_INFO, "listening", text);
}
