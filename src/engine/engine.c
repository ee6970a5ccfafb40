// engine.c - the engine's thread, its inbox, and the calls other threads may make.
//
// Other threads leave groups in the inbox and set flags; the engine thread looks there once per
// turn:
//
//   collect the inbox  ->  another budget  ->  end what was cancelled  ->  plan  ->  compute
//   ->  publish figures
//
// It sleeps on `wake` while it has nothing to do. What is not used goes back to the system by
// itself: spare memory after some seconds, the prefix cache after some minutes.
#include "base/clock.h"
#include "engine/internal.h"

#include <stdlib.h>
#include <time.h>

#define IDLE_KEEP_SHARE  16 // 1/16 of the budget stays ready when spare memory goes
#define MIN_HEADROOM_TOK 32
#define AHEAD_TOK        16
#define RETRY_TURNS      8
#define SWAP_US_PER_BYTE 1e-3 // until it has been measured

uint64_t fxi_now_ms(const fx_engine *eng)
{
    return eng->now_us(eng->now_ud) / 1000;
}

// ---- groups ------------------------------------------------------------------------------------

void fxi_engine_forget(fx_engine *eng, fxi_group *g)
{
    pthread_mutex_lock(&eng->mu);
    *(g->prev_live ? &g->prev_live->next_live : &eng->live) = g->next_live;
    if (g->next_live) g->next_live->prev_live = g->prev_live;
    pthread_mutex_unlock(&eng->mu);
    fxi_group_free(g);
}

static void count_queue_locked(fx_engine *eng, const fxi_group *g, int sign)
{
    eng->n_queued += sign * g->n_seq;
    eng->n_queued_tok += sign * (int64_t)g->req.n_prompt;
}

void fxi_count_queue(fx_engine *eng, const fxi_group *g, int sign)
{
    pthread_mutex_lock(&eng->mu);
    count_queue_locked(eng, g, sign);
    pthread_mutex_unlock(&eng->mu);
}

static void post_locked(fx_engine *eng, fxi_group *g)
{
    g->id = ++eng->next_id;
    g->next_live = eng->live;
    if (eng->live) eng->live->prev_live = g;
    eng->live = g;
    *(eng->inbox_tail ? &eng->inbox_tail->next_inbox : &eng->inbox_head) = g;
    eng->inbox_tail = g;
    eng->stats.n_request++;
    count_queue_locked(eng, g, +1);
}

static fx_status check_queue_locked(const fx_engine *eng, const fxi_group *g, fx_error *err)
{
    if (eng->closing) return fxi_fail(err, FX_ECLOSED, "the engine is shutting down");
    if (eng->n_queued + g->n_seq > eng->opt.max_queue + eng->opt.max_seq)
        return fxi_fail(err, FX_EQUEUE, "%d sequences are waiting already", eng->n_queued);
    if (eng->n_queued && eng->n_queued_tok + (int64_t)g->req.n_prompt > eng->opt.max_queue_tok)
        return fxi_fail(err, FX_EQUEUE, "%lld prompt tokens are waiting already",
                        (long long)eng->n_queued_tok);
    return FX_OK;
}

static fx_status post(fx_engine *eng, fxi_group *g, uint64_t *id, fx_error *err)
{
    pthread_mutex_lock(&eng->mu);
    fx_status st = check_queue_locked(eng, g, err);
    if (st == FX_OK) {
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

fx_status fx_set_kv_memory(fx_engine *eng, uint64_t kv_memory_bytes, fx_error *err)
{
    FX_TRY(fxi_engine_check_budget(eng, kv_memory_bytes, err));
    pthread_mutex_lock(&eng->mu);
    eng->budget_bytes = kv_memory_bytes;
    eng->has_new_budget = true;
    pthread_cond_signal(&eng->wake);
    pthread_mutex_unlock(&eng->mu);
    return FX_OK;
}

// ---- idle --------------------------------------------------------------------------------------

static void trim_spare(fx_engine *eng)
{
    (void)fxi_kv_trim(eng->kv, eng->opt.kv_memory_bytes / IDLE_KEEP_SHARE);
}

static void forget_prefixes(fx_engine *eng)
{
    (void)fxi_kv_forget_idle(eng->kv);
    (void)fxi_kv_trim(eng->kv, 0);
}

// What is done when there has been nothing to do for so long.
static const struct idle_row {
    uint64_t after_us;
    void (*act)(fx_engine *eng);
} idle_rows[] = {
    {5 * 1000000ull, trim_spare},
    {600 * 1000000ull, forget_prefixes},
};
enum { N_IDLE = sizeof idle_rows / sizeof idle_rows[0] };

static void publish_stats(fx_engine *eng)
{
    fxi_kv_stats kv;
    fxi_kv_get_stats(eng->kv, &kv);
    pthread_mutex_lock(&eng->mu);
    eng->stats.n_running = (uint64_t)eng->running.n_seq;
    eng->stats.n_waiting = (uint64_t)eng->n_queued;
    eng->stats.n_waiting_tok = (uint64_t)eng->n_queued_tok;
    eng->stats.kv_budget_bytes = kv.budget_bytes;
    eng->stats.kv_mapped_bytes = kv.mapped_bytes;
    eng->stats.kv_live_bytes = kv.live_bytes;
    eng->stats.kv_cached_bytes = kv.cached_bytes;
    eng->stats.kv_swapped_bytes = kv.swapped_bytes;
    eng->stats.kv_peak_mapped_bytes = kv.peak_mapped_bytes;
    eng->stats.kv_peak_live_bytes = kv.peak_live_bytes;
    pthread_mutex_unlock(&eng->mu);
}

static void be_idle(fx_engine *eng)
{
    const uint64_t now = eng->now_us(eng->now_ud);
    if (!eng->idle_since_us) {
        eng->idle_since_us = now;
        eng->n_idle_done = 0;
    }
    while (eng->n_idle_done < N_IDLE &&
           now - eng->idle_since_us >= idle_rows[eng->n_idle_done].after_us)
        idle_rows[eng->n_idle_done++].act(eng);
}

// Sleeps until there is something to do, or the next thing that is done when idle is due.
static void wait_for_work(fx_engine *eng)
{
    struct timespec until;
    pthread_mutex_lock(&eng->mu);
    const bool nothing = !eng->closing && !eng->inbox_head && !eng->has_new_budget;
    if (nothing && eng->n_idle_done < N_IDLE) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += (time_t)(idle_rows[eng->n_idle_done].after_us / 1000000);
        pthread_cond_timedwait(&eng->wake, &eng->mu, &until);
    } else if (nothing) {
        pthread_cond_wait(&eng->wake, &eng->mu);
    }
    pthread_mutex_unlock(&eng->mu);
}

// ---- the loop ----------------------------------------------------------------------------------

// Moves new groups to the waiting list.
static void collect(fx_engine *eng)
{
    pthread_mutex_lock(&eng->mu);
    fxi_group *g = eng->inbox_head;
    eng->inbox_head = eng->inbox_tail = NULL;
    eng->has_new_budget = false;
    pthread_mutex_unlock(&eng->mu);
    for (fxi_group *next; g; g = next) {
        next = g->next_inbox;
        fxi_group_insert(&eng->waiting, g);
        if (!g->max_tok && !g->req.prompt_logprobs) fxi_group_finish(g, FX_FINISH_LENGTH);
    }
}

static void end_some(fx_engine *eng, fxi_group *g, bool all, fx_finish why)
{
    for (fxi_group *next; g; g = next) {
        next = g->next;
        if (all || atomic_load(&g->cancelled)) fxi_group_finish(g, why);
        (void)fxi_answer_end(eng, g);
    }
}

void fxi_engine_end_all(fx_engine *eng, fx_finish why)
{
    collect(eng);
    end_some(eng, eng->running.head, true, why);
    end_some(eng, eng->waiting.head, true, why);
}

// Less headroom is asked for with each turn without a preemption. That, and what the manager gives
// back beside us, is looked at every few turns.
static void relax(fx_engine *eng)
{
    if (eng->headroom_tok > MIN_HEADROOM_TOK) eng->headroom_tok--;
    if (++eng->n_turn % RETRY_TURNS == 0) eng->n_freed++;
}

bool fxi_engine_turn(fx_engine *eng)
{
    collect(eng);
    fxi_apply_budget(eng);
    end_some(eng, eng->running.head, false, FX_FINISH_CANCEL);
    end_some(eng, eng->waiting.head, false, FX_FINISH_CANCEL);
    relax(eng);
    const bool busy = eng->running.head || eng->waiting.head;
    if (busy) {
        eng->idle_since_us = 0;
        fxi_step_run(eng, fxi_plan(eng));
    } else {
        be_idle(eng);
    }
    publish_stats(eng);
    return busy;
}

static bool is_closing(fx_engine *eng)
{
    pthread_mutex_lock(&eng->mu);
    bool closing = eng->closing;
    pthread_mutex_unlock(&eng->mu);
    return closing;
}

static void *engine_main(void *arg)
{
    fx_engine *eng = arg;
    while (!is_closing(eng))
        if (!fxi_engine_turn(eng)) wait_for_work(eng);
    fxi_engine_end_all(eng, FX_FINISH_ABORT);
    return NULL;
}

// ---- life --------------------------------------------------------------------------------------

static uint64_t monotonic_us(void *ud)
{
    (void)ud;
    return (uint64_t)(fxi_now_s() * 1e6);
}

fx_status fxi_engine_init(fx_engine *eng, fx_error *err)
{
    eng->now_us = monotonic_us;
    eng->headroom_tok = MIN_HEADROOM_TOK;
    eng->ahead_tok = AHEAD_TOK;
    eng->n_freed = 1;
    eng->swap_us_per_byte = SWAP_US_PER_BYTE;
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
    FX_TRY(fxi_engine_init(eng, err));
    FX_TRY(fxi_engine_load(eng, opt, err));
    publish_stats(eng);
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
