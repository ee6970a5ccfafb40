// viewer.c - who watches: they come, are told that there is a new picture, and leave.
//
//   engine's thread: fxi_viewer_on_picture -> a worker: round.c -> their streams
//   I/O thread: those that were not ready for a round have another picture taken once they are
#include "server/viewer/viewer.h"

#include "server/viewer/round.h"

#include <math.h>

#define LOOK_AGAIN_S 0.1 // whether a reader has caught up
#define ASK_AGAIN_S  1   // for a picture

// ---- the list ----------------------------------------------------------------------------------

// Counted before it is listed.
static bool take_viewer_place(fxi_viewers *vs)
{
    pthread_mutex_lock(&vs->mu);
    const bool has_room = vs->count.n_viewer < FXI_MAX_VIEWER;
    vs->count.n_viewer += has_room;
    pthread_mutex_unlock(&vs->mu);
    return has_room;
}

// Whoever has left in the meantime is not listed.
static void list_viewer(fxi_viewers *vs, fxi_viewer *v)
{
    pthread_mutex_lock(&vs->mu);
    if (!v->has_left) {
        v->next = vs->first;
        if (v->next) v->next->prev = v;
        vs->first = v;
        v->is_listed = v->is_owed = true;
    }
    pthread_mutex_unlock(&vs->mu);
}

static void unlist_viewer_locked(fxi_viewers *vs, fxi_viewer *v)
{
    if (v->next) v->next->prev = v->prev;
    *(v->prev ? &v->prev->next : &vs->first) = v->next;
    v->is_listed = false;
}

// The connection has completed. A worker may still write for it, in vain.
static void leave_viewers(fxi_http_job *job)
{
    fxi_viewers *vs = &job->srv->viewers;
    fxi_viewer *v = &job->viewer;
    pthread_mutex_lock(&vs->mu);
    v->has_left = true;
    if (v->is_listed) unlist_viewer_locked(vs, v);
    fx_picture_unref(v->seen);
    v->seen = NULL;
    vs->count.n_viewer--;
    pthread_mutex_unlock(&vs->mu);
    fx_picture_end(job->eng);
}

// ---- news --------------------------------------------------------------------------------------

void fxi_viewer_on_picture(void *ud)
{
    fxi_server *srv = ud;
    pthread_mutex_lock(&srv->viewers.mu);
    for (fxi_viewer *v = srv->viewers.first; v; v = v->next) v->is_owed = true;
    if (srv->viewers.first) fxi_round_post_locked(srv);
    pthread_mutex_unlock(&srv->viewers.mu);
}

// An engine that is idle takes no picture unless it is asked. One that could not take it, because
// memory was short, is asked again. A first picture is asked for once a whole one may be made.
static double ask_for_picture_locked(fxi_http_job *job, double now_s)
{
    fxi_viewer *v = &job->viewer;
    if (!v->is_owed || job->srv->viewers.is_busy) return INFINITY;
    if (v->seen && !fxi_http_job_waits(job)) return now_s + LOOK_AGAIN_S;
    const uint64_t wait_us = v->seen ? 0 : fx_picture_whole_wait_us(job->eng);
    if (wait_us) return now_s + 1e-6 * (double)wait_us;
    if (now_s >= v->ask_s) {
        v->ask_s = now_s + ASK_AGAIN_S;
        fx_picture_want(job->eng);
    }
    return v->ask_s;
}

// On the I/O thread.
static double look_at_viewer(fxi_http_job *job, double now_s)
{
    fxi_viewers *vs = &job->srv->viewers;
    pthread_mutex_lock(&vs->mu);
    const double next_s = ask_for_picture_locked(job, now_s);
    pthread_mutex_unlock(&vs->mu);
    return next_s;
}

// ---- begin -------------------------------------------------------------------------------------

static void say_hello(fxi_http_job *job)
{
    fxi_buf hello = {0};
    const bool ok = fxi_buf_str(&hello, "retry: 2000\n\n");
    (void)fxi_http_job_add(job, ok, &hello);
    fxi_buf_free(&hello);
}

bool fxi_viewer_begin(fxi_http_job *job, fxi_http_error *err)
{
    fxi_viewers *vs = &job->srv->viewers;
    if (!take_viewer_place(vs))
        return fxi_http_fail(err, 503, "overloaded", NULL, "%d clients watch already",
                             FXI_MAX_VIEWER);
    job->viewer = (fxi_viewer){.job = job};
    fx_picture_begin(job->eng);
    if (!fxi_http_job_watch(job, look_at_viewer, leave_viewers)) {
        leave_viewers(job); // the client has hung up already
        return true;
    }
    say_hello(job);
    list_viewer(vs, &job->viewer);
    fxi_http_job_wake(job);
    return true;
}
