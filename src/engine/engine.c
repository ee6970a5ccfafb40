// engine.c - the engine's thread, its inbox, and the calls other threads may make.
//
// Other threads leave groups in the inbox and set flags; the engine thread looks there once per
// step:
//
//   collect the inbox  ->  end what was cancelled  ->  plan  ->  compute  ->  publish figures
//
// It sleeps on `wake` while it has nothing to do, and after some idle seconds gives spare KV memory
// back to the system.
#include "engine/internal.h"

#include <stdlib.h>
#include <time.h>

#define IDLE_S          5  // idle seconds after which spare KV memory is trimmed
#define IDLE_KEEP_SHARE 16 // 1/16 of the budget stays ready

// ---- groups ------------------------------------------------------------------------------------

void fxi_engine_forget(fx_engine *eng, fxi_group *g)
{
    pthread_mutex_lock(&eng->mu);
    *(g->prev_live ? &g->prev_live->next_live : &eng->live) = g->next_live;
    if (g->next_live) g->next_live->prev_live = g->prev_live;
    pthread_mutex_unlock(&eng->mu);
    fxi_group_free(g);
}

static void post_locked(fx_engine *eng, fxi_group *g)
{
    g->id = ++eng->next_id;
    g->next_live = eng->live;
    if (eng->live) eng->live->prev_live = g;
    eng->live = g;
    *(eng->inbox_tail ? &eng->inbox_tail->next_inbox : &eng->inbox_head) = g;
    eng->inbox_tail = g;
    eng->n_queued += g->req.n_choice;
    eng->stats.n_request++;
}

static fx_status post(fx_engine *eng, fxi_group *g, uint64_t *id, fx_error *err)
{
    fx_status st = FX_OK;
    pthread_mutex_lock(&eng->mu);
    if (eng->closing) {
        st = fxi_fail(err, FX_ECLOSED, "the engine is shutting down");
    } else if (eng->n_queued + g->req.n_choice > eng->opt.max_queue + eng->opt.max_seq) {
        st = fxi_fail(err, FX_EQUEUE, "%d sequences are waiting already", eng->n_queued);
    } else {
        post_locked(eng, g);
        *id = g->id;
        pthread_cond_signal(&eng->wake);
    }
    pthread_mutex_unlock(&eng->mu);
    return st;
}

fx_status fx_submit(fx_engine *eng, const fx_request *req, uint64_t *id, fx_error *err)
{
    fxi_group *g;
    FX_TRY(fxi_group_make(eng, req, &g, err));
    fx_status st = post(eng, g, id, err);
    if (st != FX_OK) fxi_group_free(g);
    return st;
}

void fx_cancel(fx_engine *eng, uint64_t id)
{
    pthread_mutex_lock(&eng->mu);
    for (fxi_group *g = eng->live; g; g = g->next_live)
        if (g->id == id) atomic_store(&g->cancelled, true);
    pthread_cond_signal(&eng->wake);
    pthread_mutex_unlock(&eng->mu);
}

// ---- the thread --------------------------------------------------------------------------------

static fxi_group *take_inbox_locked(fx_engine *eng)
{
    fxi_group *g = eng->inbox_head;
    eng->inbox_head = eng->inbox_tail = NULL;
    return g;
}

// Sleeps until there is something to do; trims once if that takes long.
static void wait_for_work_locked(fx_engine *eng)
{
    bool trimmed = false;
    while (!eng->closing && !eng->inbox_head) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += IDLE_S;
        if (trimmed) {
            pthread_cond_wait(&eng->wake, &eng->mu);
        } else if (pthread_cond_timedwait(&eng->wake, &eng->mu, &until) != 0) {
            trimmed = true;
            pthread_mutex_unlock(&eng->mu);
            (void)eng->kv->ops->trim(eng->kv, eng->opt.kv_memory_bytes / IDLE_KEEP_SHARE, NULL);
            fxi_publish_stats(eng);
            pthread_mutex_lock(&eng->mu);
        }
    }
}

static void enqueue(fx_engine *eng, fxi_group *g)
{
    for (int i = 0; i < g->req.n_choice; i++) fxi_list_push_back(&eng->waiting, &g->seq[i]);
    if (g->max_tok == 0)
        for (int i = 0; i < g->req.n_choice; i++) g->seq[i].finish = FX_FINISH_LENGTH;
}

// Moves new groups to the waiting list. False when the engine is to end.
static bool collect(fx_engine *eng)
{
    pthread_mutex_lock(&eng->mu);
    if (!eng->running.n && !eng->waiting.n) wait_for_work_locked(eng);
    bool go_on = !eng->closing;
    fxi_group *g = take_inbox_locked(eng);
    pthread_mutex_unlock(&eng->mu);
    for (fxi_group *next; g; g = next) {
        next = g->next_inbox;
        enqueue(eng, g);
    }
    return go_on;
}

static void mark(fxi_seq *s, bool all, fx_finish why)
{
    if (s->finish == FX_FINISH_NONE && (all || atomic_load(&s->group->cancelled))) s->finish = why;
}

// Ends the waiting and marks the running sequences that were cancelled, or all of them.
static void end_marked(fx_engine *eng, bool all, fx_finish why)
{
    for (fxi_seq *s = eng->running.head; s; s = s->next) mark(s, all, why);
    for (fxi_seq *s = eng->waiting.head, *next; s; s = next) {
        next = s->next;
        mark(s, all, why);
        if (s->finish == FX_FINISH_NONE) continue;
        fxi_leave_queue(eng, s);
        fxi_seq_finish(eng, s, s->finish);
    }
}

void fxi_publish_stats(fx_engine *eng)
{
    fxi_kv_stats kv;
    eng->kv->ops->stats(eng->kv, &kv);
    pthread_mutex_lock(&eng->mu);
    eng->stats.n_running = (uint64_t)eng->running.n;
    eng->stats.n_waiting = (uint64_t)eng->n_queued;
    eng->stats.kv_budget_bytes = kv.budget_bytes;
    eng->stats.kv_mapped_bytes = kv.mapped_bytes;
    eng->stats.kv_live_bytes = kv.live_bytes;
    eng->stats.kv_peak_mapped_bytes = kv.peak_mapped_bytes;
    eng->stats.kv_peak_live_bytes = kv.peak_live_bytes;
    pthread_mutex_unlock(&eng->mu);
}

static void *engine_main(void *arg)
{
    fx_engine *eng = arg;
    while (collect(eng)) {
        end_marked(eng, false, FX_FINISH_CANCEL);
        fxi_step_run(eng, fxi_plan(eng));
        fxi_publish_stats(eng);
    }
    end_marked(eng, true, FX_FINISH_ABORT);
    fxi_step_run(eng, 0);
    return NULL;
}

// ---- life --------------------------------------------------------------------------------------

static fx_status init_sync(fx_engine *eng, fx_error *err)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    int rc = pthread_mutex_init(&eng->mu, NULL);
    if (!rc) rc = pthread_cond_init(&eng->wake, &attr);
    pthread_condattr_destroy(&attr);
    return rc ? fxi_fail(err, FX_EINTERNAL, "the engine's lock could not be made") : FX_OK;
}

static fx_status start(fx_engine *eng, const fx_options *opt, fx_error *err)
{
    FX_TRY(init_sync(eng, err));
    FX_TRY(fxi_engine_load(eng, opt, err));
    fxi_publish_stats(eng);
    if (pthread_create(&eng->thread, NULL, engine_main, eng) != 0)
        return fxi_fail(err, FX_EINTERNAL, "the engine's thread could not be started");
    return FX_OK;
}

fx_status fx_engine_open(const fx_options *opt, fx_engine **out, fx_error *err)
{
    *out = NULL;
    fx_engine *eng = calloc(1, sizeof *eng);
    if (!eng) return fxi_fail(err, FX_ENOMEM, "no memory for the engine");
    fx_status st = start(eng, opt, err);
    if (st != FX_OK) {
        fxi_engine_unload(eng);
        return st;
    }
    *out = eng;
    return FX_OK;
}

void fx_engine_close(fx_engine *eng)
{
    if (!eng) return;
    pthread_mutex_lock(&eng->mu);
    eng->closing = true;
    pthread_cond_signal(&eng->wake);
    pthread_mutex_unlock(&eng->mu);
    pthread_join(eng->thread, NULL);
    fxi_engine_unload(eng);
}

void fx_engine_stats(const fx_engine *eng, fx_stats *out)
{
    fx_engine *e = (fx_engine *)eng; // the lock is all that changes
    pthread_mutex_lock(&e->mu);
    *out = eng->stats;
    pthread_mutex_unlock(&e->mu);
}
