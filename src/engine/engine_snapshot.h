// engine_snapshot.h - snapshots of the engine: their subscribers, and the newest one.
//
// The engine thread takes them; flexinfer/snapshot.h has what other threads may call.
#ifndef FXI_ENGINE_SNAPSHOT_H
#define FXI_ENGINE_SNAPSHOT_H

#include "flexinfer/snapshot.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct fxi_snapshots {
    _Atomic int n_subscriber;  // changes under mu
    pthread_mutex_t mu;        // a leaf
    const fx_snapshot *newest; // guarded by mu; NULL: none, or no subscribers
    _Atomic uint64_t cost_us;  // CPU time that the newest has taken so far
    pthread_mutex_t tell_mu;   // held while `tell` runs
    void (*tell)(void *ud);    // guarded by tell_mu
    void *tell_ud;
    uint64_t n_taken, taken_us; // engine thread; taken_us: when the newest was taken
} fxi_snapshots;

// Engine thread, between forward passes: takes a snapshot if there are subscribers and one is due.
// Returns in how many milliseconds the next one is, if what has changed is to be in it; 0: nothing
// is owed.
int fxi_snapshot_act(fx_engine *eng);

#endif
