// engine.h - what an engine owns, which thread may touch it, and how it is opened.
//
// Calls among these files go down this list only:
//
//   engine, open, api           the thread, what an engine is made of, small public calls
//   gather                      the first request of an idle engine waits for companions
//   device_open                 what it computes on
//   loop/                       what happens in a turn
//     turn, idle                  the loop, the one place where groups end; trimming idle memory
//     plan, prompts, admit, join  which sequences compute what in the next step
//     step, step_batch            one forward pass and what follows from it
//     settle, draw                the results: tokens appended, beams chosen; draws
//     fork                        choices and beams, and forks that fail
//     output                      the events of a request
//     inbox                       calls from other threads: submit, cancel, budget, statistics
//   speculate/                  drafted tokens in a step: found, planned, settled
//   memory/                     the caches of sequences
//     room, budget                memory for a sequence that grows; changing the budget
//     preempt                     groups that leave memory and come back
//     cache                       prefixes recorded and matched
//   group/                      requests as data
//     waiting                     who is next
//     lists                       the state of a group, and the lists by state
//     clients                     what each client has been served, and whose turn it is
//     group, request_check        one request, and its checks
//     beam, embedding, seq, text  beams, vectors, sequences, text that may be shown
//   grammar/                    what answers may look like
//   draft/                      what a sequence may go on with, and how much of it is worth a try
//   sampling/                   from a row of logits to a token
//   record/                     the flight recorder: what the files above note
//   engine_snapshot             the state as data for subscribers, taken between forward passes
//
// Threads: everything belongs to the engine thread, except the atomics and the fields that
// fx_engine marks as guarded by `mu` or constant once open.
#ifndef FXI_ENGINE_H
#define FXI_ENGINE_H

#include "base/fail.h"
#include "engine/engine_snapshot.h"
#include "engine/grammar/answer_grammar.h"
#include "engine/group/group.h"
#include "engine/record/recorder.h"
#include "flexinfer/flexinfer.h"
#include "format/chat.h"
#include "kv/kv.h"
#include "model/model.h"

#include <pthread.h>

enum {
    FXI_MIN_HEADROOM_TOK = 32, // of headroom_tok
    FXI_MASK_SPEND = 4000,     // of mask_spend: 10 to 40 us
    FXI_PREFIX_PASS = 16,      // of fx_options.prefix_pass
};

struct fx_engine {
    // constant once open
    fx_options opt; // defaults filled in; the engine thread updates kv_memory_bytes
    fx_model_info info;
    fxi_vocab *vocab;
    fxi_chat *chat;
    int32_t *end_tok; // [n_end_tok] the vocabulary's end-of-text tokens
    int n_end_tok;
    int ahead_tok;      // room to prefetch for each sequence; 0: none
    struct vt_vmm *vmm; // for tests: memory of the KV manager; NULL: the host's
    int tile_tok;       // rows of the cache that the model's kernels read at once
    bool single_thread; // for tests: the KV manager starts no thread
    const char *root;   // for tests: a folder with the system's files that limit.c reads; "": "/"
    bool is_unguarded;  // for tests: shared KV memory can be written
    // For tests: drafts come from here alone, and all are computed. Writes up to `most` tokens for
    // s and returns how many.
    int (*drafter)(void *ud, const fxi_seq *s, int32_t *tok, int most);
    void *drafter_ud;
    size_t mask_spend; // what a step may spend on grammars, as in fxi_gram_matcher_prepare
    bool is_unpaced;   // for tests: all that can be drafted is computed, whatever it takes
    uint64_t (*now_us)(void *ud); // the clock; called from any thread
    void *now_ud;
    uint64_t secret; // of what clients could steer otherwise: how trees are balanced

    // engine thread
    fxi_pool *pool;
    struct fxi_device *device; // of model, kv and what steps return
    bool is_on_host;           // its memory is the host's
    fxi_model *model;
    fxi_kv *kv;
    fxi_recorder *recorder;                  // any thread reads it; NULL: nothing is recorded
    uint64_t n_evicted;                      // as last noted there,
    fx_record memory;                        // and its last event of that kind
    fxi_group_list waiting, running;         // lists.c; swapped groups are in `waiting`
    fxi_group_list aside;                    // JOINING and COMING: they wait, but not in line
    fxi_treap turn[2 * FX_MAX_PRIORITY + 1]; // clients.c: by priority, first groups in line
    fxi_treap filling;        // seq.c: by domain and tokens, those that compute known ones
    fxi_treap joining;        // seq.c: what JOINING groups wait for, by that
    uint64_t fair_time;       // clients.c: the virtual time, as `served` of a client
    int n_client;             // with groups that are collected
    int n_swapped;            // sequences in the swap, or on their way there or back
    int n_leaving, n_coming;  // those on their way
    int n_planned_tok;        // in the last turn
    bool some_wait_decided;   // groups got into `waiting` or `aside` whose end is decided
    bool budget_waits;        // a smaller budget, for memory on its way: nobody is admitted
    bool budget_follows;      // it is in effect, and memory beyond it is still going back
    bool is_forgetting;       // room.c: a group starts again once all prefixes are forgotten
    uint64_t returning_bytes; // that go back to the system, after the last turn
    uint64_t return_mark;     // and with prefixes evicted: how far that is
    int return_wait_ms;       // idle.c: until it looks again how far that is
    int headroom_tok;         // room promised to each running sequence at an admission
    uint64_t n_turn;
    size_t mask_left;   // what the step may still spend on grammars (hold.c)
    _Atomic int n_held; // sequences that sit out the step for their grammar; any thread reads it
    uint64_t n_freed;   // grows whenever a group that found no room may find some
    double us_per_tok;  // measured time of a prompt token; 0: not yet
    double swap_us_per_byte;  // measured, of the copies, one way
    fxi_kv_moved measured;    // of them: what swap_us_per_byte has seen
    double copy_share;        // of the steps' time that a copy takes from those that run beside it
    uint64_t idle_since_us;   // 0: busy
    int n_idle_done;          // idle.c: actions taken since then
    bool is_gathering;        // gather.c: those that wait found the engine idle, and are delayed
    uint64_t gather_since_us; // from here on
    struct fxi_step *step;    // step_scratch.c
    struct fxi_draft_model *draft_model; // draft_model.h; NULL: there is none
    struct fxi_speculator *spec;         // speculate.h; NULL: it does not speculate
    struct fxi_reader *reader;           // [max_seq] scratch of prompts.c
    int n_reader;                        // of the step that was planned last
    pthread_t thread;
    pid_t pid; // of the process that opened it

    fxi_answer_vocab answer_vocab; // with a lock of its own; any thread
    fxi_snapshots snapshots;       // its own locks

    pthread_mutex_t step_mu;   // held while on_step runs
    void (*on_step)(void *ud); // guarded by step_mu
    void *on_step_ud;

    _Atomic uint64_t budget_bytes; // the budget requested last; opt.kv_memory_bytes is in effect
    atomic_bool some_cancelled;    // groups, since the turn began
    uint64_t limit_bytes;          // limit.c: the most that the system leaves for it
    uint64_t limit_look_ms;        // when it was looked at
    bool limit_is_near;            // half of the reserve is gone: memory goes back at once

    // guarded by mu
    pthread_mutex_t mu;
    pthread_cond_t wake;
    fxi_group *inbox_head, *inbox_tail;
    fxi_treap live;        // all groups that are not freed yet, by id
    fxi_treap client;      // those that have groups, and some that had, by number
    fxi_treap idle_client; // those that had, by `served`
    int n_idle_client;
    int n_queued;         // sequences in the inbox or waiting
    int64_t n_queued_tok; // their prompt tokens, each prompt once
    bool has_new_budget;  // wakes the engine thread
    bool must_clear;      // the same: prefixes are to be forgotten
    bool wants_snapshot;  // the same: a new subscriber waits for one
    uint64_t next_id;
    bool closing;
    fx_stats stats;
    fx_details details;
};

static inline uint64_t fxi_now_us(const fx_engine *eng)
{
    return eng->now_us(eng->now_ud);
}

static inline uint64_t fxi_now_ms(const fx_engine *eng)
{
    return fxi_now_us(eng) / 1000;
}

// Notes an event in the flight recorder, with the time.
static inline void fxi_engine_note(const fx_engine *eng, fx_record ev)
{
    if (!eng->recorder) return;
    ev.at_us = fxi_now_us(eng);
    fxi_recorder_add(eng->recorder, &ev);
}

// The same for a call of the KV manager that has just returned st.
static inline void fxi_engine_note_call(const fx_engine *eng, fx_record ev, fx_status st)
{
    const uint64_t ns = eng->kv->last_ns;
    ev.took_ns = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
    ev.status = (uint8_t)st;
    fxi_engine_note(eng, ev);
}

// An event about the cache of s, which has or had n_tok tokens.
static inline fx_record fxi_engine_seq_event(int kind, const fxi_seq *s, int n_tok)
{
    return (fx_record){.kind = (uint8_t)kind,
                       .request = s->group->id,
                       .choice = (uint16_t)s->choice,
                       .n_tok = (uint32_t)n_tok,
                       .n = 1};
}

// engine.c
// What the engine's thread does: turns until fxi_inbox_close, then ends all groups.
void fxi_engine_run(fx_engine *eng);

// gather.c
// Before a turn: collects the inbox. How long the turn is to be put off for companions of the
// requests that found the engine idle; 0: it is due. To be called again after each arrival.
uint64_t fxi_gather_wait_us(fx_engine *eng);

// open.c
// Gives a zeroed engine its clock, its lock and the settings that are not options.
fx_status fxi_engine_init(fx_engine *eng, fx_error *err);
// Loads everything that the options name; neither `opt` nor its strings are needed afterwards.
fx_status fxi_engine_load(fx_engine *eng, const fx_options *opt, fx_error *err);
// The last part of that, once model and vocabulary are loaded: end tokens, KV manager, scratch.
fx_status fxi_engine_fit(fx_engine *eng, fx_error *err);
// Checks options and files without loading weights. Errors: those of fx_engine_open.
fx_status fxi_engine_check(fx_engine *eng, const fx_options *opt, fx_model_info *out,
                           fx_error *err);
// Frees an engine, including one that is only partly initialised or loaded.
void fxi_engine_unload(fx_engine *eng);

#endif
