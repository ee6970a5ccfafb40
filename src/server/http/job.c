// job.c - one HTTP request: received by the I/O thread, submitted by a worker, advanced by the
// engine's thread, ended by any of them or by the server's stop, and freed once all of them have
// dropped their references.
//
// Whoever adds to the reply or ends it posts the job to the loop, which sends it.
#include "server/http/http.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json/json.h"
#include "base/system/clock.h" // defines: fxi_now_s

#define IDLE_S 1

// ---- life -------------------------------------------------------------------------------------

fxi_http_job *fxi_http_job_new(fxi_server *srv, fxi_conn *conn)
{
    fxi_http_job *job = calloc(1, sizeof *job);
    if (!job) return NULL;
    if (pthread_mutex_init(&job->mu, NULL)) {
        free(job);
        return NULL;
    }
    atomic_init(&job->refs, 1);
    fxi_charge_open(&job->charge, srv->quota);
    if (srv->eng) fxi_quota_note(srv->quota, FXI_BYTES_GRAMMAR, fx_grammar_memory(srv->eng));
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
    fxi_body_free(&job->body, &job->charge);
    free(job->part);
    free(job->span);
    fxi_charge_close(&job->charge);
    pthread_mutex_destroy(&job->mu);
    free(job);
}

// ---- bytes ------------------------------------------------------------------------------------

// Charges the reply's text as it is now. False: the quota is beyond its limit.
static bool charge_text_locked(fxi_http_job *job)
{
    size_t was = job->text_bytes, now = job->reply.out.cap + job->reply.kept_bytes;
    job->text_bytes = now;
    if (now > was) return fxi_charge_add(&job->charge, FXI_BYTES_ANSWER, now - was);
    fxi_charge_release(&job->charge, FXI_BYTES_ANSWER, was - now);
    return true;
}

size_t fxi_http_job_take(fxi_http_job *job, char *dst, size_t max)
{
    size_t n = fxi_reply_take(&job->reply, dst, max);
    charge_text_locked(job);
    return n;
}

// ---- posting ----------------------------------------------------------------------------------

void fxi_loop_wake_locked(fxi_loop *l)
{
    const uint64_t one = 1;
    if (l->is_woken || l->wake_fd < 0) return;
    l->is_woken = true;
    const ssize_t n = write(l->wake_fd, &one, sizeof one);
    (void)n; // fails only if the count is full, and then the thread wakes too
}

// Has the loop look at the job's connection: now, or once fxi_loop_wake is called. Any thread,
// under any lock.
static void post_http_job(fxi_loop *l, fxi_http_job *job, bool now)
{
    pthread_mutex_lock(&l->mu);
    if (!job->is_posted) {
        job->is_posted = true;
        job->next_ready = NULL;
        atomic_fetch_add(&job->refs, 1);
        *l->last_ready = job;
        l->last_ready = &job->next_ready;
    }
    if (now) fxi_loop_wake_locked(l);
    pthread_mutex_unlock(&l->mu);
}

void fxi_loop_wake(fxi_loop *l)
{
    pthread_mutex_lock(&l->mu);
    if (l->first_ready) fxi_loop_wake_locked(l);
    pthread_mutex_unlock(&l->mu);
}

fxi_http_job *fxi_loop_pop(fxi_loop *l)
{
    pthread_mutex_lock(&l->mu);
    fxi_http_job *job = l->first_ready;
    if (job) {
        l->first_ready = job->next_ready;
        if (!l->first_ready) l->last_ready = &l->first_ready;
        job->is_posted = false;
    }
    pthread_mutex_unlock(&l->mu);
    return job;
}

void fxi_http_job_wake(fxi_http_job *job)
{
    post_http_job(&job->srv->loop, job, true);
}

// ---- ending -----------------------------------------------------------------------------------

// The engine must not be called with the lock held.
static void cancel_parts(fxi_http_job *job)
{
    pthread_mutex_lock(&job->mu);
    for (int i = 0; i < job->n_part; i++) {
        const fxi_job_part p = job->part[i];
        pthread_mutex_unlock(&job->mu);
        if (p.submitted && !p.over) fx_cancel(job->eng, p.id);
        pthread_mutex_lock(&job->mu);
    }
    pthread_mutex_unlock(&job->mu);
}

bool fxi_http_job_end(fxi_http_job *job, const fxi_http_error *e)
{
    pthread_mutex_lock(&job->mu);
    const bool was_open = !job->reply.ended || job->rendering;
    if (job->rendering) job->reply.err = *e;
    job->rendering = false;
    fxi_reply_fail(&job->reply, e);
    charge_text_locked(job);
    if (was_open) fxi_http_job_wake(job);
    pthread_mutex_unlock(&job->mu);
    if (was_open) cancel_parts(job);
    fxi_http_job_drop_work(job);
    if (fxi_workers_drop(job->srv->workers, &job->render)) fxi_http_job_unref(job);
    return was_open;
}

bool fxi_http_job_hang_up(fxi_http_job *job)
{
    fxi_http_error e;
    fxi_http_fail(&e, 499, NULL, NULL, "the client has gone");
    return fxi_http_job_end(job, &e);
}

void fxi_http_job_drop_work(fxi_http_job *job)
{
    if (!fxi_workers_drop(job->srv->workers, &job->work)) return;
    fxi_body_free(&job->body, &job->charge);
    fxi_http_job_unref(job);
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
        fxi_charge_add(&job->charge, FXI_BYTES_ANSWER, body->cap);
        job->answer = *body;
        *body = (fxi_buf){0};
        job->reply.ended = true;
        fxi_http_job_wake(job);
    }
    pthread_mutex_unlock(&job->mu);
    fxi_buf_free(body);
}

// ---- large answers ----------------------------------------------------------------------------

// On a worker. Nobody changes a reply that has ended, except for its error.
static void run_render(fxi_work *w)
{
    fxi_http_job *job = (fxi_http_job *)((char *)w - offsetof(fxi_http_job, render));
    fxi_buf b = {0};
    const bool ok =
        fxi_buf_reserve(&b, fxi_whole_bytes(&job->reply)) && fxi_whole_body(&b, &job->reply);
    pthread_mutex_lock(&job->mu);
    if (job->rendering) {
        if (b.cap > job->body_bytes)
            fxi_charge_add(&job->charge, FXI_BYTES_ANSWER, b.cap - job->body_bytes);
        if (!ok) fxi_http_fail_memory(&job->reply.err);
        if (ok) job->answer = b, b = (fxi_buf){0};
        job->rendering = false;
        fxi_http_job_wake(job);
    }
    pthread_mutex_unlock(&job->mu);
    fxi_buf_free(&b);
    fxi_http_job_unref(job);
}

// A large answer is charged before it is made, and made by a worker. False: it is small, streams,
// or has become an error. The connection is still there, and so is the server.
static bool post_render_locked(fxi_http_job *job)
{
    fxi_reply *r = &job->reply;
    if (r->spec.stream || !r->ended || r->err.status) return false;
    const size_t n = fxi_buf_cap_for(fxi_whole_bytes(r));
    if (n <= FXI_SMALL_CHARGE_BYTES) return false;
    if (!fxi_bytes_granted(&r->err, fxi_charge_reserve(&job->charge, FXI_BYTES_ANSWER, n)))
        return false;
    job->body_bytes = n;
    job->rendering = true;
    job->render = (fxi_work){.run = run_render, .client = job->client, .large = true};
    atomic_fetch_add(&job->refs, 1);
    fxi_workers_post(job->srv->workers, &job->render);
    return true;
}

// ---- from the engine --------------------------------------------------------------------------

void fxi_http_job_on_event(void *ud, const fx_event *ev)
{
    fxi_job_part *part = ud;
    fxi_http_job *job = part->job;
    fxi_reply *r = &job->reply;
    fxi_http_error e;
    pthread_mutex_lock(&job->mu);
    const bool was_ended = r->ended;
    fxi_reply_event(r, part->index, ev);
    fxi_account_event(part, ev);
    part->over = ev->last;
    if (ev->last) fxi_charge_release(&job->charge, FXI_BYTES_QUEUE, part->n_bytes);
    // Beyond the limit an answer that holds more than a little is the one to end.
    if (!charge_text_locked(job) && job->text_bytes > FXI_SMALL_CHARGE_BYTES) {
        fxi_http_fail(&e, 503, "overloaded", NULL, "waiting answers take all the memory there is");
        fxi_reply_fail(r, &e);
    }
    const bool is_full = fxi_reply_is_full(r, part->index, ev);
    const bool failed = !was_ended && r->err.status;
    if (!was_ended && fxi_reply_has_news(r) && !post_render_locked(job))
        post_http_job(&job->srv->loop, job, false);
    pthread_mutex_unlock(&job->mu);
    if (failed) cancel_parts(job);
    if (is_full) fx_stop_choice(job->eng, ev->request_id, ev->choice);
    if (ev->last) fxi_http_job_unref(job);
}

void fxi_http_job_ping(fxi_http_job *job)
{
    pthread_mutex_lock(&job->mu);
    if (job->reply.spec.stream && !fxi_reply_has_news(&job->reply)) {
        fxi_reply_ping(&job->reply);
        charge_text_locked(job);
    }
    pthread_mutex_unlock(&job->mu);
}

// ---- the list of jobs -------------------------------------------------------------------------

bool fxi_jobs_add(fxi_http_job *job)
{
    fxi_server *srv = job->srv;
    pthread_mutex_lock(&srv->mu);
    const bool ok = !srv->closing;
    if (ok) {
        job->is_listed = true;
        job->next = srv->jobs;
        if (job->next) job->next->prev = job;
        srv->jobs = job;
    }
    pthread_mutex_unlock(&srv->mu);
    return ok;
}

void fxi_jobs_remove(fxi_http_job *job)
{
    fxi_server *srv = job->srv;
    pthread_mutex_lock(&srv->mu);
    const bool was_listed = job->is_listed;
    if (was_listed) {
        job->is_listed = false;
        if (job->next) job->next->prev = job->prev;
        *(job->prev ? &job->prev->next : &srv->jobs) = job->next;
    }
    const bool is_empty = was_listed && !srv->jobs;
    if (is_empty) pthread_cond_signal(&srv->empty);
    pthread_mutex_unlock(&srv->mu);
    if (is_empty) srv->loop.trim_s = fxi_now_s() + IDLE_S; // memory goes back if no job comes
}

int fxi_jobs_abort(const fxi_http_job *but, const char *id)
{
    fxi_server *srv = but->srv;
    int n = 0;
    fxi_http_error e;
    fxi_http_fail(&e, 410, "aborted", NULL, "the request was ended by an operator");
    pthread_mutex_lock(&srv->mu);
    for (fxi_http_job *j = srv->jobs; j; j = j->next) {
        pthread_mutex_lock(&j->mu);
        const bool is_meant =
            j != but && !j->reply.ended && (!strcmp(j->reply.id, id) || !strcmp(j->request_id, id));
        pthread_mutex_unlock(&j->mu);
        if (is_meant) n += fxi_http_job_end(j, &e);
    }
    pthread_mutex_unlock(&srv->mu);
    return n;
}

void fxi_jobs_end_locked(fxi_server *srv, bool only_watching)
{
    fxi_http_error e;
    (void)fxi_http_fail_draining(&e);
    for (fxi_http_job *j = srv->jobs; j; j = j->next)
        if (!only_watching || j->watches) (void)fxi_http_job_end(j, &e);
}

bool fxi_jobs_list(fxi_server *srv, fxi_buf *b)
{
    const double now_s = fxi_now_s();
    bool ok = true;
    pthread_mutex_lock(&srv->mu);
    for (fxi_http_job *j = srv->jobs; ok && j; j = j->next) {
        pthread_mutex_lock(&j->mu);
        const fxi_usage use = fxi_usage_of(&j->reply);
        const char *state = j->reply.ended     ? "sending"
                            : j->watches       ? "watching"
                            : !j->n_part       ? "reading"
                            : !use.n_prompt    ? "queued"
                            : !use.n_generated ? "prefill"
                                               : "decode";
        ok = fxi_json_fmt(b, "%s{'id':%q,'request_id':%q", j == srv->jobs ? "" : ",", j->reply.id,
                          j->request_id) &&
             fxi_buf_fmt(b,
                         ",\"path\":\"%s\",\"tenant\":\"%s\",\"state\":\"%s\",\"age_s\":%.3f,"
                         "\"choices\":%d,\"prompt_tokens\":%d,\"completion_tokens\":%d}",
                         j->route->path, j->tenant->id, state, now_s - j->started_s,
                         j->reply.n_left, use.n_prompt, use.n_generated);
        pthread_mutex_unlock(&j->mu);
    }
    pthread_mutex_unlock(&srv->mu);
    return ok;
}
