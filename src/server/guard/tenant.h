// tenant.h - who a request is from, as far as policy is concerned: pure data, no sockets.
//
// Every request has a tenant. With API keys it is the one that the key belongs to, without keys it
// is the anonymous one. A tenant shares cached prefixes with itself only: its salt is part of the
// name of every cache domain that its requests use (fx_request.tenant).
#ifndef FXI_SERVER_TENANT_H
#define FXI_SERVER_TENANT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/keyed/secret.h"
#include "base/text/buf.h"
#include "server/guard/address.h"

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

#endif
