// request_metrics.c - what is counted of each request, and told of it elsewhere as a span (span.h).
#include <stdio.h>
#include <string.h>

#include "base/system/clock.h" // defines: fxi_now_s
#include "base/text/utf8.h"
#include "server/http/http.h"

// The tokens of a prompt, which come with prompt_logprobs, are not counted as answers.
static bool brings_token(const fx_event *ev)
{
    return ev->token >= 0 && ev->position >= ev->n_prompt;
}

void fxi_account_event(fxi_job_part *part, const fx_event *ev)
{
    const double now_s = fxi_now_s();
    const bool is_first = !part->first_s && brings_token(ev);
    if (is_first) part->first_s = now_s;
    part->queued_us = ev->queued_us;
    part->prefill_us = ev->prefill_us;
    part->decode_us = ev->decode_us;
    part->seen_us = (uint64_t)(now_s * 1e6);
    const double age_us = (now_s - part->job->started_s) * 1e6;
    fxi_metrics_event(part->job->metrics, ev, (uint64_t)age_us, is_first);
}

// ---- spans ------------------------------------------------------------------------------------

// gen_ai.operation.name of what is submitted to the engine; NULL: nothing is.
static const char *operation_of(const fxi_route *r)
{
    static const char *const others[][2] = {{"/v1/completions", "text_completion"},
                                            {"/v1/embeddings", "embeddings"}};
    if (!r->work || r->endpoint) return NULL;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(r->path, others[i][0])) return others[i][1];
    return "chat";
}

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
    job->span->operation = operation_of(r);
}

static fxi_trace_part span_part(const fxi_job_part *p)
{
    const uint64_t took_us = p->queued_us + p->prefill_us + p->decode_us;
    return (fxi_trace_part){.request = p->id,
                            .begun_us = p->seen_us > took_us ? p->seen_us - took_us : 0,
                            .queued_us = p->queued_us,
                            .prefill_us = p->prefill_us,
                            .decode_us = p->decode_us,
                            .has_token = p->first_s > 0};
}

static void describe_reply(fxi_trace_span *s, const fxi_reply *r)
{
    const fxi_usage use = fxi_usage_of(r);
    const int n_choice = r->spec.n_prompt * r->spec.n_per_prompt;
    snprintf(s->model, sizeof s->model, "%.*s", FXI_UTF8_HEAD(r->model, 127));
    snprintf(s->response_id, sizeof s->response_id, "%s", r->id);
    s->has_usage = true;
    s->n_prompt_tok = use.n_prompt;
    s->n_cached_tok = use.n_cached;
    s->n_generated_tok = use.n_generated;
    s->n_choice = r->spec.n_per_prompt;
    for (int k = 0; k < n_choice; k++)
        if (r->choice[k].finish) s->finish_reasons |= 1u << r->choice[k].finish;
}

// The engine's thread may still be at work on the parts.
static void describe_job(fxi_trace_span *s, fxi_http_job *job)
{
    pthread_mutex_lock(&job->mu);
    s->n_prompt = job->n_part;
    s->n_part = job->n_part < FXI_TRACE_PARTS ? job->n_part : FXI_TRACE_PARTS;
    for (int i = 0; i < s->n_part; i++) s->part[i] = span_part(&job->part[i]);
    if (job->reply.choice) describe_reply(s, &job->reply);
    pthread_mutex_unlock(&job->mu);
    snprintf(s->response_model, sizeof s->response_model, "%.*s",
             FXI_UTF8_HEAD(job->srv->model_id, 127));
    snprintf(s->request_id, sizeof s->request_id, "%s", job->request_id);
    snprintf(s->tenant, sizeof s->tenant, "%s", job->tenant->id);
}

static void end_span(fxi_http_job *job, int status, const char *code)
{
    fxi_trace_span *s = job->span;
    if (!s) return;
    job->span = NULL;
    s->end_us = fxi_now_ns() / 1000;
    s->status = status;
    s->error = code;
    describe_job(s, job);
    fxi_spans_add(job->srv->spans, s);
}

void fxi_account_request(fxi_http_job *job, int route, int status)
{
    const char *code = job->code ? job->code : job->reply.err.code;
    fxi_metrics_request(job->metrics, route, status, code);
    end_span(job, status, code);
}
