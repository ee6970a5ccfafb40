// kv_stream.h - /kv/stream and /kv/snapshot: the publisher of snapshots, and its subscribers.
//
//   engine thread   fxi_kv_stream_on_snapshot: there is a newer snapshot; posts a round
//   a worker        the round: makes the text of the newest snapshot once, and gives it to every
//                   subscriber that has sent all before. Others skip it
//   the I/O thread  a subscriber that skipped, and has sent all now, gets another round
//
// The seam to HTTP: job.watches makes a job a subscriber. From then on the I/O thread calls
// fxi_kv_stream_look after each fxi_http_job_wake, and at the time that it returned last, and
// fxi_kv_stream_leave once, when the connection is done. fxi_http_job_waits says whether the job's
// stream has sent everything, fxi_http_job_add gives it a text, fxi_http_job_answer ends a poll.
#ifndef FXI_SERVER_KV_STREAM_H
#define FXI_SERVER_KV_STREAM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "server/work/workers.h"

#define FXI_MAX_SUBSCRIBER 64

struct fxi_http_job;

typedef struct fxi_subscriber { // guarded by fxi_publisher.mu
    struct fxi_http_job *job;
    struct fxi_subscriber *prev, *next;
    uint64_t seen; // number of the snapshot that it has been sent; 0: none
    bool is_listed, has_left;
    bool is_poll; // wants one snapshot as a whole answer
} fxi_subscriber;

// So far, but for n_subscriber.
typedef struct fxi_publisher_counts {
    uint64_t n_subscriber;
    uint64_t n_made, n_sent; // texts made, and sent to a subscriber
    uint64_t n_bytes;        // of those sent
    uint64_t ns;             // CPU time of workers for both
} fxi_publisher_counts;

typedef struct fxi_publisher {
    pthread_mutex_t mu; // taken after server.mu, before job.mu
    // guarded by mu
    fxi_subscriber *first;
    uint64_t number; // of the snapshot in `text`; 0: there is none
    bool is_stale;   // there is a newer snapshot
    bool is_busy;    // a worker runs a round, or will
    fxi_publisher_counts count;
    // the round's own
    fxi_buf text;  // a server-sent event
    fxi_work work; // the workers' queue's own
} fxi_publisher;

struct fxi_http_error;

// The work of the two routes. False: *err says why.
bool fxi_kv_stream_begin(struct fxi_http_job *job, struct fxi_http_error *err);
bool fxi_kv_stream_poll(struct fxi_http_job *job, struct fxi_http_error *err);

// On the I/O thread, for a job that watches: whether one that skipped a text can take it now.
// Returns when to be called again; INFINITY: not before the job is posted.
double fxi_kv_stream_look(struct fxi_http_job *job, double now_s);
void fxi_kv_stream_leave(struct fxi_http_job *job); // its connection is done with it

// There is a new snapshot. ud: the server. On the engine's thread.
void fxi_kv_stream_on_snapshot(void *ud);

#endif
