// bench_run.c - times prompts and decoding through the engine.
//
// One run submits `batch` requests of random prompts of one length at once and times two phases:
//
//     submit ............ last sequence's first token ............ its token number 1 + gen
//            prompt phase                               decode phase
//
// Sequences that start earlier go on decoding until the end, so that the decode phase has the full
// batch throughout: in it every sequence makes `gen` tokens. Every prompt is new, so that no cache
// of earlier ones can help. Decoding is greedy and goes on after an end-of-text token.
#include "cli/bench.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/rng.h"

// ---- one run ------------------------------------------------------------------------------------

// Written by the engine's thread until `n_ended` == n_seq; the main thread sleeps meanwhile.
typedef struct run {
    int n_seq, n_gen;
    int n_started, last_started; // sequences that have a token; the one that got its first one last
    int64_t n_told, n_ahead;     // tokens of all sequences: so far; before the decode phase began
    double submit_s, started_s, end_s; // end_s 0: the decode phase has not ended
    bool broken;                       // a sequence ended before the decode phase did
    char error[FX_ERROR_TEXT_BYTES];
    atomic_bool measured; // nothing more is to be learned: cancel
    atomic_int n_ended;
} run;

typedef struct slot { // what a request's callback gets
    run *r;
    int seq, n_tok;
    uint64_t id;
    bool submitted;
} slot;

static void note_token(run *r, slot *s)
{
    s->n_tok++;
    r->n_told++;
    if (s->n_tok == 1 && ++r->n_started == r->n_seq) {
        r->last_started = s->seq;
        r->n_ahead = r->n_told - r->n_seq;
        r->started_s = fxi_now_s();
    }
    if (r->n_started < r->n_seq || s->seq != r->last_started || s->n_tok != r->n_gen + 1) return;
    r->end_s = fxi_now_s();
    atomic_store(&r->measured, true);
    fxi_signals_wake();
}

static void note_end(run *r, const fx_event *ev)
{
    if (r->end_s == 0) {
        r->broken = true;
        if (ev->error) snprintf(r->error, sizeof r->error, "%s", ev->error);
        atomic_store(&r->measured, true);
    }
    atomic_fetch_add(&r->n_ended, 1);
    fxi_signals_wake();
}

static void on_event(void *ud, const fx_event *ev)
{
    slot *s = ud;
    if (ev->token >= 0) note_token(s->r, s);
    if (ev->last) note_end(s->r, ev);
}

typedef struct runner {
    fx_engine *eng;
    fxi_bench *b;
    uint64_t n_prompt_made; // so that no two prompts are alike
} runner;

static fx_status submit_one(runner *rn, slot *s, int n_prompt, fx_error *err)
{
    const int n_vocab = fx_engine_info(rn->eng)->n_vocab;
    int32_t *id = malloc((size_t)n_prompt * sizeof *id);
    if (!id) return fxi_fail(err, FX_ENOMEM, "no memory for the prompt");
    for (int i = 0; i < n_prompt; i++)
        id[i] = (int32_t)(fxi_rng_u64(1, rn->n_prompt_made, (uint64_t)i) % (uint64_t)n_vocab);
    rn->n_prompt_made++;
    fx_request req = fx_request_default();
    req.prompt = id;
    req.n_prompt = (size_t)n_prompt;
    req.sampling.temperature = 0;
    req.ignore_eos = true;
    req.on_event = on_event;
    req.ud = s;
    fx_status st = fx_submit(rn->eng, &req, &s->id, err);
    s->submitted = st == FX_OK;
    free(id);
    return st;
}

static void cancel_all(runner *rn, const slot *s, int n_seq)
{
    for (int i = 0; i < n_seq; i++)
        if (s[i].submitted) fx_cancel(rn->eng, s[i].id);
}

static fx_status submit_and_wait(runner *rn, run *r, slot *s, int n_prompt, fx_error *err)
{
    fx_status st = FX_OK;
    int n_submitted = 0;
    r->submit_s = fxi_now_s();
    for (; n_submitted < r->n_seq && st == FX_OK; n_submitted += st == FX_OK) {
        s[n_submitted] = (slot){.r = r, .seq = n_submitted};
        st = submit_one(rn, &s[n_submitted], n_prompt, err);
    }
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

static fx_status one_run(runner *rn, int n_seq, int n_prompt, run *r, fx_error *err)
{
    slot *s = calloc((size_t)n_seq, sizeof *s);
    if (!s) return fxi_fail(err, FX_ENOMEM, "no memory for %d sequences", n_seq);
    *r = (run){.n_seq = n_seq, .n_gen = rn->b->o->n_gen, .last_started = -1};
    fx_status st = submit_and_wait(rn, r, s, n_prompt, err);
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

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, compare_doubles);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

typedef struct times { // of all repeats of a batch and length
    double *prompt_s, *decode_s;
    double n_ahead; // on average
} times;

static fx_status repeat_runs(runner *rn, int batch, int n_prompt, times *t, fx_error *err)
{
    const int n = rn->b->o->n_repeat;
    for (int i = 0; i < n; i++) {
        run r;
        FX_TRY(one_run(rn, batch, n_prompt, &r, err));
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

// Rows lie in the order of the lists, whatever the order of the runs.
static void fill_rows(fxi_bench *b, int i_batch, int n_tok, const times *t)
{
    const int batch = b->batch.v[i_batch], n_gen = b->o->n_gen, n = b->o->n_repeat;
    const int p = index_of(&b->prompt, n_tok), c = index_of(&b->context, n_tok);
    if (p >= 0)
        b->prompt_row[i_batch * b->prompt.n + p] =
            (fxi_bench_row){.batch = batch,
                            .n_tok = n_tok,
                            .tok_s = (double)batch * n_tok / median(t->prompt_s, n)};
    if (c >= 0)
        b->decode_row[i_batch * b->context.n + c] =
            (fxi_bench_row){.batch = batch,
                            .n_tok = n_gen,
                            .context = n_tok,
                            .mean_ctx = n_tok + 0.5 * n_gen + t->n_ahead / batch,
                            .tok_s = (double)batch * n_gen / median(t->decode_s, n)};
}

static fx_status measure(runner *rn, int i_batch, int n_prompt, fx_error *err)
{
    const int n = rn->b->o->n_repeat;
    double *s = malloc(2 * (size_t)n * sizeof *s);
    if (!s) return fxi_fail(err, FX_ENOMEM, "no memory for %d repeats", n);
    times t = {.prompt_s = s, .decode_s = s + n};
    fx_status st = repeat_runs(rn, rn->b->batch.v[i_batch], n_prompt, &t, err);
    if (st == FX_OK) fill_rows(rn->b, i_batch, n_prompt, &t);
    free(s);
    return st;
}

// Each batch with each length of either list; one that is in both is run once.
fx_status fxi_bench_run(fxi_bench *b, fx_engine *eng, fx_error *err)
{
    runner rn = {.eng = eng, .b = b};
    const fxi_opt_ints *p = &b->prompt, *c = &b->context;
    for (int i = 0; i < b->batch.n; i++) {
        for (int k = 0; k < p->n; k++) FX_TRY(measure(&rn, i, p->v[k], err));
        for (int k = 0; k < c->n; k++)
            if (index_of(p, c->v[k]) < 0) FX_TRY(measure(&rn, i, c->v[k], err));
    }
    b->n_prompt = b->batch.n * p->n;
    b->n_decode = b->batch.n * c->n;
    return FX_OK;
}
