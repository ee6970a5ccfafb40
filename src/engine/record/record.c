// record.c - what an engine notes of itself: the flight recorder's ring, four words for each event
// and two counters; and statistics.
#include "engine/record/record.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

// ---- the flight recorder ------------------------------------------------------------------------

enum { N_WORD = 4 };
_Static_assert(sizeof(fx_record) == N_WORD * sizeof(uint64_t), "an event fills its slot");

typedef struct record_slot {
    _Atomic uint64_t word[N_WORD];
} record_slot;

struct fxi_recorder {
    uint64_t n_slot;
    _Atomic uint64_t begun, done; // events whose writing has begun, and is done
    record_slot slot[];           // [n_slot] event k lies in slot k % n_slot
};

fxi_recorder *fxi_recorder_make(int n)
{
    const size_t n_slot = n ? (size_t)n : FXI_RECORDER_PRESET;
    fxi_recorder *r = calloc(1, sizeof *r + n_slot * sizeof r->slot[0]);
    if (r) r->n_slot = n_slot;
    return r;
}

// Whoever reads a word of this event sees `begun` as it is here, or later.
void fxi_recorder_add(fxi_recorder *r, const fx_record *ev)
{
    uint64_t word[N_WORD];
    if (!r) return;
    const uint64_t k = atomic_load_explicit(&r->done, memory_order_relaxed);
    record_slot *s = &r->slot[k % r->n_slot];
    memcpy(word, ev, sizeof word);
    atomic_store_explicit(&r->begun, k + 1, memory_order_relaxed);
    for (int i = 0; i < N_WORD; i++)
        atomic_store_explicit(&s->word[i], word[i], memory_order_release);
    atomic_store_explicit(&r->done, k + 1, memory_order_release);
}

// The number of the oldest event that is whole when `n` were begun.
static uint64_t oldest_of(const fxi_recorder *r, uint64_t n)
{
    return n > r->n_slot ? n - r->n_slot : 0;
}

// Copies from *first on, and returns how many; *first becomes the oldest of them that is whole.
static size_t copy_once(const fxi_recorder *r, uint64_t *first, fx_record *out, size_t max_n)
{
    const uint64_t done = atomic_load_explicit(&r->done, memory_order_acquire);
    const uint64_t oldest = oldest_of(r, done);
    uint64_t at = *first < oldest ? oldest : *first > done ? done : *first;
    const size_t n = done - at < max_n ? (size_t)(done - at) : max_n;
    for (size_t i = 0; i < n; i++) {
        const record_slot *s = &r->slot[(at + i) % r->n_slot];
        uint64_t word[N_WORD];
        for (int k = 0; k < N_WORD; k++)
            word[k] = atomic_load_explicit(&s->word[k], memory_order_acquire);
        memcpy(&out[i], word, sizeof word);
    }
    const uint64_t whole = oldest_of(r, atomic_load_explicit(&r->begun, memory_order_relaxed));
    const size_t n_lost = whole <= at ? 0 : whole - at < n ? (size_t)(whole - at) : n;
    memmove(out, out + n_lost, (n - n_lost) * sizeof *out);
    *first = at + n_lost;
    return n - n_lost;
}

// Again only if all that was copied has been overwritten meanwhile.
size_t fxi_recorder_copy(const fxi_recorder *r, uint64_t from, fx_record *out, size_t max_n,
                         uint64_t *first)
{
    size_t n;
    *first = r ? from : 0;
    if (!r || !max_n) return 0;
    do n = copy_once(r, first, out, max_n);
    while (!n && *first < atomic_load_explicit(&r->done, memory_order_acquire));
    return n;
}

// ---- statistics ---------------------------------------------------------------------------------

void fxi_stats_add(fxi_statistics *s, uint64_t *figure, uint64_t n)
{
    pthread_mutex_lock(&s->mu);
    *figure += n;
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

static uint32_t kib_of(uint64_t bytes)
{
    return bytes >> 10 < UINT32_MAX ? (uint32_t)(bytes >> 10) : UINT32_MAX;
}

void fxi_stats_publish_kv(fxi_statistics *s, const fxi_journal *j, const fxi_kv *kv,
                          const fxi_kv_stats *now)
{
    const uint32_t n_evicted = (uint32_t)(now->n_evicted - s->n_evicted);
    const fx_record memory = {.kind = FX_RECORD_memory,
                              .mapped_kib = kib_of(now->mapped_bytes),
                              .live_kib = kib_of(now->live_bytes),
                              .shared_kib = kib_of(now->shared_bytes)};
    if (n_evicted) fxi_journal_note(j, (fx_record){.kind = FX_RECORD_evict, .n = n_evicted});
    if (memcmp(&memory, &s->memory, sizeof memory) != 0) fxi_journal_note(j, memory);
    s->n_evicted = now->n_evicted;
    s->memory = memory;
    pthread_mutex_lock(&s->mu);
    fxi_kv_prefix_ages ages;
    fxi_kv_get_prefix_ages(kv, &ages);
    memcpy(s->details.kv, kv->calls, sizeof s->details.kv);
    fxi_kv_driver_calls(kv, s->details.driver);
    s->details.block_life_ms = ages.life;
    s->details.block_idle_ms = ages.idle;
    s->details.block_reuse_ms = ages.reuse;
#define PUBLISH(name) s->now.kv_##name = now->name;
    KV_FIGURES(PUBLISH)
#undef PUBLISH
    s->now.kv_mappings = now->n_mapping;
    s->now.kv_max_mappings = now->max_mapping;
    pthread_mutex_unlock(&s->mu);
}
