// step.c - one forward pass over what the scheduler planned, and what follows from it.
//
//   running sequences with n_step > 0  ->  batch  ->  logits of those whose last token is in it  ->
//   sampled tokens
//   ->  appended and told, in the order of arrival  ->  finished sequences leave
#include "engine/internal.h"

#include <stdlib.h>

typedef struct fxi_step {
    int32_t *token;       // [step_tok]
    fxi_batch_seq *batch; // [max_seq]
    fxi_seq **sampling;   // [max_seq] whose row of logits it is
    int n_sampling;
    float *logits;       // [max_seq][n_vocab]
    int32_t *sampled;    // [max_seq]
    fxi_candidate *cand; // [n_thread][n_vocab]
} fxi_step;

fx_status fxi_step_make(fx_engine *eng, fx_error *err)
{
    const size_t n_seq = (size_t)eng->opt.max_seq, n_vocab = (size_t)eng->info.n_vocab;
    fxi_step *st = calloc(1, sizeof *st);
    eng->step = st;
    if (!st) return fxi_fail(err, FX_ENOMEM, "no memory for the engine");
    st->token = malloc((size_t)eng->opt.step_tok * sizeof *st->token);
    st->batch = malloc(n_seq * sizeof *st->batch);
    st->sampling = malloc(n_seq * sizeof *st->sampling);
    st->logits = malloc(n_seq * n_vocab * sizeof *st->logits);
    st->sampled = malloc(n_seq * sizeof *st->sampled);
    st->cand = malloc((size_t)eng->opt.n_thread * n_vocab * sizeof *st->cand);
    if (!st->token || !st->batch || !st->sampling || !st->logits || !st->sampled || !st->cand)
        return fxi_fail(err, FX_ENOMEM, "no memory for the logits of %d sequences",
                        eng->opt.max_seq);
    return FX_OK;
}

void fxi_step_free(fxi_step *st)
{
    if (!st) return;
    free(st->token);
    free(st->batch);
    free(st->sampling);
    free(st->logits);
    free(st->sampled);
    free(st->cand);
    free(st);
}

static bool reaches_end(const fxi_seq *s)
{
    return s->n_computed + s->n_step == s->n_tok;
}

static void put_tokens(fxi_step *st, fxi_batch *b, const fxi_seq *s)
{
    for (int i = 0; i < s->n_step; i++) st->token[b->n_tok++] = s->tok[s->n_computed + i];
}

static fxi_batch build(fx_engine *eng)
{
    fxi_step *st = eng->step;
    fxi_batch b = {.token = st->token, .seq = st->batch};
    st->n_sampling = 0;
    for (fxi_seq *s = eng->running.head; s; s = s->next) {
        if (!s->n_step) continue;
        put_tokens(st, &b, s);
        st->batch[b.n_seq++] = (fxi_batch_seq){
            .view = eng->kv->ops->seq_view(eng->kv, s->kv),
            .pos = s->n_computed,
            .n_tok = s->n_step,
            .want_logits = reaches_end(s),
        };
        if (reaches_end(s)) st->sampling[st->n_sampling++] = s;
    }
    return b;
}

// ---- sampling ----------------------------------------------------------------------------------

typedef struct sample_job {
    const fx_engine *eng;
    atomic_int next; // row of logits to take
} sample_job;

// One task per thread, so that each has candidates of its own.
static void sample_task(void *arg, int task)
{
    sample_job *job = arg;
    const fxi_step *st = job->eng->step;
    const size_t n_vocab = (size_t)job->eng->info.n_vocab;
    int i;
    while ((i = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed)) < st->n_sampling) {
        const fxi_seq *s = st->sampling[i];
        st->sampled[i] =
            fxi_sample(&s->group->req.sampling, st->logits + (size_t)i * n_vocab, (int)n_vocab,
                       s->choice, s->n_tok, st->cand + (size_t)task * n_vocab);
    }
}

static void sample_all(fx_engine *eng)
{
    sample_job job = {.eng = eng};
    atomic_init(&job.next, 0);
    fxi_pool_run(eng->pool, sample_task, &job, eng->opt.n_thread);
}

// ---- afterwards --------------------------------------------------------------------------------

static void advance(fx_engine *eng)
{
    for (fxi_seq *s = eng->running.head; s; s = s->next) s->n_computed += s->n_step;
    for (int i = 0; i < eng->step->n_sampling; i++)
        fxi_seq_append(eng, eng->step->sampling[i], eng->step->sampled[i]);
}

static void end_finished(fx_engine *eng)
{
    for (fxi_seq *s = eng->running.head, *next; s; s = next) {
        next = s->next;
        if (s->finish == FX_FINISH_NONE) continue;
        fxi_retire(eng, s);
        fxi_seq_finish(eng, s, s->finish);
    }
}

// Of the tokens planned, those that belong to prompts.
static int n_prompt_tok(const fx_engine *eng)
{
    int n = 0;
    for (const fxi_seq *s = eng->running.head; s; s = s->next) {
        int left = (int)s->group->req.n_prompt - s->n_computed;
        n += left <= 0 ? 0 : left < s->n_step ? left : s->n_step;
    }
    return n;
}

static void count(fx_engine *eng)
{
    const int n_prompt = n_prompt_tok(eng);
    pthread_mutex_lock(&eng->mu);
    eng->stats.n_step++;
    eng->stats.n_prompt_tok += (uint64_t)n_prompt;
    eng->stats.n_generated_tok += (uint64_t)eng->step->n_sampling;
    pthread_mutex_unlock(&eng->mu);
}

void fxi_step_run(fx_engine *eng, int n_tok)
{
    if (n_tok) {
        fxi_batch b = build(eng);
        fxi_model_forward(eng->model, &b, eng->step->logits);
        sample_all(eng);
        count(eng);
        advance(eng);
    }
    end_finished(eng);
}
