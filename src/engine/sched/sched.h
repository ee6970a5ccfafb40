// sched.h - which requests wait and which run, in the order in which they are served, and what each
// client has been served.
//
// The first request in line, by arrival and priority, decides which priority is served next, so no
// priority waits for ever. Among the clients that wait with that priority, the one that has been
// served least goes first (sched.c).
//
// Everything belongs to the engine thread, except for the atomics and what is marked as guarded by
// the mailbox's mu.
#ifndef FXI_ENGINE_SCHED_H
#define FXI_ENGINE_SCHED_H

#include "engine/record/record.h"
#include "engine/request/request.h"

// Requests in the order in which they are served: by order_ms, ties by id.
typedef struct fxi_request_list {
    fxi_live_request *head, *tail;
    fxi_treap at; // finds a new request's place
    int n_seq;    // of all its requests
} fxi_request_list;

// A number that requests came with (fx_request.client).
typedef struct fxi_client {
    uint64_t number;
    fxi_treap_node known_at;      // guarded by the mailbox's mu, with:
    fxi_treap_node idle_at;       // where it has no request
    int n_request;                // that are not freed yet
    _Atomic int n_queued;         // sequences of it in the mailbox or waiting
    _Atomic int64_t n_queued_tok; // their prompt tokens, each prompt once
    // engine thread
    int n_collected; // requests taken from the mailbox
    uint64_t served; // what it has been served, in fractions of a prompt token
    int n_waiting;   // requests that wait
    fxi_treap line;  // those of them that are in sched.waiting, by priority and order
} fxi_client;

typedef struct fxi_clients {
    uint64_t seed;   // balances trees; clients must not be able to guess it
    fxi_treap known; // guarded by the mailbox's mu: those that have requests, and some that had
    fxi_treap idle;  // the same: those that had, by `served`
    int n_idle;      // the same
    int n_collected; // clients with requests that were taken from the mailbox
    uint64_t time;   // the virtual time, in the unit of fxi_client.served
    fxi_treap turn[2 * FX_MAX_PRIORITY + 1]; // by priority: the first requests in line
} fxi_clients;

typedef struct fxi_sched {
    const fxi_journal *journal;
    fxi_clients clients;
    fxi_request_list waiting, running; // swapped requests are in `waiting`
    fxi_request_list aside;            // JOINING and SWAPPING_IN: they wait, but not in line
    fxi_treap filling;                 // sequences that compute known tokens, by domain and tokens
    fxi_treap joining;                 // what JOINING requests wait for, by that
    int n_swapped;                     // sequences in the swap, or on their way there or back
    int n_swapping_out, n_swapping_in; // those on their way
    bool some_wait_decided; // requests got into `waiting` or `aside` whose end is decided
    uint64_t n_iteration;
    uint64_t n_freed;     // grows whenever a request that found no memory may find some
    int headroom_tok;     // memory promised to each running sequence at an admission (admit.c)
    _Atomic int n_queued; // sequences in the mailbox or waiting
    _Atomic int64_t n_queued_tok; // their prompt tokens, each prompt once
    // sequences whose grammar is not ready
    size_t mask_spend; // what an iteration may spend on grammars, as in fxi_gram_matcher_prepare
    size_t mask_left;  // what is left of it
    _Atomic int n_deferred; // sequences that sit out the pass
} fxi_sched;

// ---- sched.c -----------------------------------------------------------------------------------

void fxi_sched_init(fxi_sched *d, const fxi_journal *journal, uint64_t seed); // of zeroes
// Changes the state of a request, and with it its list and every counter that depends on states.
void fxi_sched_move(fxi_sched *d, fxi_live_request *r, fxi_request_state to);
void fxi_sched_count_queued(fxi_sched *d, const fxi_live_request *r, int sign); // any thread
// The first request in line of the client that is to be served next. NULL: none is in line.
fxi_live_request *fxi_sched_first(fxi_sched *d);
// r, of the client whose turn it is, is tried next: it passes those before it and keeps that place,
// so that it is preempted after them.
void fxi_sched_pick(fxi_sched *d, fxi_live_request *r);

// Call when s->is_filling has changed.
void fxi_sched_list_filling(fxi_sched *d, fxi_seq *s);
// The requests that wait for the first n_tok tokens of s, or for fewer, need not wait any longer.
void fxi_sched_release_joined(fxi_sched *d, const fxi_seq *s, int n_tok);
fxi_live_request *fxi_sched_released(const fxi_sched *d); // one of these; NULL: there is none

// Finding out what a grammar allows next may take the engine thread a bounded time in each
// iteration, for all sequences together. What takes longer is left to a worker (grammars.c).
// A sequence whose grammar is not ready when its row has been computed is late: it is not sampled,
// its last token is computed again, and it sits out passes until the grammar is ready. A beam,
// and a prompt that is computed whole, sits out from the beginning. When a token is sampled does
// not change which one it is.
void fxi_defer_unready(fxi_sched *d,
                       fxi_live_request *r);     // which of its sequences sit out: is_deferred
bool fxi_defer_sample(fxi_sched *d, fxi_seq *s); // whether s, all computed, is late: s->is_late

// ---- sched.c: ..._locked: the caller holds the mailbox's mu ----------------------------------

void fxi_clients_free(fxi_clients *c);                                      // no request is left
fxi_client *fxi_client_make(const fxi_clients *c, uint64_t number);         // NULL: no memory
fxi_client *fxi_clients_find_locked(const fxi_clients *c, uint64_t number); // NULL: not known
// A NEW request, from any thread. r->client is its own, and is freed if it is known already.
void fxi_clients_enter_locked(fxi_clients *c, fxi_live_request *r);
void fxi_clients_leave_locked(fxi_clients *c, fxi_live_request *r); // r is about to be freed
void fxi_clients_collect(fxi_clients *c, fxi_live_request *r);      // r was taken from the mailbox

// So many tokens of prompts are computed for it, or were generated.
void fxi_clients_serve(fxi_clients *c, fxi_client *to, int n_prompt_tok, int n_generated_tok);

fxi_live_request *fxi_clients_after(
    const fxi_live_request *r); // next in line, of one client and priority

#endif
