// address.h - clients by address, and how many connections each address has.
//
// An IPv6 client usually has a whole network of 2^64 addresses, so those count as one. An IPv4
// address written as IPv6 is the IPv4 address.
#ifndef FXI_SERVER_ADDRESS_H
#define FXI_SERVER_ADDRESS_H

#include <stdbool.h>

#include "base/keyed/secret.h"

struct sockaddr;

typedef struct fxi_address {
    unsigned char byte[16]; // IPv6, or IPv4 as ::ffff:a.b.c.d; the last 8 of an IPv6 one are 0
} fxi_address;

#define FXI_ADDRESS_TEXT_BYTES 48

// All zero for anything but IPv4 and IPv6.
fxi_address fxi_address_of(const struct sockaddr *a);
bool fxi_address_is_loopback(const fxi_address *a);
// "203.0.113.9", "2001:db8::"; returns text.
const char *fxi_address_text(const fxi_address *a, char text[FXI_ADDRESS_TEXT_BYTES]);

typedef struct fxi_visitor { // an address with at least one connection
    fxi_address address;
    int n_conn;
    struct fxi_visitor *next;
} fxi_visitor;

enum { FXI_N_VISITOR_BUCKET = 256 };

typedef struct fxi_crowd { // all zero but for the secret: empty. The caller locks it.
    fxi_secret secret;     // fxi_secret_make
    fxi_visitor *bucket[FXI_N_VISITOR_BUCKET];
} fxi_crowd;

// Counts one more connection of this address. NULL: out of memory.
fxi_visitor *fxi_crowd_enter(fxi_crowd *c, const fxi_address *a);
void fxi_crowd_leave(fxi_crowd *c, fxi_visitor *v); // frees v with its last connection

#endif
