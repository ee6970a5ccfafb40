// mailbox.h - what other threads leave for the engine thread: new requests, and flags.
//
// The engine thread looks at it once per iteration, and sleeps on `wake` while it is idle.
#ifndef FXI_ENGINE_MAILBOX_H
#define FXI_ENGINE_MAILBOX_H

#include "engine/sched/sched.h"

#include <pthread.h>

typedef struct fxi_mailbox {
    atomic_bool some_cancelled; // requests, since the iteration began
    pthread_mutex_t mu;         // guards the rest, and the table of clients
    pthread_cond_t wake;
    fxi_live_request *head, *tail; // new requests, by next_posted
    fxi_treap live;                // all requests that are not freed yet, by id
    uint64_t next_id;
    // Flags, which change under mu.
    atomic_bool has_new_budget;
    atomic_bool must_clear;     // prefixes are to be forgotten
    atomic_bool wants_snapshot; // a new subscriber waits for one
    atomic_bool is_closing;     // requests are refused
} fxi_mailbox;

int fxi_mailbox_init(fxi_mailbox *m, uint64_t seed); // 0, or an errno
void fxi_mailbox_free(fxi_mailbox *m);

// ---- any thread --------------------------------------------------------------------------------

// Queues a request, which has a client of its own, and gives it an id. Errors: FX_EQUEUE,
// FX_ECLOSED; then it is still the caller's.
fx_status fxi_mailbox_post(fxi_mailbox *m, fxi_sched *d, fxi_live_request *r,
                           const fx_options *limits, uint64_t *id, fx_error *err);
// The request with this id that is not freed yet; NULL: there is none. The caller holds mu.
fxi_live_request *fxi_mailbox_find_locked(const fxi_mailbox *m, uint64_t id);
// Sets one of its flags, or none if `flag` is NULL, and wakes the engine.
void fxi_mailbox_signal(fxi_mailbox *m, atomic_bool *flag);

// ---- engine thread -----------------------------------------------------------------------------

fxi_live_request *fxi_mailbox_take(fxi_mailbox *m); // the new requests, by next_posted; NULL: none
// r is about to be freed: it is no longer found.
void fxi_mailbox_forget(fxi_mailbox *m, fxi_sched *d, fxi_live_request *r);
void fxi_mailbox_wait(fxi_mailbox *m, int max_ms); // for work, at most so long; 0: no limit
// For more requests, while none has been computed yet. False: do not wait any longer, since one was
// cancelled or the engine closes.
bool fxi_mailbox_wait_others(fxi_mailbox *m, uint64_t max_us);

#endif
