// access_log.c - one line for each finished request; never text of prompts or answers.
#include "base/system/clock.h" // defines: fxi_now_s
#include "server/http/http.h"

static void write_line(fxi_server *srv, const char *line)
{
    if (!srv->opt.log) return;
    pthread_mutex_lock(&srv->log_mu);
    srv->opt.log(srv->opt.log_ud, line);
    pthread_mutex_unlock(&srv->log_mu);
}

void fxi_log_job(fxi_http_job *job, int status)
{
    const fxi_reply *r = &job->reply;
    fxi_buf b = {0};
    bool ok = fxi_buf_fmt(&b, "%s %s %d request=%s", job->route ? job->route->method : "-",
                          job->route ? job->route->path : "-", status, job->request_id);
    if (ok && r->choice) {
        fxi_usage use = fxi_usage_of(r);
        ok = fxi_buf_fmt(&b, " id=%s prompt=%d cached=%d generated=%d", r->id, use.n_prompt,
                         use.n_cached, use.n_generated);
    }
    const char *code = job->code ? job->code : r->err.code;
    if (ok && code) ok = fxi_buf_fmt(&b, " error=%s", code);
    if (ok && fxi_buf_fmt(&b, " seconds=%.3f", fxi_now_s() - job->started_s))
        write_line(job->srv, b.p);
    fxi_buf_free(&b);
}
