// inbox.c - calls from other threads: submit, cancel, change the budget, read statistics.
//
// They leave groups in the inbox and set flags, all under the lock. The engine thread looks at them
// once per turn and sleeps on `wake` while it is idle.
#include "engine/loop/loop.h"
#include "engine/memory/room.h"

#include <string.h>
#include <time.h>

#define OTHERS_SHARE 8 // an eighth of the queue, beyond its limit, is for clients with little in it

// ---- from any thread ---------------------------------------------------------------------------

// Whether n more of something, of which there is `sum` and of one client `own`, may wait. A client
// that has little there finds room beyond the limit, so that nobody fills the queue for others.
static bool has_place(const fxi_group *g, int64_t n, int64_t sum, int64_t own, int64_t most)
{
    const int64_t beyond = g->req.client ? most / OTHERS_SHARE : 0;
    return sum + n <= most || (own + n <= beyond && sum + n <= most + beyond);
}

static fx_status check_queue_locked(const fx_engine *eng, const fxi_group *g, fx_error *err)
{
    static const fxi_client nobody = {0};
    const fx_options *o = &eng->opt;
    const fxi_client *known = fxi_clients_find_locked(eng, g->req.client);
    const fxi_client *c = known ? known : &nobody;
    if (eng->closing) return fxi_fail(err, FX_ECLOSED, "the engine is shutting down");
    if (!has_place(g, g->n_seq, eng->n_queued, c->n_queued, o->max_queue + o->max_seq))
        return fxi_fail(err, FX_EQUEUE, "%d sequences are waiting already", eng->n_queued);
    if (eng->n_queued && !has_place(g, (int64_t)g->req.n_prompt, eng->n_queued_tok, c->n_queued_tok,
                                    o->max_queue_tok))
        return fxi_fail(err, FX_EQUEUE, "%lld prompt tokens are waiting already",
                        (long long)eng->n_queued_tok);
    return FX_OK;
}

static void post_locked(fx_engine *eng, fxi_group *g)
{
    g->id = ++eng->next_id;
    fxi_treap_add(&eng->live, &g->live_at);
    *(eng->inbox_tail ? &eng->inbox_tail->next_inbox : &eng->inbox_head) = g;
    eng->inbox_tail = g;
    eng->stats.n_request++;
    fxi_clients_enter_locked(eng, g);
    fxi_lists_queue_locked(eng, g);
}

static fx_status post_group(fx_engine *eng, fxi_group *g, uint64_t *id, fx_error *err)
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
    const fx_request clean = fxi_request_clean(req);
    FX_TRY(fxi_request_check(eng, &clean, err));
    FX_TRY(fxi_group_make(eng, &clean, fxi_now_ms(eng), &g, err));
    fx_status st = post_group(eng, g, id, err);
    if (st != FX_OK) fxi_group_free(g);
    return st;
}

void fx_cancel(fx_engine *eng, uint64_t id)
{
    pthread_mutex_lock(&eng->mu);
    fxi_group *g = fxi_lists_find_locked(eng, id);
    if (g) {
        atomic_store(&g->cancelled, true);
        atomic_store(&eng->some_cancelled, true);
    }
    pthread_cond_signal(&eng->wake);
    pthread_mutex_unlock(&eng->mu);
}

void fx_stop_choice(fx_engine *eng, uint64_t id, int choice)
{
    _Static_assert(FX_MAX_CHOICE <= 64, "a bit for each choice");
    if (choice < 0 || choice >= FX_MAX_CHOICE) return;
    pthread_mutex_lock(&eng->mu);
    fxi_group *g = fxi_lists_find_locked(eng, id);
    if (g) atomic_fetch_or(&g->stopped, (uint64_t)1 << choice);
    pthread_mutex_unlock(&eng->mu);
}

fx_status fx_set_kv_memory(fx_engine *eng, uint64_t kv_memory_bytes, fx_error *err)
{
    FX_TRY(fxi_budget_check(eng, kv_memory_bytes, err));
    pthread_mutex_lock(&eng->mu);
    eng->budget_bytes = kv_memory_bytes;
    eng->has_new_budget = true;
    pthread_cond_signal(&eng->wake);
    pthread_mutex_unlock(&eng->mu);
    return FX_OK;
}

void fx_clear_cache(fx_engine *eng)
{
    pthread_mutex_lock(&eng->mu);
    eng->must_clear = true;
    pthread_cond_signal(&eng->wake);
    pthread_mutex_unlock(&eng->mu);
}

void fx_engine_stats(const fx_engine *eng, fx_stats *out)
{
    fx_engine *e = (fx_engine *)eng; // only the lock changes
    pthread_mutex_lock(&e->mu);
    *out = eng->stats;
    pthread_mutex_unlock(&e->mu);
}

void fx_engine_details(const fx_engine *eng, fx_details *out)
{
    fx_engine *e = (fx_engine *)eng; // only the lock changes
    pthread_mutex_lock(&e->mu);
    *out = eng->details;
    pthread_mutex_unlock(&e->mu);
}

void fxi_inbox_close(fx_engine *eng)
{
    pthread_mutex_lock(&eng->mu);
    eng->closing = true;
    pthread_cond_signal(&eng->wake);
    pthread_mutex_unlock(&eng->mu);
}

// ---- the engine thread's side ------------------------------------------------------------------

fxi_group *fxi_inbox_take(fx_engine *eng)
{
    pthread_mutex_lock(&eng->mu);
    fxi_group *g = eng->inbox_head;
    eng->inbox_head = eng->inbox_tail = NULL;
    eng->has_new_budget = eng->wants_snapshot = false;
    pthread_mutex_unlock(&eng->mu);
    return g;
}

bool fxi_inbox_take_clear(fx_engine *eng)
{
    pthread_mutex_lock(&eng->mu);
    const bool must = eng->must_clear;
    eng->must_clear = false;
    pthread_mutex_unlock(&eng->mu);
    return must;
}

void fxi_inbox_forget(fx_engine *eng, fxi_group *g)
{
    pthread_mutex_lock(&eng->mu);
    fxi_treap_remove(&eng->live, &g->live_at);
    fxi_clients_leave_locked(eng, g);
    pthread_mutex_unlock(&eng->mu);
    fxi_group_free(g);
}

static void wait_locked(fx_engine *eng, uint64_t max_us)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(max_us % 1000000 * 1000);
    until.tv_sec += (time_t)(max_us / 1000000) + until.tv_nsec / 1000000000l;
    until.tv_nsec %= 1000000000l;
    pthread_cond_timedwait(&eng->wake, &eng->mu, &until);
}

void fxi_inbox_wait(fx_engine *eng, int max_ms)
{
    pthread_mutex_lock(&eng->mu);
    const bool nothing = !eng->closing && !eng->inbox_head && !eng->has_new_budget &&
                         !eng->must_clear && !eng->wants_snapshot;
    if (nothing && max_ms)
        wait_locked(eng, 1000ull * (uint64_t)max_ms);
    else if (nothing)
        pthread_cond_wait(&eng->wake, &eng->mu);
    pthread_mutex_unlock(&eng->mu);
}

static bool is_urgent_locked(const fx_engine *eng)
{
    bool is_urgent = eng->closing;
    for (fxi_treap_node *n = fxi_treap_first(&eng->live); n && !is_urgent; n = fxi_treap_next(n))
        is_urgent = atomic_load(&FXI_TREAP_OF(n, fxi_group, live_at)->cancelled);
    return is_urgent;
}

bool fxi_inbox_wait_others(fx_engine *eng, uint64_t max_us)
{
    pthread_mutex_lock(&eng->mu);
    if (!eng->inbox_head && !is_urgent_locked(eng)) wait_locked(eng, max_us);
    const bool goes_on = !is_urgent_locked(eng);
    pthread_mutex_unlock(&eng->mu);
    return goes_on;
}

bool fxi_inbox_is_closing(fx_engine *eng)
{
    pthread_mutex_lock(&eng->mu);
    bool closing = eng->closing;
    pthread_mutex_unlock(&eng->mu);
    return closing;
}

// ---- statistics --------------------------------------------------------------------------------

static int histogram_bucket(uint64_t value)
{
    int i = 0;
    while (i < FX_N_BUCKET && value > (uint64_t)1 << i) i++;
    return i;
}

static void count_value(fx_histogram *h, uint64_t value)
{
    h->count[histogram_bucket(value)]++;
    h->sum += value;
}

void fxi_inbox_count_step(fx_engine *eng, int n_tok, int n_prompt_tok, int n_generated_tok)
{
    pthread_mutex_lock(&eng->mu);
    count_value(&eng->details.step_tok, (uint64_t)n_tok);
    eng->stats.n_step++;
    eng->stats.n_prompt_tok += (uint64_t)n_prompt_tok;
    eng->stats.n_generated_tok += (uint64_t)n_generated_tok;
    pthread_mutex_unlock(&eng->mu);
}

void fxi_inbox_count_failure(fx_engine *eng, bool device_is_lost)
{
    pthread_mutex_lock(&eng->mu);
    eng->stats.n_failed_step++;
    eng->stats.device_is_lost = device_is_lost;
    pthread_mutex_unlock(&eng->mu);
}

void fxi_inbox_count_lookup(fx_engine *eng, int n_tok, int n_cached_tok)
{
    pthread_mutex_lock(&eng->mu);
    eng->stats.n_lookup_tok += (uint64_t)n_tok;
    eng->stats.n_cached_tok += (uint64_t)n_cached_tok;
    pthread_mutex_unlock(&eng->mu);
}

static void publish_ages_locked(fx_engine *eng)
{
    fxi_kv_prefix_ages ages;
    fxi_kv_get_prefix_ages(eng->kv, &ages);
    eng->details.block_life_ms = ages.life;
    eng->details.block_idle_ms = ages.idle;
    eng->details.block_reuse_ms = ages.reuse;
}

static void note_evicted(fx_engine *eng, uint64_t n_evicted)
{
    const uint32_t n = (uint32_t)(n_evicted - eng->n_evicted);
    if (n) fxi_engine_note(eng, (fx_record){.kind = FX_RECORD_evict, .n = n});
    eng->n_evicted = n_evicted;
}

static uint32_t kib_of(uint64_t bytes)
{
    return bytes >> 10 < UINT32_MAX ? (uint32_t)(bytes >> 10) : UINT32_MAX;
}

static void note_memory(fx_engine *eng, const fxi_kv_stats *kv)
{
    const fx_record now = {.kind = FX_RECORD_memory,
                           .mapped_kib = kib_of(kv->mapped_bytes),
                           .live_kib = kib_of(kv->live_bytes),
                           .shared_kib = kib_of(kv->shared_bytes)};
    if (memcmp(&now, &eng->memory, sizeof now) == 0) return;
    fxi_engine_note(eng, now);
    eng->memory = now;
}

uint64_t fxi_inbox_publish(fx_engine *eng)
{
    fxi_kv_stats kv;
    fxi_kv_get_stats(eng->kv, &kv);
    note_evicted(eng, kv.n_evicted);
    note_memory(eng, &kv);
    pthread_mutex_lock(&eng->mu);
    memcpy(eng->details.kv, eng->kv->calls, sizeof eng->details.kv);
    fxi_kv_driver_calls(eng->kv, eng->details.driver);
    publish_ages_locked(eng);
    eng->stats.n_running = (uint64_t)eng->running.n_seq;
    eng->stats.n_waiting = (uint64_t)eng->n_queued;
    eng->stats.n_waiting_tok = (uint64_t)eng->n_queued_tok;
    eng->stats.kv_budget_bytes = kv.budget_bytes;
    eng->stats.kv_mapped_bytes = kv.mapped_bytes;
    eng->stats.kv_live_bytes = kv.live_bytes;
    eng->stats.kv_cached_bytes = kv.cached_bytes;
    eng->stats.kv_shared_bytes = kv.shared_bytes;
    eng->stats.kv_used_bytes = kv.used_bytes;
    eng->stats.kv_reserved_bytes = kv.reserved_bytes;
    eng->stats.kv_internal_bytes = kv.internal_bytes;
    eng->stats.kv_external_bytes = kv.external_bytes;
    eng->stats.kv_spare_bytes = kv.spare_bytes;
    eng->stats.kv_retired_bytes = kv.retired_bytes;
    eng->stats.kv_mappings = kv.n_mapping;
    eng->stats.kv_max_mappings = kv.max_mapping;
    eng->stats.kv_swapped_bytes = kv.swapped_bytes;
    eng->stats.kv_peak_mapped_bytes = kv.peak_mapped_bytes;
    eng->stats.kv_peak_live_bytes = kv.peak_live_bytes;
    pthread_mutex_unlock(&eng->mu);
    return kv.returning_bytes;
}
