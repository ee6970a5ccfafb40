// job.c - one HTTP request: received by its I/O thread, submitted by a worker, advanced by the
// engine's thread, ended by any of them, by the watcher, or by the server's stop.
//
//   BODY --fxi_http_job_post--> WAIT --fxi_http_send_reply--> REPLY --completed--> freed once the
//   worker and the engine have dropped their references too
//
// While there is nothing to send, the connection is suspended. Whoever adds to the reply or ends it
// resumes the connection under job.mu, or lists the job for http_send.c, which sends what a step
// has brought past MHD; `suspended` says whether there is a connection to resume.
#include "server/http/http.h"

#include <linux/sockios.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/ioctl.h>

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
    fxi_bill_open(&job->bill, srv->ledger);
    if (srv->eng) fxi_ledger_note(srv->ledger, FXI_BYTES_GRAMMAR, fx_grammar_memory(srv->eng));
    job->srv = srv;
    job->eng = srv->eng;
    job->metrics = fxi_metrics_ref(srv->metrics);
    job->tenant = fxi_tenant_anonymous();
    job->conn = conn;
    job->started_s = fxi_now_s();
    return job;
}

void fxi_http_job_unref(fxi_http_job *job)
{
    if (atomic_fetch_sub(&job->refs, 1) > 1) return;
    fxi_reply_free(&job->reply);
    fxi_tenant_release(job->tenant);
    fxi_metrics_unref(job->metrics);
    fxi_buf_free(&job->answer);
    fxi_body_free(&job->body, &job->bill);
    free(job->part);
    free(job->span);
    fxi_bill_close(&job->bill);
    pthread_mutex_destroy(&job->mu);
    free(job);
}

// ---- bytes ------------------------------------------------------------------------------------

// Bills the reply's text as it is now. False: the ledger is beyond its limit.
static bool bill_text_locked(fxi_http_job *job)
{
    size_t was = job->text_bytes, now = job->reply.out.cap + job->reply.kept_bytes;
    job->text_bytes = now;
    if (now > was) return fxi_bill_force(&job->bill, FXI_BYTES_ANSWER, now - was);
    fxi_bill_give(&job->bill, FXI_BYTES_ANSWER, was - now);
    return true;
}

size_t fxi_http_job_take(fxi_http_job *job, char *dst, size_t max)
{
    size_t n = fxi_reply_take(&job->reply, dst, max);
    bill_text_locked(job);
    return n;
}

// ---- waking and ending ------------------------------------------------------------------------

void fxi_http_job_resume(fxi_http_job *job)
{
    if (!job->suspended) return;
    job->suspended = false;
    MHD_resume_connection(job->conn);
}

static void wake_locked(fxi_http_job *job)
{
    job->last_out_s = fxi_now_s();
    fxi_http_job_resume(job);
}

// A step brings a token to each stream. They send together when it is over, or later. While a
// connection is suspended, the server is there.
static void wake_after_step_locked(fxi_http_job *job)
{
    const bool soon = job->reply.ended || !job->n_out;
    job->last_out_s = fxi_now_s();
    if (!job->suspended) return;
    atomic_fetch_add(&job->refs, 1);
    if (fxi_wakes_add(&job->srv->wakes, &job->wake, soon ? FXI_WAKE_SOON : FXI_WAKE_HELD,
                      job->last_out_s))
        return;
    atomic_fetch_sub(&job->refs, 1); // the list has one
    if (soon) fxi_http_job_resume(job);
}

// The id of part i. False: there is no such part.
static bool part_id(fxi_http_job *job, int i, bool *live, uint64_t *id)
{
    pthread_mutex_lock(&job->mu);
    bool found = i < job->n_part;
    *live = found && job->part[i].submitted && !job->part[i].over;
    if (*live) *id = job->part[i].id;
    pthread_mutex_unlock(&job->mu);
    return found;
}

// Copies the ids out one by one: the engine must not be called with the lock held.
static void cancel_parts(fxi_http_job *job)
{
    bool live;
    uint64_t id;
    for (int i = 0; part_id(job, i, &live, &id); i++)
        if (live) fx_cancel(job->eng, id);
}

bool fxi_http_job_is_over(fxi_http_job *job)
{
    pthread_mutex_lock(&job->mu);
    bool over = job->reply.ended;
    pthread_mutex_unlock(&job->mu);
    return over;
}

void fxi_http_job_answer(fxi_http_job *job, fxi_buf *body)
{
    pthread_mutex_lock(&job->mu);
    if (!job->reply.ended) {
        fxi_bill_force(&job->bill, FXI_BYTES_ANSWER, body->cap);
        job->answer = *body;
        *body = (fxi_buf){0};
        job->reply.ended = true;
        wake_locked(job);
    }
    pthread_mutex_unlock(&job->mu);
    fxi_buf_free(body);
}

// Where the ledger is beyond its limit, an answer that holds more than a little is the one to go.
static void add_event_locked(fxi_job_part *part, const fx_event *ev)
{
    fxi_http_job *job = part->job;
    fxi_http_error e;
    fxi_reply_event(&job->reply, part->index, ev);
    fxi_account_event(part, ev);
    part->over = ev->last;
    if (ev->last) fxi_bill_give(&job->bill, FXI_BYTES_QUEUE, part->n_bytes);
    if (bill_text_locked(job) || job->text_bytes <= FXI_SMALL_BILL_BYTES) return;
    fxi_http_fail(&e, 503, "overloaded", NULL, "answers that wait take all the memory there is");
    fxi_reply_fail(&job->reply, &e);
}

// ---- large answers ----------------------------------------------------------------------------

static void finish_render(fxi_http_job *job, bool ok, fxi_buf *b)
{
    pthread_mutex_lock(&job->mu);
    if (job->rendering) {
        if (b->cap > job->body_bytes)
            fxi_bill_force(&job->bill, FXI_BYTES_ANSWER, b->cap - job->body_bytes);
        if (!ok) fxi_http_fail_memory(&job->reply.err);
        if (ok) job->answer = *b, *b = (fxi_buf){0};
        job->rendering = false;
        wake_locked(job);
    }
    pthread_mutex_unlock(&job->mu);
}

// On a worker. Nobody changes a reply that has ended, except for its error.
static void run_render(fxi_work *w)
{
    fxi_http_job *job = (fxi_http_job *)((char *)w - offsetof(fxi_http_job, render));
    fxi_buf b = {0};
    const bool ok =
        fxi_buf_reserve(&b, fxi_whole_bytes(&job->reply)) && fxi_whole_body(&b, &job->reply);
    finish_render(job, ok, &b);
    fxi_buf_free(&b);
    fxi_http_job_unref(job);
}

// A large answer is billed before it is made, and made by a worker. False: it is small, it streams,
// or it has become an error. The connection is still there, and so is the server.
static bool post_render_locked(fxi_http_job *job)
{
    fxi_reply *r = &job->reply;
    if (r->spec.stream || !r->ended || r->err.status) return false;
    const size_t n = fxi_buf_cap_for(fxi_whole_bytes(r));
    if (n <= FXI_SMALL_BILL_BYTES) return false;
    if (!fxi_bytes_granted(&r->err, fxi_bill_take(&job->bill, FXI_BYTES_ANSWER, n))) return false;
    job->body_bytes = n;
    job->rendering = true;
    job->render = (fxi_work){.run = run_render, .lane = job->client, .large = true};
    atomic_fetch_add(&job->refs, 1);
    fxi_workers_post(job->srv->workers, &job->render);
    return true;
}

// ---- from the engine --------------------------------------------------------------------------

void fxi_http_job_on_event(void *ud, const fx_event *ev)
{
    fxi_job_part *part = ud;
    fxi_http_job *job = part->job;
    pthread_mutex_lock(&job->mu);
    bool was_ended = job->reply.ended;
    add_event_locked(part, ev);
    const bool is_full = fxi_reply_is_full(&job->reply, part->index, ev);
    bool failed = !was_ended && job->reply.err.status;
    const bool has_news = !was_ended && fxi_reply_has_news(&job->reply);
    if (has_news && !post_render_locked(job)) wake_after_step_locked(job);
    pthread_mutex_unlock(&job->mu);
    if (failed) cancel_parts(job);
    if (is_full) fx_stop_choice(job->eng, ev->request_id, ev->choice);
    if (ev->last) fxi_http_job_unref(job);
}

void fxi_http_job_drop_work(fxi_http_job *job)
{
    if (!fxi_workers_drop(job->srv->workers, &job->work)) return;
    fxi_body_free(&job->body, &job->bill);
    fxi_http_job_unref(job);
}

static void drop_render(fxi_http_job *job)
{
    if (fxi_workers_drop(job->srv->workers, &job->render)) fxi_http_job_unref(job);
}

static bool is_open_locked(const fxi_http_job *job)
{
    return !job->reply.ended || job->rendering;
}

void fxi_http_job_end(fxi_http_job *job, const fxi_http_error *e)
{
    pthread_mutex_lock(&job->mu);
    const bool was_open = is_open_locked(job);
    if (job->rendering) job->reply.err = *e;
    job->rendering = false;
    fxi_reply_fail(&job->reply, e);
    bill_text_locked(job);
    if (was_open) wake_locked(job);
    pthread_mutex_unlock(&job->mu);
    if (was_open) cancel_parts(job);
    fxi_http_job_drop_work(job);
    drop_render(job);
}

void fxi_http_job_cut(fxi_http_job *job)
{
    pthread_mutex_lock(&job->mu);
    job->broken = job->chunk_bytes > 0;
    if (job->broken) fxi_http_job_resume(job);
    pthread_mutex_unlock(&job->mu);
}

void fxi_http_job_hangup(fxi_http_job *job)
{
    fxi_http_error e;
    fxi_http_fail(&e, 499, NULL, NULL, "the client has gone");
    pthread_mutex_lock(&job->mu);
    job->gone = is_open_locked(job);
    pthread_mutex_unlock(&job->mu);
    fxi_http_job_end(job, &e);
}

// ---- streams without requests ------------------------------------------------------------------

bool fxi_http_job_watch(fxi_http_job *job, bool is_stream,
                        double (*look)(fxi_http_job *job, double now_s),
                        void (*leave)(fxi_http_job *job))
{
    pthread_mutex_lock(&job->mu);
    const bool is_here = job->conn != NULL;
    if (is_here) {
        job->look = look;
        job->leave = leave;
        job->reply.spec.stream = is_stream;
        job->reply.begun = is_stream;
    }
    pthread_mutex_unlock(&job->mu);
    return is_here;
}

bool fxi_http_job_add(fxi_http_job *job, bool ok, const fxi_buf *text)
{
    fxi_http_error e;
    pthread_mutex_lock(&job->mu);
    const bool is_open = !job->reply.ended;
    ok = is_open && ok && fxi_buf_add(&job->reply.out, text->p, text->n) && bill_text_locked(job);
    if (is_open && !ok) {
        (void)fxi_http_fail_memory(&e);
        fxi_reply_fail(&job->reply, &e);
    }
    pthread_mutex_unlock(&job->mu);
    return ok;
}

uint64_t fxi_http_job_queued_bytes(const fxi_http_job *job)
{
    int n = 0;
    return ioctl(job->fd, SIOCOUTQ, &n) || n < 0 ? 0 : (uint64_t)n;
}

bool fxi_http_job_waits(fxi_http_job *job)
{
    pthread_mutex_lock(&job->mu);
    const bool waits =
        job->suspended && !fxi_reply_has_news(&job->reply) && !fxi_http_job_queued_bytes(job);
    pthread_mutex_unlock(&job->mu);
    return waits;
}

double fxi_http_job_look(fxi_http_job *job, double now_s)
{
    pthread_mutex_lock(&job->mu);
    double (*look)(fxi_http_job *, double) = job->look;
    pthread_mutex_unlock(&job->mu);
    return look ? look(job, now_s) : INFINITY;
}

void fxi_http_job_complete(fxi_http_job *job)
{
    pthread_mutex_lock(&job->mu);
    job->conn = NULL;
    void (*leave)(fxi_http_job *) = job->leave;
    pthread_mutex_unlock(&job->mu);
    if (leave) leave(job);
}

static bool is_watching(fxi_http_job *job)
{
    pthread_mutex_lock(&job->mu);
    const bool watches = job->look != NULL;
    pthread_mutex_unlock(&job->mu);
    return watches;
}

void fxi_http_end_watching_locked(fxi_server *srv)
{
    fxi_http_error e;
    fxi_http_fail(&e, 503, "draining", NULL, "the server is shutting down");
    for (fxi_http_job *j = srv->jobs; j; j = j->next)
        if (is_watching(j)) fxi_http_job_end(j, &e);
}

// ---- readers ----------------------------------------------------------------------------------

void fxi_http_job_sent(fxi_http_job *job, size_t n)
{
    const double now_s = fxi_now_s();
    if (!n || !job->unread_s) job->unread_s = n ? now_s : 0;
    if (n) job->last_out_s = now_s;
    job->n_out += n;
}

double fxi_http_job_unread(fxi_http_job *job, uint64_t *n_out)
{
    pthread_mutex_lock(&job->mu);
    const double since_s = job->unread_s;
    *n_out = job->n_out;
    pthread_mutex_unlock(&job->mu);
    return since_s;
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
        bill_text_locked(job);
        wake_locked(job);
    }
    double due_s = streams ? job->last_out_s + ping_s : INFINITY;
    pthread_mutex_unlock(&job->mu);
    return due_s;
}
