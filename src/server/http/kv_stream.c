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

typedef struct ready_subscriber {
    fxi_http_job *job; // a reference
    bool is_poll;
} ready_subscriber;

typedef struct kv_round {
    fxi_server *srv;
    ready_subscriber to[FXI_MAX_SUBSCRIBER];
    int n;
    uint64_t number; // of the snapshot in the text
    fxi_publisher_counts count;
} kv_round;

static void post_round_locked(fxi_server *srv);

// Makes the text of the newest snapshot, unless that is the one there is. False: no memory.
static bool make_newest_text(kv_round *r)
{
    fxi_publisher *p = &r->srv->publisher;
    pthread_mutex_lock(&p->mu);
    p->is_stale = false;
    r->number = p->number;
    pthread_mutex_unlock(&p->mu);
    const fx_snapshot *s = fx_snapshot_get(r->srv->eng, r->number);
    if (!s) return true;
    fxi_buf_free(&p->text);
    const bool ok = fxi_buf_str(&p->text, event_head) && fxi_snapshot_json(&p->text, s) &&
                    fxi_buf_str(&p->text, event_end);
    r->number = s->number;
    r->count.n_made++;
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

static void choose_ready(kv_round *r)
{
    fxi_publisher *p = &r->srv->publisher;
    pthread_mutex_lock(&p->mu);
    p->number = p->first ? r->number : 0;
    for (fxi_subscriber *sub = p->first; sub; sub = sub->next) {
        if (!is_behind(p, sub) || !can_take_text(sub)) continue;
        sub->seen = p->number;
        atomic_fetch_add(&sub->job->refs, 1);
        r->to[r->n++] = (ready_subscriber){sub->job, sub->is_poll};
    }
    pthread_mutex_unlock(&p->mu);
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

// ok false: there was no memory for the text, and they end.
static void send_to_ready(kv_round *r, bool ok)
{
    const fxi_buf *text = &r->srv->publisher.text;
    const double byte_ns = r->srv->opt.tls_cert ? TLS_BYTE_NS : WAKE_BYTE_NS;
    for (int i = 0; i < r->n; i++) {
        fxi_http_job *job = r->to[i].job;
        const bool is_poll = r->to[i].is_poll;
        const bool is_sent = is_poll ? answer_poll(job, ok, text) : fxi_http_job_add(job, ok, text);
        r->count.ns += WAKE_NS + (uint64_t)((double)text->n * byte_ns);
        r->count.n_sent += is_sent;
        r->count.n_bytes += is_sent ? text->n : 0;
    }
}

// Bytes count as if they were time, so that no subscriber gets more of them than it may.
static void charge_round(const kv_round *r)
{
    const double bytes_us =
        1e6 * (double)r->srv->publisher.text.n / MAX_BYTES_PER_S / FX_SNAPSHOT_SHARE;
    if (r->n) fx_snapshot_charge(r->srv->eng, r->count.ns / 1000 + (uint64_t)bytes_us);
}

// ok false: the text is not complete.
static void end_round(kv_round *r, bool ok)
{
    fxi_publisher *p = &r->srv->publisher;
    pthread_mutex_lock(&p->mu);
    p->count.n_made += r->count.n_made;
    p->count.n_sent += r->count.n_sent;
    p->count.n_bytes += r->count.n_bytes;
    p->count.ns += r->count.ns;
    p->is_busy = false;
    if (!ok) p->number = 0;
    for (fxi_subscriber *sub = p->first; sub; sub = sub->next)
        if (is_behind(p, sub)) fxi_http_job_wake(sub->job); // it looks whether it is ready now
    if (p->is_stale) post_round_locked(r->srv);
    pthread_mutex_unlock(&p->mu);
    for (int i = 0; i < r->n; i++) fxi_http_job_unref(r->to[i].job);
}

static void run_round(fxi_work *w)
{
    kv_round r = {.srv = (fxi_server *)((char *)w - offsetof(fxi_server, publisher.work))};
    const uint64_t start_ns = fxi_thread_cpu_ns();
    const bool ok = make_newest_text(&r);
    choose_ready(&r);
    send_to_ready(&r, ok);
    r.count.ns += fxi_thread_cpu_ns() - start_ns;
    charge_round(&r);
    end_round(&r, ok);
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

// Counted before it is listed.
static bool take_subscriber_place(fxi_publisher *p)
{
    pthread_mutex_lock(&p->mu);
    const bool has_room = p->count.n_subscriber < FXI_MAX_SUBSCRIBER;
    p->count.n_subscriber += has_room;
    pthread_mutex_unlock(&p->mu);
    return has_room;
}

// One that has left in the meantime is not listed. There may be a text for it already.
static void list_subscriber(fxi_server *srv, fxi_subscriber *sub)
{
    fxi_publisher *p = &srv->publisher;
    pthread_mutex_lock(&p->mu);
    if (!sub->has_left) {
        sub->next = p->first;
        if (sub->next) sub->next->prev = sub;
        p->first = sub;
        sub->is_listed = true;
        post_round_locked(srv);
    }
    pthread_mutex_unlock(&p->mu);
}

// The connection has completed. A worker may still write for it, in vain.
static void leave_publisher(fxi_http_job *job)
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

// On the I/O thread: whether one that skipped a text can take it now.
static double look_at_subscriber(fxi_http_job *job, double now_s)
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

static bool begin_subscription(fxi_http_job *job, bool is_poll, fxi_http_error *err)
{
    fxi_publisher *p = &job->srv->publisher;
    if (!take_subscriber_place(p))
        return fxi_http_fail(err, 503, "overloaded", NULL, "%d clients are subscribed already",
                             FXI_MAX_SUBSCRIBER);
    job->subscriber = (fxi_subscriber){.job = job, .is_poll = is_poll};
    fx_snapshot_subscribe(job->eng);
    if (!fxi_http_job_watch(job, !is_poll, look_at_subscriber, leave_publisher)) {
        leave_publisher(job); // the client has hung up already
        return true;
    }
    if (!is_poll) {
        fxi_buf hello = {0};
        const bool ok = fxi_buf_str(&hello, "retry: 2000\n\n");
        (void)fxi_http_job_add(job, ok, &hello);
        fxi_buf_free(&hello);
    }
    list_subscriber(job->srv, &job->subscriber);
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
