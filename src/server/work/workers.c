// workers.c - a queue of lanes for each class of work, and the threads that empty it.
//
// A lane is a list of work; its first piece stands for it in the list of lanes. Taking a piece
// moves its lane to the end of that list.
#include "server/work/workers.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fail.h" // defines: fxi_fail

typedef struct lane_list {
    fxi_work *first;
    int n_work;
} lane_list;

struct fxi_workers {
    int n_thread;
    double idle_s;
    void (*on_idle)(void *ud);
    void *idle_ud;
    pthread_t *thread;   // [n_started]
    int n_started;       // written before anything is posted
    pthread_mutex_t mu;  // guards what follows; never held while work runs
    pthread_cond_t some; // work has come, or the end
    lane_list small, large;
    bool large_is_next; // whose turn it is where both wait
    bool stop, is_used; // is_used: since on_idle ran
    int n_busy, n_busy_large;
    uint64_t n_done;
};

// ---- the queue --------------------------------------------------------------------------------

static void add_lane(lane_list *l, fxi_work *lane)
{
    fxi_work **at = &l->first;
    while (*at) at = &(*at)->next_lane;
    lane->next_lane = NULL;
    *at = lane;
}

static void add_work(lane_list *l, fxi_work *w)
{
    fxi_work *lane = l->first;
    w->next = NULL;
    w->last = w;
    w->queued = true;
    l->n_work++;
    while (lane && lane->lane != w->lane) lane = lane->next_lane;
    if (!lane) {
        add_lane(l, w);
        return;
    }
    lane->last->next = w;
    lane->last = w;
}

static fxi_work *take_work(lane_list *l)
{
    fxi_work *w = l->first;
    if (!w) return NULL;
    l->n_work--;
    w->queued = false;
    l->first = w->next_lane;
    if (w->next) {
        w->next->last = w->last;
        add_lane(l, w->next);
    }
    return w;
}

// Takes the first piece out of its lane, which keeps its turn.
static void drop_first(fxi_work **at)
{
    fxi_work *w = *at, *second = w->next;
    *at = second ? second : w->next_lane;
    if (!second) return;
    second->last = w->last;
    second->next_lane = w->next_lane;
}

static void drop_later(fxi_work *first, const fxi_work *w)
{
    fxi_work *before = first;
    while (before->next != w) before = before->next;
    before->next = w->next;
    if (first->last == w) first->last = before;
}

static void drop_work(lane_list *l, fxi_work *w)
{
    fxi_work **at = &l->first;
    while ((*at)->lane != w->lane) at = &(*at)->next_lane;
    if (*at == w)
        drop_first(at);
    else
        drop_later(*at, w);
    l->n_work--;
    w->queued = false;
}

// With two or more threads, one is kept free of large work.
static bool may_run_large(const fxi_workers *ws)
{
    return ws->n_thread == 1 || ws->n_busy_large < ws->n_thread - 1;
}

static fxi_work *take_fairly(fxi_workers *ws)
{
    bool large = ws->large.first && may_run_large(ws);
    if (large && ws->small.first) {
        large = ws->large_is_next;
        ws->large_is_next = !large;
    }
    return take_work(large ? &ws->large : &ws->small);
}

// ---- the threads ------------------------------------------------------------------------------

static void run_unlocked(fxi_workers *ws, fxi_work *w)
{
    bool large = w->large; // w may be gone once it has run
    ws->n_busy++;
    ws->n_busy_large += large;
    ws->is_used = true;
    pthread_mutex_unlock(&ws->mu);
    w->run(w);
    pthread_mutex_lock(&ws->mu);
    ws->n_busy--;
    ws->n_busy_large -= large;
    ws->n_done++;
    if (ws->large.first || ws->stop) pthread_cond_broadcast(&ws->some);
}

static void idle_unlocked(fxi_workers *ws)
{
    ws->is_used = false;
    if (!ws->on_idle) return;
    pthread_mutex_unlock(&ws->mu);
    ws->on_idle(ws->idle_ud);
    pthread_mutex_lock(&ws->mu);
}

static void wait_for_work(fxi_workers *ws)
{
    struct timespec t;
    if (!ws->is_used || ws->n_busy) {
        pthread_cond_wait(&ws->some, &ws->mu);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &t);
    int64_t ns = t.tv_nsec + (int64_t)(ws->idle_s * 1e9);
    t.tv_sec += ns / 1000000000;
    t.tv_nsec = ns % 1000000000;
    int e = pthread_cond_timedwait(&ws->some, &ws->mu, &t);
    if (e == ETIMEDOUT && ws->is_used && !ws->n_busy) idle_unlocked(ws);
}

static void *serve_queue(void *ud)
{
    fxi_workers *ws = ud;
    pthread_mutex_lock(&ws->mu);
    for (;;) {
        fxi_work *w = take_fairly(ws);
        if (w)
            run_unlocked(ws, w);
        else if (ws->stop && !ws->large.first)
            break;
        else
            wait_for_work(ws);
    }
    pthread_mutex_unlock(&ws->mu);
    return NULL;
}

// ---- life -------------------------------------------------------------------------------------

static void free_workers(fxi_workers *ws)
{
    pthread_cond_destroy(&ws->some);
    pthread_mutex_destroy(&ws->mu);
    free(ws->thread);
    free(ws);
}

static fxi_workers *new_workers(int n_thread)
{
    fxi_workers *ws = calloc(1, sizeof *ws);
    pthread_condattr_t attr;
    if (!ws) return NULL;
    ws->thread = calloc((size_t)n_thread, sizeof *ws->thread);
    ws->n_thread = n_thread;
    pthread_mutex_init(&ws->mu, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&ws->some, &attr);
    pthread_condattr_destroy(&attr);
    if (ws->thread) return ws;
    free_workers(ws);
    return NULL;
}

fx_status fxi_workers_start(int n_thread, double idle_s, void (*on_idle)(void *ud), void *ud,
                            fxi_workers **out, fx_error *err)
{
    fxi_workers *ws = new_workers(n_thread);
    *out = NULL;
    if (!ws) return fxi_fail(err, FX_ENOMEM, "out of memory");
    ws->idle_s = idle_s;
    ws->on_idle = on_idle;
    ws->idle_ud = ud;
    for (int e; ws->n_started < n_thread; ws->n_started++) {
        e = pthread_create(&ws->thread[ws->n_started], NULL, serve_queue, ws);
        if (!e) continue;
        fxi_workers_stop(ws);
        return fxi_fail(err, FX_EINTERNAL, "cannot start a thread: %s", strerror(e));
    }
    *out = ws;
    return FX_OK;
}

void fxi_workers_post(fxi_workers *ws, fxi_work *w)
{
    pthread_mutex_lock(&ws->mu);
    add_work(w->large ? &ws->large : &ws->small, w);
    ws->is_used = true;
    pthread_cond_signal(&ws->some);
    pthread_mutex_unlock(&ws->mu);
}

bool fxi_workers_drop(fxi_workers *ws, fxi_work *w)
{
    pthread_mutex_lock(&ws->mu);
    const bool found = w->queued;
    if (found) drop_work(w->large ? &ws->large : &ws->small, w);
    pthread_mutex_unlock(&ws->mu);
    return found;
}

void fxi_workers_touch(fxi_workers *ws)
{
    pthread_mutex_lock(&ws->mu);
    if (!ws->is_used && !ws->n_busy) pthread_cond_signal(&ws->some);
    ws->is_used = true;
    pthread_mutex_unlock(&ws->mu);
}

void fxi_workers_read(fxi_workers *ws, fxi_workers_gauges *out)
{
    pthread_mutex_lock(&ws->mu);
    *out = (fxi_workers_gauges){.n_thread = ws->n_thread,
                                .n_busy = ws->n_busy,
                                .n_busy_large = ws->n_busy_large,
                                .n_small = ws->small.n_work,
                                .n_large = ws->large.n_work,
                                .n_done = ws->n_done};
    pthread_mutex_unlock(&ws->mu);
}

void fxi_workers_stop(fxi_workers *ws)
{
    if (!ws) return;
    pthread_mutex_lock(&ws->mu);
    ws->stop = true;
    pthread_cond_broadcast(&ws->some);
    pthread_mutex_unlock(&ws->mu);
    for (int i = 0; i < ws->n_started; i++) pthread_join(ws->thread[i], NULL);
    free_workers(ws);
}
