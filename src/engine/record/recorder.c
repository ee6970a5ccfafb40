// recorder.c - the ring: four words for each event, and two counters.
#include "engine/record/recorder.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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

void fxi_recorder_free(fxi_recorder *r)
{
    free(r);
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

static void read_slot(const fxi_recorder *r, uint64_t k, fx_record *out)
{
    const record_slot *s = &r->slot[k % r->n_slot];
    uint64_t word[N_WORD];
    for (int i = 0; i < N_WORD; i++)
        word[i] = atomic_load_explicit(&s->word[i], memory_order_acquire);
    memcpy(out, word, sizeof word);
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
    for (size_t i = 0; i < n; i++) read_slot(r, at + i, &out[i]);
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
