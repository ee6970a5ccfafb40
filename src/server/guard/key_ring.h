// key_ring.h - API keys: read from a file, replaced while the server runs, compared in constant
// time.
//
// The file has one key a line: `NAME KEY [admin] [priority=N]`; empty lines and those that begin
// with # do not count. NAME is the tenant: letters, digits and "_.-". Several keys may have one
// name, so that a key can be replaced without a gap; they share cached prefixes. KEY is 1 to 256
// printable ASCII characters. priority is the highest fx_request.priority of its requests (0).
#ifndef FXI_SERVER_KEYS_H
#define FXI_SERVER_KEYS_H

#include "flexinfer/error.h"
#include "server/guard/tenant.h"

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

#endif
