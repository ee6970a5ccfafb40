// job_work.c - a request's way to a worker and back.
//
// The I/O thread lists the job, so that a hang-up or a stop ends it from now on, posts its work and
// suspends the connection. The worker gives the body back, whatever the outcome: nothing waits for
// the engine but what it was submitted with.
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

// Requests of one tenant wait for each other; without keys, those of one connection.
static uint64_t lane_of(const fxi_http_job *job)
{
    const bool known = job->tenant != fxi_tenant_anonymous();
    return known ? (uint64_t)(uintptr_t)job->tenant : (uint64_t)(uintptr_t)job->peer;
}

enum MHD_Result fxi_http_job_post(fxi_http_job *job)
{
    fxi_http_error err;
    if (!fxi_watch_add(job)) {
        fxi_http_fail(&err, 503, "draining", NULL, "the server is shutting down");
        return fxi_http_send_error(job, &err);
    }
    job->phase = FXI_PHASE_WAIT;
    job->work = (fxi_work){
        .run = run_job_work, .lane = lane_of(job), .large = job->body.n >= LARGE_BODY_BYTES};
    atomic_fetch_add(&job->refs, 1);
    fxi_workers_post(job->srv->workers, &job->work);
    return fxi_http_send_reply(job);
}
