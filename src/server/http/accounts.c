// accounts.c - what is counted of each request, and /metrics, where it is shown.
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

static uint64_t count_connections(const fxi_server *srv)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(srv->mhd, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
    return info ? info->num_connections : 0;
}

static fxi_server_gauges gauges_of(const fxi_server *srv)
{
    fxi_ledger_gauges held;
    fxi_workers_gauges work;
    fxi_ledger_read(srv->ledger, &held);
    fxi_workers_read(srv->workers, &work);
    fxi_server_gauges g = {.n_connection = count_connections(srv),
                           .limit_bytes = held.limit_bytes,
                           .refused = held.n_refused,
                           .n_worker = (uint64_t)work.n_thread,
                           .n_busy_worker = (uint64_t)work.n_busy,
                           .n_waiting_work = (uint64_t)(work.n_small + work.n_large)};
    for (int i = 0; i < FXI_N_BYTES_OF; i++) g.held_bytes[i] = held.of_bytes[i];
    return g;
}

enum MHD_Result fxi_serve_metrics(fxi_http_job *job)
{
    const fxi_server_gauges g = gauges_of(job->srv);
    fxi_buf b = {0};
    if (fxi_metrics_page(&b, job->metrics, job->eng, &g))
        return fxi_http_send(job, 200, "text/plain; version=0.0.4; charset=utf-8", &b);
    fxi_buf_free(&b);
    return MHD_NO;
}
