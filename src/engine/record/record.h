// record.h - what an engine notes of itself: the flight recorder and statistics.
#ifndef FXI_ENGINE_RECORD_H
#define FXI_ENGINE_RECORD_H

#include <pthread.h>

#include "flexinfer/flexinfer.h"
#include "kv/kv.h"

// ---- the flight recorder ------------------------------------------------------------------------

// The flight recorder: a ring of the engine's last events, always on.
//
// The engine thread adds events; it neither waits nor allocates. Any thread copies what is there.
// A slot is overwritten while it may be read, so its words are atomic, and the writer says which
// event it is about to write (`begun`) before it touches the slot. A reader that has seen a word
// of a newer event sees its number too, and drops what that one has overwritten: every event that
// is returned is whole.

typedef struct fxi_recorder fxi_recorder;

enum { FXI_RECORDER_PRESET = 1 << 16 }; // events, 2 MiB

// A ring of the last n events, for free(); 0: FXI_RECORDER_PRESET. NULL: no memory.
fxi_recorder *fxi_recorder_make(int n);

// One thread only. NULL is allowed: nothing is kept.
void fxi_recorder_add(fxi_recorder *r, const fx_record *ev);
// Any thread; as fx_record_copy.
size_t fxi_recorder_copy(const fxi_recorder *r, uint64_t from, fx_record *out, size_t max_n,
                         uint64_t *first);

// The clock of an engine, and the recorder that is told with the time.
typedef struct fxi_journal {
    uint64_t (*now_us)(void *ud); // monotonic; called from any thread
    void *now_ud;
    fxi_recorder *recorder; // NULL: nothing is recorded
} fxi_journal;

static inline uint64_t fxi_journal_us(const fxi_journal *j)
{
    return j->now_us(j->now_ud);
}

static inline uint64_t fxi_journal_ms(const fxi_journal *j)
{
    return fxi_journal_us(j) / 1000;
}

// Notes an event with the time. Engine thread.
static inline void fxi_journal_note(const fxi_journal *j, fx_record ev)
{
    if (!j->recorder) return;
    ev.at_us = fxi_journal_us(j);
    fxi_recorder_add(j->recorder, &ev);
}

// The same for a call of the KV manager that took so many ns and returned st.
static inline void fxi_journal_note_call(const fxi_journal *j, fx_record ev, uint64_t ns,
                                         fx_status st)
{
    ev.took_ns = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
    ev.status = (uint8_t)st;
    fxi_journal_note(j, ev);
}

// ---- statistics ---------------------------------------------------------------------------------

// The statistics of an engine: what fx_engine_stats and fx_engine_details return.

typedef struct fxi_statistics {
    pthread_mutex_t mu; // a leaf
    fx_stats now;       // guarded by mu
    fx_details details; // guarded by mu
    // engine thread: what the flight recorder was told last
    uint64_t n_evicted;
    fx_record memory;
} fxi_statistics;

void fxi_stats_add(fxi_statistics *s, uint64_t *figure, uint64_t n); // of s->now; any thread
// A forward pass over n_tok tokens, n_prompt_tok of them from prompts, after which n_generated_tok
// were sampled.
void fxi_stats_count_pass(fxi_statistics *s, int n_tok, int n_prompt_tok, int n_generated_tok);
void fxi_stats_count_failure(fxi_statistics *s, bool device_is_lost); // of a forward pass
// n drafts were computed; the i-th had n_accepted[i] tokens accepted, of n_tok in all of them.
void fxi_stats_count_drafts(fxi_statistics *s, const int *n_accepted, int n, int n_tok);
// What the KV manager says at the end of an iteration, here and in the flight recorder. Engine
// thread.
void fxi_stats_publish_kv(fxi_statistics *s, const fxi_journal *j, const fxi_kv *kv,
                          const fxi_kv_stats *now);

#endif
