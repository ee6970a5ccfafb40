// scheduler.c - who computes what in the next step (the request scheduler of vTensor's Algorithm 1,
// arXiv 2407.15309).
//
//   1. Every running sequence that decodes gets its one token; then those that still read their
//   prompt get chunks of it,
//      in order of arrival, within the step's token budget.
//   2. Whoever is scheduled has its cache extended first. If memory is short, the running sequence
//   that arrived last is
//      preempted (its cache released, itself put back at the front of the waiting list) until it
//      fits. The oldest sequence is never preempted for another, so that the engine always gets on:
//      any single one fits the budget.
//   3. Waiting sequences are admitted in order while places, tokens of the budget and memory are
//   left. Memory is promised
//      for all the tokens a sequence has, and a chunk more for everyone that runs, so that an
//      admission does not cause a preemption soon after.
//
// Which tokens share a step never changes a result (kernels.h, the law of order).
#include "engine/internal.h"

#include <stdlib.h>
#include <string.h>

// ---- lists -------------------------------------------------------------------------------------

static void insert_between(fxi_seq_list *l, fxi_seq *s, fxi_seq *prev, fxi_seq *next)
{
    s->prev = prev;
    s->next = next;
    *(prev ? &prev->next : &l->head) = s;
    *(next ? &next->prev : &l->tail) = s;
    l->n++;
}

void fxi_list_push_back(fxi_seq_list *l, fxi_seq *s)
{
    insert_between(l, s, l->tail, NULL);
}

void fxi_list_push_front(fxi_seq_list *l, fxi_seq *s)
{
    insert_between(l, s, NULL, l->head);
}

void fxi_list_remove(fxi_seq_list *l, fxi_seq *s)
{
    *(s->prev ? &s->prev->next : &l->head) = s->next;
    *(s->next ? &s->next->prev : &l->tail) = s->prev;
    s->prev = s->next = NULL;
    l->n--;
}

// ---- leaving -----------------------------------------------------------------------------------

void fxi_retire(fx_engine *eng, fxi_seq *s)
{
    fxi_list_remove(&eng->running, s);
    eng->kv->ops->seq_release(eng->kv, s->kv);
    s->kv = NULL;
    s->n_computed = s->n_step = 0;
}

static void preempt(fx_engine *eng, fxi_seq *s)
{
    fxi_retire(eng, s);
    s->state = FXI_SEQ_WAITING;
    fxi_list_push_front(&eng->waiting, s);
    pthread_mutex_lock(&eng->mu);
    eng->stats.n_preempt++;
    eng->n_queued++;
    pthread_mutex_unlock(&eng->mu);
}

// ---- growing -----------------------------------------------------------------------------------

// Extends the cache for n_step more tokens, at the cost of later arrivals if it must be. False if s
// itself was preempted, or has failed.
static bool grow(fx_engine *eng, fxi_seq *s, int n_step)
{
    fx_status st;
    while ((st = eng->kv->ops->seq_extend(eng->kv, s->kv, s->n_computed + n_step, NULL)) != FX_OK) {
        fxi_seq *victim = eng->running.tail;
        if (st != FX_ENOSPACE || victim == eng->running.head) { // alone, and still no room
            fxi_seq_fail(s, "the system has no memory for the KV cache");
            return false;
        }
        preempt(eng, victim);
        if (victim == s) return false;
    }
    s->n_step = n_step;
    return true;
}

static bool decodes(const fxi_seq *s)
{
    return s->n_computed == s->n_tok - 1;
}

// Plans all running sequences of one kind, the oldest first; returns the tokens left of the budget.
static int plan_running(fx_engine *eng, bool decoding, int left)
{
    for (fxi_seq *s = eng->running.head, *next; s && left > 0; s = next) {
        int todo = s->n_tok - s->n_computed;
        bool mine = decodes(s) == decoding && !s->n_step && s->finish == FX_FINISH_NONE;
        if (mine && grow(eng, s, todo < left ? todo : left)) left -= s->n_step;
        next = s->state == FXI_SEQ_RUNNING ? s->next : NULL; // preempted: it was the last
    }
    return left;
}

// ---- admitting ---------------------------------------------------------------------------------

// KV bytes that everyone running will take once all known tokens and one more chunk each are in the
// cache.
static uint64_t promised_bytes(const fx_engine *eng)
{
    const fxi_kv_ops *ops = eng->kv->ops;
    uint64_t sum = 0;
    for (const fxi_seq *s = eng->running.head; s; s = s->next)
        sum += ops->bytes_for(eng->kv, s->n_tok) + ops->bytes_for(eng->kv, 1);
    return sum;
}

static bool fits(const fx_engine *eng, const fxi_seq *s)
{
    if (!eng->running.n) return true;
    int n_tok = s->n_tok ? s->n_tok : (int)s->group->req.n_prompt;
    return promised_bytes(eng) + eng->kv->ops->bytes_for(eng->kv, n_tok) <=
           eng->opt.kv_memory_bytes;
}

// Gives a sequence its tokens: the prompt at first; a preempted one has them.
static bool make_tokens(fxi_seq *s)
{
    if (s->tok) return true;
    const fxi_group *g = s->group;
    int n = (int)g->req.n_prompt;
    s->tok = malloc(((size_t)n + (size_t)g->max_tok) * sizeof *s->tok);
    if (!s->tok) return false;
    memcpy(s->tok, g->req.prompt, (size_t)n * sizeof *s->tok);
    s->n_tok = n;
    return true;
}

void fxi_leave_queue(fx_engine *eng, fxi_seq *s)
{
    fxi_list_remove(&eng->waiting, s);
    pthread_mutex_lock(&eng->mu);
    eng->n_queued--;
    pthread_mutex_unlock(&eng->mu);
}

// Makes a waiting sequence run. If that fails it waits on for memory that others will free; with no
// others, it ends.
static bool start(fx_engine *eng, fxi_seq *s)
{
    if (!make_tokens(s) || eng->kv->ops->seq_create(eng->kv, &s->kv, NULL) != FX_OK) {
        if (eng->running.n) return false;
        fxi_leave_queue(eng, s);
        fxi_seq_fail(s, "no memory to start the request");
        fxi_seq_finish(eng, s, FX_FINISH_ERROR);
        return false;
    }
    fxi_leave_queue(eng, s);
    fxi_list_push_back(&eng->running, s);
    s->state = FXI_SEQ_RUNNING;
    return true;
}

// Admits the first of the waiting list with as much of its prompt as the budget allows. False: no
// more in this step.
static bool admit(fx_engine *eng, int *left)
{
    fxi_seq *s = eng->waiting.head;
    if (!s || eng->running.n >= eng->opt.max_seq || !fits(eng, s) || !start(eng, s)) return false;
    if (!grow(eng, s, s->n_tok < *left ? s->n_tok : *left)) return false;
    *left -= s->n_step;
    return true;
}

int fxi_plan(fx_engine *eng)
{
    int left = eng->opt.step_tok;
    for (fxi_seq *s = eng->running.head; s; s = s->next) s->n_step = 0;
    left = plan_running(eng, true, left);
    left = plan_running(eng, false, left);
    while (left > 0 && admit(eng, &left)) {
    }
    int n_tok = 0;
    for (const fxi_seq *s = eng->running.head; s; s = s->next) n_tok += s->n_step;
    return n_tok;
}
