// fake_snapshots.h - snapshots of the fake engine: there is a new one when a test says so.
#ifndef FAKE_SNAPSHOTS_H
#define FAKE_SNAPSHOTS_H

#include "flexinfer/snapshot.h"

typedef struct fake_snapshots {
    int n_subscriber;    // subscriptions that have not ended
    int n_alive;         // snapshots that are referenced, the newest one included
    uint64_t charged_us; // so far
} fake_snapshots;

fake_snapshots fake_snapshots_counts(void);
// Takes a snapshot of so many requests, and tells of it as the engine does. Nothing happens without
// subscribers.
void fake_snapshots_take(int n_request);

#endif
