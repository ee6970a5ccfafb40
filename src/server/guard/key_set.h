// key_set.h - the keys of one file as data; what key_ring.c and its tests share with the reader.
#ifndef FXI_SERVER_KEY_SET_H
#define FXI_SERVER_KEY_SET_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/text/str.h"
#include "server/guard/key_ring.h"

typedef struct fxi_key {
    fxi_tenant tenant; // first: a tenant's address is that of its key
    atomic_int refs;
    char text[FXI_MAX_KEY_BYTES + 1];
    size_t n_bytes;
} fxi_key;

typedef struct fxi_key_set { // all zero: empty
    fxi_key *key[FXI_MAX_KEY];
    int n;
} fxi_key_set;

// Adds the keys of a file's text; `name` is for messages. Errors: FX_EINVAL, FX_ENOMEM; the set
// keeps what was read before.
fx_status fxi_key_set_read(fxi_key_set *set, const char *text, size_t n_bytes, const char *name,
                           fx_error *err);
// Adds one key of this tenant; `where` begins the message.
fx_status fxi_key_set_add(fxi_key_set *set, const fxi_tenant *t, fxi_str key, const char *where,
                          fx_error *err);
void fxi_key_set_clear(fxi_key_set *set); // drops the set's references

#endif
