// url.h - an http:// or https:// URL in its parts.
#ifndef FXI_BASE_URL_H
#define FXI_BASE_URL_H

#include <stdbool.h>

#include "flexinfer/error.h"

typedef struct fxi_url {
    char host[256];  // a name or an address, an IPv6 one without its brackets
    char port[6];    // "80" or "443" where the URL has none
    char path[1024]; // with the query, from its '/' on; "/" where the URL has none
    bool is_v6, is_tls;
} fxi_url;

// Takes http[s]://HOST[:PORT][/PATH] apart. Errors: FX_EINVAL: another scheme, a user's name, a bad
// port, characters that no URL has, a part that is too long.
fx_status fxi_url_parse(const char *text, fxi_url *out, fx_error *err);

#endif
