// round.c - on a worker: the newest picture to those who are owed one and have taken everything
// before. A text is made once for all who have been sent the same picture.
//
// The engine is told what the round took, and takes its next picture so much later. So however many
// there are who watch, showing them the engine takes a bounded share of the time. Whole pictures
// are told of separately, and made only when the engine says that they may be.
#include "server/viewer/round.h"

#include "base/system/clock.h" // defines: fxi_thread_cpu_ns
#include "server/picture/picture_json.h"

#include <stddef.h>

#define MAX_BYTES_PER_S (2u << 20) // to each viewer
#define WAKE_NS         30000      // what the I/O thread takes to send something, about,
#define WAKE_BYTE_NS    0.5        // and for each byte of it,
#define TLS_BYTE_NS     2          // encrypted

typedef struct reader {
    fxi_http_job *job;      // a reference, as
    const fx_picture *seen; // this is; NULL: it has none yet
    bool is_done;           // it has been sent the round's picture, or there is nothing to send
    bool has_new;           // it has been sent it
} reader;

typedef struct round_state {
    fxi_server *srv;
    const fx_picture *now;
    reader r[FXI_MAX_VIEWER];
    int n;
    bool may_open; // whole pictures may be made
    fxi_viewers_counts count;
    size_t longest_bytes; // of its changes
    uint64_t whole_ns;    // of count.ns: what whole pictures took
} round_state;

// ---- who takes part ----------------------------------------------------------------------------

// Who has no picture yet has nothing to catch up with.
static void add_reader_locked(round_state *r, fxi_viewer *v)
{
    if (!v->is_owed || !(v->seen ? fxi_http_job_waits(v->job) : r->may_open)) return;
    v->is_owed = false;
    atomic_fetch_add(&v->job->refs, 1);
    fx_picture_ref(v->seen);
    r->r[r->n++] = (reader){.job = v->job, .seen = v->seen};
}

static void begin_round(round_state *r)
{
    fxi_viewers *vs = &r->srv->viewers;
    r->may_open = !fx_picture_whole_wait_us(r->srv->eng);
    pthread_mutex_lock(&vs->mu);
    for (fxi_viewer *v = vs->first; v; v = v->next) add_reader_locked(r, v);
    pthread_mutex_unlock(&vs->mu);
    if (r->n) r->now = fx_picture_get(r->srv->eng, 0);
}

// ---- texts -------------------------------------------------------------------------------------

// A server-sent event. seen NULL: the whole picture.
static bool add_news(fxi_buf *b, const fx_picture *seen, const fx_picture *now)
{
    bool ok = fxi_buf_fmt(b, "event: %s\ndata: ", seen ? "change" : "picture");
    ok = ok && (seen ? fxi_picture_change(b, seen, now) : fxi_picture_whole(b, now));
    return ok && fxi_buf_str(b, "\n\n");
}

static void send_text(round_state *r, reader *to, bool ok, const fxi_buf *text)
{
    to->is_done = true;
    to->has_new = fxi_http_job_add(to->job, ok, text);
    const double byte_ns = r->srv->opt.tls_cert ? TLS_BYTE_NS : WAKE_BYTE_NS;
    r->count.ns += WAKE_NS + (uint64_t)((double)text->n * byte_ns);
    r->count.n_sent += to->has_new;
    r->count.n_bytes += to->has_new ? text->n : 0;
}

// To all that have the picture which the i-th has.
static void send_to_alike(round_state *r, int i)
{
    fxi_buf text = {0};
    const fx_picture *seen = r->r[i].seen;
    const uint64_t start_ns = fxi_thread_cpu_ns() + r->count.ns;
    const bool ok = add_news(&text, seen, r->now);
    r->count.n_made++;
    for (; i < r->n; i++)
        if (!r->r[i].is_done && r->r[i].seen == seen) send_text(r, &r->r[i], ok, &text);
    if (!seen) r->whole_ns += fxi_thread_cpu_ns() + r->count.ns - start_ns;
    if (seen && text.n > r->longest_bytes) r->longest_bytes = text.n;
    fxi_buf_free(&text);
}

static void send_round(round_state *r)
{
    for (int i = 0; r->now && i < r->n; i++)
        if (r->r[i].seen == r->now) r->r[i].is_done = true;
    for (int i = 0; r->now && i < r->n; i++)
        if (!r->r[i].is_done) send_to_alike(r, i);
}

// ---- afterwards --------------------------------------------------------------------------------

// The reader's reference goes to the viewer, unless that has left.
static void keep_picture_locked(const round_state *r, reader *of)
{
    fxi_viewer *v = &of->job->viewer;
    if (!of->has_new || !v->is_listed) return;
    fx_picture_unref(v->seen);
    v->seen = r->now;
    fx_picture_ref(r->now);
}

// Has the I/O thread look when those can be given what they are owed.
static void post_owed_locked(const fxi_viewers *vs)
{
    for (const fxi_viewer *v = vs->first; v; v = v->next)
        if (v->is_owed) fxi_http_job_wake(v->job);
}

static void count_round_locked(fxi_viewers_counts *sum, const fxi_viewers_counts *more)
{
    sum->n_made += more->n_made;
    sum->n_sent += more->n_sent;
    sum->n_bytes += more->n_bytes;
    sum->ns += more->ns;
}

static void end_round(round_state *r)
{
    fxi_viewers *vs = &r->srv->viewers;
    pthread_mutex_lock(&vs->mu);
    for (int i = 0; i < r->n; i++) keep_picture_locked(r, &r->r[i]);
    count_round_locked(&vs->count, &r->count);
    vs->is_busy = false;
    post_owed_locked(vs);
    pthread_mutex_unlock(&vs->mu);
    for (int i = 0; i < r->n; i++) {
        fx_picture_unref(r->r[i].seen);
        fxi_http_job_unref(r->r[i].job);
    }
    fx_picture_unref(r->now);
}

// Bytes of changes count as if they were time, so that no viewer gets more of them than it may.
static void charge_round(const round_state *r)
{
    const double bytes_us = 1e6 * (double)r->longest_bytes / MAX_BYTES_PER_S / FX_PICTURE_SHARE;
    const uint64_t change_us = (r->count.ns - r->whole_ns) / 1000;
    if (r->n) fx_picture_charge(r->srv->eng, change_us + (uint64_t)bytes_us);
    if (r->whole_ns) fx_picture_charge_whole(r->srv->eng, r->whole_ns / 1000);
}

static void run_round(fxi_work *w)
{
    round_state r = {.srv = (fxi_server *)((char *)w - offsetof(fxi_server, viewers.work))};
    const uint64_t start_ns = fxi_thread_cpu_ns();
    begin_round(&r);
    send_round(&r);
    r.count.ns += fxi_thread_cpu_ns() - start_ns;
    charge_round(&r);
    end_round(&r);
}

// All rounds are work of one client, 0, which no request has.
void fxi_round_post_locked(fxi_server *srv)
{
    fxi_viewers *vs = &srv->viewers;
    if (vs->is_busy) return;
    vs->is_busy = true;
    vs->work = (fxi_work){.run = run_round, .large = true};
    fxi_workers_post(srv->workers, &vs->work);
}
