// job.c - one HTTP request's way: submitted by its I/O thread, moved on by the engine's, ended by
// either, by the watcher, or by the server's stop.
//
//   BODY --fxi_job_submit--> WAIT --fxi_http_wait--> REPLY --completed--> freed when the engine has
//   let go as well
//
// While nothing can be sent the connection is suspended. Whoever adds to the answer, or ends it,
// resumes it, under job.mu: `suspended` says whether there is a connection to resume.
#include "server/server_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h" // defines: fxi_now_s
#include "base/error.h" // defines: fxi_fail

// ---- life -------------------------------------------------------------------------------------

fxi_job *fxi_job_new(fxi_server *srv, struct MHD_Connection *conn)
{
    fxi_job *job = calloc(1, sizeof *job);
    if (!job) return NULL;
    if (pthread_mutex_init(&job->mu, NULL)) {
        free(job);
        return NULL;
    }
    atomic_init(&job->refs, 1);
    job->srv = srv;
    job->eng = srv->eng;
    job->conn = conn;
    job->started_s = fxi_now_s();
    return job;
}

void fxi_job_unref(fxi_job *job)
{
    if (atomic_fetch_sub(&job->refs, 1) > 1) return;
    fxi_answer_free(&job->ans);
    fxi_buf_free(&job->body);
    free(job->part);
    pthread_mutex_destroy(&job->mu);
    free(job);
}

// ---- waking and ending ------------------------------------------------------------------------

static void wake_locked(fxi_job *job)
{
    job->last_out_s = fxi_now_s();
    if (!job->suspended) return;
    job->suspended = false;
    MHD_resume_connection(job->conn);
}

// The ids are copied out one by one: the engine must not be called with the lock held.
static void cancel_parts(fxi_job *job)
{
    for (int i = 0; i < job->n_part; i++) {
        pthread_mutex_lock(&job->mu);
        bool live = job->part[i].submitted && !job->part[i].over;
        uint64_t id = job->part[i].id;
        pthread_mutex_unlock(&job->mu);
        if (live) fx_cancel(job->eng, id);
    }
}

static bool has_news(const fxi_answer *a)
{
    return a->ended || a->out.n > a->n_sent;
}

void fxi_job_on_event(void *ud, const fx_event *ev)
{
    fxi_part *part = ud;
    fxi_job *job = part->job;
    pthread_mutex_lock(&job->mu);
    bool was_ended = job->ans.ended;
    fxi_answer_event(&job->ans, part->index, ev);
    part->over = ev->last;
    bool failed = !was_ended && job->ans.err.status;
    if (!was_ended && has_news(&job->ans)) wake_locked(job);
    pthread_mutex_unlock(&job->mu);
    if (failed) cancel_parts(job);
    if (ev->last) fxi_job_unref(job);
}

void fxi_job_end(fxi_job *job, const fxi_http_error *e)
{
    pthread_mutex_lock(&job->mu);
    bool was_ended = job->ans.ended;
    fxi_answer_fail(&job->ans, e);
    if (!was_ended) wake_locked(job);
    pthread_mutex_unlock(&job->mu);
    if (!was_ended) cancel_parts(job);
}

void fxi_job_hangup(fxi_job *job)
{
    fxi_http_error e;
    fxi_http_fail(&e, 499, NULL, NULL, "the client has gone");
    pthread_mutex_lock(&job->mu);
    job->gone = !job->ans.ended;
    pthread_mutex_unlock(&job->mu);
    fxi_job_end(job, &e);
}

// ---- pings ------------------------------------------------------------------------------------

double fxi_job_ping(fxi_job *job, double now_s, double ping_s)
{
    pthread_mutex_lock(&job->mu);
    bool streams = job->ans.stream && !job->ans.ended;
    if (has_news(&job->ans)) job->last_out_s = now_s; // silent from now on, at the earliest
    if (streams && job->last_out_s + ping_s <= now_s) {
        fxi_answer_ping(&job->ans);
        wake_locked(job);
    }
    double due_s = streams ? job->last_out_s + ping_s : INFINITY;
    pthread_mutex_unlock(&job->mu);
    return due_s;
}

// ---- submitting -------------------------------------------------------------------------------

static uint64_t random_u64(void)
{
    uint64_t r;
    if (getrandom(&r, sizeof r, 0) == sizeof r) return r;
    return (uint64_t)(fxi_now_s() * 1e9); // before the kernel has entropy: better than a fixed one
}

void fxi_random_id(char *dst, size_t cap, const char *prefix)
{
    snprintf(dst, cap, "%s-%016llx%08x", prefix, (unsigned long long)random_u64(),
             (unsigned)random_u64());
}

static fx_status copy_ids(const fxi_id_list *ids, fx_tokens *tok, fx_error *err)
{
    tok->id = malloc(ids->n * sizeof *tok->id);
    if (!tok->id) return fxi_fail(err, FX_ENOMEM, "out of memory");
    memcpy(tok->id, ids->id, ids->n * sizeof *tok->id);
    tok->n = tok->cap = ids->n;
    return FX_OK;
}

static fx_status encode(fx_engine *eng, const fxi_params *par, int i, fx_tokens *tok, fx_error *err)
{
    if (par->api == FXI_API_CHAT) {
        const fx_chat_request q = fxi_params_chat(par);
        return fx_chat_request_tokenize(eng, &q, tok, err);
    }
    const fxi_prompt *p = &par->prompt[i];
    if (!p->text) return copy_ids(&p->ids, tok, err);
    return fx_tokenize(eng, p->text, p->n_bytes, FX_TOKENIZE_PROMPT, tok, err);
}

// The ids of prompt i; what is given as ids is copied, so that the caller frees them alike.
static fx_status tokenize(fx_engine *eng, const fxi_params *par, int i, fx_tokens *tok,
                          fx_error *err)
{
    FX_TRY(encode(eng, par, i, tok, err));
    return tok->n ? FX_OK : fxi_fail(err, FX_EINVAL, "the prompt has no tokens");
}

// Submits with a reference for the engine, which comes back with the last event, or here if there
// will be none.
static fx_status submit_tokens(fxi_part *part, const fxi_params *par, const fx_tokens *tok,
                               uint64_t *id, fx_error *err)
{
    fx_request req = fxi_params_request(par, random_u64());
    req.prompt = tok->id;
    req.n_prompt = tok->n;
    req.on_event = fxi_job_on_event;
    req.ud = part;
    atomic_fetch_add(&part->job->refs, 1);
    fx_status st = fx_submit(part->job->eng, &req, id, err);
    if (st != FX_OK) fxi_job_unref(part->job);
    return st;
}

// The answer may have ended meanwhile (a hang-up, a stop, an earlier part's error): then this part
// is not wanted.
static void mark_submitted(fxi_part *part, uint64_t id)
{
    pthread_mutex_lock(&part->job->mu);
    part->id = id;
    part->submitted = true;
    bool unwanted = part->job->ans.ended && !part->over;
    pthread_mutex_unlock(&part->job->mu);
    if (unwanted) fx_cancel(part->job->eng, id);
}

static bool submit_part(fxi_part *part, const fxi_params *par, fxi_http_error *err)
{
    static const char *const input[] = {"prompt", "messages"};
    fx_tokens tok = {0};
    fx_error e = {0};
    uint64_t id = 0;
    const char *param = input[par->api];
    fx_status st = tokenize(part->job->eng, par, part->index, &tok, &e);
    if (st == FX_OK) {
        st = submit_tokens(part, par, &tok, &id, &e);
        param = fxi_params_blame(par, st);
    }
    fx_tokens_free(&tok);
    if (st != FX_OK) return fxi_http_fail_fx(err, &e, param);
    mark_submitted(part, id);
    return true;
}

static bool prepare(fxi_job *job, const fxi_params *par)
{
    static const char *const prefixes[] = {"cmpl", "chatcmpl"};
    fxi_answer *a = &job->ans;
    fxi_random_id(a->id, sizeof a->id, prefixes[par->api]);
    a->created = time(NULL);
    a->model = job->srv->model_id;
    a->fingerprint = job->srv->fingerprint;
    job->part = calloc(par->n_prompt, sizeof *job->part);
    if (!job->part || !fxi_answer_init(a, par, job->srv->opt.max_out_bytes)) return false;
    job->n_part = (int)par->n_prompt;
    for (int i = 0; i < job->n_part; i++) job->part[i] = (fxi_part){.job = job, .index = i};
    job->last_out_s = fxi_now_s();
    return true;
}

static bool start(fxi_job *job, const fxi_params *par, fxi_http_error *err)
{
    if (!prepare(job, par)) return fxi_http_fail(err, 500, NULL, NULL, "out of memory");
    if (!fxi_watch_add(job))
        return fxi_http_fail(err, 503, "draining", NULL, "the server is shutting down");
    for (int i = 0; i < job->n_part; i++) {
        if (submit_part(&job->part[i], par, err)) continue;
        fxi_job_end(job, err);
        break;
    }
    return true;
}

bool fxi_job_submit(fxi_job *job, fxi_api api, fxi_http_error *err)
{
    fxi_params par;
    if (!fxi_params_parse(&par, api, job->body.p, job->body.n, &job->srv->lim, err)) return false;
    fxi_buf_free(&job->body);
    bool ok = start(job, &par, err);
    fxi_params_free(&par);
    return ok;
}
