// access_log.c - one line for each finished request; text of prompts only if the option says so.
//
// Failures of the server are errors, of clients warnings; what only looks whether the server lives
// is for debugging, so that probes do not fill the log.
#include <stdio.h>

#include "base/system/clock.h" // defines: fxi_now_s
#include "server/http/http.h"
#include "server/log/log.h"

#define MAX_BODY_BYTES 16384 // of a request's body in the log

static void write_line(fxi_server *srv, fxi_line *l)
{
    const char *text = fxi_line_end(l);
    if (text) {
        pthread_mutex_lock(&srv->log_mu);
        srv->opt.log(srv->opt.log_ud, text);
        pthread_mutex_unlock(&srv->log_mu);
    }
    fxi_line_free(l);
}

static bool is_wanted(const fxi_server *srv, fxi_level level)
{
    return srv->opt.log && (int)level >= srv->opt.log_level;
}

static fxi_level level_for(const fxi_http_job *job, int status)
{
    if (status >= 500) return FXI_LEVEL_ERROR;
    if (status >= 400 && status != 499) return FXI_LEVEL_WARN;
    const bool probes = job->route && (job->route->access == FXI_ACCESS_PROBE ||
                                       job->route->access == FXI_ACCESS_METRICS);
    return probes ? FXI_LEVEL_DEBUG : FXI_LEVEL_INFO;
}

static void add_usage(fxi_line *l, const fxi_reply *r)
{
    const fxi_usage use = fxi_usage_of(r);
    fxi_line_str(l, "id", r->id);
    fxi_line_int(l, "prompt_tokens", use.n_prompt);
    fxi_line_int(l, "cached_tokens", use.n_cached);
    fxi_line_int(l, "generated_tokens", use.n_generated);
}

static bool copy_ignored(fxi_http_job *job, char *dst, size_t cap)
{
    pthread_mutex_lock(&job->mu);
    snprintf(dst, cap, "%s", job->ignored);
    pthread_mutex_unlock(&job->mu);
    return dst[0];
}

// Of several prompts: the longest wait, and the first token of all. The engine's thread may still
// be at work on them.
static void add_times(fxi_line *l, fxi_http_job *job)
{
    uint64_t queued_us = 0;
    double first_s = 0;
    pthread_mutex_lock(&job->mu);
    for (int i = 0; i < job->n_part; i++) {
        const fxi_job_part *p = &job->part[i];
        if (p->queued_us > queued_us) queued_us = p->queued_us;
        if (p->first_s && (!first_s || p->first_s < first_s)) first_s = p->first_s;
    }
    pthread_mutex_unlock(&job->mu);
    if (job->n_part) fxi_line_seconds(l, "queue_s", (double)queued_us * 1e-6);
    if (first_s) fxi_line_seconds(l, "first_token_s", first_s - job->started_s);
}

void fxi_log_job(fxi_http_job *job, int status)
{
    char ignored[sizeof job->ignored];
    const bool ignores = copy_ignored(job, ignored, sizeof ignored);
    fxi_level level = level_for(job, status);
    if (ignores && level < FXI_LEVEL_WARN) level = FXI_LEVEL_WARN;
    const char *code = job->code ? job->code : job->reply.err.code;
    if (!is_wanted(job->srv, level)) return;
    fxi_line l = fxi_line_begin(job->srv->opt.log_json, level, "request");
    fxi_line_word(&l, "method", job->route ? job->route->method : "-");
    fxi_line_word(&l, "route", job->route ? job->route->path : "-");
    if (l.is_json)
        fxi_line_int(&l, "status", status);
    else
        l.ok = l.ok && fxi_buf_fmt(&l.b, " %d", status);
    fxi_line_str(&l, "request_id", job->request_id);
    fxi_line_str(&l, "tenant", job->tenant->id);
    if (job->reply.choice) add_usage(&l, &job->reply);
    if (code) fxi_line_str(&l, "error", code);
    if (ignores) fxi_line_str(&l, "ignored", ignored);
    add_times(&l, job);
    fxi_line_seconds(&l, "total_s", fxi_now_s() - job->started_s);
    write_line(job->srv, &l);
}

void fxi_log_event(fxi_server *srv, int level, const char *event, const char *text)
{
    if (!is_wanted(srv, (fxi_level)level)) return;
    fxi_line l = fxi_line_begin(srv->opt.log_json, (fxi_level)level, event);
    if (l.is_json)
        fxi_line_str(&l, "message", text);
    else
        l.ok = l.ok && fxi_buf_str(&l.b, text);
    write_line(srv, &l);
}

void fxi_log_body(fxi_http_job *job, const char *body, size_t n_bytes)
{
    if (!job->srv->opt.log_prompts || !is_wanted(job->srv, FXI_LEVEL_INFO)) return;
    fxi_line l = fxi_line_begin(job->srv->opt.log_json, FXI_LEVEL_INFO, "prompt");
    if (!l.is_json) fxi_line_word(&l, "event", "prompt");
    fxi_line_str(&l, "request_id", job->request_id);
    fxi_line_int(&l, "body_bytes", (long long)n_bytes);
    fxi_line_text(&l, "body", body, n_bytes < MAX_BODY_BYTES ? n_bytes : MAX_BODY_BYTES);
    write_line(job->srv, &l);
}
