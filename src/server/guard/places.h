// places.h - open connections: their clients' addresses, and the places that they take.
#ifndef FXI_SERVER_PLACES_H
#define FXI_SERVER_PLACES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/keyed/hash.h"

// ---- addresses ----------------------------------------------------------------------------------

// Addresses of clients, and how many connections each of them has.
//
// An IPv6 client usually has a whole network of 2^64 addresses, so those count as one. An IPv4
// address written as IPv6 is the IPv4 address.

struct sockaddr;

typedef struct fxi_address {
    unsigned char byte[16]; // IPv6, or IPv4 as ::ffff:a.b.c.d; the last 8 of an IPv6 one are 0;
                            // a user as no network writes one
} fxi_address;

#define FXI_ADDRESS_TEXT_BYTES 48

// All zero for anything but IPv4 and IPv6.
fxi_address fxi_address_of(const struct sockaddr *a);
// Of a user of this machine, who came through a file's socket.
fxi_address fxi_address_of_user(uint32_t uid);
bool fxi_address_is_loopback(const fxi_address *a);
// "203.0.113.9", "2001:db8::", "uid:1000"; returns text.
const char *fxi_address_text(const fxi_address *a, char text[FXI_ADDRESS_TEXT_BYTES]);

typedef struct fxi_address_entry { // an address with at least one connection
    fxi_address address;
    int n_conn;
    struct fxi_address_entry *next;
} fxi_address_entry;

enum { FXI_N_ADDRESS_BUCKET = 256 };

typedef struct fxi_address_table { // all zero but for the secret: empty. The caller locks it.
    fxi_secret secret;             // fxi_secret_make
    fxi_address_entry *bucket[FXI_N_ADDRESS_BUCKET];
    fxi_address_entry other; // all addresses that there was no memory for
} fxi_address_table;

// ---- places -------------------------------------------------------------------------------------

// The places of open connections: how many there may be, until when each may stay in its phase,
// and which ones make room for others. Pure data: no sockets, and the clock is the caller's.
//
// A client that sends a byte now and then would hold a connection for ever, and a thousand of them
// would shut all others out. So each phase has a deadline, whatever arrives meanwhile, and when all
// places are taken, connections that do no work make room:
//
//   phase    the connection                     deadline from its start   makes room
//   FRESH    is open; nothing has arrived       10 s (header_timeout_s)   second
//   HEAD     sends the head of a request        that of FRESH, or 10 s    second
//   BODY     sends the body                     60 s (body_timeout_s)     third
//   BUSY     waits for its answer, or reads it  the caller's              never
//   IDLE     is between two requests            60 s (idle_timeout_s)     first
//   LINGER   has got its last answer            the caller's              holds no place
//   CLOSED   is closed                          none                      holds no place
//
// One thread owns all of it.

typedef enum fxi_phase {
    FXI_PHASE_FRESH,
    FXI_PHASE_HEAD,
    FXI_PHASE_BODY,
    FXI_PHASE_BUSY,
    FXI_PHASE_IDLE,
    FXI_PHASE_LINGER,
    FXI_PHASE_CLOSED,
    FXI_N_PHASE
} fxi_phase;

typedef struct fxi_place { // part of a connection
    struct fxi_place *prev, *next;
    uint64_t serial; // no other place has had it
    fxi_address address;
    fxi_address_entry *from; // counts the connections of this address
    fxi_phase phase;
    double since_s, due_s; // the phase's start; when the caller's on_due is called
    int refused;           // 429 or 503: one place too many, every request gets this; 0: none
} fxi_place;

typedef struct fxi_places {
    // Immutable after start.
    int max_conn, max_per_address;  // the latter 0: no limit
    bool spare_loopback;            // the limit per address is not for this machine
    double deadline_s[FXI_N_PHASE]; // 0: none, or the caller's
    // Called for a place that makes room for another: must move it to LINGER or CLOSED.
    void (*give_up)(fxi_place *p);
    // Called once due_s has passed: must move the place, or its due_s into the future.
    void (*on_due)(fxi_place *p, double now_s);

    fxi_place *first;
    int n_place, n_refused; // n_refused: of the open ones
    uint64_t next_serial;
    double next_due_s; // no place is due before
    fxi_address_table addresses;
} fxi_places;

// Adds a new connection, FRESH. May make others give up theirs; sets p->refused where there is no
// place. False: more connections wait for their refusal than may; p has not been added.
bool fxi_places_enter(fxi_places *ps, fxi_place *p, const fxi_address *a, double now_s);
void fxi_places_leave(fxi_places *ps, fxi_place *p);
void fxi_places_move(fxi_places *ps, fxi_place *p, fxi_phase phase, double now_s);
// Makes on_due happen at due_s in place of the phase's own deadline.
void fxi_places_set_due(fxi_places *ps, fxi_place *p, double due_s);
// Calls on_due for what is due. Returns when to call this again; INFINITY: nothing is due.
double fxi_places_expire(fxi_places *ps, double now_s);

#endif
