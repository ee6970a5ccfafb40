// viewer.c - from a picture to the streams of those who watch.
//
//   engine thread: fxi_viewer_on_picture -> each viewer that is ready -> a worker -> its stream
//   watcher: those that were not ready (still reading, or written to a moment ago), once they are
//
// A viewer's rate is bounded: by the engine's pictures, a share of a worker's time, and bytes.
#include "server/viewer/viewer.h"

#include "base/system/clock.h" // defines: fxi_now_s
#include "server/picture/picture_json.h"

#include <math.h>
#include <stddef.h>

#define MAX_VIEWER      64
#define COST_SHARE      1000 // of a worker's time, a thousandth for each viewer
#define MAX_BYTES_PER_S (2u << 20)
#define LOOK_AGAIN_S    0.1 // whether a reader has caught up

// ---- the list ----------------------------------------------------------------------------------

static void list_viewer_locked(fxi_viewers *vs, fxi_viewer *v)
{
    v->next = vs->first;
    if (v->next) v->next->prev = v;
    vs->first = v;
    v->is_listed = true;
    vs->n++;
}

static void unlist_viewer_locked(fxi_viewers *vs, fxi_viewer *v)
{
    if (v->next) v->next->prev = v->prev;
    *(v->prev ? &v->prev->next : &vs->first) = v->next;
    v->is_listed = false;
    vs->n--;
}

// The connection has completed. A worker may still write for it, in vain.
static void leave_viewers(fxi_http_job *job)
{
    fxi_viewers *vs = &job->srv->viewers;
    fxi_viewer *v = &job->viewer;
    pthread_mutex_lock(&vs->mu);
    unlist_viewer_locked(vs, v);
    fx_picture_unref(v->seen);
    v->seen = NULL;
    if (!vs->n) fxi_buf_free(&vs->text);
    pthread_mutex_unlock(&vs->mu);
    fx_picture_end(job->eng);
}

// ---- one piece of news -------------------------------------------------------------------------

// The text between two pictures, which often has been made for another viewer a moment ago.
static bool add_change(fxi_viewers *vs, fxi_buf *b, const fx_picture *from, const fx_picture *to)
{
    const size_t at = b->n;
    pthread_mutex_lock(&vs->mu);
    const bool known = vs->text.n && vs->from == from->number && vs->to == to->number;
    bool ok = !known || fxi_buf_add(b, vs->text.p, vs->text.n);
    pthread_mutex_unlock(&vs->mu);
    if (known || !fxi_picture_change(b, from, to)) return ok && known;
    pthread_mutex_lock(&vs->mu);
    fxi_buf_clear(&vs->text);
    if (vs->n > 1 && fxi_buf_add(&vs->text, b->p + at, b->n - at)) {
        vs->from = from->number;
        vs->to = to->number;
    }
    pthread_mutex_unlock(&vs->mu);
    return true;
}

// A server-sent event. seen NULL: the whole picture.
static bool add_news(fxi_viewers *vs, fxi_buf *b, const fx_picture *seen, const fx_picture *now)
{
    bool ok = fxi_buf_fmt(b, "event: %s\ndata: ", seen ? "change" : "picture");
    ok = ok && (seen ? add_change(vs, b, seen, now) : fxi_picture_whole(b, now));
    return ok && fxi_buf_str(b, "\n\n");
}

// Takes over the reference to `now`.
static void finish_news(fxi_viewers *vs, fxi_viewer *v, const fx_picture *now, double due_s)
{
    const fx_picture *drop = now;
    pthread_mutex_lock(&vs->mu);
    if (now && v->is_listed) {
        drop = v->seen;
        v->seen = now;
    }
    v->due_s = due_s;
    v->is_busy = false;
    const bool again = v->is_owed && v->is_listed;
    pthread_mutex_unlock(&vs->mu);
    fx_picture_unref(drop);
    if (again) fxi_watch_wake(v->job->srv);
}

// On a worker, which nobody else does for this viewer meanwhile: `seen` stays, unless it leaves.
static void send_news(fxi_http_job *job)
{
    fxi_viewers *vs = &job->srv->viewers;
    fxi_viewer *v = &job->viewer;
    const uint64_t start_ns = fxi_thread_cpu_ns();
    fxi_buf b = {0};
    pthread_mutex_lock(&vs->mu);
    v->is_owed = false;
    const fx_picture *seen = v->is_listed ? v->seen : NULL;
    const bool is_here = v->is_listed;
    fx_picture_ref(seen);
    pthread_mutex_unlock(&vs->mu);
    const fx_picture *now = is_here ? fx_picture_get(job->eng, seen ? seen->number : 0) : NULL;
    if (now && !fxi_http_job_stream(job, add_news(vs, &b, seen, now), &b)) {
        fx_picture_unref(now);
        now = NULL;
    }
    const double rest_s = 1e-9 * (double)(fxi_thread_cpu_ns() - start_ns) * COST_SHARE;
    finish_news(vs, v, now, fxi_now_s() + fmax(rest_s, (double)b.n / MAX_BYTES_PER_S));
    fx_picture_unref(seen);
    fxi_buf_free(&b);
}

static void run_news(fxi_work *w)
{
    fxi_http_job *job = (fxi_http_job *)((char *)w - offsetof(fxi_http_job, render));
    if (!fxi_http_job_is_over(job)) send_news(job);
    fxi_http_job_unref(job);
}

// ---- who is ready ------------------------------------------------------------------------------

// A viewer that is owed news gets a worker, if it has taken everything before. Returns when to look
// again.
static double post_news_locked(fxi_viewer *v, double now_s)
{
    fxi_http_job *job = v->job;
    if (!v->is_owed || v->is_busy) return INFINITY;
    if (now_s < v->due_s) return v->due_s;
    if (!fxi_http_job_waits(job)) return now_s + LOOK_AGAIN_S;
    v->is_busy = true;
    job->render = (fxi_work){.run = run_news, .lane = job->client, .large = true};
    atomic_fetch_add(&job->refs, 1);
    fxi_workers_post(job->srv->workers, &job->render);
    return INFINITY;
}

// On the watcher's thread, with server.mu held.
static double look_at_viewer(fxi_http_job *job, double now_s)
{
    fxi_viewers *vs = &job->srv->viewers;
    pthread_mutex_lock(&vs->mu);
    const double next_s = post_news_locked(&job->viewer, now_s);
    pthread_mutex_unlock(&vs->mu);
    return next_s;
}

void fxi_viewer_on_picture(void *ud)
{
    fxi_server *srv = ud;
    const double now_s = fxi_now_s();
    bool some_wait = false;
    pthread_mutex_lock(&srv->viewers.mu);
    for (fxi_viewer *v = srv->viewers.first; v; v = v->next) {
        v->is_owed = true;
        some_wait = !isinf(post_news_locked(v, now_s)) || some_wait;
    }
    pthread_mutex_unlock(&srv->viewers.mu);
    if (some_wait) fxi_watch_wake(srv);
}

// ---- begin -------------------------------------------------------------------------------------

// Busy at first: the worker that runs this writes to it.
static bool enter_viewer(fxi_http_job *job)
{
    fxi_viewers *vs = &job->srv->viewers;
    pthread_mutex_lock(&vs->mu);
    const bool has_room = vs->n < MAX_VIEWER;
    job->viewer = (fxi_viewer){.job = job, .is_busy = true};
    if (has_room) list_viewer_locked(vs, &job->viewer);
    pthread_mutex_unlock(&vs->mu);
    return has_room;
}

bool fxi_viewer_begin(fxi_http_job *job, fxi_http_error *err)
{
    fxi_buf hello = {0};
    if (!enter_viewer(job))
        return fxi_http_fail(err, 503, "overloaded", NULL, "%d clients watch already", MAX_VIEWER);
    fx_picture_begin(job->eng);
    if (fxi_http_job_watch(job, look_at_viewer, leave_viewers)) {
        const bool ok = fxi_buf_str(&hello, "retry: 2000\n\n");
        if (fxi_http_job_stream(job, ok, &hello)) send_news(job);
    } else {
        leave_viewers(job); // the client has hung up already
    }
    fxi_buf_free(&hello);
    return true;
}
