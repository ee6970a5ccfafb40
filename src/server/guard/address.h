// address.h - addresses of clients, and how many connections each of them has.
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

// Counts one more connection of this address.
fxi_address_entry *fxi_address_table_enter(fxi_address_table *t, const fxi_address *a);
// Counts one less; frees the entry with the last one.
void fxi_address_table_leave(fxi_address_table *t, fxi_address_entry *e);

#endif
