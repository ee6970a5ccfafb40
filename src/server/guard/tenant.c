// tenant.c - the anonymous tenant, clients by number, and the names of cache domains.
#include "server/guard/tenant.h"

#include <string.h>

const fxi_tenant *fxi_tenant_anonymous(void)
{
    static const fxi_tenant anonymous = {.id = "anonymous", .salt = "anonymous"};
    return &anonymous;
}

uint64_t fxi_tenant_client(const fxi_tenant *t, const fxi_address *from, fxi_secret secret)
{
    if (t == fxi_tenant_anonymous())
        return fxi_secret_hash(secret, from->byte, sizeof from->byte) | 1;
    return fxi_secret_hash(secret, t->salt, strlen(t->salt)) | 1;
}

// Neither salt nor scope contains '/', so the first two of them end salt and scope.
bool fxi_tenant_domain(fxi_buf *b, const fxi_tenant *t, const char *scope, const char *cache_salt)
{
    return fxi_buf_str(b, t->salt) && fxi_buf_str(b, "/") && fxi_buf_str(b, scope) &&
           fxi_buf_str(b, "/") && fxi_buf_str(b, cache_salt ? cache_salt : "");
}
