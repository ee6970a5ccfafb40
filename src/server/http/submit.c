// submit.c - a request's way to a worker, and from its body to the engine: parse, tokenize, submit
// one engine request per prompt.
//
// The I/O thread lists the job, so that a hang-up or a stop ends it from now on, and posts its
// work. The worker gives the body back, whatever the outcome: nothing waits for the engine but what
// it was submitted with. The requests of one client wait for each other.
#include "server/http/http.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fail.h"       // defines: fxi_fail
#include "base/keyed/hash.h" // defines: fxi_secret_make

#define STOP_COPIES   5    // bytes that the engine holds for each byte of a stop string
#define REQUEST_BYTES 4096 // that the engine takes for a request, without its lists
#define SEQ_BYTES     1024 // and for each of its sequences
#define VALUE_BYTES   64   // of a JSON value, without its text

#define LARGE_BODY_BYTES (64u << 10) // from here on a body is large work

static uint64_t random_bits(void)
{
    return fxi_secret_make().key[0];
}

void fxi_random_id(char *dst, size_t cap, const char *prefix)
{
    const uint64_t bits = random_bits();
    snprintf(dst, cap, "%s-%016llx%08x", prefix, (unsigned long long)bits, (unsigned)random_bits());
}

// ---- what is granted now ----------------------------------------------------------------------

bool fxi_http_fail_loading(fxi_http_error *err)
{
    return fxi_http_fail(err, 503, "loading", NULL, "the model is loading");
}

bool fxi_permit_work(fxi_server *srv, fxi_http_error *err)
{
    if (!srv->eng) return fxi_http_fail_loading(err);
    return !srv->draining || fxi_http_fail_draining(err);
}

bool fxi_permit_request(fxi_server *srv, fxi_http_error *err)
{
    if (!srv->asleep) return fxi_permit_work(srv, err);
    return fxi_http_fail(err, 503, "sleeping", NULL, "the server is asleep until POST /wake_up");
}

// Whether the tenant's requests may have the priority and the keep_priority of this one. What stays
// longer in the cache pushes out what others have there; an admin's endpoint may do so.
static bool permit_priority(const fxi_http_job *job, const fx_request *req, fxi_http_error *err)
{
    const int max = job->srv->opt.allow_priority ? FX_MAX_PRIORITY : job->tenant->max_priority;
    if (req->priority > max)
        return fxi_http_fail(err, 403, "priority_not_allowed", "priority",
                             "priority must be %d or higher here: lower values go first", -max);
    if (req->keep_priority > max && job->route->access != FXI_ACCESS_ADMIN)
        return fxi_http_fail(err, 403, "priority_not_allowed", "keep_priority",
                             "keep_priority must be %d or less here", max);
    return true;
}

// ---- ids --------------------------------------------------------------------------------------

// What it takes to turn a prompt into ids: the ids, of which there are no more than the context
// holds, in a list that doubles; a few copies of the text while it is rendered and normalized.
static size_t encoding_bytes(const fx_engine *eng, const fxi_params *par, int i)
{
    const fxi_prompt *p = par->prompt ? &par->prompt[i] : NULL;
    if (p && !p->text) return p->ids.n * sizeof *p->ids.id;
    size_t n_bytes =
        p ? p->n_bytes + p->n_second_bytes + fxi_json_string(par->suffix).n : par->n_body_bytes;
    size_t max_tok = 2 * fxi_params_max_prompt(par, eng) + 1; // a longer one is counted so far
    size_t n_tok = max_tok == 1 || n_bytes < max_tok ? n_bytes + 1 : max_tok;
    return FXI_TEXT_COPIES * n_bytes + 3 * n_tok * sizeof(int32_t);
}

// ---- the engine -------------------------------------------------------------------------------

// What the engine copies of a request: for each sequence its state and the prompt's ids, and one
// copy of all lists.
static size_t queued_bytes(const fxi_params *par, size_t n_tok)
{
    size_t n = REQUEST_BYTES + (par->stop_token.n + par->allow.n) * sizeof(int32_t) +
               par->n_bias * sizeof(fx_bias);
    for (size_t i = 0; i < par->n_stop; i++) n += STOP_COPIES * strlen(par->stop[i]);
    for (size_t i = 0; i < par->n_breaker; i++) n += VALUE_BYTES + strlen(par->breaker[i]);
    for (size_t i = 0; i < par->n_ban; i++) n += sizeof *par->ban + par->ban[i].n * sizeof(int32_t);
    return n + (n_tok + 1) * sizeof(int32_t) +
           (size_t)fxi_params_n_seq(par) * (SEQ_BYTES + (n_tok + 1) * sizeof(int32_t));
}

// Submits with a reference and bytes for the engine. The last event gives both back; if the engine
// refuses, this function does.
static bool submit_charged(fxi_job_part *part, const fxi_params *par, const fx_tokens *tok,
                           fxi_http_error *err)
{
    enum { FIRST_PROMPTS = 16 };
    fxi_http_job *job = part->job;
    fxi_buf domain = {0};
    uint64_t id = 0;
    fx_error e = {0};
    part->n_bytes = queued_bytes(par, tok->n);
    const fxi_quota_result taken = fxi_charge_reserve(&job->charge, FXI_BYTES_QUEUE, part->n_bytes);
    if (!fxi_bytes_granted(err, taken)) return false;
    fx_request req = fxi_params_request(par, random_bits());
    fx_thought thought = par->thought;
    fx_status st = FX_OK;
    if (thought.n_close) {
        req.thought = &thought;
        if (!fxi_reasoning_is_open(job->eng, par->formats->reasoning, tok, &thought.opened))
            st = fxi_fail(&e, FX_ENOMEM, "out of memory");
    }
    if (st == FX_OK && !fxi_tenant_domain(&domain, job->tenant, job->scope, par->cache_salt))
        st = fxi_fail(&e, FX_ENOMEM, "out of memory");
    req.tenant = domain.p;
    req.client = job->client;
    // A request of many prompts does not shut others out: each FIRST_PROMPTS of them go after what
    // comes in the next 10 seconds, one unit of priority.
    req.priority -= part->index / FIRST_PROMPTS;
    if (req.priority < -FX_MAX_PRIORITY) req.priority = -FX_MAX_PRIORITY;
    req.prompt = tok->id;
    req.n_prompt = tok->n;
    if (par->prompt) req.n_first = (int)par->prompt[part->index].n_first;
    req.on_event = fxi_http_job_on_event;
    req.ud = part;
    atomic_fetch_add(&job->refs, 1);
    if (st == FX_OK) st = fx_submit(job->eng, &req, &id, &e);
    fxi_buf_free(&domain);
    if (st != FX_OK) {
        fxi_http_job_unref(job);
        fxi_charge_release(&job->charge, FXI_BYTES_QUEUE, part->n_bytes);
        return fxi_http_fail_fx(err, &e, fxi_params_blame(par, &e));
    }
    pthread_mutex_lock(&job->mu);
    part->id = id;
    part->submitted = true;
    // The reply may have ended meanwhile: by a hang-up, a stop, an earlier part's error.
    const bool is_unwanted = job->reply.ended && !part->over;
    pthread_mutex_unlock(&job->mu);
    if (is_unwanted) fx_cancel(job->eng, id);
    return true;
}

// Submits the prompt once the reply knows what it will say of it.
static bool submit_part(fxi_job_part *part, const fxi_params *par, fxi_http_error *err)
{
    const fxi_prompt *p = par->prompt ? &par->prompt[part->index] : NULL;
    fxi_http_job *job = part->job;
    const size_t n_bytes = encoding_bytes(job->eng, par, part->index);
    fx_tokens tok = {0};
    if (!fxi_bytes_granted(err, fxi_charge_reserve(&job->charge, FXI_BYTES_PROMPT, n_bytes)))
        return false;
    bool ok = fxi_params_encode(par, job->eng, (size_t)part->index, &tok, err) &&
              fxi_reply_set_prompt(&job->reply, part->index, &tok, p ? p->text : NULL,
                                   p ? p->n_bytes : 0, err);
    fxi_charge_add(&job->charge, FXI_BYTES_ANSWER,
                   fxi_reply_prompt_bytes(&job->reply, part->index));
    ok = ok && (fxi_http_job_is_over(job) || submit_charged(part, par, &tok, err));
    fx_tokens_free(&tok);
    fxi_charge_release(&job->charge, FXI_BYTES_PROMPT, n_bytes);
    return ok;
}

// ---- the reply --------------------------------------------------------------------------------

// Makes the reply and its parts aside.
static bool make_reply(fxi_http_job *job, const fxi_params *par, fxi_reply *r, fxi_job_part **part)
{
    static const char *const prefixes[FXI_N_API] = {"cmpl", "chatcmpl", "embd",   "keep",
                                                    "resp", "msg",      "rerank", "score"};
    const char *prefix = prefixes[par->api];
    const fxi_reply_spec spec = fxi_params_reply(par);
    if (par->request_id)
        snprintf(r->id, sizeof r->id, "%s-%s", prefix, par->request_id);
    else
        fxi_random_id(r->id, sizeof r->id, prefix);
    if (par->api == FXI_API_RESPONSES || par->api == FXI_API_MESSAGES) r->id[strlen(prefix)] = '_';
    r->created = time(NULL);
    r->eng = job->eng;
    r->model = par->model ? par->model : job->srv->model_id;
    r->fingerprint = job->srv->fingerprint;
    r->seed = random_bits();
    *part = calloc(par->n_prompt, sizeof **part);
    if (!*part || !fxi_reply_init(r, &spec, job->srv->opt.max_out_bytes)) return false;
    for (size_t i = 0; i < par->n_prompt; i++)
        (*part)[i] = (fxi_job_part){.job = job, .index = (int)i};
    return true;
}

// Makes the reply and moves it into the job, unless that has ended meanwhile (*wanted is false).
// False: *err says why.
static bool prepare_reply(fxi_http_job *job, const fxi_params *par, bool *wanted,
                          fxi_http_error *err)
{
    fxi_reply r = {0};
    fxi_job_part *part = NULL;
    // What the reply copies of the request: stop strings and ids, to name the one that ended a
    // choice; tools.
    size_t n_copied = par->stop_token.n * VALUE_BYTES;
    // Tools and documents are a part of it.
    if (fxi_params_calls(par) || fxi_params_unmarked(par) || par->second_texts)
        n_copied += par->doc.held_bytes;
    for (size_t i = 0; i < par->n_stop; i++) n_copied += VALUE_BYTES + strlen(par->stop[i]);
    const fxi_quota_result taken =
        fxi_charge_reserve(&job->charge, FXI_BYTES_ANSWER, n_copied); // to the end
    if (!fxi_bytes_granted(err, taken)) return false;
    const bool ok = make_reply(job, par, &r, &part);
    pthread_mutex_lock(&job->mu);
    *wanted = ok && !job->reply.ended;
    if (*wanted) {
        fxi_charge_add(&job->charge, FXI_BYTES_ANSWER, fxi_reply_base_bytes(&r));
        job->reply = r;
        job->part = part;
        job->n_part = (int)par->n_prompt;
    }
    pthread_mutex_unlock(&job->mu);
    if (*wanted) return true;
    free(part);
    fxi_reply_free(&r);
    return ok || fxi_http_fail_memory(err);
}

fxi_limits fxi_http_job_limits(fxi_http_job *job)
{
    fxi_limits lim = job->srv->lim;
    lim.charge = &job->charge;
    return lim;
}

bool fxi_http_job_parse(fxi_http_job *job, fxi_api api, fxi_params *par, fxi_http_error *err)
{
    const fxi_limits lim = fxi_http_job_limits(job);
    fxi_log_body(job);
    bool ok = fxi_params_parse(par, api, job->body.p, job->body.n, &lim, err);
    fxi_body_free(&job->body, &job->charge);
    if (!ok) return false;
    pthread_mutex_lock(&job->mu);
    memcpy(job->ignored, par->ignored, sizeof job->ignored);
    pthread_mutex_unlock(&job->mu);
    return true;
}

bool fxi_http_job_submit(fxi_http_job *job, fxi_http_error *err)
{
    fxi_params par;
    bool wanted = false;
    if (!fxi_permit_request(job->srv, err) || !fxi_http_job_parse(job, job->route->api, &par, err))
        return false;
    const fx_request req = fxi_params_request(&par, 0);
    bool ok = permit_priority(job, &req, err) && fxi_params_resolve(&par, job->eng, err) &&
              prepare_reply(job, &par, &wanted, err);
    for (int i = 0; wanted && i < (int)par.n_prompt && !fxi_http_job_is_over(job); i++)
        if (!submit_part(&job->part[i], &par, err)) fxi_http_job_end(job, err);
    fxi_params_free(&par);
    return ok;
}

// ---- the work ---------------------------------------------------------------------------------

static void run_job_work(fxi_work *w)
{
    fxi_http_job *job = (fxi_http_job *)((char *)w - offsetof(fxi_http_job, work));
    fxi_http_error err;
    if (!fxi_http_job_is_over(job) && !job->route->work(job, &err)) fxi_http_job_end(job, &err);
    fxi_body_free(&job->body, &job->charge);
    fxi_http_job_unref(job);
}

void fxi_http_job_post(fxi_http_job *job)
{
    fxi_http_error err;
    job->work = (fxi_work){
        .run = run_job_work, .client = job->client, .large = job->body.n >= LARGE_BODY_BYTES};
    if (!fxi_jobs_add(job)) {
        (void)fxi_http_fail_draining(&err);
        fxi_respond_error(job, &err);
        return;
    }
    atomic_fetch_add(&job->refs, 1);
    fxi_workers_post(job->srv->workers, &job->work);
    if (fxi_http_job_is_over(job)) fxi_http_job_drop_work(job); // a stop in between
}
