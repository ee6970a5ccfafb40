// stats.c - see stats.h.
#include "engine/record/stats.h"

#include <string.h>

void fxi_stats_count_request(fxi_statistics *s)
{
    pthread_mutex_lock(&s->mu);
    s->now.n_request++;
    pthread_mutex_unlock(&s->mu);
}

void fxi_stats_count_pass(fxi_statistics *s, int n_tok, int n_prompt_tok, int n_generated_tok)
{
    int bucket = 0;
    while (bucket < FX_N_BUCKET && n_tok > 1 << bucket) bucket++;
    pthread_mutex_lock(&s->mu);
    s->details.step_tok.count[bucket]++;
    s->details.step_tok.sum += (uint64_t)n_tok;
    s->now.n_step++;
    s->now.n_prompt_tok += (uint64_t)n_prompt_tok;
    s->now.n_generated_tok += (uint64_t)n_generated_tok;
    pthread_mutex_unlock(&s->mu);
}

void fxi_stats_count_failure(fxi_statistics *s, bool device_is_lost)
{
    pthread_mutex_lock(&s->mu);
    s->now.n_failed_step++;
    s->now.device_is_lost = device_is_lost;
    pthread_mutex_unlock(&s->mu);
}

void fxi_stats_count_lookup(fxi_statistics *s, int n_tok, int n_cached_tok)
{
    pthread_mutex_lock(&s->mu);
    s->now.n_lookup_tok += (uint64_t)n_tok;
    s->now.n_cached_tok += (uint64_t)n_cached_tok;
    pthread_mutex_unlock(&s->mu);
}

void fxi_stats_count_preemption(fxi_statistics *s, bool is_swap)
{
    pthread_mutex_lock(&s->mu);
    ++*(is_swap ? &s->now.n_preempt_swap : &s->now.n_preempt_recompute);
    pthread_mutex_unlock(&s->mu);
}

void fxi_stats_count_drafts(fxi_statistics *s, const int *n_accepted, int n, int n_tok)
{
    pthread_mutex_lock(&s->mu);
    s->now.n_draft += (uint64_t)n;
    s->now.n_draft_tok += (uint64_t)n_tok;
    for (int i = 0; i < n; i++) {
        s->now.n_accepted_tok += (uint64_t)n_accepted[i];
        for (int k = 0; k < n_accepted[i]; k++) s->details.accepted_at[k]++;
    }
    pthread_mutex_unlock(&s->mu);
}

// ---- the KV manager ----------------------------------------------------------------------------

// X(name): the figures of fxi_kv_stats that fx_stats has as kv_name.
#define KV_FIGURES(X)    \
    X(budget_bytes)      \
    X(mapped_bytes)      \
    X(live_bytes)        \
    X(cached_bytes)      \
    X(shared_bytes)      \
    X(used_bytes)        \
    X(reserved_bytes)    \
    X(internal_bytes)    \
    X(external_bytes)    \
    X(spare_bytes)       \
    X(retired_bytes)     \
    X(swapped_bytes)     \
    X(peak_mapped_bytes) \
    X(peak_live_bytes)

static void publish_details_locked(fxi_statistics *s, const fxi_kv *kv)
{
    fxi_kv_prefix_ages ages;
    fxi_kv_get_prefix_ages(kv, &ages);
    memcpy(s->details.kv, kv->calls, sizeof s->details.kv);
    fxi_kv_driver_calls(kv, s->details.driver);
    s->details.block_life_ms = ages.life;
    s->details.block_idle_ms = ages.idle;
    s->details.block_reuse_ms = ages.reuse;
}

static uint32_t kib_of(uint64_t bytes)
{
    return bytes >> 10 < UINT32_MAX ? (uint32_t)(bytes >> 10) : UINT32_MAX;
}

static void note_changes(fxi_statistics *s, const fxi_journal *j, const fxi_kv_stats *kv)
{
    const uint32_t n_evicted = (uint32_t)(kv->n_evicted - s->n_evicted);
    const fx_record memory = {.kind = FX_RECORD_memory,
                              .mapped_kib = kib_of(kv->mapped_bytes),
                              .live_kib = kib_of(kv->live_bytes),
                              .shared_kib = kib_of(kv->shared_bytes)};
    if (n_evicted) fxi_journal_note(j, (fx_record){.kind = FX_RECORD_evict, .n = n_evicted});
    if (memcmp(&memory, &s->memory, sizeof memory) != 0) fxi_journal_note(j, memory);
    s->n_evicted = kv->n_evicted;
    s->memory = memory;
}

void fxi_stats_publish_kv(fxi_statistics *s, const fxi_journal *j, const fxi_kv *kv,
                          const fxi_kv_stats *now)
{
    note_changes(s, j, now);
    pthread_mutex_lock(&s->mu);
    publish_details_locked(s, kv);
#define PUBLISH(name) s->now.kv_##name = now->name;
    KV_FIGURES(PUBLISH)
#undef PUBLISH
    s->now.kv_mappings = now->n_mapping;
    s->now.kv_max_mappings = now->max_mapping;
    pthread_mutex_unlock(&s->mu);
}
