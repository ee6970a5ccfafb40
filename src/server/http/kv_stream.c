// kv_stream.c - /kv/stream and /kv/snapshot: the newest snapshot of the engine as a text, made once
// for all subscribers.
//
//   engine thread   fxi_kv_stream_on_snapshot: there is a newer snapshot; posts the work
//   a worker        makes its text, and posts the subscribers' jobs to the loop
//   the I/O thread  sends a subscriber the newest text, if it has not had that one, and has taken
//                   all that was sent before. So a slow one skips texts
//
// The engine is told what a text takes, and takes its next snapshot so much later. So all
// subscribers together take a bounded share of the time, and get at most MAX_BYTES_PER_S each.
#include "base/system/clock.h" // defines: fxi_thread_cpu_ns, fxi_now_s
#include "server/http/http.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#define LOOK_AGAIN_S    0.1        // whether a slow subscriber has taken everything
#define MAX_BYTES_PER_S (2u << 20) // to each subscriber
#define SEND_NS         30000      // what the I/O thread takes to send a text, about,
#define BYTE_NS         0.5        // and for each byte of it,
#define TLS_BYTE_NS     2          // encrypted

struct fxi_kv_text {
    atomic_int refs;
    uint64_t number; // of the snapshot
    fxi_buf event;   // a server-sent event, and the end of the chunk that it is
};

static const char event_head[] = "event: snapshot\ndata: ", event_end[] = "\n\n",
                  chunk_end[] = "\r\n";

static void drop_text(fxi_kv_text *t)
{
    if (!t || atomic_fetch_sub(&t->refs, 1) > 1) return;
    fxi_buf_free(&t->event);
    free(t);
}

// ---- on a worker -------------------------------------------------------------------------------

// NULL: no memory.
static fxi_kv_text *make_text(const fx_snapshot *s)
{
    fxi_kv_text *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    atomic_init(&t->refs, 1);
    t->number = s->number;
    if (fxi_buf_str(&t->event, event_head) && fxi_snapshot_json(&t->event, s) &&
        fxi_buf_str(&t->event, event_end) && fxi_buf_str(&t->event, chunk_end))
        return t;
    drop_text(t);
    return NULL;
}

static void post_work_locked(fxi_server *srv);

// Where there is no memory for the text, all streams end. Bytes count as if they were time, so that
// no subscriber gets more of them than it may.
static void run_work(fxi_work *w)
{
    fxi_server *srv = (fxi_server *)((char *)w - offsetof(fxi_server, publisher.work));
    fxi_publisher *p = &srv->publisher;
    const uint64_t start_ns = fxi_thread_cpu_ns();
    fxi_http_error err;
    pthread_mutex_lock(&p->mu);
    p->is_stale = false;
    const uint64_t number = p->newest ? p->newest->number : 0, n = p->count.n_subscriber;
    pthread_mutex_unlock(&p->mu);
    const fx_snapshot *s = fx_snapshot_get(srv->eng, number);
    fxi_kv_text *text = s ? make_text(s) : NULL;
    const double n_bytes = text ? (double)text->event.n : 0;
    const double byte_ns = srv->opt.tls_cert ? TLS_BYTE_NS : BYTE_NS;
    const uint64_t ns =
        fxi_thread_cpu_ns() - start_ns + n * (SEND_NS + (uint64_t)(n_bytes * byte_ns));
    const double bytes_us = 1e6 * n_bytes / MAX_BYTES_PER_S / FX_SNAPSHOT_SHARE;
    fx_snapshot_charge(srv->eng, ns / 1000 + (uint64_t)bytes_us);
    (void)fxi_http_fail_memory(&err);

    pthread_mutex_lock(&p->mu);
    p->count.ns += ns;
    p->count.n_made += text != NULL;
    p->is_busy = false;
    if (text && p->first) {
        drop_text(p->newest);
        p->newest = text;
    } else {
        drop_text(text);
    }
    for (fxi_http_job *job = p->first; s && job; job = job->kv.next)
        if (text)
            fxi_http_job_wake(job);
        else
            (void)fxi_http_job_end(job, &err);
    if (p->is_stale) post_work_locked(srv);
    pthread_mutex_unlock(&p->mu);
    fx_snapshot_unref(s);
}

// All of it is work of one client, 0, which no request has.
static void post_work_locked(fxi_server *srv)
{
    fxi_publisher *p = &srv->publisher;
    if (p->is_busy || !p->first) return;
    p->is_busy = true;
    p->work = (fxi_work){.run = run_work, .large = true};
    fxi_workers_post(srv->workers, &p->work);
}

void fxi_kv_stream_on_snapshot(void *ud)
{
    fxi_server *srv = ud;
    pthread_mutex_lock(&srv->publisher.mu);
    srv->publisher.is_stale = true;
    post_work_locked(srv);
    pthread_mutex_unlock(&srv->publisher.mu);
}

// ---- on the I/O thread -------------------------------------------------------------------------

// The job has sent its text, or will not send it.
static void release_text_locked(fxi_http_job *job)
{
    if (!job->kv.text) return;
    fxi_charge_release(&job->charge, FXI_BYTES_ANSWER, job->kv.text->event.cap);
    drop_text(job->kv.text);
    job->kv.text = NULL;
}

bool fxi_kv_stream_begin(fxi_http_job *job, fxi_http_error *err)
{
    fxi_publisher *p = &job->srv->publisher;
    pthread_mutex_lock(&p->mu);
    job->watches = p->count.n_subscriber < FXI_MAX_SUBSCRIBER;
    if (job->watches) {
        p->count.n_subscriber++;
        job->kv.next = p->first;
        if (p->first) p->first->kv.prev = job;
        p->first = job;
    }
    pthread_mutex_unlock(&p->mu);
    if (!job->watches)
        return fxi_http_fail(err, 503, "overloaded", NULL, "%d clients are subscribed already",
                             FXI_MAX_SUBSCRIBER);
    fx_snapshot_subscribe(job->eng);
    return true;
}

void fxi_kv_stream_leave(fxi_http_job *job)
{
    fxi_publisher *p = &job->srv->publisher;
    pthread_mutex_lock(&p->mu);
    if (job->kv.next) job->kv.next->kv.prev = job->kv.prev;
    *(job->kv.prev ? &job->kv.prev->kv.next : &p->first) = job->kv.next;
    p->count.n_subscriber--;
    release_text_locked(job);
    if (!p->first) { // the text grows old from now on
        drop_text(p->newest);
        p->newest = NULL;
    }
    pthread_mutex_unlock(&p->mu);
    fx_snapshot_unsubscribe(job->eng);
}

bool fxi_kv_stream_next(fxi_http_job *job, bool is_event, fxi_str *out)
{
    fxi_publisher *p = &job->srv->publisher;
    fxi_conn *c = job->conn;
    pthread_mutex_lock(&p->mu);
    release_text_locked(job);
    const bool is_new = p->newest && p->newest->number != job->kv.seen;
    const bool is_ready = is_new && (!is_event || !fxi_transport_queued_bytes(c->io.fd));
    if (is_ready) {
        fxi_charge_add(&job->charge, FXI_BYTES_ANSWER, p->newest->event.cap);
        job->kv.text = p->newest;
        job->kv.seen = p->newest->number;
        atomic_fetch_add(&p->newest->refs, 1);
        p->count.n_sent++;
        p->count.n_bytes += p->newest->event.n;
    }
    pthread_mutex_unlock(&p->mu);
    c->look_s = is_new && !is_ready ? fxi_now_s() + LOOK_AGAIN_S : INFINITY;
    if (!is_ready) return false;
    const fxi_buf *event = &job->kv.text->event;
    const size_t head = is_event ? 0 : sizeof event_head - 1;
    const size_t end = sizeof chunk_end - 1 + (is_event ? 0 : sizeof event_end - 1);
    *out = (fxi_str){event->p + head, event->n - head - end};
    return true;
}
