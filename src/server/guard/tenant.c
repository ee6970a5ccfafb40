// tenant.c - the anonymous tenant, and the names of cache domains.
#include "server/guard/tenant.h"

const fxi_tenant *fxi_tenant_anonymous(void)
{
    static const fxi_tenant anonymous = {.id = "anonymous", .salt = "anonymous"};
    return &anonymous;
}

// Neither salt nor scope contains '/', so the first two of them end salt and scope.
bool fxi_tenant_domain(fxi_buf *b, const fxi_tenant *t, const char *scope, const char *cache_salt)
{
    return fxi_buf_str(b, t->salt) && fxi_buf_str(b, "/") && fxi_buf_str(b, scope) &&
           fxi_buf_str(b, "/") && fxi_buf_str(b, cache_salt ? cache_salt : "");
}
