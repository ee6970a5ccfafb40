// job.c - one HTTP request: submitted by its I/O thread, advanced by the engine's thread, ended by
// either, by the watcher, or by the server's stop.
//
//   BODY --fxi_http_job_submit--> WAIT --fxi_http_send_reply--> REPLY --completed--> freed once the
//   engine has dropped its references too
//
// While there is nothing to send, the connection is suspended. Whoever adds to the reply or ends it
// resumes the connection under job.mu; `suspended` says whether there is one to resume.
#include "server/http/http.h"

#include <math.h>
#include <stdlib.h>

#include "base/system/clock.h" // defines: fxi_now_s

// ---- life -------------------------------------------------------------------------------------

fxi_http_job *fxi_http_job_new(fxi_server *srv, struct MHD_Connection *conn)
{
    fxi_http_job *job = calloc(1, sizeof *job);
    if (!job) return NULL;
    if (pthread_mutex_init(&job->mu, NULL)) {
        free(job);
        return NULL;
    }
    atomic_init(&job->refs, 1);
    job->srv = srv;
    job->eng = srv->eng;
    job->metrics = fxi_metrics_ref(srv->metrics);
    job->conn = conn;
    job->started_s = fxi_now_s();
    return job;
}

void fxi_http_job_unref(fxi_http_job *job)
{
    if (atomic_fetch_sub(&job->refs, 1) > 1) return;
    fxi_reply_free(&job->reply);
    fxi_metrics_unref(job->metrics);
    fxi_buf_free(&job->body);
    free(job->part);
    pthread_mutex_destroy(&job->mu);
    free(job);
}

// ---- waking and ending ------------------------------------------------------------------------

static void wake_locked(fxi_http_job *job)
{
    job->last_out_s = fxi_now_s();
    if (!job->suspended) return;
    job->suspended = false;
    MHD_resume_connection(job->conn);
}

// Copies the ids out one by one: the engine must not be called with the lock held.
static void cancel_parts(fxi_http_job *job)
{
    for (int i = 0; i < job->n_part; i++) {
        pthread_mutex_lock(&job->mu);
        bool live = job->part[i].submitted && !job->part[i].over;
        uint64_t id = job->part[i].id;
        pthread_mutex_unlock(&job->mu);
        if (live) fx_cancel(job->eng, id);
    }
}

void fxi_http_job_on_event(void *ud, const fx_event *ev)
{
    fxi_job_part *part = ud;
    fxi_http_job *job = part->job;
    pthread_mutex_lock(&job->mu);
    bool was_ended = job->reply.ended;
    fxi_reply_event(&job->reply, part->index, ev);
    fxi_account_event(part, ev);
    part->over = ev->last;
    bool failed = !was_ended && job->reply.err.status;
    if (!was_ended && fxi_reply_has_news(&job->reply)) wake_locked(job);
    pthread_mutex_unlock(&job->mu);
    if (failed) cancel_parts(job);
    if (ev->last) fxi_http_job_unref(job);
}

void fxi_http_job_end(fxi_http_job *job, const fxi_http_error *e)
{
    pthread_mutex_lock(&job->mu);
    bool was_ended = job->reply.ended;
    fxi_reply_fail(&job->reply, e);
    if (!was_ended) wake_locked(job);
    pthread_mutex_unlock(&job->mu);
    if (!was_ended) cancel_parts(job);
}

void fxi_http_job_hangup(fxi_http_job *job)
{
    fxi_http_error e;
    fxi_http_fail(&e, 499, NULL, NULL, "the client has gone");
    pthread_mutex_lock(&job->mu);
    job->gone = !job->reply.ended;
    pthread_mutex_unlock(&job->mu);
    fxi_http_job_end(job, &e);
}

// ---- pings ------------------------------------------------------------------------------------

double fxi_http_job_ping(fxi_http_job *job, double now_s, double ping_s)
{
    pthread_mutex_lock(&job->mu);
    bool streams = job->reply.spec.stream && !job->reply.ended;
    if (fxi_reply_has_news(&job->reply))
        job->last_out_s = now_s; // silent from now on at the earliest
    if (streams && job->last_out_s + ping_s <= now_s) {
        fxi_reply_ping(&job->reply);
        wake_locked(job);
    }
    double due_s = streams ? job->last_out_s + ping_s : INFINITY;
    pthread_mutex_unlock(&job->mu);
    return due_s;
}
