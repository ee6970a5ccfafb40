// workers.c - for each class of work a queue of clients, each with its own queue of work, and the
// threads that empty them.
//
// The first piece of a client's queue stands for the client in the list of clients. Taking a piece
// moves its client to the end of that list.
//
// A thread whose priority has been lowered cannot raise it again, so the threads are of two kinds
// for good. Each kind waits on a condition of its own: a low-priority worker is woken for small
// work only if no normal one waits.
#include "server/work/workers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/fail.h" // defines: fxi_fail

#define LOW_NICE 10 // next to one other thread on its core, it gets about a tenth of it

typedef struct client_list {
    fxi_work *first;
    uint64_t n_work;
} client_list;

typedef enum thread_kind { NORMAL, LOW, N_KIND } thread_kind;

struct fxi_workers {
    int n_thread;
    pthread_t *thread;           // [n_started]
    int n_started;               // written before anything is posted
    pthread_mutex_t mu;          // guards what follows; never held while work runs
    pthread_cond_t some[N_KIND]; // work has come for threads of this kind, or the end
    int n_waiting[N_KIND];       // threads
    int n_low;                   // threads
    client_list small, large;
    bool large_is_next; // whose turn it is where both wait
    bool stop;
    uint64_t n_busy, n_done;
};

// ---- the queue --------------------------------------------------------------------------------

static void add_work(client_list *l, fxi_work *w)
{
    fxi_work **at = &l->first;
    w->next = w->next_client = NULL;
    w->last = w;
    w->queued = true;
    l->n_work++;
    while (*at && (*at)->client != w->client) at = &(*at)->next_client;
    if (!*at) {
        *at = w;
        return;
    }
    (*at)->last->next = w;
    (*at)->last = w;
}

static fxi_work *take_work(client_list *l)
{
    fxi_work *w = l->first, **at = &l->first;
    if (!w) return NULL;
    l->n_work--;
    w->queued = false;
    l->first = w->next_client;
    if (w->next) {
        w->next->last = w->last;
        w->next->next_client = NULL;
        while (*at) at = &(*at)->next_client;
        *at = w->next;
    }
    return w;
}

// The client keeps its turn.
static void drop_work(client_list *l, fxi_work *w)
{
    fxi_work **at = &l->first;
    while ((*at)->client != w->client) at = &(*at)->next_client;
    fxi_work *first = *at, *before = first, *second = w->next;
    if (first == w) {
        *at = second ? second : w->next_client;
        if (second) second->last = w->last;
        if (second) second->next_client = w->next_client;
    } else {
        while (before->next != w) before = before->next;
        before->next = second;
        if (first->last == w) first->last = before;
    }
    l->n_work--;
    w->queued = false;
}

// Where all workers are normal, each takes what comes.
static fxi_work *take_fairly(fxi_workers *ws, thread_kind kind)
{
    const bool may_small = kind == NORMAL || !ws->n_waiting[NORMAL];
    const bool may_large = kind == LOW || !ws->n_low;
    bool large = ws->large.first && may_large;
    if (large && ws->small.first && may_small) {
        large = ws->large_is_next;
        ws->large_is_next = !large;
    }
    if (large) return take_work(&ws->large);
    return may_small ? take_work(&ws->small) : NULL;
}

static void wake_for_small(fxi_workers *ws)
{
    pthread_cond_signal(&ws->some[ws->n_waiting[NORMAL] ? NORMAL : LOW]);
}

// ---- the threads ------------------------------------------------------------------------------

static void *serve_queue(fxi_workers *ws, thread_kind kind)
{
    pthread_mutex_lock(&ws->mu);
    for (;;) {
        fxi_work *w = take_fairly(ws, kind);
        if (!w && ws->stop) break;
        if (!w) {
            ws->n_waiting[kind]++;
            pthread_cond_wait(&ws->some[kind], &ws->mu);
            ws->n_waiting[kind]--;
            continue;
        }
        const bool is_client_work = w->client; // w may be gone once it has run
        ws->n_busy++;
        if (ws->small.first) wake_for_small(ws); // this thread may have been woken for that
        pthread_mutex_unlock(&ws->mu);
        w->run(w);
        pthread_mutex_lock(&ws->mu);
        ws->n_busy--;
        ws->n_done += is_client_work;
    }
    pthread_mutex_unlock(&ws->mu);
    return NULL;
}

static void *run_normal(void *ud)
{
    return serve_queue(ud, NORMAL);
}

// On Linux the priority is the calling thread's own.
static void *run_low(void *ud)
{
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + LOW_NICE);
    return serve_queue(ud, LOW);
}

// ---- life -------------------------------------------------------------------------------------

fx_status fxi_workers_start(int n_thread, fxi_workers **out, fx_error *err)
{
    fxi_workers *ws = calloc(1, sizeof *ws);
    *out = NULL;
    if (ws) ws->thread = calloc((size_t)n_thread, sizeof *ws->thread);
    if (!ws || !ws->thread) {
        free(ws);
        return fxi_fail(err, FX_ENOMEM, "out of memory");
    }
    ws->n_thread = n_thread;
    ws->n_low = n_thread / 2;
    pthread_mutex_init(&ws->mu, NULL);
    for (int k = 0; k < N_KIND; k++) pthread_cond_init(&ws->some[k], NULL);
    for (int e; ws->n_started < n_thread; ws->n_started++) {
        e = pthread_create(&ws->thread[ws->n_started], NULL,
                           ws->n_started < ws->n_low ? run_low : run_normal, ws);
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
    if (w->large)
        pthread_cond_signal(&ws->some[ws->n_low ? LOW : NORMAL]);
    else
        wake_for_small(ws);
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

void fxi_workers_read(fxi_workers *ws, fxi_workers_gauges *out)
{
    pthread_mutex_lock(&ws->mu);
    *out = (fxi_workers_gauges){.n_thread = (uint64_t)ws->n_thread,
                                .n_busy = ws->n_busy,
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
    for (int k = 0; k < N_KIND; k++) pthread_cond_broadcast(&ws->some[k]);
    pthread_mutex_unlock(&ws->mu);
    for (int i = 0; i < ws->n_started; i++) pthread_join(ws->thread[i], NULL);
    for (int k = 0; k < N_KIND; k++) pthread_cond_destroy(&ws->some[k]);
    pthread_mutex_destroy(&ws->mu);
    free(ws->thread);
    free(ws);
}
