// metrics_page.c - /metrics: the counts of all requests, and what only the server knows.
#include "server/http/http.h"

static uint64_t count_connections(const fxi_server *srv)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(srv->mhd, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
    return info ? info->num_connections : 0;
}

static fxi_viewers_counts read_viewers(fxi_server *srv)
{
    pthread_mutex_lock(&srv->viewers.mu);
    const fxi_viewers_counts c = srv->viewers.count;
    pthread_mutex_unlock(&srv->viewers.mu);
    return c;
}

static fxi_server_gauges read_gauges(fxi_server *srv)
{
    fxi_ledger_gauges held;
    fxi_workers_gauges work;
    const fxi_viewers_counts view = read_viewers(srv);
    fxi_ledger_read(srv->ledger, &held);
    fxi_workers_read(srv->workers, &work);
    fxi_server_gauges g = {.n_connection = count_connections(srv),
                           .limit_bytes = held.limit_bytes,
                           .refused = held.n_refused,
                           .n_worker = (uint64_t)work.n_thread,
                           .n_busy_worker = (uint64_t)work.n_busy,
                           .n_waiting_work = (uint64_t)(work.n_small + work.n_large),
                           .n_viewer = view.n_viewer,
                           .n_view_made = view.n_made,
                           .n_view_sent = view.n_sent,
                           .view_bytes = view.n_bytes,
                           .view_ns = view.ns};
    if (srv->opt.log_dropped) g.n_log_dropped = srv->opt.log_dropped(srv->opt.log_ud);
    fxi_spans_count(srv->spans, &g.spans);
    for (int i = 0; i < FXI_N_BYTES_OF; i++) g.held_bytes[i] = held.of_bytes[i];
    return g;
}

enum MHD_Result fxi_serve_metrics(fxi_http_job *job)
{
    const fxi_server_gauges g = read_gauges(job->srv);
    fxi_buf b = {0};
    const bool made = fxi_metrics_page(&b, job->metrics, job->eng, &g);
    return fxi_http_send_made(job, made, "text/plain; version=0.0.4; charset=utf-8", &b);
}
