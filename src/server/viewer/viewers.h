// viewers.h - who watches the engine through /kv/stream: what the server keeps of them.
//
// Each has the number of the picture that it has been sent. When the engine has taken a new one, a
// worker writes what has changed since; so those who read slowly get fewer and larger changes, and
// nothing queues up.
#ifndef FXI_SERVER_VIEWERS_H
#define FXI_SERVER_VIEWERS_H

#include <pthread.h>
#include <stdbool.h>

#include "base/text/buf.h"
#include "flexinfer/picture.h"

struct fxi_http_job;

typedef struct fxi_viewer {
    // All guarded by fxi_viewers.mu.
    struct fxi_http_job *job;
    struct fxi_viewer *prev, *next;
    const fx_picture *seen; // a reference to the picture that it has; NULL: none yet
    bool is_listed;
    bool is_busy; // a worker writes to it, or will
    bool is_owed; // there is a newer picture than the one it has
    double due_s; // nothing is written before that
} fxi_viewer;

typedef struct fxi_viewers {
    pthread_mutex_t mu; // taken after server.mu, before job.mu
    // guarded by mu
    fxi_viewer *first;
    int n;
    uint64_t from, to; // `text` is the change between these pictures: most viewers need the same
    fxi_buf text;
} fxi_viewers;

#endif
