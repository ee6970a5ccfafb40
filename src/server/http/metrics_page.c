// metrics_page.c - /metrics: the counts of all requests, and what only the server knows.
#include "server/http/http.h"

static uint64_t count_connections(const fxi_server *srv)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(srv->mhd, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
    return info ? info->num_connections : 0;
}

static fxi_publisher_counts read_publisher(fxi_server *srv)
{
    pthread_mutex_lock(&srv->publisher.mu);
    const fxi_publisher_counts c = srv->publisher.count;
    pthread_mutex_unlock(&srv->publisher.mu);
    return c;
}

static fxi_server_gauges read_gauges(fxi_server *srv)
{
    fxi_ledger_gauges held;
    fxi_workers_gauges work;
    const fxi_publisher_counts kv = read_publisher(srv);
    fxi_ledger_read(srv->ledger, &held);
    fxi_workers_read(srv->workers, &work);
    fxi_server_gauges g = {.n_connection = count_connections(srv),
                           .limit_bytes = held.limit_bytes,
                           .refused = held.n_refused,
                           .n_worker = (uint64_t)work.n_thread,
                           .n_busy_worker = (uint64_t)work.n_busy,
                           .n_waiting_work = (uint64_t)(work.n_small + work.n_large),
                           .n_subscriber = kv.n_subscriber,
                           .n_kv_made = kv.n_made,
                           .n_kv_sent = kv.n_sent,
                           .kv_sent_bytes = kv.n_bytes,
                           .kv_send_ns = kv.ns};
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
