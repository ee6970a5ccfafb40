// keys.h - API keys and tenants: which client a request is from, as far as policy is concerned. No
// sockets.
#ifndef FXI_SERVER_KEYS_H
#define FXI_SERVER_KEYS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/keyed/hash.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "flexinfer/error.h"
#include "server/guard/places.h"

// ---- tenants ------------------------------------------------------------------------------------

// Every request has a tenant. With API keys it is the one that the key belongs to, without keys it
// is the anonymous one. A tenant shares cached prefixes with itself only: its salt is part of the
// name of every cache domain that its requests use (fx_request.tenant).

#define FXI_TENANT_ID_BYTES 48

// Immutable once made, so any thread may read it.
typedef struct fxi_tenant {
    char id[FXI_TENANT_ID_BYTES];       // letters, digits and "_.-": fit for logs and metrics
    char salt[FXI_TENANT_ID_BYTES + 8]; // no two tenants have the same; without '/'
    bool is_admin;                      // may use the admin endpoints
    int max_priority; // highest fx_request.priority of its requests, 0 .. FX_MAX_PRIORITY
} fxi_tenant;

// The tenant of requests without a key, not an admin, that may not raise its priority. Static.
const fxi_tenant *fxi_tenant_anonymous(void);
// Gives back what fxi_keyring_find returned; the anonymous tenant is left alone. Any thread.
void fxi_tenant_release(const fxi_tenant *t);

// A number for the client of a request: that of its tenant, or, for the anonymous one, of the
// address that it comes from. Clients take turns, so more connections buy nobody more of the
// server. Two clients have the same number by chance only: nobody can choose an address that has
// another's, who does not know the secret. Never 0.
uint64_t fxi_tenant_client(const fxi_tenant *t, const fxi_address *from, fxi_secret secret);

// Appends the name of the cache domain of one request: the tenant's salt, then `scope`, which parts
// clients of one tenant ("": it does not; must not contain '/'), then the client's own cache_salt
// (NULL: none). Different triples give different names. False: out of memory.
bool fxi_tenant_domain(fxi_buf *b, const fxi_tenant *t, const char *scope, const char *cache_salt);

// ---- the ring of keys ---------------------------------------------------------------------------

// Keys are read from a file, replaced while the server runs, and compared in constant time.
//
// The file has one key a line: `NAME KEY [admin] [priority=N]`; empty lines and those that begin
// with # do not count. NAME is the tenant: letters, digits and "_.-". Several keys may have one
// name, so that a key can be replaced without a gap; they share cached prefixes. KEY is 1 to 256
// printable ASCII characters. priority is the highest fx_request.priority of its requests (0).

enum { FXI_MAX_KEY = 1024, FXI_MAX_KEY_BYTES = 256 };

typedef struct fxi_keyring fxi_keyring;

// Reads the keys of `file` (NULL: none); `key`, if not NULL, is one more, of the tenant "default".
// Without both the ring is empty. Errors: FX_EINVAL ("keys.txt, line 3: ..", no key in the file, a
// key that is not one), FX_EIO, FX_ENOMEM.
fx_status fxi_keyring_open(const char *file, const char *key, fxi_keyring **out, fx_error *err);
void fxi_keyring_close(fxi_keyring *ring); // tenants live until released; ring may be NULL

// Reads the file again. After an error the keys are those from before. Any thread.
fx_status fxi_keyring_reload(fxi_keyring *ring, fx_error *err);

typedef struct fxi_keyring_facts {
    int n_key;
    bool has_admin;
    bool is_exposed; // the file can be read by others than its owner
} fxi_keyring_facts;

fxi_keyring_facts fxi_keyring_look(fxi_keyring *ring); // any thread

// The tenant of a key, to be released; NULL: there is no such key. The time that it takes depends
// on the length of `key` and the number of keys only. Any thread.
const fxi_tenant *fxi_keyring_find(fxi_keyring *ring, const char *key);

// ---- the keys of one file as data, for keys.c and tests -----------------------------------------

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
void fxi_key_set_clear(fxi_key_set *set); // drops the set's references

#endif
