// answer_worker.c - the thread that works on grammars while nobody waits, and for sequences that
// sit out steps until it is done. It is started with the first grammar.
#include "engine/engine.h"
#include "engine/grammar/answer_grammar.h"

bool fxi_answer_worker_init(fxi_answer_worker *w)
{
    if (pthread_mutex_init(&w->mu, NULL)) return false;
    if (!pthread_cond_init(&w->wake, NULL)) return true;
    pthread_mutex_destroy(&w->mu);
    return false;
}

// ---- the grammars with work ---------------------------------------------------------------------

static void put_last(fxi_answer_worker *w, fx_grammar *g)
{
    g->next_work = NULL;
    *(w->last ? &w->last->next_work : &w->first) = g;
    w->last = g;
}

static void put_first(fxi_answer_worker *w, fx_grammar *g)
{
    g->next_work = w->first;
    w->first = g;
    if (!w->last) w->last = g;
}

static fx_grammar *take_first(fxi_answer_worker *w)
{
    fx_grammar *g = w->first;
    w->first = g->next_work;
    if (!w->first) w->last = NULL;
    return g;
}

static void take_out(fxi_answer_worker *w, const fx_grammar *g)
{
    fx_grammar *before = NULL, *x = w->first;
    for (; x && x != g; x = x->next_work) before = x;
    if (!x) return; // the worker has it in hand
    *(before ? &before->next_work : &w->first) = g->next_work;
    if (w->last == g) w->last = before;
}

static bool waits_in_list(const fxi_answer_worker *w, const fx_grammar *g)
{
    const fx_grammar *x = w->first;
    while (x && x != g) x = x->next_work;
    return x != NULL;
}

void fxi_answer_worker_add(fxi_answer_worker *w, fx_grammar *g, bool is_urgent)
{
    pthread_mutex_lock(&w->mu);
    if (w->has_thread && !w->is_ending && !g->is_queued) {
        g->is_queued = true;
        fx_grammar_retain(g);
        (is_urgent ? put_first : put_last)(w, g);
    } else if (is_urgent && waits_in_list(w, g)) {
        take_out(w, g);
        put_first(w, g);
    }
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->mu);
}

void fxi_answer_worker_forget(fxi_answer_worker *w)
{
    pthread_mutex_lock(&w->mu);
    while (w->first) {
        fx_grammar *g = take_first(w);
        g->is_queued = false;
        pthread_mutex_unlock(&w->mu);
        fx_grammar_release(g);
        pthread_mutex_lock(&w->mu);
    }
    pthread_mutex_unlock(&w->mu);
}

// ---- the thread ---------------------------------------------------------------------------------

// Sequences may wait for what was found out.
static void tell_engine(const fx_engine *eng)
{
    fx_engine *e = (fx_engine *)eng; // what is touched has a lock
    if (!atomic_load(&e->n_held)) return;
    pthread_mutex_lock(&e->mu);
    pthread_cond_signal(&e->wake);
    pthread_mutex_unlock(&e->mu);
}

// One thing of one grammar; mu is held, but not meanwhile. Who waits for something that was asked
// for just when a grammar leaves the list asks again.
static void work_once(fxi_answer_worker *w)
{
    fx_grammar *g = take_first(w);
    pthread_mutex_unlock(&w->mu);
    const bool has_more = fxi_gram_matcher_work(g->guide);
    tell_engine(g->eng);
    pthread_mutex_lock(&w->mu);
    if (has_more && !w->is_ending) {
        put_last(w, g);
        return;
    }
    g->is_queued = false;
    pthread_mutex_unlock(&w->mu);
    fx_grammar_release(g);
    pthread_mutex_lock(&w->mu);
}

static void *answer_worker_main(void *arg)
{
    fxi_answer_worker *w = arg;
    pthread_mutex_lock(&w->mu);
    while (!w->is_ending)
        if (w->first && !w->is_paused)
            work_once(w);
        else
            pthread_cond_wait(&w->wake, &w->mu);
    pthread_mutex_unlock(&w->mu);
    return NULL;
}

void fxi_answer_worker_start(fxi_answer_worker *w)
{
    pthread_mutex_lock(&w->mu);
    if (!w->has_thread && !w->is_ending)
        w->has_thread = !pthread_create(&w->thread, NULL, answer_worker_main, w);
    pthread_mutex_unlock(&w->mu);
}

void fxi_answer_worker_stop(fxi_answer_worker *w)
{
    pthread_mutex_lock(&w->mu);
    const bool has_thread = w->has_thread;
    w->is_ending = true;
    w->has_thread = false;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->mu);
    if (has_thread) pthread_join(w->thread, NULL);
    fxi_answer_worker_forget(w);
}

void fxi_answer_worker_free(fxi_answer_worker *w)
{
    fxi_answer_worker_stop(w);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->mu);
}

bool fxi_answer_worker_runs(fxi_answer_worker *w)
{
    return atomic_load_explicit(&w->has_thread, memory_order_relaxed);
}

void fxi_answer_worker_pause(fxi_answer_worker *w, bool is_paused)
{
    pthread_mutex_lock(&w->mu);
    w->is_paused = is_paused;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->mu);
}
