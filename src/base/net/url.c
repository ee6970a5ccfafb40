// url.c - a URL in its parts (RFC 3986, what HTTP uses of it).
#include "base/net/url.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY

// *rest: what follows the scheme.
static fx_status take_scheme(const char *text, fxi_url *u, const char **rest, fx_error *err)
{
    static const char plain[] = "http://", tls[] = "https://";
    u->is_tls = !strncasecmp(text, tls, sizeof tls - 1);
    if (!u->is_tls && strncasecmp(text, plain, sizeof plain - 1) != 0)
        return fxi_fail(err, FX_EINVAL, "'%.100s' is not a URL like http://HOST:PORT/PATH", text);
    *rest = text + (u->is_tls ? sizeof tls : sizeof plain) - 1;
    for (const char *p = text; *p; p++)
        if (*p <= ' ' || *p > '~' || *p == '#')
            return fxi_fail(err, FX_EINVAL, "the URL has a character that is not allowed at %zu",
                            (size_t)(p - text));
    return FX_OK;
}

// Copies p[0..n) as a text. False: it does not fit.
static bool copy_url_part(char *dst, size_t cap, const char *p, size_t n)
{
    if (n >= cap) return false;
    memcpy(dst, p, n);
    dst[n] = 0;
    return true;
}

// A port from 1 to 65535 in p[0..n); none: the scheme's.
static bool take_port(fxi_url *u, const char *p, size_t n)
{
    if (!n) return copy_url_part(u->port, sizeof u->port, u->is_tls ? "443" : "80", 2 + u->is_tls);
    if (n > 5 || strspn(p, "0123456789") < n) return false;
    copy_url_part(u->port, sizeof u->port, p, n);
    const int port = atoi(u->port);
    return port > 0 && port < 65536;
}

// HOST or HOST:PORT in p[0..n).
static bool take_authority(fxi_url *u, const char *p, size_t n)
{
    const char *close = *p == '[' ? memchr(p, ']', n) : NULL;
    u->is_v6 = close != NULL;
    if (*p == '[' && !close) return false;
    const char *host = p + u->is_v6;
    const char *colon = close ? close + 1 : memchr(p, ':', n);
    if (close && colon < p + n && *colon != ':') return false;
    if (!colon || colon > p + n) colon = p + n;
    const size_t n_host = (size_t)((close ? close : colon) - host);
    const size_t n_port = colon < p + n ? (size_t)(p + n - colon - 1) : 0;
    return n_host > 0 && copy_url_part(u->host, sizeof u->host, host, n_host) &&
           take_port(u, colon + 1, n_port);
}

fx_status fxi_url_parse(const char *text, fxi_url *out, fx_error *err)
{
    *out = (fxi_url){.path = "/"};
    const char *at;
    FX_TRY(take_scheme(text, out, &at, err));
    const char *path = at + strcspn(at, "/?");
    if (memchr(at, '@', (size_t)(path - at)))
        return fxi_fail(err, FX_EINVAL, "the URL must not have a user's name");
    if (!take_authority(out, at, (size_t)(path - at)))
        return fxi_fail(err, FX_EINVAL, "'%.100s': the host or its port is not valid", text);
    const size_t at_path = *path == '?'; // "/" comes before a query
    if (*path &&
        !copy_url_part(out->path + at_path, sizeof out->path - at_path, path, strlen(path)))
        return fxi_fail(err, FX_EINVAL, "the URL's path is longer than %zu bytes",
                        sizeof out->path - 2);
    return FX_OK;
}
