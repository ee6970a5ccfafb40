// accounts.c - what is counted of each request.
#include "base/system/clock.h" // defines: fxi_now_s
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
    const double age_us = (now_s - part->job->started_s) * 1e6;
    fxi_metrics_event(part->job->metrics, ev, (uint64_t)age_us, is_first);
}

void fxi_account_request(const fxi_http_job *job, int route, int status)
{
    const char *code = job->code ? job->code : job->reply.err.code;
    fxi_metrics_request(job->metrics, route, status, code);
}
