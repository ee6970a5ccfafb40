// conn.h - connections, and the one thread that serves them: the loop.
//
//   FRESH -> HEAD -> BODY -> BUSY -> IDLE -> HEAD -> ..    BUSY -> LINGER    any -> CLOSED
//
//   phase    step (conn.c)         what the loop awaits     what ends the phase
//   FRESH    -                     the first byte           a byte, 408 when it is late
//   HEAD     take_head             the rest of the head     the head is whole, or refused: BODY
//   BODY     take_body             the rest of the body     the body is whole: BUSY
//   BUSY     continue_response     a job that is posted;    the response has been sent: IDLE or
//                                  that the client reads    LINGER; the client hangs up: CLOSED
//   IDLE     -                     the next request         a byte: HEAD
//   LINGER   drop_input            that the client closes   the end, or its deadline: CLOSED
//
// All of it belongs to the I/O thread, but for the members of fxi_loop that say otherwise. Other
// threads post a job to the loop when it has something to send, and the loop looks at its
// connection.
#ifndef FXI_SERVER_CONN_H
#define FXI_SERVER_CONN_H

#include <pthread.h>

#include "server/guard/places.h"
#include "server/http/head.h"
#include "server/http/transport.h"

enum {
    FXI_MAX_HEAD_BYTES = 16 << 10,
    FXI_CONN_IN_BYTES = 2 * FXI_MAX_HEAD_BYTES, // the head stays while the body arrives after it
    FXI_CONN_OUT_BYTES = FXI_MAX_HEAD_BYTES + (8 << 10) // a head repeats a part of the request's
};

struct fxi_server;
struct fxi_http_job;

typedef struct fxi_conn {
    fxi_place place; // first
    struct fxi_server *srv;
    struct fxi_conn *next_dead; // closed in this round
    bool is_spare;              // the loop's own, for when there is no memory
    fxi_transport io;
    uint32_t interest; // events of epoll that are asked for

    // The request that arrives or is answered: in[0..n_head) is its head, in[at..n_in) has not been
    // read yet.
    struct fxi_http_job *job; // a reference; NULL: no head is complete
    fxi_head head;
    size_t n_head, at, n_in, n_seen;
    uint64_t n_left; // of the body, if it is not chunked
    fxi_chunks chunks;
    uint64_t n_dropped; // bytes that came in LINGER

    // Its response: out[out_from..out_to), then rest[0..n_rest), then what the job's stream has.
    bool is_answered; // a response has begun
    bool is_stream, has_chunks, must_close;
    bool half_closed; // the client sends no more, but takes the response
    size_t out_from, out_to;
    const char *rest; // static, or the job's
    size_t n_rest;

    // How the client reads it.
    uint64_t n_out;      // bytes that the socket took
    double last_out_s;   // when it took the last ones
    double window_s;     // since when it has not taken all there was; 0: it has
    uint64_t window_ack; // bytes that the client's machine had acknowledged by then
    double look_s;       // when to look for more to send; INFINITY: not before the job is posted

    char in[FXI_CONN_IN_BYTES], out[FXI_CONN_OUT_BYTES];
} fxi_conn;

typedef struct fxi_loop {
    int epoll_fd, wake_fd, listen_fd; // the last is the server's
    fxi_identity *identity;           // NULL: no TLS
    fxi_places places;
    fxi_conn *dead;        // freed at the end of a round
    fxi_conn *spare;       // NULL: in use
    double accept_again_s; // no file was free for a connection; INFINITY: accepts
    double trim_s;         // when the heap is trimmed; INFINITY: it has been
    int n_linger;
    double date_s; // when the text was made
    char date[32]; // of the Date header
    pthread_t thread;
    bool started;

    pthread_mutex_t mu; // a leaf; guards what follows
    struct fxi_http_job *first_ready, **last_ready;
    bool is_woken, is_closing, stop;
} fxi_loop;

// ---- loop.c -------------------------------------------------------------------------------------

void fxi_loop_init(fxi_loop *l);
// Listens on l->listen_fd from now on. Errors: FX_EIO, FX_EINTERNAL, FX_ENOMEM.
fx_status fxi_loop_start(struct fxi_server *srv, fx_error *err);
// Stops accepting connections; the socket stays open.
void fxi_loop_quiesce(fxi_loop *l);
// Closes all connections and joins the thread; allowed after a failed start.
void fxi_loop_stop(fxi_loop *l);
void fxi_loop_free(fxi_loop *l); // once nobody posts any more

// ---- job.c: the jobs that the loop is to look at -----------------------------------------------

void fxi_loop_wake(fxi_loop *l); // if a job has been posted; any thread
void fxi_loop_wake_locked(fxi_loop *l);
// Takes the next one, with a reference; NULL: there is none.
struct fxi_http_job *fxi_loop_pop(fxi_loop *l);

// ---- conn.c -------------------------------------------------------------------------------------

// The socket is ready for these events of epoll.
void fxi_conn_on_events(fxi_conn *c, uint32_t events);
// The job may have something to send.
void fxi_conn_look(fxi_conn *c);
// The callbacks of the places.
void fxi_conn_give_up(fxi_place *p);
void fxi_conn_on_due(fxi_place *p, double now_s);
// Begins a connection; closes it if no more is to be told to the client.
void fxi_conn_begin(fxi_conn *c);

typedef enum fxi_outcome { FXI_ANSWERED, FXI_CLIENT_GONE, FXI_SHUT_DOWN } fxi_outcome;

// Ends the request, if there is one, and the connection, which is freed at the end of the round.
void fxi_conn_close(fxi_conn *c, fxi_outcome outcome);

// ---- respond.c: the next bytes of a stream ------------------------------------------------------

typedef enum fxi_fill { FXI_FILLED, FXI_NOTHING_YET, FXI_FILL_CUT } fxi_fill;

// Adds the next bytes of the job's stream to `out`, which is empty or holds the head. Clears
// is_stream with the last ones. FXI_FILL_CUT: the stream cannot be completed.
fxi_fill fxi_respond_fill(fxi_conn *c);
// Begins the response of a job that a worker has, once there is something to send.
void fxi_respond_reply(fxi_conn *c);

#endif
