// job_work.c - a request's way to a worker and back.
//
// The I/O thread lists the job, so that a hang-up or a stop ends it from now on, posts its work and
// suspends the connection. The worker gives the body back, whatever the outcome: nothing waits for
// the engine but what it was submitted with. The requests of one client wait for each other.
#include "server/http/http.h"

#include <stddef.h>

#define LARGE_BODY_BYTES (64u << 10) // from here on a body is large work

static void run_job_work(fxi_work *w)
{
    fxi_http_job *job = (fxi_http_job *)((char *)w - offsetof(fxi_http_job, work));
    fxi_http_error err;
    if (!fxi_http_job_is_over(job) && !job->route->work(job, &err)) fxi_http_job_end(job, &err);
    fxi_body_free(&job->body, &job->bill);
    fxi_http_job_unref(job);
}

enum MHD_Result fxi_http_job_post(fxi_http_job *job)
{
    fxi_http_error err;
    job->work = (fxi_work){
        .run = run_job_work, .lane = job->client, .large = job->body.n >= LARGE_BODY_BYTES};
    if (!fxi_watch_add(job)) {
        fxi_http_fail(&err, 503, "draining", NULL, "the server is shutting down");
        return fxi_http_send_error(job, &err);
    }
    job->phase = FXI_PHASE_WAIT;
    atomic_fetch_add(&job->refs, 1);
    fxi_workers_post(job->srv->workers, &job->work);
    if (fxi_http_job_is_over(job)) fxi_http_job_drop_work(job); // a hang-up in between
    return fxi_http_send_reply(job);
}
