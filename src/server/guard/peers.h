// peers.h - the open connections: who they are, what they are doing, and until when they may.
//
// MHD only closes connections that are silent. A client that sends a byte now and then would hold
// one for ever, and a thousand of them would shut all others out. So each connection has a phase
// with a deadline, and when all places are taken, those that do no work make room:
//
//   FRESH -> HEAD -> BODY -> BUSY -> IDLE -> HEAD -> ..       any phase -> CUT -> closed by MHD
//
// FRESH and HEAD end after header_s, BODY after body_s, IDLE after idle_s, whatever arrives in
// between. BUSY has no deadline here: there the server works, or MHD sends (watch.c has one for
// that). A connection is cut by
// shutting its socket down, which MHD sees as the end of the client; its descriptor stays open
// until MHD has told that it closes it, so no other file can be hit.
#ifndef FXI_SERVER_PEERS_H
#define FXI_SERVER_PEERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/guard/address.h"

typedef enum fxi_peer_phase {
    FXI_PEER_FRESH, // connected; no request has begun
    FXI_PEER_HEAD,  // the request line has been read
    FXI_PEER_BODY,  // the head has been read
    FXI_PEER_BUSY,  // the request has been read
    FXI_PEER_IDLE,  // between two requests
    FXI_PEER_CUT,   // shut down
    FXI_N_PEER_PHASE
} fxi_peer_phase;

typedef struct fxi_peer {
    struct fxi_peer *prev, *next;
    uint64_t serial;
    int fd;
    fxi_visitor *visitor;
    // The I/O thread's own.
    const char *target; // of the request line, before MHD unescapes it in place
    size_t n_target;    // its bytes
    bool target_is_bad;
    // Guarded by fxi_peers.mu.
    fxi_peer_phase phase;
    double since_s, due_s; // of the phase
    int refused;           // 429 or 503: one place too many; every request gets this
    int cut_status;        // with CUT: the status that fits, 0: none was told
} fxi_peer;

typedef struct fxi_peer_counts { // so far
    uint64_t n_late; // closed because a head or a body was not complete in time, or an answer
                     // not read
    uint64_t n_crowded_out; // closed to make room
    uint64_t n_refused;     // refused because every place, or every place of an address, was busy
} fxi_peer_counts;

typedef struct fxi_peers {
    // Immutable after start.
    int max_conn, max_per_address;       // the latter 0: no limit
    bool spare_loopback;                 // the limit per address is not for this machine
    bool tls;                            // nothing can be written beside MHD
    double deadline_s[FXI_N_PEER_PHASE]; // of a phase; 0: none

    pthread_mutex_t mu;
    fxi_peer *head; // guarded by mu, as is all below
    int n_peer, n_cut, n_refused;
    uint64_t next_serial;
    double wake_s; // when the watcher looks again
    fxi_crowd crowd;
    fxi_peer_counts counts;
} fxi_peers;

// Adds a connection; may cut others, or refuse it, where there is no place. NULL: out of memory.
// *wake: the watcher must look earlier than it would.
fxi_peer *fxi_peers_enter(fxi_peers *ps, int fd, const fxi_address *a, bool *wake);
void fxi_peers_leave(fxi_peers *ps, fxi_peer *p); // before its descriptor is closed

// Moves a connection to a phase, which begins now. False: it has been cut.
bool fxi_peers_move(fxi_peers *ps, fxi_peer *p, fxi_peer_phase phase, bool *wake);
// Cuts a connection whose client takes too long to read.
void fxi_peers_cut(fxi_peers *ps, fxi_peer *p);
// 0, or the status with which every request of this connection is refused.
int fxi_peers_refusal(fxi_peers *ps, const fxi_peer *p);
// The status to log of a request that ended because its connection was cut; 0: it was not.
int fxi_peers_cut_status(fxi_peers *ps, const fxi_peer *p);
// Remembers the target of the request line, and whether it is one: no spaces or control characters,
// no NUL in any form.
void fxi_peer_take_target(fxi_peer *p, const char *target);

// Cuts what is late. Returns when to look again: in FXI_PEERS_LOOK_S at the latest, so that a
// request whose deadlines are later wakes nobody; INFINITY: not before the next connection.
#define FXI_PEERS_LOOK_S 5.0
double fxi_peers_expire(fxi_peers *ps, double now_s);

typedef struct fxi_peers_now {
    int n_conn, n_idle, n_refused; // n_conn: of all phases but CUT
    fxi_peer_counts counts;
} fxi_peers_now;

fxi_peers_now fxi_peers_look(fxi_peers *ps);

#endif
