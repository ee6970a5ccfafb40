// kv_stream.c - subscribers come, get the newest snapshot whenever they are ready, and leave.
//
// The engine is told what each round took, and takes its next snapshot so much later. So all
// subscribers together take a bounded share of the time, and get at most MAX_BYTES_PER_S each.
#include "server/http/kv_stream.h"

#include "base/system/clock.h" // defines: fxi_thread_cpu_ns
#include "server/endpoint/endpoint.h"
#include "server/http/http.h"

#include <math.h>
#include <stddef.h>

#define LOOK_AGAIN_S    0.1        // whether a slow subscriber has sent everything
#define MAX_BYTES_PER_S (2u << 20) // to each subscriber
#define WAKE_NS         30000      // what the I/O thread takes to send something, about,
#define WAKE_BYTE_NS    0.5        // and for each byte of it,
#define TLS_BYTE_NS     2          // encrypted

static const char event_head[] = "event: snapshot\ndata: ", event_end[] = "\n\n";

// ---- a round -----------------------------------------------------------------------------------

static void post_round_locked(fxi_server *srv);

// Makes the text of the newest snapshot, unless that is the one there is. False: no memory.
static bool make_newest_text(fxi_server *srv, uint64_t *number, uint64_t *n_made)
{
    fxi_publisher *p = &srv->publisher;
    pthread_mutex_lock(&p->mu);
    p->is_stale = false;
    *number = p->number;
    pthread_mutex_unlock(&p->mu);
    const fx_snapshot *s = fx_snapshot_get(srv->eng, *number);
    if (!s) return true;
    fxi_buf_free(&p->text);
    const bool ok = fxi_buf_str(&p->text, event_head) && fxi_snapshot_json(&p->text, s) &&
                    fxi_buf_str(&p->text, event_end);
    *number = s->number;
    ++*n_made;
    fx_snapshot_unref(s);
    return ok;
}

static bool is_behind(const fxi_publisher *p, const fxi_subscriber *sub)
{
    return p->number && sub->seen != p->number;
}

static bool can_take_text(const fxi_subscriber *sub)
{
    return sub->is_poll || fxi_http_job_waits(sub->job);
}

static bool answer_poll(fxi_http_job *job, bool ok, const fxi_buf *text)
{
    const size_t head = sizeof event_head - 1, end = sizeof event_end - 1;
    fxi_buf body = {0};
    fxi_http_error err;
    ok = ok && fxi_buf_add(&body, text->p + head, text->n - head - end);
    if (ok) {
        fxi_http_job_answer(job, &body);
    } else {
        (void)fxi_http_fail_memory(&err);
        fxi_http_job_end(job, &err);
    }
    return ok;
}

// Where there was no memory for the text, those that were ready end. Bytes count as if they were
// time, so that no subscriber gets more of them than it may.
static void run_round(fxi_work *w)
{
    fxi_server *srv = (fxi_server *)((char *)w - offsetof(fxi_server, publisher.work));
    fxi_publisher *p = &srv->publisher;
    fxi_publisher_counts count = {0};
    fxi_http_job *to[FXI_MAX_SUBSCRIBER]; // references
    int n = 0;
    uint64_t number;
    const uint64_t start_ns = fxi_thread_cpu_ns();
    const bool ok = make_newest_text(srv, &number, &count.n_made);
    const fxi_buf *text = &p->text;
    const double byte_ns = srv->opt.tls_cert ? TLS_BYTE_NS : WAKE_BYTE_NS;
    const double bytes_us = 1e6 * (double)text->n / MAX_BYTES_PER_S / FX_SNAPSHOT_SHARE;
    pthread_mutex_lock(&p->mu);
    p->number = p->first ? number : 0;
    for (fxi_subscriber *sub = p->first; sub; sub = sub->next) {
        if (!is_behind(p, sub) || !can_take_text(sub)) continue;
        sub->seen = p->number;
        atomic_fetch_add(&sub->job->refs, 1);
        to[n++] = sub->job;
    }
    pthread_mutex_unlock(&p->mu);

    for (int i = 0; i < n; i++) {
        const bool is_sent = to[i]->subscriber.is_poll ? answer_poll(to[i], ok, text)
                                                       : fxi_http_job_add(to[i], ok, text);
        count.ns += WAKE_NS + (uint64_t)((double)text->n * byte_ns);
        count.n_sent += is_sent;
        count.n_bytes += is_sent ? text->n : 0;
    }
    count.ns += fxi_thread_cpu_ns() - start_ns;
    if (n) fx_snapshot_charge(srv->eng, count.ns / 1000 + (uint64_t)bytes_us);

    pthread_mutex_lock(&p->mu);
    p->count.n_made += count.n_made;
    p->count.n_sent += count.n_sent;
    p->count.n_bytes += count.n_bytes;
    p->count.ns += count.ns;
    p->is_busy = false;
    if (!ok) p->number = 0; // the text is not complete
    for (fxi_subscriber *sub = p->first; sub; sub = sub->next)
        if (is_behind(p, sub)) fxi_http_job_wake(sub->job); // it looks whether it is ready now
    if (p->is_stale) post_round_locked(srv);
    pthread_mutex_unlock(&p->mu);
    for (int i = 0; i < n; i++) fxi_http_job_unref(to[i]);
}

// All rounds are work of one client, 0, which no request has.
static void post_round_locked(fxi_server *srv)
{
    fxi_publisher *p = &srv->publisher;
    if (p->is_busy || !p->first) return;
    p->is_busy = true;
    p->work = (fxi_work){.run = run_round, .large = true};
    fxi_workers_post(srv->workers, &p->work);
}

void fxi_kv_stream_on_snapshot(void *ud)
{
    fxi_server *srv = ud;
    pthread_mutex_lock(&srv->publisher.mu);
    srv->publisher.is_stale = true;
    post_round_locked(srv);
    pthread_mutex_unlock(&srv->publisher.mu);
}

// ---- subscribers -------------------------------------------------------------------------------

// A worker may still write for it, in vain.
void fxi_kv_stream_leave(fxi_http_job *job)
{
    fxi_publisher *p = &job->srv->publisher;
    fxi_subscriber *sub = &job->subscriber;
    pthread_mutex_lock(&p->mu);
    sub->has_left = true;
    if (sub->is_listed) {
        if (sub->next) sub->next->prev = sub->prev;
        *(sub->prev ? &sub->prev->next : &p->first) = sub->next;
        sub->is_listed = false;
    }
    if (!p->first) p->number = 0; // the text grows old from now on
    p->count.n_subscriber--;
    pthread_mutex_unlock(&p->mu);
    fx_snapshot_unsubscribe(job->eng);
}

double fxi_kv_stream_look(fxi_http_job *job, double now_s)
{
    fxi_publisher *p = &job->srv->publisher;
    double next_s = INFINITY;
    pthread_mutex_lock(&p->mu);
    if (job->subscriber.is_listed && is_behind(p, &job->subscriber) && !p->is_busy) {
        if (can_take_text(&job->subscriber))
            post_round_locked(job->srv);
        else
            next_s = now_s + LOOK_AGAIN_S;
    }
    pthread_mutex_unlock(&p->mu);
    return next_s;
}

// A subscriber is counted before it is listed. One that leaves in the meantime is not listed.
static bool begin_subscription(fxi_http_job *job, bool is_poll, fxi_http_error *err)
{
    fxi_publisher *p = &job->srv->publisher;
    fxi_subscriber *sub = &job->subscriber;
    pthread_mutex_lock(&p->mu);
    const bool has_room = p->count.n_subscriber < FXI_MAX_SUBSCRIBER;
    p->count.n_subscriber += has_room;
    pthread_mutex_unlock(&p->mu);
    if (!has_room)
        return fxi_http_fail(err, 503, "overloaded", NULL, "%d clients are subscribed already",
                             FXI_MAX_SUBSCRIBER);
    *sub = (fxi_subscriber){.job = job, .is_poll = is_poll};
    fx_snapshot_subscribe(job->eng);
    pthread_mutex_lock(&job->mu);
    job->watches = job->fd >= 0;
    job->reply.spec.stream = job->reply.begun = job->watches && !is_poll;
    const bool is_here = job->watches;
    pthread_mutex_unlock(&job->mu);
    if (!is_here) {
        fxi_kv_stream_leave(job); // the client has hung up already
        return true;
    }
    if (!is_poll) {
        fxi_buf hello = {0};
        const bool ok = fxi_buf_str(&hello, "retry: 2000\n\n");
        (void)fxi_http_job_add(job, ok, &hello);
        fxi_buf_free(&hello);
    }
    pthread_mutex_lock(&p->mu);
    if (!sub->has_left) {
        sub->next = p->first;
        if (sub->next) sub->next->prev = sub;
        p->first = sub;
        sub->is_listed = true;
        post_round_locked(job->srv); // there may be a text for it already
    }
    pthread_mutex_unlock(&p->mu);
    return true;
}

bool fxi_kv_stream_begin(fxi_http_job *job, fxi_http_error *err)
{
    return begin_subscription(job, false, err);
}

bool fxi_kv_stream_poll(fxi_http_job *job, fxi_http_error *err)
{
    return begin_subscription(job, true, err);
}
