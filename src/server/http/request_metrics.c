// request_metrics.c - what is counted, logged and traced (span.h) of each request.
//
// The log has one line for each finished request; text of prompts only if the option says so.
// Failures of the server are errors, of clients warnings; what only looks whether the server lives
// is for debugging, so that probes do not fill the log.
#include <stdio.h>
#include <string.h>

#include "base/system/clock.h" // defines: fxi_now_s
#include "base/text/utf8.h"
#include "server/http/http.h"
#include "server/log/log.h"

#define MAX_BODY_BYTES 16384 // of a request's body in the log,
#define MAX_PATH_BYTES 200   // and of a path that is not served

// The tokens of a prompt, which come with prompt_logprobs, are not counted as answers.
void fxi_account_event(fxi_job_part *part, const fx_event *ev)
{
    const double now_s = fxi_now_s();
    const bool is_first = !part->first_s && ev->token >= 0 && ev->position >= ev->n_prompt;
    if (is_first) part->first_s = now_s;
    const uint64_t seen_us = (uint64_t)(now_s * 1e6);
    const uint64_t took_us = ev->queued_us + ev->prefill_us + ev->decode_us;
    part->phases = (fxi_trace_part){.request = ev->request_id,
                                    .begun_us = seen_us > took_us ? seen_us - took_us : 0,
                                    .queued_us = ev->queued_us,
                                    .prefill_us = ev->prefill_us,
                                    .decode_us = ev->decode_us,
                                    .has_token = part->first_s > 0};
    const double age_us = (now_s - part->job->started_s) * 1e6;
    fxi_metrics_event(part->job->metrics, ev, (uint64_t)age_us, is_first);
}

// ---- spans ------------------------------------------------------------------------------------

// Requests that the model answers have spans: not probes, pages for people, orders of admins.
void fxi_account_begin(fxi_http_job *job)
{
    const fxi_route *r = job->route;
    if (!job->srv->spans || !r || r->access != FXI_ACCESS_MODEL || strcmp(r->method, "POST") != 0)
        return;
    job->span = fxi_trace_span_begin(fxi_http_job_header(job, "traceparent"),
                                     fxi_http_job_header(job, "tracestate"));
    if (!job->span) return;
    job->span->method = r->method;
    job->span->route = r->path;
    job->span->operation = r->endpoint                     ? NULL // gen_ai.operation.name
                           : r->api == FXI_API_COMPLETIONS ? "text_completion"
                           : r->api == FXI_API_EMBEDDINGS  ? "embeddings"
                           : fxi_api_is_score(r->api)      ? "rerank"
                                                           : "chat";
}

// The engine's thread may still be at work on the parts.
static void end_span(fxi_http_job *job, int status, const char *code)
{
    fxi_trace_span *s = job->span;
    const fxi_reply *r = &job->reply;
    if (!s) return;
    job->span = NULL;
    s->end_us = fxi_now_ns() / 1000;
    s->status = status;
    s->error = code;
    pthread_mutex_lock(&job->mu);
    s->n_prompt = job->n_part;
    s->n_part = job->n_part < FXI_TRACE_PARTS ? job->n_part : FXI_TRACE_PARTS;
    for (int i = 0; i < s->n_part; i++) s->part[i] = job->part[i].phases;
    if (r->choice) {
        const fxi_usage use = fxi_usage_of(r);
        snprintf(s->model, sizeof s->model, "%.*s", FXI_UTF8_HEAD(r->model, 127));
        snprintf(s->response_id, sizeof s->response_id, "%s", r->id);
        s->has_usage = true;
        s->n_prompt_tok = use.n_prompt;
        s->n_cached_tok = use.n_cached;
        s->n_generated_tok = use.n_generated;
        s->n_choice = r->spec.n_per_prompt;
        for (int k = 0; k < r->spec.n_prompt * r->spec.n_per_prompt; k++)
            if (r->choice[k].finish) s->finish_reasons |= 1u << r->choice[k].finish;
    }
    pthread_mutex_unlock(&job->mu);
    snprintf(s->response_model, sizeof s->response_model, "%.*s",
             FXI_UTF8_HEAD(job->srv->model_id, 127));
    snprintf(s->request_id, sizeof s->request_id, "%s", job->request_id);
    snprintf(s->tenant, sizeof s->tenant, "%s", job->tenant->id);
    fxi_spans_add(job->srv->spans, s);
}

// ---- the log ----------------------------------------------------------------------------------

static bool is_wanted(const fxi_server *srv, fxi_level level)
{
    return srv->opt.log && (int)level >= srv->opt.log_level;
}

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

// A probe that learns that the model loads, or that the server drains, is no fault.
static fxi_level level_for(const fxi_http_job *job, int status, const char *code)
{
    static const char *const states[] = {"loading", "draining"};
    const bool probes = job->route && (job->route->access == FXI_ACCESS_PROBE ||
                                       job->route->access == FXI_ACCESS_METRICS);
    if (probes && code && fxi_str_is_any(fxi_str_of(code), states, 2)) return FXI_LEVEL_DEBUG;
    if (status >= 500) return FXI_LEVEL_ERROR;
    if ((status >= 400 && status != 499) || job->ignored[0]) return FXI_LEVEL_WARN;
    return probes ? FXI_LEVEL_DEBUG : FXI_LEVEL_INFO;
}

// job.mu is held, since the engine's thread may still be at work on the parts. Of several prompts
// the longest wait counts, and the first token of all.
static fxi_line make_line_locked(const fxi_http_job *job, int status, const char *code)
{
    uint64_t queued_us = 0;
    double first_s = 0;
    fxi_line l = fxi_line_begin(job->srv->opt.log_json, level_for(job, status, code), "request");
    fxi_line_word(&l, "method", job->route ? job->route->method : "-");
    fxi_line_word(&l, "route", job->route ? job->route->path : "-");
    if (l.is_json)
        fxi_line_int(&l, "status", status);
    else
        l.ok = l.ok && fxi_buf_fmt(&l.b, " %d", status);
    fxi_line_str(&l, "request_id", job->request_id);
    fxi_line_str(&l, "tenant", job->tenant->id);
    if (job->reply.choice) {
        const fxi_usage use = fxi_usage_of(&job->reply);
        fxi_line_str(&l, "id", job->reply.id);
        fxi_line_int(&l, "prompt_tokens", use.n_prompt);
        fxi_line_int(&l, "cached_tokens", use.n_cached);
        fxi_line_int(&l, "generated_tokens", use.n_generated);
    }
    if (code) fxi_line_str(&l, "error", code);
    const char *path = job->route || !job->conn ? NULL : job->conn->head.path;
    if (path) fxi_line_text(&l, "path", path, (size_t)fxi_utf8_within(path, MAX_PATH_BYTES));
    if (job->ignored[0]) fxi_line_str(&l, "ignored", job->ignored);
    for (int i = 0; i < job->n_part; i++) {
        const fxi_job_part *p = &job->part[i];
        if (p->phases.queued_us > queued_us) queued_us = p->phases.queued_us;
        if (p->first_s && (!first_s || p->first_s < first_s)) first_s = p->first_s;
    }
    if (job->n_part) fxi_line_seconds(&l, "queue_s", (double)queued_us * 1e-6);
    if (first_s) fxi_line_seconds(&l, "first_token_s", first_s - job->started_s);
    fxi_line_seconds(&l, "total_s", fxi_now_s() - job->started_s);
    return l;
}

void fxi_account_end(fxi_http_job *job, int route, int status)
{
    const char *code = job->code ? job->code : job->reply.err.code;
    fxi_metrics_request(job->metrics, route, status, code);
    end_span(job, status, code);
    pthread_mutex_lock(&job->mu);
    const bool is_logged = is_wanted(job->srv, level_for(job, status, code));
    fxi_line l = is_logged ? make_line_locked(job, status, code) : (fxi_line){.ok = false};
    pthread_mutex_unlock(&job->mu);
    if (is_logged) write_line(job->srv, &l);
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

void fxi_log_body(fxi_http_job *job)
{
    const size_t n = job->body.n;
    if (!job->srv->opt.log_prompts || !is_wanted(job->srv, FXI_LEVEL_INFO)) return;
    fxi_line l = fxi_line_begin(job->srv->opt.log_json, FXI_LEVEL_INFO, "prompt");
    if (!l.is_json) fxi_line_word(&l, "event", "prompt");
    fxi_line_str(&l, "request_id", job->request_id);
    fxi_line_int(&l, "body_bytes", (long long)n);
    fxi_line_text(&l, "body", n ? job->body.p : "", n < MAX_BODY_BYTES ? n : MAX_BODY_BYTES);
    write_line(job->srv, &l);
}
