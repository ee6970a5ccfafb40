// workers.h - the threads that parse, render and tokenize, and the queues of work for them.
//
// There are two classes of work, small and large. Within a class clients take turns, and a client's
// work runs in the order in which it came. Where both classes wait they take turns. Of two or more
// workers half have a low priority: only they run large work, and they yield to all that want a
// core, so that neither the engine nor the I/O thread waits for it. The normal ones run small work
// only: a small request waits for small ones. Low-priority workers help where these do not suffice.
// The queue is intrusive, so posting allocates nothing; it is as long as there are requests, that
// is, as there may be connections.
#ifndef FXI_SERVER_WORKERS_H
#define FXI_SERVER_WORKERS_H

#include <stdbool.h>
#include <stdint.h>

#include "flexinfer/error.h"

typedef struct fxi_work { // one piece of work, inside what it works on
    void (*run)(struct fxi_work *w);
    uint64_t client; // whose turn it takes; 0: the server's own
    bool large;
    // The queue's own.
    bool queued;
    struct fxi_work *next, *last; // of the client; `last` is kept by its first
    struct fxi_work *next_client; // kept by the client's first
} fxi_work;

typedef struct fxi_workers fxi_workers;

typedef struct fxi_workers_gauges { // for metrics
    uint64_t n_thread, n_busy;
    uint64_t n_small, n_large; // waiting
    uint64_t n_done;           // so far, for clients
} fxi_workers_gauges;

// Errors: FX_ENOMEM, FX_EINTERNAL (a thread cannot be started).
fx_status fxi_workers_start(int n_thread, fxi_workers **out, fx_error *err);
// Runs *w on a worker soon. Its memory must stay until then. Never blocks.
void fxi_workers_post(fxi_workers *ws, fxi_work *w);
// Takes *w out of the queue. False: no worker will find it there, because one has taken it, or
// because it was never posted.
bool fxi_workers_drop(fxi_workers *ws, fxi_work *w);
void fxi_workers_read(fxi_workers *ws, fxi_workers_gauges *out);
// Runs what waits, ends the threads and frees everything. Nothing may be posted any more. NULL is
// allowed.
void fxi_workers_stop(fxi_workers *ws);

#endif
