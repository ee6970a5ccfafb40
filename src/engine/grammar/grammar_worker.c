// grammar_worker.c - the thread that works on grammars before they are asked for, and for sequences
// that sit out passes until it is done.
#include "engine/grammar/grammars.h"

bool fxi_grammar_worker_init(fxi_grammar_worker *w)
{
    if (pthread_mutex_init(&w->mu, NULL)) return false;
    if (!pthread_cond_init(&w->wake, NULL)) return true;
    pthread_mutex_destroy(&w->mu);
    return false;
}

// ---- the grammars with work ---------------------------------------------------------------------

static void put_last(fxi_grammar_worker *w, fx_grammar *g)
{
    g->next_work = NULL;
    *(w->last ? &w->last->next_work : &w->first) = g;
    w->last = g;
}

static void put_first(fxi_grammar_worker *w, fx_grammar *g)
{
    g->next_work = w->first;
    w->first = g;
    if (!w->last) w->last = g;
}

static fx_grammar *take_first(fxi_grammar_worker *w)
{
    fx_grammar *g = w->first;
    w->first = g->next_work;
    if (!w->first) w->last = NULL;
    return g;
}

// Moves a queued grammar to the front, unless the worker has it in hand.
static void put_forward(fxi_grammar_worker *w, fx_grammar *g)
{
    fx_grammar *before = NULL, *x = w->first;
    for (; x && x != g; x = x->next_work) before = x;
    if (!x || !before) return;
    before->next_work = g->next_work;
    if (w->last == g) w->last = before;
    put_first(w, g);
}

void fxi_grammar_worker_add(fxi_grammar_worker *w, fx_grammar *g, bool is_urgent)
{
    pthread_mutex_lock(&w->mu);
    if (w->has_thread && !w->is_ending && !g->is_queued) {
        g->is_queued = true;
        fx_grammar_retain(g);
        (is_urgent ? put_first : put_last)(w, g);
    } else if (is_urgent) {
        put_forward(w, g);
    }
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->mu);
}

void fxi_grammar_worker_forget(fxi_grammar_worker *w)
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

// One step for one grammar; mu is held, but released meanwhile. A sequence that needs something
// just when its grammar leaves the list asks again.
static void work_once(fxi_grammar_worker *w)
{
    fx_grammar *g = take_first(w);
    pthread_mutex_unlock(&w->mu);
    const bool has_more = fxi_gram_matcher_work(g->guide);
    if (w->on_progress) w->on_progress(w->ud);
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

static void *grammar_worker_main(void *arg)
{
    fxi_grammar_worker *w = arg;
    pthread_mutex_lock(&w->mu);
    while (!w->is_ending)
        if (w->first && !w->is_paused)
            work_once(w);
        else
            pthread_cond_wait(&w->wake, &w->mu);
    pthread_mutex_unlock(&w->mu);
    return NULL;
}

void fxi_grammar_worker_start(fxi_grammar_worker *w)
{
    pthread_mutex_lock(&w->mu);
    if (!w->has_thread && !w->is_ending)
        w->has_thread = !pthread_create(&w->thread, NULL, grammar_worker_main, w);
    pthread_mutex_unlock(&w->mu);
}

void fxi_grammar_worker_stop(fxi_grammar_worker *w)
{
    pthread_mutex_lock(&w->mu);
    const bool has_thread = w->has_thread;
    w->is_ending = true;
    w->has_thread = false;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->mu);
    if (has_thread) pthread_join(w->thread, NULL);
    fxi_grammar_worker_forget(w);
}

void fxi_grammar_worker_free(fxi_grammar_worker *w)
{
    fxi_grammar_worker_stop(w);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->mu);
}

bool fxi_grammar_worker_runs(fxi_grammar_worker *w)
{
    return atomic_load_explicit(&w->has_thread, memory_order_relaxed);
}

void fxi_grammar_worker_pause(fxi_grammar_worker *w, bool is_paused)
{
    pthread_mutex_lock(&w->mu);
    w->is_paused = is_paused;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->mu);
}
