// origin.c - Host and Origin headers against the names that the server is known by.
#include "server/guard/origin.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text/str.h" // defines: fxi_list_has

#define MAX_HOST_BYTES 256 // a name of the DNS has at most 253

bool fxi_name_list_has(const fxi_name_list *list, const char *name)
{
    bool has = false;
    for (size_t i = 0; !has && i < list->n; i++) has = fxi_list_has(list->text[i], ",", name);
    return has;
}

const char *fxi_host_file(const char *host)
{
    return strncmp(host, "unix:", 5) ? NULL : host + 5;
}

// ---- Host -------------------------------------------------------------------------------------

// "name:80", "127.0.0.1", "[::1]:80" to the name alone, without brackets and the dot that ends a
// full name. False: it is none of these.
static bool split_host(const char *host, char name[MAX_HOST_BYTES])
{
    const bool v6 = host[0] == '[';
    const char *from = host + v6, *end = from + strcspn(from, v6 ? "]" : ":");
    if (v6 && !*end) return false;
    const char *port = end + v6;
    if (*port && (*port != ':' || port[1 + strspn(port + 1, "0123456789")])) return false;
    size_t n = (size_t)(end - from);
    if (!v6 && n && from[n - 1] == '.') n--;
    if (!n || n >= MAX_HOST_BYTES) return false;
    memcpy(name, from, n);
    name[n] = 0;
    return true;
}

typedef enum address_kind { NO_ADDRESS, ANY_ADDRESS, LOOPBACK, OTHER_ADDRESS } address_kind;

static address_kind kind_of(const char *name)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, name, &v4) == 1) {
        if (!v4.s_addr) return ANY_ADDRESS;
        return ntohl(v4.s_addr) >> 24 == 127 ? LOOPBACK : OTHER_ADDRESS;
    }
    if (inet_pton(AF_INET6, name, &v6) != 1) return NO_ADDRESS;
    if (IN6_IS_ADDR_UNSPECIFIED(&v6)) return ANY_ADDRESS;
    return IN6_IS_ADDR_LOOPBACK(&v6) ? LOOPBACK : OTHER_ADDRESS;
}

bool fxi_host_is_known(const fxi_origins *o, const char *host)
{
    char name[MAX_HOST_BYTES];
    if (fxi_name_list_has(&o->hosts, "*") || fxi_host_file(o->listen_host)) return true;
    if (!split_host(host, name)) return false;
    const address_kind kind = kind_of(name);
    if (kind == LOOPBACK || !strcasecmp(name, "localhost")) return true;
    if (!strcasecmp(name, o->listen_host)) return true;
    if (kind != NO_ADDRESS && kind_of(o->listen_host) == ANY_ADDRESS) return true;
    return fxi_name_list_has(&o->hosts, name);
}

// ---- Origin -----------------------------------------------------------------------------------

// An origin without a port means the scheme's own, and so does a Host header.
static const char *without_port(const char *host, const char *port, char text[MAX_HOST_BYTES])
{
    snprintf(text, MAX_HOST_BYTES, "%s", host);
    const size_t n = strlen(text), n_port = strlen(port);
    if (n > n_port && !strcmp(text + n - n_port, port)) text[n - n_port] = 0;
    return text;
}

bool fxi_origin_is_allowed(const fxi_origins *o, const char *origin, const char *host)
{
    const char *scheme = o->tls ? "https://" : "http://", *port = o->tls ? ":443" : ":80";
    char page[MAX_HOST_BYTES], here[MAX_HOST_BYTES];
    if (fxi_name_list_has(&o->cors, "*") || fxi_name_list_has(&o->cors, origin)) return true;
    if (!fxi_host_is_known(o, host)) return false;
    if (strncasecmp(origin, scheme, strlen(scheme)) != 0) return false;
    without_port(origin + strlen(scheme), port, page);
    return !strcasecmp(page, without_port(host, port, here));
}
