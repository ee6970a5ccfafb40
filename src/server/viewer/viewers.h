// viewers.h - who watches the engine through /kv/stream: what the server keeps of them.
//
// Each has the number of the picture that it has been sent. When the engine has taken a new one, a
// worker writes what has changed since to all who have taken everything before, in one round: the
// text is made once for those who have the same picture, which most do. Those who read slowly get
// fewer and larger changes, and nothing queues up.
#ifndef FXI_SERVER_VIEWERS_H
#define FXI_SERVER_VIEWERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "flexinfer/picture.h"
#include "server/work/workers.h"

#define FXI_MAX_VIEWER 64

struct fxi_http_job;

typedef struct fxi_viewer {
    // All guarded by fxi_viewers.mu.
    struct fxi_http_job *job;
    struct fxi_viewer *prev, *next;
    const fx_picture *seen; // a reference to the picture that it has; NULL: none yet
    bool is_listed, has_left;
    bool is_owed; // there is a newer picture than the one it has, or it has none
    double ask_s; // the engine is not asked for one before that
} fxi_viewer;

// So far, but for n_viewer.
typedef struct fxi_viewers_counts {
    uint64_t n_viewer;
    uint64_t n_made, n_sent; // texts, whole pictures and changes: made, and sent to a viewer
    uint64_t n_bytes;        // of those sent
    uint64_t ns;             // CPU time of workers for both
} fxi_viewers_counts;

typedef struct fxi_viewers {
    pthread_mutex_t mu; // taken after server.mu, before job.mu
    // guarded by mu
    fxi_viewer *first;
    bool is_busy; // a worker writes to them, or will
    fxi_viewers_counts count;
    fxi_work work; // the workers' queue's own
} fxi_viewers;

#endif
