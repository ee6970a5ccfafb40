// bench_run.c - times prompts and decoding through the engine.
//
// One run submits `batch` requests of random prompts of one length at once and times two phases:
//
//     submit ............ last sequence's first token ............ its token number 1 + gen
//            prompt phase                               decode phase
//
// Sequences that start earlier decode until the end. So the decode phase has the full batch
// throughout, and every sequence makes `gen` tokens in it. How far the first is ahead of the last
// depends on the scheduler alone, not on how fast the requests were submitted: no sequence gets its
// second token before all requests are in. Otherwise, on a loaded machine, the first could reach
// the end of its context while others were still to come. Every prompt is new, so no cached prefix
// helps. Decoding is greedy and continues after an end-of-text token.
#include "cli/bench.h"
#include "cli/terminal/terminal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/number/rng.h"
#include "base/system/clock.h"

// ---- one run ------------------------------------------------------------------------------------

// The engine's thread writes it until `n_ended` == n_seq; the main thread sleeps meanwhile.
typedef struct timed_run {
    int n_seq, n_gen;
    pthread_mutex_t submitting;  // held by the main thread until all requests are submitted
    int n_started, last_started; // sequences that have a token; the one that got its first one last
    int64_t n_emitted, n_ahead;  // tokens of all sequences: so far; before the decode phase began
    double submit_s, started_s, end_s; // end_s 0: the decode phase has not ended
    bool broken;                       // a sequence ended before the decode phase did
    char error[FX_ERROR_TEXT_BYTES];
    atomic_bool measured; // done or failed: cancel the rest
    atomic_int n_ended;
} timed_run;

typedef struct timed_seq { // what a request's callback gets
    timed_run *r;
    int seq, n_tok;
    uint64_t id;
    bool submitted;
} timed_seq;

// Holds the engine at the first token of the run. A callback must not block other requests, but all
// requests of this engine are ours.
static void wait_until_submitted(timed_run *r)
{
    pthread_mutex_lock(&r->submitting);
    pthread_mutex_unlock(&r->submitting);
}

static void note_token(timed_run *r, timed_seq *s)
{
    if (r->n_emitted == 0) wait_until_submitted(r);
    s->n_tok++;
    r->n_emitted++;
    if (s->n_tok == 1 && ++r->n_started == r->n_seq) {
        r->last_started = s->seq;
        r->n_ahead = r->n_emitted - r->n_seq;
        r->started_s = fxi_now_s();
    }
    if (r->n_started < r->n_seq || s->seq != r->last_started || s->n_tok != r->n_gen + 1) return;
    r->end_s = fxi_now_s();
    atomic_store(&r->measured, true);
    fxi_signals_wake();
}

static void note_end(timed_run *r, const fx_event *ev)
{
    if (r->end_s == 0) {
        r->broken = true;
        if (ev->error) snprintf(r->error, sizeof r->error, "%s", ev->error);
        atomic_store(&r->measured, true);
    }
    atomic_fetch_add(&r->n_ended, 1);
    fxi_signals_wake();
}

static void note_event(void *ud, const fx_event *ev)
{
    timed_seq *s = ud;
    if (ev->token >= 0) note_token(s->r, s);
    if (ev->last) note_end(s->r, ev);
}

typedef struct runner {
    fx_engine *eng;
    fxi_bench *b;
    uint64_t n_prompt_made; // makes each prompt different
} runner;

static fx_status submit_one(runner *rn, timed_seq *s, int n_prompt, fx_error *err)
{
    const int n_vocab = fx_engine_info(rn->eng)->n_vocab;
    int32_t *id = malloc((size_t)n_prompt * sizeof *id);
    if (!id) return fxi_fail(err, FX_ENOMEM, "out of memory for the prompt");
    for (int i = 0; i < n_prompt; i++)
        id[i] = (int32_t)(fxi_rng_u64(1, rn->n_prompt_made, (uint64_t)i) % (uint64_t)n_vocab);
    rn->n_prompt_made++;
    fx_request req = fx_request_default();
    req.prompt = id;
    req.n_prompt = (size_t)n_prompt;
    req.sampling.temperature = 0;
    req.ignore_eos = true;
    req.on_event = note_event;
    req.ud = s;
    fx_status st = fx_submit(rn->eng, &req, &s->id, err);
    s->submitted = st == FX_OK;
    free(id);
    return st;
}

static void cancel_all(runner *rn, const timed_seq *s, int n_seq)
{
    for (int i = 0; i < n_seq; i++)
        if (s[i].submitted) fx_cancel(rn->eng, s[i].id);
}

// Sets *n_submitted also if a later one fails.
static fx_status submit_all(runner *rn, timed_run *r, timed_seq *s, int n_prompt, int *n_submitted,
                            fx_error *err)
{
    fx_status st = FX_OK;
    int n = 0;
    pthread_mutex_lock(&r->submitting);
    r->submit_s = fxi_now_s();
    for (; n < r->n_seq && st == FX_OK; n += st == FX_OK) {
        s[n] = (timed_seq){.r = r, .seq = n};
        st = submit_one(rn, &s[n], n_prompt, err);
    }
    pthread_mutex_unlock(&r->submitting);
    *n_submitted = n;
    return st;
}

static fx_status submit_and_wait(runner *rn, timed_run *r, timed_seq *s, int n_prompt,
                                 fx_error *err)
{
    int n_submitted;
    fx_status st = submit_all(rn, r, s, n_prompt, &n_submitted, err);
    bool cancelled = false;
    while (atomic_load(&r->n_ended) < n_submitted) {
        if (!cancelled && (st != FX_OK || atomic_load(&r->measured) || fxi_signals_stop())) {
            cancel_all(rn, s, n_submitted);
            cancelled = true;
            continue;
        }
        fxi_signals_wait();
    }
    return st;
}

static fx_status time_run(runner *rn, int n_seq, int n_prompt, timed_run *r, fx_error *err)
{
    timed_seq *s = calloc((size_t)n_seq, sizeof *s);
    if (!s) return fxi_fail(err, FX_ENOMEM, "out of memory for %d sequences", n_seq);
    *r = (timed_run){.n_seq = n_seq,
                     .n_gen = rn->b->o->n_gen,
                     .submitting = PTHREAD_MUTEX_INITIALIZER,
                     .last_started = -1};
    fx_status st = submit_and_wait(rn, r, s, n_prompt, err);
    pthread_mutex_destroy(&r->submitting);
    free(s);
    FX_TRY(st);
    if (fxi_signals_stop()) return fxi_fail(err, FX_ECLOSED, "interrupted");
    if (r->error[0]) return fxi_fail(err, FX_EINTERNAL, "%s", r->error);
    if (r->broken)
        return fxi_fail(err, FX_ENOSPACE,
                        "batch %d of %d tokens: a sequence ended before all were measured: more "
                        "--ctx or --kv-memory, or less --gen is needed",
                        n_seq, n_prompt);
    return FX_OK;
}

// ---- rows: medians over the repeats -------------------------------------------------------------

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, compare_doubles);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

typedef struct run_times { // of all repeats of a batch and length
    double *prompt_s, *decode_s;
    double n_ahead; // on average
} run_times;

static fx_status repeat_runs(runner *rn, int batch, int n_prompt, run_times *t, fx_error *err)
{
    const int n = rn->b->o->n_repeat;
    for (int i = 0; i < n; i++) {
        timed_run r;
        FX_TRY(time_run(rn, batch, n_prompt, &r, err));
        t->prompt_s[i] = r.started_s - r.submit_s;
        t->decode_s[i] = r.end_s - r.started_s;
        t->n_ahead += (double)r.n_ahead / n;
    }
    return FX_OK;
}

static int index_of(const fxi_opt_ints *list, int v)
{
    for (int i = 0; i < list->n; i++)
        if (list->v[i] == v) return i;
    return -1;
}

// Rows are in the order of the lists, whatever the order of the runs.
static void fill_rows(fxi_bench *b, int i_batch, int n_tok, const run_times *t)
{
    const int batch = b->batch.v[i_batch], n_gen = b->o->n_gen, n = b->o->n_repeat;
    const int p = index_of(&b->prompt, n_tok), c = index_of(&b->context, n_tok);
    if (p >= 0)
        b->prompt_row[i_batch * b->prompt.n + p] =
            (fxi_bench_row){.batch = batch,
                            .n_tok = n_tok,
                            .tok_s = (double)batch * n_tok / median_of(t->prompt_s, n)};
    if (c >= 0)
        b->decode_row[i_batch * b->context.n + c] =
            (fxi_bench_row){.batch = batch,
                            .n_tok = n_gen,
                            .context = n_tok,
                            .mean_ctx = n_tok + 0.5 * n_gen + t->n_ahead / batch,
                            .tok_s = (double)batch * n_gen / median_of(t->decode_s, n)};
}

static fx_status measure_batch(runner *rn, int i_batch, int n_prompt, fx_error *err)
{
    const int n = rn->b->o->n_repeat;
    double *s = malloc(2 * (size_t)n * sizeof *s);
    if (!s) return fxi_fail(err, FX_ENOMEM, "out of memory for %d repeats", n);
    run_times t = {.prompt_s = s, .decode_s = s + n};
    fx_status st = repeat_runs(rn, rn->b->batch.v[i_batch], n_prompt, &t, err);
    if (st == FX_OK) fill_rows(rn->b, i_batch, n_prompt, &t);
    free(s);
    return st;
}

// Runs each batch with each length of either list; a length in both lists runs once.
fx_status fxi_bench_run(fxi_bench *b, fx_engine *eng, fx_error *err)
{
    runner rn = {.eng = eng, .b = b};
    const fxi_opt_ints *p = &b->prompt, *c = &b->context;
    for (int i = 0; i < b->batch.n; i++) {
        for (int k = 0; k < p->n; k++) FX_TRY(measure_batch(&rn, i, p->v[k], err));
        for (int k = 0; k < c->n; k++)
            if (index_of(p, c->v[k]) < 0) FX_TRY(measure_batch(&rn, i, c->v[k], err));
    }
    b->n_prompt = b->batch.n * p->n;
    b->n_decode = b->batch.n * c->n;
    return FX_OK;
}
